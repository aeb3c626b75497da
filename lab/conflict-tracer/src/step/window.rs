//! The window: the state of one thread's handler while the thread is stepped.
//!
//! All of its memory is allocated before it opens, and it belongs to one thread while it is open.
//! The handler finds it through a thread-local word; so several threads may have windows at the
//! same time.

use std::cell::Cell;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::thread;

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory};

use super::chain::Chain;
use super::log::Log;
use super::markers;
use super::mask::Unblocked;
use super::stack::Stack;
use crate::error::Error;
use crate::trace::Trace;

thread_local! {
    /// The window of this thread, while it has one. It has no destructor and no lazy
    /// initialization, so that a signal handler may read it.
    static OWN: Cell<*mut Window> = const { Cell::new(null_mut()) };
}

/// State of a handler.
pub(crate) struct Window {
    pub(super) log: Log,
    pub(super) chain: Chain,
    /// The number that `getcpu` returns.
    pub(super) cpu: usize,
    /// The address at which the thread continues after the gate.
    pub(super) resume: u64,
    /// The instruction that is about to run.
    pub(super) decoded: Instruction,
    pub(super) operands: InstructionInfoFactory,
    stack: Stack,
}

impl Window {
    /// Allocates a window for at most `limit` instructions.
    pub(crate) fn new(limit: u32) -> Result<Self, Error> {
        super::handler::install()?;
        Ok(Self {
            log: Log::new(limit)?,
            chain: Chain::default(),
            cpu: 0,
            resume: 0,
            decoded: Instruction::default(),
            operands: warmed_up(),
            stack: Stack::new()?,
        })
    }

    /// Calls `operation` in the window, and returns what it returned or panicked with.
    pub(crate) fn record<R>(
        &mut self,
        cpu: usize,
        operation: impl FnOnce() -> R,
    ) -> Result<thread::Result<R>, Error> {
        if !OWN.get().is_null() {
            return Err(Error::AlreadyTracing);
        }
        self.log.clear();
        self.chain = Chain::default();
        self.cpu = cpu;
        let _stack = self.stack.enter()?;
        let _mask = Unblocked::new()?;
        // From here on the handler owns the window, until the word is null again.
        let own = Owned::new(self);
        let result = step(operation);
        drop(own);
        self.log.check_end();
        Ok(result)
    }

    /// Copies the last trace.
    pub(crate) fn trace(&self, cpu: usize) -> Trace {
        Trace {
            dependent_loads: self.chain.longest(),
            ..self.log.trace(cpu)
        }
    }
}

/// Returns the window of this thread, if it has one.
pub(super) fn own() -> *mut Window {
    OWN.get()
}

/// The thread-local pointer to the window, set for as long as this exists.
struct Owned;

impl Owned {
    fn new(window: *mut Window) -> Self {
        OWN.set(window);
        Owned
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        OWN.set(null_mut());
    }
}

/// Calls `operation` between the markers. A panic ends inside of them: it is stepped too, and never
/// leaves with the trap flag.
///
/// The operation and its result are kept in local variables of this function. Their origin and
/// destination may be on a stack that several CPUs use, and are not touched in between.
#[inline(never)]
fn step<R>(operation: impl FnOnce() -> R) -> thread::Result<R> {
    let operation = black_box(operation);
    // SAFETY: a window is created with the handler installed, and `record` has set it.
    unsafe { markers::open_window() };
    let result = catch_unwind(AssertUnwindSafe(operation));
    markers::close_window();
    black_box(result)
}

/// Decodes the instructions with the most operands in memory and in registers, so that nothing is
/// allocated afterwards: the decoder's tables, and the lists of operands.
fn warmed_up() -> InstructionInfoFactory {
    let mut factory = InstructionInfoFactory::new();
    // `enter 0, 31` and `vzeroall`
    for code in [&[0xC8, 0, 0, 31][..], &[0xC5, 0xFC, 0x77]] {
        let _ = factory.info(&Decoder::new(64, code, DecoderOptions::NONE).decode());
    }
    factory
}
