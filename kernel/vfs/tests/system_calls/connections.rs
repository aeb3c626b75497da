//! Addresses of sockets, connections, and their end.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_utils::atomic::AtomicCell;
use fdtable::Fd;
use fdtable_vfs::event::{Events, Watcher};
use fdtable_vfs::socket::{
    MsgFlags, OptionValue, SendMessage, Shutdown, Socket, SocketAddress, SocketOption, SocketType,
    Ucred,
};
use fdtable_vfs::{Errno, FileKind, OpenFlags, Process, SpliceFlags};

use crate::call::{Call, within_time};

const NOW: OpenFlags = OpenFlags::NONBLOCK;

fn name() -> SocketAddress {
    SocketAddress::Abstract(b"service".to_vec())
}

fn stream(process: &Process, flags: OpenFlags) -> Fd {
    process.socket(SocketType::Stream, flags).unwrap()
}

fn listener(process: &Process, flags: OpenFlags, backlog: usize) -> Fd {
    let listener = stream(process, flags);
    process.bind(listener, &name()).unwrap();
    process.listen(listener, backlog).unwrap();
    listener
}

fn events(process: &Process, fd: Fd) -> Events {
    process.files().get(fd).unwrap().events()
}

#[test]
fn a_client_and_a_server_find_each_other() {
    for kind in [SocketType::Stream, SocketType::SeqPacket] {
        let process = Process::new();
        let server = process.socket(kind, OpenFlags::empty()).unwrap();
        process.bind(server, &name()).unwrap();
        process.listen(server, 5).unwrap();
        let client = process.socket(kind, OpenFlags::empty()).unwrap();
        process.connect(client, &name()).unwrap();
        // Data sent before the connection is accepted is there afterwards.
        process.write(client, b"early").unwrap();
        let (accepted, address) = process.accept4(server, OpenFlags::empty()).unwrap();
        assert_eq!(address, None);
        let mut buf = [0; 9];
        assert_eq!(process.read(accepted, &mut buf), Ok(5));
        process.write(accepted, b"answer").unwrap();
        assert_eq!(process.read(client, &mut buf), Ok(6));
        assert_eq!(process.getpeername(client), Ok(name()));
        assert_eq!(process.getsockname(accepted), Ok(name()));
        assert_eq!(process.getpeername(accepted), Ok(SocketAddress::Unnamed));
        assert_eq!(process.connect(client, &name()), Err(Errno::EISCONN));
    }
}

#[test]
fn accept_waits_for_a_connection() {
    let process = Process::new();
    let server = listener(&process, OpenFlags::empty(), 5);
    let waiting = process.clone();
    let accept = Call::start_waiting(move || waiting.accept4(server, OpenFlags::CLOEXEC));
    let client = stream(&process, OpenFlags::empty());
    process.connect(client, &name()).unwrap();
    let (accepted, _) = accept.result().unwrap();
    process.close(accepted).unwrap();
    assert_eq!(process.read(client, &mut [0]), Ok(0));
}

#[test]
fn connect_waits_for_room_in_the_backlog() {
    let process = Process::new();
    let server = listener(&process, OpenFlags::empty(), 0);
    process.connect(stream(&process, NOW), &name()).unwrap();
    let hasty = stream(&process, NOW);
    assert_eq!(process.connect(hasty, &name()), Err(Errno::EAGAIN));
    let waiting = process.clone();
    let connect = Call::start_waiting(move || {
        let client = stream(&waiting, OpenFlags::empty());
        waiting.connect(client, &name())
    });
    process.accept4(server, OpenFlags::empty()).unwrap();
    assert_eq!(connect.result(), Ok(()));
    process.accept4(server, OpenFlags::empty()).unwrap();
    assert_eq!(process.connect(hasty, &name()), Ok(()));
}

#[test]
fn the_end_of_a_listener_ends_its_pending_connections() {
    let process = Process::new();
    let server = listener(&process, OpenFlags::empty(), 0);
    let client = stream(&process, OpenFlags::empty());
    process.connect(client, &name()).unwrap();
    let waiting = process.clone();
    let connect = Call::start_waiting(move || {
        let client = stream(&waiting, OpenFlags::empty());
        waiting.connect(client, &name())
    });
    process.close(server).unwrap();
    assert_eq!(connect.result(), Err(Errno::ECONNREFUSED));
    assert_eq!(process.read(client, &mut [0]), Err(Errno::ECONNRESET));
    assert_eq!(process.read(client, &mut [0]), Ok(0));
    assert_eq!(process.write(client, b"x"), Err(Errno::EPIPE));
    // The name is free again.
    listener(&process, OpenFlags::empty(), 0);
}

