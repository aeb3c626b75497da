//! What memory of the [general](super::general) caches comes from: chosen once, as kernels choose
//! it when they boot.
//!
//! The choice is one word. It is open at first, and closed by whoever chooses, or by the first
//! allocation, which takes the usual. From then on it does not change, and so a class has a cache
//! or never will have: what was taken goes back to where it came from, and nothing has to be noted
//! with it. Who finds a cache does not look at the choice.

use core::fmt;

use crate::sync::atomic::AtomicU8;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::global;

/// What memory of open files and of the nodes of tables comes from.
///
/// A [`Cache`](super::Cache) or [`ConstructedCache`](super::ConstructedCache) has slabs in any
/// case: its readers may look at what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Backing {
    /// Slabs with [colours](super::Colouring): the usual.
    Coloured = 1,
    /// Slabs that all begin alike.
    Uncoloured,
    /// The global allocator of the program, an allocation for each object.
    #[doc(alias = "malloc")]
    GlobalHeap,
}

/// The error of a choice that comes too late: memory comes from this already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyChosen(pub Backing);

impl fmt::Display for AlreadyChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Backing::Coloured => "general memory comes from coloured slabs already",
            Backing::Uncoloured => "general memory comes from slabs without colours already",
            Backing::GlobalHeap => "general memory comes from the global allocator already",
        })
    }
}

impl core::error::Error for AlreadyChosen {}

/// What is chosen before anybody chooses.
const AT_FIRST: u8 = if cfg!(feature = "global-heap") {
    Backing::GlobalHeap as u8
} else {
    OPEN
};

/// Nothing was chosen yet.
const OPEN: u8 = 0;

global! {
    pub(super) static CHOICE: Choice = Choice::new(AT_FIRST);
}

/// A choice that is made once.
pub(super) struct Choice(AtomicU8);

/// Chooses what memory of open files and of the nodes of tables comes from, for this process and
/// for good: to be called before the first of them is made. Does not wait or allocate. To choose
/// again what is chosen changes nothing.
///
/// Caches that are in use cost the same whatever may be chosen. With the [global
/// allocator](Backing::GlobalHeap) there are no general caches, and [`infos`](super::infos) lists
/// none.
///
/// # Errors
/// [`AlreadyChosen`] if something else was chosen before, or memory was taken already, which comes from
/// coloured slabs then; with the feature `global-heap`, for all but the global allocator.
///
/// ```
/// use fdtable_base::slab::{self, AlreadyChosen, Backing};
///
/// # #[cfg(not(feature = "global-heap"))] {
/// slab::choose(Backing::Uncoloured)?;
/// assert_eq!(slab::choose(Backing::GlobalHeap), Err(AlreadyChosen(Backing::Uncoloured)));
/// # }
/// # Ok::<(), AlreadyChosen>(())
/// ```
#[doc(alias = "slub_debug")]
pub fn choose(backing: Backing) -> Result<(), AlreadyChosen> {
    match CHOICE.close(backing) {
        chosen if chosen == backing => Ok(()),
        chosen => Err(AlreadyChosen(chosen)),
    }
}

/// Returns what memory comes from. From now on it does not change.
#[inline]
pub(super) fn settled() -> Backing {
    CHOICE.settled()
}

impl Choice {
    #[cfg(not(loom))]
    const fn new(code: u8) -> Self {
        Self(AtomicU8::new(code))
    }

    #[cfg(loom)]
    fn new(code: u8) -> Self {
        Self(AtomicU8::new(code))
    }

    /// Makes a choice that nobody has made.
    #[cfg(test)]
    pub(super) fn open() -> Self {
        Self::new(OPEN)
    }

    /// Chooses, unless that was done, and returns what is chosen.
    pub(super) fn close(&self, backing: Backing) -> Backing {
        let code = backing as u8;
        // Relaxed, both: the word tells of nothing but itself. Of all who exchange one finds it
        // open, and the others what that one has stored.
        match self.0.compare_exchange(OPEN, code, Relaxed, Relaxed) {
            Ok(_) => backing,
            Err(there) => Backing::of(there).unwrap_or(backing),
        }
    }

    /// Returns what is chosen: the usual, if that was open.
    #[inline]
    pub(super) fn settled(&self) -> Backing {
        // Relaxed: what is found closed stays so, and what seems to be open is looked at by
        // `close`.
        match Backing::of(self.0.load(Relaxed)) {
            Some(chosen) => chosen,
            None => self.close(Backing::Coloured),
        }
    }
}

impl Backing {
    /// Returns what a code stands for. Nothing for [`OPEN`].
    #[inline]
    fn of(code: u8) -> Option<Self> {
        let all = [Self::Coloured, Self::Uncoloured, Self::GlobalHeap];
        all.into_iter().find(|&backing| backing as u8 == code)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_first_stays() {
        for first in [Backing::Coloured, Backing::Uncoloured, Backing::GlobalHeap] {
            let choice = Choice::open();
            assert_eq!(choice.close(first), first);
            assert_eq!(choice.close(first), first);
            assert_eq!(choice.close(Backing::Uncoloured), first);
            assert_eq!(choice.settled(), first);
        }
    }

    #[test]
    fn who_does_not_choose_gets_the_usual_for_good() {
        let choice = Choice::open();
        assert_eq!(choice.settled(), Backing::Coloured);
        assert_eq!(choice.close(Backing::GlobalHeap), Backing::Coloured);
    }

    #[test]
    fn a_choice_that_comes_too_late_says_what_there_is() {
        let layout = core::alloc::Layout::new::<u64>();
        let place = crate::slab::general::alloc(layout).expect("there is memory");
        let there = settled();
        let other = [Backing::Uncoloured, Backing::GlobalHeap].map(choose);
        assert!(other.contains(&Err(AlreadyChosen(there))));
        assert_eq!(choose(there), Ok(()));
        // SAFETY: taken above.
        unsafe { crate::slab::general::free(place, layout) };
    }
}
