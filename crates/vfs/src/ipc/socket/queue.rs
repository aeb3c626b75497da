//! What a socket receives from: bytes or messages.

use std::sync::Arc;

use super::in_flight::Rights;
use super::inbox::{Inbox, Sender};
use super::{CAPACITY, SocketType};
use crate::Errno;
use crate::event::{Events, FileId, Watcher};
use crate::ipc::buffer::Buffer;

/// Queue of what is on its way to a socket. The socket has it from its beginning, and a peer sends
/// into it.
#[derive(Clone, Debug)]
pub(crate) enum Queue {
    Bytes(Arc<Buffer>),
    Messages(Arc<Inbox>),
}

/// Calls the method of the same name, which both have.
macro_rules! each {
    ($queue:expr, $method:ident($($argument:expr),*)) => {
        match $queue {
            Queue::Bytes(buffer) => buffer.$method($($argument),*),
            Queue::Messages(inbox) => inbox.$method($($argument),*),
        }
    };
}

impl Queue {
    pub(crate) fn new(kind: SocketType) -> Self {
        match kind {
            SocketType::Stream => Queue::Bytes(Arc::new(Buffer::new(CAPACITY))),
            _ => Queue::Messages(Arc::new(Inbox::new(CAPACITY))),
        }
    }

    /// Ends the reader, who is there no more. Returns whether something was left unread.
    pub(crate) fn close_reader(&self) -> bool {
        match self {
            Queue::Bytes(buffer) => {
                let unread = buffer.readable_bytes() > 0;
                buffer.close_reader();
                unread
            }
            Queue::Messages(inbox) => inbox.close_reader(),
        }
    }

    /// Ends the reader, who meets `EIO`. Returns whether something was left unread.
    pub(crate) fn revoke_reader(&self) -> bool {
        match self {
            Queue::Bytes(buffer) => {
                let unread = buffer.readable_bytes() > 0;
                buffer.revoke_reader();
                unread
            }
            Queue::Messages(inbox) => inbox.revoke_reader(),
        }
    }

    /// Ends the writer of a connection, who is there no more.
    pub(crate) fn close_writer(&self) {
        match self {
            Queue::Bytes(buffer) => buffer.close_writer(),
            Queue::Messages(inbox) => inbox.end(),
        }
    }

    /// Ends the writer of a connection, who meets `EIO`.
    pub(crate) fn revoke_writer(&self) {
        match self {
            Queue::Bytes(buffer) => buffer.revoke_writer(),
            Queue::Messages(inbox) => inbox.end(),
        }
    }

    /// Has nothing more come, as `shutdown` of either side does.
    pub(crate) fn shut_down(&self) {
        match self {
            Queue::Bytes(buffer) => buffer.shut_down(),
            Queue::Messages(inbox) => inbox.end(),
        }
    }

    /// Has the reader meet `error` once.
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

    /// Returns true if a write of usual length would not wait.
    pub(crate) fn is_writable(&self) -> bool {
        match self {
            Queue::Bytes(buffer) => buffer.is_writable(),
            Queue::Messages(inbox) => inbox.is_writable(Sender::Partner),
        }
    }

    pub(crate) fn set_capacity(&self, capacity: usize) {
        match self {
            // More may lie in it than is to fit from now on: then it keeps its capacity.
            Queue::Bytes(buffer) => drop(buffer.set_capacity(capacity)),
            Queue::Messages(inbox) => inbox.set_capacity(capacity),
        }
    }

    pub(crate) fn readable_bytes(&self) -> usize {
        each!(self, readable_bytes())
    }

    /// Returns how much lies in it, in bytes of its capacity.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Queue::Bytes(buffer) => buffer.readable_bytes(),
            Queue::Messages(inbox) => inbox.weight(),
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
