//! `select`: the older form of `poll`, with sets of descriptors. It reports less: the hangup of a
//! peer alone does not make a file writable.
//!
//! A call is a poll of the descriptors in the sets.

use std::time::Duration;

use fdtable::{FdArg, RawFd};

use super::{PollFd, Process};
use crate::Errno;
use crate::event::Events;

/// Set of descriptors for `select`. In Linux: `fd_set`.
///
/// It grows as needed, beyond 1,024 descriptors too.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FdSet {
    words: Vec<u64>,
}

/// Copying into a set that has the capacity does not allocate.
impl Clone for FdSet {
    fn clone(&self) -> Self {
        Self::from_words(&self.words)
    }

    fn clone_from(&mut self, source: &Self) {
        self.words.clone_from(&source.words);
    }
}

/// Events that each of the three sets stands for. A file opened with `PATH` is ready for all of
/// them, as on Linux.
const SETS: [Events; 3] = [
    (Events::READABLE.union(Events::RDBAND).union(Events::ALWAYS)).union(Events::NVAL),
    Events::WRITABLE
        .union(Events::WRBAND)
        .union(Events::ERR)
        .union(Events::NVAL),
    Events::PRI.union(Events::NVAL),
];

impl FdSet {
    /// Makes an empty set. In Linux: `FD_ZERO`.
    pub const fn new() -> Self {
        FdSet { words: Vec::new() }
    }

    /// Makes a set from words: descriptor `n` is bit `n % 64` of word `n / 64`. Allocates.
    pub fn from_words(words: &[u64]) -> Self {
        FdSet {
            words: words.to_vec(),
        }
    }

    /// Returns the words, as [`from_words`](Self::from_words) takes them. Missing words at the end
    /// are zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a descriptor. A negative one is ignored. Allocates. In Linux: `FD_SET`.
    pub fn insert(&mut self, fd: impl FdArg) {
        if let Some((word, bit)) = word_and_bit(fd.to_raw()) {
            if word >= self.words.len() {
                self.words.resize(word + 1, 0);
            }
            self.words[word] |= bit;
        }
    }

    /// Removes a descriptor. In Linux: `FD_CLR`.
    pub fn remove(&mut self, fd: impl FdArg) {
        if let Some((word, bit)) = word_and_bit(fd.to_raw())
            && let Some(word) = self.words.get_mut(word)
        {
            *word &= !bit;
        }
    }

    /// Returns true if a descriptor is in the set. In Linux: `FD_ISSET`.
    pub fn contains(&self, fd: impl FdArg) -> bool {
        let bits = |(word, bit)| self.words.get(word).is_some_and(|word| word & bit != 0);
        word_and_bit(fd.to_raw()).is_some_and(bits)
    }
}

/// Descriptors in a word.
const BITS: usize = u64::BITS as usize;

/// Returns the word index and the bit of a descriptor.
fn word_and_bit(fd: RawFd) -> Option<(usize, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((fd / BITS, 1 << (fd % BITS)))
}

impl Process {
    /// Waits until a descriptor in one of the sets is ready, or until `timeout` has passed. Without
    /// a `timeout`, waits forever. Only descriptors below `nfds` count. Leaves the ready ones in
    /// the sets, and returns how many there are, counted once for each set. Blocks, and allocates.
    /// In Linux: `pselect`.
    ///
    /// The first set is for reading, for which end of file counts as ready; the second for writing,
    /// the third for exceptional conditions ([`Events::PRI`]).
    ///
    /// # Errors
    /// `EINVAL` if `nfds` is negative; `EBADF` if one in a set is not an open descriptor; `EINTR`
    /// if a signal handler runs first. The sets then stay as they are.
    ///
    /// ```
    /// use fdtable_vfs::event::EventFdFlags;
    /// use fdtable_vfs::{FdSet, Process};
    ///
    /// # fn main() -> Result<(), fdtable_vfs::Errno> {
    /// let process = Process::new();
    /// let fd = process.eventfd(1, EventFdFlags::empty())?;
    /// let mut read = FdSet::new();
    /// read.insert(fd);
    /// assert_eq!(process.select(fd.raw() + 1, Some(&mut read), None, None, None)?, 1);
    /// assert!(read.contains(fd));
    /// # Ok(())
    /// # }
    /// ```
    pub fn select(
        &self,
        nfds: RawFd,
        read: Option<&mut FdSet>,
        write: Option<&mut FdSet>,
        except: Option<&mut FdSet>,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        let sets = [read, write, except];
        let mut fds = select_to_poll(nfds, &sets)?;
        self.poll_for(&mut fds, Events::NVAL, timeout)?;
        self.select_from_poll(sets, &fds)
    }

