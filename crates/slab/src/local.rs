//! The magazines of the CPUs: the fast path of allocating and freeing.
//!
//! Each CPU has two magazines, `loaded` and `previous`. A thread takes objects from the loaded one
//! of its CPU, and frees objects to it. If that one lacks an object or room and the previous one
//! does not, they are exchanged. So a thread that allocates and frees at the edge of a magazine
//! continues with these two. It needs another one, from the depot, only after a whole magazine of
//! one or the other operation (Bonwick and Adams, USENIX 2001).
//!
//! The thread may be moved to another CPU between any two operations, and each is correct on any
//! CPU. The method of mutual exclusion is chosen when the magazines are made:
//!
//! - [`rseq`]: by restartable sequences, on x86-64 Linux with glibc ≥ 2.35. Allocating and freeing
//!   an object takes 3 ns in total.
//! - [`locked`]: with a lock for each CPU, everywhere else and in models: 7 ns.
//!
//! Both keep a [`Pair`] for each CPU and do the same with it.

use core::ptr::NonNull;

use self::pair::Pair;
use super::magazine::{Lack, Magazine, MagazineList, Rounds};
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::fence::NotRestarted;
#[cfg(all(test, loom))]
use fdtable_sync::platform::atomic::Ordering::Relaxed;

mod locked;
mod pair;
mod rseq;

#[cfg(all(test, loom))]
pub(super) use fdtable_sync::sequence::model::with_sequences;

/// The magazines of all CPUs. The owner must [take them](Local::take_all) before it drops this;
/// else they leak, with their objects. On a line of its own, which all threads read.
#[repr(align(64))]
pub(super) struct Local(Flavour);

/// How the threads on one CPU exclude each other.
enum Flavour {
    /// Restartable sequences.
    Rseq(rseq::Cpus),
    /// A lock for each CPU.
    Locked(locked::Cpus),
}

/// Figures of the CPUs' magazines.
#[derive(Default)]
pub(super) struct Held {
    pub(super) magazines: usize,
    pub(super) objects: usize,
    /// Objects that users took out of them.
    pub(super) hits: usize,
}

impl Held {
    fn add(&mut self, pair: &Pair) {
        for place in [&pair.loaded, &pair.previous] {
            let rounds = Pair::rounds(place);
            self.magazines += usize::from(!core::ptr::eq(rounds, Rounds::none()));
            self.objects += rounds.len();
            self.hits += rounds.hits();
        }
    }
}

impl Local {
    /// Makes a place for the magazines of each CPU, without any. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for the places.
    pub(super) fn try_new() -> Result<Self, OutOfMemory> {
        Ok(Self(match rseq::Cpus::try_new()? {
            Some(cpus) => Flavour::Rseq(cpus),
            None => Flavour::Locked(locked::Cpus::try_new()?),
        }))
    }

    /// Takes an object from this CPU's magazines, if they have one. Never waits with sequences;
    /// with locks, it waits for the thread that uses these magazines.
    #[inline(always)]
    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        match &self.0 {
            Flavour::Rseq(cpus) => cpus.pop(),
            Flavour::Locked(cpus) => cpus.pop(),
        }
    }

    /// Puts an object into this CPU's magazines. Waits like [`pop`](Self::pop).
    ///
    /// # Errors
    /// The object, if they have no room or are not there.
    #[inline(always)]
    pub(super) fn push(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        match &self.0 {
            Flavour::Rseq(cpus) => cpus.push(object),
            Flavour::Locked(cpus) => cpus.push(object),
        }
    }

    /// Loads a magazine with objects, and returns the empty one that it displaces, if there was
    /// one. Returns the given one if this CPU has objects, or cannot have magazines now.
    pub(super) fn supply(&self, full: Magazine) -> Option<Magazine> {
        self.load(full, Lack::Objects)
    }

    /// Loads a magazine with room, and returns the full one that it displaces, if there was one.
    /// Returns the given one if this CPU has room, or cannot have magazines now.
    pub(super) fn relieve(&self, empty: Magazine) -> Option<Magazine> {
        self.load(empty, Lack::Room)
    }

    fn load(&self, magazine: Magazine, lack: Lack) -> Option<Magazine> {
        match &self.0 {
            Flavour::Rseq(cpus) => cpus.load(magazine, lack),
            Flavour::Locked(cpus) => cpus.load(magazine, lack),
        }
    }

    /// Takes the magazines of all CPUs, while other threads pop and push. From then on the CPUs
    /// have none, until they are given some. Enters the operating system; no lock is held while
    /// `take` runs.
    ///
    /// # Errors
    /// [`NotRestarted`], where processes share memory: it took none.
    pub(super) fn drain(&self, take: &mut dyn FnMut(Magazine)) -> Result<(), NotRestarted> {
        let mut drained = MagazineList::new();
        match &self.0 {
            Flavour::Rseq(cpus) => cpus.drain(&mut drained)?,
            Flavour::Locked(cpus) => cpus.drain(&mut drained),
        }
        while let Some(magazine) = drained.pop() {
            take(magazine);
        }
        Ok(())
    }

    /// Reads the figures of the magazines of all CPUs, from any CPU, while other threads pop and
    /// push: a hint.
    ///
    /// # Safety
    /// No magazine that was ever loaded here is freed meanwhile.
    pub(super) unsafe fn held(&self) -> Held {
        let mut held = Held::default();
        let mut add = |pair: &Pair| held.add(pair);
        match &self.0 {
            Flavour::Rseq(cpus) => cpus.look(&mut add),
            Flavour::Locked(cpus) => cpus.look(&mut add),
        }
        held
    }

    /// Takes all magazines, with exclusive access.
    pub(super) fn take_all(&mut self, take: &mut dyn FnMut(Magazine)) {
        match &mut self.0 {
            Flavour::Rseq(cpus) => cpus.take_all(take),
            Flavour::Locked(cpus) => cpus.take_all(take),
        }
    }
}

#[cfg(all(test, loom))]
impl Local {
    /// Puts one or two magazines on the first CPU, the last one loaded.
    fn place(&self, magazines: impl IntoIterator<Item = Magazine>) {
        let pair = match &self.0 {
            Flavour::Rseq(cpus) => cpus.pair_of_first(),
            Flavour::Locked(cpus) => cpus.pair_of_first(),
        };
        for magazine in magazines {
            pair.set(magazine.into_raw(), pair.loaded.load(Relaxed));
        }
    }
}

#[cfg(all(test, loom))]
mod loom;
#[cfg(all(test, not(loom), target_os = "linux", target_arch = "x86_64"))]
mod stress;

#[cfg(all(test, not(loom)))]
mod tests;
