//! `splice`, `tee` and `vmsplice`.

use std::io::{IoSlice, IoSliceMut};

use fdtable::Fd;
use fdtable_vfs::{Errno, OpenFlags, Process, SpliceFlags};

use crate::call::Call;

const NOW: SpliceFlags = SpliceFlags::NONBLOCK;
const NEW: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);

fn process() -> (Process, [Fd; 4]) {
    let process = Process::new();
    let (one, one_in) = process.pipe2(OpenFlags::empty()).unwrap();
    let (other, other_in) = process.pipe2(OpenFlags::empty()).unwrap();
    (process, [one, one_in, other, other_in])
}

fn text(process: &Process, fd: Fd) -> String {
    let mut buf = [0; 100];
    let count = process.read(fd, &mut buf).unwrap();
    String::from_utf8(buf[..count].to_vec()).unwrap()
}

#[test]
fn bytes_go_from_a_file_through_pipes_to_a_file() {
    let (process, [one, one_in, other, other_in]) = process();
    let file = process.open("/from", NEW).unwrap();
    process.write(file, b"abcdefgh").unwrap();
    let mut at = 2;
    let moved = process.splice(file, Some(&mut at), one_in, None, 4, NOW);
    assert_eq!((moved, at), (Ok(4), 6));
    assert_eq!(process.splice(one, None, other_in, None, 100, NOW), Ok(4));
    assert_eq!(
        process.splice(one, None, other_in, None, 1, NOW),
        Err(Errno::EAGAIN)
    );
    let target = process.open("/to", NEW).unwrap();
    let mut at = 1;
    let moved = process.splice(other, None, target, Some(&mut at), 100, NOW);
    assert_eq!((moved, at), (Ok(4), 5));
    assert_eq!(text(&process, target), "\0cdef");
}

#[test]
fn a_tee_leaves_the_bytes_in_the_pipe() {
    let (process, [one, one_in, other, other_in]) = process();
    process.write(one_in, b"both").unwrap();
    assert_eq!(process.tee(one, other_in, 100, NOW), Ok(4));
    assert_eq!(
        (text(&process, one), text(&process, other)),
        ("both".into(), "both".into())
    );
    assert_eq!(process.tee(one, one_in, 1, NOW), Err(Errno::EINVAL));
}

#[test]
fn a_failed_write_leaves_the_bytes_in_the_pipe() {
    let (process, [one, one_in, other, other_in]) = process();
    process.write(one_in, b"kept").unwrap();
    process.close(other).unwrap();
    assert_eq!(
        process.splice(one, None, other_in, None, 4, NOW),
        Err(Errno::EPIPE)
    );
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    process.close(far).unwrap();
    assert_eq!(
        process.splice(one, None, near, None, 4, NOW),
        Err(Errno::EPIPE)
    );
    assert_eq!(text(&process, one), "kept");
}

#[test]
fn a_splice_sleeps_until_there_is_something_to_move() {
    let (process, [one, one_in, other, other_in]) = process();
    let clone = process.clone();
    let flags = SpliceFlags::empty();
    let moving = move || clone.splice(one, None, other_in, None, 100, flags);
    let call = Call::start_waiting(moving);
    process.write(one_in, b"late").unwrap();
    assert_eq!(call.result(), Ok(4));
    assert_eq!(text(&process, other), "late");
}

#[test]
fn memory_is_moved_to_and_from_a_pipe() {
    let (process, [one, one_in, ..]) = process();
    let out = [IoSlice::new(b"user"), IoSlice::new(b"land")];
    assert_eq!(process.vmsplice_to_pipe(one_in, &out, NOW), Ok(8));
    let mut buf = [0; 100];
    let bufs = &mut [IoSliceMut::new(&mut buf)];
    assert_eq!(process.vmsplice_from_pipe(one, bufs, NOW), Ok(8));
    assert_eq!(
        process.vmsplice_from_pipe(one, bufs, NOW),
        Err(Errno::EAGAIN)
    );
    assert_eq!(&buf[..8], b"userland");
    assert_eq!(process.vmsplice_to_pipe(one, &out, NOW), Err(Errno::EBADF));
    process.write(one_in, &[0; 65_530]).unwrap();
    assert_eq!(process.vmsplice_to_pipe(one_in, &out, NOW), Ok(6));
    assert_eq!(
        process.vmsplice_to_pipe(one_in, &out, NOW),
        Err(Errno::EAGAIN)
    );
}
