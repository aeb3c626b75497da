//! The forms in which a chat is held: who passes messages on, and where they wait for room.

use fdtable_vfs::socket;
use serde::{Deserialize, Serialize};

use super::role::Role;

/// Form of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    /// Three threads for each user: who reads a message at the server writes it to everybody.
    ThreeThreads,
    /// Three threads, and each buffer holds all that will ever go through it, so that nobody waits
    /// for room.
    AllInFlight,
    /// Four threads for each user, as in the original: who reads a message at the server puts it
    /// into everybody's queue, and a thread for each user writes from there.
    Classic,
}

impl Form {
    pub(super) const ALL: [Form; 3] = [Form::ThreeThreads, Form::AllInFlight, Form::Classic];

    /// Returns what readers of a report see.
    pub(super) fn name(self) -> &'static str {
        match self {
            Form::ThreeThreads => "three threads",
            Form::AllInFlight => "three threads, all in flight",
            Form::Classic => "classic, four threads",
        }
    }

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
    /// `traffic` is all that goes to one user.
    pub(super) fn buffer_bytes(self, traffic: usize) -> usize {
        match self {
            Form::ThreeThreads | Form::Classic => socket::CAPACITY,
            Form::AllInFlight => traffic,
        }
    }
}
