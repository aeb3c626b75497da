use std::sync::Arc;

use fdtable::Files;
use fdtable_vfs::{At, AtFlags, Errno, FileKind, MemFs, Mode, OpenFlags, Process};

const NEW: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);

#[test]
fn processes_of_one_file_system_see_the_same_names() {
    let fs = Arc::new(MemFs::default());
    let [one, other] = [(); 2].map(|()| Process::with(Files::new(), Arc::clone(&fs)));
    one.mkdir("d").unwrap();
    let fd = one.open("d/a", NEW).unwrap();
    one.write(fd, b"seen").unwrap();
    assert_eq!(other.stat("d/a"), one.fstat(fd));
    other.rename("d/a", "d/b").unwrap();
    other.unlink("d/b").unwrap();
    other.rmdir("d").unwrap();
    assert_eq!(one.stat("d"), Err(Errno::ENOENT));
    assert_eq!(one.fstat(fd).unwrap().size, 4);
}

#[test]
fn a_directory_is_read_through_its_descriptor() {
    let process = Process::new();
    process.mkdir("d").unwrap();
    process.mkdir("d/e").unwrap();
    let file = process.open("d/a", NEW).unwrap();
    let fd = process.open("d", OpenFlags::DIRECTORY).unwrap();
    let mut entries = process.getdents(fd).unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<_> = entries.iter().map(|e| (&*e.name, e.kind)).collect();
    let expected = [(&b"a"[..], FileKind::Regular), (b"e", FileKind::Directory)];
    assert_eq!(names, expected);
    assert_eq!(process.getdents(file), Err(Errno::ENOTDIR));
    assert_eq!(process.read(fd, &mut [0]), Err(Errno::EISDIR));
    assert_eq!(process.pread(fd, &mut [0], 0), Err(Errno::EISDIR));
    assert_eq!(process.pwrite(fd, b"x", 0), Err(Errno::EBADF));
}

#[test]
fn transfers_at_an_offset_reach_the_file() {
    let process = Process::new();
    let fd = process.open("a", NEW).unwrap();
    let long = vec![7; 300_000];
    assert_eq!(process.pwrite(fd, &long, 10), Ok(long.len()));
    assert_eq!(process.pwrite(fd, b"short", 0), Ok(5));
    let mut buf = vec![0; 400_000];
    assert_eq!(process.pread(fd, &mut buf, 0), Ok(300_010));
    assert_eq!(&buf[..12], b"short\0\0\0\0\0\x07\x07");
    assert_eq!(process.pread(fd, &mut [0; 4], 300_008), Ok(2));
    process.ftruncate(fd, 3).unwrap();
    assert_eq!(process.fstat(fd).unwrap().size, 3);
    process.fsync(fd).unwrap();
}

#[test]
fn a_pipe_has_no_position_and_no_names() {
    let process = Process::new();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    assert_eq!(process.pread(reader, &mut [0], 0), Err(Errno::ESPIPE));
    assert_eq!(process.pwrite(writer, b"x", 0), Err(Errno::ESPIPE));
    assert_eq!(process.ftruncate(writer, 0), Err(Errno::EINVAL));
    assert_eq!(process.fsync(writer), Err(Errno::EINVAL));
    assert_eq!(process.getdents(reader), Err(Errno::ENOTDIR));
    let (one, other) = (
        process.fstat(reader).unwrap(),
        process.fstat(writer).unwrap(),
    );
    assert_eq!((one.kind, one.mode_bits()), (FileKind::Fifo, 0o010600));
    assert_eq!((one.device, one.inode), (other.device, other.inode));
}

#[test]
fn a_descriptor_that_is_not_open_returns_ebadf() {
    let process = Process::new();
    assert_eq!(process.pread(5, &mut [0], 0), Err(Errno::EBADF));
    assert_eq!(process.pwrite(5, b"x", 0), Err(Errno::EBADF));
    assert_eq!(process.ftruncate(5, 0), Err(Errno::EBADF));
    assert_eq!(process.fsync(5), Err(Errno::EBADF));
    assert_eq!(process.getdents(5), Err(Errno::EBADF));
    assert_eq!(process.fstat(5), Err(Errno::EBADF));
}

/// In the order of the walk: first the descriptor, then each directory and the permission to search
/// it.
#[test]
fn of_several_errors_the_first_on_the_path_is_returned() {
    let root = Process::new();
    root.umask(Mode::NONE);
    let long = "x".repeat(256);
    let file = root.open("a", NEW).unwrap();
    assert_eq!(root.stat(format!("none/{long}")), Err(Errno::ENOENT));
    assert_eq!(root.mkdir(format!("none/{long}")), Err(Errno::ENOENT));
    assert_eq!(root.unlink(&long), Err(Errno::ENAMETOOLONG));
    assert_eq!(root.open(&long, NEW), Err(Errno::ENAMETOOLONG));
    assert_eq!(root.rename("a", &long), Err(Errno::ENAMETOOLONG));
    let none = AtFlags::empty();
    assert_eq!(root.fstatat(At::Fd(99), &long, none), Err(Errno::EBADF));
    root.mkdirat(At::Cwd, "closed", 0o700).unwrap();
    let user = root.fork().unwrap();
    user.set_ids(1, 1);
    assert_eq!(user.unlink("closed/none"), Err(Errno::EACCES));
    assert_eq!(user.rmdir("closed/none"), Err(Errno::EACCES));
    assert_eq!(user.unlink("closed/none/"), Err(Errno::EACCES));
    assert_eq!(user.fstatat(file, "none", none), Err(Errno::ENOTDIR));
}
