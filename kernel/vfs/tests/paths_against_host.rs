//! Random histories of calls on paths, here and in a directory of the host. Every call must have
//! the same outcome, with the same errno.
//!
//! It is alone in its process, whose umask and limit of descriptors it changes.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fdtable::Fd;
use fdtable_vfs::{
    At, AtFlags, Errno, FileKind, Mode, OpenFlags, Process, RenameFlags, Stat, UnlinkFlags,
};
use rustix::fs as host;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Number of histories, and of calls in each: a few seconds in all.
const HISTORIES: u64 = 150;
const CALLS: usize = 80;

/// Paths of a small world, so that calls often meet. Directories above `w` are not touched.
const PATHS: [&str; 26] = [
    "a", "b", "a/b", "a/b/", "a/", "b/", "b/a", "a/b/c", "a/../b", "./a", "a/.", "a/..", ".", "..",
    "../w/a", "b/../a/b", "l", "l/", "l/b", "l/..", "l/.", "m", "m/a", "m/", "", "a//b",
];

/// Targets of symbolic links: dangling, in cycles, with a trailing `/`.
const TARGETS: [&str; 9] = ["a", "b", "a/b", "l", "m", "a/", "../w/a", ".", "none/a"];

const FLAGS: [OpenFlags; 12] = [
    OpenFlags::empty(),
    OpenFlags::CREAT,
    OpenFlags::EXCL,
    OpenFlags::TRUNC,
    OpenFlags::DIRECTORY,
    OpenFlags::NOFOLLOW,
    OpenFlags::PATH,
    OpenFlags::APPEND,
    OpenFlags::NOATIME,
    OpenFlags::WRONLY,
    OpenFlags::RDWR,
    OpenFlags::NOCTTY,
];

