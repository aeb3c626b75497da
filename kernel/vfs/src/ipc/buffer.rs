//! Bounded queue of bytes with a reading and a writing side: the core of pipes and sockets.
//!
//! # When it blocks
//!
//! A read waits while the queue is empty and the writing side is open. A write of at most
//! [`PIPE_BUF`] bytes waits until all of them fit, so it is atomic; a longer one writes what fits,
//! and waits whenever nothing does (POSIX `write`, Linux `pipe(7)`).
//!
//! # Wake-ups
//!
//! The queue is *readable* when it holds a byte, and *writable* when `PIPE_BUF` bytes are free. A
//! sleeper sleeps only while its side is not ready: a reader because the queue is empty; a writer
//! because less than it needs is free, or nothing is, and both are less than `PIPE_BUF`. So it is
//! enough to consider the transitions of a side to ready:
//!
//! - The operation that makes a side ready wakes one sleeper of that side.
//! - An operation that finds its own side still ready when it is done wakes the next one.
//!
//! By induction: while a side is ready and has sleepers, one of them is on its way (woken, and not
//! yet run). It was woken when the side became ready; when it has run, it passes the wake-up on, or
//! the side is no longer ready. A thread that arrives in between and takes everything leaves the
//! woken one to find nothing and sleep again, and the next change wakes one. A sleeper whose
//! deadline passes checks the state once more, like a woken one. Only such a race causes a useless
//! wake-up, and no wake-up is lost.
//!
//! Measuring writers by `PIPE_BUF`, and not by what each of them needs, makes all writers
//! interchangeable. Any of them may be woken, and a woken writer can write many small messages.
//! Linux wakes writers by whole pages in the same way. The price: a writer that fell asleep on a
//! full queue sleeps until `PIPE_BUF` bytes are free, even if it has one byte to write.
//!
//! Closing a side wakes all sleepers, because all of them can go on: readers to end of file,
//! writers to `EPIPE`.
//!
//! Watchers of the reading side (a poll) are notified of every write, even if there were bytes
//! before: an edge-triggered reader has read those, and waits for the next. Watchers of the writing
//! side are notified when `PIPE_BUF` bytes become free.
//!
//! All are chosen under the lock, and woken after it is released.
//!
//! # After a side is closed
//!
//! A borrowed lookup may still reach an end whose last descriptor was closed. An operation *of* the
//! closed side returns `EBADF`: after a reader has seen end of file, no read returns a byte.
//!
//! A revoked side is closed for the other side, and its own operations return `EIO`, sleeping ones
//! included. It stays revoked when its last descriptor is closed.

mod ancillary;
mod packets;

use std::collections::VecDeque;
use std::io::IoSliceMut;

use fdtable_shm::{Mutex, MutexGuard};

use crate::event::{self, Events, Limit, WaitQueue, Wakeups};
use crate::ipc::socket::receive::{Look, Reading};
use crate::{Errno, OpenFlags, Status};
use ancillary::{Mark, Passing};

/// Capacity of a pipe in bytes: 65,536, as on Linux (`pipe(7)`).
pub const PIPE_CAPACITY: usize = 65_536;

/// Most bytes of an atomic write, and the smallest capacity of a buffer: 4,096.
pub const PIPE_BUF: usize = 4096;

/// Bounded queue of bytes with a reading and a writing side.
///
/// Many threads may use each side at once. It begins a cache line, so its transfers do not slow
/// down what the allocator has put beside it.
#[derive(Debug)]
#[repr(align(64))]
pub struct Buffer {
    state: Mutex<State>,
}

