//! Signals about input and output, with a sender that records them.

use std::sync::Arc;

use fdtable_vfs::event::{EventFdFlags, IoSignal, Owner, OwnerKind, SignalReason, SignalSender};
use fdtable_vfs::socket::{Shutdown, SocketType};
use fdtable_vfs::{Errno, OpenFlags, Process};
use parking_lot::Mutex;

use SignalReason::{Hup, In, Out};

/// Number of a signal.
const USR1: i32 = 10;

/// The only process that exists.
const OWNER: Owner = Owner {
    kind: OwnerKind::Process,
    id: 7,
};

#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<IoSignal>>);

impl SignalSender for Recorder {
    fn exists(&self, owner: Owner) -> bool {
        owner == OWNER
    }

    fn send(&self, signal: IoSignal) {
        self.0.lock().push(signal);
    }
}

impl Recorder {
    /// Makes a process whose signals are recorded.
    fn process() -> (Process, Arc<Recorder>) {
        let process = Process::new();
        let recorder = Arc::new(Recorder::default());
        process
            .kernel()
            .set_signal_sender(Arc::clone(&recorder) as _);
        (process, recorder)
    }

    /// Returns the descriptors and reasons of the signals since the last call.
    fn take(&self) -> Vec<(i32, SignalReason)> {
        let signals = std::mem::take(&mut *self.0.lock());
        signals
            .iter()
            .map(|signal| (signal.fd, signal.reason))
            .collect()
    }
}

#[track_caller]
fn arm(process: &Process, fd: fdtable::Fd) {
    process.set_owner(fd, OWNER).unwrap();
    process.set_async(fd, true).unwrap();
}

#[test]
fn owner_and_signal_belong_to_the_open_file() {
    let (process, _) = Recorder::process();
    let (reader, writer) = process.pipe2(OpenFlags::empty()).unwrap();
    assert_eq!(process.owner(reader), Ok(Owner::default()));
    assert_eq!(process.io_signal(reader), Ok(0));
    assert_eq!(process.set_owner(reader, OWNER), Ok(()));
    assert_eq!(process.set_io_signal(reader, USR1), Ok(()));
    let duplicate = process.dup(reader).unwrap();
    assert_eq!(process.owner(duplicate), Ok(OWNER));
    assert_eq!(process.io_signal(duplicate), Ok(USR1));
    assert_eq!(process.owner(writer), Ok(Owner::default()));
    for id in [8, -7] {
        let other = Owner { id, ..OWNER };
        assert_eq!(process.set_owner(reader, other), Err(Errno::ESRCH));
    }
    for signal in [-1, 65] {
        assert_eq!(process.set_io_signal(reader, signal), Err(Errno::EINVAL));
    }
    assert_eq!(process.set_owner(reader, Owner { id: 0, ..OWNER }), Ok(()));
    assert_eq!(process.owner(reader).map(|owner| owner.id), Ok(0));
    assert_eq!(process.owner(99), Err(Errno::EBADF));
    let path = process.open("/", OpenFlags::PATH).unwrap();
    assert_eq!(process.owner(path), Err(Errno::EBADF));
}

#[test]
fn each_transfer_of_a_pipe_sends_a_signal_to_the_other_end() {
    let (process, recorder) = Recorder::process();
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    arm(&process, reader);
    arm(&process, writer);
    let (r, w) = (reader.raw(), writer.raw());
    for _ in 0..2 {
        process.write(writer, b"xy").unwrap();
        assert_eq!(recorder.take(), [(r, In)]);
    }
    process.read(reader, &mut [0; 9]).unwrap();
    assert_eq!(recorder.take(), [(w, Out)]);
    process.close(writer).unwrap();
    assert_eq!(recorder.take(), [(r, In)]);
    process.close(reader).unwrap();
    assert_eq!(recorder.take(), []);
}

