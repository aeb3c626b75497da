//! A local/global lock: something in parts, one for each processor, with a lock each.
//!
//! Who has to do with one part takes its *local lock*, most often that of its own processor: then
//! the lock's cache line is there already, and nobody else wants it. Who has to do with the whole
//! takes the *global lock*: all local locks, in the order of the processors. So the frequent
//! operation never writes a line that two processors write, and the rare one pays for all. (The
//! lglock of Linux 2.6.36, which its files_lock scaling brought.)
//!
//! The local lock protects the part and not the processor: a thread that is moved to another
//! processor while it holds one goes on as before, and a part can be locked from anywhere.
//!
//! Two who take the global lock meet at the first part, so they do not wait for each other in a
//! ring. A thread takes one lock, local or global, at a time; who asks for a second while it holds
//! the first may wait for itself, or for another who does the same, for ever.
//!
//! Who waits for a lock looks again and again before it sleeps, so they are meant for a few
//! instructions. Nobody may wait for something else, or call foreign code, while it holds one. Who
//! has the global lock may need it for longer, to see one moment of the whole: then all others
//! wait, and it should say so to its callers.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use crate::fallible::OutOfMemory;
use crate::lock::{SpinGuard, SpinLock};
use crate::percpu::{self, PerCpu};

/// A value for each processor, under a lock each, that can be locked as a whole.
///
/// ```
/// use fdtable_base::lglock::LgLock;
///
/// let opened = LgLock::try_new(|_cpu| 0_u64)?;
/// *opened.lock_local() += 1;
/// let cpu = opened.lock_local().cpu();
/// *opened.lock_local_of(cpu) += 1;
/// assert_eq!(opened.lock_global().iter().sum::<u64>(), 2);
/// # Ok::<(), fdtable_base::fallible::OutOfMemory>(())
/// ```
#[doc(alias = "lglock")]
pub struct LgLock<T> {
    parts: PerCpu<SpinLock<T>>,
}

/// The right to use one part. Its lock is held until this is dropped.
#[must_use = "the part is unlocked when this is dropped"]
pub struct LocalGuard<'l, T> {
    part: SpinGuard<'l, T>,
    cpu: usize,
}

/// The right to use all parts. Their locks are held until this is dropped.
#[must_use = "the parts are unlocked when this is dropped"]
pub struct GlobalGuard<'l, T> {
    lock: &'l LgLock<T>,
    /// Locks are given back where they were taken.
    stays: PhantomData<*const ()>,
}

impl<T> LgLock<T> {
    /// Makes a part for each processor that the machine could have; `make` is given the number of
    /// each, from 0. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for the parts.
    pub fn try_new(mut make: impl FnMut(usize) -> T) -> Result<Self, OutOfMemory> {
        let part = |cpu| SpinLock::new(make(cpu));
        #[cfg(not(loom))]
        let parts = PerCpu::try_new(part)?;
        // Enough for a part of another processor.
        #[cfg(loom)]
        let parts = PerCpu::try_with_copies(2, part)?;
        Ok(Self { parts })
    }

    /// Makes one part, which all processors share: a lock like others. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for the part.
    pub fn try_whole(value: T) -> Result<Self, OutOfMemory> {
        Ok(Self {
            parts: PerCpu::try_one(SpinLock::new(value))?,
        })
    }

    /// Locks the part of the processor that runs the thread now. May wait for another holder.
    #[doc(alias = "lg_local_lock")]
    #[inline]
    pub fn lock_local(&self) -> LocalGuard<'_, T> {
        self.lock_local_of(percpu::current())
    }

    /// Locks the part of processor `cpu`; numbers past the last part wrap around. May wait for
    /// another holder.
    #[doc(alias = "lg_local_lock_cpu")]
    #[inline]
    pub fn lock_local_of(&self, cpu: usize) -> LocalGuard<'_, T> {
        LocalGuard {
            part: self.parts.of(cpu).lock(),
            cpu: self.parts.clamp(cpu),
        }
    }

    /// Locks all parts. May wait for each of their holders.
    #[doc(alias = "lg_global_lock")]
    pub fn lock_global(&self) -> GlobalGuard<'_, T> {
        for part in self.parts.iter() {
            part.lock_raw();
        }
        GlobalGuard {
            lock: self,
            stays: PhantomData,
        }
    }

    /// Returns how many parts there are: a power of two.
    pub fn parts(&self) -> usize {
        self.parts.iter().count()
    }
}

impl<T> LocalGuard<'_, T> {
    /// Returns the number of the part, below [`LgLock::parts`].
    #[inline]
    pub fn cpu(&self) -> usize {
        self.cpu
    }
}

impl<T> Deref for LocalGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.part
    }
}

impl<T> DerefMut for LocalGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.part
    }
}

impl<T> GlobalGuard<'_, T> {
    /// Iterates over the parts, in the order of the processors.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        // SAFETY: only the holder of its lock touches a value, and `self` is borrowed.
        let value = |part: &SpinLock<T>| unsafe { &*part.as_ptr().cast_const() };
        self.lock.parts.iter().map(value)
    }

    /// Iterates over the parts, in the order of the processors, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        // SAFETY: only the holder of its lock touches a value, `self` is borrowed alone, and each
        // part comes once.
        let value = |part: &SpinLock<T>| unsafe { &mut *part.as_ptr() };
        self.lock.parts.iter().map(value)
    }
}

impl<T> Drop for GlobalGuard<'_, T> {
    fn drop(&mut self) {
        for part in self.lock.parts.iter() {
            // SAFETY: taken with all others when this was made, and the parts are not borrowed any
            // more.
            unsafe { part.unlock_raw() };
        }
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_global_lock_sees_what_all_local_ones_did() {
        let counts = LgLock::try_new(|_cpu| 0_u64).expect("memory");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        *counts.lock_local() += 1;
                    }
                });
            }
            for _ in 0..100 {
                let all = counts.lock_global();
                let before: u64 = all.iter().sum();
                std::thread::yield_now();
                assert_eq!(all.iter().sum::<u64>(), before, "nobody adds meanwhile");
            }
        });
        assert_eq!(counts.lock_global().iter().sum::<u64>(), 30_000);
    }

    #[test]
    fn a_part_can_be_locked_from_another_processor() {
        let parts = LgLock::try_new(|cpu| cpu).expect("memory");
        for cpu in 0..parts.parts() {
            let part = parts.lock_local_of(cpu + parts.parts());
            assert_eq!((*part, part.cpu()), (cpu, cpu));
        }
    }

    #[test]
    fn who_has_all_parts_may_change_them() {
        let parts = LgLock::try_new(|_cpu| 1).expect("memory");
        parts.lock_global().iter_mut().for_each(|part| *part += 1);
        assert!(parts.lock_global().iter().all(|&part| part == 2));
    }
}
