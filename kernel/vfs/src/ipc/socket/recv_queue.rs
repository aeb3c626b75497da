//! Receive queue of datagram and seqpacket sockets: a queue of messages.
//!
//! A message is sent and received as a whole. Bytes that do not fit into the receiver's buffers are
//! lost. The weight of a message is its length plus [`OVERHEAD`]. A send blocks while the weight of
//! all messages is at least the capacity, whatever its own length. It also blocks while there are
//! more than [`BACKLOG`] messages, unless the receiver's own messages go to the sender: if two
//! sockets are connected to each other, other senders cannot block them. So all waiting senders of
//! one [kind](Sender) need the same, and any of them may be woken. A woken sender passes the
//! wake-up on to the next of its kind, as in [`Buffer`](crate::ipc::buffer::Buffer).

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use fdtable_shm::Mutex;

use super::address::{Name, SocketAddress};
use super::ancillary::{Ancillary, Arrived};
use super::receive::{Look, Reading};
use crate::Errno;
use crate::event::{self, Events, Limit, WaitQueue, Wakeups};
use crate::ipc::buffer::{Half, Side};
use crate::vectored::concat;

/// Weight of a message in addition to its bytes: 256, about its cost in memory.
pub const OVERHEAD: usize = 256;

/// Number of messages above which a sender that is not the partner blocks: 10, as
/// `net.unix.max_dgram_qlen` of Linux.
pub const BACKLOG: usize = 10;

/// Queue of messages to one socket.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    messages: VecDeque<Message>,
    weight: usize,
    capacity: usize,
    reader: Side,
    /// True if the reader gets credentials.
    passes: bool,
    /// True if no message will follow: the connection has ended, or one side is shut down.
    ended: bool,
    /// Error that the reader gets once.
    error: Option<Errno>,
    readers: WaitQueue,
    writers: WaitQueue,
}

#[derive(Debug)]
pub(crate) struct Message {
    bytes: Box<[u8]>,
    /// The sender may be bound to an address while the message is in the queue.
    from: Name,
    ancillary: Ancillary,
}

/// Result of a receive.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// Bytes that were copied to the buffers.
    pub(crate) count: usize,
    /// Length of the message.
    pub(crate) length: usize,
    pub(crate) from: Option<Arc<SocketAddress>>,
    pub(crate) arrived: Arrived,
    /// False at the end of the connection.
    pub(crate) is_message: bool,
}

/// Relation of a sender to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The receiver's own messages go to it.
    Partner,
    Stranger,
}

impl Sender {
    /// Returns the events that a blocked sender waits for. They are the same for all senders of a
    /// kind.
    fn interest(self) -> Events {
        match self {
            Sender::Partner => Events::OUT,
            Sender::Stranger => Events::WRNORM,
        }
    }
}

impl Message {
    /// Copies the bytes of a message.
    ///
    /// # Errors
    /// `ENOMEM`; the ancillary data is dropped.
    pub(crate) fn new(
        slices: &[IoSlice<'_>],
        from: Name,
        ancillary: Ancillary,
    ) -> Result<Self, Errno> {
        Ok(Message {
            bytes: concat(slices)?.into_boxed_slice(),
            from,
            ancillary,
        })
    }

    fn weight(&self) -> usize {
        self.bytes.len() + OVERHEAD
    }
}

impl RecvQueue {
    pub(crate) fn new(capacity: usize) -> Self {
        RecvQueue {
            state: Mutex::new(State {
                messages: VecDeque::new(),
                weight: 0,
                capacity,
                reader: Side::Open,
                passes: false,
                ended: false,
                error: None,
                readers: WaitQueue::new(),
                writers: WaitQueue::new(),
            }),
        }
    }

    /// Appends a message, unless `check` fails. Blocks until there is room. After an error the
    /// message is left in `message`.
    ///
    /// # Errors
    /// Errors of `check`, which runs again after each wake-up; `EAGAIN` if the wait ends;
    /// `ECONNREFUSED` if the receiver is closed, `EPIPE` if it or the connection is shut down;
    /// `ENOMEM`.
    pub(crate) fn send(
        &self,
        message: &mut Option<Message>,
        sender: Sender,
        check: impl Fn() -> Result<(), Errno>,
        policy: Limit,
    ) -> Result<(), Errno> {
        let mut wakeups = Wakeups::default();
        event::wait(
            &self.state,
            |state| &mut state.writers,
            sender.interest(),
            policy,
            |state| match check().and_then(|()| state.check_writer()) {
                Ok(()) if !state.has_room(sender) => None,
                Ok(()) => Some(state.put(message, &mut wakeups)),
                Err(errno) => {
                    // This may have been the woken sender: pass the wake-up on.
                    state.wake_writers(&mut wakeups);
                    Some(Err(errno))
                }
            },
        )
    }

