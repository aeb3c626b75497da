//! Datagrams, sequenced packets, and receive flags of streams.

use std::io::{IoSlice, IoSliceMut};

use fdtable::Fd;
use fdtable_vfs::socket::{
    BACKLOG, MsgFlags, Received, SendMessage, Shutdown, SocketAddress, SocketType,
};
use fdtable_vfs::{Errno, OpenFlags, Process};

use crate::call::Call;

fn send(process: &Process, fd: Fd, bytes: &[u8]) -> Result<usize, Errno> {
    let message = SendMessage {
        bytes: &[IoSlice::new(bytes)],
        ..SendMessage::default()
    };
    process.sendmsg(fd, message, MsgFlags::empty())
}

fn send_to(process: &Process, fd: Fd, bytes: &[u8], to: &SocketAddress) -> Result<usize, Errno> {
    let message = SendMessage {
        bytes: &[IoSlice::new(bytes)],
        to: Some(to),
        ..SendMessage::default()
    };
    process.sendmsg(fd, message, MsgFlags::DONTWAIT)
}

fn receive(process: &Process, fd: Fd, size: usize, flags: MsgFlags) -> Result<Received, Errno> {
    process.recvmsg(fd, &mut [IoSliceMut::new(&mut vec![0; size])], flags)
}

fn pair(kind: SocketType) -> (Process, Fd, Fd) {
    let process = Process::new();
    let (near, far) = process.socketpair_of(kind, OpenFlags::empty()).unwrap();
    (process, near, far)
}

fn abstract_name(name: &str) -> SocketAddress {
    SocketAddress::Abstract(name.into())
}

#[test]
fn messages_keep_their_boundaries_and_lose_what_does_not_fit() {
    for kind in [SocketType::Datagram, SocketType::SeqPacket] {
        let (process, near, far) = pair(kind);
        for bytes in [&b"first"[..], b"", b"third"] {
            assert_eq!(send(&process, near, bytes), Ok(bytes.len()));
        }
        let mut buf = [0; 3];
        assert_eq!(process.read(far, &mut buf), Ok(3));
        assert_eq!(&buf, b"fir");
        assert_eq!(process.read(far, &mut buf), Ok(0));
        let third = receive(&process, far, 2, MsgFlags::empty()).unwrap();
        assert_eq!((third.count, third.flags), (2, MsgFlags::TRUNC));
        assert_eq!(
            receive(&process, far, 9, MsgFlags::DONTWAIT).err(),
            Some(Errno::EAGAIN)
        );
    }
}

#[test]
fn a_peek_leaves_the_message_and_trunc_returns_its_length() {
    let (process, near, far) = pair(SocketType::Datagram);
    send(&process, near, b"message").unwrap();
    let flags = MsgFlags::PEEK | MsgFlags::TRUNC;
    assert_eq!(receive(&process, far, 2, flags).unwrap().count, 7);
    assert_eq!(process.read(far, &mut [0; 9]), Ok(7));
}

#[test]
fn several_slices_are_one_message() {
    let (process, near, far) = pair(SocketType::SeqPacket);
    let message = SendMessage {
        bytes: &[
            IoSlice::new(b"in "),
            IoSlice::new(b""),
            IoSlice::new(b"one"),
        ],
        ..SendMessage::default()
    };
    assert_eq!(process.sendmsg(near, message, MsgFlags::empty()), Ok(6));
    let (mut one, mut other) = ([0; 4], [0; 4]);
    let bufs = &mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
    assert_eq!(
        process.recvmsg(far, bufs, MsgFlags::empty()).unwrap().count,
        6
    );
    assert_eq!((&one, &other[..2]), (b"in o", &b"ne"[..]));
}