/// State that the lock guards. The lock is held for copies of at most `capacity` bytes, never
/// across a sleep.
#[derive(Debug)]
struct State {
    /// Grows by doubling as it is used, so it allocates at most a dozen times. A buffer that is
    /// never full stays small. `drain` starts again at the front when it takes the last byte, so
    /// short messages reuse the same few cache lines.
    bytes: VecDeque<u8>,
    capacity: usize,
    reader: Side,
    writer: Side,
    /// Total number of bytes taken out.
    taken: u64,
    /// Packets, and messages with ancillary data, in order.
    marks: VecDeque<Mark>,
    /// Bytes of the capacity that packets take beyond their own: each takes `PIPE_BUF`.
    padding: usize,
    /// Which ends get credentials with the bytes of a socket.
    passing: Passing,
    /// Error that the reader of a socket gets once, after the last byte.
    error: Option<Errno>,
    /// Readers that wait for a byte, and watchers of the reading side.
    readers: WaitQueue,
    /// Writers that wait for `PIPE_BUF` free bytes, and watchers of the writing side.
    writers: WaitQueue,
}

/// Form in which a write enters the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Stream,
    /// Packets of at most [`PIPE_BUF`] bytes. In Linux: `O_DIRECT`.
    Packets,
}

/// One of the two sides of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Read,
    Write,
}

/// State of a side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Side {
    /// In use.
    Open,
    /// Writing is shut down, and the open file still exists (`shutdown`).
    Shut,
    /// The last descriptor is closed.
    Closed,
    /// The open file was revoked.
    Revoked,
}

/// Events of bytes that arrive.
const ARRIVED: Events = Events::READABLE.union(Events::SIGNAL_IN);

/// The transition of a side that closes.
const CLOSES: (Side, Side) = (Side::Open, Side::Closed);

/// Which sides are open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sides {
    pub(crate) reading: bool,
    pub(crate) writing: bool,
}

impl Buffer {
    /// Makes an empty buffer of `capacity` bytes, and at least [`PIPE_BUF`] (Linux rounds the size
    /// of a pipe up to a page). Does not allocate until the first write.
    pub fn new(capacity: usize) -> Self {
        Buffer {
            state: Mutex::new(State {
                bytes: VecDeque::new(),
                capacity: capacity.max(PIPE_BUF),
                reader: Side::Open,
                writer: Side::Open,
                taken: 0,
                marks: VecDeque::new(),
                padding: 0,
                passing: Passing::default(),
                error: None,
                readers: WaitQueue::new(),
                writers: WaitQueue::new(),
            }),
        }
    }

