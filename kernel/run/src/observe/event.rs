//! A call that is concerned by a report, with its time and its stack.

use std::time::SystemTime;

use super::call::Call;
use super::unwind::{self, Stack};
use crate::block::Block;

/// A call that has opened or closed a descriptor.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) call: i64,
    pub(super) process: i32,
    pub(super) thread: i32,
    pub(super) time: SystemTime,
    pub(super) stack: Stack,
}

impl Event {
    pub(super) fn of(call: &Call) -> Self {
        Self::of_thread(call, Block::current().id.get())
    }

    /// `call` is in progress in another thread.
    pub(super) fn of_thread(call: &Call, thread: i32) -> Self {
        Self {
            call: call.number,
            process: std::process::id().cast_signed(),
            thread,
            time: SystemTime::now(),
            stack: unwind::stack(call),
        }
    }
}
