//! Allocation of simulated CPUs: no two threads of the process are on one.
//!
//! A thread writes per-CPU data without atomics. So a simulated CPU belongs to one thread at a
//! time, and the kernel gives its number to no thread: the numbers of simulated CPUs begin after
//! those of all CPUs that this machine could have.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::directory::{CpuSet, MAX_CPUS};
use crate::error::Error;

/// The claimed CPUs. The lock also orders the accesses on a CPU before those of its next thread.
static TAKEN: Mutex<CpuSet> = Mutex::new(CpuSet::NONE);

thread_local! {
    /// True if this thread is on a simulated CPU. No destructor, so that a claim may be dropped at
    /// the very end of its thread.
    static CLAIMED: Cell<bool> = const { Cell::new(false) };
}

/// The right of this thread to a simulated CPU, released on drop.
#[derive(Debug)]
pub(crate) struct Claim {
    index: usize,
    /// It belongs to this thread: neither sent nor shared.
    _thread: PhantomData<*mut ()>,
}

impl Claim {
    /// Claims the first free simulated CPU.
    pub(crate) fn first_free() -> Result<Self, Error> {
        if CLAIMED.get() {
            return Err(Error::AlreadySimulated);
        }
        let mut taken = taken();
        let mut all = 0..MAX_CPUS;
        let index = all
            .find(|&cpu| !taken.has(cpu))
            .ok_or(Error::AllSimulated)?;
        *taken = taken.with(index);
        CLAIMED.set(true);
        Ok(Self {
            index,
            _thread: PhantomData,
        })
    }

    /// Returns its index, from 0.
    pub(crate) fn index(&self) -> usize {
        self.index
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut taken = taken();
        *taken = taken.without(self.index);
        CLAIMED.set(false);
    }
}

fn taken() -> MutexGuard<'static, CpuSet> {
    // The set is always consistent: it is replaced by an assignment.
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Serializes the tests, since claims are global in the process.
    static TURN: Mutex<()> = Mutex::new(());

    fn turn() -> MutexGuard<'static, ()> {
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn threads_that_claim_at_once_never_get_the_same() {
        const THREADS: usize = 8;
        let _turn = turn();
        let all_hold = Barrier::new(THREADS);
        let claim = || {
            let mut held = [0; 200];
            for index in &mut held {
                all_hold.wait();
                let claim = Claim::first_free().unwrap();
                *index = claim.index();
                all_hold.wait();
            }
            held
        };
        let held: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(claim)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        for round in 0..200 {
            let mut indices: Vec<_> = held.iter().map(|held| held[round]).collect();
            indices.sort_unstable();
            assert!(indices.iter().copied().eq(0..THREADS), "{indices:?}");
        }
    }

    #[test]
    fn a_released_cpu_is_claimed_again() {
        let _turn = turn();
        let first = Claim::first_free().unwrap();
        assert_eq!(first.index(), 0);
        let second = || Claim::first_free().map(|claim| claim.index());
        assert_eq!(thread::spawn(second).join().unwrap().unwrap(), 1);
        assert_eq!(thread::spawn(second).join().unwrap().unwrap(), 1);
        drop(first);
        assert_eq!(thread::spawn(second).join().unwrap().unwrap(), 0);
    }

    #[test]
    fn a_thread_is_on_one_cpu() {
        let _turn = turn();
        let claim = Claim::first_free().unwrap();
        assert!(matches!(Claim::first_free(), Err(Error::AlreadySimulated)));
        drop(claim);
        assert_eq!(Claim::first_free().unwrap().index(), 0);
    }

    #[test]
    fn claims_end_at_the_maximum() {
        let _turn = turn();
        let former = std::mem::replace(&mut *taken(), CpuSet::of_all_but(77));
        let claim = Claim::first_free().unwrap();
        assert_eq!(claim.index(), 77);
        let other = || Claim::first_free().map(|claim| claim.index());
        let refused = thread::spawn(other).join().unwrap();
        assert!(matches!(refused, Err(Error::AllSimulated)));
        drop(claim);
        *taken() = former;
    }
}
