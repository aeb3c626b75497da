//! Messages of a chat: the sender, the sequence number, and padding.

use anyhow::ensure;

/// Header bytes of every message: sender and sequence number.
pub(super) const HEADER: usize = 8;

/// Writes the header of a message.
pub(super) fn write_head(message: &mut [u8], sender: u32, number: u32) {
    message[..4].copy_from_slice(&sender.to_le_bytes());
    message[4..HEADER].copy_from_slice(&number.to_le_bytes());
}

fn head(message: &[u8]) -> (u32, u32) {
    let field = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| message[at + byte]));
    (field(0), field(4))
}

/// The messages that one user received: the next sequence number of each sender.
pub(super) struct Received {
    next: Vec<u32>,
}

impl Received {
    pub(super) fn new(users: u32) -> Self {
        Received {
            next: vec![0; users as usize],
        }
    }

    /// Checks that `message` is the next of its sender.
    pub(super) fn check(&mut self, message: &[u8]) -> anyhow::Result<()> {
        let (sender, number) = head(message);
        let next = self.next.get_mut(sender as usize);
        ensure!(
            next.as_deref() == Some(&number),
            "message {number} of user {sender} arrived, but {next:?} was next"
        );
        next.into_iter().for_each(|next| *next += 1);
        Ok(())
    }

    /// Checks that all messages of all users arrived.
    pub(super) fn check_complete(&self, messages: u32) -> anyhow::Result<()> {
        ensure!(
            self.next.iter().all(|&next| next == messages),
            "messages are missing: {:?}",
            self.next
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sender: u32, number: u32) -> Vec<u8> {
        let mut message = vec![0; 16];
        write_head(&mut message, sender, number);
        message
    }

    #[test]
    fn senders_may_mix_but_each_keeps_its_order() {
        let mut received = Received::new(2);
        for (sender, number) in [(0, 0), (1, 0), (1, 1), (0, 1)] {
            received.check(&message(sender, number)).unwrap();
        }
        received.check_complete(2).unwrap();
    }

    #[test]
    fn a_lost_a_doubled_and_a_foreign_message_are_noticed() {
        for (sender, number) in [(0, 2), (0, 0), (2, 0)] {
            let mut received = Received::new(2);
            received.check(&message(0, 0)).unwrap();
            assert!(
                received.check(&message(sender, number)).is_err(),
                "{number} of {sender}"
            );
        }
    }

    #[test]
    fn an_end_before_the_last_message_is_noticed() {
        let mut received = Received::new(1);
        received.check(&message(0, 0)).unwrap();
        assert!(received.check_complete(2).is_err());
    }
}
