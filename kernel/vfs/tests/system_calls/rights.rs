//! Passing open files, and the collection of unreachable sockets.

use std::io::{IoSlice, IoSliceMut};

use fdtable::{Fd, FdFlags, Files};
use fdtable_vfs::socket::in_flight::MAX_FILES;
use fdtable_vfs::socket::{MsgFlags, Received, SendMessage, SocketAddress, SocketType};
use fdtable_vfs::{Errno, MemFs, OpenFlags, Process};

use crate::call::within_time;

/// Sends one byte with the files of `fds`.
fn pass(process: &Process, over: Fd, fds: &[Fd]) -> Result<usize, Errno> {
    pass_with(process, over, b"x", fds)
}

fn pass_with(process: &Process, over: Fd, bytes: &[u8], fds: &[Fd]) -> Result<usize, Errno> {
    let files = fds.iter().map(|&fd| process.files().get(fd).unwrap());
    let message = SendMessage {
        bytes: &[IoSlice::new(bytes)],
        rights: files.collect(),
        ..SendMessage::default()
    };
    process.sendmsg(over, message, MsgFlags::DONTWAIT)
}

fn receive(process: &Process, fd: Fd, size: usize, flags: MsgFlags) -> Result<Received, Errno> {
    process.recvmsg(fd, &mut [IoSliceMut::new(&mut vec![0; size])], flags)
}

/// Receives files, and installs them.
fn take(process: &Process, fd: Fd) -> Vec<Fd> {
    let received = receive(process, fd, 100, MsgFlags::DONTWAIT).unwrap();
    let (fds, flags) = process
        .install_rights(received.rights, FdFlags::empty())
        .expect("known flags");
    assert_eq!(flags, MsgFlags::empty());
    fds
}

fn pair(process: &Process) -> (Fd, Fd) {
    process.socketpair(OpenFlags::empty()).unwrap()
}

/// Checks that the writing end of a pipe is released, as is what held it.
#[track_caller]
fn assert_released(process: &Process, reader: Fd) {
    assert_eq!(process.read(reader, &mut [0]), Ok(0));
}

#[track_caller]
fn assert_held(process: &Process, reader: Fd) {
    assert_eq!(process.read(reader, &mut [0]), Err(Errno::EAGAIN));
}

const KINDS: [SocketType; 3] = [
    SocketType::Stream,
    SocketType::Datagram,
    SocketType::SeqPacket,
];

#[test]
fn a_file_that_is_passed_is_the_same_open_file() {
    for kind in KINDS {
        let process = Process::new();
        let (near, far) = process.socketpair_of(kind, OpenFlags::empty()).unwrap();
        let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
        pass(&process, near, &[writer]).unwrap();
        process.close(writer).unwrap();
        assert_held(&process, reader);
        assert_eq!(process.kernel().sockets().in_flight(), 1);
        let fds = take(&process, far);
        assert_eq!(process.kernel().sockets().in_flight(), 0);
        assert_eq!(process.write(fds[0], b"hello"), Ok(5));
        assert_eq!(process.read(reader, &mut [0; 9]), Ok(5));
    }
}

#[test]
fn files_that_are_never_received_are_released() {
    for kind in KINDS {
        let process = Process::new();
        let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
        let (near, far) = process.socketpair_of(kind, OpenFlags::empty()).unwrap();
        pass(&process, near, &[writer]).unwrap();
        // A plain read cannot take them.
        assert_eq!(process.read(far, &mut [0; 9]), Ok(1));
        pass(&process, near, &[writer]).unwrap();
        process.close(writer).unwrap();
        assert_held(&process, reader);
        process.close(far).unwrap();
        assert_released(&process, reader);
        assert_eq!(process.kernel().sockets().in_flight(), 0);
    }
}

#[test]
fn files_end_a_read_of_a_stream() {
    let process = Process::new();
    let (near, far) = pair(&process);
    process.write(near, b"ab").unwrap();
    pass_with(&process, near, b"cd", &[near]).unwrap();
    process.write(near, b"ef").unwrap();
    pass_with(&process, near, b"gh", &[near, far]).unwrap();
    let read = |size| {
        let received = receive(&process, far, size, MsgFlags::DONTWAIT).unwrap();
        (received.count, received.rights.len())
    };
    // Bytes before them are read with them, bytes after them are not.
    assert_eq!(read(100), (4, 1));
    assert_eq!(read(3), (3, 2));
    assert_eq!(read(100), (1, 0));
}

#[test]
fn waitall_ends_with_files() {
    let process = Process::new();
    let (near, far) = pair(&process);
    pass_with(&process, near, b"ab", &[near]).unwrap();
    process.write(near, b"cd").unwrap();
    let received = receive(&process, far, 4, MsgFlags::WAITALL).unwrap();
    assert_eq!((received.count, received.rights.len()), (2, 1));
}

