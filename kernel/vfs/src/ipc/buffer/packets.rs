//! Packets of a pipe (`O_DIRECT`).
//!
//! An end with `O_DIRECT` writes packets of at most [`PIPE_BUF`] bytes, each with a mark. A read
//! ends with the first packet that it reaches, and drops the bytes of it that it has no room for.
//! As on Linux, a packet takes a page of the capacity, and bytes that have room in the page of a
//! stream before them are no packet, but belong to that stream.

use super::ancillary::Mark;
use super::{Form, PIPE_BUF, State};
use crate::Errno;
use crate::event::Wakeups;

impl State {
    /// Puts in what fits of `bytes`, or the next packet of them. Returns `None` if it must wait.
    pub(super) fn put_next(
        &mut self,
        form: Form,
        bytes: &[u8],
        wakeups: &mut Wakeups,
    ) -> Option<Result<usize, Errno>> {
        let partial = bytes.len() % PIPE_BUF;
        let (length, is_packet) = match form {
            Form::Stream => (bytes.len(), false),
            Form::Packets if self.has_room_in_page(partial) => (partial, false),
            Form::Packets => (bytes.len().min(PIPE_BUF), true),
        };
        if self.write_must_wait(if is_packet { PIPE_BUF } else { length }) {
            return None;
        }
        let (start, was_readable) = (self.end(), self.is_readable());
        let put = self.push(&bytes[..length]);
        if is_packet && put.is_ok() {
            let mark = Mark {
                start,
                end: self.end(),
                is_packet,
                ..Mark::default()
            };
            self.padding += mark.padding();
            self.marks.push_back(mark);
        }
        self.after_put(was_readable, wakeups);
        Some(put)
    }

    /// Returns true if the last page is that of a stream, and has room for `count` bytes more.
    fn has_room_in_page(&self, count: usize) -> bool {
        let last_packet = self.marks.back().map_or(0, |mark| mark.end);
        let stream = self.end() - last_packet.max(self.taken);
        let used = stream as usize % PIPE_BUF;
        count > 0 && used > 0 && used + count <= PIPE_BUF
    }
}

impl Mark {
    /// Returns how much of the capacity a packet takes beyond its bytes.
    pub(super) fn padding(&self) -> usize {
        match self.is_packet {
            true => PIPE_BUF - (self.end - self.start) as usize,
            false => 0,
        }
    }
}
