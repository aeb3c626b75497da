//! A local/global lock: data in parts, one for each CPU, with a lock each.
//!
//! A thread that works on one part takes its *local lock*, most often that of its own CPU: then the
//! lock's cache line is there already, and no other thread wants it. A thread that works on the
//! whole takes the *global lock*: all local locks, in the order of the CPUs. So the frequent
//! operation never writes a line that two CPUs write, and the rare one pays for all. (This is the
//! lglock of Linux 2.6.36, which came with its files_lock scaling.)
//!
//! The local lock protects the part and not the CPU: a thread that is moved to another CPU while it
//! holds one continues as before, and a part can be locked from anywhere.
//!
//! Two threads that take the global lock meet at the first part, so they do not wait for each other
//! in a cycle. A thread takes one lock, local or global, at a time. A thread that asks for a second
//! one while it holds the first may wait forever: for itself, or for another thread that does the
//! same.
//!
//! A waiter looks again and again before it sleeps, so these locks are meant for a few
//! instructions. A holder must not wait for something else, or call foreign code. A holder of the
//! global lock may need it for longer, for a consistent view of the whole: then all others wait,
//! and its documentation should say so.

use core::marker::PhantomData;
use core::mem;

use crate::fallible::OutOfMemory;
use crate::percpu::{self, PerCpu};
use crate::spin::{SpinGuard, SpinLock};

/// A value for each CPU, under a lock each, that can be locked as a whole.
///
/// ```
/// use fdtable_sync::lglock::LgLock;
///
/// let opened = LgLock::try_new(|_cpu| 0_u64)?;
/// *opened.lock_local() += 1;
/// *opened.lock_local_of(1) += 1;
/// assert_eq!(opened.lock_global().iter().sum::<u64>(), 2);
/// # Ok::<(), fdtable_sync::fallible::OutOfMemory>(())
/// ```
#[doc(alias = "lglock")]
pub struct LgLock<T> {
    parts: PerCpu<SpinLock<T>>,
}

/// The right to use all parts. Their locks are held until this is dropped.
#[must_use = "the parts are unlocked when this is dropped"]
pub struct GlobalGuard<'l, T> {
    lock: &'l LgLock<T>,
    /// Not `Send`: locks are released on the thread that took them.
    stays: PhantomData<*const ()>,
}

impl<T> LgLock<T> {
    /// Makes a part for each CPU that the machine could have; `make` gets the index of each, from
    /// 0. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for the parts.
    pub fn try_new(make: impl FnMut(usize) -> T) -> Result<Self, OutOfMemory> {
        // In a model enough for a part of another CPU.
        let count = if cfg!(loom) { 2 } else { percpu::copies() };
        Self::try_with_parts(count, make)
    }

    /// Makes `count` parts, a power of two: one is like an ordinary lock. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for the parts.
    ///
    /// # Panics
    /// If `count` is not a power of two.
    pub fn try_with_parts(
        count: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> Result<Self, OutOfMemory> {
        let parts = PerCpu::try_with_copies(count, |cpu| SpinLock::new(make(cpu)))?;
        Ok(Self { parts })
    }

    /// Locks the part of the CPU that runs the thread now. May wait for another holder.
    #[doc(alias = "lg_local_lock")]
    #[inline]
    pub fn lock_local(&self) -> SpinGuard<'_, T> {
        self.lock_local_of(percpu::current())
    }

    /// Locks the part of CPU `cpu`; indices past the last part wrap around. May wait for another
    /// holder.
    #[doc(alias = "lg_local_lock_cpu")]
    #[inline]
    pub fn lock_local_of(&self, cpu: usize) -> SpinGuard<'_, T> {
        self.parts.of(cpu).lock()
    }

    /// Locks all parts. May wait for each of their holders.
    #[doc(alias = "lg_global_lock")]
    pub fn lock_global(&self) -> GlobalGuard<'_, T> {
        // weaken: global-lock-of-one-part
        for part in self.parts.iter() {
            mem::forget(part.lock());
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

impl<T> GlobalGuard<'_, T> {
    /// Iterates over the parts, in the order of the CPUs.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        // SAFETY: only the holder of its lock touches a value, and `self` is borrowed.
        let value = |part: &SpinLock<T>| unsafe { &*part.data_ptr().cast_const() };
        self.lock.parts.iter().map(value)
    }

    /// Iterates over the parts, in the order of the CPUs, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        // SAFETY: only the holder of its lock touches a value, `self` is borrowed alone, and each
        // part comes once.
        let value = |part: &SpinLock<T>| unsafe { &mut *part.data_ptr() };
        self.lock.parts.iter().map(value)
    }
}

impl<T> Drop for GlobalGuard<'_, T> {
    fn drop(&mut self) {
        for part in self.lock.parts.iter() {
            // SAFETY: taken with all others when this was made, and the parts are not borrowed any
            // more.
            unsafe { part.force_unlock() };
        }
    }
}

#[cfg(all(test, loom))]
mod loom;

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
                assert_eq!(all.iter().sum::<u64>(), before, "no thread adds meanwhile");
            }
        });
        assert_eq!(counts.lock_global().iter().sum::<u64>(), 30_000);
    }

    #[test]
    fn a_part_can_be_locked_from_another_cpu() {
        let parts = LgLock::try_new(|cpu| cpu).expect("memory");
        for cpu in 0..parts.parts() {
            let part = parts.lock_local_of(cpu + parts.parts());
            assert_eq!(*part, cpu);
        }
    }

    #[test]
    fn a_holder_of_all_parts_may_change_them() {
        let parts = LgLock::try_new(|_cpu| 1).expect("memory");
        parts.lock_global().iter_mut().for_each(|part| *part += 1);
        assert!(parts.lock_global().iter().all(|&part| part == 2));
    }
}
