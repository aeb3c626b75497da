//! Copies between files, transfers with several buffers, and `fallocate`.

use std::io::{IoSlice, IoSliceMut};

use fdtable::{Fd, Files};
use fdtable_vfs::{
    At, Errno, FallocateFlags, FileKind, MemFs, MemFsLimits, Mode, OpenFlags, Process, RwFlags,
    SeekTo,
};

const NEW: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);

fn file(process: &Process, name: &str, bytes: &[u8]) -> Fd {
    let fd = process.open(name, NEW).unwrap();
    process.write(fd, bytes).unwrap();
    process.lseek(fd, SeekTo::Start(0)).unwrap();
    fd
}

fn contents(process: &Process, fd: Fd) -> Vec<u8> {
    let mut buf = vec![0; 300_000];
    let count = process.pread(fd, &mut buf, 0).unwrap();
    buf.truncate(count);
    buf
}

#[test]
fn several_buffers_are_one_transfer() {
    let process = Process::new();
    let fd = file(&process, "a", b"");
    let bufs = [&b"he"[..], b"", b"llo"].map(IoSlice::new);
    assert_eq!(process.writev(fd, &bufs), Ok(5));
    assert_eq!(
        process.pwritev2(fd, &bufs[..1], Some(3), RwFlags::empty()),
        Ok(2)
    );
    assert_eq!(contents(&process, fd), b"helhe");
    process.lseek(fd, SeekTo::Start(1)).unwrap();
    let (mut one, mut other) = ([0; 2], [0; 9]);
    let mut bufs = [&mut one[..], &mut other].map(IoSliceMut::new);
    assert_eq!(process.readv(fd, &mut bufs), Ok(4));
    assert_eq!((&one, &other[..2]), (b"el", &b"he"[..]));
    let mut bufs = [&mut one[..], &mut other].map(IoSliceMut::new);
    assert_eq!(
        process.preadv2(fd, &mut bufs, Some(0), RwFlags::empty()),
        Ok(5)
    );
    assert_eq!(process.lseek(fd, SeekTo::Current(0)), Ok(5));
    let many = vec![IoSlice::new(b""); 1025];
    assert_eq!(process.writev(fd, &many), Err(Errno::EINVAL));
}

#[test]
fn a_pipe_takes_several_buffers_in_one_piece() {
    let process = Process::new();
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    let page = [7; 4096];
    for _ in 0..15 {
        process.write(writer, &page).unwrap();
    }
    process.write(writer, &[7; 4000]).unwrap();
    let bufs = [&b"whole"[..], &[1; 100]].map(IoSlice::new);
    assert_eq!(process.writev(writer, &bufs), Err(Errno::EAGAIN));
    process.read(reader, &mut [0; 4096]).unwrap();
    assert_eq!(process.writev(writer, &bufs), Ok(105));
    assert_eq!(
        process.preadv2(reader, &mut [], Some(0), RwFlags::empty()),
        Err(Errno::ESPIPE)
    );
}

#[test]
fn bytes_go_from_file_to_file() {
    let process = Process::new();
    let long: Vec<u8> = (0..200_000u32).map(|n| (n / 256) as u8).collect();
    let (from, to) = (
        file(&process, "a", &long),
        file(&process, "b", b"0123456789"),
    );
    let mut at = 100_000;
    let copied = process.copy_file_range(from, Some(&mut at), to, None, usize::MAX);
    assert_eq!((copied, at), (Ok(100_000), 200_000));
    assert_eq!(process.lseek(to, SeekTo::Current(0)), Ok(100_000));
    assert_eq!(process.lseek(from, SeekTo::Current(0)), Ok(0));
    assert_eq!(contents(&process, to), long[100_000..]);
    assert_eq!(
        process.copy_file_range(from, Some(&mut at), to, None, 1),
        Ok(0)
    );
}

#[test]
fn a_copy_that_makes_no_sense_is_refused() {
    let process = Process::new();
    let fd = file(&process, "a", b"0123456789");
    let copy = |from: Fd, to: Fd, count| {
        process.copy_file_range(from, Some(&mut 0), to, Some(&mut 5), count)
    };
    assert_eq!(copy(fd, fd, 5), Ok(5));
    assert_eq!(contents(&process, fd), b"0123401234");
    assert_eq!(copy(fd, fd, 6), Err(Errno::EINVAL), "they overlap");
    assert_eq!(copy(fd, fd, usize::MAX), Err(Errno::EINVAL));
    let directory = process.open("/", OpenFlags::DIRECTORY).unwrap();
    assert_eq!(copy(directory, fd, 1), Err(Errno::EISDIR));
    let read_only = process.open("a", OpenFlags::RDONLY).unwrap();
    assert_eq!(copy(fd, read_only, 1), Err(Errno::EBADF));
    let log = process
        .open("a", OpenFlags::WRONLY | OpenFlags::APPEND)
        .unwrap();
    assert_eq!(copy(fd, log, 1), Err(Errno::EBADF));
    assert_eq!(process.sendfile(log, fd, None, 1), Err(Errno::EINVAL));
}

#[test]
fn a_file_is_sent_to_any_writable_file() {
    let process = Process::new();
    let fd = file(&process, "a", &[7; 100_000]);
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    assert_eq!(process.sendfile(writer, fd, None, 200_000), Ok(65_536));
    assert_eq!(
        process.lseek(fd, SeekTo::Current(0)),
        Ok(65_536),
        "what was not taken stays"
    );
    assert_eq!(process.sendfile(writer, fd, None, 1), Err(Errno::EAGAIN));
    assert_eq!(process.read(reader, &mut [0; 70_000]), Ok(65_536));
    let mut at = 99_990;
    assert_eq!(process.sendfile(writer, fd, Some(&mut at), 50), Ok(10));
    assert_eq!(at, 100_000);
    assert_eq!(process.sendfile(fd, reader, None, 1), Err(Errno::EINVAL));
}

