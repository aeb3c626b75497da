//! The object of each host descriptor of this process, and the number of calls that use it.
//!
//! A process closes the host descriptor of an object when its last descriptor of ours goes, though
//! other processes still use the object. Another thread may be in a call with the descriptor then.
//! As on the host, that call goes on with the file that it has begun with, and the host descriptor
//! is closed at its end. So a call counts itself as long as it has a descriptor ([`InUse`]).
//!
//! The name of the object, a flag and the count are one word for each descriptor, so each step is
//! one exchange:
//!
//! | before | after | by |
//! |---|---|---|
//! | 0 | the name, 0 | [`note`]: the process has opened it |
//! | 0 | the name, 1 | [`note_in_use`]: a call has opened it |
//! | 0 | the name, closed, 1 | the same, for itself alone |
//! | the name, `n` | the name, `n` + 1 | a call that begins |
//! | the name, `n` + 1 | the name, `n` | a call that ends |
//! | the name, 0 | 0 | [`close`], which closes the host descriptor |
//! | the name, `n` > 0 | the name, closed, `n` | [`close`] |
//! | the name, closed, `n` | the name, closed, `n` + 1 | a part of a call, or another call |
//! | the name, closed, `n` + 1 > 1 | the name, closed, `n` | its end |
//! | the name, closed, 1 | 0 | the last call that ends, which closes the host descriptor |
//! | the name, closed, `n` | the name, `n` | [`hold`]: the process gets the object in a message |
//!
//! The host does not return a descriptor again before it is closed, and one step alone leads to 0:
//! so a descriptor is closed once, and no call uses it then.
//!
//! The words are in memory that a fork copies as it does the descriptors. The child does not have
//! the calls of other threads, so it resets the counts ([`after_fork`]).

use std::os::fd::RawFd;
use std::sync::OnceLock;

use crossbeam_utils::atomic::AtomicCell;

use crate::host;

/// The words of the host descriptors of this process.
static WORDS: [OnceLock<Box<Part>>; PARTS] = [const { OnceLock::new() }; PARTS];

type Part = [AtomicCell<u64>; PART];

/// How many descriptors a part has.
const PART: usize = 1024;

/// How many parts there are: for a million descriptors, which is the host's largest limit unless
/// its administrator raises it.
const PARTS: usize = 1024;

/// The bits of a word that are the count.
const COUNT: u64 = (1 << 20) - 1;

/// The bit of a word that is set if the host descriptor is closed when the last call ends.
const CLOSED: u64 = COUNT + 1;

/// How many bits of a word are below the name. The others are enough for two years with a hundred
/// thousand objects a second.
const NAME_AT: u32 = 21;

/// The largest count. One that has come there stays, and the host descriptor is open until the
/// process ends. A `poll` counts each of its entries: 55 threads would have to poll one file in
/// 19,000 entries each.
const MOST: u64 = COUNT;

fn name_in(word: u64) -> u64 {
    word >> NAME_AT
}

fn count_in(word: u64) -> u64 {
    word & COUNT
}

fn is_closed(word: u64) -> bool {
    word & CLOSED != 0
}

/// Host descriptor that stays open, and leads to the same file, until this is dropped.
#[derive(Debug)]
pub(crate) struct InUse {
    fd: RawFd,
    is_counted: bool,
}

impl InUse {
    /// Uses a descriptor that stays open without a count, or none (-1).
    pub(crate) fn uncounted(fd: RawFd) -> Self {
        InUse {
            fd,
            is_counted: false,
        }
    }

    /// Begins the use of a descriptor, if it leads to the object with this name.
    #[inline]
    pub(super) fn begin(fd: RawFd, name: u64) -> Option<Self> {
        let more = |word| match count_in(word) {
            _ if name_in(word) != name => None,
            MOST => Some(word),
            _ => Some(word + 1),
        };
        place(fd)?.fetch_update(more).ok()?;
        Some(InUse {
            fd,
            is_counted: true,
        })
    }

    /// Returns the host descriptor, or -1 if this process does not have it.
    #[inline]
    pub(crate) fn get(&self) -> RawFd {
        self.fd
    }
}

impl Drop for InUse {
    #[inline]
    fn drop(&mut self) {
        if self.is_counted {
            end_use(self.fd);
        }
    }
}

fn end_use(fd: RawFd) {
    let less = |word| match count_in(word) {
        // Of 0, the use began before the fork that made this process.
        0 | MOST => None,
        1 if is_closed(word) => Some(0),
        _ => Some(word - 1),
    };
    if let Some(Ok(before)) = place(fd).map(|place| place.fetch_update(less))
        && is_closed(before)
        && count_in(before) == 1
    {
        host::close(fd);
    }
}

/// Returns the place of a descriptor, if it has one.
#[inline]
fn place(fd: RawFd) -> Option<&'static AtomicCell<u64>> {
    let index = usize::try_from(fd).ok()?;
    let part = WORDS.get(index / PART)?;
    let part = match part.get() {
        Some(part) => part,
        None => make(part),
    };
    Some(&part[index % PART])
}

#[cold]
fn make(part: &OnceLock<Box<Part>>) -> &Part {
    let _private = fdtable_shm::leave();
    part.get_or_init(|| Box::new([const { AtomicCell::new(0) }; PART]))
}

/// Notes what a host descriptor leads to that this process has just opened. Returns false, and does
/// nothing, if it has no place.
pub(super) fn note(fd: RawFd, name: u64) -> bool {
    let place = place(fd);
    if let Some(place) = place {
        place.store(name << NAME_AT);
    }
    place.is_some()
}

/// How long a host descriptor stays open that a call has opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Until it is [closed](close).
    Closed,
    /// Until no call uses it any more.
    EndOfCalls,
}

