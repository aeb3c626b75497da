//! The descriptor tables of projects, rebuilt on the library from their documentation.
//!
//! - `fuse`: the handles of a passthrough FUSE server.
//! - `lind`: Lind's `fdtables`, one table for each cage, with close handlers.
//! - `litebox`: a table with objects of several kinds, and data for descriptors and for files.
//! - `wasi`: WASI preview 1, whose rights belong to the descriptor.
//!
//! Each is the interface that programs of the project use. None has a lock of its own, opens a
//! descriptor only to move it elsewhere, or is `unsafe`.

#![cfg(not(loom))]

mod fuse;
mod lind;
mod litebox;
mod wasi;
