//! A bounded queue of bytes between a reading and a writing side: the inside of pipes and sockets.
//!
//! # When it waits
//!
//! A read waits while the queue is empty and the writing side is open. A write of at most
//! [`PIPE_BUF`] bytes waits until all of them fit, so it is atomic; a longer one puts in what
//! fits, and waits whenever nothing does (POSIX `write`, Linux `pipe(7)`).
//!
//! # Who is woken
//!
//! The queue is *readable* when it holds a byte, and *writable* when a `PIPE_BUF` is free. A
//! sleeper sleeps only while its side is not ready: a reader because the queue is empty; a writer
//! because less than what it needs is free, or nothing is, and both are less than a `PIPE_BUF`.
//! So it is enough to look at the moments when a side *becomes* ready:
//!
//! - The operation that makes a side ready wakes one sleeper of that side.
//! - An operation that finds its own side still ready when it is done wakes the next one.
//!
//! By induction: while a side is ready and has sleepers, one of them is on its way (woken and not
//! yet run). It was woken when the side became ready; when it has run, it passes the wake-up on or
//! the side is no longer ready. One that arrives in between and takes everything leaves the woken
//! one to find nothing and sleep again, and the next change wakes one. One whose time is up looks
//! at the state once more, as a woken one. Nobody is woken for nothing but by such a race, and no
//! wake-up is lost.
//!
//! Measuring writers by a `PIPE_BUF` and not by what each of them needs makes all writers equal,
//! so that any of them may be woken, and lets a writer put in many small messages for each time
//! it is woken. Linux wakes writers by whole pages in the same way. Its price: a writer that fell
//! asleep on a full queue sleeps until a `PIPE_BUF` is free, even if it has one byte to write.
//!
//! Closing a side wakes all sleepers, for all of them can go on: readers to end of file, writers
//! to `EPIPE`.
//!
//! A watcher of the reading side (a poll) is told of every write, also when there were bytes
//! before: who asks for edges has read what was there, and waits for the next. One of the writing
//! side is told when room for a `PIPE_BUF` becomes free.
//!
//! All are chosen under the lock and woken after it.
//!
//! # After a side was closed
//!
//! A borrowed lookup may still reach an end whose last descriptor went. An operation *of* the
//! closed side answers `EBADF`: nobody who has seen end of file reads a byte afterwards.
//!
//! A side that is revoked is closed for the other side, and its own operations answer `EIO`, also
//! those that sleep. It stays revoked when its last descriptor goes.

mod ancillary;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::event::{self, Events, FileId, WaitQueue, Wakeups, Watcher};
use crate::{Errno, OpenFlags, Status};
use ancillary::Mark;

/// Most bytes that a write puts in as one piece, and the least capacity of a buffer: 4,096.
pub const PIPE_BUF: usize = 4096;

/// Bounded queue of bytes with a reading and a writing side.
///
/// Both sides may be used by many threads at once.
#[derive(Debug)]
pub struct Buffer {
    state: Mutex<State>,
}

/// What the lock guards. The lock is held for copies of at most `capacity` bytes, never in sleep.
#[derive(Debug)]
struct State {
    /// Grows by doubling as it is used, so it allocates a dozen times at most, and a buffer that
    /// nobody fills stays small. Its `drain` starts again at the front when it takes the last
    /// byte, so short messages go through the same few cache lines.
    bytes: VecDeque<u8>,
    capacity: usize,
    reader: Side,
    writer: Side,
    /// Bytes that were ever taken out.
    taken: u64,
    /// Messages that carry something, in their order.
    marks: VecDeque<Mark>,
    /// What the reader of a socket meets once, after the last byte.
    error: Option<Errno>,
    /// Readers that wait for a byte, and watchers of the reading side.
    readers: WaitQueue,
    /// Writers that wait for a free `PIPE_BUF`, and watchers of the writing side.
    writers: WaitQueue,
}

