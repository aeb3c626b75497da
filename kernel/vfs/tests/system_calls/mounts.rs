//! Mounts: file systems on directories of others.

use std::sync::Arc;

use fdtable::Files;
use fdtable_vfs::event::EventFdFlags;
use fdtable_vfs::fs::StatFs;
use fdtable_vfs::{At, AtFlags, Errno, MemFs, MemFsLimits, OpenFlags, Process, RenameFlags};

use crate::call::within_time;

const NEW: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);

fn mounted() -> (Process, Arc<MemFs>) {
    let process = Process::new();
    process.mkdir("m").unwrap();
    process.open("m/hidden", NEW).unwrap();
    let fs = Arc::new(MemFs::default());
    process.mount("m", Arc::clone(&fs) as _).unwrap();
    (process, fs)
}

#[test]
fn a_walk_crosses_into_a_mount_and_out_again() {
    let (process, fs) = mounted();
    assert_eq!(process.stat("m/hidden"), Err(Errno::ENOENT));
    process.mkdir("m/d").unwrap();
    process.open("m/d/a", NEW).unwrap();
    assert_eq!(fs.stat("d/a").unwrap(), process.stat("m/d/a").unwrap());
    assert_eq!(process.stat("m/..").unwrap(), process.stat("/").unwrap());
    assert_eq!(
        process.stat("m/d/../..").unwrap(),
        process.stat("/").unwrap()
    );
    assert_ne!(
        process.stat("m").unwrap().device,
        process.stat("/").unwrap().device
    );
    process.chdir("m/d").unwrap();
    assert_eq!(process.getcwd().unwrap(), b"/m/d");
    process.chdir("../..").unwrap();
    assert_eq!(process.getcwd().unwrap(), b"/");
    let root = process.open("m", OpenFlags::DIRECTORY).unwrap();
    let entries = process.read_dir(root, 2).unwrap();
    assert_eq!(entries[1].inode, process.stat("/").unwrap().inode);
}

#[test]
fn names_do_not_cross_a_mount() {
    let (process, _) = mounted();
    process.open("a", NEW).unwrap();
    assert_eq!(process.rename("a", "m/a"), Err(Errno::EXDEV));
    let link = process.linkat(At::Cwd, "a", At::Cwd, "m/a", AtFlags::empty());
    assert_eq!(link, Err(Errno::EXDEV));
    assert_eq!(process.rmdir("m"), Err(Errno::EBUSY));
    assert_eq!(process.rename("m", "n"), Err(Errno::EBUSY));
    process.mkdir("n").unwrap();
    let exchange = process.renameat2(At::Cwd, "n", At::Cwd, "m", RenameFlags::EXCHANGE);
    assert_eq!(exchange, Err(Errno::EBUSY));
}

#[test]
fn a_mount_that_is_in_use_stays() {
    let (process, _) = mounted();
    let busy = |what: &str| assert_eq!(process.unmount("/m"), Err(Errno::EBUSY), "{what}");
    let fd = process.open("m/a", NEW).unwrap();
    busy("a file is open");
    process.close(fd).unwrap();
    process.mkdir("m/d").unwrap();
    process.chdir("m/d").unwrap();
    busy("it has a working directory");
    process.chdir("/").unwrap();
    process.mount("m/d", Arc::new(MemFs::default())).unwrap();
    busy("something is mounted in it");
    process.unmount("m/d").unwrap();
    process.unmount("m").unwrap();
    process.stat("m/hidden").unwrap();
    assert_eq!(process.unmount("m"), Err(Errno::EINVAL));
    assert_eq!(process.unmount("/"), Err(Errno::EINVAL));
}

#[test]
fn mounts_can_be_stacked() {
    let (process, fs) = mounted();
    process.mkdir("m/below").unwrap();
    assert_eq!(
        process.mount("/m", fs),
        Err(Errno::EBUSY),
        "a file system is mounted once in a kernel"
    );
    process.mount("m", Arc::new(MemFs::default())).unwrap();
    assert_eq!(process.stat("m/below"), Err(Errno::ENOENT));
    assert_eq!(process.stat("m/..").unwrap(), process.stat("/").unwrap());
    assert_eq!(process.mounts().len(), 2);
    process.unmount("m").unwrap();
    process.stat("m/below").unwrap();
    process.unmount("m").unwrap();
    process.stat("m/hidden").unwrap();
}

