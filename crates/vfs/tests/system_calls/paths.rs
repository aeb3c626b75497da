use std::sync::Arc;

use fdtable::Files;
use fdtable_vfs::{Errno, FileKind, MemFs, OpenFlags, Process};

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
    let expected = [("a", FileKind::Regular), ("e", FileKind::Directory)];
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
fn a_pipe_has_no_offset_no_inode_and_no_names() {
    let process = Process::new();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    assert_eq!(process.pread(reader, &mut [0], 0), Err(Errno::ESPIPE));
    assert_eq!(process.pwrite(writer, b"x", 0), Err(Errno::ESPIPE));
    assert_eq!(process.ftruncate(writer, 0), Err(Errno::EINVAL));
    assert_eq!(process.fsync(writer), Err(Errno::EINVAL));
    assert_eq!(process.getdents(reader), Err(Errno::ENOTDIR));
    assert_eq!(process.fstat(reader), Err(Errno::EOPNOTSUPP));
}

#[test]
fn a_number_that_is_not_open_answers_ebadf() {
    let process = Process::new();
    assert_eq!(process.pread(5, &mut [0], 0), Err(Errno::EBADF));
    assert_eq!(process.pwrite(5, b"x", 0), Err(Errno::EBADF));
    assert_eq!(process.ftruncate(5, 0), Err(Errno::EBADF));
    assert_eq!(process.fsync(5), Err(Errno::EBADF));
    assert_eq!(process.getdents(5), Err(Errno::EBADF));
    assert_eq!(process.fstat(5), Err(Errno::EBADF));
}
