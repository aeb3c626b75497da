//! Remounts, unmounts, and revocation.

use std::sync::mpsc;

use fdtable::FileRef;
use fdtable_listing::List;
use fdtable_vfs::{
    AccessMode, At, AtFlags, Errno, FileKind, MemFs, MemFsLimits, OpenFlags, Process,
};

const CREATE: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);

#[test]
fn descriptors_of_a_revoked_file_return_eio_and_it_can_be_opened_again() {
    let parent = Process::new();
    let fd = parent.open("line", CREATE).unwrap();
    let other = parent.open("other", CREATE).unwrap();
    parent.write(fd, b"text").unwrap();
    let child = parent.fork().unwrap();
    let copy = child.dup(fd).unwrap();

    assert_eq!(child.revoke("line"), Ok(1));
    for (process, fd) in [(&parent, fd), (&child, fd), (&child, copy)] {
        assert_eq!(process.read(fd, &mut [0; 4]), Err(Errno::EIO));
        assert_eq!(process.write(fd, b"x"), Err(Errno::EIO));
        assert_eq!(process.fstat(fd).unwrap_err(), Errno::EIO);
        process.close(fd).unwrap();
    }
    assert_eq!(parent.write(other, b"x"), Ok(1));
    let again = parent.open("line", OpenFlags::RDONLY).unwrap();
    let mut buf = [0; 8];
    assert_eq!(parent.read(again, &mut buf), Ok(4));
    assert_eq!(parent.revoke("nothing").unwrap_err(), Errno::ENOENT);
}

#[test]
fn a_reference_to_a_revoked_file_returns_eio_too() {
    let process = Process::new();
    let fd = process.open("line", CREATE).unwrap();
    let file = process.files().get(fd).unwrap();
    process.revoke("line").unwrap();
    assert_eq!(file.write(b"x"), Err(Errno::EIO));
    assert_eq!(file.read(&mut [0; 4]), Err(Errno::EIO));
}

#[test]
fn a_reader_that_sleeps_in_a_revoked_pipe_wakes_to_eio() {
    let process = Process::new();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    let file = process.files().get(reader).unwrap();
    let (tell, hear) = mpsc::channel();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            tell.send(()).unwrap();
            process.read(reader, &mut [0; 4])
        });
        hear.recv().unwrap();
        // So that it usually sleeps by then.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(FileRef::revoke(&file));
        assert_eq!(read.join().unwrap(), Err(Errno::EIO));
    });
    assert_eq!(process.write(writer, b"x"), Err(Errno::EPIPE));
}

#[test]
fn a_read_only_file_system_is_not_changed() {
    let process = Process::new();
    let superblock = process.fs().superblock().unwrap();
    let fd = process.open("a", CREATE).unwrap();
    process.mkdir("d").unwrap();
    assert_eq!(superblock.remount_read_only(), Err(fdtable::Error::Busy));
    process.close(fd).unwrap();
    superblock.remount_read_only().unwrap();

    let refused = |answer: Result<(), Errno>| assert_eq!(answer, Err(Errno::EROFS));
    refused(process.open("b", CREATE).map(drop));
    refused(process.open("a", OpenFlags::RDWR).map(drop));
    refused(
        process
            .open("a", OpenFlags::RDONLY | OpenFlags::TRUNC)
            .map(drop),
    );
    refused(process.mkdir("e"));
    refused(process.rmdir("d"));
    refused(process.unlink("a"));
    refused(process.rename("a", "b"));
    refused(process.fs().remove_tree("d"));
    let fd = process.open("a", OpenFlags::RDONLY).unwrap();
    assert_eq!((superblock.open_files(), superblock.writers()), (1, 0));
    process.close(fd).unwrap();
    superblock.remount_read_write().unwrap();
    process.unlink("a").unwrap();
}

#[test]
fn erofs_comes_before_eacces() {
    let process = Process::new();
    let fd = process.openat(At::Cwd, "a", CREATE, 0o444).unwrap();
    process.close(fd).unwrap();
    let fifo = FileKind::Fifo;
    process.mknodat(At::Cwd, "fifo", fifo, 0o444).unwrap();
    process.mkdirat(At::Cwd, "d", 0o755).unwrap();
    let superblock = process.fs().superblock().unwrap();
    superblock.remount_read_only().unwrap();
    process.set_ids(1000, 1000);
    let open = |path: &str, flags| process.open(path, flags).map(drop);
    let may_write = |path| process.faccessat(At::Cwd, path, AccessMode::WRITE, AtFlags::empty());
    assert_eq!(open("a", OpenFlags::WRONLY), Err(Errno::EROFS));
    assert_eq!(open("a", OpenFlags::TRUNC), Err(Errno::EROFS));
    assert_eq!(may_write("a"), Err(Errno::EROFS));
    assert_eq!(may_write("d"), Err(Errno::EROFS));
    let ends = OpenFlags::RDWR | OpenFlags::NONBLOCK;
    assert_eq!(open("fifo", ends), Err(Errno::EACCES));
    assert_eq!(may_write("fifo"), Err(Errno::EACCES));
}

#[test]
fn a_refused_open_leaves_nothing_behind() {
    let process = Process::new();
    let superblock = process.fs().superblock().unwrap();
    let fd = process.open("a", CREATE).unwrap();
    process.close(fd).unwrap();
    superblock.remount_read_only().unwrap();
    process.open("a", OpenFlags::RDWR).unwrap_err();
    superblock.remount_read_write().unwrap();
    // It is not open: its bytes are freed with its name.
    let fd = process.open("a", OpenFlags::RDWR).unwrap();
    process.unlink("a").unwrap();
    process.close(fd).unwrap();
    assert_eq!(superblock.open_files(), 0);
}

#[test]
fn an_unmounted_file_system_serves_what_is_open() {
    let process = Process::new();
    let superblock = process.fs().superblock().unwrap();
    let fd = process.open("a", CREATE).unwrap();
    assert_eq!(superblock.unmount(), Err(fdtable::Error::Busy));
    let (tell, hear) = mpsc::channel();
    superblock
        .unmount_lazily(move || tell.send(()).unwrap())
        .unwrap();
    assert_eq!(
        process.open("a", OpenFlags::RDONLY).unwrap_err(),
        Errno::ENODEV
    );
    assert_eq!(process.write(fd, b"late"), Ok(4));
    assert!(hear.try_recv().is_err());
    process.close(fd).unwrap();
    hear.try_recv().unwrap();
}

#[test]
fn a_file_system_without_a_superblock_tracks_no_files() {
    let process = Process::with(
        fdtable::Files::new(),
        MemFs::with_superblock(None, MemFsLimits::NONE),
    );
    let fd = process.open("a", CREATE).unwrap();
    assert!(process.fs().superblock().is_none());
    assert_eq!(process.revoke("a"), Err(Errno::EOPNOTSUPP));
    process.close(fd).unwrap();
}

#[test]
fn a_listing_shows_the_open_files() {
    let process = Process::new();
    let fd = process.open("a", CREATE).unwrap();
    process.write(fd, b"12345").unwrap();
    process.open("/", OpenFlags::RDONLY).unwrap();
    let listing = process.fs().superblock().unwrap().list().unwrap();
    let kinds: Vec<_> = listing
        .rows()
        .iter()
        .map(|row| (&*row.description.kind, row.description.size))
        .collect();
    assert!(kinds.contains(&("REG", Some(5))), "{listing}");
    assert!(kinds.contains(&("DIR", Some(1))), "{listing}");
    assert!(process.files().list().unwrap().to_string().contains("REG"));
}