#[test]
fn memory_is_allocated_in_advance_and_freed() {
    let fs = MemFs::with_limits(MemFsLimits {
        file_size: 1 << 30,
        ..MemFsLimits::NONE
    });
    let process = Process::with(Files::new(), fs);
    let fd = file(&process, "a", b"0123456789");
    let allocate = |how, offset, length| process.fallocate(fd, how, offset, length);
    allocate(FallocateFlags::KEEP_SIZE, 0, 5000).unwrap();
    assert_eq!(process.fstat(fd).unwrap().size, 10);
    allocate(FallocateFlags::empty(), 8, 4).unwrap();
    assert_eq!(contents(&process, fd), b"0123456789\0\0");
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    allocate(hole, 2, 3).unwrap();
    allocate(hole, 9, 1 << 40).unwrap();
    assert_eq!(contents(&process, fd), b"01\0\0\x005678\0\0\0");
    assert_eq!(process.fstat(fd).unwrap().blocks, 8);
    allocate(hole, 0, 4096).unwrap();
    assert_eq!(process.fstat(fd).unwrap().blocks, 0);
    assert_eq!(contents(&process, fd), [0; 12]);
    for (how, offset, length, errno) in [
        (FallocateFlags::empty(), 0, 0, Errno::EINVAL),
        (FallocateFlags::PUNCH_HOLE, 0, 1, Errno::EOPNOTSUPP),
        (FallocateFlags::ZERO_RANGE, 0, 1, Errno::EOPNOTSUPP),
        (FallocateFlags::empty(), 0, 1 << 40, Errno::EFBIG),
        (FallocateFlags::empty(), 1, u64::MAX, Errno::EFBIG),
    ] {
        assert_eq!(allocate(how, offset, length), Err(errno), "{how:?}");
    }
    let (_, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    let none = FallocateFlags::empty();
    assert_eq!(process.fallocate(writer, none, 0, 1), Err(Errno::ESPIPE));
}

#[test]
fn data_reaches_to_the_end_and_there_is_the_hole() {
    let process = Process::new();
    let fd = file(&process, "a", b"0123456789");
    assert_eq!(process.lseek(fd, SeekTo::Data(3)), Ok(3));
    assert_eq!(process.lseek(fd, SeekTo::Hole(3)), Ok(10));
    assert_eq!(process.lseek(fd, SeekTo::Data(10)), Err(Errno::ENXIO));
    assert_eq!(process.lseek(fd, SeekTo::Hole(10)), Err(Errno::ENXIO));
    assert_eq!(process.lseek(fd, SeekTo::Current(0)), Ok(10));
}

#[test]
fn a_fifo_connects_its_openers() {
    let process = Process::new();
    process
        .mknodat(At::Cwd, "f", FileKind::Fifo, 0o600)
        .unwrap();
    let late = process.open("f", OpenFlags::WRONLY | OpenFlags::NONBLOCK);
    assert_eq!(late, Err(Errno::ENXIO));
    let reader = process.open("f", OpenFlags::NONBLOCK).unwrap();
    let writer = process.open("f", OpenFlags::WRONLY).unwrap();
    process.write(writer, b"through").unwrap();
    assert_eq!(process.read(reader, &mut [0; 9]), Ok(7));
    let stat = process.fstat(reader).unwrap();
    assert_eq!(stat, process.stat("f").unwrap());
    assert_eq!(stat.kind, FileKind::Fifo);
    process.unlink("f").unwrap();
    process.write(writer, b"still").unwrap();
    let (one, other) = (process.clone(), process.clone());
    process
        .mknodat(At::Cwd, "f", FileKind::Fifo, 0o600)
        .unwrap();
    let waiting = crate::call::Call::start_waiting(move || one.open("f", OpenFlags::RDONLY));
    other.open("f", OpenFlags::WRONLY).unwrap();
    waiting.result().unwrap();
}

#[test]
fn a_connect_finds_the_value_bound_to_the_name() {
    let process = Process::new();
    process
        .bind_name("s", std::sync::Arc::new(17_u32), Mode::ALL)
        .unwrap();
    assert_eq!(process.stat("s").unwrap().kind, FileKind::Socket);
    assert_eq!(process.open("s", OpenFlags::RDWR), Err(Errno::ENXIO));
    let found = process.bound_to("s").unwrap().downcast::<u32>().unwrap();
    assert_eq!(*found, 17);
    let again = process.bind_name("s", std::sync::Arc::new(18_u32), Mode::ALL);
    assert_eq!(again, Err(Errno::EADDRINUSE));
    process.open("a", NEW).unwrap();
    assert_eq!(process.bound_to("a").err(), Some(Errno::ECONNREFUSED));
}

/// There are no bytes past the end of the file that could overlap.
#[test]
fn a_copy_of_a_whole_file_may_go_to_its_end() {
    let process = Process::new();
    let fd = file(&process, "a", b"01234");
    let copy = |to| process.copy_file_range(fd, Some(&mut 0), fd, Some(&mut { to }), usize::MAX);
    assert_eq!(copy(4), Err(Errno::EINVAL));
    assert_eq!(copy(5), Ok(5));
    assert_eq!(contents(&process, fd), b"0123401234");
}