/// What may be done on a side.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Open,
    /// Nobody writes any more, and the open file is still there (`shutdown`).
    Shut,
    Closed,
    Revoked,
}

/// What a side was, and what it is to be.
const CLOSES: (Side, Side) = (Side::Open, Side::Closed);

/// Which sides are open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sides {
    pub(crate) reading: bool,
    pub(crate) writing: bool,
}

impl Buffer {
    /// Makes an empty buffer of `capacity` bytes, or of [`PIPE_BUF`] if that is more (Linux rounds
    /// the size of a pipe up to a page). Does not allocate until the first write.
    pub fn new(capacity: usize) -> Self {
        Buffer {
            state: Mutex::new(State {
                bytes: VecDeque::new(),
                capacity: capacity.max(PIPE_BUF),
                reader: Side::Open,
                writer: Side::Open,
                taken: 0,
                marks: VecDeque::new(),
                error: None,
                readers: WaitQueue::new(),
                writers: WaitQueue::new(),
            }),
        }
    }

    /// Reads what is there, up to `buf.len()` bytes, and returns how many; 0 is end of file.
    /// Waits while there is nothing.
    ///
    /// # Errors
    /// `EBADF` if the reading side is closed; `EIO` if it is revoked.
    pub fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.read_while(|| Ok(()), buf)
    }

    /// Reads as [`read`](Self::read), as long as `check` has no objection. Nothing may travel beside
    /// the bytes.
    ///
    /// # Errors
    /// Those of `check`, which is asked each time that somebody woke the readers; those of `read`.
    pub(crate) fn read_while(
        &self,
        check: impl Fn() -> Result<(), Errno>,
        buf: &mut [u8],
    ) -> Result<usize, Errno> {
        if buf.is_empty() {
            return check().map(|()| 0);
        }
        // Dropped after the lock, and so are those of the other operations.
        let mut wakeups = Wakeups::default();
        let outcome = event::wait(
            &self.state,
            |state| &mut state.readers,
            Events::IN,
            None,
            |state| match check() {
                Ok(()) if state.read_must_wait() => None,
                Ok(()) => Some(state.take(buf, &mut wakeups)),
                Err(errno) => Some(Err(errno)),
            },
        );
        outcome.unwrap_or(Err(Errno::EAGAIN))
    }

    /// Reads as [`read`](Self::read), without waiting.
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
            self.try_read_marked(buf)
        } else if state.is_deserted() {
            state.pop(buf)
        } else {
            take_and_tell(state, buf)
        }
    }

    /// Writes all of `bytes`, waiting for room, and returns how many it wrote: fewer only if the
    /// reading side closes, or memory ends, after some were taken.
    ///
    /// # Errors
    /// `EPIPE` if the reading side is closed; `EBADF` if the writing side is; `EIO` if that is
    /// revoked; `ENOMEM`.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.write_while(|| Ok(()), bytes)
    }

    /// Writes as [`write`](Self::write), as long as `check` has no objection.
    ///
    /// # Errors
    /// Those of `check`, which is asked each time that somebody woke the writers; those of `write`.
    pub(crate) fn write_while(
        &self,
        check: impl Fn() -> Result<(), Errno>,
        bytes: &[u8],
    ) -> Result<usize, Errno> {
        if bytes.is_empty() {
            return check().map(|()| 0);
        }
        let mut written = 0;
        while written < bytes.len() {
            match self.write_some(&check, &bytes[written..]) {
                Ok(count) => written += count,
                Err(errno) if written == 0 => return Err(errno),
                // The next call meets the error again (as Linux `pipe_write`).
                Err(_) => break,
            }
        }
        Ok(written)
    }

    /// Writes as [`write`](Self::write), without waiting: all or nothing of at most [`PIPE_BUF`]
    /// bytes, and of more what fits.
    ///
    /// # Errors
    /// `EAGAIN` if there is no room; `EPIPE` if the reading side is closed; `EBADF` if the writing
    /// side is; `EIO` if that is revoked; `ENOMEM`.
    pub fn try_write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.try_write_if(bytes, |state| !state.write_must_wait(bytes.len()))
    }

    /// Writes as [`try_write`](Self::try_write) for an end that has `status`. If that may wait, it is
    /// all or nothing: a part would be all that the caller hears of.
    ///
    /// # Errors
    /// Those of `try_write`; `EAGAIN` also if only a part fits, and the end may wait.
    pub(crate) fn try_write_by(&self, status: &Status, bytes: &[u8]) -> Result<usize, Errno> {
        if bytes.len() <= PIPE_BUF || status.get().contains(OpenFlags::NONBLOCK) {
            return self.try_write(bytes);
        }
        self.try_write_if(bytes, |state| {
            !state.is_open() || bytes.len() <= state.free()
        })
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
        } else if state.is_deserted() {
            state.push(bytes)
        } else {
            put_and_tell(state, bytes)
        }
    }

    /// Closes the reading side: what is in the buffer is lost, and writers meet `EPIPE`.
    pub fn close_reader(&self) {
        self.end_reader(Side::Closed);
    }

    /// Closes the writing side: readers get what is in the buffer, then end of file.
    pub fn close_writer(&self) {
        self.end_writer(Side::Closed);
    }

    /// Closes the reading side, and readers meet `EIO`, also those that wait.
    pub fn revoke_reader(&self) {
        self.end_reader(Side::Revoked);
    }

    /// Closes the writing side, and writers meet `EIO`, also those that wait.
    pub fn revoke_writer(&self) {
        self.end_writer(Side::Revoked);
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
    /// `EBUSY` if more than that is in the buffer.
    pub fn set_capacity(&self, capacity: usize) -> Result<(), Errno> {
        let mut wakeups = Wakeups::default();
        let mut state = self.state.lock();
        let was_writable = state.is_writable();
        let capacity = capacity.max(PIPE_BUF);
        if state.bytes.len() > capacity {
            return Err(Errno::EBUSY);
        }
        state.capacity = capacity;
        if !was_writable && state.is_writable() {
            wakeups.append(state.writers.wake(Events::WRITABLE));
        }
        Ok(())
    }

    /// Returns true if the reading side was revoked.
    pub fn reader_is_revoked(&self) -> bool {
        self.state.lock().reader == Side::Revoked
    }

    /// Returns true if the writing side was revoked.
    pub fn writer_is_revoked(&self) -> bool {
        self.state.lock().writer == Side::Revoked
    }

    /// Checks that the reading side is open.
    pub(crate) fn check_reader(&self) -> Result<(), Errno> {
        self.state.lock().reader.check()
    }

    /// Checks that the writing side is open.
    pub(crate) fn check_writer(&self) -> Result<(), Errno> {
        self.state.lock().writer.check()
    }

    /// Returns what the reading side is ready for: `HUP` when nobody can write any more.
    pub fn reader_events(&self) -> Events {
        self.state.lock().reader_events()
    }

    /// Returns what the writing side is ready for: `ERR` when nobody can read.
    pub fn writer_events(&self) -> Events {
        self.state.lock().writer_events()
    }

    /// Registers a watcher of the reading side, as [`Pollee::watch`](event::Pollee::watch).
    pub fn watch_reader(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        self.state.lock().readers.watch(watcher, interest, file);
    }

    /// Registers a watcher of the writing side, as [`Pollee::watch`](event::Pollee::watch).
    pub fn watch_writer(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        self.state.lock().writers.watch(watcher, interest, file);
    }

    /// Takes a watcher off the reading side.
    pub fn unwatch_reader(&self, watcher: &Arc<dyn Watcher>) {
        self.state.lock().readers.unwatch(watcher);
    }

    /// Takes a watcher off the writing side.
    pub fn unwatch_writer(&self, watcher: &Arc<dyn Watcher>) {
        self.state.lock().writers.unwatch(watcher);
    }

    /// Takes those off the reading side who are registered for `file`, and tells them.
    pub fn forget_reader(&self, file: FileId) {
        let told = self.state.lock().readers.forget(file);
        told.run();
    }

    /// Takes those off the writing side who are registered for `file`, and tells them.
    pub fn forget_writer(&self, file: FileId) {
        let told = self.state.lock().writers.forget(file);
        told.run();
    }

    /// Opens and closes sides, for a buffer whose sides are many open files. What is in it is lost
    /// when both are closed. Finds those who can go on.
    pub(crate) fn set_sides(&self, sides: Sides) -> Wakeups {
        let mut state = self.state.lock();
        let (reader, writer) = (Side::from(sides.reading), Side::from(sides.writing));
        let ends = (state.reader, reader) == CLOSES || (state.writer, writer) == CLOSES;
        (state.reader, state.writer) = (reader, writer);
        if !sides.reading && !sides.writing {
            state.bytes = VecDeque::new();
        }
        if ends {
            state.tell_end()
        } else {
            Wakeups::default()
        }
    }

    /// Wakes all who sleep on either side, to look at more than the buffer.
    pub(crate) fn wake_all(&self) {
        let wakeups = self.state.lock().tell_end();
        wakeups.run();
    }

    /// Ends writing as `shutdown` does: the open file of the writer stays, and meets `EPIPE`.
    pub(crate) fn shut_down(&self) {
        let mut state = self.state.lock();
        if state.writer == Side::Open {
            state.writer = Side::Shut;
        }
        let wakeups = state.tell_end();
        drop(state);
        wakeups.run();
    }

    /// Has the reader meet `error` once, after the last byte.
    pub(crate) fn set_error(&self, error: Errno) {
        self.state.lock().error = Some(error);
    }

    /// Returns the error that the reader would meet, which it then does not meet any more.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        self.state.lock().error.take()
    }

    /// Returns true if nothing more can go through.
    pub(crate) fn is_ended(&self) -> bool {
        !self.state.lock().is_open()
    }

    /// Returns true if there is room for [`PIPE_BUF`] bytes.
    pub(crate) fn is_writable(&self) -> bool {
        self.state.lock().is_writable()
    }

    fn end_reader(&self, how: Side) {
        let mut state = self.state.lock();
        state.reader.end(how);
        let rest = (
            std::mem::take(&mut state.bytes),
            std::mem::take(&mut state.marks),
        );
        let wakeups = state.tell_end();
        drop(state);
        // Files that nobody will receive are released here, and nobody has a lock.
        drop(rest);
        wakeups.run();
    }

    fn end_writer(&self, how: Side) {
        let mut state = self.state.lock();
        state.writer.end(how);
        let wakeups = state.tell_end();
        drop(state);
        wakeups.run();
    }

    /// Writes one piece, waiting for room.
    fn write_some(
        &self,
        check: impl Fn() -> Result<(), Errno>,
        bytes: &[u8],
    ) -> Result<usize, Errno> {
        let mut wakeups = Wakeups::default();
        let outcome = event::wait(
            &self.state,
            |state| &mut state.writers,
            Events::OUT,
            None,
            |state| match check() {
                Ok(()) if state.write_must_wait(bytes.len()) => None,
                Ok(()) => Some(state.put(bytes, &mut wakeups)),
                Err(errno) => Some(Err(errno)),
            },
        );
        outcome.unwrap_or(Err(Errno::EAGAIN))
    }
}

