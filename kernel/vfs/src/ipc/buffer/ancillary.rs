//! Ancillary data in a stream: files and credentials beside the bytes.
//!
//! A message in a stream has no boundary, unless it has ancillary data. Then a *mark* records its
//! first and its last byte, and a read
//! - that reaches its first byte takes its ancillary data, and ends at its last byte at the latest;
//! - that begins before a message with credentials of its own ends before it, so that no byte is
//!   attributed to another sender.
//!
//! This is the behaviour of Linux. A read without room for the files drops them.
//!
//! While there are marks with files, every read goes through [`receive`].

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use super::{Buffer, State};
use crate::Errno;
use crate::event::{Events, WaitQueue, Wakeups};
use crate::ipc::socket::ancillary::{Ancillary, Arrived};
use crate::ipc::socket::in_flight::{Flights, InFlight, Rights};
use crate::ipc::socket::receive::{Carrier, Look, receive};
use crate::ipc::wait_policy::WaitPolicy;

/// Position of a message with ancillary data, as counts of all bytes that ever passed through the
/// buffer.
#[derive(Debug)]
pub(super) struct Mark {
    start: u64,
    end: u64,
    ancillary: Ancillary,
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
        look: Look,
        policy: WaitPolicy,
    ) -> Result<Taken, Errno> {
        receive(&self.state, bufs, look, policy)
    }

    /// Reads bytes, and drops their ancillary data. Does not block.
    #[cold]
    pub(super) fn try_read_marked(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        let bufs = &mut [IoSliceMut::new(buf)];
        Ok(self.receive(bufs, Look::Take, WaitPolicy::NoWait)?.count)
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
        ancillary: Ancillary,
        policy: WaitPolicy,
    ) -> Result<usize, Errno> {
        let total: usize = bytes.iter().map(|slice| slice.len()).sum();
        if total == 0 {
            return self.state.lock().push(&[]);
        }
        let mut ancillary = (!ancillary.is_empty()).then_some(ancillary);
        let mut written = 0;
        while written < total {
            match self.send_some(bytes, written, total, &mut ancillary, policy) {
                Ok(count) => written += count,
                Err(errno) if written == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    fn send_some(
        &self,
        bytes: &[IoSlice<'_>],
        written: usize,
        total: usize,
        ancillary: &mut Option<Ancillary>,
        policy: WaitPolicy,
    ) -> Result<usize, Errno> {
        let mut wakeups = Wakeups::default();
        policy.wait(
            &self.state,
            |state| &mut state.writers,
            Events::OUT,
            |state| {
                if state.write_must_wait(total - written) {
                    return None;
                }
                let start = state.end();
                let result = state.put_slices(bytes, written, &mut wakeups);
                if matches!(result, Ok(1..)) {
                    state.mark(start, ancillary.take());
                }
                Some(result)
            },
        )
    }

    /// Calls `see` for the files of each message in this buffer.
    pub(crate) fn for_each_right(&self, see: &mut dyn FnMut(&Rights)) {
        for mark in &self.state.lock().marks {
            mark.ancillary.rights.iter().for_each(&mut *see);
        }
    }

    /// Takes all files out of this buffer. The bytes stay.
    pub(crate) fn take_rights(&self, into: &mut Vec<Rights>) {
        for mark in &mut self.state.lock().marks {
            into.extend(mark.ancillary.rights.take());
        }
    }
}

impl Carrier for State {
    type Found = Taken;

    fn readers(&mut self) -> &mut WaitQueue {
        &mut self.readers
    }

    fn read_must_wait(&self) -> bool {
        State::read_must_wait(self)
    }

    fn registry(&self) -> Option<Arc<InFlight>> {
        let with_rights = |mark: &Mark| mark.ancillary.rights.as_ref().map(Rights::registry);
        self.marks.iter().find_map(with_rights)
    }

    fn take(
        &mut self,
        bufs: &mut [IoSliceMut<'_>],
        look: Look,
        flights: Option<&mut Flights>,
        wakeups: &mut Wakeups,
    ) -> Result<Taken, Errno> {
        self.reader.check()?;
        let wanted = bufs.iter().map(|buf| buf.len()).sum();
        let (count, marked) = self.reach(wanted);
        self.copy(bufs, count);
        let mut arrived = Arrived::default();
        if count > 0 && marked {
            arrived = self.unload(count, look, flights);
        }
        if look == Look::Take || self.bytes.is_empty() {
            let was_writable = self.is_writable();
            self.advance(count)?;
            self.after_take(was_writable, wakeups);
        } else if self.is_readable() {
            // This may have been the woken reader, and it has taken nothing.
            wakeups.append(self.readers.pass_on(Events::IN));
        } else if let Some(errno) = self.error.take() {
            return Err(errno);
        }
        Ok(Taken { count, arrived })
    }
}

impl State {
    /// Returns the position after the last byte.
    fn end(&self) -> u64 {
        self.taken + self.bytes.len() as u64
    }

    /// Marks the bytes from `start` to the end with ancillary data.
    fn mark(&mut self, start: u64, ancillary: Option<Ancillary>) {
        let end = self.end();
        self.marks.extend(ancillary.map(|ancillary| Mark {
            start,
            end,
            ancillary,
        }));
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

    /// Returns the length of a read of `wanted` bytes, and whether it reaches a mark.
    fn reach(&self, wanted: usize) -> (usize, bool) {
        let count = wanted.min(self.bytes.len());
        let Some(mark) = self.marks.front() else {
            return (count, false);
        };
        let ahead = |place: u64| usize::try_from(place.saturating_sub(self.taken)).unwrap_or(count);
        let (start, end) = (ahead(mark.start), ahead(mark.end));
        if start >= count {
            (count, false)
        } else if start > 0 && mark.ancillary.credentials.is_some() {
            (start, false)
        } else {
            (count.min(end), true)
        }
    }

    /// Returns the ancillary data of the first mark, for a read of the first `count` bytes.
    fn unload(&mut self, count: usize, look: Look, flights: Option<&mut Flights>) -> Arrived {
        let reached = self.taken + count as u64;
        let Some(mark) = self.marks.front_mut() else {
            return Arrived::default();
        };
        if look == Look::Peek {
            return mark.ancillary.peek();
        }
        let arrived = mark.ancillary.arrive(flights);
        // The rest of the message has the same sender, and its files are taken.
        if reached >= mark.end || mark.ancillary.is_empty() {
            self.marks.pop_front();
        }
        arrived
    }

    /// Copies the first `count` bytes.
    fn copy(&self, bufs: &mut [IoSliceMut<'_>], count: usize) {
        let (front, back) = self.bytes.as_slices();
        let mut copied = 0;
        for buf in bufs {
            let length = buf.len().min(count - copied);
            let first = length.min(front.len().saturating_sub(copied));
            buf[..first].copy_from_slice(&front[copied.min(front.len())..][..first]);
            let skipped = (copied + first).saturating_sub(front.len());
            buf[first..length].copy_from_slice(&back[skipped..][..length - first]);
            copied += length;
        }
    }
}