    /// Takes or peeks at the first message. Blocks while there is none.
    ///
    /// # Errors
    /// `EAGAIN` if the wait ends; `EBADF` if the reader is closed; `EIO` if it is revoked; the
    /// error of [`set_error`](Self::set_error).
    pub(crate) fn receive(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        reading: Reading,
        policy: Limit,
    ) -> Result<Delivered, Errno> {
        let mut wakeups = Wakeups::default();
        event::wait(
            &self.state,
            |state| &mut state.readers,
            Events::IN,
            policy,
            |state| {
                let must_wait = state.read_must_wait(reading);
                (!must_wait).then(|| state.take(bufs, reading, &mut wakeups))
            },
        )
    }

    /// Sets whether the reader gets credentials.
    pub(crate) fn pass_to_reader(&self, passes: bool) {
        self.state.lock().passes = passes;
    }

    /// Marks the end of the queue, because the connection ended or a side was shut down.
    pub(crate) fn end(&self) {
        self.change(|state| state.ended = true);
    }

    /// Sets an error that the reader gets once.
    pub(crate) fn set_error(&self, error: Errno) {
        self.change(|state| state.error = Some(error));
    }

    /// Closes or revokes the reading side, and drops its messages. Returns true if there were any.
    pub(crate) fn end_reader(&self, how: Side) -> bool {
        !self.empty(Some(how)).is_empty()
    }

    /// Drops all messages. Returns true if there were any.
    pub(crate) fn purge(&self) -> bool {
        !self.empty(None).is_empty()
    }

    /// Takes all messages out. The caller must drop them outside all locks.
    fn empty(&self, reader: Option<Side>) -> VecDeque<Message> {
        let mut messages = VecDeque::new();
        self.change(|state| {
            state.weight = 0;
            messages = std::mem::take(&mut state.messages);
            if let Some(how) = reader {
                state.reader.end(how);
            }
        });
        messages
    }

    /// Changes the state, and wakes all readers and writers.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let readers = state.readers.wake_all(Events::READABLE | Events::HUP);
        let wakeups = readers.and(state.writers.wake_all(Events::WRITABLE | Events::ERR));
        drop(state);
        wakeups.run();
    }

    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.change(|state| state.capacity = capacity);
    }

    /// Returns the length of the first message.
    pub(crate) fn readable_bytes(&self) -> usize {
        let state = self.state.lock();
        state.messages.front().map_or(0, |first| first.bytes.len())
    }

    /// Returns the sum of the lengths of all messages.
    pub(crate) fn unread_bytes(&self) -> usize {
        let state = self.state.lock();
        state.weight - state.messages.len() * OVERHEAD
    }

    /// Returns the weight of all messages.
    pub(crate) fn weight(&self) -> usize {
        self.state.lock().weight
    }

    /// Returns true if no message will follow.
    pub(crate) fn is_ended(&self) -> bool {
        let state = self.state.lock();
        state.ended || state.reader != Side::Open
    }

    /// Returns true if a send would not block, because there is room or it would fail.
    pub(crate) fn is_writable(&self, sender: Sender) -> bool {
        let state = self.state.lock();
        state.has_room(sender) || state.check_writer().is_err()
    }

    pub(crate) fn take_error(&self) -> Option<Errno> {
        self.state.lock().error.take()
    }

    /// Returns the events of the reading side, without those of an ended connection.
    pub(crate) fn reader_events(&self) -> Events {
        let state = self.state.lock();
        let mut events = Events::empty();
        events.set(Events::READABLE, !state.messages.is_empty());
        events.set(
            Events::ERR,
            state.error.is_some() || state.reader == Side::Revoked,
        );
        events
    }

    /// Calls `visit` with the wait queue of a side, under the lock.
    pub(crate) fn with_queue(&self, half: Half, visit: &mut dyn FnMut(&mut WaitQueue)) {
        let mut state = self.state.lock();
        visit(match half {
            Half::Read => &mut state.readers,
            Half::Write => &mut state.writers,
        });
    }

    /// Visits what goes with each message in this queue.
    pub(crate) fn each_ancillary(&self, mut visit: impl FnMut(&mut Ancillary)) {
        let messages = &mut self.state.lock().messages;
        messages
            .iter_mut()
            .for_each(|message| visit(&mut message.ancillary));
    }
}

