//! Descriptions of reads from a queue that may contain files in flight.

use super::ancillary::Ucred;

/// Purpose of a look into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Take out the data.
    Take,
    /// Leave the data in the queue (`MSG_PEEK`).
    Peek,
}

/// Description of one read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) look: Look,
    /// Where a look without taking begins, if the socket has an offset for it.
    /// In Linux: `SO_PEEK_OFF`.
    pub(crate) skip: Option<usize>,
    /// The sender of what was read before, by the same call.
    pub(crate) sender: Option<Ucred>,
    /// The rest of a packet stays.
    pub(crate) cuts_packets: bool,
}

impl Reading {
    pub(crate) fn new(look: Look) -> Self {
        Reading {
            look,
            skip: None,
            sender: None,
            cuts_packets: false,
        }
    }
}
