//! Tests of tables that can share a process: what each operation does, its errnos, and what threads
//! see of one another.
//!
//! Tests with a binary of their own fork, look at the host's descriptors, count memory, or replace
//! the allocator.

#![cfg(not(loom))]

// The platform of a library without `std`.
#[cfg(hooks)]
use fdtable_hooks as _;

#[path = "../canary/mod.rs"]
mod canary;
#[path = "../history/mod.rs"]
mod history;
#[path = "../ledger/mod.rs"]
mod ledger;
#[path = "../oracle/mod.rs"]
mod oracle;

mod against_oracle;
mod any_number;
mod callers_code;
mod clofork;
mod closed;
mod conversions;
mod data;
mod data_stress;
mod errnos;
mod fork;
mod fork_stress;
mod hot;
mod limits;
mod made_files;
mod on_close;
mod one_owner;
mod panicking_hooks;
mod private;
mod private_against_map;
mod private_stress;
mod prompt_drop;
mod quarantine;
mod release;
mod replace;
mod reserve_many;
mod revoke;
mod rounds;
mod stress;
mod superblock;
mod superblock_races;
mod two_leaves;
mod unshare;
mod waiting;
