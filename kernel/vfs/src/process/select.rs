//! `select`: the older form of `poll`, with sets of descriptors. It reports less: the hangup of a
//! peer alone does not make a file writable.
//!
//! A call that does not block checks the files like `poll`, without references, a word of the sets
//! at a time. One that has to sleep takes references, and registers with the files.

use std::time::{Duration, Instant};

use fdtable::{FdArg, RawFd, rcu};

use super::Process;
use super::polling::events_of_none;
use crate::Errno;
use crate::event::{Events, Poll};

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
    #[inline]
    pub fn select(
        &self,
        nfds: RawFd,
        read: Option<&mut FdSet>,
        write: Option<&mut FdSet>,
        except: Option<&mut FdSet>,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        let sets = [read, write, except];
        match timeout {
            Some(Duration::ZERO) => self.select_at_once(nfds, sets),
            _ => self.select_waiting(nfds, sets, timeout),
        }
    }

    #[inline]
    fn select_at_once(&self, nfds: RawFd, sets: [Option<&mut FdSet>; 3]) -> Result<usize, Errno> {
        select_words(nfds, sets, |first, wanted| {
            // A word of the sets is a leaf of the table, and is checked in one section.
            let section = rcu::read_lock();
            let block = self.files.block(first, &section);
            ready_of(first, wanted, |fd| match block.get_rcu(fd) {
                Ok(file) => Ok(file.events()),
                Err(error) => events_without_file(error),
            })
        })
    }

    /// Selects like [`select`](Self::select), and may block.
    fn select_waiting(
        &self,
        nfds: RawFd,
        sets: [Option<&mut FdSet>; 3],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        // Read before the first check, which takes time too. A deadline too far ahead is none.
        let deadline = timeout.map(|timeout| Instant::now().checked_add(timeout));
        let wanted = sets.each_ref().map(|set| set.as_deref().cloned());
        let wanted = wanted.map(Option::unwrap_or_default);
        let mut found = wanted.clone();
        let mut count = self.select_at_once(nfds, found.each_mut().map(Some))?;
        if count == 0 {
            found.clone_from(&wanted);
            let mut poll = Poll::new();
            select_now(nfds, found.each_mut().map(Some), |fd| {
                let sets = wanted.iter().zip(SETS).filter(|(set, _)| set.contains(fd));
                match self.files.get(fd) {
                    Ok(file) => poll.add(file, sets.map(|(_, events)| events).collect()),
                    Err(error) => poll.add_fixed(events_without_file(error)?),
                }
                Ok(Events::empty())
            })?;
            let ready = poll.wait(deadline.flatten(), |events| {
                found.clone_from(&wanted);
                // It asks for the descriptors in the order in which they were added.
                let next = |_| Ok(events.next().unwrap_or_default());
                let ready = select_now(nfds, found.each_mut().map(Some), next);
                ready.ok().filter(|&ready| ready > 0)
            })?;
            count = ready.unwrap_or(0);
        }
        for (set, found) in sets.into_iter().zip(found) {
            set.into_iter().for_each(|set| set.clone_from(&found));
        }
        Ok(count)
    }
}

/// Returns the events of a descriptor without a file.
///
/// # Errors
/// `EBADF` if it is not open.
fn events_without_file(error: fdtable::Error) -> Result<Events, Errno> {
    match error {
        fdtable::Error::Revoked => Ok(events_of_none(error)),
        error => Err(error.into()),
    }
}

/// Checks each descriptor below `nfds` in the sets once, and leaves the ready ones. `events_of`
/// returns the events of a descriptor.
///
/// It does what [`Process::select`] does without blocking, for an embedder with a table of its own.
/// Returns how many are ready, counted once for each set. Allocates if `nfds` is above 1,024.
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
    select_words(nfds, sets, |first, wanted| {
        ready_of(first, wanted, &mut events_of)
    })
}

/// One word of each of the three sets.
type Words = [u64; 3];

/// Selects like [`select_now`], a word at a time: `look` gets the first descriptor of a word and
/// the sets' bits, and returns the bits of the ready ones.
#[inline]
fn select_words(
    nfds: RawFd,
    mut sets: [Option<&mut FdSet>; 3],
    mut look: impl FnMut(RawFd, Words) -> Result<Words, Errno>,
) -> Result<usize, Errno> {
    let nfds = usize::try_from(nfds).map_err(|_| Errno::EINVAL)?;
    let longest = sets.iter().flatten().map(|set| set.words.len()).max();
    let words = longest.unwrap_or(0).min(nfds.div_ceil(BITS));
    let (mut few, mut many) = ([[0; 3]; FEW_WORDS], Vec::new());
    let all: &mut [Words] = match few.get_mut(..words) {
        Some(few) => few,
        None => {
            many.resize(words, [0; 3]);
            &mut many
        }
    };
    let mut count = 0;
    for (word, ready) in all.iter_mut().enumerate() {
        let below = below(nfds - word * BITS);
        let wanted = sets.each_ref().map(|set| word_of(set, word) & below);
        if wanted != [0; 3] {
            // The sets have no word above the highest descriptor.
            *ready = look((word * BITS) as RawFd, wanted)?;
            count += ready.iter().map(|word| word.count_ones()).sum::<u32>() as usize;
        }
    }
    for (index, set) in sets.iter_mut().enumerate() {
        let Some(set) = set else { continue };
        for (word, (kept, ready)) in set.words.iter_mut().zip(&*all).enumerate() {
            *kept = *kept & !below(nfds - word * BITS) | ready[index];
        }
    }
    Ok(count)
}

/// Returns the bits of the wanted descriptors from `first` on that are ready.
#[inline]
fn ready_of(
    first: RawFd,
    wanted: Words,
    mut events_of: impl FnMut(RawFd) -> Result<Events, Errno>,
) -> Result<Words, Errno> {
    let mut ready = [0; 3];
    let mut left = wanted[0] | wanted[1] | wanted[2];
    while left != 0 {
        let bit = left.trailing_zeros();
        left &= left - 1;
        let events = events_of(first + bit as RawFd)?;
        for (index, ready) in ready.iter_mut().enumerate() {
            *ready |= u64::from(events.intersects(SETS[index])) << bit;
        }
    }
    Ok([0, 1, 2].map(|index| ready[index] & wanted[index]))
}

/// Words of a set for 1,024 descriptors.
const FEW_WORDS: usize = 16;

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
