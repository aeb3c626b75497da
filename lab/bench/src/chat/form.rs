//! The forms of a chat: which threads forward messages, and where they wait for room.

use fdtable_vfs::socket;
use serde::{Deserialize, Serialize};

use super::role::Role;

named! {
    /// Form of a chat.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Form {
        /// Three threads for each user: the server's receiver writes a message to all users.
        ThreeThreads = "three threads",
        /// Three threads, with buffers for the whole traffic, so that no thread waits for room.
        AllInFlight = "three threads, all in flight",
        /// Four threads for each user, as in the original: the server's receiver puts a message
        /// into the queue of every user, and a thread for each user writes from there.
        Classic = "classic, four threads",
    }
}

impl Form {
    /// Lists the threads of each user.
    pub(super) fn roles(self) -> &'static [Role] {
        match self {
            Form::ThreeThreads | Form::AllInFlight => &[Role::Send, Role::Receive, Role::Serve],
            Form::Classic => &[
                Role::Send,
                Role::Receive,
                Role::ServerReceive,
                Role::ServerSend,
            ],
        }
    }

    /// Returns the capacity of each direction of each socket, and of each queue, in bytes.
    /// `traffic` is the number of bytes for one user.
    pub(super) fn buffer_bytes(self, traffic: usize) -> usize {
        match self {
            Form::ThreeThreads | Form::Classic => socket::CAPACITY,
            Form::AllInFlight => traffic,
        }
    }
}