#[test]
fn datagrams_to_a_name_come_with_the_senders() {
    let process = Process::new();
    let socket = || {
        process
            .socket(SocketType::Datagram, OpenFlags::empty())
            .unwrap()
    };
    let (server, client) = (socket(), socket());
    process.bind(server, &abstract_name("server")).unwrap();
    process.bind(client, &SocketAddress::Unnamed).unwrap();
    let name = process.getsockname(client).unwrap();
    assert!(matches!(&name, SocketAddress::Abstract(digits) if digits.len() == 5));
    assert_eq!(
        send_to(&process, client, b"hi", &abstract_name("server")),
        Ok(2)
    );
    let request = receive(&process, server, 9, MsgFlags::empty()).unwrap();
    assert_eq!(request.from, Some(name.clone()));
    assert_eq!(send_to(&process, server, b"hello", &name), Ok(5));
    assert_eq!(process.read(client, &mut [0; 9]), Ok(5));
    assert_eq!(
        send_to(&process, client, b"hi", &abstract_name("nobody")),
        Err(Errno::ECONNREFUSED)
    );
}

#[test]
fn strangers_may_queue_a_few_datagrams() {
    let process = Process::new();
    let socket = || {
        process
            .socket(SocketType::Datagram, OpenFlags::empty())
            .unwrap()
    };
    let (server, client) = (socket(), socket());
    let name = abstract_name("crowded");
    process.bind(server, &name).unwrap();
    for _ in 0..=BACKLOG {
        assert_eq!(send_to(&process, client, b"x", &name), Ok(1));
    }
    assert_eq!(send_to(&process, client, b"x", &name), Err(Errno::EAGAIN));
    process.connect(client, &name).unwrap();
    let waiting = process.clone();
    let send = Call::start_waiting(move || waiting.write(client, b"x"));
    process.read(server, &mut [0]).unwrap();
    assert_eq!(send.result(), Ok(1));
}

#[test]
fn a_datagram_socket_with_a_peer_refuses_other_senders() {
    let process = Process::new();
    let socket = || {
        process
            .socket(SocketType::Datagram, OpenFlags::empty())
            .unwrap()
    };
    let (one, other, third) = (socket(), socket(), socket());
    process.bind(one, &abstract_name("one")).unwrap();
    process.bind(other, &abstract_name("other")).unwrap();
    process.connect(one, &abstract_name("other")).unwrap();
    assert_eq!(process.getpeername(one), Ok(abstract_name("other")));
    assert_eq!(
        send_to(&process, third, b"x", &abstract_name("one")),
        Err(Errno::EPERM)
    );
    assert_eq!(
        process.connect(third, &abstract_name("one")),
        Err(Errno::EPERM)
    );
    assert_eq!(send_to(&process, other, b"x", &abstract_name("one")), Ok(1));
    process.connect(one, &SocketAddress::Unnamed).unwrap();
    assert_eq!(process.getpeername(one), Err(Errno::ENOTCONN));
    assert_eq!(process.write(one, b"x"), Err(Errno::ENOTCONN));
    assert_eq!(send_to(&process, third, b"x", &abstract_name("one")), Ok(1));
}

#[test]
fn a_closed_peer_refuses_a_datagram_once_and_is_forgotten() {
    let (process, near, far) = pair(SocketType::Datagram);
    process.close(far).unwrap();
    assert_eq!(send(&process, near, b"x"), Err(Errno::ECONNREFUSED));
    assert_eq!(send(&process, near, b"x"), Err(Errno::ENOTCONN));
}

#[test]
fn the_end_of_a_sequence_is_reported() {
    let (process, near, far) = pair(SocketType::SeqPacket);
    send(&process, near, b"last").unwrap();
    process.shutdown(near, Shutdown::Write).unwrap();
    assert_eq!(send(&process, near, b"x"), Err(Errno::EPIPE));
    assert_eq!(process.read(far, &mut [0; 9]), Ok(4));
    assert_eq!(process.read(far, &mut [0; 9]), Ok(0));
    assert_eq!(send(&process, far, b"back"), Ok(4));
    process.close(far).unwrap();
    assert_eq!(process.read(near, &mut [0; 9]), Ok(4));
    assert_eq!(process.read(near, &mut [0; 9]), Ok(0));
}