    /// Reads the available bytes, up to `buf.len()`, and returns how many; 0 is end of file. Blocks
    /// while there are none.
    ///
    /// # Errors
    /// `EBADF` if the reading side is closed; `EIO` if it is revoked; `EINTR` if a signal handler
    /// runs first.
    pub fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.read_while(|| Ok(()), buf)
    }

    /// Reads like [`read`](Self::read), as long as `check` succeeds.
    ///
    /// # Errors
    /// Errors of `check`, which runs after each wake-up of the readers; those of `read`.
    pub(crate) fn read_while(
        &self,
        check: impl Fn() -> Result<(), Errno>,
        buf: &mut [u8],
    ) -> Result<usize, Errno> {
        if buf.is_empty() {
            return check().map(|()| 0);
        }
        let (bufs, reading) = (&mut [IoSliceMut::new(buf)], Reading::new(Look::Take));
        let taken = self.receive_while(check, bufs, reading, Limit::FOREVER)?;
        Ok(taken.count)
    }

    /// Reads like [`read`](Self::read), without blocking.
    ///
    /// # Errors
    /// `EAGAIN` if there is nothing to read yet; `EBADF` if the reading side is closed; `EIO` if it
    /// is revoked.
    pub fn try_read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        if buf.is_empty() {
            return Ok(0);
        }
        let mut state = self.state.lock();
        if state.read_must_wait() {
            Err(Errno::EAGAIN)
        } else if !state.marks.is_empty() {
            drop(state);
            let (bufs, reading) = (&mut [IoSliceMut::new(buf)], Reading::new(Look::Take));
            Ok(self.receive(bufs, reading, Limit::NOW)?.count)
        } else if state.has_no_waiters() {
            state.pop(buf)
        } else {
            take_and_wake(state, buf)
        }
    }

    /// Writes all of `bytes`, and returns how many it wrote: fewer only if the reading side closes,
    /// memory runs out, or a signal handler runs, after some were written. Blocks while there is no
    /// room.
    ///
    /// # Errors
    /// `EPIPE` if the reading side is closed; `EBADF` if the writing side is; `EIO` if that is
    /// revoked; `EINTR` if a signal handler runs first; `ENOMEM`.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.write_while(|| Ok(()), bytes, Form::Stream, Limit::FOREVER)
    }

    /// Writes like [`write`](Self::write), as long as `check` succeeds, and until `limit`.
    ///
    /// # Errors
    /// Errors of `check`, which runs after each wake-up of the writers; `EAGAIN` if the wait ends
    /// before anything was written; those of `write`.
    pub(crate) fn write_while(
        &self,
        check: impl Fn() -> Result<(), Errno>,
        bytes: &[u8],
        form: Form,
        limit: Limit,
    ) -> Result<usize, Errno> {
        if bytes.is_empty() {
            return check().map(|()| 0);
        }
        self.write_all(bytes.len(), limit, |state, written, wakeups| {
            match check() {
                Ok(()) => state.put_next(form, &bytes[written..], wakeups),
                Err(errno) => Some(Err(errno)),
            }
        })
    }

    /// Writes `total` bytes by `put`, which gets the count of those that are written, and returns
    /// nothing if it must wait.
    fn write_all(
        &self,
        total: usize,
        mut limit: Limit,
        mut put: impl FnMut(&mut State, usize, &mut Wakeups) -> Option<Result<usize, Errno>>,
    ) -> Result<usize, Errno> {
        let mut written = 0;
        while written < total {
            // Dropped after the lock, here and in the other operations.
            let mut wakeups = Wakeups::default();
            let result = event::wait(
                &self.state,
                |state| &mut state.writers,
                Events::OUT,
                limit,
                |state| put(state, written, &mut wakeups),
            );
            match result {
                Ok(count) => written += count,
                Err(errno) if written == 0 => return Err(errno),
                // The next call gets the error again (as in Linux `pipe_write`).
                Err(_) => break,
            }
            // Every handler ends the rest, and the result is the count.
            limit = limit.of_rest();
        }
        Ok(written)
    }

    /// Writes like [`write`](Self::write), without blocking: all or nothing of at most [`PIPE_BUF`]
    /// bytes, and of more what fits.
    ///
    /// # Errors
    /// `EAGAIN` if there is no room; `EPIPE` if the reading side is closed; `EBADF` if the writing
    /// side is; `EIO` if that is revoked; `ENOMEM`.
    pub fn try_write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.try_write_if(bytes, |state| !state.write_must_wait(bytes.len()))
    }

    /// Writes like [`try_write`](Self::try_write), for an end with `status`. If that end may block,
    /// the write is all or nothing: a partial count would be returned as the final one.
    ///
    /// # Errors
    /// Errors of `try_write`; `EAGAIN` also if only a part fits, and the end may block.
    pub(crate) fn try_write_by(&self, status: &Status, bytes: &[u8]) -> Result<usize, Errno> {
        self.try_write_if(bytes, |state| state.has_room(status, bytes.len()))
    }

    /// Writes like [`try_write_by`](Self::try_write_by), unless an end gets credentials with the
    /// bytes.
    ///
    /// # Errors
    /// Errors of `try_write_by`.
    pub(crate) fn try_write_unsigned(
        &self,
        status: &Status,
        bytes: &[u8],
    ) -> Option<Result<usize, Errno>> {
        let mut signed = false;
        let written = self.try_write_if(bytes, |state| {
            signed = state.passing.is_on();
            !signed && state.has_room(status, bytes.len())
        });
        (!signed).then_some(written)
    }

    #[inline]
    fn try_write_if(
        &self,
        bytes: &[u8],
        fits: impl FnOnce(&State) -> bool,
    ) -> Result<usize, Errno> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut state = self.state.lock();
        if !fits(&state) {
            Err(Errno::EAGAIN)
        } else if state.has_no_waiters() {
            state.push(bytes)
        } else {
            put_and_wake(state, bytes)
        }
    }

    /// Closes or revokes the reading side: the bytes in the buffer are discarded, and writers get
    /// `EPIPE`. If it is revoked, readers get `EIO`, sleeping ones included.
    pub fn end_reader(&self, how: Side) {
        let mut state = self.state.lock();
        state.reader.end(how);
        let rest = (
            std::mem::take(&mut state.bytes),
            std::mem::take(&mut state.marks),
        );
        let wakeups = state.notify_end();
        drop(state);
        // Dropped outside all locks: this may release files that will not be received.
        drop(rest);
        wakeups.run();
    }

    /// Ends the writing side: readers get the bytes in the buffer, then end of file. Writers get
    /// `EPIPE` if it is shut down, and their open file still exists; `EIO` if it is revoked,
    /// sleeping ones included.
    pub fn end_writer(&self, how: Side) {
        let mut state = self.state.lock();
        state.writer.end(how);
        let wakeups = state.notify_end();
        drop(state);
        wakeups.run();
    }

    /// Returns how many bytes a read would find.
    pub fn readable_bytes(&self) -> usize {
        self.state.lock().bytes.len()
    }

    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.state.lock().capacity
    }

    /// Sets the capacity in bytes, at least [`PIPE_BUF`].
    ///
    /// # Errors
    /// `EBUSY` if more bytes than that are in the buffer.
    pub fn set_capacity(&self, capacity: usize) -> Result<(), Errno> {
        let _wakeups;
        let mut state = self.state.lock();
        if state.bytes.len() + state.padding > capacity.max(PIPE_BUF) {
            return Err(Errno::EBUSY);
        }
        _wakeups = state.limit(capacity);
        Ok(())
    }

    /// Sets the capacity like [`set_capacity`](Self::set_capacity), also below what is in the
    /// buffer: then there is no room until so much is read.
    pub(crate) fn limit(&self, capacity: usize) {
        let _wakeups = self.state.lock().limit(capacity);
    }

    /// Returns the events of a side: `HUP` or `ERR` if the other side is closed.
    pub(crate) fn events(&self, half: Half) -> Events {
        let state = self.state.lock();
        match half {
            Half::Read => state.reader_events(),
            Half::Write => state.writer_events(),
        }
    }

    /// Calls `visit` with the wait queue of a side, under the lock.
    pub(crate) fn with_queue(&self, half: Half, visit: &mut dyn FnMut(&mut WaitQueue)) {
        let mut state = self.state.lock();
        visit(match half {
            Half::Read => &mut state.readers,
            Half::Write => &mut state.writers,
        });
    }

    /// Opens and closes sides, for a buffer whose sides are many open files. The bytes are
    /// discarded when both are closed. Collects the waiters that can go on.
    pub(crate) fn set_sides(&self, sides: Sides) -> Wakeups {
        let mut state = self.state.lock();
        let reader = state.reader.counted(sides.reading);
        let writer = state.writer.counted(sides.writing);
        let ends = (state.reader, reader) == CLOSES || (state.writer, writer) == CLOSES;
        (state.reader, state.writer) = (reader, writer);
        if !sides.reading && !sides.writing {
            state.bytes = VecDeque::new();
            state.marks.clear();
            state.padding = 0;
        }
        if ends {
            let wakeups = state.notify_end();
            let of_readers = state.readers.notify_watchers(Events::SIGNAL_IN);
            let of_writers = state.writers.notify_watchers(Events::SIGNAL_TAKEN);
            wakeups.and(of_readers).and(of_writers)
        } else {
            Wakeups::default()
        }
    }

    /// Wakes all sleepers of both sides, to check more than the buffer.
    pub(crate) fn wake_all(&self) {
        let wakeups = self.state.lock().notify_end();
        wakeups.run();
    }

    /// Sets the error that the reader gets once, after the last byte.
    pub(crate) fn set_error(&self, error: Errno) {
        self.state.lock().error = Some(error);
    }

    /// Takes the error that the reader would get.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        self.state.lock().error.take()
    }

    /// Returns true if no more bytes can go through.
    pub(crate) fn is_ended(&self) -> bool {
        !self.state.lock().is_open()
    }

    /// Returns true if [`PIPE_BUF`] bytes are free.
    pub(crate) fn is_writable(&self) -> bool {
        self.state.lock().is_writable()
    }
}

