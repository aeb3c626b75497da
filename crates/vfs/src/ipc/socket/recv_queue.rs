//! Queue of messages: what datagram and seqpacket sockets receive from.
//!
//! A message goes in whole and comes out whole; what does not fit into the receiver's buffers is
//! lost. It weighs its bytes and [`OVERHEAD`]. A send waits while the messages weigh the capacity
//! or more, whatever its own length. It also waits while more than [`BACKLOG`] messages are there,
//! unless the receiver's own messages go to the sender: of two that are connected with each other,
//! neither can be flooded by others. So all who wait of one [kind](Sender) need the same, and any of
//! them may be woken: one passes the wake-up on to the next of its kind, as in
//! [`Buffer`](crate::ipc::buffer::Buffer).

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use parking_lot::Mutex;

use super::SocketAddress;
use super::ancillary::{Ancillary, Arrived};
use super::core::Name;
use super::in_flight::{Flights, InFlight, Rights};
use super::receive::{Carrier, Look, receive};
use crate::Errno;
use crate::event::{Events, FileId, WaitQueue, Wakeups, Watcher};
use crate::ipc::wait_policy::WaitPolicy;

/// What a message weighs beside its bytes: 256 bytes, about what it costs.
pub const OVERHEAD: usize = 256;

/// Messages from strangers that may lie in a queue before the next one waits: 10, as
/// `net.unix.max_dgram_qlen` of Linux.
#[doc(alias = "max_dgram_qlen")]
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
    reader: Reader,
    /// No message will follow: the other side of a connection has ended, or one side is shut.
    ended: bool,
    /// What the reader meets once, when there is no message.
    error: Option<Errno>,
    readers: WaitQueue,
    writers: WaitQueue,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reader {
    Open,
    Closed,
    Revoked,
}

#[derive(Debug)]
pub(crate) struct Message {
    bytes: Box<[u8]>,
    /// The sender may get its address when the message is on its way.
    from: Name,
    ancillary: Ancillary,
}

/// What a receive has found.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// Bytes that fit into the buffers.
    pub(crate) count: usize,
    /// Bytes of the message.
    pub(crate) length: usize,
    pub(crate) from: Option<Arc<SocketAddress>>,
    pub(crate) arrived: Arrived,
    /// There was a message, and not the end.
    pub(crate) is_message: bool,
}

/// Who sends, as a queue sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The receiver's own messages go to it.
    Partner,
    Stranger,
}

impl Sender {
    /// Returns what one sleeps for: of those who sleep for the same, all need the same.
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
    /// `ENOMEM`; what it was to carry is dropped.
    pub(crate) fn new(
        slices: &[IoSlice<'_>],
        from: Name,
        ancillary: Ancillary,
    ) -> Result<Self, Errno> {
        let mut bytes = Vec::new();
        let length = slices.iter().map(|slice| slice.len()).sum();
        bytes.try_reserve_exact(length).map_err(|_| Errno::ENOMEM)?;
        slices
            .iter()
            .for_each(|slice| bytes.extend_from_slice(slice));
        Ok(Message {
            bytes: bytes.into_boxed_slice(),
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
                reader: Reader::Open,
                ended: false,
                error: None,
                readers: WaitQueue::new(),
                writers: WaitQueue::new(),
            }),
        }
    }

    /// Puts a message in, as long as `check` has no objection. Waits for room. At an error the
    /// message stays where it is.
    ///
    /// # Errors
    /// Those of `check`, which is asked each time that somebody woke the sender; `EAGAIN` if the
    /// wait ends; `ECONNREFUSED` if the receiver is closed, `EPIPE` if it or the connection is
    /// shut; `ENOMEM`.
    pub(crate) fn send(
        &self,
        message: &mut Option<Message>,
        sender: Sender,
        check: impl Fn() -> Result<(), Errno>,
        policy: WaitPolicy,
    ) -> Result<(), Errno> {
        let mut wakeups = Wakeups::default();
        policy.wait(
            &self.state,
            |state| &mut state.writers,
            sender.interest(),
            |state| match check().and_then(|()| state.check_writer()) {
                Ok(()) if !state.has_room(sender) => None,
                Ok(()) => Some(state.put(message, &mut wakeups)),
                Err(errno) => {
                    // It may have been the chosen one.
                    state.call_writers(&mut wakeups);
                    Some(Err(errno))
                }
            },
        )
    }