#[test]
fn a_message_longer_than_the_send_buffer_is_refused() {
    let (process, near, _far) = pair(SocketType::SeqPacket);
    let long = vec![0; fdtable_vfs::socket::CAPACITY];
    assert_eq!(send(&process, near, &long), Err(Errno::EMSGSIZE));
}

#[test]
fn a_sender_of_messages_waits_for_room() {
    for kind in [SocketType::Datagram, SocketType::SeqPacket] {
        let (process, near, far) = pair(kind);
        let bytes = vec![0; 100_000];
        for _ in 0..3 {
            send(&process, near, &bytes).unwrap();
        }
        let waiting = process.clone();
        let send = Call::start_waiting(move || waiting.write(near, b"x"));
        process.read(far, &mut [0]).unwrap();
        assert_eq!(send.result(), Ok(1));
    }
}

#[test]
fn a_peek_at_a_stream_leaves_the_bytes() {
    let (process, near, far) = pair(SocketType::Stream);
    process.write(near, b"bytes").unwrap();
    assert_eq!(receive(&process, far, 9, MsgFlags::PEEK).unwrap().count, 5);
    assert_eq!(receive(&process, far, 3, MsgFlags::PEEK).unwrap().count, 3);
    assert_eq!(process.read(far, &mut [0; 9]), Ok(5));
}

#[test]
fn waitall_waits_for_all_or_the_end() {
    let (process, near, far) = pair(SocketType::Stream);
    process.write(near, b"12345").unwrap();
    let waiting = process.clone();
    let read = Call::start_waiting(move || {
        let received = receive(&waiting, far, 10, MsgFlags::WAITALL).unwrap();
        received.count
    });
    process.write(near, b"67890!").unwrap();
    assert_eq!(read.result(), 10);
    process.close(near).unwrap();
    assert_eq!(
        receive(&process, far, 10, MsgFlags::WAITALL).unwrap().count,
        1
    );
}

#[test]
fn urgent_data_is_refused() {
    let (process, near, far) = pair(SocketType::Stream);
    let message = SendMessage::default();
    assert_eq!(
        process.sendmsg(near, message, MsgFlags::OOB),
        Err(Errno::EOPNOTSUPP)
    );
    assert_eq!(
        receive(&process, far, 1, MsgFlags::OOB).err(),
        Some(Errno::EOPNOTSUPP)
    );
}

#[test]
fn a_read_into_an_empty_buffer_leaves_the_message() {
    for kind in [SocketType::Datagram, SocketType::SeqPacket] {
        let (process, near, far) = pair(kind);
        send(&process, near, b"kept").unwrap();
        assert_eq!(process.read(far, &mut []), Ok(0));
        assert_eq!(process.read(far, &mut [0; 9]), Ok(4));
    }
    let process = Process::new();
    let alone = process.socket(SocketType::Stream, OpenFlags::empty());
    assert_eq!(process.read(alone.unwrap(), &mut []), Ok(0));
}

#[test]
fn a_sender_is_woken_when_its_socket_is_revoked() {
    for kind in [
        SocketType::Stream,
        SocketType::Datagram,
        SocketType::SeqPacket,
    ] {
        let (process, near, _far) = pair(kind);
        let mine = process.clone();
        let sending = Call::start_waiting(move || {
            loop {
                if let Err(errno) = send(&mine, near, &[0; 4000]) {
                    return errno;
                }
            }
        });
        fdtable::FileRef::revoke(&process.files().get(near).unwrap());
        assert_eq!(sending.result(), Errno::EIO);
    }
}

