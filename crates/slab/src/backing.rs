//! The source of memory for the [general](super::general) caches. It is chosen once, as kernels
//! choose it when they boot.
//!
//! The choice is one word. It is open at first, and closed by the first choice, or by the first
//! allocation, which takes the default. From then on it does not change, and so a class has a cache
//! or never will: memory goes back to its source, and nothing has to be recorded with it. An
//! allocation that finds a cache does not read the choice.

use core::fmt;

use fdtable_sync::platform::atomic::AtomicU8;
use fdtable_sync::platform::atomic::Ordering::Relaxed;
use fdtable_sync::platform::{const_fn, global};

/// The source of memory for open files and for the nodes of tables.
///
/// A [`Cache`](super::Cache) has slabs in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Backing {
    /// Slabs with [colours](super::Colouring): the default.
    Coloured = 1,
    /// Slabs that all begin alike.
    Uncoloured,
    /// The global allocator of the program, an allocation for each object.
    #[doc(alias = "malloc")]
    GlobalHeap,
}

/// The error of a choice that comes too late: memory already comes from this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyChosen(pub Backing);

impl fmt::Display for AlreadyChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "general memory has a source already: {:?}", self.0)
    }
}

impl core::error::Error for AlreadyChosen {}

/// Nothing was chosen yet.
const OPEN: u8 = 0;

global! {
    pub(crate) static CHOICE: Choice = Choice::new(OPEN);
}

/// A choice that is made once.
pub(super) struct Choice(AtomicU8);

/// Chooses the source of memory for open files and for the nodes of tables, for this process and
/// permanently. To be called before the first of them is made. Does not wait or allocate. Choosing
/// the current choice again changes nothing.
///
/// Caches that are in use cost the same whatever may be chosen. With the [global
/// allocator](Backing::GlobalHeap) there are no general caches, and [`infos`](super::infos) lists
/// none.
///
/// # Errors
/// [`AlreadyChosen`] if something else was chosen before, or memory was allocated already: it comes
/// from coloured slabs then.
///
/// ```
/// use fdtable_slab::{AlreadyChosen, Backing};
///
/// fdtable_slab::choose(Backing::Uncoloured)?;
/// assert_eq!(fdtable_slab::choose(Backing::GlobalHeap), Err(AlreadyChosen(Backing::Uncoloured)));
/// # Ok::<(), AlreadyChosen>(())
/// ```
#[doc(alias = "slub_debug")]
pub fn choose(backing: Backing) -> Result<(), AlreadyChosen> {
    match CHOICE.close(backing) {
        chosen if chosen == backing => Ok(()),
        chosen => Err(AlreadyChosen(chosen)),
    }
}

/// Returns the source of memory. From now on it does not change.
#[inline]
pub(super) fn settled() -> Backing {
    CHOICE.settled()
}

impl Choice {
    const_fn! {
        fn new(code: u8) -> Self {
            Self(AtomicU8::new(code))
        }
    }

    /// Makes the choice, if it is still open.
    #[cfg(test)]
    pub(super) fn open() -> Self {
        Self::new(OPEN)
    }

    /// Chooses, unless that was done, and returns what is chosen.
    pub(super) fn close(&self, backing: Backing) -> Backing {
        let code = backing as u8;
        // Relaxed, both: the word publishes nothing but itself. Of all threads that exchange, one
        // finds it open, and the others find the value that it stored.
        // weaken: choice-that-is-made-twice
        match self.0.compare_exchange(OPEN, code, Relaxed, Relaxed) {
            Ok(_) => backing,
            Err(there) => Backing::of(there).unwrap_or(backing),
        }
    }

    /// Returns the choice: the default, if it was open.
    #[inline]
    pub(super) fn settled(&self) -> Backing {
        // Relaxed: a closed word stays so, and `close` checks one that seems to be open.
        match Backing::of(self.0.load(Relaxed)) {
            Some(chosen) => chosen,
            None => self.close(Backing::Coloured),
        }
    }
}

impl Backing {
    /// Returns the meaning of a code. `None` for [`OPEN`].
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
    fn without_a_choice_the_default_is_permanent() {
        let choice = Choice::open();
        assert_eq!(choice.settled(), Backing::Coloured);
        assert_eq!(choice.close(Backing::GlobalHeap), Backing::Coloured);
    }
}
