//! Ancillary data of messages: files and credentials.

use fdtable::FileRef;

use super::in_flight::{Mailbox, Rights, discard};
use crate::RcuObject;

/// Credentials of the sender of a message, or of the maker of a connection.
/// In Linux: `struct ucred`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ucred {
    /// Process ID, at least 1; 0 if it is not known.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Ucred {
    /// Credentials that a receiver gets for a message without any, as on Linux: no process, and the
    /// overflow user and group.
    pub(crate) const NOBODY: Self = Ucred {
        pid: 0,
        uid: 65534,
        gid: 65534,
    };
}

/// Ancillary data in flight. It must be dropped outside all locks.
#[derive(Debug, Default)]
pub(crate) struct Ancillary {
    /// In Linux: `SCM_RIGHTS`.
    pub(crate) rights: Option<Rights>,
    /// In Linux: `SCM_CREDENTIALS`.
    pub(crate) credentials: Option<Ucred>,
    /// The sender. They become the credentials if the sender or the receiver asks for some.
    pub(crate) sender: Option<Ucred>,
}

/// Ancillary data that was received. Files that are not taken are dropped with it, outside all
/// locks.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    files: Vec<FileRef<RcuObject>>,
    pub(crate) credentials: Option<Ucred>,
}

impl Ancillary {
    /// Makes the sender known to the receiver, unless other credentials are.
    pub(crate) fn sign(&mut self) {
        self.credentials = self.credentials.or(self.sender);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rights.is_none() && self.credentials.is_none()
    }

    /// Records the socket to which the files go, before they are in its queue.
    pub(crate) fn send_to(&mut self, receiver: &Mailbox) {
        if let Some(rights) = &mut self.rights {
            rights.send_to(receiver);
        }
    }

    /// Ends the flight of the files.
    pub(crate) fn arrive(&mut self) -> Arrived {
        Arrived {
            files: self.rights.take().map_or_else(Vec::new, Rights::receive),
            credentials: self.credentials,
        }
    }

    /// Returns the files and credentials without taking them, in references of their own.
    pub(crate) fn peek(&self) -> Arrived {
        Arrived {
            files: self.rights.as_ref().map_or_else(Vec::new, Rights::peek),
            credentials: self.credentials,
        }
    }
}

impl Arrived {
    /// Takes the files.
    pub(crate) fn take_files(&mut self) -> Vec<FileRef<RcuObject>> {
        std::mem::take(&mut self.files)
    }

    /// Returns true if there are files.
    pub(crate) fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Adds what came with more bytes of the same sender.
    pub(crate) fn append(&mut self, mut more: Arrived) {
        self.files.append(&mut more.files);
        self.credentials = self.credentials.or(more.credentials);
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        discard(std::mem::take(&mut self.files));
    }
}
