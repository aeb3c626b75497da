//! Marks in a stream: packets, and files and credentials beside the bytes.
//!
//! A message in a stream has no boundary, unless it has ancillary data. Then a *mark* records its
//! first and its last byte, and a read
//! - that reaches its first byte takes its ancillary data, and ends at its last byte at the latest;
//! - of a reader that gets credentials ends before the first byte with others, so that no byte is
//!   attributed to another sender. Bytes without a mark have none.
//!
//! Bytes get credentials if their sender says so, or if either side asks for them at that time.
//! This is the behaviour of Linux. A read without room for the files drops them.
//!
//! Packets of a pipe have marks too, but no ancillary data: see [`packets`](super::packets).
//!
//! While there are marks, every read goes through [`Buffer::receive_while`].

use std::io::{IoSlice, IoSliceMut};

use super::{Buffer, Half, State};
use crate::Errno;
use crate::event::{self, Events, Limit, Wakeups};
use crate::ipc::socket::Ucred;
use crate::ipc::socket::ancillary::{Ancillary, Arrived};
use crate::ipc::socket::receive::{Look, Reading};

/// Position of a packet, or of a message with ancillary data, as counts of all bytes that ever
/// passed through the buffer.
#[derive(Debug, Default)]
pub(super) struct Mark {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_packet: bool,
    pub(super) ancillary: Ancillary,
}

/// Which ends get credentials with the bytes of a stream. In Linux: `SO_PASSCRED`.
#[derive(Debug, Default)]
pub(super) struct Passing {
    to_reader: bool,
    /// The writer has asked for those of its peer; then its own are sent too.
    to_writer: bool,
}

impl Passing {
    /// Returns true if bytes without credentials of their own get those of their sender.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.to_reader || self.to_writer
    }
}

/// Bytes that a read reaches.
struct Reach {
    count: usize,
    /// Credentials of these bytes; nothing if there are no bytes.
    sender: Option<Ucred>,
    /// Index of the mark whose files the read takes.
    rights: Option<usize>,
    /// Bytes of a packet beyond the read.
    rest: usize,
}

/// Result of a read of a stream.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) count: usize,
    pub(crate) arrived: Arrived,
}

impl Buffer {
    /// Reads into several slices, with the ancillary data of the bytes. Blocks while there is
    /// nothing to read.
    ///
    /// # Errors
    /// `EAGAIN` if the wait ends; `EBADF` if the reading side is closed; `EIO` if it is revoked.
    pub(crate) fn receive(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        reading: Reading,
        policy: Limit,
    ) -> Result<Taken, Errno> {
        self.receive_while(|| Ok(()), bufs, reading, policy)
    }

