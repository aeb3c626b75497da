//! One run of the chat on one table.

use std::os::fd::RawFd;
use std::time::Duration;

use fdtable_vfs::ipc::buffer::Buffer;
use fdtable_vfs::{OpenFlags, socket};
use serde::{Deserialize, Serialize};

use super::descriptors::Descriptors;
use super::form::Form;
use super::role::{Part, Share};
use crate::start::together;
use crate::usage::Usage;

/// Stack of each thread in bytes.
const STACK: usize = 128 << 10;

/// Size and form of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Conversation {
    pub(super) form: Form,
    pub(super) rooms: u32,
    pub(super) users: u32,
    pub(super) messages: u32,
    pub(super) message_bytes: usize,
    /// Capacity of each direction of each socket, and of each queue.
    pub(super) buffer_bytes: usize,
}

/// The cost of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// From the first thread's start to the last one's end.
    pub(super) wall: Duration,
    pub(super) usage: Usage,
    /// Reads and writes, each of which looks up once.
    pub(super) lookups: u64,
}

/// One user at the server.
#[derive(Debug)]
pub(super) struct Connection {
    /// The two ends of the connection.
    pub(super) client: RawFd,
    pub(super) server: RawFd,
    /// Messages that the server has to write to the user. Used in the form that has a thread for
    /// it; it has no descriptor.
    pub(super) queue: Buffer,
}

impl Conversation {
    /// Counts the threads of a run.
    pub(super) fn threads(&self) -> usize {
        self.form.roles().len() * self.rooms as usize * self.users as usize
    }

    /// Counts the messages that one user receives.
    pub(super) fn messages_for_each(&self) -> u32 {
        self.users * self.messages
    }

    /// Counts the messages that users receive.
    pub(super) fn deliveries(&self) -> u64 {
        u64::from(self.rooms) * u64::from(self.users).pow(2) * u64::from(self.messages)
    }

    /// Runs the chat on a new table. Blocks until the last message arrived.
    ///
    /// # Errors
    /// If threads or sockets cannot be created, or a message is lost, doubled, or out of order.
    pub(super) fn hold<D: Descriptors>(&self) -> anyhow::Result<Run> {
        let descriptors = D::with_limit(2 * self.rooms * self.users);
        let rooms = self.connect_users(&descriptors)?;
        let roles = self.form.roles();
        let part = |nth: usize| {
            let (user, role) = (nth / roles.len(), roles[nth % roles.len()]);
            let part = Part {
                conversation: self,
                descriptors: &descriptors,
                room: &rooms[user / self.users as usize],
                user: user as u32 % self.users,
                lookups: 0,
            };
            (part, role)
        };
        let play = |(part, role): (Part<'_, D>, _)| part.play(role);
        let (before, shares) = together(self.threads(), STACK, Usage::now, part, play)?;
        Ok(Run {
            wall: wall(&shares),
            usage: Usage::now()?.since(&before),
            lookups: shares.iter().map(|share| share.lookups).sum(),
        })
    }

    /// Opens a pair of sockets for each user of each room.
    fn connect_users<D: Descriptors>(
        &self,
        descriptors: &D,
    ) -> anyhow::Result<Vec<Vec<Connection>>> {
        let connection = |_| {
            let (client, server) = socket::with_capacity(self.buffer_bytes, OpenFlags::empty());
            Ok(Connection {
                client: descriptors.open(client)?,
                server: descriptors.open(server)?,
                queue: Buffer::new(self.buffer_bytes),
            })
        };
        (0..self.rooms)
            .map(|_| (0..self.users).map(connection).collect())
            .collect()
    }
}

fn wall(shares: &[Share]) -> Duration {
    let began = shares.iter().map(|share| share.began).min();
    let ended = shares.iter().map(|share| share.ended).max();
    began
        .zip(ended)
        .map_or(Duration::ZERO, |(began, ended)| ended - began)
}

#[cfg(test)]
mod tests {
    use fdtable_vfs::{Errno, Object, Process, socket::Socket};

    use super::*;
    use crate::baseline::RwLockVec;
    use crate::chat::descriptors::Owned;

    const SMALL: Conversation = Conversation {
        form: Form::ThreeThreads,
        rooms: 2,
        users: 4,
        messages: 100,
        message_bytes: 100,
        buffer_bytes: 4096,
    };

    #[test]
    fn all_users_get_all_messages_through_full_buffers() {
        for form in Form::ALL {
            let small = Conversation { form, ..SMALL };
            for run in [
                small.hold::<Process>(),
                small.hold::<Owned<RwLockVec<dyn Object>>>(),
            ] {
                let run = run.unwrap();
                // 800 sent and 3,200 delivered, a write and a read each.
                assert_eq!(run.lookups, 2 * (800 + 3200), "{form:?}");
                assert!(run.wall > Duration::ZERO);
            }
        }
    }

    /// A process that writes one byte wrong.
    struct Faulty(Process);

    impl Descriptors for Faulty {
        const NAME: &'static str = "faulty";

        fn with_limit(limit: u32) -> Self {
            Faulty(Descriptors::with_limit(limit))
        }

        fn open(&self, socket: Socket) -> Result<RawFd, Errno> {
            Descriptors::open(&self.0, socket)
        }

        fn read(&self, fd: RawFd, buf: &mut [u8]) -> Result<usize, Errno> {
            self.0.read(fd, buf)
        }

        fn write(&self, fd: RawFd, bytes: &[u8]) -> Result<usize, Errno> {
            let mut wrong = bytes.to_vec();
            wrong[4] ^= u8::from(wrong[4] == 50);
            self.0.write(fd, &wrong)
        }

        fn shutdown(&self, fd: RawFd) -> Result<(), Errno> {
            Descriptors::shutdown(&self.0, fd)
        }
    }

    #[test]
    fn a_wrong_message_ends_the_run_with_an_error() {
        for form in Form::ALL {
            let small = Conversation { form, ..SMALL };
            let error = small.hold::<Faulty>().unwrap_err();
            assert!(!error.to_string().is_empty());
        }
    }
}
