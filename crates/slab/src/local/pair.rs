//! The two magazines of one CPU.

use core::ptr::NonNull;

use crate::magazine::{Lack, Magazine, Rounds};
use fdtable_sync::lock::{LockTag, RawLock};
use fdtable_sync::platform::atomic::AtomicPtr;
use fdtable_sync::platform::atomic::Ordering::Relaxed;

/// Each lock is found by its place, so it needs no tag of its own.
const TAG: LockTag = LockTag::of(0);

/// The two magazines of a CPU, or [the sentinel](crate::magazine::NONE). If there is none loaded,
/// there is no previous one either. The sequences store both at once, in this order.
#[repr(C)]
pub(super) struct Pair {
    pub(super) loaded: AtomicPtr<Rounds>,
    pub(super) previous: AtomicPtr<Rounds>,
    /// Excludes other threads where there are no sequences. These may run on any CPU: a thread may
    /// have moved since it found the pair.
    lock: RawLock,
}

/// For a thread that has exclusive use of the CPU's magazines. All `Relaxed`: the means of
/// exclusion orders them.
impl Pair {
    pub(super) fn new() -> Self {
        Self {
            loaded: AtomicPtr::new(Rounds::none()),
            previous: AtomicPtr::new(Rounds::none()),
            lock: RawLock::new(TAG),
        }
    }

    /// Runs `use_it` with the lock. It does not panic.
    #[inline]
    pub(super) fn with<A>(&self, use_it: impl FnOnce(&Self) -> A) -> A {
        // weaken: magazines-without-their-lock
        self.lock.lock(TAG);
        let answer = use_it(self);
        // SAFETY: taken above.
        // weaken: magazines-without-their-lock
        unsafe { self.lock.unlock(TAG) };
        answer
    }

    pub(super) fn set(&self, loaded: *const Rounds, previous: *const Rounds) {
        self.loaded.store(loaded.cast_mut(), Relaxed);
        self.previous.store(previous.cast_mut(), Relaxed);
    }

    pub(super) fn rounds(place: &AtomicPtr<Rounds>) -> &Rounds {
        // SAFETY: never null; the sentinel lives forever, and a magazine that is here belongs to
        // the CPU.
        unsafe { &*place.load(Relaxed) }
    }

    #[inline]
    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        if Self::rounds(&self.loaded).lacks(Lack::Objects) {
            self.exchange(Lack::Objects);
        }
        Self::rounds(&self.loaded).pop()
    }

    #[inline]
    pub(super) fn push(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        if Self::rounds(&self.loaded).lacks(Lack::Room) {
            self.exchange(Lack::Room);
        }
        Self::rounds(&self.loaded).push(object)
    }

    /// Exchanges the two if the previous one does not lack that.
    pub(super) fn exchange(&self, lack: Lack) {
        if Self::rounds(&self.previous).lacks(lack) {
            return;
        }
        self.set(self.previous.load(Relaxed), self.loaded.load(Relaxed));
    }

    /// Loads a magazine if both lack that; the loaded one becomes the previous one, and the
    /// previous one is returned. Otherwise returns the given one.
    pub(super) fn load(&self, magazine: Magazine, lack: Lack) -> Option<Magazine> {
        let both = [&self.loaded, &self.previous];
        if both.iter().any(|place| !Self::rounds(place).lacks(lack)) {
            return Some(magazine);
        }
        let displaced = self.previous.load(Relaxed);
        self.set(magazine.into_raw(), self.loaded.load(Relaxed));
        // SAFETY: it is in no place any more; the exclusive user of the CPU's magazines takes it.
        unsafe { Magazine::from_raw(displaced) }
    }

    /// Takes those that are there.
    pub(super) fn take(&self) -> impl Iterator<Item = Magazine> + use<> {
        let places = [&self.loaded, &self.previous];
        let taken = places.map(|place| {
            let rounds = place.load(Relaxed);
            place.store(Rounds::none(), Relaxed);
            // SAFETY: it is in no place any more; the exclusive user of the CPU's magazines takes
            // it.
            unsafe { Magazine::from_raw(rounds) }
        });
        taken.into_iter().flatten()
    }
}
