//! What processes talk through: pipes, FIFOs and sockets.
//!
//! # Waiting
//!
//! A call that waits holds a reference to the open file. So the close of its number, by another
//! thread, neither wakes it nor ends the file under it, as on Linux; only then does the other side
//! meet the end. A revocation wakes it, with `EIO`. There are no signals here, and nothing answers
//! `EINTR`; nor is one sent with `EPIPE`.

mod anon_inode;
pub mod buffer;
pub mod fifo;
mod patience;
pub mod pipe;
pub mod socket;
