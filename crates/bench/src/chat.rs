//! `chat` (S1): rooms of users who write to each other through one shared table.
//!
//! The benchmark by which RCU came to the descriptor table (2001), made after VolanoMark. A room
//! has users; every message of a user goes to the server and from there to every user of the
//! room. Each user has a connected pair of stream sockets, and all sockets of all rooms are
//! descriptors of one process, so that every read and write of every thread looks up in the same
//! table.
//!
//! # Threads
//!
//! Three for each user: one sends, one receives, and one of the server reads what the user sends
//! and writes it to everybody in the room. The original has a fourth, which takes the writes to
//! one user from a queue: here the socket's own buffer is that queue. Sending and receiving are
//! apart, so every broadcast drains and bounded buffers cannot deadlock.
//!
//! # Calls
//!
//! `fdtable` is used as the vfs's process uses it: a borrowed lookup, and a reference only to
//! wait. The baselines have one way to look up that allows to wait, which takes a reference.
//!
//! Each receiver checks that it gets every message of everybody once and in order.

use anyhow::{Context, ensure};
use fdtable_vfs::buffer::PIPE_BUF;
use fdtable_vfs::{Object, Process, socket};
use serde::Serialize;
use serde_json::{json, to_value};

use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::report::Report;
use crate::stats::order;

mod conversation;
mod descriptors;
mod findings;
mod lookup_cost;
mod message;
mod role;

use conversation::{Conversation, Run};
use descriptors::{Descriptors, Owned};

/// Experiment that measures a chat server.
#[derive(Clone, Debug, Serialize)]
pub struct Chat {
    /// Rooms, at least 1.
    pub rooms: u32,
    /// Users of each room, at least 1.
    pub users: u32,
    /// Messages that each user sends, at least 1.
    pub messages: u32,
    /// Bytes of a message: 8 to 4,096, so that a write puts it into the buffer as one piece.
    pub message_bytes: usize,
    /// How often each table has its turn, at least 1.
    pub rounds: usize,
}

/// Where a conversation waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Buffers {
    /// In sockets of the usual size.
    Usual,
    /// Nowhere: each buffer holds all that will ever go through it.
    WholeTraffic,
}

/// One table with the conversation that runs on it.
struct Subject {
    name: &'static str,
    buffers: Buffers,
    hold: fn(&Conversation) -> anyhow::Result<Run>,
    runs: Vec<Run>,
}

impl Chat {
    /// Returns the configuration for one of the two lengths of a run: 20 rooms of 20 users, who
    /// send 500 messages of 100 bytes each, as in the original. The quick form has fewer rounds
    /// and not fewer messages: a short run is mostly its own start.
    pub fn new(effort: Effort) -> Self {
        let rounds = match effort {
            Effort::Quick => 5,
            Effort::Full => 25,
        };
        Chat {
            rooms: 20,
            users: 20,
            messages: 500,
            message_bytes: 100,
            rounds,
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        let Chat {
            rooms,
            users,
            messages,
            message_bytes,
            rounds,
        } = *self;
        ensure!(
            rooms > 0 && users > 0 && messages > 0 && rounds > 0,
            "a chat needs one of each"
        );
        ensure!(
            (message::HEADER..=PIPE_BUF).contains(&message_bytes),
            "a message has {} to {PIPE_BUF} bytes, not {message_bytes}",
            message::HEADER
        );
        Ok(())
    }

    fn conversation(&self, buffers: Buffers) -> Conversation {
        let Chat {
            rooms,
            users,
            messages,
            message_bytes,
            ..
        } = *self;
        let whole = users as usize * messages as usize * message_bytes;
        let buffer_bytes = match buffers {
            Buffers::Usual => socket::CAPACITY,
            Buffers::WholeTraffic => whole,
        };
        Conversation {
            rooms,
            users,
            messages,
            message_bytes,
            buffer_bytes,
        }
    }

    /// Gives every subject its turn in every round.
    fn hold_all(&self, progress: &dyn Progress) -> anyhow::Result<Vec<Subject>> {
        let mut subjects = subjects();
        progress.begin("chat", (self.rounds * subjects.len()) as u64);
        for round in 0..self.rounds {
            for place in order(subjects.len(), round) {
                let subject = &mut subjects[place];
                let run = (subject.hold)(&self.conversation(subject.buffers));
                subject
                    .runs
                    .push(run.with_context(|| subject.name.to_owned())?);
                progress.step();
            }
        }
        Ok(subjects)
    }
}

/// Lists the tables, with both kinds of buffers.
fn subjects() -> Vec<Subject> {
    [Buffers::Usual, Buffers::WholeTraffic]
        .into_iter()
        .flat_map(|buffers| {
            [
                subject::<Process>(buffers),
                subject::<Owned<RwLockBitmap<dyn Object>>>(buffers),
                subject::<Owned<RwLockVec<dyn Object>>>(buffers),
            ]
        })
        .collect()
}

fn subject<D: Descriptors>(buffers: Buffers) -> Subject {
    Subject {
        name: D::NAME,
        buffers,
        hold: Conversation::hold::<D>,
        runs: Vec::new(),
    }
}

impl Experiment for Chat {
    fn name(&self) -> &'static str {
        "chat"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        self.check()?;
        let usual = self.conversation(Buffers::Usual);
        let rows = findings::rows(&self.hold_all(progress)?, &usual);
        Ok(Report {
            experiment: self.name(),
            title: "a chat server, all of whose sockets are in one table".to_owned(),
            config: json!({
                "rooms": self.rooms, "users": self.users, "messages": self.messages,
                "message_bytes": self.message_bytes, "rounds": self.rounds,
                "threads": usual.threads(), "deliveries": usual.deliveries(),
                "buffer_bytes": usual.buffer_bytes,
                "whole_traffic_buffer_bytes": self.conversation(Buffers::WholeTraffic).buffer_bytes,
            }),
            rows: rows.iter().map(to_value).collect::<Result<_, _>>()?,
            headline: findings::figures(&rows),
            tables: findings::tables(&rows),
            remarks: findings::remarks(&rows, &usual),
            machine,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Silent;

    fn tiny() -> Chat {
        Chat {
            rooms: 2,
            users: 3,
            messages: 5,
            message_bytes: 16,
            rounds: 2,
        }
    }

    #[test]
    fn a_tiny_run_has_a_row_for_each_table_and_kind_of_buffer() {
        let report = tiny().measure(Machine::observe(), &Silent).unwrap();
        assert_eq!(report.rows.len(), 6);
        // 30 sent, and 90 delivered; each is a write and a read.
        assert!(
            report.rows.iter().all(|row| row["lookups"] == 240),
            "{:#?}",
            report.rows
        );
        let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
        for key in [
            "chat.vs_rwlock",
            "chat.vs_files_struct",
            "chat.in_flight_vs_rwlock",
        ] {
            assert!(keys.contains(&key), "{key} is missing");
        }
    }

    #[test]
    fn a_message_that_would_not_be_written_as_one_piece_is_refused() {
        for message_bytes in [0, 7, 4097] {
            let chat = Chat {
                message_bytes,
                ..tiny()
            };
            assert!(
                chat.measure(Machine::observe(), &Silent).is_err(),
                "{message_bytes}"
            );
        }
    }
}
