//! Judges the lowest descriptor, with real threads, time stamps, and a check after each round.
//!
//! `tests/linearizable` searches a legal order for a few dozen calls. This judge asks less of each
//! history and so can judge millions of calls: was a lower descriptor free at every moment at which
//! the call can have taken the one that it returned?
//!
//! # What is judged
//!
//! | call | promise |
//! |---|---|
//! | `open`, `dup`, `reserve` | the lowest descriptor free at one moment |
//! | `dup_min` | the same from `min` on |
//! | `open_pair`, `reserve_many` up to 256 | the lowest ones free at one moment, all taken then |
//! | `reserve_many` above 256 | each descriptor the lowest one at a moment of its own |
//! | `EMFILE` of each, and of `open_any` | at one moment too few are free below the limit |
//! | `open_any`, `dup3` | none, but the descriptors count as taken |
//! | `close`, `take`, `close_range`, dropping a reservation | free when the call returns |
//! | `EBADF` of `get` | the descriptor is free, or not open yet |
//! | all | no descriptor is given out twice, and none at or past the limit |
//!
//! # How
//!
//! Each call is *one step* at an unknown moment between two stamps. Knowledge of the moments of
//! other calls narrows it: a thread closes a descriptor only if it has opened it, so the steps that
//! take and free one descriptor alternate, and their order is known. An open that returned 70 comes
//! after the close of 70, however long ago the open began. That matters: an open that is preempted
//! between its look at one leaf and the lock of another nearly always began before the descriptor
//! that it wrongly passed over was closed. A judge that asks for descriptors that were free for the
//! *whole* call cannot see it. An `EBADF` narrows the step of the close that it has seen.
//!
//! From the last moment of the step that freed a descriptor to the first moment of the step that
//! takes it next, the descriptor is *certainly free*. A sweep over all such intervals yields the
//! lowest descriptor that is certainly free as a step function of time. A call that returned `n` is
//! a violation if the function is below `n` during all of the time that is left for its step. If it
//! is below `n` during some of it, that time is cut off and the judge looks again (`judge`).
//!
//! *Stamps* are those of [`Instant`](std::time::Instant), 25 to 60 ns each. On Linux it reads the
//! CPU's own counter and shares no memory that is written. A counter in memory would order the
//! threads: each increment waits for the line and drains the store buffer, so that threads hardly
//! overlap. A fence between stamp and call, at both ends, makes stamps exact: see `clock`.
//!
//! *Preemption* is what widens a gap of a few instructions enough for another thread to close two
//! descriptors. So there are more threads than CPUs in many rounds, on a small machine. In half of
//! all rounds threads sleep for some microseconds at a time: each that wakes up preempts another,
//! wherever that is.
//!
//! # What it cannot see
//!
//! - A violation where each step can be moved within its stamps so that no descriptor is certainly
//!   free too long. Calls that overlap throughout are never at fault with respect to each other.
//! - Contradictions that take a case distinction: it narrows, it does not search.
//!   `tests/linearizable` does.
//! - Which call is at fault. It names one whose promise contradicts the others.
//! - Gaps of one or two instructions, but by chance. A `close` that empties the slot before it
//!   frees the descriptor shows once in some million calls.
//! - Reorderings that the CPU does not do: on x86-64, a fence beside an atomic exchange can be left
//!   out and nothing changes. The loom models of `room` cover those.
//! - Which file is opened: `tests/stress` and `tests/linearizable` look at files.
//! - Quarantine, where the lowest descriptor is another one.
//!
//! # How long
//!
//! Each test judges a fixed number of rounds. `FDTABLE_STRESS_SECONDS=600 cargo test -p fdtable
//! --release --test lowest_judge -- --nocapture --test-threads=1` judges rounds for ten minutes in
//! each test, and prints how many calls were judged.
//!
//! - `clock`: stamps.
//! - `journal`: the record of a thread.
//! - `judge`, `free_set`: the check.
//! - `verdicts`: tests of the judge, with journals that are legal or not.
//! - `scene`, `worker`: the tables, and the operations of threads on them.
//! - `threads`: the tests.

#![cfg(not(loom))]

// The platform of a library without `std`.
#[cfg(hooks)]
use fdtable_hooks as _;

mod clock;
mod free_set;
mod journal;
mod judge;
mod scene;
mod threads;
mod verdicts;
mod worker;