#[test]
fn a_peer_that_leaves_unread_data_resets_the_connection() {
    let process = Process::new();
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    process.write(near, b"unread").unwrap();
    process.write(far, b"read").unwrap();
    process.close(far).unwrap();
    let all = Events::READABLE | writable() | Events::RDHUP | Events::HUP;
    assert_eq!(events(&process, near), all | Events::ERR);
    assert_eq!(process.read(near, &mut [0; 9]), Ok(4));
    assert_eq!(process.read(near, &mut [0; 9]), Err(Errno::ECONNRESET));
    assert_eq!(process.read(near, &mut [0; 9]), Ok(0));
    assert_eq!(events(&process, near), all);
}

#[test]
fn a_socket_reports_its_events() {
    let process = Process::new();
    let server = listener(&process, NOW, 5);
    assert_eq!(events(&process, server), Events::empty());
    assert_eq!(process.accept4(server, NOW).err(), Some(Errno::EAGAIN));
    let client = stream(&process, NOW);
    assert_eq!(events(&process, client), Events::HUP | writable());
    process.connect(client, &name()).unwrap();
    assert_eq!(events(&process, server), Events::READABLE);
    let (accepted, _) = process.accept4(server, NOW).unwrap();
    assert_eq!(events(&process, client), writable());
    while process.write(client, &[0; 4096]).is_ok() {}
    assert_eq!(events(&process, client), Events::empty());
    assert_eq!(events(&process, accepted), Events::READABLE | writable());
    process.shutdown(accepted, Shutdown::Write).unwrap();
    assert_eq!(events(&process, client), Events::READABLE | Events::RDHUP);
    process.shutdown(client, Shutdown::Write).unwrap();
    assert!(events(&process, client).contains(Events::HUP));
}

#[test]
fn shutdown_ends_one_direction() {
    let process = Process::new();
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    process.write(near, b"last").unwrap();
    let waiting = process.clone();
    let read = Call::start_waiting(move || waiting.read(near, &mut [0]));
    process.shutdown(near, Shutdown::Read).unwrap();
    assert_eq!(read.result(), Ok(0));
    assert_eq!(process.write(far, b"x"), Err(Errno::EPIPE));
    process.shutdown(near, Shutdown::Write).unwrap();
    assert_eq!(process.write(near, b"x"), Err(Errno::EPIPE));
    assert_eq!(process.read(far, &mut [0; 9]), Ok(4));
    assert_eq!(process.read(far, &mut [0; 9]), Ok(0));
}

#[test]
fn a_listener_that_is_shut_down_accepts_no_more() {
    let process = Process::new();
    let server = listener(&process, OpenFlags::empty(), 5);
    let waiting = process.clone();
    let accept = Call::start_waiting(move || waiting.accept4(server, NOW).err());
    process.shutdown(server, Shutdown::Read).unwrap();
    assert_eq!(accept.result(), Some(Errno::EINVAL));
    let client = stream(&process, NOW);
    assert_eq!(process.connect(client, &name()), Err(Errno::ECONNREFUSED));
}

#[test]
fn a_name_is_bound_once() {
    let process = Process::new();
    let (one, other) = (stream(&process, NOW), stream(&process, NOW));
    process.bind(one, &name()).unwrap();
    assert_eq!(process.bind(other, &name()), Err(Errno::EADDRINUSE));
    let another = SocketAddress::Abstract(b"another".to_vec());
    assert_eq!(process.bind(one, &another), Err(Errno::EINVAL));
    assert_eq!(process.connect(other, &name()), Err(Errno::ECONNREFUSED));
    assert_eq!(process.connect(other, &another), Err(Errno::ECONNREFUSED));
    // Each type has names of its own.
    let datagram = process.socket(SocketType::Datagram, NOW).unwrap();
    process.bind(datagram, &name()).unwrap();
    let too_long = SocketAddress::Abstract(vec![b'x'; 108]);
    assert_eq!(process.bind(other, &too_long), Err(Errno::EINVAL));
}

