//! Polling of sockets.
//!
//! A watcher is registered with the socket's own receive queue; with the peer's, for room there;
//! and with the socket itself until it is connected. A connection registers the watchers of the
//! socket with the peer's queue too.

use std::sync::Arc;

use super::core::{Core, FileState};
use crate::event::{Events, FileId, Pollee, Watcher};

impl Pollee for Core {
    fn events(&self) -> Events {
        self.ready()
    }

    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        self.incoming.watch_reader(watcher, interest, file);
        let mut state = self.state.lock();
        match self.link.get() {
            Some(link) => link.outgoing.watch_writer(watcher, interest, file),
            None => state.changes.watch(watcher, interest, file),
        }
        if let Some(partner) = &state.partner {
            partner.recv_queue.watch_writer(watcher, interest, file);
        }
    }

    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        self.incoming.unwatch_reader(watcher);
        let mut state = self.state.lock();
        state.changes.unwatch(watcher);
        if let Some(link) = self.link.get() {
            link.outgoing.unwatch_writer(watcher);
        }
        if let Some(partner) = &state.partner {
            partner.recv_queue.unwatch_writer(watcher);
        }
    }

    fn forget(&self, file: FileId) {
        self.incoming.forget_reader(file);
        let (wakeups, partner) = {
            let mut state = self.state.lock();
            (state.changes.forget(file), state.partner.clone())
        };
        wakeups.run();
        if let Some(link) = self.link.get() {
            link.outgoing.forget_writer(file);
        }
        if let Some(partner) = partner {
            partner.recv_queue.forget_writer(file);
        }
    }

    fn is_revoked(&self) -> bool {
        self.file_state.load() == FileState::Revoked
    }
}
