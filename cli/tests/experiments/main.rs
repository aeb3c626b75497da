//! Experiments that run the program for a part of their work.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod chat;
mod lmbench;
mod run;
mod slab;
mod standard_error;

/// Waits until no other experiment runs: each takes samples of the machine.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
