//! Permissions, owners, timestamps, lengths.

use fdtable::Files;
use fdtable_vfs::{
    AccessMode, At, AtFlags, Errno, FileKind, MemFs, MemFsLimits, Mode, OpenFlags, Process, Stat,
    Time, UnlinkFlags,
};

const NEW: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);
const NONE: AtFlags = AtFlags::empty();

fn mode(process: &Process, path: &str) -> u32 {
    process.stat(path).unwrap().mode.bits()
}

/// Makes a process of user 1 and group 1, in a directory with all permissions for everyone.
fn user() -> (Process, Process) {
    let root = Process::new();
    root.umask(Mode::NONE);
    root.mkdir("d").unwrap();
    root.chdir("d").unwrap();
    let user = root.fork().unwrap();
    user.set_ids(1, 1);
    (root, user)
}

#[test]
fn a_new_file_gets_the_mode_without_the_umask() {
    let process = Process::new();
    assert_eq!(process.umask(Mode::new(0o7027)), Mode::new(0o022));
    process.openat(At::Cwd, "a", NEW, 0o666).unwrap();
    process.mkdirat(At::Cwd, "d", 0o1777).unwrap();
    process
        .mknodat(At::Cwd, "f", FileKind::Fifo, 0o666)
        .unwrap();
    assert_eq!(
        [
            mode(&process, "a"),
            mode(&process, "d"),
            mode(&process, "f")
        ],
        [0o640, 0o1750, 0o640]
    );
    assert_eq!(process.fork().unwrap().umask(Mode::NONE), Mode::new(0o027));
    let device = process.mknodat(At::Cwd, "c", FileKind::CharDevice, 0o666);
    assert_eq!(device, Err(Errno::EPERM));
}

#[test]
fn an_open_that_creates_ignores_the_mode_that_it_sets() {
    let (_, user) = user();
    let fd = user.openat(At::Cwd, "a", NEW, 0).unwrap();
    assert_eq!(user.write(fd, b"x"), Ok(1));
    assert_eq!(user.open("a", OpenFlags::RDONLY), Err(Errno::EACCES));
    assert_eq!(user.truncate("a", 0), Err(Errno::EACCES));
    user.fchmod(fd, 0o400).unwrap();
    user.open("a", OpenFlags::RDONLY).unwrap();
    assert_eq!(user.open("a", OpenFlags::TRUNC), Err(Errno::EACCES));
}

#[test]
fn only_permitted_users_search_a_directory_or_change_it() {
    let (root, user) = user();
    root.mkdirat(At::Cwd, "closed", 0o700).unwrap();
    root.open("closed/a", NEW).unwrap();
    let refused = |answer: Result<(), Errno>| assert_eq!(answer, Err(Errno::EACCES));
    refused(user.stat("closed/a").map(drop));
    refused(user.chdir("closed"));
    root.fchmodat(At::Cwd, "closed", 0o755, NONE).unwrap();
    user.stat("closed/a").unwrap();
    refused(user.open("closed/b", NEW).map(drop));
    refused(user.mkdir("closed/d"));
    refused(user.unlink("closed/a"));
    refused(user.symlinkat("x", At::Cwd, "closed/l"));
    refused(user.rename("closed/a", "a"));
    user.open("mine", NEW).unwrap();
    refused(user.rename("mine", "closed/mine"));
    refused(user.faccessat(At::Cwd, "closed", AccessMode::WRITE, NONE));
    user.faccessat(At::Cwd, "closed", AccessMode::EXECUTE, NONE)
        .unwrap();
    let execute = |process: &Process| process.faccessat(At::Cwd, "mine", AccessMode::EXECUTE, NONE);
    refused(execute(&root));
}

#[test]
fn only_its_owner_removes_a_file_from_a_sticky_directory() {
    let (root, user) = user();
    root.fchmodat(At::Cwd, ".", 0o1777, NONE).unwrap();
    root.open("his", NEW).unwrap();
    user.open("mine", NEW).unwrap();
    let refused = |answer: Result<(), Errno>| assert_eq!(answer, Err(Errno::EPERM));
    refused(user.unlink("his"));
    refused(user.rename("his", "x"));
    refused(user.rename("mine", "his"));
    user.rename("mine", "still mine").unwrap();
    user.unlink("still mine").unwrap();
    root.unlink("his").unwrap();
}