#[test]
fn a_peek_returns_the_files_too_and_leaves_them() {
    for kind in KINDS {
        let process = Process::new();
        let (near, far) = process.socketpair_of(kind, OpenFlags::empty()).unwrap();
        pass(&process, near, &[near]).unwrap();
        let looked = receive(&process, far, 9, MsgFlags::PEEK).unwrap();
        assert_eq!(looked.rights.len(), 1);
        assert_eq!(process.kernel().sockets().in_flight(), 1);
        assert_eq!(take(&process, far).len(), 1);
    }
}

#[test]
fn files_without_a_free_descriptor_are_dropped() {
    let process = Process::with(Files::with_limit(5), MemFs::default());
    let (near, far) = pair(&process);
    pass(&process, near, &[near, far, near, far]).unwrap();
    let received = receive(&process, far, 9, MsgFlags::empty()).unwrap();
    let (fds, flags) = process
        .install_rights(received.rights, FdFlags::CLOEXEC)
        .expect("known flags");
    assert_eq!((fds.len(), flags), (3, MsgFlags::CTRUNC));
}

#[test]
fn received_files_are_dropped_when_a_flag_of_their_numbers_is_unknown() {
    let process = Process::new();
    let (near, far) = pair(&process);
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    pass(&process, near, &[writer]).unwrap();
    process.close(writer).unwrap();
    let received = receive(&process, far, 9, MsgFlags::empty()).unwrap();
    assert_held(&process, reader);
    let unknown = FdFlags::from_bits_retain(4);
    assert_eq!(
        process.install_rights(received.rights, unknown),
        Err(Errno::EINVAL)
    );
    assert_released(&process, reader);
}

#[test]
fn too_many_files_are_refused() {
    let process = Process::with(Files::with_limit(300), MemFs::default());
    let (near, far) = pair(&process);
    assert_eq!(
        pass(&process, near, &vec![near; MAX_FILES + 1]),
        Err(Errno::EINVAL)
    );
    assert_eq!(pass(&process, near, &vec![near; MAX_FILES]), Ok(1));
    assert_eq!(pass(&process, near, &[near; 48]), Err(Errno::ETOOMANYREFS));
    assert_eq!(pass(&process, near, &[near; 47]), Ok(1));
    process.close(far).unwrap();
    assert_eq!(process.kernel().sockets().in_flight(), 0);
}

#[test]
fn files_of_a_send_that_fails_are_dropped() {
    let process = Process::new();
    let (near, far) = pair(&process);
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    process
        .shutdown(far, fdtable_vfs::socket::Shutdown::Read)
        .unwrap();
    assert_eq!(pass(&process, near, &[writer]), Err(Errno::EPIPE));
    process.close(writer).unwrap();
    assert_released(&process, reader);
    assert_eq!(process.kernel().sockets().in_flight(), 0);
}

/// Makes garbage of sockets that hold a pipe's writing end, and expects its release. It must be
/// held until an unrelated socket is closed.
fn assert_collected(make: impl FnOnce(&Process, Fd)) {
    let process = Process::new();
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    let (unrelated, _) = pair(&process);
    make(&process, writer);
    process.close(writer).unwrap();
    assert_held(&process, reader);
    process.close(unrelated).unwrap();
    assert_released(&process, reader);
    assert_eq!(process.kernel().sockets().in_flight(), 0);
}

#[test]
fn a_socket_in_its_own_queue_is_collected() {
    for kind in KINDS {
        assert_collected(|process, writer| {
            let (near, far) = process.socketpair_of(kind, OpenFlags::empty()).unwrap();
            pass(process, near, &[far, writer]).unwrap();
            process.close(near).unwrap();
            process.close(far).unwrap();
        });
    }
}

/// Sockets whose references are counted by CPU: not while they are open, and all the same later.
#[test]
fn a_socket_that_several_cpus_use_is_collected_after_its_last_close() {
    assert_collected(|process, writer| {
        let (near, far) = pair(process);
        pass(process, near, &[far, writer]).unwrap();
        for fd in [near, far] {
            process.files().count_by_cpu(fd.raw()).unwrap();
        }
        assert_eq!(process.kernel().sockets().collect(), 0);
        let again = process.dup(far).unwrap();
        for fd in [near, far, again] {
            assert_eq!(process.kernel().sockets().collect(), 0);
            process.close(fd).unwrap();
        }
    });
}