/// Takes bytes out of a buffer that has waiters.
#[cold]
fn take_and_wake(mut state: MutexGuard<'_, State>, buf: &mut [u8]) -> Result<usize, Errno> {
    let mut wakeups = Wakeups::default();
    let result = state.take(buf, &mut wakeups);
    drop(state);
    wakeups.run();
    result
}

/// Puts bytes into a buffer that has waiters.
#[cold]
fn put_and_wake(mut state: MutexGuard<'_, State>, bytes: &[u8]) -> Result<usize, Errno> {
    let mut wakeups = Wakeups::default();
    let result = state.put(bytes, &mut wakeups);
    drop(state);
    wakeups.run();
    result
}

impl Side {
    /// Ends the use of the side. A revoked side stays revoked, and only an open one is shut down.
    pub(crate) fn end(&mut self, how: Side) {
        match (*self, how) {
            (Side::Revoked, _) | (Side::Closed, Side::Shut) => {}
            _ => *self = how,
        }
    }

    /// Returns the state after the number of its open files has changed.
    fn counted(self, open: bool) -> Side {
        match (self, open) {
            (_, true) => Side::Open,
            (Side::Revoked, false) => Side::Revoked,
            (_, false) => Side::Closed,
        }
    }

    /// Checks that operations of this side may go on.
    ///
    /// # Errors
    /// `EPIPE` if it is shut down; `EBADF` if it is closed; `EIO` if it is revoked.
    pub(crate) fn check(self) -> Result<(), Errno> {
        match self {
            Side::Open => Ok(()),
            Side::Shut => Err(Errno::EPIPE),
            Side::Closed => Err(Errno::EBADF),
            Side::Revoked => Err(Errno::EIO),
        }
    }
}

