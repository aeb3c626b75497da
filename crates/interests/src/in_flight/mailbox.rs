//! Mailboxes: what the registry knows of a receive queue.

use alloc::sync::Arc;
use core::cmp::Ordering;
use core::fmt;

use crossbeam_utils::atomic::AtomicCell;
use fdtable_sync::platform::Mutex;

/// The identity of the receive queue of a socket, and a reference to it. The queue itself is the
/// embedder's.
///
/// Each socket has one from the start. The other end of a connection that was not accepted yet has
/// no open file: its mailbox is [part of](Self::pending) that of the listener until
/// [`accept`](Self::accept).
#[derive(Clone)]
pub struct Mailbox(Arc<Identity>);

struct Identity {
    /// Drawn once: an order by addresses would not be the same in each execution of a model.
    number: u64,
    /// The listener in whose backlog the socket waits.
    listener: Mutex<Option<Mailbox>>,
}

fdtable_sync::global! {
    /// How many mailboxes were made.
    pub(super) static NUMBERS: AtomicCell<u64> = AtomicCell::new(0);
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
            number: NUMBERS.fetch_add(1),
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
        self.0.number.cmp(&other.0.number)
    }
}

impl PartialOrd for Mailbox {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Mailbox {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for Mailbox {}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailbox({})", self.0.number)
    }
}
