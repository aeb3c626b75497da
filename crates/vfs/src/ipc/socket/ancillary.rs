//! What a message carries beside its bytes.

use fdtable::FileRef;

use super::in_flight::{Flights, Rights, discard};
use crate::Object;

/// Who sent a message, or made a connection.
#[doc(alias = "struct ucred")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ucred {
    /// Number of the process, at least 1; 0 if it is not known.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// What is on its way beside the bytes of a message. It may be dropped wherever no lock is held.
#[derive(Debug, Default)]
pub(crate) struct Ancillary {
    #[doc(alias = "SCM_RIGHTS")]
    pub(crate) rights: Option<Rights>,
    #[doc(alias = "SCM_CREDENTIALS")]
    pub(crate) credentials: Option<Ucred>,
}

/// What has come beside the bytes. Files that nobody takes are dropped, where no lock is held.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    files: Vec<FileRef<dyn Object>>,
    pub(crate) credentials: Option<Ucred>,
    /// References of the registry, to be dropped.
    registered: Vec<FileRef<dyn Object>>,
}

impl Ancillary {
    pub(crate) fn is_empty(&self) -> bool {
        self.rights.is_none() && self.credentials.is_none()
    }

    /// Ends the way of the files: `flights` is the lock of their registry. Without it they stay.
    pub(crate) fn arrive(&mut self, flights: Option<&mut Flights>) -> Arrived {
        let mut arrived = Arrived::default();
        arrived.credentials = self.credentials;
        if let Some(flights) = flights
            && let Some(rights) = self.rights.take()
        {
            arrived.files = rights.land(flights, &mut arrived.registered);
        }
        arrived
    }

    /// Returns what has not come yet, in references of its own. The lock of the registry is held.
    pub(crate) fn peek(&self) -> Arrived {
        Arrived {
            files: self
                .rights
                .as_ref()
                .map_or_else(Vec::new, |rights| rights.files().to_vec()),
            credentials: self.credentials,
            registered: Vec::new(),
        }
    }
}

impl Arrived {
    /// Takes the files.
    pub(crate) fn take_files(&mut self) -> Vec<FileRef<dyn Object>> {
        std::mem::take(&mut self.files)
    }

    /// Returns true if there are files.
    pub(crate) fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Adds what came with more bytes. Of two senders the later one is told.
    pub(crate) fn append(&mut self, mut more: Arrived) {
        self.files.append(&mut more.files);
        self.registered.append(&mut more.registered);
        self.credentials = more.credentials.or(self.credentials);
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        if !self.files.is_empty() || !self.registered.is_empty() {
            self.files.append(&mut self.registered);
            discard(std::mem::take(&mut self.files));
        }
    }
}
