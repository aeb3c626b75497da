//! Receive queue of a socket: bytes or messages.

use std::sync::Arc;

use super::in_flight::Rights;
use super::recv_queue::{RecvQueue, Sender};
use super::{CAPACITY, SocketType};
use crate::Errno;
use crate::event::{Events, WaitQueue, Wakeups};
use crate::ipc::buffer::{Buffer, Half, Side};

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

    /// Closes or revokes the reading side. Returns true if data was left unread.
    pub(crate) fn end_reader(&self, how: Side) -> bool {
        match self {
            Queue::Bytes(buffer) => {
                let unread = buffer.readable_bytes() > 0;
                buffer.end_reader(how);
                unread
            }
            Queue::Messages(recv_queue) => recv_queue.end_reader(how),
        }
    }

    /// Ends the writing side of a connection; or the queue, as `shutdown` of either side does.
    pub(crate) fn end_writer(&self, how: Side) {
        match self {
            Queue::Bytes(buffer) => buffer.end_writer(how),
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
            Queue::Bytes(buffer) => buffer.limit(capacity),
            Queue::Messages(recv_queue) => recv_queue.set_capacity(capacity),
        }
    }

    /// Sets whether a side gets credentials. A sender of messages reads its own option instead.
    pub(crate) fn pass_to(&self, half: Half, passes: bool) {
        match (self, half) {
            (Queue::Bytes(buffer), _) => buffer.pass_to(half, passes),
            (Queue::Messages(recv_queue), Half::Read) => recv_queue.pass_to_reader(passes),
            (Queue::Messages(_), Half::Write) => {}
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
        match self {
            Queue::Bytes(buffer) => buffer.events(Half::Read),
            Queue::Messages(recv_queue) => recv_queue.reader_events(),
        }
    }

    /// Calls `visit` with the wait queue of a side, under its lock.
    pub(crate) fn with_queue(&self, half: Half, visit: &mut dyn FnMut(&mut WaitQueue)) {
        each!(self, with_queue(half, visit));
    }

    /// Notifies the watchers of the reader that send signals.
    pub(crate) fn signal_reader(&self, events: Events) {
        let mut wakeups = Wakeups::default();
        self.with_queue(Half::Read, &mut |queue| {
            wakeups = queue.notify_watchers(events);
        });
        wakeups.run();
    }

    /// Takes the files of each message. The bytes stay.
    pub(crate) fn take_rights(&self, taken: &mut Vec<Rights>) {
        each!(
            self,
            each_ancillary(|with| taken.extend(with.rights.take()))
        );
    }
}
