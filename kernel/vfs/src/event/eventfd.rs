//! `eventfd(2)`: counters that can be waited for.
//!
//! A read takes the whole count, or one of it (`SEMAPHORE`); a write adds. Readers sleep while the
//! count is zero. A write wakes one of them, and a reader that leaves something passes the wake-up
//! on. Writers sleep while their addend does not fit below the maximum: they need different
//! amounts, so a read wakes them all.
//!
//! Every write notifies the watchers, even if the count was not zero: an edge-triggered event loop
//! may never read.

use std::fmt::Write;

use super::count_file::{Count, CountFile, Outcome};
use super::{Events, WaitQueue};
use crate::{Errno, OpenFlags};

bitflags::bitflags! {
    /// Flags of `eventfd`, with the values of Linux.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct EventFdFlags: u32 {
        /// A read takes one, and not the whole count.
        const SEMAPHORE = 1;
        /// Calls that would block return `EAGAIN`.
        const NONBLOCK = 0o4000;
        /// Closes the descriptor on `exec`.
        const CLOEXEC = 0o2000000;
    }
}

impl EventFdFlags {
    /// Returns the flags that every open file has.
    pub(crate) fn open_flags(self) -> OpenFlags {
        OpenFlags::from_bits_truncate((self - Self::SEMAPHORE).bits()) | OpenFlags::RDWR
    }
}

/// Open eventfd: a counter that can be waited for.
pub type EventFd = CountFile<Counter>;

/// Count of an eventfd.
#[derive(Debug)]
pub struct Counter {
    /// At most [`EventFd::MAX`].
    count: u64,
    takes: Takes,
}

/// How much a read takes.
#[derive(Clone, Copy, Debug)]
enum Takes {
    All,
    One,
}

impl EventFd {
    /// The maximum count: 2^64 - 2.
    pub const MAX: u64 = u64::MAX - 1;

    /// Makes an eventfd with a count of 0 to [`MAX`](Self::MAX). Allocates.
    ///
    /// # Errors
    /// `EINVAL` if the count is above that.
    pub fn new(initial: u64, flags: EventFdFlags) -> Result<Self, Errno> {
        if initial > Self::MAX {
            return Err(Errno::EINVAL);
        }
        let takes = match flags.contains(EventFdFlags::SEMAPHORE) {
            true => Takes::One,
            false => Takes::All,
        };
        let counter = Counter {
            count: initial,
            takes,
        };
        Ok(Self::of(counter, flags.open_flags()))
    }

    /// Returns the current count.
    pub fn count(&self) -> u64 {
        self.lock().count.count
    }
}

impl Count for Counter {
    const LABEL: &'static str = "anon_inode:[eventfd]";

    fn take(&mut self, queue: &mut WaitQueue) -> Option<Outcome> {
        if self.count == 0 {
            return None;
        }
        let taken = match self.takes {
            Takes::All => self.count,
            Takes::One => 1,
        };
        self.count -= taken;
        let mut woken = queue.wake_all(Events::OUT);
        if self.count > 0 {
            woken.append(queue.pass_on(Events::IN));
        }
        Some((Ok(taken), woken))
    }

    fn add(&mut self, addend: u64, queue: &mut WaitQueue) -> Option<Outcome> {
        if addend > EventFd::MAX - self.count {
            return None;
        }
        self.count += addend;
        let woken = match self.count {
            // Adding zero is an edge too, as on Linux, but there is nothing to take.
            0 => queue.notify_watchers(Events::IN),
            _ => queue.wake(Events::IN),
        };
        Some((Ok(addend), woken))
    }

    /// As on Linux, `IN` and `OUT` without their second spellings.
    fn events(&mut self) -> Events {
        let mut events = Events::empty();
        events.set(Events::IN, self.count > 0);
        events.set(Events::OUT, self.count < EventFd::MAX);
        events
    }

    fn show_fdinfo(file: &EventFd, text: &mut String) {
        let Counter { count, takes } = file.lock().count;
        let takes_one = u8::from(matches!(takes, Takes::One));
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "eventfd-count: {count:16x}\neventfd-semaphore: {takes_one}"
        );
    }
}

#[cfg(test)]
mod tests;
