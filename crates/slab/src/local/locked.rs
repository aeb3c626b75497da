//! The magazines of the CPUs, each pair behind a lock.
//!
//! The lock belongs to a copy of [`PerCpu`]. The thread may have moved to any CPU since it found
//! the copy: its operations are correct from anywhere.

use core::ptr::NonNull;

use super::pair::Pair;
use crate::magazine::{Lack, Magazine, MagazineList};
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::lock::{LockTag, RawLock};
use fdtable_sync::percpu::PerCpu;

/// Each lock is found by its place, so it needs no tag of its own.
const TAG: LockTag = LockTag::of(0);

/// The magazines of all CPUs.
pub(super) struct Cpus(PerCpu<Cpu>);

struct Cpu {
    lock: RawLock,
    /// Only the holder of the lock uses it.
    pair: Pair,
}

impl Cpus {
    pub(super) fn try_new() -> Result<Self, OutOfMemory> {
        let cpus = PerCpu::try_new(|_| Cpu {
            lock: RawLock::new(TAG),
            pair: Pair::new(),
        })?;
        Ok(Self(cpus))
    }

    #[inline(never)]
    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        self.0.this().with(Pair::pop)
    }

    #[inline(never)]
    pub(super) fn push(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        self.0.this().with(|pair| pair.push(object))
    }

    pub(super) fn load(&self, magazine: Magazine, lack: Lack) -> Option<Magazine> {
        self.0.this().with(|pair| pair.load(magazine, lack))
    }

    pub(super) fn drain(&self, drained: &mut MagazineList) {
        for cpu in self.0.iter() {
            let taken = cpu.with(Pair::take);
            taken.into_iter().flatten().for_each(|it| drained.push(it));
        }
    }

    /// Shows the magazines of each CPU.
    pub(super) fn look(&self, look: &mut dyn FnMut(&Pair)) {
        self.0.iter().for_each(|cpu| cpu.with(&mut *look));
    }

    #[cfg(all(test, loom))]
    pub(super) fn pair_of_first(&self) -> &Pair {
        &self.0.of(0).pair
    }

    /// For exclusive access.
    pub(super) fn take_all(&mut self, take: &mut dyn FnMut(Magazine)) {
        self.0.iter().for_each(|cpu| cpu.pair.take_each(take));
    }
}

impl Cpu {
    /// Runs `use_it` on the magazines. It does not panic.
    #[inline]
    fn with<A>(&self, use_it: impl FnOnce(&Pair) -> A) -> A {
        // weaken: magazines-without-their-lock
        self.lock.lock(TAG);
        let answer = use_it(&self.pair);
        // SAFETY: taken above.
        // weaken: magazines-without-their-lock
        unsafe { self.lock.unlock(TAG) };
        answer
    }
}
