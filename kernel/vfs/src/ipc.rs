//! Pipes, FIFOs and sockets.
//!
//! # Blocking
//!
//! A call that blocks holds a reference to the open file. A close of its descriptor by another
//! thread therefore neither wakes the call nor releases the file, as on Linux; the other side sees
//! the end only when the call has returned. A revocation wakes the call, which returns `EIO`. On
//! Linux, a signal handler ends a blocking call with `EINTR` (see
//! [`event::wait`](crate::event::wait)). `EPIPE` comes without `SIGPIPE`.

mod anon_inode;
pub mod buffer;
pub mod fifo;
pub mod pipe;
pub mod socket;

pub(crate) use anon_inode::AnonInode;
pub(crate) use socket::ancillary::Ancillary;
