//! State that all sockets of a kernel share: abstract names, and the registry of files in flight.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};

use fdtable_shm::Mutex;

use super::SocketType;
use super::core::Core;
use super::in_flight::{self, InFlight};
use crate::Errno;

/// Number of automatic names: five hexadecimal digits.
const AUTOMATIC: u32 = 1 << 20;

/// Namespace of sockets. Each type of socket has names of its own, as on Linux.
/// In Linux: `netns_unix`.
#[derive(Debug)]
pub struct Namespace {
    names: Mutex<Names>,
    pub(super) in_flight: Arc<InFlight>,
}

#[derive(Debug, Default)]
struct Names {
    bound: HashMap<(SocketType, Vec<u8>), Weak<Core>>,
    next_automatic: u32,
}

impl Default for Namespace {
    fn default() -> Self {
        Namespace {
            names: Mutex::default(),
            in_flight: in_flight::registry(),
        }
    }
}

impl Namespace {
    /// Returns how many open files are in flight between processes.
    pub fn in_flight(&self) -> usize {
        self.in_flight.files()
    }

    /// Drops the files in the queues of unreachable sockets, and returns the number of such
    /// sockets. In Linux: `unix_gc`.
    ///
    /// It also runs automatically, as [`in_flight`](super::in_flight) describes. Runs the release
    /// of files; the caller holds no lock.
    pub fn collect(&self) -> usize {
        self.in_flight.collect()
    }

    /// Binds a socket to an abstract name.
    ///
    /// # Errors
    /// `EADDRINUSE` if another socket of its type has the name.
    pub(super) fn bind(&self, name: &[u8], core: &Arc<Core>) -> Result<(), Errno> {
        let mut names = self.names.lock();
        match names.bound.entry((core.kind, name.to_vec())) {
            Entry::Occupied(_) => Err(Errno::EADDRINUSE),
            Entry::Vacant(free) => {
                free.insert(Arc::downgrade(core));
                Ok(())
            }
        }
    }

    /// Binds a socket to a free abstract name of five hexadecimal digits.
    ///
    /// # Errors
    /// `ENOSPC` if none is free.
    pub(super) fn bind_automatically(&self, core: &Arc<Core>) -> Result<Vec<u8>, Errno> {
        let mut names = self.names.lock();
        for _ in 0..AUTOMATIC {
            let name = format!("{:05x}", names.next_automatic % AUTOMATIC).into_bytes();
            names.next_automatic = names.next_automatic.wrapping_add(1);
            if let Entry::Vacant(free) = names.bound.entry((core.kind, name.clone())) {
                free.insert(Arc::downgrade(core));
                return Ok(name);
            }
        }
        Err(Errno::ENOSPC)
    }

    pub(super) fn find(&self, kind: SocketType, name: &[u8]) -> Option<Arc<Core>> {
        let names = self.names.lock();
        names.bound.get(&(kind, name.to_vec()))?.upgrade()
    }

    pub(super) fn unbind(&self, kind: SocketType, name: Vec<u8>) {
        self.names.lock().bound.remove(&(kind, name));
    }
}
