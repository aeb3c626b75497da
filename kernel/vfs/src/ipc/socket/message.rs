//! Sending and receiving messages.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use fdtable::FileRef;

use super::ancillary::{Ancillary, Arrived, Ucred};
use super::core::{Core, Partner};
use super::in_flight::{Holder, Mailbox};
use super::options::MessageTime;
use super::queue::Queue;
use super::receive::{Look, Reading};
use super::recv_queue::{Message, RecvQueue, Sender};
use super::{SocketAddress, SocketType};
use crate::event::Limit;
use crate::ipc::buffer::Buffer;
use crate::{Errno, RcuObject};

/// Least number of bytes by which a message is shorter than the send buffer (as on Linux).
const SLACK: usize = 32;

bitflags::bitflags! {
    /// Flags of `sendmsg` and `recvmsg`, with the values of Linux, which ignores unknown bits too.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct MsgFlags: u32 {
        /// Urgent data, which these sockets do not support.
        const OOB = 0x1;
        /// Leaves the received data in the queue.
        const PEEK = 0x2;
        /// Files were lost, because there was no room for them. Only in received flags.
        const CTRUNC = 0x8;
        /// In a receive: returns the full length of the message. In received flags: the message was
        /// longer than the buffers, and the rest is lost.
        const TRUNC = 0x20;
        /// Does not block.
        const DONTWAIT = 0x40;
        /// Ends a record. Ignored: every message is one.
        const EOR = 0x80;
        /// Waits until all requested bytes have arrived. For streams only.
        const WAITALL = 0x100;
        /// Suppresses the signal of `EPIPE`, for an embedder that sends one.
        const NOSIGNAL = 0x4000;
        /// Received files get `CLOEXEC`, for an embedder that installs them.
        const CMSG_CLOEXEC = 0x4000_0000;
    }
}

/// Message to be sent. In Linux: `struct msghdr`.
#[derive(Debug, Default)]
pub struct SendMessage<'a> {
    /// The bytes.
    pub bytes: &'a [IoSlice<'a>],
    /// Destination, if it is not the peer.
    pub to: Option<&'a SocketAddress>,
    /// Open files to be passed, at most 253. In Linux: `SCM_RIGHTS`.
    pub rights: Vec<FileRef<RcuObject>>,
    /// Credentials shown to the receiver, if they are not those of the sender.
    /// In Linux: `SCM_CREDENTIALS`.
    pub credentials: Option<Ucred>,
    /// The sending process, if it is not the maker of the socket.
    pub sender: Option<Ucred>,
}

/// Received message.
#[derive(Debug, Default)]
pub struct Received {
    /// Bytes in the buffers; with [`MsgFlags::TRUNC`] requested, the full length of the message.
    pub count: usize,
    /// Address of the sender, if it has one.
    pub from: Option<SocketAddress>,
    /// Open files that came with it, to be [installed](crate::Process::install_rights).
    pub rights: Vec<FileRef<RcuObject>>,
    /// Credentials of the sender, if the socket has `SO_PASSCRED`.
    pub credentials: Option<Ucred>,
    /// Form in which the receiver asks for the time of a message; nothing of a stream.
    pub time: Option<MessageTime>,
    /// [`MsgFlags::TRUNC`] if the message was longer than the buffers.
    pub flags: MsgFlags,
}

/// Arguments of a send.
pub(crate) struct SendRequest<'a> {
    pub(crate) bytes: &'a [IoSlice<'a>],
    /// Destination, if one was given.
    pub(crate) to: Option<Arc<Core>>,
    pub(crate) ancillary: Ancillary,
    pub(crate) policy: Limit,
}

impl SendRequest<'_> {
    fn length(&self) -> usize {
        self.bytes.iter().map(|slice| slice.len()).sum()
    }
}

impl Core {
    pub(super) fn send(self: &Arc<Self>, request: SendRequest<'_>) -> Result<usize, Errno> {
        match self.kind {
            SocketType::Stream => self.send_to_peer(request),
            kind => {
                // As on Linux, so that the receiver can answer.
                let may_answer = kind == SocketType::Datagram || self.link.get().is_some();
                if may_answer && self.options.passes_credentials() {
                    self.bind(None)?;
                }
                match kind {
                    SocketType::Datagram => self.send_datagram(request),
                    _ => self.send_to_peer(request),
                }
            }
        }
    }

