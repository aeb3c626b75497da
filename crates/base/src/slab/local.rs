//! The magazines of the processors: where most objects come from and go back to.
//!
//! Each processor has two magazines, `loaded` and `previous`. A thread takes an object from the
//! loaded one of the processor it is on, and gives one back to it. Where that one lacks what is
//! asked for and the previous one does not, they are exchanged. So a thread that takes and gives at
//! the edge of a magazine goes on with the two that are there: only after a whole magazine of
//! one or the other does it need another, from the depot (Bonwick and Adams, USENIX 2001).
//!
//! The thread may be moved to another processor between any two operations, and each is correct
//! wherever it happens. How threads exclude each other is found out when the magazines are made:
//!
//! - [`rseq`]: by restartable sequences, on x86-64 Linux with glibc ≥ 2.35. Taking an object and
//!   giving it back is 3 ns in all.
//! - [`locked`]: with a lock for each processor, everywhere else and in models: 7 ns.
//!
//! Both keep a [`Pair`] for each processor and do the same with it.

use core::ptr::NonNull;

use super::magazine::{Lack, Magazine, MagazineList, Rounds};
use crate::fallible::OutOfMemory;
use crate::sync::atomic::AtomicPtr;
use crate::sync::atomic::Ordering::Relaxed;

mod locked;
mod rseq;

#[cfg(all(test, loom))]
pub(super) use rseq::sequence::with_sequences;

/// The magazines of all processors. Who drops it has [taken them](Local::take_all) before; else
/// they leak, with their objects. On a line of its own, which everybody reads.
#[repr(align(64))]
pub(super) struct Local(Flavour);

/// How the threads on one processor exclude each other.
enum Flavour {
    /// Restartable sequences.
    Rseq(rseq::Cpus),
    /// A lock for each processor.
    Locked(locked::Cpus),
}

/// The two magazines of a processor, or [what stands for none](super::magazine::NONE). If there is
/// none loaded, there is no previous one either. The sequences store both at once, in this order.
#[repr(C)]
struct Pair {
    loaded: AtomicPtr<Rounds>,
    previous: AtomicPtr<Rounds>,
}

/// What processors have in their magazines.
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
    /// Makes a place for the magazines of each processor, without any. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for the places.
    pub(super) fn try_new() -> Result<Self, OutOfMemory> {
        Ok(Self(match rseq::Cpus::try_new()? {
            Some(cpus) => Flavour::Rseq(cpus),
            None => Flavour::Locked(locked::Cpus::try_new()?),
        }))
    }

    /// Takes an object from this processor's magazines, if they have one. Never waits with
    /// sequences; with locks, for who is in here.
    #[inline(always)]
    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        match &self.0 {
            Flavour::Rseq(cpus) => cpus.pop(),
            Flavour::Locked(cpus) => cpus.pop(),
        }
    }

    /// Puts an object into this processor's magazines. Waits as [`pop`](Self::pop) does.
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
    /// one. Returns the given one where this processor has objects, or cannot have magazines now.
    pub(super) fn supply(&self, full: Magazine) -> Option<Magazine> {
        self.load(full, Lack::Objects)
    }

    /// Loads a magazine with room, and returns the full one that it displaces, if there was one.
    /// Returns the given one where this processor has room, or cannot have magazines now.
    pub(super) fn relieve(&self, empty: Magazine) -> Option<Magazine> {
        self.load(empty, Lack::Room)
    }

    fn load(&self, magazine: Magazine, lack: Lack) -> Option<Magazine> {
        match &self.0 {
            Flavour::Rseq(cpus) => cpus.load(magazine, lack),
            Flavour::Locked(cpus) => cpus.load(magazine, lack),
        }
    }

    /// Takes the magazines of all processors, while others pop and push. From then on they have
    /// none, until they are given some. Enters the operating system; nothing is held while `take`
    /// runs.
    pub(super) fn drain(&self, take: &mut dyn FnMut(Magazine)) {
        let mut drained = MagazineList::new();
        match &self.0 {
            Flavour::Rseq(cpus) => cpus.drain(&mut drained),
            Flavour::Locked(cpus) => cpus.drain(&mut drained),
        }
        while let Some(magazine) = drained.pop() {
            take(magazine);
        }
    }

    /// Looks at the magazines of all processors, from wherever the thread is, while others pop and
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

    /// Takes all magazines, for who is alone.
    pub(super) fn take_all(&mut self, take: &mut dyn FnMut(Magazine)) {
        match &mut self.0 {
            Flavour::Rseq(cpus) => cpus.pairs().for_each(|pair| pair.take_each(take)),
            Flavour::Locked(cpus) => cpus.pairs().for_each(|pair| pair.take_each(take)),
        }
    }
}

#[cfg(all(test, loom))]
impl Local {
    /// Puts one or two magazines on the first processor, the last one loaded.
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

/// For who may use the magazines of the processor, alone. All `Relaxed`: what makes it so orders
/// them.
impl Pair {
    fn new() -> Self {
        Self {
            loaded: AtomicPtr::new(Rounds::none()),
            previous: AtomicPtr::new(Rounds::none()),
        }
    }

    fn set(&self, loaded: *const Rounds, previous: *const Rounds) {
        self.loaded.store(loaded.cast_mut(), Relaxed);
        self.previous.store(previous.cast_mut(), Relaxed);
    }

    fn rounds(place: &AtomicPtr<Rounds>) -> &Rounds {
        // SAFETY: never null; what stands for none lives for ever, and a magazine that is here
        // belongs to the processor.
        unsafe { &*place.load(Relaxed) }
    }

    #[inline]
    fn pop(&self) -> Option<NonNull<u8>> {
        if Self::rounds(&self.loaded).lacks(Lack::Objects) {
            self.exchange(Lack::Objects);
        }
        let loaded = Self::rounds(&self.loaded);
        let object = loaded.pop()?;
        loaded.count_hit();
        Some(object)
    }

    #[inline]
    fn push(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        if Self::rounds(&self.loaded).lacks(Lack::Room) {
            self.exchange(Lack::Room);
        }
        Self::rounds(&self.loaded).push(object)
    }

    /// Exchanges the two if the previous one does not lack that.
    fn exchange(&self, lack: Lack) {
        if Self::rounds(&self.previous).lacks(lack) {
            return;
        }
        self.set(self.previous.load(Relaxed), self.loaded.load(Relaxed));
    }

    /// Loads a magazine if both lack that; the loaded one becomes the previous one, and the
    /// previous one is returned. Otherwise returns the given one.
    fn load(&self, magazine: Magazine, lack: Lack) -> Option<Magazine> {
        let both = [&self.loaded, &self.previous];
        if both.iter().any(|place| !Self::rounds(place).lacks(lack)) {
            return Some(magazine);
        }
        let displaced = self.previous.load(Relaxed);
        self.set(magazine.into_raw(), self.loaded.load(Relaxed));
        // SAFETY: it is in no place any more; who uses the processor alone takes it.
        unsafe { Magazine::from_raw(displaced) }
    }

    fn take_each(&self, take: &mut dyn FnMut(Magazine)) {
        self.take().into_iter().flatten().for_each(take);
    }

    /// Takes both.
    fn take(&self) -> [Option<Magazine>; 2] {
        [&self.loaded, &self.previous].map(|place| {
            let rounds = place.load(Relaxed);
            place.store(Rounds::none(), Relaxed);
            // SAFETY: it is in no place any more; who uses the processor alone takes it.
            unsafe { Magazine::from_raw(rounds) }
        })
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom), target_os = "linux", target_arch = "x86_64"))]
mod stress;

#[cfg(all(test, not(loom)))]
mod tests;