#[test]
fn calls_that_need_a_connection_fail_without_one() {
    let process = Process::new();
    let socket = stream(&process, OpenFlags::empty());
    assert_eq!(process.read(socket, &mut [0]), Err(Errno::EINVAL));
    assert_eq!(process.write(socket, b"x"), Err(Errno::ENOTCONN));
    assert_eq!(process.getpeername(socket), Err(Errno::ENOTCONN));
    assert_eq!(process.listen(socket, 1), Err(Errno::EINVAL));
    let accepted = process.accept4(socket, OpenFlags::empty());
    assert_eq!(accepted.err(), Some(Errno::EINVAL));
    let datagram = process.socket(SocketType::Datagram, NOW).unwrap();
    assert_eq!(process.listen(datagram, 1), Err(Errno::EOPNOTSUPP));
    let (reader, _writer) = process.pipe2(NOW).unwrap();
    assert_eq!(process.listen(reader, 1), Err(Errno::ENOTSOCK));
}

#[test]
fn options_are_kept_and_returned() {
    let process = Process::new();
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    let get = |option| process.getsockopt(near, option);
    assert_eq!(get(SocketOption::Type), Ok(OptionValue::Number(1)));
    assert_eq!(get(SocketOption::Domain), Ok(OptionValue::Number(1)));
    assert_eq!(
        get(SocketOption::AcceptConnections),
        Ok(OptionValue::Number(0))
    );
    assert_eq!(get(SocketOption::Error), Ok(OptionValue::Number(0)));
    let set = |option, value| process.setsockopt(near, option, value);
    assert_eq!(
        set(SocketOption::Type, OptionValue::Number(2)),
        Err(Errno::ENOPROTOOPT)
    );
    assert_eq!(
        set(SocketOption::SendBuffer, OptionValue::Time(None)),
        Err(Errno::EINVAL)
    );
    set(SocketOption::SendBuffer, OptionValue::Number(5000)).unwrap();
    assert_eq!(
        get(SocketOption::SendBuffer),
        Ok(OptionValue::Number(10_000))
    );
    process
        .setsockopt(far, SocketOption::PassCredentials, OptionValue::Number(1))
        .unwrap();
    let Ok(OptionValue::Credentials(peer)) = get(SocketOption::PeerCredentials) else {
        panic!("no credentials");
    };
    process.write(near, b"x").unwrap();
    let bufs = &mut [];
    let flags = MsgFlags::empty();
    assert_eq!(
        process.recvmsg(far, bufs, flags).unwrap().credentials,
        Some(peer)
    );
    let mut buf = [0];
    let bufs = &mut [IoSliceMut::new(&mut buf)];
    assert_eq!(
        process.recvmsg(far, bufs, flags).unwrap().credentials,
        Some(peer)
    );
    assert_eq!(process.unread_bytes(near), Ok(0));
}

#[test]
fn a_smaller_send_buffer_holds_less() {
    let process = Process::new();
    let (near, far) = process.socketpair(NOW).unwrap();
    let size = OptionValue::Number(4096);
    process
        .setsockopt(near, SocketOption::SendBuffer, size)
        .unwrap();
    assert_eq!(process.write(near, &[0; 100_000]), Ok(8192));
    assert_eq!(process.unread_bytes(near), Ok(8192));
    assert_eq!(process.write(far, &[0; 100_000]), Ok(100_000));
}

#[test]
fn a_receive_with_a_time_limit_ends() {
    let process = Process::new();
    let (near, _far) = process.socketpair(OpenFlags::empty()).unwrap();
    let limit = Duration::from_millis(20);
    let option = SocketOption::ReceiveTimeout;
    process
        .setsockopt(near, option, OptionValue::Time(Some(limit)))
        .unwrap();
    let began = Instant::now();
    assert_eq!(process.read(near, &mut [0]), Err(Errno::EAGAIN));
    assert!(began.elapsed() >= limit);
}

#[test]
fn revoked_sockets_return_eio_and_their_peers_see_the_end() {
    let process = Process::new();
    let server = listener(&process, OpenFlags::empty(), 5);
    let client = stream(&process, OpenFlags::empty());
    process.connect(client, &name()).unwrap();
    let file = process.files().get(server).unwrap();
    let waiting = file.clone();
    process.accept4(server, NOW).unwrap();
    let (one, other) = process.socketpair(OpenFlags::empty()).unwrap();
    let far = process.files().get(one).unwrap();
    let sleeping = far.clone();
    let read = Call::start_waiting(move || sleeping.read(&mut [0]));
    fdtable::FileRef::revoke(&far);
    assert_eq!(read.result(), Err(Errno::EIO));
    assert_eq!(process.read(other, &mut [0]), Ok(0));
    fdtable::FileRef::revoke(&file);
    drop(waiting);
    assert_eq!(process.accept4(server, NOW).err(), Some(Errno::EIO));
    let another = stream(&process, NOW);
    assert_eq!(process.connect(another, &name()), Err(Errno::ECONNREFUSED));
}

