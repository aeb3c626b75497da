//! `chat` (S1): rooms of users who write to each other through one shared table.
//!
//! RCU was introduced to the descriptor table of Linux with this benchmark (2001), modelled on
//! VolanoMark. Every message of a user goes to the server, and from there to every user of the
//! room. Each user has a connected pair of stream sockets, and all sockets of all rooms are
//! descriptors of one process, so every read and write of every thread looks up in the same table.
//!
//! Read it in this order:
//!
//! 1. here: the experiment, and which tables and forms it compares;
//! 2. `chat/form.rs`: the forms; `chat/role.rs`: the work of each thread; `chat/message.rs`: how
//!    messages are checked;
//! 3. `chat/conversation.rs`: one run, and `chat/descriptors.rs`: the system calls of each table;
//! 4. `chat/profile.rs`: which part of a run is lookup;
//! 5. `chat/summary.rs`: tables, figures and plots.
//!
//! # Forms
//!
//! In the *classic* form each user has four threads, as in the original: the client sends and
//! receives, and for each client the server receives and sends. The server's receiver puts the
//! message into an in-memory queue for each user of the room; the server's senders take it from
//! there.
//!
//! With *three threads* the server's receiver writes to all users itself: the socket's own buffer
//! is that queue. This is the usual design of a server that needs no other queue, and the table has
//! the largest part of its time. *All in flight* is the same with buffers that hold the whole
//! traffic, so that no thread waits for room.
//!
//! Sending and receiving are separate threads in all forms, so every broadcast drains and bounded
//! buffers cannot deadlock. Each receiver checks that it gets every message of all users once and
//! in order.
//!
//! # Calls
//!
//! `fdtable` is used as the vfs's process uses it: a borrowed lookup, and a reference only to wait.
//! The only lookup of the baselines that allows waiting takes a reference.

use std::env::current_exe;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use fdtable_vfs::ipc::buffer::PIPE_BUF;
use fdtable_vfs::{Object, Process};
use serde::Serialize;
use serde_json::json;

use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::part::Part;
use crate::report::Report;
use crate::stats::order;

mod conversation;
mod descriptors;
mod form;
mod message;
pub mod profile;
mod role;
mod summary;

use conversation::{Conversation, Run};
use descriptors::{Descriptors, Owned};
use form::Form;
use profile::{Profile, Request};

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
    /// Turns of each table in each form, at least 1.
    pub rounds: usize,
    /// Profiles of the classic form on each table; 0 for none.
    pub profiles: usize,
    /// Program to run for profiles; the running one if none. It must have the command
    /// [`part::COMMAND`](crate::part::COMMAND).
    #[serde(skip)]
    pub program: Option<PathBuf>,
}

/// One table with the conversation that runs on it.
struct Subject {
    table: &'static str,
    form: Form,
    hold: fn(&Conversation) -> anyhow::Result<Run>,
    runs: Vec<Run>,
}

/// One table with its profiles, of as many rounds as there were.
struct Profiled {
    table: &'static str,
    profiles: Vec<Profile>,
}