#[test]
fn a_waiting_stranger_does_not_block_a_peer() {
    let process = Process::new();
    let named = |name: &str, flags| {
        let fd = process.socket(SocketType::Datagram, flags).unwrap();
        process.bind(fd, &abstract_name(name)).unwrap();
        fd
    };
    let receiver = named("receiver", OpenFlags::empty());
    let peer = named("peer", OpenFlags::empty());
    let stranger = named("stranger", OpenFlags::empty());
    while send_to(&process, stranger, b"x", &abstract_name("receiver")).is_ok() {}
    let sending = |fd: Fd| {
        let process = process.clone();
        Call::start_waiting(move || {
            process.connect(fd, &abstract_name("receiver")).unwrap();
            send(&process, fd, b"x")
        })
    };
    let _waits = sending(stranger);
    process.connect(receiver, &abstract_name("peer")).unwrap();
    while send_to(&process, peer, b"x", &abstract_name("receiver")).is_ok() {}
    let has_room = sending(peer);
    process.read(receiver, &mut [0; 9]).unwrap();
    assert_eq!(has_room.result(), Ok(1));
}

#[test]
fn the_end_of_datagrams_is_reported_to_blocking_calls() {
    let (process, near, far) = pair(SocketType::Datagram);
    process.shutdown(near, Shutdown::Read).unwrap();
    let look = receive(&process, near, 9, MsgFlags::DONTWAIT);
    assert_eq!(look.unwrap_err(), Errno::EAGAIN);
    assert_eq!(process.read(near, &mut [0; 9]), Ok(0));
    assert_eq!(process.write(far, b"x"), Err(Errno::EPIPE));
    // The closed partner refuses, and what it had sent is discarded.
    process.write(near, b"lost").unwrap();
    process.close(near).unwrap();
    assert_eq!(process.write(far, b"x"), Err(Errno::ECONNREFUSED));
    let lost = receive(&process, far, 9, MsgFlags::DONTWAIT);
    assert_eq!(lost.unwrap_err(), Errno::EAGAIN);
}

#[test]
fn a_send_reports_its_own_shutdown_first() {
    let process = Process::new();
    let alone = process.socket(SocketType::Datagram, OpenFlags::empty());
    let alone = alone.unwrap();
    process.shutdown(alone, Shutdown::Write).unwrap();
    assert_eq!(process.write(alone, b"x"), Err(Errno::EPIPE));
    let refused = send_to(&process, alone, b"x", &abstract_name("nobody"));
    assert_eq!(refused, Err(Errno::EPIPE));
}

#[test]
fn a_reset_is_reported_to_a_seqpacket_sender() {
    let (process, near, far) = pair(SocketType::SeqPacket);
    process.write(near, b"unread").unwrap();
    process.close(far).unwrap();
    assert_eq!(process.write(near, b"x"), Err(Errno::ECONNRESET));
    assert_eq!(process.write(near, b"x"), Err(Errno::EPIPE));
}

#[test]
fn a_message_has_the_name_that_its_sender_gets_later() {
    for kind in [SocketType::Datagram, SocketType::SeqPacket] {
        let (process, near, far) = pair(kind);
        process.write(near, b"x").unwrap();
        process.write(near, b"yz").unwrap();
        process.bind(near, &abstract_name("late")).unwrap();
        let unread = process.files().get(far).unwrap().readable_bytes();
        let expected = if kind == SocketType::Datagram { 1 } else { 3 };
        assert_eq!(unread, Ok(expected));
        process.close(near).unwrap();
        let received = receive(&process, far, 9, MsgFlags::empty()).unwrap();
        assert_eq!(received.from, Some(abstract_name("late")));
    }
}

#[test]
fn more_slices_than_a_call_takes_are_refused() {
    for kind in [SocketType::Stream, SocketType::Datagram] {
        let (process, near, _far) = pair(kind);
        let message = SendMessage {
            bytes: &[IoSlice::new(b""); 1025],
            ..SendMessage::default()
        };
        let sent = process.sendmsg(near, message, MsgFlags::empty());
        assert_eq!(sent, Err(Errno::EMSGSIZE));
        let mut bufs: Vec<_> = (0..1025).map(|_| IoSliceMut::new(&mut [])).collect();
        let received = process.recvmsg(near, &mut bufs, MsgFlags::DONTWAIT);
        assert_eq!(received.unwrap_err(), Errno::EMSGSIZE);
    }
}