    fn send_to_peer(&self, mut request: SendRequest<'_>) -> Result<usize, Errno> {
        let Some(link) = self.link.get() else {
            let named = request.to.is_some() && self.kind == SocketType::Stream;
            return Err(if named {
                Errno::EOPNOTSUPP
            } else {
                Errno::ENOTCONN
            });
        };
        match &link.outgoing {
            Queue::Bytes(_) if request.to.is_some() => Err(Errno::EISCONN),
            Queue::Bytes(buffer) => {
                request.ancillary.send_to(&link.mailbox);
                buffer.send(request.bytes, request.ancillary, request.policy)
            }
            Queue::Messages(recv_queue) => {
                self.check_sender(request.length())?;
                let sent = self.deliver(recv_queue, &link.mailbox, Sender::Partner, request);
                // A closed peer of a connection is `EPIPE`, not a refusal. It may have left an
                // error.
                sent.map_err(|errno| match errno {
                    Errno::ECONNREFUSED | Errno::EPIPE => {
                        self.incoming.take_error().unwrap_or(Errno::EPIPE)
                    }
                    other => other,
                })
            }
        }
    }

    fn send_datagram(self: &Arc<Self>, request: SendRequest<'_>) -> Result<usize, Errno> {
        // Checked before the destination is looked up, as on Linux.
        self.check_sender(request.length())?;
        let partner = match &request.to {
            Some(_) => None,
            None => self.state.lock().partner.clone(),
        };
        let Some(Partner {
            core,
            recv_queue,
            mailbox,
            ..
        }) = partner
        else {
            let to = request.to.clone().ok_or(Errno::ENOTCONN)?;
            return self.send_datagram_to(&to, request);
        };
        // A closed partner that is already freed refuses in its queue.
        let sender = match core.upgrade() {
            Some(other) => self.may_send_to(&other)?,
            None => Sender::Stranger,
        };
        let sent = self.deliver(&recv_queue, &mailbox, sender, request);
        if sent == Err(Errno::ECONNREFUSED) {
            self.lose_partner(&recv_queue);
        }
        sent
    }

    /// Checks that sending is not shut down.
    ///
    /// # Errors
    /// `EPIPE` if it is shut down; `EIO` if revoked.
    pub(crate) fn may_send(&self) -> Result<(), Errno> {
        self.file_state.load().check()?;
        if self.state.lock().shut {
            return Err(Errno::EPIPE);
        }
        Ok(())
    }

    fn send_datagram_to(
        self: &Arc<Self>,
        to: &Arc<Core>,
        request: SendRequest<'_>,
    ) -> Result<usize, Errno> {
        let Queue::Messages(recv_queue) = &to.incoming else {
            return Err(Errno::EPROTOTYPE);
        };
        if to.kind != SocketType::Datagram {
            return Err(Errno::EPROTOTYPE);
        }
        let sender = self.may_send_to(to)?;
        self.deliver(recv_queue, to.mailbox(), sender, request)
    }

    /// Checks that the socket may send a message of this length, to any receiver.
    fn check_sender(&self, length: usize) -> Result<(), Errno> {
        self.file_state.load().check()?;
        if length > self.options.send_buffer() - SLACK {
            return Err(Errno::EMSGSIZE);
        }
        // As on Linux, a send of messages returns the error that a receive would return.
        if let Some(errno) = self.incoming.take_error() {
            return Err(errno);
        }
        if self.state.lock().shut {
            return Err(Errno::EPIPE);
        }
        Ok(())
    }

    fn deliver(
        &self,
        recv_queue: &RecvQueue,
        mailbox: &Mailbox,
        sender: Sender,
        request: SendRequest<'_>,
    ) -> Result<usize, Errno> {
        let length = request.length();
        let from = Arc::clone(&self.name);
        let mut ancillary = request.ancillary;
        ancillary.send_to(mailbox);
        if self.options.passes_credentials() {
            ancillary.sign();
        }
        let mut message = Some(Message::new(request.bytes, from, ancillary)?);
        let check = || self.file_state.load().check();
        let mut send = |policy| recv_queue.send(&mut message, sender, check, policy);
        match send(Limit::NOW) {
            Err(Errno::EAGAIN) if request.policy != Limit::NOW => {
                self.wait_elsewhere(|| send(request.policy))?;
            }
            outcome => outcome?,
        }
        Ok(length)
    }