impl State {
    fn check_writer(&self) -> Result<(), Errno> {
        match self.reader {
            Side::Open if self.ended => Err(Errno::EPIPE),
            Side::Open => Ok(()),
            _ => Err(Errno::ECONNREFUSED),
        }
    }

    fn has_room(&self, sender: Sender) -> bool {
        let crowded = sender == Sender::Stranger && self.messages.len() > BACKLOG;
        self.weight < self.capacity && !crowded
    }

    fn put(&mut self, message: &mut Option<Message>, wakeups: &mut Wakeups) -> Result<(), Errno> {
        self.messages.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let was_empty = self.messages.is_empty();
        if let Some(mut message) = message.take() {
            if self.passes {
                message.ancillary.sign();
            }
            self.weight += message.weight();
            self.messages.push_back(message);
        }
        let arrived = Events::READABLE | Events::SIGNAL_IN;
        wakeups.append(if was_empty {
            self.readers.wake(arrived)
        } else {
            self.readers.notify_watchers(arrived)
        });
        self.wake_writers(wakeups);
        Ok(())
    }

    /// Returns the message that a read begins with, and how many of its bytes it skips.
    fn first(&self, reading: Reading) -> Option<(&Message, usize)> {
        let Some(mut skip) = reading.skip else {
            return Some((self.messages.front()?, 0));
        };
        for message in &self.messages {
            let length = message.bytes.len();
            if skip == 0 || skip < length {
                return Some((message, skip));
            }
            skip -= length;
        }
        None
    }

    /// Wakes one blocked sender of each kind that has room. Other kinds stay asleep: a woken sender
    /// without room would lose the wake-up.
    fn wake_writers(&mut self, wakeups: &mut Wakeups) {
        for sender in [Sender::Partner, Sender::Stranger] {
            if self.has_room(sender) {
                wakeups.append(self.writers.pass_on(sender.interest()));
            }
        }
    }

    fn read_must_wait(&self, reading: Reading) -> bool {
        let goes_on = self.reader == Side::Open && !self.ended && self.error.is_none();
        goes_on && self.first(reading).is_none()
    }

    fn take(
        &mut self,
        bufs: &mut [IoSliceMut<'_>],
        reading: Reading,
        wakeups: &mut Wakeups,
    ) -> Result<Delivered, Errno> {
        self.reader.check()?;
        // Linux reports an error before the messages of a datagram socket.
        if let Some(errno) = self.error.take() {
            return Err(errno);
        }
        let look = reading.look;
        let had_room = self.has_room(Sender::Partner);
        let delivered = match look {
            Look::Peek => self.first(reading).map(|(message, skip)| {
                let arrived = message.ancillary.peek();
                Delivered::of(message, skip, bufs, arrived)
            }),
            Look::Take => self.messages.pop_front().map(|mut message| {
                self.weight -= message.weight();
                let arrived = message.ancillary.arrive();
                Delivered::of(&message, 0, bufs, arrived)
            }),
        };
        if look == Look::Take {
            let mut events = Events::WRITABLE;
            if !had_room && self.has_room(Sender::Partner) {
                events |= Events::SIGNAL_ROOM;
            }
            wakeups.append(self.writers.notify_watchers(events));
            self.wake_writers(wakeups);
        }
        if !self.messages.is_empty() {
            wakeups.append(self.readers.pass_on(Events::IN));
        }
        Ok(delivered.unwrap_or_default())
    }
}

impl Delivered {
    fn of(message: &Message, skip: usize, bufs: &mut [IoSliceMut<'_>], arrived: Arrived) -> Self {
        let bytes = &message.bytes[skip..];
        let mut rest = bytes;
        for buf in bufs {
            let (now, later) = rest.split_at(rest.len().min(buf.len()));
            buf[..now.len()].copy_from_slice(now);
            rest = later;
        }
        Delivered {
            count: bytes.len() - rest.len(),
            length: bytes.len(),
            from: message.from.get().cloned(),
            arrived,
            is_message: true,
        }
    }
}
