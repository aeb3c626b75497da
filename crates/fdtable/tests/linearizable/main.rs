//! Is there a legal order? Histories of threads that use one table, judged as a whole.
//!
//! Threads open, reserve, close, dup and fork, and write down each answer with the time of the call
//! and of the answer. Afterwards the judge asks: is there a sequential order that explains the
//! answers? In it each operation happens at a moment between its call and its answer (`open` and
//! `dup` at two or three: `specification` lists them), and each descriptor that an open got is the
//! lowest one of that moment. If no order explains the answers, some answer was wrong.
//!
//! That is more than an inspection of the table afterwards. A search for the lowest descriptor that
//! takes no lock may pass 5 while it is taken, and then find 9, which was freed after 5 was: both
//! descriptors are right one by one, the table is whole, and yet there was no moment at which 9 was
//! the lowest.
//!
//! - `specification`: the answers of a table, one step after the other.
//! - `search`: for an order that is legal and respects real time.
//! - `recorder`: makes the calls and writes down the answers.
//! - `verdicts`: tests of the judge, with histories that are known to be legal or not.
//! - `threads`: histories of real threads. `FDTABLE_STRESS_SECONDS=600 cargo test -p fdtable
//!   --release --test linearizable` records for ten minutes instead of one second.
//! - `models`: histories of a few calls, in every order of their steps, under loom;
//!   `cargo xtask loom` runs them.

// The platform of a library without `std`.
#[cfg(hooks)]
use fdtable_hooks as _;

mod recorder;
mod search;
mod specification;

#[cfg(loom)]
mod models;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
mod verdicts;
