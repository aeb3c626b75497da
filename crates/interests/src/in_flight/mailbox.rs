//! Mailboxes: what the registry knows of a receive queue.

use alloc::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;

/// The identity of the receive queue of a socket. The queue itself is the embedder's.
///
/// Each socket has one from the start. The other end of a connection that was not accepted yet has
/// no open file: its messages count as in the queue of the [listener](Self::pending) until
/// [`accept`](Self::accept).
#[derive(Clone, Debug)]
pub struct Mailbox(Arc<Identity>);

#[derive(Debug)]
struct Identity {
    number: u64,
    /// Number of the socket through which a message here is received.
    through: AtomicCell<u64>,
}

fdtable_sync::global! {
    /// How many mailboxes were made.
    pub(super) static NUMBERS: AtomicCell<u64> = AtomicCell::new(0);
}

impl Mailbox {
    /// Makes the mailbox of a socket. Allocates.
    #[must_use]
    pub fn new() -> Self {
        let number = NUMBERS.fetch_add(1);
        Self(Arc::new(Identity {
            number,
            through: AtomicCell::new(number),
        }))
    }

    /// Makes the mailbox of a connection that waits in the backlog of a listener. Allocates.
    #[must_use]
    pub fn pending(listener: &Mailbox) -> Self {
        let mailbox = Self::new();
        mailbox.0.through.store(listener.number());
        mailbox
    }

    /// Separates the mailbox from that of the listener. The thread that takes the connection out of
    /// the backlog calls this while it holds a reference to the listener. Neither blocks nor
    /// allocates.
    pub fn accept(&self) {
        self.0.through.store(self.number());
    }

    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// Returns the number of the socket through which a message here is received.
    pub(super) fn through(&self) -> u64 {
        self.0.through.load()
    }
}

impl Default for Mailbox {
    fn default() -> Self {
        Self::new()
    }
}
