//! `select`: the older form of `poll`, with sets of numbers. It finds less: the end of file alone is
//! nothing for who wants to write.
//!
//! A call that does not wait looks at the files as `poll` does, without references, and word by
//! word. One that may wait takes references at once.

use std::time::{Duration, Instant};

use fdtable::{FileRef, RawFd, rcu};

use super::Process;
use super::polling::events_of_none;
use crate::event::{Events, Poll};
use crate::{Errno, Object};

/// Set of descriptors, as `select` takes them.
///
/// It has as many as are put in, and no end at 1,024.
#[derive(Debug, Default, PartialEq, Eq)]
#[doc(alias = "fd_set")]
pub struct FdSet {
    words: Vec<u64>,
}

/// A copy into a set that has the room does not allocate.
impl Clone for FdSet {
    fn clone(&self) -> Self {
        Self::from_words(&self.words)
    }

    fn clone_from(&mut self, source: &Self) {
        self.words.clone_from(&source.words);
    }
}

/// What each of the three sets is for.
const SETS: [Events; 3] = [
    Events::READABLE.union(Events::RDBAND).union(Events::ALWAYS),
    Events::WRITABLE.union(Events::WRBAND).union(Events::ERR),
    Events::PRI,
];

impl FdSet {
    /// Makes an empty set.
    #[doc(alias = "FD_ZERO")]
    pub const fn new() -> Self {
        FdSet { words: Vec::new() }
    }

    /// Makes a set of words, in which descriptor `n` is bit `n % 64` of word `n / 64`. Allocates.
    pub fn from_words(words: &[u64]) -> Self {
        FdSet {
            words: words.to_vec(),
        }
    }

    /// Returns the words, as [`from_words`](Self::from_words) takes them. Those that are missing at
    /// the end are zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Puts a descriptor in. One below zero cannot be in a set. Allocates.
    #[doc(alias = "FD_SET")]
    pub fn insert(&mut self, fd: impl Into<RawFd>) {
        if let Some((word, bit)) = word_and_bit(fd.into()) {
            if word >= self.words.len() {
                self.words.resize(word + 1, 0);
            }
            self.words[word] |= bit;
        }
    }

    /// Takes a descriptor out.
    #[doc(alias = "FD_CLR")]
    pub fn remove(&mut self, fd: impl Into<RawFd>) {
        if let Some((word, bit)) = word_and_bit(fd.into())
            && let Some(word) = self.words.get_mut(word)
        {
            *word &= !bit;
        }
    }

    /// Returns true if a descriptor is in.
    #[doc(alias = "FD_ISSET")]
    pub fn contains(&self, fd: impl Into<RawFd>) -> bool {
        let bits = |(word, bit)| self.words.get(word).is_some_and(|word| word & bit != 0);
        word_and_bit(fd.into()).is_some_and(bits)
    }

    /// Takes out all that are below `nfds`, the part that a call looks at.
    fn clear_below(&mut self, nfds: RawFd) {
        for fd in 0..nfds.min(self.end()) {
            self.remove(fd);
        }
    }

    /// Returns a number that is above all in the set.
    fn end(&self) -> RawFd {
        RawFd::try_from(self.words.len() * BITS).unwrap_or(RawFd::MAX)
    }
}

/// Descriptors in a word.
const BITS: usize = u64::BITS as usize;

/// Returns the word and the bit of a descriptor.
fn word_and_bit(fd: RawFd) -> Option<(usize, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((fd / BITS, 1 << (fd % BITS)))
}