/// Clients connect while the server accepts: each gets an answer, and no thread is left waiting.
#[test]
fn no_connection_is_lost_among_many() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 300;
    within_time(|| {
        let process = Process::new();
        let server = listener(&process, OpenFlags::empty(), 1);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let client = stream(&process, OpenFlags::empty());
                        process.connect(client, &name()).unwrap();
                        assert_eq!(process.read(client, &mut [0; 9]), Ok(2));
                        process.close(client).unwrap();
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..CLIENTS * ROUNDS / 2 {
                        let (accepted, _) = process.accept4(server, OpenFlags::empty()).unwrap();
                        assert_eq!(process.write(accepted, b"hi"), Ok(2));
                        process.close(accepted).unwrap();
                    }
                });
            }
        });
    });
}

#[test]
fn a_socket_has_a_name_in_the_tree() {
    for kind in [SocketType::Stream, SocketType::SeqPacket] {
        let process = Process::new();
        let path = SocketAddress::Path(b"/service".to_vec());
        let socket = || process.socket(kind, OpenFlags::empty()).unwrap();
        let (server, client) = (socket(), socket());
        process.bind(server, &path).unwrap();
        assert_eq!(process.stat("/service").unwrap().kind, FileKind::Socket);
        assert_eq!(process.bind(socket(), &path), Err(Errno::EADDRINUSE));
        assert_eq!(process.connect(client, &path), Err(Errno::ECONNREFUSED));
        process.listen(server, 1).unwrap();
        process.connect(client, &path).unwrap();
        assert_eq!(process.getpeername(client), Ok(path.clone()));
        let opened = process.open("/service", OpenFlags::RDWR);
        assert_eq!(opened.err(), Some(Errno::ENXIO));
        let other = process.socket(SocketType::Datagram, NOW).unwrap();
        assert_eq!(process.connect(other, &path), Err(Errno::EPROTOTYPE));
        process.close(server).unwrap();
        // The name stays, and no socket is behind it.
        assert_eq!(process.connect(socket(), &path), Err(Errno::ECONNREFUSED));
        process.unlink("/service").unwrap();
        assert_eq!(process.connect(socket(), &path), Err(Errno::ENOENT));
    }
}

#[test]
fn a_socket_has_an_inode_of_its_own() {
    let process = Process::new();
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    let (near, far) = (process.fstat(near).unwrap(), process.fstat(far).unwrap());
    assert_eq!(near.mode_bits(), 0o140777);
    assert_eq!(near.device, far.device);
    assert_ne!(near.inode, far.inode);
}

/// A watcher registered before the connection is notified of what happens on it.
#[test]
fn a_watch_from_before_the_connection_sees_what_comes_after_it() {
    for kind in [SocketType::Stream, SocketType::SeqPacket] {
        let process = Process::new();
        let server = process.socket(kind, NOW).unwrap();
        process.bind(server, &name()).unwrap();
        process.listen(server, 5).unwrap();
        let client = process.socket(kind, NOW).unwrap();
        let recorder = Arc::new(Recorder::default());
        let watcher: Arc<dyn Watcher> = Arc::clone(&recorder) as _;
        let pollee = process.files().get(client).unwrap().pollee().unwrap();
        pollee.watch(&watcher, Events::READABLE | Events::WRITABLE, None);
        process.connect(client, &name()).unwrap();
        let (accepted, _) = process.accept4(server, NOW).unwrap();
        while process.write(client, &[0; 4096]).is_ok() {}
        recorder.take();
        while process.read(accepted, &mut [0; 4096]).is_ok() {}
        assert!(recorder.take().contains(Events::OUT));
        process.write(accepted, b"x").unwrap();
        assert!(recorder.take().contains(Events::IN));
        process.close(accepted).unwrap();
        assert!(recorder.take().contains(Events::HUP));
        pollee.unwatch(&watcher);
    }
}

#[derive(Default)]
struct Recorder(AtomicCell<u32>);

impl Recorder {
    fn take(&self) -> Events {
        Events::from_bits_retain(self.0.take())
    }
}