    /// Takes a message out, or looks at it. Waits while there is none.
    ///
    /// # Errors
    /// `EAGAIN` if the wait ends; `EBADF` if the reader is closed; `EIO` if it is revoked; what
    /// the other side has left.
    pub(crate) fn receive(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        look: Look,
        policy: WaitPolicy,
    ) -> Result<Delivered, Errno> {
        receive(&self.state, bufs, look, policy)
    }

    /// Has no message follow: a connection ended, or a side of it was shut.
    pub(crate) fn end(&self) {
        self.change(|state| state.ended = true);
    }

    /// Has the reader meet `error` once.
    pub(crate) fn set_error(&self, error: Errno) {
        self.change(|state| state.error = Some(error));
    }

    /// Closes the reading side: messages in it are lost. Tells whether there were any.
    pub(crate) fn close_reader(&self) -> bool {
        !self.empty(Some(Reader::Closed)).is_empty()
    }

    /// Closes the reading side, and readers meet `EIO`.
    pub(crate) fn revoke_reader(&self) -> bool {
        !self.empty(Some(Reader::Revoked)).is_empty()
    }

    /// Drops all messages. Tells whether there were any.
    pub(crate) fn purge(&self) -> bool {
        !self.empty(None).is_empty()
    }

    /// Takes all messages out. They are to be dropped without a lock.
    fn empty(&self, reader: Option<Reader>) -> VecDeque<Message> {
        let mut messages = VecDeque::new();
        self.change(|state| {
            state.weight = 0;
            messages = std::mem::take(&mut state.messages);
            if state.reader != Reader::Revoked {
                state.reader = reader.unwrap_or(state.reader);
            }
        });
        messages
    }

    /// Changes the state in a way that all are to learn of.
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

    /// Returns the length of all messages.
    pub(crate) fn unread_bytes(&self) -> usize {
        let state = self.state.lock();
        state.weight - state.messages.len() * OVERHEAD
    }

    /// Returns what all messages weigh.
    pub(crate) fn weight(&self) -> usize {
        self.state.lock().weight
    }

    /// Tells whether no message will follow.
    pub(crate) fn is_ended(&self) -> bool {
        let state = self.state.lock();
        state.ended || state.reader != Reader::Open
    }

    /// Tells whether a message would go in now, or be refused.
    pub(crate) fn is_writable(&self, sender: Sender) -> bool {
        let state = self.state.lock();
        state.has_room(sender) || state.check_writer().is_err()
    }

    pub(crate) fn take_error(&self) -> Option<Errno> {
        self.state.lock().error.take()
    }

    /// Returns what the reading side is ready for, without what the end of a connection adds.
    pub(crate) fn reader_events(&self) -> Events {
        let state = self.state.lock();
        let mut events = Events::empty();
        events.set(Events::READABLE, !state.messages.is_empty());
        events.set(
            Events::ERR,
            state.error.is_some() || state.reader == Reader::Revoked,
        );
        events
    }

    pub(crate) fn watch_reader(
        &self,
        watcher: &Arc<dyn Watcher>,
        interest: Events,
        file: Option<FileId>,
    ) {
        self.state.lock().readers.watch(watcher, interest, file);
    }

    pub(crate) fn watch_writer(
        &self,
        watcher: &Arc<dyn Watcher>,
        interest: Events,
        file: Option<FileId>,
    ) {
        self.state.lock().writers.watch(watcher, interest, file);
    }

    pub(crate) fn unwatch_reader(&self, watcher: &Arc<dyn Watcher>) {
        self.state.lock().readers.unwatch(watcher);
    }

    pub(crate) fn unwatch_writer(&self, watcher: &Arc<dyn Watcher>) {
        self.state.lock().writers.unwatch(watcher);
    }

    pub(crate) fn forget_reader(&self, file: FileId) {
        let told = self.state.lock().readers.forget(file);
        told.run();
    }

    pub(crate) fn forget_writer(&self, file: FileId) {
        let told = self.state.lock().writers.forget(file);
        told.run();
    }

    /// Shows each bundle of files that is on its way in this queue.
    pub(crate) fn for_each_right(&self, see: &mut dyn FnMut(&Rights)) {
        for message in &self.state.lock().messages {
            message.ancillary.rights.iter().for_each(&mut *see);
        }
    }

