//! Magazines: some tens of free objects that are passed on together.
//!
//! The term is Bonwick's, as are *rounds*, the objects in a magazine. A magazine is a count and an
//! array, in memory of its own. It owns that memory and not the objects: a magazine must be emptied
//! before it is dropped.
//!
//! The sequences of [`local`](super::local) work on the memory from assembly, and read the magazine
//! of a CPU that another thread is about to take. So all mutable state is atomic, and all of it
//! `Relaxed`: there is one owner at a time, and the hand-over of a magazine orders it.

use core::mem;
use core::ops::Deref;
use core::ptr::{self, NonNull};

use alloc::boxed::Box;

use fdtable_sync::fallible::{OutOfMemory, try_box};
use fdtable_sync::platform::atomic::Ordering::Relaxed;
use fdtable_sync::platform::atomic::{AtomicPtr, AtomicUsize};
use fdtable_sync::platform::global;

/// How many objects a magazine holds.
pub(super) const ROUNDS: usize = if cfg!(loom) { 2 } else { 64 };

/// An owned magazine.
#[derive(Debug)]
pub(super) struct Magazine(NonNull<Rounds>);

// SAFETY: a magazine is owned like a box, and is bound to no thread. The users of its objects are
// responsible for them.
unsafe impl Send for Magazine {}

/// The memory of a magazine, on cache lines of its own: two CPUs use two of them at once.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Rounds {
    /// How many objects there are: the first so many of `objects`.
    pub(super) count: AtomicUsize,
    /// Zero: the count at which nothing can be taken out.
    pub(super) floor: usize,
    /// The count at which nothing can be put in.
    pub(super) ceiling: usize,
    /// The next magazine of a [`MagazineList`].
    next: AtomicPtr<Rounds>,
    pub(super) objects: [AtomicPtr<u8>; ROUNDS],
}

/// A stack of magazines, linked through their own memory, so that it needs none.
#[derive(Debug)]
pub(super) struct MagazineList {
    first: Option<Magazine>,
    len: usize,
}

/// Lack of a magazine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// There is nothing to take out.
    Objects,
    /// There is no place to put anything in.
    Room,
}

global! {
    /// The sentinel for no magazine: empty and full at once. Never written.
    pub(super) static NONE: Rounds = Rounds::new(0);
}

impl Rounds {
    #[cfg(not(loom))]
    const fn new(ceiling: usize) -> Self {
        Self {
            count: AtomicUsize::new(0),
            floor: 0,
            ceiling,
            next: AtomicPtr::new(ptr::null_mut()),
            objects: [const { AtomicPtr::new(ptr::null_mut()) }; ROUNDS],
        }
    }

    #[cfg(loom)]
    fn new(ceiling: usize) -> Self {
        Self {
            count: AtomicUsize::new(0),
            floor: 0,
            ceiling,
            next: AtomicPtr::new(ptr::null_mut()),
            objects: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Returns the place of the sentinel.
    pub(super) fn none() -> *mut Self {
        ptr::from_ref::<Self>(&NONE).cast_mut()
    }

    /// Returns true if this lacks that. For the owner.
    #[inline]
    pub(super) fn lacks(&self, what: Lack) -> bool {
        self.len()
            == match what {
                Lack::Objects => self.floor,
                Lack::Room => self.ceiling,
            }
    }

    /// Returns how many objects there are. A hint for other threads than the owner.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Takes the object that was put in last. For the owner.
    #[inline]
    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        let last = self.len().checked_sub(1)?;
        let object = NonNull::new(self.objects.get(last)?.load(Relaxed));
        self.count.store(last, Relaxed);
        object
    }

    /// Puts an object in, or returns it if there is no room. For the owner.
    #[inline]
    pub(super) fn push(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        let count = self.len();
        if count == self.ceiling {
            return Err(object);
        }
        self.objects[count].store(object.as_ptr(), Relaxed);
        self.count.store(count + 1, Relaxed);
        Ok(())
    }
}

impl Magazine {
    /// The size of a magazine in bytes.
    pub(super) const BYTES: usize = size_of::<Rounds>();

    /// Makes an empty magazine. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for it.
    pub(super) fn try_new() -> Result<Self, OutOfMemory> {
        Ok(Self(NonNull::from(Box::leak(try_box(Rounds::new(
            ROUNDS,
        ))?))))
    }