#[test]
fn owners_change_as_far_as_the_user_is_permitted() {
    let (root, user) = user();
    let fd = user.open("a", NEW).unwrap();
    let owners = |stat: Stat| (stat.uid, stat.gid);
    assert_eq!(owners(user.fstat(fd).unwrap()), (1, 1));
    assert_eq!(user.fchown(fd, Some(2), None), Err(Errno::EPERM));
    assert_eq!(user.fchown(fd, None, Some(2)), Err(Errno::EPERM));
    user.fchown(fd, Some(1), Some(1)).unwrap();
    user.fchmod(fd, 0o6755).unwrap();
    root.fchownat(At::Cwd, "a", Some(5), Some(6), NONE).unwrap();
    assert_eq!(owners(root.stat("a").unwrap()), (5, 6));
    assert_eq!(
        mode(&root, "a"),
        0o755,
        "it does not run for its new owners"
    );
    assert_eq!(user.fchmod(fd, 0o777), Err(Errno::EPERM));
    root.symlinkat("a", At::Cwd, "l").unwrap();
    root.fchownat(At::Cwd, "l", Some(7), None, AtFlags::SYMLINK_NOFOLLOW)
        .unwrap();
    assert_eq!(root.stat("a").unwrap().uid, 5);
    let mode = root.fchmodat(At::Cwd, "l", 0o600, AtFlags::SYMLINK_NOFOLLOW);
    assert_eq!(mode, Err(Errno::EOPNOTSUPP));
}

#[test]
fn a_directory_passes_its_group_on() {
    let (root, user) = user();
    root.mkdirat(At::Cwd, "g", 0o777).unwrap();
    root.fchownat(At::Cwd, "g", None, Some(9), NONE).unwrap();
    root.fchmodat(At::Cwd, "g", 0o2777, NONE).unwrap();
    user.open("g/a", NEW).unwrap();
    user.mkdirat(At::Cwd, "g/d", 0o755).unwrap();
    assert_eq!(user.stat("g/a").unwrap().gid, 9);
    let inner = user.stat("g/d").unwrap();
    assert_eq!((inner.gid, inner.mode.bits()), (9, 0o2755));
}

#[test]
fn times_are_set_by_permitted_users() {
    let (root, user) = user();
    let fd = user.open("a", NEW).unwrap();
    let before = user.fstat(fd).unwrap();
    user.futimens(fd, [Time::At(-5, 1), Time::At(7, 999_999_999)])
        .unwrap();
    let stat = user.fstat(fd).unwrap();
    assert_eq!((stat.atime.seconds, stat.atime.nanos), (-5, 1));
    assert_eq!((stat.mtime.seconds, stat.mtime.nanos), (7, 999_999_999));
    assert!(stat.ctime >= before.ctime);
    user.futimens(fd, [Time::Omit, Time::Now]).unwrap();
    let later = user.fstat(fd).unwrap();
    assert_eq!(later.atime, stat.atime);
    assert!(later.mtime >= before.mtime);
    let bad = [Time::Now, Time::At(0, 1_000_000_000)];
    assert_eq!(user.futimens(fd, bad), Err(Errno::EINVAL));
    root.openat(At::Cwd, "his", NEW, 0o644).unwrap();
    let set = |times| user.utimensat(At::Cwd, "his", times, NONE);
    assert_eq!(set([Time::Now; 2]), Err(Errno::EACCES));
    assert_eq!(set([Time::At(0, 0), Time::Omit]), Err(Errno::EPERM));
    assert_eq!(set([Time::Omit; 2]), Ok(()));
    root.fchmodat(At::Cwd, "his", 0o666, NONE).unwrap();
    assert_eq!(set([Time::Now; 2]), Ok(()));
}

#[test]
fn each_operation_updates_the_times_of_linux() {
    let process = Process::new();
    let fd = process.open("a", NEW).unwrap();
    let old = [Time::At(100, 0); 2];
    let seconds = |stat: Stat| (stat.atime.seconds > 100, stat.mtime.seconds > 100);
    let after = |act: &dyn Fn()| {
        process.futimens(fd, old).unwrap();
        act();
        seconds(process.fstat(fd).unwrap())
    };
    assert_eq!(after(&|| ()), (false, false));
    assert_eq!(
        after(&|| assert_eq!(process.write(fd, b"x"), Ok(1))),
        (false, true)
    );
    assert_eq!(
        after(&|| assert_eq!(process.pread(fd, &mut [0], 0), Ok(1))),
        (true, false)
    );
    assert_eq!(after(&|| process.ftruncate(fd, 9).unwrap()), (false, true));
    assert_eq!(
        after(&|| process.fchmod(fd, 0o600).unwrap()),
        (false, false)
    );
    let quiet = process.open("a", OpenFlags::NOATIME).unwrap();
    assert_eq!(
        after(&|| assert_eq!(process.pread(quiet, &mut [0], 0), Ok(1))),
        (false, false)
    );
    process.utimensat(At::Cwd, "/", old, NONE).unwrap();
    process
        .unlinkat(At::Cwd, "a", UnlinkFlags::empty())
        .unwrap();
    assert!(seconds(process.stat("/").unwrap()).1, "a name has gone");
}

#[test]
fn a_read_counts_once_until_the_next_change() {
    let process = Process::new();
    let fd = process.open("a", NEW).unwrap();
    process.write(fd, b"x").unwrap();
    process.pread(fd, &mut [0], 0).unwrap();
    let first = process.fstat(fd).unwrap().atime;
    std::thread::sleep(std::time::Duration::from_millis(20));
    process.pread(fd, &mut [0], 0).unwrap();
    assert_eq!(process.fstat(fd).unwrap().atime, first);
    process.pwrite(fd, b"y", 0).unwrap();
    process.pread(fd, &mut [0], 0).unwrap();
    assert!(process.fstat(fd).unwrap().atime > first);
}

