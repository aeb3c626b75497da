//! The work of each thread of a chat.

use std::os::fd::RawFd;
use std::time::Instant;

use anyhow::ensure;
use fdtable_vfs::ipc::buffer::Side;

use super::conversation::{Connection, Conversation};
use super::descriptors::Descriptors;
use super::message::{Received, write_head};

/// The work of a thread for its user.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    /// The client writes its messages.
    Send,
    /// The client reads the messages of all users and checks them.
    Receive,
    /// The server reads the user's messages and writes them to the whole room.
    Serve,
    /// The server reads the user's messages and puts them into the queues of the whole room.
    ServerReceive,
    /// The server writes to the user the content of the user's queue.
    ServerSend,
}

/// The result of one thread.
pub(super) struct Share {
    pub(super) began: Instant,
    pub(super) ended: Instant,
    /// Reads and writes.
    pub(super) lookups: u64,
}

/// One user as one thread sees it.
pub(super) struct Part<'a, D> {
    pub(super) conversation: &'a Conversation,
    pub(super) descriptors: &'a D,
    pub(super) room: &'a [Connection],
    pub(super) user: u32,
    pub(super) lookups: u64,
}

impl<D: Descriptors> Part<'_, D> {
    /// Does the work of `role`, and ends the whole room's conversation if that fails.
    pub(super) fn play(mut self, role: Role) -> anyhow::Result<Share> {
        let began = Instant::now();
        let played = match role {
            Role::Send => self.send(),
            Role::Receive => self.receive(),
            Role::Serve => self.serve(),
            Role::ServerReceive => self.server_receive(),
            Role::ServerSend => self.server_send(),
        };
        let ended = Instant::now();
        played.inspect_err(|_| self.shut_down_room())?;
        Ok(Share {
            began,
            ended,
            lookups: self.lookups,
        })
    }

    fn send(&mut self) -> anyhow::Result<()> {
        let mut message = self.blank();
        for number in 0..self.conversation.messages {
            write_head(&mut message, self.user, number);
            self.write(self.connection().client, &message)?;
        }
        Ok(())
    }

    /// Forwards each message of the user to all users of the room.
    fn serve(&mut self) -> anyhow::Result<()> {
        let mut message = self.blank();
        let room = self.room;
        for _ in 0..self.conversation.messages {
            self.read(self.connection().server, &mut message)?;
            for connection in room {
                self.write(connection.server, &message)?;
            }
        }
        Ok(())
    }

    /// Puts each message of the user into the queues of all users of the room.
    fn server_receive(&mut self) -> anyhow::Result<()> {
        let mut message = self.blank();
        let room = self.room;
        for _ in 0..self.conversation.messages {
            self.read(self.connection().server, &mut message)?;
            for connection in room {
                let count = connection.queue.write(&message)?;
                ensure!(count == message.len(), "a queue ended in a message");
            }
        }
        Ok(())
    }

    /// Writes the messages of the user's queue to the user, one at a time.
    fn server_send(&mut self) -> anyhow::Result<()> {
        let mut message = self.blank();
        for _ in 0..self.conversation.messages_for_each() {
            let mut filled = 0;
            while filled < message.len() {
                let count = self.connection().queue.read(&mut message[filled..])?;
                ensure!(count > 0, "a queue ended in a message");
                filled += count;
            }
            self.write(self.connection().server, &message)?;
        }
        Ok(())
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let mut message = self.blank();
        let mut received = Received::new(self.conversation.users);
        for _ in 0..self.conversation.messages_for_each() {
            self.read(self.connection().client, &mut message)?;
            received.check(&message)?;
        }
        received.check_complete(self.conversation.messages)
    }

    /// Ends all conversations of the room, so that no thread waits for one that failed.
    fn shut_down_room(&self) {
        for connection in self.room {
            let _ = self.descriptors.shutdown(connection.client);
            let _ = self.descriptors.shutdown(connection.server);
            connection.queue.end_writer(Side::Closed);
            connection.queue.end_reader(Side::Closed);
        }
    }

    fn connection(&self) -> &Connection {
        &self.room[self.user as usize]
    }

    fn blank(&self) -> Vec<u8> {
        vec![0; self.conversation.message_bytes]
    }

    /// Reads one whole message.
    fn read(&mut self, fd: RawFd, message: &mut [u8]) -> anyhow::Result<()> {
        let mut filled = 0;
        while filled < message.len() {
            self.lookups += 1;
            let count = self.descriptors.read(fd, &mut message[filled..])?;
            ensure!(count > 0, "the connection ended in a message");
            filled += count;
        }
        Ok(())
    }

    /// Writes one whole message.
    fn write(&mut self, fd: RawFd, message: &[u8]) -> anyhow::Result<()> {
        self.lookups += 1;
        let count = self.descriptors.write(fd, message)?;
        ensure!(
            count == message.len(),
            "{count} of {} bytes were written",
            message.len()
        );
        Ok(())
    }
}