impl State {
    /// Takes bytes out. The caller has checked that it need not wait.
    #[inline]
    fn take(&mut self, buf: &mut [u8], wakeups: &mut Wakeups) -> Result<usize, Errno> {
        let was_writable = self.is_writable();
        let result = self.pop(buf);
        self.after_take(was_writable, wakeups);
        result
    }

    /// Collects the waiters to wake after bytes were taken out.
    #[inline]
    fn after_take(&mut self, was_writable: bool, wakeups: &mut Wakeups) {
        if self.has_no_waiters() {
            return;
        }
        if !was_writable && self.is_writable() {
            wakeups.append(self.writers.wake(Events::WRITABLE | Events::SIGNAL_ROOM));
        }
        wakeups.append(self.writers.notify_watchers(Events::SIGNAL_TAKEN));
        if self.is_readable() {
            wakeups.append(self.readers.pass_on(Events::IN));
        }
    }

    /// Puts bytes in. The caller has checked that it need not wait.
    #[inline]
    fn put(&mut self, bytes: &[u8], wakeups: &mut Wakeups) -> Result<usize, Errno> {
        let was_readable = self.is_readable();
        let result = self.push(bytes);
        self.after_put(was_readable, wakeups);
        result
    }

    /// Collects the waiters to wake after a write, even if it could not put any bytes in.
    #[inline]
    fn after_put(&mut self, was_readable: bool, wakeups: &mut Wakeups) {
        if self.has_no_waiters() {
            return;
        }
        if was_readable {
            wakeups.append(self.readers.notify_watchers(ARRIVED));
        } else if self.is_readable() {
            wakeups.append(self.readers.wake(ARRIVED));
        }
        if self.is_writable() {
            wakeups.append(self.writers.pass_on(Events::OUT));
        }
    }

