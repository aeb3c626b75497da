//! Sockets of the family `AF_UNIX`: streams, datagrams, and sequenced packets.
//!
//! | file | subject |
//! |---|---|
//! | here | [`Socket`], the open file |
//! | `core` | state: names, connections, the end |
//! | `queue`, `recv_queue` | receive queues: of bytes (a [`Buffer`]) or of messages |
//! | `message` | send and receive |
//! | `ancillary`, [`in_flight`] | files and credentials that travel with bytes |
//! | [`namespace`](Namespace) | abstract names |
//! | `options`, `sockopt` | socket options, and the calls that get and set them |
//! | `pollee` | registration of watchers |
//!
//! Reads and writes of a stream go straight to a buffer: they take only its lock, and allocate
//! nothing else.

mod address;
pub(crate) mod ancillary;
mod core;
pub mod in_flight;
mod message;
mod namespace;
mod options;
mod pollee;
mod queue;
pub(crate) mod receive;
mod recv_queue;
mod sockopt;

use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Weak};

use fdtable::FileRef;
use fdtable_shm::OnceCell;

pub use self::core::MAX_BACKLOG;
pub use address::SocketAddress;
pub use ancillary::Ucred;
pub use message::{MsgFlags, Received, SendMessage};
pub use namespace::Namespace;
pub use options::{MessageTime, OptionValue, SocketOption};
pub use recv_queue::{BACKLOG, OVERHEAD};

use self::core::Core;
use crate::event::{Events, FileId, Limit, Pollee};
use crate::fs::locks::LockSet;
use crate::fs::{Credentials, Inode, Stat};
use crate::ipc::anon_inode::AnonInode;
use crate::ipc::buffer::{Buffer, Side};
use crate::object::file;
use crate::vectored::{IOV_MAX, gather, scatter};
use crate::{Errno, Object, OpenFlags, Process, RcuObject, Status, Transfer};
use ancillary::Ancillary;
use message::SendRequest;
use queue::Queue;

/// Capacity of each direction in bytes: 212,992, the default `net.core.wmem_default` of Linux
/// (`socket(7)`), which includes the kernel's own overhead there.
pub const CAPACITY: usize = 212_992;

/// Type of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketType {
    /// Bytes in order, over a connection (`SOCK_STREAM`).
    Stream,
    /// Separate messages, to any socket (`SOCK_DGRAM`). None is lost or reordered.
    Datagram,
    /// Messages in order, over a connection (`SOCK_SEQPACKET`).
    SeqPacket,
}

/// Directions that a shutdown ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// Receiving. In Linux: `SHUT_RD`.
    Read,
    /// Sending. In Linux: `SHUT_WR`.
    Write,
    /// Both. In Linux: `SHUT_RDWR`.
    Both,
}

/// Socket.
#[derive(Debug)]
pub struct Socket {
    core: Arc<Core>,
    /// Both directions of a stream, cached at its first use as a connected one: the fast path.
    directions: OnceCell<Directions>,
    inode: Arc<AnonInode>,
    locks: LockSet,
    status: Status,
}

#[derive(Debug)]
struct Directions {
    incoming: Arc<Buffer>,
    outgoing: Arc<Buffer>,
}

/// Makes a connected pair of stream sockets in a new namespace, with [`CAPACITY`] each way. Of
/// `flags`, only `O_NONBLOCK` matters. Allocates.
pub fn pair(flags: OpenFlags) -> (Socket, Socket) {
    let anonymous = Ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    pair_in(&Arc::default(), SocketType::Stream, flags, anonymous)
}

/// Makes a pair like [`pair`], with `capacity` bytes each way, and at least 4,096.
/// In Linux: `SO_SNDBUF`.
pub fn with_capacity(capacity: usize, flags: OpenFlags) -> (Socket, Socket) {
    let (near, far) = pair(flags);
    near.core.incoming.set_capacity(capacity);
    far.core.incoming.set_capacity(capacity);
    (near, far)
}

