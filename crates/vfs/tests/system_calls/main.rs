//! The system calls of a process, through the table of descriptors.

mod call;
mod descriptors;
mod mounted;
mod paths;
mod pipes;
mod regular_files;
mod sockets;
mod transfers;
