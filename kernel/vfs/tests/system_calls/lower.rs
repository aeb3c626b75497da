//! File systems over a lower directory: what is below is seen, and changes stay in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use fdtable::{FileRef, Files};
use fdtable_vfs::fs::{
    Lower, LowerBytes, LowerDevice, LowerDirectory, LowerFile, LowerInode, LowerName, Timestamp,
    VfsPath,
};
use fdtable_vfs::{
    At, AtFlags, Errno, FileKind, MemFs, MemFsLimits, Mode, OpenFlags, Process, RcuObject,
    RenameFlags, SeekTo, SharedMemory, Stat, Time, UnlinkFlags,
};
use parking_lot::Mutex;

use super::shared_memory::Memory;

const PAGE: u64 = 4096;
const NEW: OpenFlags = OpenFlags::CREAT
    .union(OpenFlags::RDWR)
    .union(OpenFlags::EXCL);

/// Calls that the file system has made, and the error of the next ones.
#[derive(Debug, Default)]
struct Calls {
    names: AtomicUsize,
    lookups: AtomicUsize,
    opens: AtomicUsize,
    bytes: AtomicUsize,
    fails: Mutex<Option<Errno>>,
    /// The error of the next searches for data.
    seek_fails: Mutex<Option<Errno>>,
    /// Barrier at which the threads in calls about names meet.
    meeting: Mutex<Option<Arc<Barrier>>>,
}

impl Calls {
    fn count(&self, counter: &AtomicUsize, by: usize) -> Result<(), Errno> {
        counter.fetch_add(by, Ordering::Relaxed);
        (*self.fails.lock()).map_or(Ok(()), Err)
    }

    fn meet(&self) {
        let meeting = self.meeting.lock().clone();
        if let Some(barrier) = meeting {
            barrier.wait();
        }
    }

    fn fail_with(&self, errno: Option<Errno>) {
        *self.fails.lock() = errno;
    }