/// Takes bytes out of a buffer at which somebody waits.
#[cold]
fn take_and_tell(mut state: MutexGuard<'_, State>, buf: &mut [u8]) -> Result<usize, Errno> {
    let mut wakeups = Wakeups::default();
    let result = state.take(buf, &mut wakeups);
    drop(state);
    wakeups.run();
    result
}

/// Puts bytes into a buffer at which somebody waits.
#[cold]
fn put_and_tell(mut state: MutexGuard<'_, State>, bytes: &[u8]) -> Result<usize, Errno> {
    let mut wakeups = Wakeups::default();
    let result = state.put(bytes, &mut wakeups);
    drop(state);
    wakeups.run();
    result
}

impl From<bool> for Side {
    fn from(open: bool) -> Self {
        if open { Side::Open } else { Side::Closed }
    }
}

impl Side {
    /// Ends the use of the side. Revoked it stays, also when it is closed later.
    fn end(&mut self, how: Side) {
        if *self != Side::Revoked {
            *self = how;
        }
    }

    /// Checks that operations of this side may go on.
    fn check(self) -> Result<(), Errno> {
        match self {
            Side::Open => Ok(()),
            Side::Shut => Err(Errno::EPIPE),
            Side::Closed => Err(Errno::EBADF),
            Side::Revoked => Err(Errno::EIO),
        }
    }
}

