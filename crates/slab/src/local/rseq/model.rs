//! The sequences for the model checker, step by step as in the assembly.
//!
//! Each CPU has a lock and a number that counts the interruptions there. A thread that begins a
//! sequence interrupts the thread in a sequence on that CPU, as it could not run there otherwise; a
//! restart interrupts all. Every step is taken with the lock held, and only by a thread that was
//! not interrupted since it began. So steps on one CPU are in order, as on real hardware, and those
//! of different CPUs are not.

use core::cell::Cell;
use core::ptr::NonNull;

use super::Cpus;
use crate::local::pair::Pair;
use crate::magazine::{COUNT, HIT, Lack, Rounds};
use fdtable_sync::platform::Mutex;
use fdtable_sync::platform::atomic::Ordering::Relaxed;

const CPUS: usize = 2;

loom::lazy_static! {
    static ref INTERRUPTIONS: [Mutex<usize>; CPUS] = core::array::from_fn(|_| Mutex::new(0));
}

loom::thread_local! {
    static CPU: Cell<usize> = Cell::new(0);
}

std::thread_local! {
    static THERE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, which explores a model, as if sequences can be restarted.
#[cfg(test)]
pub(crate) fn with_sequences(f: impl FnOnce()) {
    // All threads of a model run on the thread that explores it.
    THERE.set(true);
    f();
    THERE.set(false);
}

/// Moves the thread to another CPU.
#[cfg(test)]
pub(in crate::local) fn move_to(cpu: usize) {
    CPU.with(|own| own.set(cpu));
}

/// A stand-in: there are no areas to find.
#[derive(Clone, Copy)]
pub(super) struct Area;

impl Area {
    pub(super) fn find() -> Option<Self> {
        THERE.get().then_some(Self)
    }
}

pub(super) fn copies() -> usize {
    CPUS
}

/// A sequence that has begun.
struct Sequence<'c> {
    cpu: usize,
    interruptions: usize,
    pair: &'c Pair,
}

/// The sequence begins again.
struct Interrupted;

impl<'c> Sequence<'c> {
    /// (A), (B)
    fn begin(cpus: &'c Cpus) -> Self {
        let cpu = CPU.with(Cell::get);
        let mut interruptions = INTERRUPTIONS[cpu].lock();
        *interruptions += 1;
        Self {
            cpu,
            interruptions: *interruptions,
            pair: cpus.pairs.of(cpu),
        }
    }

    fn step<A>(&self, act: impl FnOnce() -> A) -> Result<A, Interrupted> {
        let interruptions = INTERRUPTIONS[self.cpu].lock();
        if *interruptions != self.interruptions {
            return Err(Interrupted);
        }
        Ok(act())
    }

    fn loaded(&self) -> Result<&'c Rounds, Interrupted> {
        self.step(|| Pair::rounds(&self.pair.loaded))
    }

    fn previous(&self) -> Result<&'c Rounds, Interrupted> {
        self.step(|| Pair::rounds(&self.pair.previous))
    }

    fn is_stopped(&self, cpus: &Cpus) -> Result<bool, Interrupted> {
        self.step(|| cpus.stopped.load(Relaxed))
    }
}

fn run<'c, A>(cpus: &'c Cpus, steps: impl Fn(&Sequence<'c>) -> Result<A, Interrupted>) -> A {
    loop {
        if let Ok(answer) = steps(&Sequence::begin(cpus)) {
            return answer;
        }
    }
}

pub(super) fn pop(cpus: &Cpus) -> *mut u8 {
    run(cpus, |sequence| {
        let rounds = sequence.loaded()?;
        let tally = sequence.step(|| rounds.tally.load(Relaxed))?;
        let Some(last) = (tally & COUNT).checked_sub(1) else {
            return Ok(core::ptr::null_mut());
        };
        let object = sequence.step(|| rounds.objects[last].load(Relaxed))?;
        sequence.step(|| rounds.tally.store(tally - 1 + HIT, Relaxed))?;
        Ok(object)
    })
}

pub(super) fn push(cpus: &Cpus, object: NonNull<u8>) -> bool {
    run(cpus, |sequence| {
        let rounds = sequence.loaded()?;
        let tally = sequence.step(|| rounds.tally.load(Relaxed))?;
        if tally & COUNT >= rounds.ceiling {
            return Ok(false);
        }
        let place = &rounds.objects[tally & COUNT];
        sequence.step(|| place.store(object.as_ptr(), Relaxed))?;
        sequence.step(|| rounds.tally.store(tally + 1, Relaxed))?;
        Ok(true)
    })
}

pub(super) fn exchange(cpus: &Cpus, lack: Lack) -> bool {
    run(cpus, |sequence| {
        let loaded = sequence.loaded()?;
        if !sequence.step(|| loaded.lacks(lack))? {
            return Ok(false);
        }
        let previous = sequence.previous()?;
        if sequence.step(|| previous.lacks(lack))? || sequence.is_stopped(cpus)? {
            return Ok(false);
        }
        sequence.step(|| sequence.pair.set(previous, loaded))?;
        Ok(true)
    })
}

pub(super) fn load(cpus: &Cpus, magazine: *mut Rounds, lack: Lack) -> *mut Rounds {
    run(cpus, |sequence| {
        let loaded = sequence.loaded()?;
        if !sequence.step(|| loaded.lacks(lack))? {
            return Ok(magazine);
        }
        let previous = sequence.previous()?;
        if !sequence.step(|| previous.lacks(lack))? || sequence.is_stopped(cpus)? {
            return Ok(magazine);
        }
        sequence.step(|| sequence.pair.set(magazine, loaded))?;
        Ok(core::ptr::from_ref(previous).cast_mut())
    })
}

/// Restarts every sequence that has begun and not ended.
pub(super) fn restart(_: Area) {
    fdtable_sync::fence::full();
    for interruptions in INTERRUPTIONS.iter() {
        *interruptions.lock() += 1;
    }
    fdtable_sync::fence::full();
}