/// A call with its arguments.
#[derive(Clone, Debug)]
enum Call {
    Open(&'static str, OpenFlags, u32),
    /// An open without a free descriptor.
    OpenFull(&'static str, OpenFlags),
    Mkdir(&'static str, u32),
    Unlink(&'static str),
    Rmdir(&'static str),
    Rename(&'static str, &'static str, RenameFlags),
    Link(&'static str, &'static str, AtFlags),
    Symlink(&'static str, &'static str),
    Readlink(&'static str),
    Stat(&'static str, AtFlags),
    Chmod(&'static str, u32),
    Mkfifo(&'static str),
    Access(&'static str),
    Names(&'static str),
}

/// Comparable part of an outcome.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done,
    Text(Vec<u8>),
    Stat(Seen),
    Names(Vec<Vec<u8>>),
}

/// Attributes that must be the same on both sides.
#[derive(Debug, PartialEq)]
struct Seen {
    mode: u32,
    /// Not of a directory, where some file systems count differently.
    links: Option<u64>,
    size: Option<u64>,
}

type Result<T> = std::result::Result<T, i32>;

fn random(seed: &mut u64, bound: usize) -> usize {
    *seed = seed
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*seed >> 33) as usize % bound
}

fn choose<T: Copy>(seed: &mut u64, from: &[T]) -> T {
    from[random(seed, from.len())]
}

fn call(seed: &mut u64) -> Call {
    let path = choose(seed, &PATHS);
    let other = choose(seed, &PATHS);
    let mode = choose(seed, &[0o644, 0o600, 0o755, 0o700]);
    match random(seed, 20) {
        0..4 => {
            let flags = choose(seed, &FLAGS) | choose(seed, &FLAGS) | choose(seed, &FLAGS);
            // Access mode 3 opens for nothing on Linux, and is refused here.
            let both = flags.contains(OpenFlags::ACCMODE);
            let flags = if both {
                flags - OpenFlags::WRONLY
            } else {
                flags
            };
            match random(seed, 8) {
                0 => Call::OpenFull(path, flags),
                _ => Call::Open(path, flags, mode),
            }
        }
        4..7 => Call::Mkdir(path, mode),
        7 => Call::Unlink(path),
        8 => Call::Rmdir(path),
        9..12 => {
            let none = RenameFlags::empty();
            let all = [none, none, RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
            Call::Rename(path, other, choose(seed, &all))
        }
        12 => Call::Link(
            path,
            other,
            choose(seed, &[AtFlags::empty(), AtFlags::SYMLINK_FOLLOW]),
        ),
        13 => Call::Symlink(choose(seed, &TARGETS), path),
        14 => Call::Readlink(path),
        15 => Call::Stat(
            path,
            choose(seed, &[AtFlags::empty(), AtFlags::SYMLINK_NOFOLLOW]),
        ),
        16 => Call::Chmod(path, mode),
        17 => choose(seed, &[Call::Mkfifo as fn(_) -> _, Call::Access])(path),
        _ => Call::Names(path),
    }
}

/// One side of the comparison.
trait Side {
    fn run(&self, call: &Call) -> Result<Outcome>;
}

struct Here {
    process: Process,
    w: Fd,
}

struct Host {
    root: std::path::PathBuf,
    w: OwnedFd,
}

impl Here {
    fn new() -> Self {
        let process = Process::new();
        process.umask(Mode::new(0o022));
        process.mkdir("w").unwrap();
        let w = process.open("w", OpenFlags::DIRECTORY).unwrap();
        Here { process, w }
    }
}

impl Host {
    fn new(number: u64) -> Self {
        let name = format!("fdtable-paths-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        std::fs::create_dir_all(root.join("w")).unwrap();
        let flags = host::OFlags::DIRECTORY;
        let w = host::open(root.join("w"), flags, host::Mode::empty()).unwrap();
        Host { root, w }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn seen(stat: &Stat) -> Seen {
    let counted = stat.kind != FileKind::Directory;
    Seen {
        mode: stat.mode_bits(),
        links: counted.then_some(u64::from(stat.links)),
        size: counted.then_some(stat.size),
    }
}

// The type of the link count differs between CPU architectures.
#[allow(clippy::unnecessary_cast)]
fn seen_by_host(stat: &host::Stat) -> Seen {
    let counted = host::FileType::from_raw_mode(stat.st_mode) != host::FileType::Directory;
    Seen {
        mode: stat.st_mode,
        links: counted.then_some(stat.st_nlink as u64),
        size: counted.then_some(stat.st_size as u64),
    }
}

impl Side for Here {
    fn run(&self, call: &Call) -> Result<Outcome> {
        let (process, w) = (&self.process, self.w);
        let done = |outcome: std::result::Result<(), Errno>| outcome.map(|()| Outcome::Done);
        let outcome = match call.clone() {
            Call::Open(path, flags, mode) => process
                .openat(w, path, flags | OpenFlags::NONBLOCK, mode)
                .and_then(|fd| {
                    let seen = seen(&process.fstat(fd)?);
                    process.close(fd)?;
                    Ok(Outcome::Stat(seen))
                }),
            Call::OpenFull(path, flags) => {
                let former = process.getrlimit(fdtable_vfs::Resource::NoFile);
                let none = fdtable_vfs::Limit { soft: 0, ..former };
                process
                    .setrlimit(fdtable_vfs::Resource::NoFile, none)
                    .unwrap();
                let opened = process.openat(w, path, flags | OpenFlags::NONBLOCK, 0o600);
                process
                    .setrlimit(fdtable_vfs::Resource::NoFile, former)
                    .unwrap();
                opened.map(|_| Outcome::Done)
            }
            Call::Mkdir(path, mode) => done(process.mkdirat(w, path, mode)),
            Call::Unlink(path) => done(process.unlinkat(w, path, UnlinkFlags::empty())),
            Call::Rmdir(path) => done(process.unlinkat(w, path, UnlinkFlags::REMOVEDIR)),
            Call::Rename(old, new, flags) => done(process.renameat2(w, old, w, new, flags)),
            Call::Link(old, new, flags) => done(process.linkat(w, old, w, new, flags)),
            Call::Symlink(target, path) => done(process.symlinkat(target, w, path)),
            Call::Readlink(path) => process.readlinkat(w, path).map(Outcome::Text),
            Call::Stat(path, flags) => process
                .fstatat(w, path, flags)
                .map(|stat| Outcome::Stat(seen(&stat))),
            Call::Chmod(path, mode) => done(process.fchmodat(w, path, mode, AtFlags::empty())),
            Call::Mkfifo(path) => done(process.mknodat(w, path, FileKind::Fifo, 0o644)),
            Call::Access(path) => {
                done(process.faccessat(w, path, fdtable_vfs::AccessMode::READ, AtFlags::empty()))
            }
            Call::Names(path) => names(process, w, path).map(Outcome::Names),
        };
        outcome.map_err(Errno::errno)
    }
}

fn names(process: &Process, w: Fd, path: &str) -> std::result::Result<Vec<Vec<u8>>, Errno> {
    let fd = process.openat(At::from(w), path, OpenFlags::DIRECTORY, Mode::NONE)?;
    let mut names = Vec::new();
    loop {
        let some = process.read_dir(fd, 2)?;
        if some.is_empty() {
            break;
        }
        names.extend(some.iter().map(|entry| entry.name.to_vec()));
    }
    process.close(fd)?;
    names.sort();
    Ok(names)
}

impl Side for Host {
    fn run(&self, call: &Call) -> Result<Outcome> {
        let w = self.w.as_fd();
        let mode = host::Mode::from_raw_mode;
        let at = |flags: AtFlags| host::AtFlags::from_bits_retain(flags.bits());
        let done = |outcome: rustix::io::Result<()>| outcome.map(|()| Outcome::Done);
        let outcome = match call.clone() {
            Call::Open(path, flags, bits) => {
                let flags = (flags | OpenFlags::NONBLOCK).bits();
                host::openat(w, path, host::OFlags::from_bits_retain(flags), mode(bits))
                    .and_then(host::fstat)
                    .map(|stat| Outcome::Stat(seen_by_host(&stat)))
            }
            Call::OpenFull(path, flags) => {
                let former = getrlimit(Resource::Nofile);
                let none = Rlimit {
                    current: Some(0),
                    ..former
                };
                let flags = host::OFlags::from_bits_retain((flags | OpenFlags::NONBLOCK).bits());
                setrlimit(Resource::Nofile, none).unwrap();
                let opened = host::openat(w, path, flags, mode(0o600));
                setrlimit(Resource::Nofile, former).unwrap();
                opened.map(|_| Outcome::Done)
            }
            Call::Mkdir(path, bits) => done(host::mkdirat(w, path, mode(bits))),
            Call::Unlink(path) => done(host::unlinkat(w, path, host::AtFlags::empty())),
            Call::Rmdir(path) => done(host::unlinkat(w, path, host::AtFlags::REMOVEDIR)),
            Call::Rename(old, new, flags) => {
                let flags = host::RenameFlags::from_bits_retain(flags.bits());
                done(host::renameat_with(w, old, w, new, flags))
            }
            Call::Link(old, new, flags) => done(host::linkat(w, old, w, new, at(flags))),
            Call::Symlink(target, path) => done(host::symlinkat(target, w, path)),
            Call::Readlink(path) => host::readlinkat(w, path, Vec::new())
                .map(|target| Outcome::Text(target.into_bytes())),
            Call::Stat(path, flags) => {
                host::statat(w, path, at(flags)).map(|stat| Outcome::Stat(seen_by_host(&stat)))
            }
            Call::Chmod(path, bits) => {
                done(host::chmodat(w, path, mode(bits), host::AtFlags::empty()))
            }
            Call::Mkfifo(path) => {
                done(host::mknodat(w, path, host::FileType::Fifo, mode(0o644), 0))
            }
            Call::Access(path) => done(host::accessat(
                w,
                path,
                host::Access::READ_OK,
                host::AtFlags::empty(),
            )),
            Call::Names(path) => names_of_host(w, path).map(Outcome::Names),
        };
        outcome.map_err(rustix::io::Errno::raw_os_error)
    }
}

fn names_of_host(w: BorrowedFd<'_>, path: &str) -> rustix::io::Result<Vec<Vec<u8>>> {
    let flags = host::OFlags::DIRECTORY;
    let fd = host::openat(w, path, flags, host::Mode::empty())?;
    let mut names = Vec::new();
    for entry in host::Dir::new(fd)? {
        names.push(entry?.file_name().to_bytes().to_vec());
    }
    names.sort();
    Ok(names)
}

/// Runs one history on both sides, and fails at the first difference.
fn compare(number: u64) {
    let (here, host) = (Here::new(), Host::new(number));
    let mut seed = number;
    let mut history = Vec::new();
    for _ in 0..CALLS {
        let call = call(&mut seed);
        let (ours, theirs) = (here.run(&call), host.run(&call));
        history.push(call);
        assert_eq!(ours, theirs, "history {number}: {history:#?}");
    }
}

#[test]
fn every_call_on_a_path_ends_as_on_the_host() {
    rustix::process::umask(host::Mode::from_raw_mode(0o022));
    (0..HISTORIES).for_each(compare);
}
