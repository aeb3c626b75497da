use super::*;

#[test]
fn bytes_written_at_one_end_are_read_at_the_other() {
    let (near, far) = pair(OpenFlags::empty());
    near.write(b"ping").unwrap();
    far.write(b"pong!").unwrap();
    let mut buf = [0; 8];
    assert_eq!(far.read(&mut buf), Ok(4));
    assert_eq!(&buf[..4], b"ping");
    assert_eq!(near.read(&mut buf), Ok(5));
    assert_eq!(&buf[..5], b"pong!");
}

#[test]
fn each_direction_holds_its_capacity() {
    let (near, far) = pair(OpenFlags::NONBLOCK);
    let long = vec![0; 300_000];
    assert_eq!(near.try_write(&long), Ok(212_992));
    assert_eq!(near.try_write(b"x"), Err(Errno::EAGAIN));
    assert_eq!(far.try_write(&long), Ok(212_992));
    let (near, _far) = with_capacity(5000, OpenFlags::NONBLOCK);
    assert_eq!(near.try_write(&long), Ok(5000));
}

#[test]
fn releasing_one_end_ends_both_directions() {
    let (near, far) = pair(OpenFlags::empty());
    near.write(b"bye").unwrap();
    near.release();
    let mut buf = [0; 8];
    assert_eq!(far.read(&mut buf), Ok(3));
    assert_eq!(far.read(&mut buf), Ok(0));
    assert_eq!(far.write(b"x"), Err(Errno::EPIPE));
    assert_eq!(near.try_read(&mut buf), Err(Errno::EBADF));
    assert_eq!(near.try_write(b"x"), Err(Errno::EBADF));
}

#[test]
fn revoking_one_end_ends_both_directions_with_eio() {
    let (near, far) = pair(OpenFlags::empty());
    near.revoke();
    assert_eq!(near.try_read(&mut [0; 8]), Err(Errno::EIO));
    assert_eq!(near.try_write(b"x"), Err(Errno::EIO));
    assert_eq!(far.read(&mut [0; 8]), Ok(0));
    assert_eq!(far.write(b"x"), Err(Errno::EPIPE));
}

#[test]
fn a_socket_has_no_position() {
    let (near, _far) = pair(OpenFlags::empty());
    assert_eq!(near.seek(crate::SeekTo::Start(0)), Err(Errno::ESPIPE));
}

/// Two kernels that share a file system share the sockets that have a name there.
#[test]
fn a_collection_leaves_the_counts_of_another_kernel_alone() {
    let [own, other] = [(); 2].map(|()| Arc::<Namespace>::default());
    let socket = |namespace| {
        let maker = Ucred {
            pid: 1,
            uid: 0,
            gid: 0,
        };
        let socket = Socket::new(SocketType::Datagram, OpenFlags::NONBLOCK, namespace, maker);
        file(socket).expect("there is memory")
    };
    let (sender, foreign, garbage) = (socket(&own), socket(&other), socket(&own));
    let core = Arc::clone(in_flight::as_socket(&garbage).expect("a socket").core());
    let send = |from: &FileRef<RcuObject>, enclosed| {
        let message = SendMessage {
            rights: vec![enclosed],
            ..SendMessage::default()
        };
        let from = in_flight::as_socket(from).expect("a socket");
        let to = Some(Peer(Arc::clone(&core)));
        from.send(message, to, 10, MsgFlags::empty())
    };
    assert_eq!(send(&foreign, socket(&other)), Ok(0));
    // From now on it keeps itself alive.
    assert_eq!(send(&sender, garbage), Ok(0));
    assert_eq!((own.in_flight(), other.in_flight()), (1, 1));
    assert_eq!(own.collect(), 1);
    assert_eq!((own.in_flight(), other.in_flight()), (0, 0));
}
