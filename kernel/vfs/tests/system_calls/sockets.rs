use fdtable_vfs::{Errno, OpenFlags, Process, socket};

use crate::call::Call;

#[test]
fn both_directions_carry_bytes() {
    let process = Process::new();
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    let mut buf = [0; 16];
    process.write(near, b"question").unwrap();
    process.write(far, b"answer").unwrap();
    assert_eq!(process.read(far, &mut buf), Ok(8));
    assert_eq!(&buf[..8], b"question");
    assert_eq!(process.read(near, &mut buf), Ok(6));
    assert_eq!(&buf[..6], b"answer");
}

#[test]
fn a_child_replies_over_its_end() {
    let parent = Process::new();
    let (near, far) = parent.socketpair(OpenFlags::empty()).unwrap();
    let child = parent.fork().unwrap();
    parent.close(far).unwrap();
    let echo = Call::start_waiting(move || {
        child.close(near).unwrap();
        let mut buf = [0; 100];
        loop {
            match child.read(far, &mut buf).unwrap() {
                0 => break,
                count => assert_eq!(child.write(far, &buf[..count]), Ok(count)),
            }
        }
    });
    let mut buf = [0; 100];
    for message in [&b"one"[..], b"two", b"three"] {
        parent.write(near, message).unwrap();
        assert_eq!(parent.read(near, &mut buf), Ok(message.len()));
        assert_eq!(&buf[..message.len()], message);
    }
    parent.close(near).unwrap();
    echo.result();
}

#[test]
fn closing_one_end_ends_both_directions() {
    let process = Process::new();
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    process.write(near, b"last").unwrap();
    process.close(near).unwrap();
    let mut buf = [0; 16];
    assert_eq!(process.read(far, &mut buf), Ok(4));
    assert_eq!(process.read(far, &mut buf), Ok(0));
    assert_eq!(process.write(far, b"x"), Err(Errno::EPIPE));
}

#[test]
fn a_waiting_end_is_woken_by_the_close_of_the_other() {
    let process = Process::new();
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    let waiting = process.clone();
    let read = Call::start_waiting(move || waiting.read(far, &mut [0]));
    process.close(near).unwrap();
    assert_eq!(read.result(), Ok(0));
}

#[test]
fn a_nonblocking_pair_returns_eagain() {
    let process = Process::new();
    let (near, far) = process.socketpair(OpenFlags::NONBLOCK).unwrap();
    assert_eq!(process.read(near, &mut [0]), Err(Errno::EAGAIN));
    let long = vec![0; socket::CAPACITY + 1];
    assert_eq!(process.write(far, &long), Ok(socket::CAPACITY));
    assert_eq!(process.write(far, b"x"), Err(Errno::EAGAIN));
}