#[test]
fn two_ends_in_each_others_queues_are_collected() {
    assert_collected(|process, writer| {
        let (near, far) = pair(process);
        pass(process, near, &[near, writer]).unwrap();
        pass(process, far, &[far]).unwrap();
        process.close(near).unwrap();
        process.close(far).unwrap();
    });
}

#[test]
fn a_cycle_of_many_sockets_is_collected() {
    assert_collected(|process, writer| {
        let pairs: Vec<_> = (0..100).map(|_| pair(process)).collect();
        pass(process, pairs[0].0, &[writer]).unwrap();
        for (at, &(near, _)) in pairs.iter().enumerate() {
            pass(process, near, &[pairs[(at + 1) % pairs.len()].1]).unwrap();
        }
        for (near, far) in pairs {
            process.close(near).unwrap();
            process.close(far).unwrap();
        }
    });
}

#[test]
fn a_listener_in_the_queue_of_its_pending_connection_is_collected() {
    let process = Process::new();
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    let name = SocketAddress::Abstract(b"knot".to_vec());
    let socket = || {
        process
            .socket(SocketType::Stream, OpenFlags::empty())
            .unwrap()
    };
    let (server, client) = (socket(), socket());
    process.bind(server, &name).unwrap();
    process.listen(server, 5).unwrap();
    process.connect(client, &name).unwrap();
    pass(&process, client, &[server, writer]).unwrap();
    process.close(server).unwrap();
    process.close(writer).unwrap();
    assert_held(&process, reader);
    // The client was never sent: its own release starts the collection.
    process.close(client).unwrap();
    assert_released(&process, reader);
}

#[test]
fn reachable_sockets_are_not_collected() {
    let process = Process::new();
    let (near, far) = pair(&process);
    let (inner_near, inner_far) = pair(&process);
    let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
    // A cycle of which one member is in a queue that can be received from.
    pass(&process, inner_near, &[inner_far, writer]).unwrap();
    pass(&process, near, &[inner_far]).unwrap();
    for fd in [inner_near, inner_far, writer] {
        process.close(fd).unwrap();
    }
    assert_eq!(process.kernel().sockets().collect(), 0);
    assert_held(&process, reader);
    let inner = take(&process, far)[0];
    assert_eq!(process.kernel().sockets().collect(), 0);
    assert_eq!(take(&process, inner).len(), 2);
}

/// Each socket is in the queue of the next: their release must not recurse.
#[test]
fn a_long_chain_is_released_on_a_small_stack() {
    const LENGTH: usize = 10_000;
    let body = || {
        let process = Process::with(Files::with_limit(100_000), MemFs::default());
        let (reader, writer) = process.pipe2(OpenFlags::NONBLOCK).unwrap();
        let (mut near, mut far) = pair(&process);
        pass(&process, near, &[writer]).unwrap();
        process.close(writer).unwrap();
        for _ in 0..LENGTH {
            let (next_near, next_far) = pair(&process);
            pass(&process, next_near, &[far, near]).unwrap();
            process.close(near).unwrap();
            process.close(far).unwrap();
            (near, far) = (next_near, next_far);
        }
        assert_held(&process, reader);
        process.close(near).unwrap();
        process.close(far).unwrap();
        assert_released(&process, reader);
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    thread.spawn(body).unwrap().join().unwrap();
}

/// Threads pass sockets around while others collect garbage: every received socket works.
#[test]
fn no_socket_that_will_be_received_is_collected() {
    const ROUNDS: usize = 300;
    within_time(|| {
        let process = Process::with(Files::with_limit(100_000), MemFs::default());
        let (near, far) = pair(&process);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let (inner_near, inner_far) = pair(&process);
                    pass(&process, inner_near, &[inner_near]).unwrap();
                    process.write(inner_far, b"mine").unwrap();
                    // From here on, its only descriptors are in queues.
                    let files = vec![
                        process.files().close(inner_near).unwrap().into_file(),
                        process.files().close(inner_far).unwrap().into_file(),
                    ];
                    let message = SendMessage {
                        bytes: &[IoSlice::new(b"x")],
                        rights: files,
                        ..SendMessage::default()
                    };
                    process.sendmsg(near, message, MsgFlags::empty()).unwrap();
                }
            });
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let received = receive(&process, far, 1, MsgFlags::empty()).unwrap();
                    let (fds, _) = process
                        .install_rights(received.rights, FdFlags::empty())
                        .expect("known flags");
                    assert_eq!(process.read(fds[0], &mut [0; 9]), Ok(4));
                    let inner = take(&process, fds[1]);
                    assert_eq!(inner.len(), 1);
                    fds.iter()
                        .chain(&inner)
                        .for_each(|&fd| process.close(fd).unwrap());
                }
            });
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    process.kernel().sockets().collect();
                }
            });
        });
    });
}
