//! Properties that the workloads rely on, for every table.

use fdtable::FdFlags;
use fdtable_vfs::event::Events;
use fdtable_vfs::{Errno, FdSet, Object, OpenFlags, PollFd, Process};
use std::io::IoSlice;

use super::{Calls, Locked};
use crate::baseline::{FilesStruct, LockedVec};
use crate::table::RcuFile;

type Bitmap = Locked<FilesStruct<RcuFile<dyn Object>>>;
type Vector = Locked<LockedVec<RcuFile<dyn Object>>>;

fn new<C: Calls>() -> C {
    C::with_limit(100).unwrap()
}

fn files_are_read_and_written_at_their_position<C: Calls>() {
    let process: C = new();
    let flags = OpenFlags::RDWR | OpenFlags::CREAT;
    let fd = process.open("/file", flags).unwrap();
    assert_eq!(process.write(fd, b"abcdef"), Ok(6));
    assert_eq!(process.pwrite(fd, b"xy", 1), Ok(2));
    assert_eq!(process.seek(fd, 1), Ok(1));
    let mut buf = [0; 4];
    assert_eq!(process.read(fd, &mut buf), Ok(4));
    assert_eq!(&buf, b"xyde");
    assert_eq!(process.pread(fd, &mut buf, 5), Ok(1));
    let bufs = [IoSlice::new(b"12"), IoSlice::new(b"3")];
    assert_eq!(process.writev(fd, &bufs), Ok(3));
    assert_eq!(process.pread(fd, &mut buf, 4), Ok(4));
    assert_eq!(&buf, b"e123");
    assert_eq!(process.status(fd), Ok(OpenFlags::RDWR));
    let zero = process.open("/dev/zero", OpenFlags::RDONLY).unwrap();
    assert_eq!(process.read(zero, &mut buf), Ok(4));
    assert_eq!(buf, [0; 4]);
}

fn descriptors_are_duplicated_flagged_and_closed<C: Calls>() {
    let process: C = new();
    let (reader, writer) = process.pipe().unwrap();
    assert_eq!((reader, writer), (0, 1));
    assert_eq!(process.dup(writer), Ok(2));
    process.set_flags(2, FdFlags::CLOEXEC).unwrap();
    assert_eq!(process.get_flags(2), Ok(FdFlags::CLOEXEC));
    assert_eq!(process.get_flags(1), Ok(FdFlags::empty()));
    process.close(writer).unwrap();
    for gone in [writer, 3, 99, 5000, -1] {
        assert_eq!(process.close(gone), Err(Errno::EBADF), "{gone}");
        assert_eq!(process.dup(gone), Err(Errno::EBADF), "{gone}");
        assert_eq!(process.get_flags(gone), Err(Errno::EBADF), "{gone}");
        assert_eq!(process.status(gone), Err(Errno::EBADF), "{gone}");
    }
    let mut child = process.fork().unwrap();
    child.exec().unwrap();
    assert_eq!(child.close(2), Err(Errno::EBADF));
    assert_eq!(child.close(reader), Ok(()));
    assert_eq!(process.write(2, b"x"), Ok(1));
    process.close(2).unwrap();
    assert_eq!(process.read(reader, &mut [0; 8]), Ok(1));
    assert_eq!(
        process.read(reader, &mut [0; 8]),
        Ok(0),
        "there is no writer any more"
    );
}

fn ready_descriptors_are_found<C: Calls>() {
    let process: C = new();
    let (one, other) = process.socketpair().unwrap();
    let look = |expected| {
        let mut polled = [PollFd::new(one, Events::IN), PollFd::new(other, Events::IN)];
        assert_eq!(process.poll(&mut polled), Ok(expected));
        let mut read = FdSet::new();
        read.insert(one);
        read.insert(other);
        assert_eq!(process.select(2, &mut read), Ok(expected));
        let found = polled.map(|one| one.revents.contains(Events::IN));
        assert_eq!(found, [read.contains(one), read.contains(other)]);
    };
    look(0);
    process.write(one, b"x").unwrap();
    look(1);
    process.write(other, b"x").unwrap();
    look(2);
    let mut closed = [PollFd::new(7, Events::IN)];
    assert_eq!(process.poll(&mut closed), Ok(1));
    assert_eq!(closed[0].revents, Events::NVAL);
    let mut read = FdSet::new();
    read.insert(7);
    assert_eq!(process.select(8, &mut read), Err(Errno::EBADF));
}

fn a_call_that_must_wait_waits<C: Calls>() {
    let process: C = new();
    let (reader, writer) = process.pipe().unwrap();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| process.read(reader, &mut [0; 8]));
        process.write(writer, b"abc").unwrap();
        assert_eq!(read.join().unwrap(), Ok(3));
    });
}

macro_rules! on_every_table {
    ($($behaviour:ident)+) => {
        mod every_table {
            use super::*;

            $(#[test]
            fn $behaviour() {
                super::$behaviour::<Process>();
                super::$behaviour::<Bitmap>();
                super::$behaviour::<Vector>();
            })+
        }
    };
}

on_every_table! {
    files_are_read_and_written_at_their_position
    descriptors_are_duplicated_flagged_and_closed
    ready_descriptors_are_found
    a_call_that_must_wait_waits
}
