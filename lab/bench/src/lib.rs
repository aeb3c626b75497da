//! The laboratory: experiments that compare `fdtable` with the tables that it replaces.
//!
//! `lab/README.md` says how to run an experiment, read its report, and add one. Read the code in
//! this order:
//!
//! 1. [`experiment`]: the trait of an experiment, and how one is run.
//! 2. [`table`]: the trait through which the same workload runs on every table.
//! 3. [`baseline`]: the tables that programs use without this project; [`any_free`]: ours, where
//!    descriptors need not be the lowest; [`host`]: the kernel's. [`calls`]: the system calls of a
//!    small kernel on ours and on the baselines.
//! 4. [`lookup`], [`fd_scale`], [`mod@slab`], [`open_files`], [`grow`], [`mod@fork`],
//!    [`chat`], [`libmicro`], [`lmbench`], [`peers`], [`ports`], [`run`] and [`adopt`]: the
//!    experiments.
//! 5. [`turn`] and [`memory`]: how time and bytes are measured.
//! 6. [`stats`], [`machine`], [`report`] and [`plot`]: figures, tables and plots as data.
//! 7. [`json`], [`markdown`], [`html`] and [`svg`]: the formats of a report; [`compare`]: the
//!    comparison with an earlier run; [`systems`]: the one screen of a short run.
//!
//! Without the feature `experiments` there are `lookup` and the five in [`systems`].
//!
//! Every experiment alternates its subjects, so that disturbances by the machine affect all of
//! them, and computes ratios within one round.

// Forbidden but for a promise to the tracer, in `conflicts/simulation.rs`.
#![deny(unsafe_code)]

#[macro_use]
mod named;

#[cfg(feature = "experiments")]
pub mod adopt;
pub mod affinity;
#[cfg(feature = "experiments")]
pub mod any_free;
pub mod baseline;
mod cache;
pub mod calls;
pub mod chat;
mod child;
pub mod compare;
#[cfg(feature = "conflicts")]
pub mod conflicts;
pub mod experiment;
pub mod fd_scale;
#[cfg(feature = "experiments")]
pub mod fork;
#[cfg(feature = "experiments")]
pub mod grow;
mod handover;
pub mod host;
pub mod html;
pub mod json;
pub mod libmicro;
#[cfg(feature = "experiments")]
pub mod lmbench;
pub mod lookup;
pub mod machine;
pub mod markdown;
#[cfg(feature = "experiments")]
pub mod memory;
pub mod open_files;
mod opener;
pub mod part;
#[cfg(feature = "experiments")]
pub mod peers;
pub mod plot;
#[cfg(feature = "experiments")]
pub mod ports;
pub mod report;
#[cfg(feature = "experiments")]
pub mod run;
pub mod slab;
mod start;
pub mod stats;
#[cfg(feature = "experiments")]
mod subject;
pub mod svg;
pub mod systems;
pub mod table;
#[cfg(feature = "experiments")]
mod tail;
pub mod turn;
mod usage;
