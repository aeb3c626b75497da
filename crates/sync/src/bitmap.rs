//! Sixty-four bits that threads set, clear and search: the word of a bitmap.
//!
//! Every operation but two is `Relaxed`, and that is harmless by contract: a bit of this type is
//! bookkeeping and publishes nothing. A caller that needs one bit to agree with another piece of
//! memory holds a lock around both. A caller that reads it without the lock learns what was true at
//! some time, no more.
//!
//! The two exceptions order other memory with the last bit: [`Word::set_release`], which the holder
//! of the lock uses, and [`Word::is_full_acquire`]. A reader without the lock that finds the word
//! full sees what was written before that bit was set.

use crate::platform::atomic::AtomicU64;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};

/// How many bits a word has: 64. Models use fewer, so that they reach its end.
pub const BITS: usize = if cfg!(loom) { 4 } else { 64 };

/// All bits of a word.
const ALL: u64 = u64::MAX >> (64 - BITS);

/// One word of a bitmap: [`BITS`] bits, numbered from 0, all clear at first.
///
/// Operations on it neither block nor allocate, and each is one atomic step. A bit index past
/// the last is not a bit of the word: it reads as clear, and setting or clearing it does
/// nothing.
///
/// ```
/// use fdtable_sync::bitmap::Word;
///
/// let word = Word::new();
/// word.set(0);
/// assert_eq!(word.lowest_clear(0), Some(1));
/// ```
#[derive(Debug, Default)]
pub struct Word(AtomicU64);

/// The mask of one bit, or of none.
#[inline]
const fn mask(bit: usize) -> u64 {
    if bit < BITS { 1 << bit } else { 0 }
}

/// The mask of the bits from `first` on.
#[inline]
const fn from(first: usize) -> u64 {
    if first < BITS {
        ALL & (u64::MAX << first)
    } else {
        0
    }
}

impl Word {
    /// Makes a word with every bit clear.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns true if `bit` is set.
    #[inline]
    pub fn test(&self, bit: usize) -> bool {
        self.bits() & mask(bit) != 0
    }

    /// Returns true if `bit` is set. If true, writes before [`set_release`](Self::set_release) set
    /// it are visible.
    #[inline]
    pub fn test_acquire(&self, bit: usize) -> bool {
        // Acquire: pairs with the release in `set_release`.
        self.0.load(Acquire) & mask(bit) != 0
    }

    /// Sets `bit`. For words that a lock guards: a concurrent change may be lost.
    #[inline]
    pub fn set(&self, bit: usize) {
        self.0.store(self.bits() | mask(bit), Relaxed);
    }

    /// Like [`set`](Self::set), and releases earlier writes to a thread that finds the bit by
    /// [`test_acquire`](Self::test_acquire), or the word full by
    /// [`is_full_acquire`](Self::is_full_acquire).
    #[inline]
    pub fn set_release(&self, bit: usize) {
        // Release: pairs with the acquire in `test_acquire` and `is_full_acquire`.
        self.0.store(self.bits() | mask(bit), Release);
    }

    /// Clears `bit`. For words that a lock guards: a concurrent change may be lost.
    #[inline]
    pub fn clear(&self, bit: usize) {
        self.0.store(self.bits() & !mask(bit), Relaxed);
    }

    /// Returns all bits at once.
    #[inline]
    pub fn bits(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Replaces all bits at once. For words that a lock guards.
    #[inline]
    pub fn replace(&self, bits: u64) {
        self.0.store(bits & ALL, Relaxed);
    }

    /// Returns true if every bit is set.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bits() == ALL
    }

    /// Like [`is_full`](Self::is_full). If true, writes before the last bit was set by
    /// [`set_release`](Self::set_release) are visible.
    #[inline]
    pub fn is_full_acquire(&self) -> bool {
        // Acquire: pairs with the release in `set_release`.
        self.0.load(Acquire) == ALL
    }

    /// Finds the lowest clear bit that is at least `first`.
    #[inline]
    pub fn lowest_clear(&self, first: usize) -> Option<usize> {
        let clear = !self.bits() & from(first);
        (clear != 0).then(|| clear.trailing_zeros() as usize)
    }
}

/// Iterates over the indexes of the bits that are set, lowest first.
pub fn bits_of(mut bits: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(lowest)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_clear_bit_is_found_from_any_start() {
        let word = Word::new();
        word.replace(0b0110_1111);
        assert_eq!(word.lowest_clear(0), Some(4));
        assert_eq!(word.lowest_clear(5), Some(7));
        assert_eq!(word.lowest_clear(63), Some(63));
        assert_eq!(word.lowest_clear(64), None);
        word.replace(u64::MAX);
        assert!(word.is_full());
        assert_eq!(word.lowest_clear(0), None);
    }

    #[test]
    fn an_index_past_the_word_is_no_bit() {
        let word = Word::new();
        word.set(64);
        assert_eq!(word.bits(), 0);
        word.replace(u64::MAX);
        word.clear(1000);
        assert!(word.is_full());
        assert!(!word.test(64));
    }
}
