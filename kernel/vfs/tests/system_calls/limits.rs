use std::io::IoSlice;

use fdtable_vfs::{Errno, FallocateFlags, Limit, OpenFlags, Process, Resource, RwFlags, SeekTo};

fn limit(soft: u64, hard: u64) -> Limit {
    Limit { soft, hard }
}

#[test]
fn the_limit_of_descriptors_is_that_of_the_table() {
    let process = Process::new();
    assert_eq!(process.getrlimit(Resource::NoFile), limit(1024, 1 << 31));
    process.setrlimit(Resource::NoFile, limit(1, 8)).unwrap();
    process.open("a", OpenFlags::CREAT).unwrap();
    assert_eq!(process.open("a", OpenFlags::CREAT), Err(Errno::EMFILE));
    let set = |soft, hard| process.setrlimit(Resource::NoFile, limit(soft, hard));
    assert_eq!(set(9, 8), Err(Errno::EINVAL));
    assert_eq!(set(9, Limit::INFINITY), Err(Errno::EPERM));
    assert_eq!(process.getrlimit(Resource::NoFile), limit(1, 8));
    assert_eq!(set(9, 9), Ok(()));
}

#[test]
fn a_child_has_the_limits_and_changes_its_own() {
    let process = Process::new();
    process.setrlimit(Resource::NoFile, limit(7, 8)).unwrap();
    process.setrlimit(Resource::FileSize, limit(5, 6)).unwrap();
    let child = process.fork().unwrap();
    assert_eq!(child.getrlimit(Resource::NoFile), limit(7, 8));
    assert_eq!(child.getrlimit(Resource::FileSize), limit(5, 6));
    child.setrlimit(Resource::FileSize, limit(1, 1)).unwrap();
    assert_eq!(process.getrlimit(Resource::FileSize), limit(5, 6));
}

#[test]
fn only_user_0_raises_hard_limits() {
    let process = Process::new();
    for resource in [Resource::NoFile, Resource::FileSize] {
        process.setrlimit(resource, limit(5, 5)).unwrap();
        process.setrlimit(resource, limit(5, 6)).unwrap();
        let user = process.fork().unwrap();
        user.set_ids(1000, 1000);
        assert_eq!(user.setrlimit(resource, limit(6, 6)), Ok(()));
        assert_eq!(user.setrlimit(resource, limit(6, 7)), Err(Errno::EPERM));
        assert_eq!(user.setrlimit(resource, limit(4, 4)), Ok(()));
    }
}

#[test]
fn no_file_is_written_past_the_limit() {
    let process = Process::new();
    let file = process
        .open("a", OpenFlags::CREAT | OpenFlags::RDWR)
        .unwrap();
    process
        .setrlimit(Resource::FileSize, limit(10, 20))
        .unwrap();
    assert_eq!(process.write(file, b"12345678"), Ok(8));
    assert_eq!(process.write(file, b"9abc"), Ok(2));
    assert_eq!(process.write(file, b"x"), Err(Errno::EFBIG));
    assert_eq!(process.write(file, b""), Ok(0));
    assert_eq!(process.pwrite(file, b"xyz", 8), Ok(2));
    assert_eq!(process.pwrite(file, b"xyz", 11), Err(Errno::EFBIG));
    process.lseek(file, SeekTo::Start(6)).unwrap();
    let bufs = [
        IoSlice::new(b"AB"),
        IoSlice::new(b"CDEF"),
        IoSlice::new(b"G"),
    ];
    assert_eq!(process.writev(file, &bufs), Ok(4));
    assert_eq!(
        process.pwritev2(file, &bufs, Some(10), RwFlags::empty()),
        Err(Errno::EFBIG)
    );
    let mut bytes = [0; 20];
    assert_eq!(process.pread(file, &mut bytes, 0), Ok(10));
    assert_eq!(&bytes[..10], b"123456ABCD");
    assert_eq!(process.ftruncate(file, 11), Err(Errno::EFBIG));
    assert_eq!(process.truncate("a", 11), Err(Errno::EFBIG));
    assert_eq!(
        process.fallocate(file, FallocateFlags::empty(), 0, 11),
        Err(Errno::EFBIG)
    );
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    assert_eq!(process.write(writer, &[0; 50]), Ok(50));
    assert_eq!(process.read(reader, &mut [0; 50]), Ok(50));
}

#[test]
fn bytes_past_the_limit_stay_and_can_be_truncated() {
    let process = Process::new();
    let file = process
        .open("a", OpenFlags::CREAT | OpenFlags::RDWR | OpenFlags::APPEND)
        .unwrap();
    process.write(file, &[0; 30]).unwrap();
    process
        .setrlimit(Resource::FileSize, limit(10, 10))
        .unwrap();
    assert_eq!(process.pwrite(file, b"x", 0), Err(Errno::EFBIG));
    assert_eq!(process.ftruncate(file, 20), Ok(()));
    assert_eq!(process.ftruncate(file, 21), Err(Errno::EFBIG));
    assert_eq!(process.ftruncate(file, 5), Ok(()));
    assert_eq!(process.write(file, &[0; 30]), Ok(5));
    assert_eq!(
        process.copy_file_range(file, Some(&mut 0), file, Some(&mut 20), 5),
        Err(Errno::EBADF)
    );
    let other = process
        .open("b", OpenFlags::CREAT | OpenFlags::RDWR)
        .unwrap();
    let moved = process.copy_file_range(file, Some(&mut 0), other, Some(&mut 8), 9);
    assert_eq!(moved, Ok(2));
    process.lseek(other, SeekTo::Start(7)).unwrap();
    assert_eq!(process.sendfile(other, file, Some(&mut 0), 9), Ok(3));
}