impl Chat {
    /// Returns the configuration for one of the two lengths of a run: 20 rooms of 20 users who send
    /// 500 messages of 100 bytes each, as in the original. The quick form has fewer rounds but as
    /// many messages: the startup dominates a short run.
    pub fn new(effort: Effort) -> Self {
        Chat {
            rooms: 20,
            users: 20,
            messages: 500,
            message_bytes: 100,
            rounds: effort.rounds(3, 15),
            profiles: effort.rounds(1, 5),
            program: None,
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        let counts = [self.rooms, self.users, self.messages];
        ensure!(
            self.rounds > 0 && !counts.contains(&0),
            "a chat needs one of each"
        );
        ensure!(
            (message::HEADER..=PIPE_BUF).contains(&self.message_bytes),
            "a message has {} to {PIPE_BUF} bytes, not {}",
            message::HEADER,
            self.message_bytes
        );
        Ok(())
    }

    fn conversation(&self, form: Form) -> Conversation {
        let traffic = self.users as usize * self.messages as usize * self.message_bytes;
        Conversation {
            form,
            rooms: self.rooms,
            users: self.users,
            messages: self.messages,
            message_bytes: self.message_bytes,
            buffer_bytes: form.buffer_bytes(traffic),
        }
    }

    /// Gives every subject its turn in every round.
    fn hold_all(&self, progress: &dyn Progress) -> anyhow::Result<Vec<Subject>> {
        let mut subjects = subjects();
        progress.begin("chat", (self.rounds * subjects.len()) as u64);
        for round in 0..self.rounds {
            for place in order(subjects.len(), round) {
                let subject = &mut subjects[place];
                let run = (subject.hold)(&self.conversation(subject.form));
                let name = || format!("{}, {}", subject.table, subject.form.name());
                subject.runs.push(run.with_context(name)?);
                progress.step();
            }
        }
        Ok(subjects)
    }

    /// Profiles every table in every round of profiles.
    fn profile_all(&self, progress: &dyn Progress) -> anyhow::Result<Vec<Profiled>> {
        ensure!(self.profiles == 0 || cfg!(feature = "profile"), NO_PROFILER);
        let program = self.program.clone().map_or_else(current_exe, Ok)?;
        let mut tables = TABLES.map(|table| Profiled {
            table,
            profiles: Vec::new(),
        });
        progress.begin("chat, profiles", (self.profiles * tables.len()) as u64);
        for round in 0..self.profiles {
            for place in order(tables.len(), round) {
                let Profiled { table, profiles } = &mut tables[place];
                profiles.push(self.profile(&program, table)?);
                progress.step();
            }
        }
        Ok(tables.into())
    }

    fn profile(&self, program: &Path, table: &str) -> anyhow::Result<Profile> {
        let request = Request {
            table: table.to_owned(),
            conversation: self.conversation(Form::Classic),
            times: 1,
        };
        let profile = Part::Chat(request).ask("the profile", program);
        profile.with_context(|| format!("a profile of {table}"))
    }
}

/// Why a program without the profiler takes no profile.
const NO_PROFILER: &str = "this program was built without the profiler, which takes half a minute of a CPU to build; \
     `cargo run --release --features profile -- bench chat` has it";

/// Names of the tables: ours, the one that RCU replaced, and today's common one.
const TABLES: [&str; 3] = [OURS, FILES_STRUCT, RWLOCK_VEC];
const OURS: &str = <Process as Descriptors>::NAME;
const FILES_STRUCT: &str = <Owned<RwLockBitmap<dyn Object>> as Descriptors>::NAME;
const RWLOCK_VEC: &str = <Owned<RwLockVec<dyn Object>> as Descriptors>::NAME;

/// Lists the tables, in every form.
fn subjects() -> Vec<Subject> {
    let tables = |form| {
        [
            subject::<Process>(form),
            subject::<Owned<RwLockBitmap<dyn Object>>>(form),
            subject::<Owned<RwLockVec<dyn Object>>>(form),
        ]
    };
    Form::ALL.into_iter().flat_map(tables).collect()
}

fn subject<D: Descriptors>(form: Form) -> Subject {
    Subject {
        table: D::NAME,
        form,
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
        let usual = self.conversation(Form::ThreeThreads);
        let classic = self.conversation(Form::Classic);
        let rows = summary::rows(&self.hold_all(progress)?, usual.deliveries());
        // A failure of the profiler does not invalidate the rest.
        let (profiled, failure) = match self.profile_all(progress) {
            Ok(profiled) => (summary::profile_rows(&profiled), None),
            Err(error) => (Vec::new(), Some(format!("There is no profile: {error:#}."))),
        };
        let config = json!({
            "rooms": self.rooms, "users": self.users, "messages": self.messages,
            "message_bytes": self.message_bytes, "rounds": self.rounds,
            "profiles": self.profiles,
            "threads": usual.threads(), "classic_threads": classic.threads(),
            "deliveries": usual.deliveries(), "buffer_bytes": usual.buffer_bytes,
            "whole_traffic_buffer_bytes": self.conversation(Form::AllInFlight).buffer_bytes,
        });
        let title = "a chat server, all of whose sockets are in one table";
        let mut report = Report::new(self, title, config, &rows, machine)?;
        report.add_rows(&profiled)?;
        summary::show(&rows, &profiled, &mut report);
        report.remarks = summary::remarks(&usual);
        report.remarks.extend(failure);
        Ok(report)
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
            profiles: 0,
            program: None,
        }
    }

    #[test]
    fn a_tiny_run_has_a_row_for_each_table_and_form() {
        let report = tiny().measure(Machine::observe(), &Silent).unwrap();
        assert_eq!(report.rows.len(), 9);
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
            "chat.classic_vs_rwlock",
        ] {
            assert!(keys.contains(&key), "{key} is missing");
        }
        assert_eq!(report.plots.len(), 1, "no profile was asked for");
    }

    #[test]
    fn a_program_that_takes_no_profile_leaves_the_rest_of_the_report() {
        let chat = Chat {
            rounds: 1,
            profiles: 1,
            program: Some("/nonexistent".into()),
            ..tiny()
        };
        let report = chat.measure(Machine::observe(), &Silent).unwrap();
        assert_eq!(report.rows.len(), 9);
        let says_so = |remark: &String| remark.starts_with("There is no profile");
        assert!(report.remarks.iter().any(says_so), "{:?}", report.remarks);
    }

    #[cfg(not(feature = "profile"))]
    #[test]
    fn a_program_without_the_profiler_says_how_to_get_it() {
        let chat = Chat {
            profiles: 1,
            ..tiny()
        };
        let report = chat.measure(Machine::observe(), &Silent).unwrap();
        let says_how = |remark: &String| remark.contains("--features profile -- bench chat");
        assert!(report.remarks.iter().any(says_how), "{:?}", report.remarks);
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
