use std::io::SeekFrom;

use fdtable::{Fd, Files};
use fdtable_vfs::{Errno, MemFs, MemFsLimits, OpenFlags, Process};

fn process_with_file(bytes: &[u8]) -> (Process, Fd) {
    let process = Process::new();
    let fd = process
        .open("file", OpenFlags::CREAT | OpenFlags::RDWR)
        .unwrap();
    process.write(fd, bytes).unwrap();
    process.lseek(fd, SeekFrom::Start(0)).unwrap();
    (process, fd)
}

fn read(process: &Process, fd: Fd, count: usize) -> Vec<u8> {
    let mut buf = vec![0; count];
    let count = process.read(fd, &mut buf).unwrap();
    buf.truncate(count);
    buf
}

#[test]
fn dup_shares_the_position() {
    let (process, fd) = process_with_file(b"abcdef");
    let copy = process.dup(fd).unwrap();
    assert_eq!(read(&process, fd, 2), b"ab");
    assert_eq!(read(&process, copy, 2), b"cd");
    process.lseek(copy, SeekFrom::Start(1)).unwrap();
    assert_eq!(read(&process, fd, 1), b"b");
}

#[test]
fn fork_shares_the_position() {
    let (parent, fd) = process_with_file(b"abcdef");
    let child = parent.fork().unwrap();
    assert_eq!(read(&child, fd, 2), b"ab");
    assert_eq!(read(&parent, fd, 2), b"cd");
    child.write(fd, b"EF").unwrap();
    assert_eq!(parent.lseek(fd, SeekFrom::Current(0)), Ok(6));
}

#[test]
fn two_opens_have_a_position_each() {
    let (process, fd) = process_with_file(b"abcdef");
    let other = process.open("file", OpenFlags::RDONLY).unwrap();
    assert_eq!(read(&process, fd, 4), b"abcd");
    assert_eq!(read(&process, other, 4), b"abcd");
}

#[test]
fn appends_go_to_the_end() {
    let (process, fd) = process_with_file(b"start ");
    let log = process
        .open("file", OpenFlags::WRONLY | OpenFlags::APPEND)
        .unwrap();
    process.write(log, b"one ").unwrap();
    process.lseek(fd, SeekFrom::End(0)).unwrap();
    process.write(fd, b"two ").unwrap();
    process.write(log, b"three").unwrap();
    process.lseek(fd, SeekFrom::Start(0)).unwrap();
    assert_eq!(read(&process, fd, 100), b"start one two three");
}

#[test]
fn truncation_at_open_is_seen_by_all() {
    let (process, fd) = process_with_file(b"old");
    process
        .open("file", OpenFlags::WRONLY | OpenFlags::TRUNC)
        .unwrap();
    assert_eq!(read(&process, fd, 100), b"");
}

#[test]
fn transfers_too_long_for_a_read_side_section_succeed() {
    let long: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    let (process, fd) = process_with_file(&long);
    assert_eq!(read(&process, fd, long.len() + 1), long);
}

#[test]
fn a_file_grows_to_its_limit() {
    let process = Process::with(
        Files::new(),
        MemFs::with_limits(MemFsLimits {
            file_size: 1000,
            ..MemFsLimits::NONE
        }),
    );
    let fd = process
        .open("file", OpenFlags::CREAT | OpenFlags::WRONLY)
        .unwrap();
    assert_eq!(process.write(fd, &[0; 2000]), Ok(1000));
    assert_eq!(process.write(fd, b"x"), Err(Errno::EFBIG));
    process.lseek(fd, SeekFrom::Start(1 << 40)).unwrap();
    assert_eq!(process.write(fd, b"x"), Err(Errno::EFBIG));
}
