//! Sequences for the model checker, step by step as in the assembly.
//!
//! Each CPU has a lock and a number that counts the interruptions there. A thread that begins a
//! sequence interrupts the thread in a sequence on that CPU, as it could not run there otherwise; a
//! restart interrupts all. Every step is taken with the lock held, and only by a thread that was
//! not interrupted since it began. So steps on one CPU are in order, as on real hardware, and those
//! of different CPUs are not.

use core::cell::Cell;

use crate::platform::Mutex;

/// How many CPUs models have.
pub const CPUS: usize = 2;

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
pub fn with_sequences(f: impl FnOnce()) {
    // All threads of a model run on the thread that explores it.
    THERE.set(true);
    f();
    THERE.set(false);
}

/// Moves the calling thread to another CPU.
pub fn move_to(cpu: usize) {
    CPU.with(|own| own.set(cpu));
}

/// Returns the CPU of the calling thread.
pub fn cpu() -> usize {
    CPU.with(Cell::get)
}

/// A stand-in: there are no areas to find.
#[derive(Clone, Copy, Debug)]
pub struct Area;

impl Area {
    /// Returns one inside [`with_sequences`].
    #[must_use]
    pub fn find() -> Option<Self> {
        THERE.get().then_some(Self)
    }
}

/// A sequence that has begun.
#[derive(Debug)]
pub struct Sequence {
    cpu: usize,
    interruptions: usize,
}

/// The sequence begins again.
#[derive(Debug)]
pub struct Interrupted;

impl Sequence {
    fn begin() -> Self {
        let cpu = cpu();
        let mut interruptions = INTERRUPTIONS[cpu].lock();
        // weaken: sequence-that-is-not-interrupted
        *interruptions += 1;
        Self {
            cpu,
            interruptions: *interruptions,
        }
    }

    /// Returns the CPU on which the sequence runs.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// Takes a step.
    ///
    /// # Errors
    /// [`Interrupted`] if the sequence was interrupted before.
    pub fn step<A>(&self, act: impl FnOnce() -> A) -> Result<A, Interrupted> {
        let interruptions = INTERRUPTIONS[self.cpu].lock();
        if *interruptions != self.interruptions {
            return Err(Interrupted);
        }
        Ok(act())
    }
}

/// Runs a sequence until its steps are not interrupted.
pub fn run<A>(steps: impl Fn(&Sequence) -> Result<A, Interrupted>) -> A {
    loop {
        if let Ok(answer) = steps(&Sequence::begin()) {
            return answer;
        }
    }
}

/// Interrupts every sequence that has begun and not ended.
pub(crate) fn interrupt_all() {
    for interruptions in INTERRUPTIONS.iter() {
        // weaken: sequence-that-is-not-restarted
        *interruptions.lock() += 1;
    }
}

/// Returns true inside [`with_sequences`].
pub(crate) fn are_there() -> bool {
    THERE.get()
}

/// Returns the address: sequences are no code.
#[must_use]
pub fn resume_address(interrupted: usize) -> usize {
    interrupted
}