    /// Leaves in the sets of a `select` what a poll has found ready, and returns how many those
    /// are, counted once for each set.
    ///
    /// # Errors
    /// `EBADF` if a descriptor is not open. The sets then stay as they are.
    pub fn select_from_poll(
        &self,
        sets: [Option<&mut FdSet>; 3],
        fds: &[PollFd],
    ) -> Result<usize, Errno> {
        for one in fds {
            if one.revents.contains(Events::NVAL) {
                self.files.fd_flags(one.fd)?;
            }
        }
        Ok(select_found(sets, fds))
    }
}

/// Returns the descriptors below `nfds` in the sets of a `select`, for a poll, in ascending order.
/// Allocates.
///
/// A poll of them stores only requested events and [`Events::NVAL`] ([`Process::poll_for`]). For an
/// embedder that polls by itself.
///
/// # Errors
/// `EINVAL` if `nfds` is negative.
pub fn select_to_poll(nfds: RawFd, sets: &[Option<&mut FdSet>; 3]) -> Result<Vec<PollFd>, Errno> {
    let nfds = usize::try_from(nfds).map_err(|_| Errno::EINVAL)?;
    let longest = sets.iter().flatten().map(|set| set.words.len()).max();
    let mut fds = Vec::new();
    for word in 0..longest.unwrap_or(0).min(nfds.div_ceil(BITS)) {
        let wanted = sets.each_ref().map(|set| word_of(set, word));
        let mut left = (wanted[0] | wanted[1] | wanted[2]) & below(nfds - word * BITS);
        while left != 0 {
            let bit = left.trailing_zeros();
            left &= left - 1;
            let sets = wanted
                .iter()
                .zip(SETS)
                .filter(|(word, _)| *word >> bit & 1 != 0);
            let events = sets.map(|(_, events)| events).collect();
            // The sets have no word above the highest descriptor.
            fds.push(PollFd::new((word * BITS) as RawFd + bit as RawFd, events));
        }
    }
    Ok(fds)
}

/// Checks each descriptor below `nfds` in the sets once, and leaves the ready ones. `events_of`
/// returns the events of a descriptor.
///
/// It does what [`Process::select`] does without blocking, for an embedder with a table of its own.
/// Returns how many are ready, counted once for each set. Allocates.
///
/// # Errors
/// `EINVAL` if `nfds` is negative; those of `events_of`. The sets then stay as they are.
///
/// ```
/// use fdtable_vfs::event::Events;
/// use fdtable_vfs::{Errno, FdSet, select_now};
///
/// let mut read = FdSet::new();
/// read.insert(3);
/// read.insert(4);
/// let even = |fd| Ok(if fd % 2 == 0 { Events::IN } else { Events::OUT });
/// assert_eq!(select_now(5, [Some(&mut read), None, None], even)?, 1);
/// assert!(read.contains(4) && !read.contains(3));
/// # Ok::<(), Errno>(())
/// ```
#[inline]
pub fn select_now(
    nfds: RawFd,
    sets: [Option<&mut FdSet>; 3],
    mut events_of: impl FnMut(RawFd) -> Result<Events, Errno>,
) -> Result<usize, Errno> {
    let mut fds = select_to_poll(nfds, &sets)?;
    for one in &mut fds {
        one.note(events_of(one.fd)?, Events::NVAL);
    }
    Ok(select_found(sets, &fds))
}

/// Leaves in the sets those of the polled descriptors that are ready for them, and returns how many
/// they are, counted once for each set.
fn select_found(sets: [Option<&mut FdSet>; 3], fds: &[PollFd]) -> usize {
    let mut count = 0;
    for (set, events) in sets.into_iter().zip(SETS) {
        let Some(set) = set else { continue };
        for one in fds {
            if one.revents.intersects(events) {
                count += usize::from(set.contains(one.fd));
            } else {
                set.remove(one.fd);
            }
        }
    }
    count
}

/// Returns a word with the first `count` bits set, or all of them.
fn below(count: usize) -> u64 {
    if count < BITS {
        (1 << count) - 1
    } else {
        u64::MAX
    }
}

fn word_of(set: &Option<&mut FdSet>, word: usize) -> u64 {
    let words = set.as_ref().map_or(&[][..], |set| &set.words);
    words.get(word).copied().unwrap_or(0)
}
