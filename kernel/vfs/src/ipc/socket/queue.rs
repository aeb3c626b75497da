//! Receive queue of a socket: bytes or messages.

use std::sync::Arc;

use super::in_flight::Rights;
use super::recv_queue::{RecvQueue, Sender};
use super::{CAPACITY, SocketType};
use crate::Errno;
use crate::event::{Events, FileId, Watcher};
use crate::ipc::buffer::Buffer;

/// Receive queue of a socket. The socket has it from the start, and its peers send into it.
#[derive(Clone, Debug)]
pub(crate) enum Queue {
    Bytes(Arc<Buffer>),
    Messages(Arc<RecvQueue>),
}

/// Calls the method of the same name on either kind of queue.
macro_rules! each {
    ($queue:expr, $method:ident($($argument:expr),*)) => {
        match $queue {
            Queue::Bytes(buffer) => buffer.$method($($argument),*),
            Queue::Messages(recv_queue) => recv_queue.$method($($argument),*),
        }
    };
}

impl Queue {
    pub(crate) fn new(kind: SocketType) -> Self {
        match kind {
            SocketType::Stream => Queue::Bytes(Arc::new(Buffer::new(CAPACITY))),
            _ => Queue::Messages(Arc::new(RecvQueue::new(CAPACITY))),
        }
    }

    /// Closes the reading side. Returns true if data was left unread.
    pub(crate) fn close_reader(&self) -> bool {
        match self {
            Queue::Bytes(buffer) => {
                let unread = buffer.readable_bytes() > 0;
                buffer.close_reader();
                unread
            }
            Queue::Messages(recv_queue) => recv_queue.close_reader(),
        }
    }

    /// Revokes the reading side: its reader gets `EIO`. Returns true if data was left unread.
    pub(crate) fn revoke_reader(&self) -> bool {
        match self {
            Queue::Bytes(buffer) => {
                let unread = buffer.readable_bytes() > 0;
                buffer.revoke_reader();
                unread
            }
            Queue::Messages(recv_queue) => recv_queue.revoke_reader(),
        }
    }

    /// Closes the writing side of a connection.
    pub(crate) fn close_writer(&self) {
        match self {
            Queue::Bytes(buffer) => buffer.close_writer(),
            Queue::Messages(recv_queue) => recv_queue.end(),
        }
    }

    /// Revokes the writing side of a connection: its writer gets `EIO`.
    pub(crate) fn revoke_writer(&self) {
        match self {
            Queue::Bytes(buffer) => buffer.revoke_writer(),
            Queue::Messages(recv_queue) => recv_queue.end(),
        }
    }

    /// Ends the queue as `shutdown` of either side does.
    pub(crate) fn shut_down(&self) {
        match self {
            Queue::Bytes(buffer) => buffer.shut_down(),
            Queue::Messages(recv_queue) => recv_queue.end(),
        }
    }

    /// Sets the error that the reader gets once.
    pub(crate) fn set_error(&self, error: Errno) {
        each!(self, set_error(error));
    }

    pub(crate) fn take_error(&self) -> Option<Errno> {
        each!(self, take_error())
    }

    /// Returns true if nothing more can come.
    pub(crate) fn is_ended(&self) -> bool {
        each!(self, is_ended())
    }

    /// Returns true if a write of usual length would not block.
    pub(crate) fn is_writable(&self) -> bool {
        match self {
            Queue::Bytes(buffer) => buffer.is_writable(),
            Queue::Messages(recv_queue) => recv_queue.is_writable(Sender::Partner),
        }
    }

    pub(crate) fn set_capacity(&self, capacity: usize) {
        match self {
            // If more bytes than that are in the buffer, it keeps its capacity.
            Queue::Bytes(buffer) => drop(buffer.set_capacity(capacity)),
            Queue::Messages(recv_queue) => recv_queue.set_capacity(capacity),
        }
    }

    /// Sets whether the reader gets credentials.
    pub(crate) fn pass_to_reader(&self, passes: bool) {
        each!(self, pass_to_reader(passes));
    }

    /// Sets whether the writer of a connection asks for credentials.
    pub(crate) fn pass_to_writer(&self, passes: bool) {
        if let Queue::Bytes(buffer) = self {
            buffer.pass_to_writer(passes);
        }
    }

    pub(crate) fn readable_bytes(&self) -> usize {
        each!(self, readable_bytes())
    }

    /// Returns how much of its capacity is in use.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Queue::Bytes(buffer) => buffer.readable_bytes(),
            Queue::Messages(recv_queue) => recv_queue.weight(),
        }
    }

    pub(crate) fn reader_events(&self) -> Events {
        each!(self, reader_events())
    }

    pub(crate) fn watch_reader(
        &self,
        watcher: &Arc<dyn Watcher>,
        interest: Events,
        file: Option<FileId>,
    ) {
        each!(self, watch_reader(watcher, interest, file));
    }

    pub(crate) fn watch_writer(
        &self,
        watcher: &Arc<dyn Watcher>,
        interest: Events,
        file: Option<FileId>,
    ) {
        each!(self, watch_writer(watcher, interest, file));
    }

    pub(crate) fn unwatch_reader(&self, watcher: &Arc<dyn Watcher>) {
        each!(self, unwatch_reader(watcher));
    }

    pub(crate) fn unwatch_writer(&self, watcher: &Arc<dyn Watcher>) {
        each!(self, unwatch_writer(watcher));
    }

    pub(crate) fn signal_reader(&self, events: Events) {
        each!(self, signal_reader(events));
    }

    pub(crate) fn forget_reader(&self, file: FileId) {
        each!(self, forget_reader(file));
    }

    pub(crate) fn forget_writer(&self, file: FileId) {
        each!(self, forget_writer(file));
    }

    pub(crate) fn for_each_right(&self, see: &mut dyn FnMut(&Rights)) {
        each!(self, for_each_right(see));
    }

    pub(crate) fn take_rights(&self, into: &mut Vec<Rights>) {
        each!(self, take_rights(into));
    }
}