    fn made(&self) -> [usize; 4] {
        [&self.names, &self.lookups, &self.opens, &self.bytes]
            .map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// A tree that a test makes.
#[derive(Clone, Debug)]
enum Tree {
    Directory(BTreeMap<&'static str, (Stat, Tree)>),
    /// Bytes from a position on, after a hole.
    File(u64, Arc<[u8]>),
    Link(&'static str),
    Fifo,
    Socket,
    Device,
}

#[derive(Debug)]
struct Directory(Stat, Tree, Arc<Calls>);

#[derive(Debug)]
struct File(Stat, u64, Arc<[u8]>, Arc<Calls>);

#[derive(Debug)]
struct Device;

impl Directory {
    fn entries(&self) -> &BTreeMap<&'static str, (Stat, Tree)> {
        let Tree::Directory(entries) = &self.1 else {
            panic!("not a directory")
        };
        entries
    }
}

impl LowerDirectory for Directory {
    fn stat(&self) -> Result<Stat, Errno> {
        Ok(self.0)
    }

    fn names(&self) -> Result<Vec<LowerName>, Errno> {
        self.2.count(&self.2.names, 1)?;
        if self.0.mode.bits() & 0o444 == 0 {
            return Err(Errno::EACCES);
        }
        self.2.meet();
        let name = |(name, (stat, _)): (&&str, &(Stat, Tree))| LowerName {
            name: name.as_bytes().into(),
            inode: stat.inode,
            kind: stat.kind,
        };
        Ok(self.entries().iter().map(name).collect())
    }

    fn lookup(&self, name: &[u8]) -> Result<LowerInode, Errno> {
        self.2.count(&self.2.lookups, 1)?;
        self.2.meet();
        let name = str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        let (stat, tree) = self.entries().get(name).ok_or(Errno::ENOENT)?;
        let calls = Arc::clone(&self.2);
        let file = match tree {
            Tree::Directory(_) => Lower::Directory(Arc::new(Directory(*stat, tree.clone(), calls))),
            Tree::File(hole, bytes) => {
                Lower::Regular(Arc::new(File(*stat, *hole, Arc::clone(bytes), calls)))
            }
            Tree::Link(target) => Lower::Symlink(target.as_bytes().into()),
            Tree::Fifo => Lower::Fifo,
            Tree::Socket => Lower::Socket,
            Tree::Device => Lower::Device(Arc::new(Device)),
        };
        Ok(LowerInode { stat: *stat, file })
    }
}

impl LowerFile for File {
    fn open(&self) -> Result<Arc<dyn LowerBytes>, Errno> {
        self.3.count(&self.3.opens, 1)?;
        if self.0.mode == Mode::NONE {
            return Err(Errno::EACCES);
        }
        let (stat, calls) = (self.0, Arc::clone(&self.3));
        Ok(Arc::new(File(stat, self.1, Arc::clone(&self.2), calls)))
    }
}

impl LowerBytes for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.3.count(&self.3.bytes, buf.len())?;
        if offset < self.1 {
            let hole = usize::try_from(self.1 - offset).unwrap().min(buf.len());
            buf[..hole].fill(0);
            return Ok(hole);
        }
        let from = usize::try_from(offset - self.1).unwrap();
        let there = self.2.get(from..).unwrap_or_default();
        // Short, as a read may be.
        let count = there.len().min(buf.len()).min(5000);
        buf[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    fn next_data(&self, from: u64) -> Result<Option<u64>, Errno> {
        (*self.3.seek_fails.lock()).map_or(Ok(()), Err)?;
        let end = self.1 + self.2.len() as u64;
        Ok((from < end).then_some(from.max(self.1)))
    }

    fn next_hole(&self, from: u64) -> Result<Option<u64>, Errno> {
        let end = self.1 + self.2.len() as u64;
        Ok(match from {
            _ if from >= end => None,
            _ if from < self.1 => Some(from),
            _ => Some(end),
        })
    }
}

impl LowerDevice for Device {
    fn open(&self, _flags: OpenFlags, _path: VfsPath) -> Result<FileRef<RcuObject>, Errno> {
        Err(Errno::from_raw(6))
    }
}

const DEVICE: u64 = 7777;

fn stat(kind: FileKind, inode: u64) -> Stat {
    Stat {
        device: DEVICE,
        uid: 1000,
        gid: 100,
        mtime: Timestamp {
            seconds: 1_000_000,
            nanos: 5,
        },
        ..Stat::new(kind, Mode::new(0o640), inode)
    }
}

fn file(inode: u64, bytes: impl Into<Arc<[u8]>>) -> (Stat, Tree) {
    sparse(inode, 0, bytes)
}

fn sparse(inode: u64, hole: u64, bytes: impl Into<Arc<[u8]>>) -> (Stat, Tree) {
    let bytes = bytes.into();
    let stat = Stat {
        size: hole + bytes.len() as u64,
        blocks: (bytes.len() as u64).div_ceil(PAGE) * 8,
        ..stat(FileKind::Regular, inode)
    };
    (stat, Tree::File(hole, bytes))
}

fn directory<const N: usize>(
    inode: u64,
    entries: [(&'static str, (Stat, Tree)); N],
) -> (Stat, Tree) {
    let entries = BTreeMap::from(entries);
    let is_directory = |(stat, _): &&(Stat, Tree)| stat.kind == FileKind::Directory;
    let links = 2 + entries.values().filter(is_directory).count() as u32;
    let stat = Stat {
        links,
        size: 4096,
        mode: Mode::new(0o755),
        ..stat(FileKind::Directory, inode)
    };
    (stat, Tree::Directory(entries))
}

/// The tree of most tests.
fn usual() -> (Stat, Tree) {
    let linked = |(stat, tree): (Stat, Tree)| (Stat { links: 2, ..stat }, tree);
    let special = |kind, inode, tree| (stat(kind, inode), tree);
    directory(
        2,
        [
            ("text", file(11, *b"below")),
            ("large", file(12, vec![7; 100_000])),
            ("sparse", sparse(13, 1 << 40, *b"end")),
            ("one", linked(file(14, *b"linked"))),
            ("secret", {
                let (stat, tree) = file(15, *b"secret");
                let mode = Mode::NONE;
                (Stat { mode, ..stat }, tree)
            }),
            ("link", special(FileKind::Symlink, 16, Tree::Link("tree/a"))),
            ("fifo", special(FileKind::Fifo, 17, Tree::Fifo)),
            ("socket", special(FileKind::Socket, 18, Tree::Socket)),
            ("device", {
                let (kind, rdev) = (FileKind::CharDevice, 1234);
                let stat = Stat {
                    rdev,
                    ..stat(kind, 19)
                };
                (stat, Tree::Device)
            }),
            (
                "tree",
                directory(
                    20,
                    [
                        ("a", file(21, *b"aa")),
                        ("b", file(22, *b"bb")),
                        ("two", linked(file(14, *b"linked"))),
                        ("deep", directory(23, [("c", file(24, *b"cc"))])),
                        ("hollow", directory(25, [])),
                    ],
                ),
            ),
        ],
    )
}

fn over(tree: (Stat, Tree), limits: MemFsLimits) -> (Process, Arc<Calls>) {
    let calls = Arc::<Calls>::default();
    let lower = Directory(tree.0, tree.1, Arc::clone(&calls));
    let fs = MemFs::over(Arc::new(lower), limits).unwrap();
    (Process::with(Files::new(), fs), calls)
}

fn over_usual() -> (Process, Arc<Calls>) {
    over(usual(), MemFsLimits::NONE)
}

fn read(process: &Process, path: &str) -> Vec<u8> {
    let fd = process.open(path, OpenFlags::RDONLY).unwrap();
    let mut all = Vec::new();
    loop {
        let mut buf = [0; 3000];
        match process.read(fd, &mut buf).unwrap() {
            0 => break,
            count => all.extend_from_slice(&buf[..count]),
        }
    }
    process.close(fd).unwrap();
    all
}

fn write(process: &Process, path: &str, flags: OpenFlags, bytes: &[u8]) {
    let fd = process.open(path, flags | OpenFlags::WRONLY).unwrap();
    assert_eq!(process.write(fd, bytes), Ok(bytes.len()));
    process.close(fd).unwrap();
}

/// Lists a directory, sorted by name, with the inode numbers.
fn list(process: &Process, path: &str) -> Vec<(String, u64)> {
    let fd = process.open(path, OpenFlags::DIRECTORY).unwrap();
    let names = process.getdents(fd).unwrap();
    process.close(fd).unwrap();
    let mut names: Vec<_> = names
        .iter()
        .map(|entry| (String::from_utf8_lossy(&entry.name).into(), entry.inode))
        .collect();
    names.sort();
    names
}

fn names(process: &Process, path: &str) -> Vec<String> {
    let names = list(process, path).into_iter();
    names.map(|(name, _)| name).collect()
}

#[test]
fn what_is_below_is_seen_with_its_attributes() {
    let (process, _) = over_usual();
    assert_eq!(read(&process, "text"), b"below");
    assert_eq!(read(&process, "large"), [7; 100_000]);
    assert_eq!(read(&process, "tree/deep/c"), b"cc");
    assert_eq!(read(&process, "link"), b"aa");
    let (lower, _) = file(22, *b"bb");
    let shown = process.stat("tree/b").unwrap();
    let device = process.stat(".").unwrap().device;
    assert_eq!(shown, Stat { device, ..lower });
    let (lower, _) = &directory(20, [("1", directory(1, [])), ("2", directory(2, []))]);
    let shown = process.stat("tree").unwrap();
    assert_eq!(shown, Stat { device, ..*lower });
    // And after its names were used.
    list(&process, "tree");
    let atime = process.stat("tree").unwrap().atime;
    assert_eq!(process.stat("tree").unwrap(), Stat { atime, ..shown });
    assert_eq!(process.stat("device").unwrap().rdev, 1234);
    assert_eq!(
        process.open("device", OpenFlags::RDONLY).err(),
        Some(Errno::from_raw(6))
    );
    assert_eq!(process.bound_to("socket").err(), Some(Errno::ECONNREFUSED));
    let fifo = process.open("fifo", OpenFlags::RDWR).unwrap();
    assert_eq!(process.write(fifo, b"x"), Ok(1));
    assert_eq!(process.stat("missing").err(), Some(Errno::ENOENT));
}

#[test]
fn numbers_of_inodes_are_those_below_and_stay() {
    let (process, _) = over_usual();
    let before = list(&process, ".");
    assert!(before.contains(&("text".into(), 11)));
    for (name, number) in &before {
        let stat = process.fstatat(At::Cwd, name, AtFlags::SYMLINK_NOFOLLOW);
        assert_eq!(stat.unwrap().inode, *number, "{name}");
    }
    write(&process, "text", OpenFlags::TRUNC, b"new");
    process.rename("text", "renamed").unwrap();
    assert_eq!(process.stat("renamed").unwrap().inode, 11);
    process.open("made", NEW).unwrap();
    let made = process.stat("made").unwrap().inode;
    assert!((1 << 52..1 << 53).contains(&made), "{made}");
}

#[test]
fn files_of_another_device_below_have_numbers_of_their_own() {
    let on_other = |(stat, tree): (Stat, Tree)| (Stat { device: 1, ..stat }, tree);
    let mounted = on_other(directory(2, [("a", on_other(file(2, *b"")))]));
    let (process, _) = over(directory(2, [("m", mounted)]), MemFsLimits::NONE);
    let numbers = [".", "m", "m/a"].map(|path| process.stat(path).unwrap().inode);
    assert_eq!(numbers[0], 2);
    assert!(
        numbers[1] >= 1 << 52 && numbers[2] >= 1 << 52,
        "{numbers:?}"
    );
    assert_eq!(list(&process, "."), [("m".into(), numbers[1])]);
}

#[test]
fn nothing_is_asked_below_before_it_is_used_and_nothing_twice() {
    let (process, calls) = over_usual();
    assert_eq!(calls.made(), [0; 4]);
    process.stat("text").unwrap();
    process.stat("text").unwrap();
    assert_eq!(process.stat("missing").err(), Some(Errno::ENOENT));
    assert_eq!(calls.made(), [1, 1, 0, 0]);
    list(&process, ".");
    process.stat("tree").unwrap();
    assert_eq!(calls.made(), [1, 2, 0, 0]);
    read(&process, "tree/deep/c");
    assert_eq!(calls.made()[..3], [3, 4, 1]);
}

#[test]
fn a_tree_is_removed_without_names_that_nothing_has_used() {
    let calls = Arc::<Calls>::default();
    let (stat, tree) = usual();
    let lower = Arc::new(Directory(stat, tree, Arc::clone(&calls)));
    let fs = MemFs::over(lower, MemFsLimits::NONE).unwrap();
    fs.remove_tree("tree").unwrap();
    assert_eq!(fs.stat("tree").err(), Some(Errno::ENOENT));
    drop(fs);
    assert_eq!(calls.made()[..2], [1, 1]);
}

#[test]
fn a_lower_file_is_open_as_long_as_the_file() {
    let (process, calls) = over_usual();
    let first = process.open("text", OpenFlags::RDONLY).unwrap();
    let second = process.open("text", OpenFlags::RDONLY).unwrap();
    let bytes = process.files().get(first).unwrap().lower_bytes().unwrap();
    process.close(first).unwrap();
    assert_eq!(process.read(second, &mut [0; 9]), Ok(5));
    assert_eq!(Arc::strong_count(&bytes), 2);
    process.close(second).unwrap();
    assert_eq!(Arc::strong_count(&bytes), 1);
    assert_eq!(calls.made()[2], 1);
    read(&process, "text");
    assert_eq!(calls.made()[2], 2);
}

#[test]
fn a_read_takes_no_memory_and_the_first_change_copies() {
    let limits = MemFsLimits {
        memory: 50 * PAGE,
        ..MemFsLimits::NONE
    };
    let (process, _) = over(usual(), limits);
    let free = || process.statfs(At::Cwd, ".").unwrap().free_blocks;
    let reader = process.open("large", OpenFlags::RDONLY).unwrap();
    assert_eq!(read(&process, "large").len(), 100_000);
    process
        .fchmodat(At::Cwd, "large", 0o600, AtFlags::empty())
        .unwrap();
    process.rename("large", "tree/large").unwrap();
    assert_eq!(free(), 50);
    let writer = process.open("tree/large", OpenFlags::WRONLY).unwrap();
    assert_eq!(process.pwrite(writer, b"new", 50_000), Ok(3));
    assert_eq!(free(), 25);
    // Opened before the copy.
    let mut buf = [0; 5];
    assert_eq!(process.pread(reader, &mut buf, 49_999), Ok(5));
    assert_eq!(buf, *b"\x07new\x07");
    let stat = process.stat("tree/large").unwrap();
    assert_eq!((stat.size, stat.inode, stat.blocks), (100_000, 12, 200));
    assert!(stat.mtime.seconds > 1_000_000);
}

#[test]
fn each_kind_of_change_leaves_the_other_bytes() {
    let (process, calls) = over_usual();
    let whole = [7; 100_000];
    write(&process, "large", OpenFlags::APPEND, b"end");
    assert_eq!(read(&process, "large"), [&whole[..], b"end"].concat());

    let (process, _) = over_usual();
    process.truncate("large", 10).unwrap();
    assert_eq!(read(&process, "large"), [7; 10]);

    let (process, _) = over_usual();
    process.truncate("large", 100_002).unwrap();
    assert_eq!(read(&process, "large"), [&whole[..], &[0, 0]].concat());

    let (process, _) = over_usual();
    let fd = process.open("large", OpenFlags::RDWR).unwrap();
    let punch = fdtable_vfs::FallocateFlags::PUNCH_HOLE | fdtable_vfs::FallocateFlags::KEEP_SIZE;
    process.fallocate(fd, punch, 1, 99_998).unwrap();
    let punched = [&[7][..], &[0; 99_998], &[7]].concat();
    assert_eq!(read(&process, "large"), punched);

    let (process, _) = over_usual();
    let fd = process.open("text", OpenFlags::RDWR).unwrap();
    let none = fdtable_vfs::FallocateFlags::empty();
    process.fallocate(fd, none, 0, 7).unwrap();
    assert_eq!(read(&process, "text"), b"below\0\0");
    drop(calls);
}

#[test]
fn a_truncation_copies_only_what_remains() {
    let (process, calls) = over_usual();
    write(&process, "large", OpenFlags::TRUNC, b"x");
    assert_eq!(calls.made()[2..], [0, 0]);
    process.truncate("tree/a", 2).unwrap();
    assert_eq!(calls.made()[2..], [0, 0], "the length stays");
    process.truncate("tree/b", 1).unwrap();
    assert_eq!(calls.made()[2..], [1, 1]);
    assert_eq!(read(&process, "tree/b"), b"b");
    assert_eq!(read(&process, "large"), b"x");
}

#[test]
fn holes_below_take_no_memory() {
    let (process, _) = over_usual();
    let fd = process.open("sparse", OpenFlags::RDWR).unwrap();
    assert_eq!(process.lseek(fd, SeekTo::Data(0)), Ok(1 << 40));
    assert_eq!(process.pwrite(fd, b"x", (1 << 40) + 3), Ok(1));
    let stat = process.fstat(fd).unwrap();
    assert_eq!((stat.size, stat.blocks), ((1 << 40) + 4, 8));
    let mut buf = [1; 6];
    assert_eq!(process.pread(fd, &mut buf, (1 << 40) - 2), Ok(6));
    assert_eq!(buf, *b"\0\0endx");
    assert_eq!(process.lseek(fd, SeekTo::Data(0)), Ok(1 << 40));
}

#[test]
fn a_lower_file_has_the_length_that_it_had_at_its_first_use() {
    let (stat, tree) = file(3, *b"longer");
    let shorter = (Stat { size: 4, ..stat }, tree);
    let all_hole = sparse(4, 1 << 30, *b"");
    let (process, _) = over(
        directory(2, [("f", shorter), ("h", all_hole)]),
        MemFsLimits::NONE,
    );
    assert_eq!(read(&process, "f"), b"long");
    let fd = process.open("f", OpenFlags::RDWR).unwrap();
    assert_eq!(process.lseek(fd, SeekTo::Hole(0)), Ok(4));
    assert_eq!(process.lseek(fd, SeekTo::Data(4)), Err(Errno::ENXIO));
    write(&process, "f", OpenFlags::APPEND, b"!");
    assert_eq!(read(&process, "f"), b"long!");
    write(&process, "h", OpenFlags::empty(), b"!");
    let stat = process.stat("h").unwrap();
    assert_eq!((stat.size, stat.blocks), (1 << 30, 8));
}

#[test]
fn removed_names_do_not_come_back() {
    let (process, _) = over_usual();
    let open = process.open("text", OpenFlags::RDONLY).unwrap();
    process.unlink("text").unwrap();
    assert_eq!(process.stat("text").err(), Some(Errno::ENOENT));
    assert!(!names(&process, ".").contains(&"text".into()));
    // The file is still there for its open files.
    assert_eq!(process.read(open, &mut [0; 9]), Ok(5));
    assert_eq!(process.unlink("text").err(), Some(Errno::ENOENT));
    process.open("text", NEW).unwrap();
    assert_eq!(read(&process, "text"), b"");
}

#[test]
fn a_directory_that_is_made_again_is_empty() {
    let (process, _) = over_usual();
    assert_eq!(process.rmdir("tree").err(), Some(Errno::ENOTEMPTY));
    assert_eq!(process.rmdir("tree/deep").err(), Some(Errno::ENOTEMPTY));
    for name in ["a", "b", "two", "deep/c"] {
        process.unlink(format!("tree/{name}")).unwrap();
    }
    let directory = UnlinkFlags::REMOVEDIR;
    process.unlinkat(At::Cwd, "tree/deep", directory).unwrap();
    assert_eq!(process.stat("tree").unwrap().links, 3);
    process.rmdir("tree/hollow").unwrap();
    process.rmdir("tree").unwrap();
    process.mkdir("tree").unwrap();
    assert_eq!(names(&process, "tree"), <[String; 0]>::default());
    assert_eq!(process.stat("tree/a").err(), Some(Errno::ENOENT));
}

#[test]
fn renames_take_along_what_is_below() {
    let (process, _) = over_usual();
    process.mkdir("new").unwrap();
    process.rename("tree/deep", "new/moved").unwrap();
    assert_eq!(read(&process, "new/moved/c"), b"cc");
    assert_eq!(process.stat("tree/deep").err(), Some(Errno::ENOENT));
    process.rename("tree", "new/tree").unwrap();
    assert_eq!(names(&process, "new/tree"), ["a", "b", "hollow", "two"]);
    assert_eq!(read(&process, "new/tree/../tree/a"), b"aa");
    // Over a file, and over directories whose names nothing has used.
    process.rename("text", "new/tree/b").unwrap();
    assert_eq!(read(&process, "new/tree/b"), b"below");
    process.rename("new/moved", "new/tree/hollow").unwrap();
    assert_eq!(read(&process, "new/tree/hollow/c"), b"cc");

    let (process, _) = over_usual();
    process.mkdir("empty").unwrap();
    assert_eq!(
        process.rename("empty", "tree").err(),
        Some(Errno::ENOTEMPTY)
    );
    assert_eq!(
        process.rename("tree", "tree/deep").err(),
        Some(Errno::EINVAL)
    );
    let exchange = RenameFlags::EXCHANGE;
    process
        .renameat2(At::Cwd, "empty", At::Cwd, "tree", exchange)
        .unwrap();
    assert_eq!(read(&process, "empty/deep/c"), b"cc");
    assert_eq!(names(&process, "tree"), <[String; 0]>::default());
    let no_replace = RenameFlags::NOREPLACE;
    let replaced = process.renameat2(At::Cwd, "text", At::Cwd, "large", no_replace);
    assert_eq!(replaced.err(), Some(Errno::EEXIST));
}

#[test]
fn names_below_cannot_be_made_again() {
    let (process, _) = over_usual();
    assert_eq!(process.open("text", NEW).err(), Some(Errno::EEXIST));
    assert_eq!(process.mkdir("tree").err(), Some(Errno::EEXIST));
    assert_eq!(
        process.symlinkat("x", At::Cwd, "tree/a").err(),
        Some(Errno::EEXIST)
    );
    let linked = process.linkat(At::Cwd, "tree/a", At::Cwd, "text", AtFlags::empty());
    assert_eq!(linked.err(), Some(Errno::EEXIST));
    assert_eq!(process.unlink("tree").err(), Some(Errno::EISDIR));
    assert_eq!(process.rmdir("text").err(), Some(Errno::ENOTDIR));
}

#[test]
fn names_of_one_lower_file_lead_to_one_inode() {
    let (process, _) = over_usual();
    assert_eq!(process.stat("one").unwrap().links, 2);
    process
        .linkat(At::Cwd, "one", At::Cwd, "three", AtFlags::empty())
        .unwrap();
    write(&process, "one", OpenFlags::TRUNC, b"changed");
    process.unlink("one").unwrap();
    process.unlink("three").unwrap();
    // Nothing has looked up this name before.
    assert_eq!(read(&process, "tree/two"), b"changed");
    let stat = process.stat("tree/two").unwrap();
    assert_eq!((stat.links, stat.inode), (1, 14));
}

#[test]
fn attributes_change_in_memory() {
    let (process, calls) = over_usual();
    process
        .fchmodat(At::Cwd, "text", 0o600, AtFlags::empty())
        .unwrap();
    process
        .fchownat(At::Cwd, "text", Some(1), Some(2), AtFlags::empty())
        .unwrap();
    let times = [Time::Omit, Time::At(5, 6)];
    process
        .utimensat(At::Cwd, "text", times, AtFlags::empty())
        .unwrap();
    let stat = process.stat("text").unwrap();
    assert_eq!((stat.mode, stat.uid, stat.gid), (Mode::new(0o600), 1, 2));
    assert_eq!((stat.mtime.seconds, stat.mtime.nanos), (5, 6));
    assert_eq!(calls.made()[2..], [0, 0]);
}

#[test]
fn errors_below_are_passed_on_and_change_nothing() {
    let (process, calls) = over_usual();
    let failing = |call: &dyn Fn() -> Option<Errno>| {
        calls.fail_with(Some(Errno::EIO));
        assert_eq!(call(), Some(Errno::EIO));
        calls.fail_with(None);
    };
    failing(&|| process.stat("text").err());
    failing(&|| process.open("new", NEW).err());
    failing(&|| process.rename("text", "new").err());
    assert_eq!(names(&process, ".").len(), 10);
    failing(&|| process.stat("text").err());
    failing(&|| process.unlink("text").err());
    failing(&|| process.rename("text", "tree").err());
    process.stat("tree").unwrap();
    failing(&|| process.rmdir("tree").err());
    process.stat("text").unwrap();
    failing(&|| process.open("text", OpenFlags::RDONLY).err());
    let fd = process.open("text", OpenFlags::RDWR).unwrap();
    failing(&|| process.read(fd, &mut [0; 3]).err());
    failing(&|| process.write(fd, b"x").err());
    failing(&|| process.ftruncate(fd, 3).err());
    assert_eq!(read(&process, "text"), b"below");
    assert_eq!(process.write(fd, b"x"), Ok(1));
    assert_eq!(read(&process, "text"), b"xelow");
}

#[test]
fn a_file_that_cannot_be_read_below_cannot_be_opened() {
    let (process, _) = over_usual();
    assert_eq!(
        process.open("secret", OpenFlags::RDONLY).err(),
        Some(Errno::EACCES)
    );
    assert_eq!(
        process.open("secret", OpenFlags::RDWR).err(),
        Some(Errno::EACCES)
    );
    // Its bytes are not needed.
    write(&process, "secret", OpenFlags::TRUNC, b"new");
    assert_eq!(read(&process, "secret"), b"new");
}

#[test]
fn a_copy_of_a_lower_file_that_has_become_shorter_is_an_error() {
    let (stat, tree) = file(3, *b"short");
    let longer = (Stat { size: 9, ..stat }, tree);
    let (process, _) = over(directory(2, [("f", longer)]), MemFsLimits::NONE);
    let fd = process.open("f", OpenFlags::RDWR).unwrap();
    assert_eq!(process.write(fd, b"S"), Err(Errno::EIO));
    assert_eq!(process.ftruncate(fd, 6), Err(Errno::EIO));
    assert_eq!(process.ftruncate(fd, 0), Ok(()));
}

#[test]
fn a_copy_that_finds_no_memory_leaves_the_file_below() {
    let limits = MemFsLimits {
        memory: 20 * PAGE,
        ..MemFsLimits::NONE
    };
    let (process, _) = over(usual(), limits);
    let fd = process.open("large", OpenFlags::RDWR).unwrap();
    assert_eq!(process.write(fd, b"x"), Err(Errno::ENOSPC));
    assert_eq!(read(&process, "large"), [7; 100_000]);
    assert_eq!(process.statfs(At::Cwd, ".").unwrap().free_blocks, 20);
    process.truncate("large", 4 * PAGE).unwrap();
    assert_eq!(process.write(fd, b"x"), Ok(1));
}

#[test]
fn the_permissions_below_are_checked() {
    let (process, _) = over_usual();
    process.set_ids(1, 1);
    assert_eq!(
        process.open("text", OpenFlags::RDONLY).err(),
        Some(Errno::EACCES)
    );
    process.set_ids(1, 100);
    assert_eq!(read(&process, "text"), b"below");
    assert_eq!(
        process.open("text", OpenFlags::WRONLY).err(),
        Some(Errno::EACCES)
    );
    assert_eq!(process.unlink("text").err(), Some(Errno::EACCES));
}

#[test]
fn threads_that_use_a_directory_at_once_see_all_of_it() {
    const FILES: usize = 200;
    const THREADS: usize = 4;
    let names: Vec<&'static str> = (0..FILES)
        .map(|index| &*Box::leak(format!("file{index}").into_boxed_str()))
        .collect();
    let tree = || {
        let (stat, _) = directory(2, []);
        let file = |(index, name): (usize, &&'static str)| (*name, file(100 + index as u64, *b"x"));
        let entries = names.iter().enumerate().map(file).collect();
        (stat, Tree::Directory(entries))
    };
    for _ in 0..20 {
        let (process, _) = over(directory(1, [("d", tree())]), MemFsLimits::NONE);
        let barrier = Barrier::new(THREADS);
        let numbers = thread::scope(|scope| {
            let look = |first: usize| {
                barrier.wait();
                // Each thread in another order.
                let order = (0..FILES).map(|index| (index + first * FILES / THREADS) % FILES);
                let mut numbers: Vec<(usize, u64)> = order
                    .map(|index| {
                        let path = format!("d/{}", names[index]);
                        (index, process.stat(path).expect("a file").inode)
                    })
                    .collect();
                assert_eq!(list(&process, "d").len(), FILES);
                // All threads append to one inode.
                let path = format!("d/{}", names[0]);
                write(&process, &path, OpenFlags::APPEND, b"y");
                numbers.sort_unstable();
                numbers
            };
            let threads: Vec<_> = (0..THREADS)
                .map(|index| scope.spawn(move || look(index)))
                .collect();
            threads
                .into_iter()
                .map(|one| one.join().unwrap())
                .collect::<Vec<_>>()
        });
        assert!(numbers.iter().all(|one| *one == numbers[0]));
        assert_eq!(read(&process, &format!("d/{}", names[0])), b"xyyyy");
    }
}

#[test]
fn a_removal_and_a_first_use_of_names_do_not_both_succeed() {
    for _ in 0..200 {
        let (process, _) = over_usual();
        process.stat("tree/hollow").unwrap();
        let barrier = Barrier::new(2);
        let (removed, made) = thread::scope(|scope| {
            let removed = scope.spawn(|| {
                barrier.wait();
                process.rmdir("tree/hollow")
            });
            barrier.wait();
            let made = process.mkdir("tree/hollow/new");
            (removed.join().unwrap(), made)
        });
        assert!(removed.is_ok() != made.is_ok(), "{removed:?} {made:?}");
    }
}

/// Runs two actions on threads that meet in each call about names below.
fn meeting<A: Send, B: Send>(
    calls: &Calls,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    *calls.meeting.lock() = Some(Arc::new(Barrier::new(2)));
    let both = thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().unwrap(), other)
    });
    *calls.meeting.lock() = None;
    both
}

#[test]
fn two_first_uses_of_a_name_find_one_inode() {
    for _ in 0..20 {
        let (process, calls) = over_usual();
        let open = || process.open("tree/a", OpenFlags::RDWR).unwrap();
        let (one, other) = meeting(&calls, open, open);
        assert_eq!(process.write(one, b"A"), Ok(1));
        let mut buf = [0; 4];
        assert_eq!(process.read(other, &mut buf), Ok(2));
        assert_eq!(&buf[..2], b"Aa");
        assert_eq!(read(&process, "tree/a"), b"Aa");
    }
}

#[test]
fn a_name_that_is_removed_during_its_first_lookup_stays_removed() {
    let mut missed = 0;
    for _ in 0..200 {
        let (process, calls) = over_usual();
        process.stat("tree").unwrap();
        let (process, path) = (&process, "tree/a");
        // So that both begin with the first lookup.
        list(process, "tree");
        let (found, removed) = meeting(&calls, || process.stat(path), || process.unlink(path));
        removed.unwrap();
        missed += u32::from(found.err() == Some(Errno::ENOENT));
        assert_eq!(process.stat(path).err(), Some(Errno::ENOENT));
        assert!(!names(process, "tree").contains(&"a".into()));
    }
    println!("{missed} of 200 lookups came after the removal");
}

#[test]
fn what_is_no_directory_below_is_refused() {
    let (mut stat, tree) = usual();
    stat.kind = FileKind::Regular;
    let lower = Arc::new(Directory(stat, tree, Arc::default()));
    let made = MemFs::over(lower, MemFsLimits::NONE);
    assert_eq!(made.err(), Some(Errno::ENOTDIR));
}

#[test]
fn bytes_that_become_shared_are_within_the_limit_of_memory() {
    for (pages, expected) in [(24, Err(Errno::ENOSPC)), (25, Ok(()))] {
        let limits = MemFsLimits {
            memory: pages * PAGE,
            ..MemFsLimits::NONE
        };
        let (process, _) = over(usual(), limits);
        let free = || process.statfs(At::Cwd, ".").unwrap().free_blocks;
        let fd = process.open("large", OpenFlags::RDWR).unwrap();
        let memory = Arc::<Memory>::default();
        let file = process.files().get(fd).unwrap();
        let shared = file.share_memory(&|| Ok(Arc::clone(&memory) as _));
        assert_eq!(shared.map(drop), expected);
        // No more is taken than there is.
        assert!(memory.usage().pages <= pages);
        assert_eq!(free(), expected.map_or(pages, |()| 0));
        assert_eq!(read(&process, "large"), [7; 100_000]);
    }
}

#[test]
fn a_failed_search_for_data_is_an_error_and_no_hole() {
    let (process, calls) = over_usual();
    let fd = process.open("large", OpenFlags::RDWR).unwrap();
    *calls.seek_fails.lock() = Some(Errno::EIO);
    assert_eq!(process.pwrite(fd, b"new", 0), Err(Errno::EIO));
    assert_eq!(process.ftruncate(fd, 50), Err(Errno::EIO));
    assert_eq!(process.lseek(fd, SeekTo::Data(10)), Err(Errno::EIO));
    *calls.seek_fails.lock() = None;
    assert_eq!(read(&process, "large"), [7; 100_000]);
    assert_eq!(process.ftruncate(fd, 50), Ok(()));
    assert_eq!(read(&process, "large"), [7; 50]);
}

/// A directory `d` that can be searched, and not read.
fn over_unreadable() -> (Process, Arc<Calls>) {
    let (stat, entries) = directory(
        3,
        [
            ("a", file(4, *b"aa")),
            ("b", file(5, *b"bb")),
            ("sub", directory(6, [("c", file(7, *b"cc"))])),
        ],
    );
    let mode = Mode::new(0o311);
    let tree = directory(2, [("d", (Stat { mode, ..stat }, entries))]);
    over(tree, MemFsLimits::NONE)
}

#[test]
fn names_of_a_directory_that_cannot_be_listed_are_found_one_by_one() {
    let (process, calls) = over_unreadable();
    assert_eq!(read(&process, "d/a"), b"aa");
    assert_eq!(read(&process, "d/sub/c"), b"cc");
    assert_eq!(process.stat("d/none").err(), Some(Errno::ENOENT));
    assert_eq!(process.stat("d/a").unwrap().inode, 4);
    let links = process.stat("d").unwrap().links;
    assert_eq!(links, 3);
    let lookups = calls.made()[1];
    assert_eq!(read(&process, "d/a"), b"aa");
    assert_eq!(calls.made()[1], lookups);
    let listed = process.open("d", OpenFlags::DIRECTORY).unwrap();
    assert_eq!(process.getdents(listed).err(), Some(Errno::EACCES));
    assert_eq!(process.rmdir("d").err(), Some(Errno::ENOTEMPTY));
}

#[test]
fn changes_of_a_directory_that_cannot_be_listed_last() {
    let (process, _) = over_unreadable();
    // Of names that nothing has used.
    assert_eq!(process.open("d/a", NEW).err(), Some(Errno::EEXIST));
    assert_eq!(process.mkdir("d/sub").err(), Some(Errno::EEXIST));
    process.unlink("d/a").unwrap();
    assert_eq!(process.stat("d/a").err(), Some(Errno::ENOENT));
    write(&process, "d/a", OpenFlags::CREAT | OpenFlags::EXCL, b"new");
    assert_eq!(read(&process, "d/a"), b"new");
    process.rename("d/a", "d/b").unwrap();
    assert_eq!(read(&process, "d/b"), b"new");
    process.rename("d/b", "moved").unwrap();
    for gone in ["d/a", "d/b"] {
        assert_eq!(process.stat(gone).err(), Some(Errno::ENOENT));
    }
    let link = || process.linkat(At::Cwd, "moved", At::Cwd, "d/b", AtFlags::empty());
    assert_eq!(link(), Ok(()));
    assert_eq!(link(), Err(Errno::EEXIST));
    process.unlink("d/sub/c").unwrap();
    process.rmdir("d/sub").unwrap();
    assert_eq!(process.stat("d").unwrap().links, 2);
    process.unlink("d/b").unwrap();
    // It may have more names.
    assert_eq!(process.rmdir("d").err(), Some(Errno::EACCES));
    process.rename("d", "e").unwrap();
    assert_eq!(process.stat("e/a").err(), Some(Errno::ENOENT));
}
