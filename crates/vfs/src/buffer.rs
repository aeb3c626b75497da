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
//! one to find nothing and sleep again, and the next change wakes one. Nobody is woken for nothing
//! but by such a race, and no wake-up is lost.
//!
//! Measuring writers by a `PIPE_BUF` and not by what each of them needs makes all writers equal,
//! so that any of them may be woken, and lets a writer put in many small messages for each time
//! it is woken. Linux wakes writers by whole pages in the same way. Its price: a writer that fell
//! asleep on a full queue sleeps until a `PIPE_BUF` is free, even if it has one byte to write.
//!
//! Closing a side wakes all sleepers, for all of them can go on: readers to end of file, writers
//! to `EPIPE`.
//!
//! # After a side was closed
//!
//! A borrowed lookup may still reach an end whose last descriptor went. An operation *of* the
//! closed side answers `EBADF`: nobody who has seen end of file reads a byte afterwards.
//!
//! A side that is revoked is closed for the other side, and its own operations answer `EIO`, also
//! those that sleep. It stays revoked when its last descriptor goes.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::Errno;

/// Most bytes that a write puts in as one piece, and the least capacity of a buffer: 4,096.
pub const PIPE_BUF: usize = 4096;

/// Bounded queue of bytes with a reading and a writing side.
///
/// Both sides may be used by many threads at once.
#[derive(Debug)]
pub struct Buffer {
    state: Mutex<State>,
    /// Readers that wait for a byte.
    readable: Condvar,
    /// Writers that wait for a free `PIPE_BUF`.
    writable: Condvar,
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
}

/// What may be done on a side.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Open,
    Closed,
    Revoked,
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
            }),
            readable: Condvar::new(),
            writable: Condvar::new(),
        }
    }

    /// Reads what is there, up to `buf.len()` bytes, and returns how many; 0 is end of file.
    /// Waits while there is nothing.
    ///
    /// # Errors
    /// `EBADF` if the reading side is closed; `EIO` if it is revoked.
    pub fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        if buf.is_empty() {
            return Ok(0);
        }
        let mut state = self.state.lock();
        while state.read_must_wait() {
            self.readable.wait(&mut state);
        }
        self.take(&mut state, buf)
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
            return Err(Errno::EAGAIN);
        }
        self.take(&mut state, buf)
    }

    /// Writes all of `bytes`, waiting for room, and returns how many it wrote: fewer only if the
    /// reading side closes, or memory ends, after some were taken.
    ///
    /// # Errors
    /// `EPIPE` if the reading side is closed; `EBADF` if the writing side is; `EIO` if that is
    /// revoked; `ENOMEM`.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write_some(&bytes[written..]) {
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
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut state = self.state.lock();
        if state.write_must_wait(bytes.len()) {
            return Err(Errno::EAGAIN);
        }
        self.put(&mut state, bytes)
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

    fn end_reader(&self, how: Side) {
        let mut state = self.state.lock();
        state.reader.end(how);
        state.bytes = VecDeque::new();
        self.wake_all();
    }

    fn end_writer(&self, how: Side) {
        let mut state = self.state.lock();
        state.writer.end(how);
        self.wake_all();
    }

    /// Writes one piece, waiting for room.
    fn write_some(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        while state.write_must_wait(bytes.len()) {
            self.writable.wait(&mut state);
        }
        self.put(&mut state, bytes)
    }

    /// Takes bytes out. The caller has seen that it need not wait.
    fn take(&self, state: &mut State, buf: &mut [u8]) -> Result<usize, Errno> {
        let was_writable = state.is_writable();
        let result = state.pop(buf);
        if !was_writable && state.is_writable() {
            self.writable.notify_one();
        }
        if state.is_readable() {
            self.readable.notify_one();
        }
        result
    }

    /// Puts bytes in. The caller has seen that it need not wait.
    fn put(&self, state: &mut State, bytes: &[u8]) -> Result<usize, Errno> {
        let was_readable = state.is_readable();
        let result = state.push(bytes);
        if !was_readable && state.is_readable() {
            self.readable.notify_one();
        }
        // Also after `ENOMEM`: this may have been the woken writer.
        if state.is_writable() {
            self.writable.notify_one();
        }
        result
    }

    fn wake_all(&self) {
        self.readable.notify_all();
        self.writable.notify_all();
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
            Side::Closed => Err(Errno::EBADF),
            Side::Revoked => Err(Errno::EIO),
        }
    }
}

impl State {
    fn is_readable(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn is_writable(&self) -> bool {
        self.free() >= PIPE_BUF
    }

    fn free(&self) -> usize {
        self.capacity - self.bytes.len()
    }

    /// Tells whether anything may still change what a side waits for.
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
    fn pop(&mut self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.reader.check()?;
        let count = buf.len().min(self.bytes.len());
        let (front, back) = self.bytes.as_slices();
        let first = count.min(front.len());
        buf[..first].copy_from_slice(&front[..first]);
        buf[first..count].copy_from_slice(&back[..count - first]);
        self.bytes.drain(..count);
        Ok(count)
    }

    /// Moves as many of `bytes` as fit to the back: two slice copies at most.
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