impl State {
    /// Takes bytes out. The caller has seen that it need not wait.
    #[inline]
    fn take(&mut self, buf: &mut [u8], wakeups: &mut Wakeups) -> Result<usize, Errno> {
        let was_writable = self.is_writable();
        let result = self.pop(buf);
        self.after_take(was_writable, wakeups);
        result
    }

    /// Finds who is to learn of bytes that were taken out.
    #[inline]
    fn after_take(&mut self, was_writable: bool, wakeups: &mut Wakeups) {
        if self.is_deserted() {
            return;
        }
        if !was_writable && self.is_writable() {
            wakeups.append(self.writers.wake(Events::WRITABLE));
        }
        if self.is_readable() {
            wakeups.append(self.readers.pass_on(Events::IN));
        }
    }

    /// Puts bytes in. The caller has seen that it need not wait.
    #[inline]
    fn put(&mut self, bytes: &[u8], wakeups: &mut Wakeups) -> Result<usize, Errno> {
        let was_readable = self.is_readable();
        let result = self.push(bytes);
        self.after_put(was_readable, wakeups);
        result
    }

    /// Finds who is to learn of bytes that were put in, or that could not be, by one who was woken.
    #[inline]
    fn after_put(&mut self, was_readable: bool, wakeups: &mut Wakeups) {
        if self.is_deserted() {
            return;
        }
        if was_readable {
            wakeups.append(self.readers.tell(Events::READABLE));
        } else if self.is_readable() {
            wakeups.append(self.readers.wake(Events::READABLE));
        }
        if self.is_writable() {
            wakeups.append(self.writers.pass_on(Events::OUT));
        }
    }

    /// Returns true if nobody waits: so it is mostly, and there is nothing to find out.
    #[inline]
    fn is_deserted(&self) -> bool {
        self.readers.is_empty() && self.writers.is_empty()
    }

    /// Finds everybody: a side has come to its end.
    fn tell_end(&mut self) -> Wakeups {
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

    fn is_readable(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn is_writable(&self) -> bool {
        self.free() >= PIPE_BUF
    }

    fn free(&self) -> usize {
        self.capacity - self.bytes.len()
    }

    /// Returns true if anything may still change what a side waits for.
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

    /// Moves bytes from the front into `buf`: two slice copies at most.
    #[inline]
    fn pop(&mut self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.reader.check()?;
        let count = buf.len().min(self.bytes.len());
        let (front, back) = self.bytes.as_slices();
        let first = count.min(front.len());
        buf[..first].copy_from_slice(&front[..first]);
        buf[first..count].copy_from_slice(&back[..count - first]);
        self.advance(count)
    }

    /// Drops the first `count` bytes, which were copied, and returns how many. When there are none,
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

    /// Moves as many of `bytes` as fit to the back: two slice copies at most.
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