    pub(super) fn receive(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        flags: MsgFlags,
        policy: Limit,
    ) -> Result<Received, Errno> {
        match &self.incoming {
            _ if self.kind != SocketType::Datagram && self.link.get().is_none() => {
                Err(self.not_connected())
            }
            Queue::Bytes(buffer) => self.receive_bytes(buffer, bufs, flags, policy),
            Queue::Messages(recv_queue) => self.receive_message(recv_queue, bufs, flags, policy),
        }
    }

    fn reading(&self, flags: MsgFlags) -> Reading {
        let look = match flags.contains(MsgFlags::PEEK) {
            true => Look::Peek,
            false => Look::Take,
        };
        let skip = match look {
            Look::Peek => self.options.peek_offset(),
            Look::Take => None,
        };
        Reading {
            skip,
            ..Reading::new(look)
        }
    }

    /// Returns the error of a receive before there is a connection.
    pub(super) fn not_connected(&self) -> Errno {
        match self.kind {
            SocketType::Stream => Errno::EINVAL,
            _ => Errno::ENOTCONN,
        }
    }

    fn receive_bytes(
        &self,
        buffer: &Buffer,
        mut bufs: &mut [IoSliceMut<'_>],
        flags: MsgFlags,
        mut policy: Limit,
    ) -> Result<Received, Errno> {
        let mut reading = self.reading(flags);
        let wanted: usize = bufs.iter().map(|buf| buf.len()).sum();
        let (mut count, mut arrived) = (0, Arrived::default());
        loop {
            let taken = match buffer.receive(bufs, reading, policy) {
                Ok(taken) => taken,
                Err(errno) if count == 0 => return Err(errno),
                // The next call gets the error again, or has waited long enough.
                Err(_) => break,
            };
            let ends = taken.count == 0 || taken.arrived.has_files();
            count += taken.count;
            IoSliceMut::advance_slices(&mut bufs, taken.count);
            arrived.append(taken.arrived);
            reading.sender = arrived.credentials;
            policy = policy.of_rest();
            let goes_on = flags.contains(MsgFlags::WAITALL) && reading.look == Look::Take;
            if !goes_on || ends || count == wanted {
                break;
            }
        }
        let name = || self.link.get()?.name.get().cloned();
        let from = (count > 0).then(name).flatten();
        self.options.move_peek_offset(reading.look, count, count);
        Ok(self.received(count, from, arrived))
    }

    fn receive_message(
        &self,
        recv_queue: &RecvQueue,
        bufs: &mut [IoSliceMut<'_>],
        flags: MsgFlags,
        policy: Limit,
    ) -> Result<Received, Errno> {
        let reading = self.reading(flags);
        let mut delivered = recv_queue.receive(bufs, reading, policy)?;
        let at_once = policy == Limit::NOW;
        if !delivered.is_message && at_once && self.kind == SocketType::Datagram {
            // Linux reports the end of datagrams only to a blocking call.
            return Err(Errno::EAGAIN);
        }
        if delivered.is_message {
            let credentials = &mut delivered.arrived.credentials;
            *credentials = credentials.or(Some(Ucred::NOBODY));
        }
        let (count, length) = (delivered.count, delivered.length);
        self.options.move_peek_offset(reading.look, count, length);
        let mut received = self.received(count, delivered.from, delivered.arrived);
        if delivered.is_message {
            received.time = self.options.message_time();
        }
        if delivered.length > delivered.count {
            received.flags |= MsgFlags::TRUNC;
        }
        if flags.contains(MsgFlags::TRUNC) {
            received.count = delivered.length;
        }
        Ok(received)
    }

    fn received(
        &self,
        count: usize,
        from: Option<Arc<SocketAddress>>,
        mut arrived: Arrived,
    ) -> Received {
        let asked = self.options.passes_credentials();
        let credentials = arrived.credentials.filter(|_| asked);
        Received {
            count,
            from: from.map(|from| (*from).clone()),
            rights: arrived.take_files(),
            credentials,
            time: None,
            flags: MsgFlags::empty(),
        }
    }
}