/// Makes a connected pair of sockets of any type, with the credentials of a process. Of `flags`,
/// only `O_NONBLOCK` matters. Allocates. In Linux: `socketpair`.
pub fn pair_in(
    namespace: &Arc<Namespace>,
    kind: SocketType,
    flags: OpenFlags,
    credentials: Ucred,
) -> (Socket, Socket) {
    let [one, other] = [(); 2].map(|()| Core::new(kind, namespace, credentials));
    Core::join(&one, &other, credentials);
    (Socket::of(one, flags), Socket::of(other, flags))
}

impl Socket {
    /// Makes a socket that is not connected. Of `flags`, only `O_NONBLOCK` matters. Allocates.
    ///
    /// `maker` has the credentials of the process.
    pub fn new(
        kind: SocketType,
        flags: OpenFlags,
        namespace: &Arc<Namespace>,
        maker: Ucred,
    ) -> Self {
        Self::of(Core::new(kind, namespace, maker), flags)
    }

    fn of(core: Arc<Core>, flags: OpenFlags) -> Self {
        let Ucred { uid, gid, .. } = core.maker;
        let maker = Credentials::new(uid, gid);
        let status = Status::new(flags & OpenFlags::NONBLOCK | OpenFlags::RDWR);
        Socket {
            core,
            directions: OnceCell::new(),
            inode: AnonInode::socket(maker),
            locks: LockSet::new(),
            status,
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Returns the type of the socket.
    pub fn kind(&self) -> SocketType {
        self.core.kind
    }

    /// Returns true if nothing depends on the socket being this one: it has no address and no peer,
    /// is not connecting or listening, and has no waiter and no watcher.
    pub fn is_unused(&self) -> bool {
        self.core.is_unused()
    }

    /// Binds the socket to a name in the abstract namespace; without a name, to a free one of five
    /// digits, unless it has an address.
    ///
    /// # Errors
    /// `EINVAL` if it has an address and `name` is given, or the name is longer than 107 bytes;
    /// `EADDRINUSE`; `ENOSPC` if no name of five digits is free; `EIO` if revoked.
    pub fn bind_abstract(&self, name: Option<&[u8]>) -> Result<(), Errno> {
        match name {
            Some(name) if name.len() > 107 => Err(Errno::EINVAL),
            name => self.core.bind(name),
        }
    }

    /// Returns the value to store in the inode at a path before a bind.
    ///
    /// # Errors
    /// `EIO` if revoked.
    pub fn bound(&self) -> Result<Bound, Errno> {
        self.core.file_state.load().check()?;
        Ok(Bound(Arc::downgrade(&self.core)))
    }

    /// Sets the path as the address of the socket, after the inode is made.
    ///
    /// # Errors
    /// `EINVAL` if it has an address.
    pub fn set_path(&self, path: &[u8]) -> Result<(), Errno> {
        self.core.set_name(SocketAddress::Path(path.to_vec()))
    }

    /// Finds the socket of the same type that is bound to an abstract name.
    ///
    /// # Errors
    /// `ECONNREFUSED` if there is none.
    pub fn find(&self, name: &[u8]) -> Result<Peer, Errno> {
        let found = self.core.namespace.find(self.kind(), name);
        found.map(Peer).ok_or(Errno::ECONNREFUSED)
    }

    /// Starts to listen. Up to `backlog` connections and one more may wait to be accepted, and at
    /// most [`MAX_BACKLOG`]. A further call changes the backlog.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if it is a datagram socket; `EINVAL` if it has no address or is connected;
    /// `EIO` if revoked.
    pub fn listen(&self, backlog: usize, credentials: Ucred) -> Result<(), Errno> {
        self.core.listen(backlog.min(MAX_BACKLOG), credentials)
    }

    /// Accepts a pending connection. Returns it with the address of the peer, if it has one. Of
    /// `flags`, only `O_NONBLOCK` matters, and applies to the new socket. Blocks, unless this
    /// socket is non-blocking. Allocates.
    ///
    /// # Errors
    /// `EAGAIN` if there is none, and this socket is non-blocking or the timeout expires;
    /// `EOPNOTSUPP` if it is a datagram socket; `EINVAL` if it does not listen, or receiving is
    /// shut down; `ENOMEM`; `EIO` if revoked.
    pub fn accept(
        &self,
        flags: OpenFlags,
    ) -> Result<(FileRef<RcuObject>, Option<SocketAddress>), Errno> {
        let core = self.core.accept(self.receive_policy(MsgFlags::empty()))?;
        let accepted = file(Self::of(Arc::clone(&core), flags));
        if accepted.is_err() {
            core.end(Side::Closed);
        }
        Ok((accepted?, peer_name(&core)))
    }

    /// Connects to a listener, or sets the peer of a datagram socket. Blocks while the listener's
    /// backlog is full, unless this socket is non-blocking. Allocates.
    ///
    /// # Errors
    /// `EPROTOTYPE` if the other socket has another type; `ECONNREFUSED` if it does not listen;
    /// `EAGAIN` if it would block, or the timeout expires; `EISCONN`, `EALREADY`; `EINVAL` if this
    /// one listens; `EPERM` if the other datagram socket has another peer; `EIO` if revoked.
    pub fn connect(&self, to: &Peer, credentials: Ucred) -> Result<(), Errno> {
        let Peer(other) = to;
        self.prepare_connect()?;
        if other.kind != self.kind() {
            return Err(Errno::EPROTOTYPE);
        }
        if self.kind() == SocketType::Datagram {
            return self.core.connect_datagram(Some(other));
        }
        let policy = self.send_policy(MsgFlags::empty());
        self.core.connect_stream(other, credentials, policy)
    }

    /// Gives the socket a name if it gets credentials and has none, so that the peer can answer.
    /// On Linux, that comes before the lookup of the peer.
    pub(crate) fn prepare_connect(&self) -> Result<(), Errno> {
        match self.core.options.passes_credentials() {
            true => self.core.bind(None),
            false => Ok(()),
        }
    }

    /// Removes the peer of a datagram socket.
    ///
    /// # Errors
    /// `EINVAL` if it is not a datagram socket; `EIO` if revoked.
    pub fn disconnect(&self) -> Result<(), Errno> {
        if self.kind() != SocketType::Datagram {
            return Err(Errno::EINVAL);
        }
        self.core.connect_datagram(None)
    }

    /// Returns the address of the socket. In Linux: `getsockname`.
    pub fn name(&self) -> SocketAddress {
        let name = self.core.name.get();
        name.map_or(SocketAddress::Unnamed, |name| (**name).clone())
    }

    /// Returns the address of the peer. In Linux: `getpeername`.
    ///
    /// # Errors
    /// `ENOTCONN` if there is none.
    pub fn peer_name(&self) -> Result<SocketAddress, Errno> {
        let is_connected = self.core.link.get().is_some() || {
            let state = self.core.state.lock();
            state.partner.is_some()
        };
        if !is_connected {
            return Err(Errno::ENOTCONN);
        }
        Ok(peer_name(&self.core).unwrap_or(SocketAddress::Unnamed))
    }

    /// Sends a message. `to` is the socket found at its address, and `limit` the most files that
    /// may be in flight in the kernel. Allocates, and blocks while there is no room, unless the
    /// socket is non-blocking or `flags` say so.
    ///
    /// # Errors
    /// - `EAGAIN` if it would block, or the timeout expires.
    /// - `EPIPE` if there is no receiver any more.
    /// - `ENOTCONN`, `EISCONN` if the socket needs a destination, or must not get one; `EOPNOTSUPP`
    ///   also if `flags` request urgent data.
    /// - `ECONNREFUSED` if the receiver is closed; `EPERM` if it has another peer; `EPROTOTYPE` if
    ///   it has another type.
    /// - `EMSGSIZE` if the message is too long, or has more than 1,024 slices.
    /// - `EINVAL`, `ETOOMANYREFS` if there are too many files; `ENOMEM`; `EIO` if revoked.
    pub fn send(
        &self,
        message: SendMessage<'_>,
        to: Option<Peer>,
        limit: usize,
        flags: MsgFlags,
    ) -> Result<usize, Errno> {
        self.core.file_state.load().check()?;
        check_slices(message.bytes.len())?;
        if flags.contains(MsgFlags::OOB) {
            return Err(self.refuse_urgent());
        }
        let registry = &self.core.namespace.in_flight;
        let rights = match message.rights {
            none if none.is_empty() => None,
            files => Some(registry.launch(files, limit)?),
        };
        let ancillary = Ancillary {
            rights,
            credentials: message.credentials,
            sender: message.sender.or(Some(self.core.maker)),
        };
        self.core.send(SendRequest {
            bytes: message.bytes,
            to: to.map(|Peer(core)| core),
            ancillary,
            policy: self.send_policy(flags),
        })
    }

    /// Receives bytes, or a message. Blocks, unless the socket is non-blocking or `flags` say so.
    ///
    /// # Errors
    /// `EAGAIN` if it would block, or the timeout expires; `EINVAL` from a stream, `ENOTCONN` from
    /// another socket, if it is not connected; `EOPNOTSUPP` if `flags` request urgent data;
    /// `ECONNRESET` if the peer was closed with unread data; `EMSGSIZE` for more than 1,024
    /// buffers; `EIO` if revoked.
    pub fn receive(&self, bufs: &mut [IoSliceMut<'_>], flags: MsgFlags) -> Result<Received, Errno> {
        check_slices(bufs.len())?;
        if flags.contains(MsgFlags::OOB) {
            return Err(match self.is_unconnected() {
                true => self.core.not_connected(),
                false => Errno::EOPNOTSUPP,
            });
        }
        let policy = self.receive_policy(flags);
        self.core.receive(bufs, flags, policy)
    }

    /// Returns how many bytes the peer has not read. In Linux: `SIOCOUTQ`.
    pub fn unread_bytes(&self) -> usize {
        let link = self.core.link.get();
        link.map_or(0, |link| link.outgoing.weight())
    }

    fn is_unconnected(&self) -> bool {
        self.kind() != SocketType::Datagram && self.core.link.get().is_none()
    }

    /// Returns the error of a send of urgent data. Other errors come first, as on Linux.
    fn refuse_urgent(&self) -> Errno {
        match self.kind() {
            _ if self.is_unconnected() => Errno::ENOTCONN,
            SocketType::Stream => self.core.may_send().err().unwrap_or(Errno::EOPNOTSUPP),
            _ => Errno::EOPNOTSUPP,
        }
    }

    fn receive_policy(&self, flags: MsgFlags) -> Limit {
        match self.may_wait(flags) {
            true => self.core.options.receive_policy(),
            false => Limit::NOW,
        }
    }

    fn send_policy(&self, flags: MsgFlags) -> Limit {
        match self.may_wait(flags) {
            true => self.core.options.send_policy(),
            false => Limit::NOW,
        }
    }

    fn may_wait(&self, flags: MsgFlags) -> bool {
        let nonblock = self.status.get().contains(OpenFlags::NONBLOCK);
        !nonblock && !flags.contains(MsgFlags::DONTWAIT)
    }

    /// Returns both directions of a connected stream.
    #[inline]
    fn stream(&self) -> Option<&Directions> {
        match self.directions.get() {
            None => self.find_directions(),
            found => found,
        }
    }

    #[cold]
    fn find_directions(&self) -> Option<&Directions> {
        let link = self.core.link.get()?;
        let (Queue::Bytes(incoming), Queue::Bytes(outgoing)) =
            (&self.core.incoming, &link.outgoing)
        else {
            return None;
        };
        Some(self.directions.get_or_init(|| Directions {
            incoming: Arc::clone(incoming),
            outgoing: Arc::clone(outgoing),
        }))
    }

    fn read_message(&self, buf: &mut [u8], policy: Limit) -> Result<usize, Errno> {
        let bufs = &mut [IoSliceMut::new(buf)];
        let received = self.core.receive(bufs, MsgFlags::empty(), policy)?;
        in_flight::discard(received.rights);
        Ok(received.count)
    }

    /// Writes without blocking.
    fn write_now(&self, bytes: &[u8], sender: impl Fn() -> Ucred) -> Result<usize, Errno> {
        if let Some(stream) = self.stream()
            && !bytes.is_empty()
        {
            match stream.outgoing.try_write_unsigned(&self.status, bytes) {
                Some(written) => return written,
                // A part must not be the result of a call that may block.
                None if !self.is_nonblocking() => return Err(Errno::EAGAIN),
                None => {}
            }
        }
        self.write_message(&[IoSlice::new(bytes)], sender(), Limit::NOW)
    }

    fn write_message(
        &self,
        bytes: &[IoSlice<'_>],
        sender: Ucred,
        policy: Limit,
    ) -> Result<usize, Errno> {
        self.core.send(SendRequest {
            bytes,
            to: None,
            ancillary: Ancillary {
                sender: Some(sender),
                ..Ancillary::default()
            },
            policy,
        })
    }
}

/// Socket that was found by its address.
#[derive(Clone, Debug)]
pub struct Peer(Arc<Core>);

/// Value in the inode of a socket: the socket that was bound there, while it is open.
#[derive(Debug)]
pub struct Bound(Weak<Core>);

impl Bound {
    /// Returns the socket that is bound here.
    ///
    /// # Errors
    /// `ECONNREFUSED` if it is closed.
    pub fn peer(&self) -> Result<Peer, Errno> {
        let core = self.0.upgrade().ok_or(Errno::ECONNREFUSED)?;
        match core.file_state.load() {
            Side::Open => Ok(Peer(core)),
            _ => Err(Errno::ECONNREFUSED),
        }
    }
}

fn check_slices(count: usize) -> Result<(), Errno> {
    if count > IOV_MAX {
        return Err(Errno::EMSGSIZE);
    }
    Ok(())
}

fn peer_name(core: &Core) -> Option<SocketAddress> {
    let partners = || Some(core.state.lock().partner.as_ref()?.name.get()?.clone());
    let name = match core.link.get() {
        Some(link) => link.name.get().cloned(),
        None => partners(),
    };
    name.map(|name| (*name).clone())
}

impl Object for Socket {
    fn is_collectable(&self) -> bool {
        true
    }

    fn status_cell(&self) -> Option<&Status> {
        Some(&self.status)
    }

    fn locks(&self) -> Option<&LockSet> {
        Some(&self.locks)
    }

    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        Some(Arc::clone(&self.core) as Arc<dyn Pollee>)
    }

    fn events(&self) -> Events {
        self.core.ready()
    }

    /// # Errors
    /// `EIO` if revoked.
    fn stat(&self) -> Result<Stat, Errno> {
        self.core.file_state.load().check()?;
        Ok(self.inode.stat())
    }

    fn inode(&self) -> Option<Arc<dyn Inode>> {
        Some(Arc::clone(&self.inode) as _)
    }

    fn readable_bytes(&self) -> Result<usize, Errno> {
        self.core.readable_bytes()
    }

    fn read_to(&self, bufs: &mut [IoSliceMut<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        let waits = how.waits_in_stream()?;
        scatter(bufs, |buf| {
            // The fast path of most reads.
            let read = match self.stream() {
                Some(stream) => stream.incoming.try_read(buf),
                // No message is read for an empty buffer, as on Linux.
                None if buf.is_empty() => Ok(0),
                None => self.read_message(buf, Limit::NOW),
            };
            match read {
                Err(Errno::EAGAIN) if waits => {
                    self.read_message(buf, self.core.options.receive_policy())
                }
                read => read,
            }
        })
    }

    fn write_from(&self, bufs: &[IoSlice<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        let waits = how.waits_in_stream()?;
        let sender = || how.by.map_or(self.core.maker, Process::sender);
        if how.is_vectored {
            let policy = match waits {
                true => self.core.options.send_policy(),
                false => Limit::NOW,
            };
            // Without any bytes no message is sent, as on Linux. A `write` of no bytes sends one.
            return match bufs.iter().all(|buf| buf.is_empty()) {
                true => Ok(0),
                false => self.write_message(bufs, sender(), policy),
            };
        }
        gather(bufs, |bytes| {
            // The fast path of most writes.
            match self.write_now(bytes, sender) {
                Err(Errno::EAGAIN) if waits => {
                    let policy = self.core.options.send_policy();
                    self.write_message(&[IoSlice::new(bytes)], sender(), policy)
                }
                written => written,
            }
        })
    }

    fn release(&self) {
        self.core.end(Side::Closed);
    }

    fn revoke(&self) {
        self.core.end(Side::Revoked);
    }

    fn forget(&self) {
        self.core.forget(FileId::of(self));
    }
}

#[cfg(test)]
mod tests;