impl Watcher for Recorder {
    fn wake(&self, events: Events) {
        self.0.fetch_or(events.bits());
    }
}

/// Events of a socket that can be written to: it takes priority data as well.
fn writable() -> Events {
    Events::WRITABLE | Events::WRBAND
}

#[test]
fn a_datagram_socket_is_ready_when_its_peer_has_room() {
    let process = Process::new();
    let socket = || process.socket(SocketType::Datagram, NOW).unwrap();
    let (server, client) = (socket(), socket());
    assert_eq!(events(&process, client), writable());
    process.bind(server, &name()).unwrap();
    process.connect(client, &name()).unwrap();
    while process.write(client, b"x").is_ok() {}
    assert_eq!(events(&process, client), Events::empty());
    assert_eq!(events(&process, server), Events::READABLE | writable());
    let recorder = Arc::new(Recorder::default());
    let watcher: Arc<dyn Watcher> = Arc::clone(&recorder) as _;
    let pollee = process.files().get(client).unwrap().pollee().unwrap();
    pollee.watch(&watcher, Events::WRITABLE, None);
    process.read(server, &mut [0]).unwrap();
    assert!(recorder.take().contains(Events::OUT));
    // A socket without a peer is not notified about its former peer.
    process.connect(client, &SocketAddress::Unnamed).unwrap();
    recorder.take();
    process.read(server, &mut [0]).unwrap();
    assert_eq!(recorder.take(), Events::empty());
}

#[test]
fn only_user_0_sends_in_the_name_of_others() {
    let process = Process::new();
    let (near, far) = process.socketpair(OpenFlags::empty()).unwrap();
    let option = SocketOption::PassCredentials;
    process
        .setsockopt(far, option, OptionValue::Number(1))
        .unwrap();
    let other = Ucred {
        pid: 9,
        uid: 8,
        gid: 7,
    };
    let send = || {
        let message = SendMessage {
            bytes: &[IoSlice::new(b"x")],
            credentials: Some(other),
            ..SendMessage::default()
        };
        process.sendmsg(near, message, MsgFlags::empty())
    };
    process.write(near, b"before").unwrap();
    assert_eq!(send(), Ok(1));
    process.write(near, b"after").unwrap();
    let mut buf = [0; 100];
    let mut receive = || {
        let bufs = &mut [IoSliceMut::new(&mut buf)];
        let received = process.recvmsg(far, bufs, MsgFlags::empty()).unwrap();
        (received.count, received.credentials == Some(other))
    };
    // No byte is attributed to another sender.
    assert_eq!(
        [receive(), receive(), receive()],
        [(6, false), (1, true), (5, false)]
    );
    process.set_ids(1, 1);
    assert_eq!(send(), Err(Errno::EPERM));
}

#[test]
fn what_was_sent_before_the_option_has_no_credentials() {
    let process = Process::new();
    let (near, far) = process.socketpair(NOW).unwrap();
    let option = SocketOption::PassCredentials;
    let pass = |on| process.setsockopt(far, option, OptionValue::Number(on));
    let receive = || {
        let mut buf = [0; 100];
        let bufs = &mut [IoSliceMut::new(&mut buf)];
        let received = process.recvmsg(far, bufs, MsgFlags::empty()).unwrap();
        (
            received.count,
            received.credentials.map(|sender| sender.pid),
        )
    };
    process.write(near, b"before").unwrap();
    pass(1).unwrap();
    process.write(near, b"on").unwrap();
    process.write(near, b"again").unwrap();
    assert_eq!([receive(), receive()], [(6, Some(0)), (7, Some(1))]);
    process.write(near, b"on").unwrap();
    pass(0).unwrap();
    process.write(near, b"off").unwrap();
    assert_eq!(receive(), (5, None));
}