#[test]
fn a_length_is_set_by_path_or_descriptor() {
    let fs = MemFs::with_limits(MemFsLimits {
        file_size: 1 << 30,
        ..MemFsLimits::NONE
    });
    let process = Process::with(Files::new(), fs);
    let fd = process.open("a", NEW).unwrap();
    process.truncate("a", 600).unwrap();
    let stat = process.fstat(fd).unwrap();
    assert_eq!((stat.size, stat.blocks, stat.block_size), (600, 0, 4096));
    process.write(fd, b"x").unwrap();
    assert_eq!(process.fstat(fd).unwrap().blocks, 8);
    process.truncate("a", 1 << 30).unwrap();
    assert_eq!(process.fstat(fd).unwrap().blocks, 8);
    process.mkdir("d").unwrap();
    assert_eq!(process.truncate("d", 0), Err(Errno::EISDIR));
    assert_eq!(process.truncate("a", 1 << 40), Err(Errno::EFBIG));
    process
        .mknodat(At::Cwd, "f", FileKind::Fifo, 0o600)
        .unwrap();
    assert_eq!(process.truncate("f", 0), Err(Errno::EINVAL));
}

#[test]
fn a_user_cannot_make_a_set_gid_file_of_a_foreign_group() {
    let (root, user) = user();
    root.mkdir("g").unwrap();
    root.fchownat(At::Cwd, "g", None, Some(7), NONE).unwrap();
    root.fchmodat(At::Cwd, "g", 0o2777, NONE).unwrap();
    let made = |process: &Process, name: &str, bits: u32| {
        process.openat(At::Cwd, name, NEW, bits).unwrap();
        mode(process, name)
    };
    assert_eq!(made(&user, "g/a", 0o2775), 0o775);
    assert_eq!(made(&user, "g/b", 0o2765), 0o2765, "the group may not");
    assert_eq!(made(&root, "g/c", 0o2775), 0o2775);
    let member = root.fork().unwrap();
    member.set_ids(1, 7);
    assert_eq!(made(&member, "g/d", 0o2775), 0o2775);
    assert_eq!(made(&user, "e", 0o2775), 0o2775, "his own group");
}

#[test]
fn times_that_are_both_omitted_need_no_file() {
    let process = Process::new();
    let omit = [Time::Omit; 2];
    assert_eq!(process.utimensat(At::Cwd, "none", omit, NONE), Ok(()));
}

#[test]
fn only_the_owner_revokes_open_files() {
    let (root, user) = user();
    let fd = root.open("a", NEW).unwrap();
    assert_eq!(user.revoke("a"), Err(Errno::EPERM));
    assert_eq!(root.write(fd, b"x"), Ok(1));
    user.open("b", NEW).unwrap();
    assert_eq!(user.revoke("b"), Ok(1));
}

#[test]
fn a_rename_that_changes_nothing_needs_no_permission() {
    let (root, user) = user();
    root.mkdirat(At::Cwd, "e", 0o755).unwrap();
    root.open("e/a", NEW).unwrap();
    root.linkat(At::Cwd, "e/a", At::Cwd, "e/b", NONE).unwrap();
    assert_eq!(user.rename("e/a", "e/b"), Ok(()));
    assert_eq!(user.rename("e/a", "e/c"), Err(Errno::EACCES));
    assert_eq!(user.rename("e/a", "c"), Err(Errno::EACCES));
    user.open("c", NEW).unwrap();
    assert_eq!(user.rename("c", "e/a"), Err(Errno::EACCES));
}

#[test]
fn a_supplementary_group_has_the_permissions_of_the_group() {
    let process = Process::new();
    process.mkdir("d").unwrap();
    process.open("d/file", OpenFlags::CREAT).unwrap();
    for (path, mode) in [("d", 0o750), ("d/file", 0o640)] {
        process
            .fchmodat(At::Cwd, path, mode, AtFlags::empty())
            .unwrap();
        process
            .fchownat(At::Cwd, path, None, Some(7), AtFlags::empty())
            .unwrap();
    }
    process.set_ids(1, 1);
    let open = |process: &Process, flags| process.open("d/file", flags).map(drop);
    assert_eq!(open(&process, OpenFlags::RDONLY), Err(Errno::EACCES));
    process.set_groups([6, 7]);
    let child = process.fork().unwrap();
    for process in [&process, &child] {
        assert_eq!(open(process, OpenFlags::RDONLY), Ok(()));
        assert_eq!(open(process, OpenFlags::WRONLY), Err(Errno::EACCES));
        let reads = process.faccessat(At::Cwd, "d/file", AccessMode::READ, AtFlags::empty());
        assert_eq!(reads, Ok(()));
    }
    child.set_groups([]);
    assert_eq!(open(&child, OpenFlags::RDONLY), Err(Errno::EACCES));
    assert_eq!(open(&process, OpenFlags::RDONLY), Ok(()));
}