/// As [`note`], for a call that uses the host descriptor. `None` if it has no place.
pub(super) fn note_in_use(fd: RawFd, name: u64, until: Until) -> Option<InUse> {
    let flag = match until {
        Until::Closed => 0,
        Until::EndOfCalls => CLOSED,
    };
    place(fd)?.store(name << NAME_AT | flag | 1);
    Some(InUse {
        fd,
        is_counted: true,
    })
}

/// Returns true if a descriptor leads to the object with this name.
#[inline]
pub(super) fn is_of(fd: RawFd, name: u64) -> bool {
    place(fd).is_some_and(|place| name_in(place.load()) == name)
}

/// Returns true if a call uses the descriptor.
pub(super) fn is_used(fd: RawFd) -> bool {
    place(fd).is_some_and(|place| count_in(place.load()) > 0)
}

/// Keeps a host descriptor open after the calls that use it. Returns false if it does not lead to
/// the object with this name.
pub(super) fn hold(fd: RawFd, name: u64) -> bool {
    let held = |word| (name_in(word) == name).then_some(word & !CLOSED);
    place(fd).is_some_and(|place| place.fetch_update(held).is_ok())
}

/// Closes a host descriptor at the end of the last call that uses it: at once, if there is none.
/// Does nothing if it does not lead to the object with this name.
pub(super) fn close(fd: RawFd, name: u64) {
    let closed = |word| match count_in(word) {
        _ if name_in(word) != name => None,
        0 => Some(0),
        _ => Some(word | CLOSED),
    };
    if let Some(Ok(before)) = place(fd).map(|place| place.fetch_update(closed))
        && count_in(before) == 0
    {
        host::close(fd);
    }
}

/// Returns the descriptors that lead to objects, with their names.
pub(super) fn all() -> impl Iterator<Item = (RawFd, u64)> {
    places()
        .map(|(fd, place)| (fd, place.load()))
        .filter(|&(_, word)| word != 0 && !is_closed(word))
        .map(|(fd, word)| (fd, name_in(word)))
}

/// Ends the uses by threads that this process, the child of theirs, does not have.
pub(crate) fn after_fork() {
    for (fd, place) in places() {
        let word = place.load();
        if is_closed(word) {
            place.store(0);
            host::close(fd);
        } else if word & COUNT != 0 {
            // Only then: a store copies the page for this process.
            place.store(word & !COUNT);
        }
    }
}

/// Notes that this process has none of the descriptors that its parent had.
pub(super) fn forget_all() {
    places().for_each(|(_, place)| place.store(0));
}

/// Returns the descriptors that have been noted and some others, with their places.
fn places() -> impl Iterator<Item = (RawFd, &'static AtomicCell<u64>)> {
    let parts = WORDS.iter().zip((0..).step_by(PART));
    parts.flat_map(|(part, first)| {
        let places = part.get().into_iter().flat_map(|part| part.iter());
        (first..).zip(places)
    })
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, pipe};
    use std::os::fd::{AsRawFd, IntoRawFd};
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Opens a pipe, and notes its end for writing with the name.
    fn opened(name: u64) -> (PipeReader, RawFd) {
        let (reader, writer) = pipe().expect("the host has descriptors left");
        let fd = writer.into_raw_fd();
        assert!(note(fd, name));
        (reader, fd)
    }

    /// Returns true if the other end is open. Other tests may have reused the descriptor else.
    fn is_open(reader: &PipeReader) -> bool {
        let events = host::ready(reader.as_raw_fd(), libc::POLLIN).expect("it can be polled");
        events & libc::POLLHUP == 0
    }

    #[test]
    fn the_last_call_closes_what_was_closed_during_it() {
        let (reader, fd) = opened(1);
        let uses = [1, 1].map(|name| InUse::begin(fd, name).expect("it leads there"));
        assert!(InUse::begin(fd, 2).is_none(), "another object");
        close(fd, 2);
        assert!(is_of(fd, 1), "another object was closed");
        close(fd, 1);
        close(fd, 1);
        let part = InUse::begin(fd, 1).expect("a call is not at its end");
        drop(uses);
        assert!(is_open(&reader), "a call uses it");
        drop(part);
        assert!(!is_open(&reader), "it was not closed");
        assert!(!is_of(fd, 1) && InUse::begin(fd, 1).is_none());
    }

    #[test]
    fn what_is_held_again_stays_open() {
        let (reader, fd) = opened(3);
        let used = InUse::begin(fd, 3).expect("it leads there");
        close(fd, 3);
        assert!(hold(fd, 3) && !hold(fd, 4));
        drop(used);
        assert!(is_open(&reader), "it is held");
        close(fd, 3);
        assert!(!is_open(&reader) && !hold(fd, 3));
    }

    #[test]
    fn what_a_call_borrows_is_closed_at_its_end() {
        let (reader, fd) = opened(5);
        let used = note_in_use(fd, 5, Until::EndOfCalls).expect("it has a place");
        let part = InUse::begin(fd, 5).expect("it leads there");
        drop(used);
        assert!(is_open(&reader), "a part of the call uses it");
        drop(part);
        assert!(!is_open(&reader), "it was not closed");
    }

    #[test]
    fn threads_that_use_and_close_a_descriptor_close_it_when_none_uses_it() {
        for name in 10..300 {
            let (reader, fd) = opened(name);
            let start = Barrier::new(3);
            let uses = || {
                start.wait();
                while let Some(_used) = InUse::begin(fd, name) {
                    assert!(is_open(&reader), "a call uses it");
                }
            };
            thread::scope(|scope| {
                scope.spawn(uses);
                scope.spawn(uses);
                start.wait();
                close(fd, name);
            });
            assert!(!is_open(&reader), "it was not closed");
        }
    }
}
