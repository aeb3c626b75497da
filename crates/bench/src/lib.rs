//! The experiments: what `fdtable` costs beside the tables that it replaces.
//!
//! Read it in this order:
//!
//! 1. [`experiment`]: what an experiment is, and how it is run.
//! 2. [`table`]: the one trait through which the same workload runs on every table.
//! 3. [`baseline`]: the tables that people had, and have, without this project; [`any_free`]: ours,
//!    where numbers need not be the lowest; [`host`]: the kernel's. [`calls`]: the system calls of a
//!    small kernel on ours and on the baselines.
//! 4. [`lookup`], [`fd_scale`], [`alloc`], [`mod@slab`], [`open_files`], [`grow`], [`mod@fork`],
//!    [`sparse`], [`waits`], [`chat`], [`libmicro`], [`lmbench`], [`peers`] and [`posix`]: the experiments.
//! 5. [`turn`] and [`memory`]: how time and bytes are taken.
//! 6. [`stats`], [`machine`], [`report`] and [`plot`]: figures, and what is shown of them.
//! 7. [`json`], [`markdown`], [`html`] and [`svg`]: how they are written; [`compare`]: what became
//!    of those of an earlier run.
//!
//! Every experiment alternates its subjects, so that what the machine does besides falls on all
//! of them, and compares what was measured in the same round.

// But for a promise to the tracer, in `conflicts/simulation.rs`.
#![deny(unsafe_code)]

pub mod affinity;
pub mod alloc;
pub mod any_free;
pub mod baseline;
mod cache;
pub mod calls;
pub mod chat;
pub mod compare;
pub mod conflicts;
pub mod experiment;
pub mod fd_scale;
pub mod fork;
pub mod grow;
mod handover;
pub mod host;
pub mod html;
pub mod json;
pub mod libmicro;
pub mod lmbench;
pub mod lookup;
pub mod machine;
pub mod markdown;
pub mod memory;
pub mod open_files;
pub mod peers;
pub mod plot;
pub mod posix;
pub mod report;
pub mod slab;
pub mod sparse;
mod start;
pub mod stats;
pub mod svg;
pub mod table;
mod tail;
pub mod turn;
mod usage;
pub mod waits;