impl Process {
    /// Waits until a descriptor below `nfds` in one of the sets is ready for what the set is for, or
    /// until `timeout` has passed (`None`: forever). Leaves those in the sets that are ready, and
    /// returns how many they are, each as often as it is in a set. Blocks, and allocates.
    ///
    /// The first set is for reading, where the end of file is ready too; the second for writing, the
    /// third for what is exceptional ([`Events::PRI`]).
    ///
    /// # Errors
    /// `EINVAL` if `nfds` is below zero; `EBADF` if one in a set is not an open descriptor. The sets
    /// then stay as they are.
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
    #[doc(alias = "pselect")]
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
        if timeout != Some(Duration::ZERO) {
            return self.select_waiting(nfds, sets, timeout);
        }
        select_words(nfds, sets, |first, wanted| {
            // A word of the sets is a block of the table, and is looked at in one section.
            let section = rcu::read_lock();
            let block = self.files.block(first, &section);
            ready_of(first, wanted, |fd| match block.borrow(fd) {
                Ok(file) => Ok(file.events()),
                Err(error @ fdtable::Error::Revoked) => Ok(events_of_none(error)),
                Err(error) => Err(error.into()),
            })
        })
    }

    /// Does as [`select`](Self::select) where it may have to wait.
    fn select_waiting(
        &self,
        nfds: RawFd,
        mut sets: [Option<&mut FdSet>; 3],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        if nfds < 0 {
            return Err(Errno::EINVAL);
        }
        // Before the first look, which takes its time too. Too far ahead is forever.
        let deadline = timeout.map(|timeout| Instant::now().checked_add(timeout));
        let mut asked = asked(&sets, nfds);
        let files: Vec<_> =
            (asked.iter().map(|one| self.opened(one.fd))).collect::<Result<_, _>>()?;
        let mut ready = note(&mut asked, &mut files.iter().map(Opened::events));
        if ready.is_none() {
            let poll = register(&asked, files);
            ready = poll.wait(deadline.flatten(), |found| note(&mut asked, found));
        }
        for (index, set) in sets.iter_mut().enumerate() {
            if let Some(set) = set {
                set.clear_below(nfds);
                let ready = asked.iter().filter(|one| one.ready[index]);
                ready.for_each(|one| set.insert(one.fd));
            }
        }
        Ok(ready.unwrap_or(0))
    }

    /// Takes a reference to the file of a descriptor.
    fn opened(&self, fd: RawFd) -> Result<Opened, Errno> {
        match self.files.get(fd) {
            Ok(file) => Ok(Opened::File(file)),
            Err(error @ fdtable::Error::Revoked) => Ok(Opened::Ended(events_of_none(error))),
            Err(error) => Err(error.into()),
        }
    }
}

/// Looks once at each descriptor below `nfds` in one of the sets, of which `events_of` says what it
/// is ready for. Leaves those in the sets that are ready, and returns how many they are: what
/// [`Process::select`] does without waiting, for who has a table of his own. Allocates if `nfds` is
/// above 1,024.
///
/// # Errors
/// `EINVAL` if `nfds` is below zero; what `events_of` answers. The sets then stay as they are.
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

/// Word of each of the three sets.
type Words = [u64; 3];

/// Does as [`select_now`] with whole words: `look` gets the first number of some, and which are in
/// the sets, and says which of them are ready.
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
            // The sets have no word above the highest number.
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

/// Asks for the events of those that are wanted, of the numbers from `first` on, and returns which
/// are ready.
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

/// Returns a word with the first `count` bits, or all of them.
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

/// Descriptor that is in a set.
struct Asked {
    fd: RawFd,
    /// In which it is.
    wanted: [bool; 3],
    /// For which it is ready.
    ready: [bool; 3],
}

/// What a descriptor in a set names.
enum Opened {
    File(FileRef<dyn Object>),
    /// A revoked one.
    Ended(Events),
}

impl Opened {
    fn events(&self) -> Events {
        match self {
            Opened::File(file) => file.events(),
            Opened::Ended(events) => *events,
        }
    }
}

impl Asked {
    /// Returns what may make it ready.
    fn interest(&self) -> Events {
        let sets = self.wanted.iter().zip(SETS);
        sets.filter(|(wanted, _)| **wanted)
            .fold(Events::empty(), |all, (_, events)| all | events)
    }

    /// Notes for what it is ready, and returns for how many sets.
    fn note(&mut self, found: Events) -> usize {
        for (index, events) in SETS.into_iter().enumerate() {
            self.ready[index] = self.wanted[index] && found.intersects(events);
        }
        self.ready.iter().filter(|ready| **ready).count()
    }
}

/// Returns the descriptors that are in a set.
fn asked(sets: &[Option<&mut FdSet>; 3], nfds: RawFd) -> Vec<Asked> {
    let ends = sets.iter().flatten().map(|set| set.end());
    let end = ends.max().unwrap_or(0).min(nfds);
    let all = (0..end).map(|fd| Asked {
        fd,
        wanted: [0, 1, 2].map(|index| sets[index].as_ref().is_some_and(|set| set.contains(fd))),
        ready: [false; 3],
    });
    all.filter(|one| one.wanted.contains(&true)).collect()
}

/// Notes what was found, and returns how much is ready, if anything.
fn note(asked: &mut [Asked], found: &mut dyn Iterator<Item = Events>) -> Option<usize> {
    let notes = asked.iter_mut().zip(found);
    let ready = notes.map(|(one, events)| one.note(events)).sum();
    (ready > 0).then_some(ready)
}

/// Registers with the files.
fn register(asked: &[Asked], files: Vec<Opened>) -> Poll {
    let mut poll = Poll::new();
    for (one, file) in asked.iter().zip(files) {
        match file {
            Opened::File(file) => poll.add(file, one.interest()),
            Opened::Ended(events) => poll.add_fixed(events),
        }
    }
    poll
}