#[test]
fn a_signal_has_the_number_and_the_owner_of_now() {
    let (process, recorder) = Recorder::process();
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    process.set_async(reader, true).unwrap();
    process.write(writer, b"x").unwrap();
    assert_eq!(recorder.take(), [], "there is no owner");
    process.set_owner(reader, OWNER).unwrap();
    process.set_io_signal(reader, USR1).unwrap();
    process.write(writer, b"x").unwrap();
    let expected = IoSignal {
        owner: OWNER,
        signal: USR1,
        fd: reader.raw(),
        reason: In,
    };
    assert_eq!(*recorder.0.lock(), [expected]);
}

#[test]
fn signals_stop_with_the_flag_and_with_the_last_close() {
    let (process, recorder) = Recorder::process();
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    process.set_owner(reader, OWNER).unwrap();
    let is_async = || process.status(reader).unwrap().contains(OpenFlags::ASYNC);
    let flags = OpenFlags::NONBLOCK;
    process
        .set_status(reader, flags | OpenFlags::ASYNC)
        .unwrap();
    assert!(is_async());
    process.write(writer, b"x").unwrap();
    assert_eq!(recorder.take().len(), 1);
    process.set_status(reader, flags).unwrap();
    assert!(!is_async());
    process.write(writer, b"x").unwrap();
    assert_eq!(recorder.take(), []);
    process.set_async(reader, true).unwrap();
    let other = process.dup(reader).unwrap();
    process.close(reader).unwrap();
    process.write(writer, b"x").unwrap();
    assert_eq!(recorder.take(), [(reader.raw(), In)]);
    process.close(other).unwrap();
    // Another open file at the same descriptor, and perhaps at the same address.
    let (again, _) = process.pipe2(OpenFlags::empty()).unwrap();
    assert_eq!(again, reader);
    assert_eq!(process.owner(again), Ok(Owner::default()));
    assert_eq!(recorder.take(), []);
}

#[test]
fn a_socket_sends_signals_about_its_peer() {
    for kind in [
        SocketType::Stream,
        SocketType::SeqPacket,
        SocketType::Datagram,
    ] {
        let (process, recorder) = Recorder::process();
        let flags = OpenFlags::NONBLOCK;
        let pair = || {
            let (near, far) = process.socketpair_of(kind, flags).unwrap();
            arm(&process, near);
            arm(&process, far);
            (near, far)
        };
        let (near, far) = pair();
        let ends = kind != SocketType::Datagram;
        let expected = |reason| Vec::from_iter(ends.then_some((near.raw(), reason)));
        for _ in 0..2 {
            process.write(far, b"x").unwrap();
            assert_eq!(recorder.take(), [(near.raw(), In)]);
        }
        process.read(near, &mut [0]).unwrap();
        assert_eq!(recorder.take(), [], "the peer could write before");
        process.shutdown(far, Shutdown::Write).unwrap();
        assert_eq!(recorder.take(), expected(In));
        process.shutdown(far, Shutdown::Read).unwrap();
        assert_eq!(recorder.take(), []);
        process.close(far).unwrap();
        assert_eq!(recorder.take(), expected(Hup));
        process.close(near).unwrap();
        assert_eq!(recorder.take(), []);
        let (near, far) = pair();
        while process.write(near, &[0; 4096]).is_ok() {}
        recorder.take();
        while process.read(far, &mut [0; 4096]).is_ok() {}
        assert_eq!(recorder.take(), [(near.raw(), Out)]);
    }
}

#[test]
fn other_files_send_no_signals() {
    let (process, _) = Recorder::process();
    let event = process.eventfd(0, EventFdFlags::empty()).unwrap();
    assert_eq!(process.set_async(event, true), Err(Errno::ENOTTY));
    assert_eq!(process.set_async(event, false), Ok(()));
    assert_eq!(process.set_status(event, OpenFlags::ASYNC), Ok(()));
    assert!(!process.status(event).unwrap().contains(OpenFlags::ASYNC));
    // The flag of an open stays, and starts no signals.
    let flags = OpenFlags::CREAT | OpenFlags::ASYNC;
    let file = process.open("file", flags).unwrap();
    assert_eq!(process.set_async(file, true), Ok(()));
    assert_eq!(process.set_async(file, false), Err(Errno::ENOTTY));
    assert!(process.status(file).unwrap().contains(OpenFlags::ASYNC));
}
