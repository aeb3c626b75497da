//! Polling of sockets.
//!
//! A watcher is registered with the socket's own receive queue; with the peer's, for room there;
//! and with the socket itself until it is connected. A connection registers the watchers of the
//! socket with the peer's queue too.

use std::sync::Arc;

use super::core::Core;
use crate::event::{Events, FileId, Pollee, WaitQueue, Watcher};
use crate::ipc::buffer::{Half, Side};

impl Pollee for Core {
    fn events(&self) -> Events {
        self.ready()
    }

    fn with_queues(&self, visit: &mut dyn FnMut(&mut WaitQueue)) {
        self.incoming.with_queue(Half::Read, visit);
        let mut state = self.state.lock();
        visit(&mut state.changes);
        if let Some(link) = self.link.get() {
            link.outgoing.with_queue(Half::Write, visit);
        }
        if let Some(partner) = &state.partner {
            partner.with_senders(visit);
        }
    }

    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        let visit = &mut |queue: &mut WaitQueue| queue.watch(watcher, interest, file);
        self.incoming.with_queue(Half::Read, visit);
        let mut state = self.state.lock();
        match self.link.get() {
            Some(link) => link.outgoing.with_queue(Half::Write, visit),
            None => visit(&mut state.changes),
        }
        if let Some(partner) = &state.partner {
            partner.with_senders(visit);
        }
    }

    fn is_revoked(&self) -> bool {
        self.file_state.load() == Side::Revoked
    }
}