#[test]
fn what_a_process_writes_has_its_credentials() {
    let maker = Process::new();
    let kinds = [
        SocketType::Stream,
        SocketType::Datagram,
        SocketType::SeqPacket,
    ];
    let all = kinds.map(|kind| [OpenFlags::empty(), NOW].map(|flags| (kind, flags)));
    for (kind, flags) in all.into_iter().flatten() {
        let (near, far) = maker.socketpair_of(kind, flags).unwrap();
        let passes = OptionValue::Number(1);
        maker
            .setsockopt(far, SocketOption::PassCredentials, passes)
            .unwrap();
        let (out, into) = maker.pipe2(OpenFlags::empty()).unwrap();
        maker.write(into, b"through a pipe").unwrap();
        let child = maker.fork().unwrap();
        let sender = || {
            let mut buf = [0; 100];
            let bufs = &mut [IoSliceMut::new(&mut buf)];
            let received = maker.recvmsg(far, bufs, MsgFlags::empty()).unwrap();
            received.credentials.map(|sender| sender.pid)
        };
        let id = Some(child.id());
        child.write(near, b"bytes").unwrap();
        assert_eq!(sender(), id, "write, {kind:?}");
        child.writev(near, &[IoSlice::new(b"bytes")]).unwrap();
        assert_eq!(sender(), id, "writev, {kind:?}");
        child
            .splice(out, None, near, None, 100, SpliceFlags::empty())
            .unwrap();
        assert_eq!(sender(), id, "splice, {kind:?}");
        maker.write(near, b"bytes").unwrap();
        assert_eq!(sender(), Some(maker.id()), "{kind:?}");
    }
}

#[test]
fn a_waiting_connect_wakes_when_its_socket_is_revoked() {
    let process = Process::new();
    let server = listener(&process, NOW, 0);
    let first = stream(&process, NOW);
    process.connect(first, &name()).unwrap();
    let connecting = || {
        let client = stream(&process, OpenFlags::empty());
        let process = process.clone();
        let call = Call::start_waiting(move || process.connect(client, &name()));
        (client, call)
    };
    let ((client, ended), (_, other)) = (connecting(), connecting());
    fdtable::FileRef::revoke(&process.files().get(client).unwrap());
    assert_eq!(ended.result(), Err(Errno::EIO));
    // The next connection has its turn.
    process.accept4(server, NOW).unwrap();
    assert_eq!(other.result(), Ok(()));
}

#[test]
fn a_revoked_socket_gets_no_name() {
    let process = Process::new();
    let fd = stream(&process, NOW);
    let file = process.files().get(fd).unwrap();
    let socket = (&**file as &dyn std::any::Any).downcast_ref::<Socket>();
    fdtable::FileRef::revoke(&file);
    assert_eq!(socket.unwrap().bind_abstract(None), Err(Errno::EIO));
}

#[test]
fn a_peek_returns_the_reset_and_clears_it() {
    let process = Process::new();
    let (near, far) = process.socketpair(NOW).unwrap();
    process.write(near, b"unread").unwrap();
    process.close(far).unwrap();
    let buf = &mut [0; 9];
    let look = process.recvmsg(near, &mut [IoSliceMut::new(buf)], MsgFlags::PEEK);
    assert_eq!(look.unwrap_err(), Errno::ECONNRESET);
    assert_eq!(process.read(near, buf), Ok(0));
}

#[test]
fn a_listener_that_is_shut_down_is_ready_for_its_end() {
    for (how, end) in [
        (Shutdown::Read, Events::RDHUP),
        (Shutdown::Both, Events::RDHUP | Events::HUP),
    ] {
        let process = Process::new();
        let server = listener(&process, NOW, 5);
        process.shutdown(server, how).unwrap();
        assert_eq!(events(&process, server), Events::READABLE | end);
        let accepted = process.accept4(server, NOW);
        assert_eq!(accepted.unwrap_err(), Errno::EAGAIN);
        let number = process.files().get(server).unwrap().readable_bytes();
        assert_eq!(number, Err(Errno::EINVAL));
        let (near, _) = process.socketpair(NOW).unwrap();
        assert_eq!(process.connect(near, &name()), Err(Errno::ECONNREFUSED));
    }
}

#[test]
fn empty_messages_are_sent_and_received_as_on_linux() {
    let process = Process::new();
    let (near, far) = process.socketpair(NOW).unwrap();
    let receive = |fd| process.recvmsg(fd, &mut [], MsgFlags::empty());
    assert_eq!(receive(near).unwrap_err(), Errno::EAGAIN);
    process.write(far, b"x").unwrap();
    assert_eq!(receive(near).unwrap().count, 0);
    assert_eq!(process.write(near, b""), Ok(0));
    process.bind(far, &name()).unwrap();
    process.shutdown(far, Shutdown::Both).unwrap();
    assert_eq!(process.write(near, b""), Err(Errno::EPIPE));
    assert_eq!(process.read(near, &mut [0; 9]), Ok(1));
    let end = process.recvmsg(near, &mut [IoSliceMut::new(&mut [0; 9])], MsgFlags::empty());
    assert_eq!(end.unwrap().from, None);
}