#[test]
fn a_mount_belongs_to_its_kernel_only() {
    let fs = Arc::new(MemFs::default());
    let [one, other] = [(); 2].map(|()| Process::with(Files::new(), Arc::clone(&fs)));
    one.mkdir("m").unwrap();
    one.mount("m", Arc::new(MemFs::default())).unwrap();
    one.open("m/a", NEW).unwrap();
    assert_eq!(other.stat("m/a"), Err(Errno::ENOENT));
    assert_eq!(other.rmdir("m"), Err(Errno::EBUSY));
    drop(one);
    other.rmdir("m").unwrap();
}

#[test]
fn only_user_0_mounts_and_only_on_directories() {
    let process = Process::new();
    let fs = || Arc::new(MemFs::default());
    process.open("a", NEW).unwrap();
    assert_eq!(process.mount("a", fs()), Err(Errno::ENOTDIR));
    assert_eq!(process.mount("/", fs()), Err(Errno::EINVAL));
    process.mkdir("d").unwrap();
    process.set_ids(1, 1);
    assert_eq!(process.mount("d", fs()), Err(Errno::EPERM));
}

#[test]
fn a_file_system_describes_itself() {
    let (process, fs) = mounted();
    let root = process.statfs(At::Cwd, "/").unwrap();
    let other = process.statfs(At::Cwd, "m").unwrap();
    assert_eq!(other.id, process.stat("m").unwrap().device);
    assert_ne!(root.id, other.id);
    fs.superblock().unwrap().remount_read_only().unwrap();
    let fd = process.open("m", OpenFlags::DIRECTORY).unwrap();
    assert!(process.fstatfs(fd).unwrap().is_read_only);
    assert!(!root.is_read_only);
    assert_eq!(process.open("m/a", NEW), Err(Errno::EROFS));
    let (reader, _) = process.pipe2(OpenFlags::empty()).unwrap();
    assert_eq!(process.fstatfs(reader).unwrap().magic, StatFs::PIPES);
    let (socket, _) = process.socketpair(OpenFlags::empty()).unwrap();
    assert_eq!(process.fstatfs(socket).unwrap().magic, StatFs::SOCKETS);
    let counter = process.eventfd(0, EventFdFlags::empty()).unwrap();
    let described = process.fstatfs(counter).unwrap();
    assert_eq!(described.magic, StatFs::ANONYMOUS);
}

/// An unmount there would end the root for every process.
#[test]
fn the_root_is_mounted_already() {
    let process = Process::new();
    process.mkdir("d").unwrap();
    let root = Arc::clone(process.fs());
    assert_eq!(process.mount("d", root), Err(Errno::EBUSY));
    process.open("a", NEW).unwrap();
}

#[test]
fn dot_dot_crosses_a_mount_on_the_parent_directory() {
    let process = Process::new();
    process.mkdir("m").unwrap();
    process.mkdir("m/d").unwrap();
    process.chdir("m/d").unwrap();
    let fs = Arc::new(MemFs::default());
    process.mount("/m", Arc::clone(&fs) as _).unwrap();
    assert_eq!(process.stat("..").unwrap(), fs.stat("/").unwrap());
    process.open("../a", NEW).unwrap();
    assert_eq!(process.stat("/m/a").unwrap(), fs.stat("a").unwrap());
    assert_eq!(process.stat("../..").unwrap(), process.stat("/").unwrap());
}

/// A mount that fails drops the last reference to its file system, which runs callbacks: they may
/// read the mount table.
#[test]
fn a_mount_that_fails_runs_callbacks_without_the_lock() {
    let process = Arc::new(Process::new());
    process.mkdir("d").unwrap();
    process.chdir("d").unwrap();
    process.rmdir("/d").unwrap();
    within_time(move || {
        for round in 0..2000 {
            for _ in 0..1 + round % 5 {
                let process = Arc::clone(&process);
                fdtable::rcu::defer(move || drop(process.mounts()));
            }
            let fs = MemFs::default();
            fs.mkdir("a").unwrap();
            assert_eq!(process.mount(".", Arc::new(fs)), Err(Errno::ENOENT));
        }
    });
}

/// Each holds the one below: they must not be dropped recursively.
#[test]
fn many_stacked_mounts_are_dropped_on_a_small_stack() {
    let process = Process::new();
    process.mkdir("m").unwrap();
    for _ in 0..2000 {
        let fs = MemFs::with_superblock(None, MemFsLimits::NONE);
        process.mount("m", Arc::new(fs)).unwrap();
    }
    let small = std::thread::Builder::new().stack_size(64 << 10);
    small.spawn(|| drop(process)).unwrap().join().unwrap();
}
