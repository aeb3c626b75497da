//! The experiments end to end.
//!
//! They measure what a process has once: the size of its heap, its descriptors, its forks. So this
//! program starts itself for each of them: see [`alone`].

mod alone;
mod fd_scale;
mod fork;
mod grow;
mod libmicro;
#[cfg(target_env = "gnu")]
mod memory;
mod open_files;
mod peers;
