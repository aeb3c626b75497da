//! Open files in flight between processes, and the garbage collection of unreachable sockets: the
//! [registry](fdtable_interests::in_flight) of the library, for the sockets of this kernel.
//!
//! A collection runs when a socket is released while others are in flight, and before a send while
//! very many files are; or when [`Namespace::collect`](super::Namespace::collect) is called.

use std::any::Any;
use std::sync::Arc;

use fdtable_interests::in_flight as library;

use super::Socket;
use crate::RcuObject;

pub(crate) use library::{Holder, Mailbox, discard};
pub use library::{MAX_FILES, THRESHOLD};

/// Registry of the files in flight between the processes of a kernel.
pub(crate) type InFlight = library::InFlight<RcuObject>;

/// Files in flight, counted while this exists.
pub(crate) type Rights = library::SentFiles<RcuObject>;

/// Makes the registry of a kernel.
pub(super) fn registry() -> Arc<InFlight> {
    InFlight::new(|file| Some(&**as_socket(file)?.core()))
}

pub(super) fn as_socket(file: &RcuObject) -> Option<&Socket> {
    (&**file as &dyn Any).downcast_ref()
}