    /// Takes the files out that are on their way in this queue; the messages stay.
    pub(crate) fn take_rights(&self, into: &mut Vec<Rights>) {
        for message in &mut self.state.lock().messages {
            into.extend(message.ancillary.rights.take());
        }
    }
}

impl State {
    fn check_writer(&self) -> Result<(), Errno> {
        match self.reader {
            Reader::Closed | Reader::Revoked => Err(Errno::ECONNREFUSED),
            Reader::Open if self.ended => Err(Errno::EPIPE),
            Reader::Open => Ok(()),
        }
    }

    fn has_room(&self, sender: Sender) -> bool {
        let crowded = sender == Sender::Stranger && self.messages.len() > BACKLOG;
        self.weight < self.capacity && !crowded
    }

    fn put(&mut self, message: &mut Option<Message>, wakeups: &mut Wakeups) -> Result<(), Errno> {
        self.messages.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let was_empty = self.messages.is_empty();
        if let Some(message) = message.take() {
            self.weight += message.weight();
            self.messages.push_back(message);
        }
        wakeups.append(if was_empty {
            self.readers.wake(Events::READABLE)
        } else {
            self.readers.notify_watchers(Events::READABLE)
        });
        self.call_writers(wakeups);
        Ok(())
    }

    /// Finds the next one who waits for room, of each kind that there is room for: one that needs
    /// more would find none, and keep it from another.
    fn call_writers(&mut self, wakeups: &mut Wakeups) {
        for sender in [Sender::Partner, Sender::Stranger] {
            if self.has_room(sender) {
                wakeups.append(self.writers.pass_on(sender.interest()));
            }
        }
    }
}

impl Carrier for State {
    type Found = Delivered;

    fn readers(&mut self) -> &mut WaitQueue {
        &mut self.readers
    }

    fn read_must_wait(&self) -> bool {
        let goes_on = self.reader == Reader::Open && !self.ended && self.error.is_none();
        goes_on && self.messages.is_empty()
    }

    fn registry(&self) -> Option<Arc<InFlight>> {
        let first = self.messages.front()?;
        first.ancillary.rights.as_ref().map(Rights::registry)
    }

    fn take(
        &mut self,
        bufs: &mut [IoSliceMut<'_>],
        look: Look,
        flights: Option<&mut Flights>,
        wakeups: &mut Wakeups,
    ) -> Result<Delivered, Errno> {
        match self.reader {
            Reader::Closed => return Err(Errno::EBADF),
            Reader::Revoked => return Err(Errno::EIO),
            Reader::Open => {}
        }
        // Linux tells an error before the messages of a datagram socket.
        if let Some(errno) = self.error.take() {
            return Err(errno);
        }
        let delivered = match look {
            Look::Peek => self.messages.front().map(|message| {
                let arrived = message.ancillary.peek();
                Delivered::of(message, bufs, arrived)
            }),
            Look::Take => self.messages.pop_front().map(|mut message| {
                self.weight -= message.weight();
                let arrived = message.ancillary.arrive(flights);
                Delivered::of(&message, bufs, arrived)
            }),
        };
        if look == Look::Take {
            wakeups.append(self.writers.notify_watchers(Events::WRITABLE));
            self.call_writers(wakeups);
        }
        if !self.messages.is_empty() {
            wakeups.append(self.readers.pass_on(Events::IN));
        }
        Ok(delivered.unwrap_or_default())
    }
}

impl Delivered {
    fn of(message: &Message, bufs: &mut [IoSliceMut<'_>], arrived: Arrived) -> Self {
        let mut rest = &*message.bytes;
        for buf in bufs {
            let (now, later) = rest.split_at(rest.len().min(buf.len()));
            buf[..now.len()].copy_from_slice(now);
            rest = later;
        }
        Delivered {
            count: message.bytes.len() - rest.len(),
            length: message.bytes.len(),
            from: message.from.get().cloned(),
            arrived,
            is_message: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::socket::receive;

    #[test]
    fn a_receive_lands_each_file_where_it_is_counted() {
        let queue = RecvQueue::new(4096);
        receive::tests::a_read_lands_each_file_where_it_is_counted(&queue.state, |ancillary| {
            let bytes = [IoSlice::new(b"x")];
            let message =
                Message::new(&bytes, Name::default(), ancillary).expect("there is memory");
            let sent = queue.send(
                &mut Some(message),
                Sender::Partner,
                || Ok(()),
                WaitPolicy::NoWait,
            );
            assert_eq!(sent, Ok(()));
        });
    }
}