    /// Returns true if there are no waiters: the common case, in which there is nothing to collect.
    #[inline]
    fn has_no_waiters(&self) -> bool {
        self.readers.is_empty() && self.writers.is_empty()
    }

    /// Collects all waiters, when a side has ended.
    fn notify_end(&mut self) -> Wakeups {
        let readers = self.readers.wake_all(Events::READABLE | Events::HUP);
        readers.and(self.writers.wake_all(Events::WRITABLE | Events::ERR))
    }

    fn reader_events(&self) -> Events {
        let mut events = Events::empty();
        events.set(Events::READABLE, self.is_readable());
        events.set(Events::HUP, self.writer != Side::Open);
        events.set(
            Events::ERR,
            self.reader == Side::Revoked || self.error.is_some(),
        );
        events
    }

    fn writer_events(&self) -> Events {
        let mut events = Events::empty();
        events.set(Events::WRITABLE, self.is_writable());
        events.set(
            Events::ERR,
            self.reader != Side::Open || self.writer == Side::Revoked,
        );
        events
    }

    /// Sets the capacity, and collects the writers if there is room then.
    fn limit(&mut self, capacity: usize) -> Wakeups {
        self.capacity = capacity.max(PIPE_BUF);
        let mut wakeups = Wakeups::default();
        if self.is_writable() {
            // Also if there was room before: Linux wakes edge-triggered watchers again.
            wakeups.append(self.writers.wake(Events::WRITABLE));
        }
        wakeups
    }

    fn is_readable(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn is_writable(&self) -> bool {
        self.free() >= PIPE_BUF
    }

    fn free(&self) -> usize {
        // It may hold more than its capacity: bytes that were put back, or before it shrank.
        self.capacity
            .saturating_sub(self.bytes.len() + self.padding)
    }

    /// Returns true if a side that waits can still become ready.
    fn is_open(&self) -> bool {
        self.reader == Side::Open && self.writer == Side::Open
    }

    fn read_must_wait(&self) -> bool {
        self.is_open() && self.bytes.is_empty()
    }

    fn write_must_wait(&self, count: usize) -> bool {
        let needed = if count <= PIPE_BUF { count } else { 1 };
        self.is_open() && self.free() < needed
    }

    /// Returns true if an end with `status` need not wait to write `count` bytes. An end that may
    /// block writes all of them.
    #[inline]
    fn has_room(&self, status: &Status, count: usize) -> bool {
        match count <= PIPE_BUF || status.get().contains(OpenFlags::NONBLOCK) {
            true => !self.write_must_wait(count),
            false => !self.is_open() || count <= self.free(),
        }
    }

    /// Moves bytes from the front into `buf`, in at most two copies.
    #[inline]
    fn pop(&mut self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.reader.check()?;
        let count = buf.len().min(self.bytes.len());
        let (front, back) = self.bytes.as_slices();
        let first = count.min(front.len());
        buf[..first].copy_from_slice(&front[..first]);
        if first < count {
            buf[first..count].copy_from_slice(&back[..count - first]);
        }
        self.advance(count)
    }

    /// Drops the first `count` bytes, which were copied, and returns how many. If there are none,
    /// this is the end of file, or an error that comes instead of it once.
    #[inline]
    fn advance(&mut self, count: usize) -> Result<usize, Errno> {
        if count == 0 && self.bytes.is_empty() {
            return self.error.take().map_or(Ok(0), Err);
        }
        self.bytes.drain(..count);
        self.taken += count as u64;
        Ok(count)
    }

    /// Moves as many of `bytes` as fit to the back, in at most two copies.
    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        self.writer.check()?;
        if self.reader != Side::Open {
            return Err(Errno::EPIPE);
        }
        let count = bytes.len().min(self.free());
        self.bytes.try_reserve(count).map_err(|_| Errno::ENOMEM)?;
        self.bytes.extend(&bytes[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
