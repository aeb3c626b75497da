//! Random histories of calls, here and on the host: every call must return the same on both.

mod events;
mod locks;
mod sockets;
