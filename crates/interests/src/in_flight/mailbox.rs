//! Mailboxes: what the registry knows of a receive queue.

use alloc::sync::Arc;
use core::cmp::Ordering;
use core::fmt;

use fdtable_sync::platform::Mutex;

/// The identity of the receive queue of a socket, and a reference to it. The queue itself is the
/// embedder's.
///
/// Each socket has one from the start. The other end of a connection that was not accepted yet has
/// no open file: its mailbox is [part of](Self::pending) that of the listener until
/// [`accept`](Self::accept).
#[derive(Clone)]
pub struct Mailbox(Arc<Identity>);

/// Its address is the identity, while a reference exists.
struct Identity {
    /// The listener in whose backlog the socket waits.
    listener: Mutex<Option<Mailbox>>,
}

impl Mailbox {
    /// Makes the mailbox of a socket. Allocates.
    #[must_use]
    pub fn new() -> Self {
        Self::within(None)
    }

    /// Makes the mailbox of a connection that waits in the backlog of a listener. Allocates.
    #[must_use]
    pub fn pending(listener: &Mailbox) -> Self {
        Self::within(Some(listener.clone()))
    }

    /// Separates the mailbox from that of the listener. The thread that takes the connection out of
    /// the backlog calls this while it holds a reference to the listener. Takes a lock briefly;
    /// does not allocate.
    pub fn accept(&self) {
        let listener = self.0.listener.lock().take();
        drop(listener);
    }

    /// Returns the mailbox of the socket through which a message here is received.
    pub(super) fn socket(&self) -> Self {
        let listener = self.0.listener.lock().clone();
        listener.unwrap_or_else(|| self.clone())
    }

    fn within(listener: Option<Mailbox>) -> Self {
        Self(Arc::new(Identity {
            listener: Mutex::new(listener),
        }))
    }
}

impl Default for Mailbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Ord for Mailbox {
    fn cmp(&self, other: &Self) -> Ordering {
        Arc::as_ptr(&self.0).cmp(&Arc::as_ptr(&other.0))
    }
}

impl PartialOrd for Mailbox {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Mailbox {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Mailbox {}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailbox({:p})", Arc::as_ptr(&self.0))
    }
}