    /// Converts the magazine to a raw pointer; [`from_raw`](Self::from_raw) converts it back.
    pub(super) fn into_raw(self) -> *mut Rounds {
        let rounds = self.0.as_ptr();
        mem::forget(self);
        rounds
    }

    /// Converts a raw pointer back to a magazine, unless it is the sentinel.
    ///
    /// # Safety
    /// `rounds` came from [`into_raw`](Self::into_raw) and is converted back once, or is the
    /// sentinel.
    pub(super) unsafe fn from_raw(rounds: *mut Rounds) -> Option<Self> {
        (rounds != Rounds::none())
            .then(|| NonNull::new(rounds).map(Self))
            .flatten()
    }

    /// Returns true if there is nothing to take out.
    pub(super) fn is_empty(&self) -> bool {
        self.lacks(Lack::Objects)
    }

    /// Returns true if there is no room.
    #[cfg(all(test, not(loom)))]
    pub(super) fn is_full(&self) -> bool {
        self.lacks(Lack::Room)
    }
}

impl Deref for Magazine {
    type Target = Rounds;

    fn deref(&self) -> &Rounds {
        // SAFETY: a box that was leaked in `try_new`; `self` owns it.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Magazine {
    fn drop(&mut self) {
        debug_assert!(self.is_empty(), "its objects would be lost");
        // SAFETY: a box that was leaked in `try_new`, and no other thread has it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl MagazineList {
    /// Makes a list without magazines.
    pub(super) const fn new() -> Self {
        Self {
            first: None,
            len: 0,
        }
    }

    /// Returns how many magazines there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Moves all magazines of another list to this one.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.extend(core::iter::from_fn(|| other.pop()));
    }

    /// Puts magazines on the list.
    pub(super) fn extend(&mut self, magazines: impl Iterator<Item = Magazine>) {
        magazines.for_each(|magazine| self.push(magazine));
    }

    /// Puts a magazine on the list.
    pub(super) fn push(&mut self, magazine: Magazine) {
        let next = self.first.take();
        let next = next.map_or(ptr::null_mut(), Magazine::into_raw);
        magazine.next.store(next, Relaxed);
        self.first = Some(magazine);
        self.len += 1;
    }

    /// Takes the magazine that was put on the list last.
    pub(super) fn pop(&mut self) -> Option<Magazine> {
        let magazine = self.first.take()?;
        let next = magazine.next.load(Relaxed);
        self.first = NonNull::new(next).map(Magazine);
        self.len -= 1;
        Some(magazine)
    }
}

impl Drop for MagazineList {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn object(number: usize) -> NonNull<u8> {
        NonNull::new(ptr::without_provenance_mut(number)).expect("not zero")
    }

    #[test]
    fn what_was_put_in_last_comes_out_first() {
        let magazine = Magazine::try_new().expect("there is memory");
        assert!(magazine.is_empty() && !magazine.is_full());
        for number in 1..=ROUNDS {
            assert_eq!(magazine.push(object(number)), Ok(()));
            assert_eq!(magazine.len(), number);
        }
        assert!(magazine.is_full() && !magazine.is_empty());
        assert_eq!(magazine.push(object(1000)), Err(object(1000)));
        for number in (1..=ROUNDS).rev() {
            assert_eq!(magazine.pop(), Some(object(number)));
        }
        assert_eq!(magazine.pop(), None);
    }

    #[test]
    fn where_there_is_no_magazine_nothing_goes_in_or_out() {
        assert!(NONE.lacks(Lack::Objects) && NONE.lacks(Lack::Room));
        assert_eq!(NONE.pop(), None);
        assert_eq!(NONE.push(object(1)), Err(object(1)));
        // SAFETY: it is the sentinel.
        assert!(unsafe { Magazine::from_raw(Rounds::none()) }.is_none());
    }

    #[test]
    fn a_list_is_a_stack_and_counts() {
        let mut list = MagazineList::new();
        for number in 1..=3 {
            let magazine = Magazine::try_new().expect("there is memory");
            magazine.push(object(number)).expect("there is room");
            list.push(magazine);
            assert_eq!(list.len(), number);
        }
        for number in (1..=3).rev() {
            let magazine = list.pop().expect("it is there");
            assert_eq!(magazine.pop(), Some(object(number)));
        }
        assert!(list.pop().is_none() && list.len() == 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic = "its objects would be lost"]
    fn a_magazine_with_objects_is_not_dropped() {
        let magazine = Magazine::try_new().expect("there is memory");
        magazine.push(object(1)).expect("there is room");
    }
}