    /// Reads like [`receive`](Self::receive), as long as `check` succeeds.
    ///
    /// # Errors
    /// Errors of `check`, which runs after each wake-up of the readers; those of `receive`.
    pub(super) fn receive_while(
        &self,
        check: impl Fn() -> Result<(), Errno>,
        bufs: &mut [IoSliceMut<'_>],
        reading: Reading,
        policy: Limit,
    ) -> Result<Taken, Errno> {
        let mut wakeups = Wakeups::default();
        event::wait(
            &self.state,
            |state| &mut state.readers,
            Events::IN,
            policy,
            |state| match check() {
                Ok(()) if state.reading_must_wait(reading) => None,
                Ok(()) => Some(state.take_reached(bufs, reading, &mut wakeups)),
                Err(errno) => Some(Err(errno)),
            },
        )
    }

    /// Reads into several slices, and drops the ancillary data. Leaves the rest of a packet. Blocks
    /// while there is nothing to read.
    ///
    /// # Errors
    /// Errors of [`receive`](Self::receive).
    pub(crate) fn take_into(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        policy: Limit,
    ) -> Result<usize, Errno> {
        let reading = Reading {
            cuts_packets: true,
            ..Reading::new(Look::Take)
        };
        Ok(self.receive(bufs, reading, policy)?.count)
    }

    /// Copies the first bytes, and leaves them in the buffer. Blocks while there are none.
    ///
    /// # Errors
    /// Errors of [`receive`](Self::receive).
    pub(crate) fn peek(&self, buf: &mut [u8], policy: Limit) -> Result<usize, Errno> {
        let bufs = &mut [IoSliceMut::new(buf)];
        Ok(self.receive(bufs, Reading::new(Look::Peek), policy)?.count)
    }

    /// Takes as many bytes out as `buf` has, or as there are.
    ///
    /// # Errors
    /// Errors of [`receive`](Self::receive), except for `EAGAIN`.
    pub(crate) fn discard(&self, buf: &mut [u8]) -> Result<(), Errno> {
        match self.take_into(&mut [IoSliceMut::new(buf)], Limit::NOW) {
            Ok(_) | Err(Errno::EAGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Puts bytes back at the front that were taken out last. Until they are taken out again, the
    /// buffer may hold more than its capacity, because a writer may have used the room. If the
    /// reading side has ended, or there is no memory, they are dropped.
    pub(crate) fn put_back(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut wakeups = Wakeups::default();
        let mut state = self.state.lock();
        if state.reader.check().is_err() || state.bytes.try_reserve(bytes.len()).is_err() {
            return;
        }
        let was_readable = state.is_readable();
        for &byte in bytes.iter().rev() {
            state.bytes.push_front(byte);
        }
        state.taken -= bytes.len() as u64;
        if was_readable {
            wakeups.append(state.readers.pass_on(Events::IN));
        } else {
            // A poll may have found the buffer empty.
            wakeups.append(state.readers.wake(Events::READABLE));
        }
        drop(state);
        wakeups.run();
    }

    /// Blocks until there is room, and returns how many bytes have room.
    ///
    /// # Errors
    /// `EAGAIN` if the wait ends; `EPIPE` if the reading side is closed; `EBADF` if the writing
    /// side is; `EIO` if that is revoked.
    pub(crate) fn wait_for_room(&self, policy: Limit) -> Result<usize, Errno> {
        let mut wakeups = Wakeups::default();
        event::wait(
            &self.state,
            |state| &mut state.writers,
            Events::OUT,
            policy,
            |state| {
                if state.write_must_wait(1) {
                    return None;
                }
                if state.is_writable() {
                    // This may have been the woken writer, and it has written nothing yet.
                    wakeups.append(state.writers.pass_on(Events::OUT));
                }
                Some(state.push(&[]).map(|_| state.free()))
            },
        )
    }

    /// Sets whether a side gets credentials.
    pub(crate) fn pass_to(&self, half: Half, passes: bool) {
        let passing = &mut self.state.lock().passing;
        match half {
            Half::Read => passing.to_reader = passes,
            Half::Write => passing.to_writer = passes,
        }
    }

    /// Writes several slices, with ancillary data at the first byte, and returns how many bytes it
    /// wrote. Blocks until there is room, like [`write`](Self::write). If the slices are empty, it
    /// writes nothing and drops the ancillary data, but still reports a closed side.
    ///
    /// # Errors
    /// `EAGAIN` if the wait ends before anything was written; those of `write`.
    pub(crate) fn send(
        &self,
        bytes: &[IoSlice<'_>],
        mut ancillary: Ancillary,
        policy: Limit,
    ) -> Result<usize, Errno> {
        let total: usize = bytes.iter().map(|slice| slice.len()).sum();
        if total == 0 {
            return self.state.lock().push(&[]);
        }
        self.write_all(total, policy, |state, written, wakeups| {
            if state.write_must_wait(total - written) {
                return None;
            }
            let start = state.end();
            let result = state.put_slices(bytes, written, wakeups);
            if matches!(result, Ok(1..)) {
                state.mark(start, &mut ancillary);
            }
            Some(result)
        })
    }

    /// Visits what goes with each message in this buffer.
    pub(crate) fn each_ancillary(&self, mut visit: impl FnMut(&mut Ancillary)) {
        let marks = &mut self.state.lock().marks;
        marks.iter_mut().for_each(|mark| visit(&mut mark.ancillary));
    }
}

impl State {
    /// Returns true if there is nothing to read now, and more may follow.
    fn reading_must_wait(&self, reading: Reading) -> bool {
        match reading.skip {
            Some(skip) => self.is_open() && self.bytes.len() <= skip,
            None => self.read_must_wait(),
        }
    }

    /// Performs one read.
    fn take_reached(
        &mut self,
        bufs: &mut [IoSliceMut<'_>],
        reading: Reading,
        wakeups: &mut Wakeups,
    ) -> Result<Taken, Errno> {
        self.reader.check()?;
        let look = reading.look;
        let wanted = bufs.iter().map(|buf| buf.len()).sum();
        let skip = reading.skip.unwrap_or(0).min(self.bytes.len());
        let mut reach = self.reach(skip, wanted, reading.sender);
        if reading.cuts_packets {
            reach.rest = 0;
        }
        let count = reach.count;
        let was_writable = self.is_writable();
        self.copy(bufs, skip, count);
        let arrived = self.unload(&reach, look);
        if look == Look::Take || self.bytes.is_empty() {
            self.advance(count + reach.rest)?;
            self.after_take(was_writable, wakeups);
        } else if self.is_readable() {
            // This may have been the woken reader, and it has taken nothing.
            wakeups.append(self.readers.pass_on(Events::IN));
        } else if let Some(errno) = self.error.take() {
            return Err(errno);
        }
        Ok(Taken { count, arrived })
    }

    /// Returns the position after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.taken + self.bytes.len() as u64
    }

    /// Marks the bytes from `start` to the end with ancillary data. Takes the files out of it.
    fn mark(&mut self, start: u64, ancillary: &mut Ancillary) {
        let end = self.end();
        let signed = self.passing.is_on();
        let sender = ancillary.sender.filter(|_| signed);
        let credentials = ancillary.credentials.or(sender);
        let rights = ancillary.rights.take();
        // Messages of one sender are read as one.
        if rights.is_none()
            && let Some(last) = self.marks.back_mut()
            && last.end == start
            && last.ancillary.rights.is_none()
            && last.ancillary.credentials == credentials
        {
            last.end = end;
            return;
        }
        let ancillary = Ancillary {
            rights,
            credentials,
            sender: None,
        };
        if !ancillary.is_empty() {
            self.marks.push_back(Mark {
                start,
                end,
                ancillary,
                ..Mark::default()
            });
        }
    }

    /// Appends as much of several slices as fits, without the first `skip` bytes.
    fn put_slices(
        &mut self,
        slices: &[IoSlice<'_>],
        mut skip: usize,
        wakeups: &mut Wakeups,
    ) -> Result<usize, Errno> {
        let was_readable = self.is_readable();
        let mut count = 0;
        let mut result = Ok(());
        for slice in slices {
            let rest = &slice[skip.min(slice.len())..];
            skip -= slice.len() - rest.len();
            if rest.is_empty() {
                continue;
            }
            match self.push(rest) {
                Ok(pushed) => count += pushed,
                Err(errno) => result = Err(errno),
            }
            if result.is_err() || self.free() == 0 {
                break;
            }
        }
        self.after_put(was_readable, wakeups);
        match result {
            Err(errno) if count == 0 => Err(errno),
            _ => Ok(count),
        }
    }

    /// Returns what a read of `wanted` bytes reaches, `skip` bytes after the first one. If this
    /// call has read bytes of `sender` before, it goes on only with bytes of that sender.
    fn reach(&self, skip: usize, wanted: usize, sender: Option<Ucred>) -> Reach {
        let there = self.bytes.len() - skip;
        let base = self.taken + skip as u64;
        let mut reach = Reach {
            count: wanted.min(there),
            sender,
            rights: None,
            rest: 0,
        };
        if there == 0 {
            return reach;
        }
        // The bytes before `at` have the same sender.
        let mut at = 0;
        for (index, mark) in self.marks.iter().enumerate() {
            if mark.end <= base {
                continue;
            }
            let ahead = |place: u64| usize::try_from(place.saturating_sub(base)).unwrap_or(there);
            let (start, end) = (ahead(mark.start), ahead(mark.end));
            if start > 0 && start >= reach.count {
                break;
            }
            if mark.is_packet {
                reach.count = reach.count.min(end);
                reach.rest = end - reach.count;
                return reach;
            }
            let same = (start == at || self.goes_on(&mut reach, Ucred::NOBODY)) && {
                at = start;
                let credentials = mark.ancillary.credentials;
                self.goes_on(&mut reach, credentials.unwrap_or(Ucred::NOBODY))
            };
            if !same {
                reach.count = at;
                return reach;
            }
            if mark.ancillary.rights.is_some() {
                reach.rights = Some(index);
                reach.count = reach.count.min(end);
                return reach;
            }
            at = end;
            if at >= reach.count {
                return reach;
            }
        }
        if !self.goes_on(&mut reach, Ucred::NOBODY) {
            reach.count = at;
        }
        reach
    }

    /// Returns true if a read may go on with bytes of `sender`.
    fn goes_on(&self, reach: &mut Reach, sender: Ucred) -> bool {
        let before = *reach.sender.get_or_insert(sender);
        !self.passing.to_reader || before == sender
    }

    /// Returns the ancillary data of a read.
    fn unload(&mut self, reach: &Reach, look: Look) -> Arrived {
        let mark = reach.rights.and_then(|index| self.marks.get_mut(index));
        let mut arrived = match (mark, look) {
            (None, _) => Arrived::default(),
            (Some(mark), Look::Peek) => mark.ancillary.peek(),
            (Some(mark), Look::Take) => mark.ancillary.arrive(),
        };
        arrived.credentials = reach.sender;
        if look == Look::Take && !self.marks.is_empty() {
            let reached = self.taken + (reach.count + reach.rest) as u64;
            // The rest of a message whose files are taken needs a mark only for its sender.
            let has_use = |mark: &Mark| mark.is_packet || !mark.ancillary.is_empty();
            let is_done = |mark: &mut Mark| mark.end <= reached || !has_use(mark);
            while let Some(mark) = self.marks.pop_front_if(is_done) {
                self.padding -= mark.padding();
            }
        }
        arrived
    }

    /// Copies `count` bytes, without the first `skip`.
    fn copy(&self, bufs: &mut [IoSliceMut<'_>], skip: usize, count: usize) {
        let (front, back) = self.bytes.as_slices();
        let end = skip + count;
        let mut copied = skip;
        for buf in bufs {
            let length = buf.len().min(end - copied);
            let first = length.min(front.len().saturating_sub(copied));
            buf[..first].copy_from_slice(&front[copied.min(front.len())..][..first]);
            let skipped = (copied + first).saturating_sub(front.len());
            buf[first..length].copy_from_slice(&back[skipped..][..length - first]);
            copied += length;
        }
    }
}
