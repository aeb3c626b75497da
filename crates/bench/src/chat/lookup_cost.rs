//! What a lookup costs as part of a read or write that need not wait.
//!
//! Lookups alone, one after another on every CPU, contend more than they do in a chat, where the
//! socket's work lies between them. So whole exchanges are measured: a message is written to one
//! end of a connection and read from the other, by every CPU on connections of its own, once
//! through the table and once on sockets that no table holds. Half of the difference is a lookup.

use std::time::Duration;

use fdtable_vfs::socket::{self, StreamSocket};
use fdtable_vfs::{Errno, Object, OpenFlags};

use super::conversation::Seat;
use super::descriptors::Descriptors;
use crate::affinity;
use crate::lookup::timing::{self, Sequences};
use crate::stats::median;

/// For how long exchanges run at a time.
const TURN: Duration = Duration::from_millis(3);

/// How often both kinds have their turn.
const TURNS: usize = 3;

/// Returns the nanoseconds of a lookup, on a table whose connections are empty and idle.
pub(super) fn measure<D: Descriptors>(
    descriptors: &D,
    rooms: &[Vec<Seat>],
    message_bytes: usize,
) -> anyhow::Result<f64> {
    let seats: Vec<Seat> = rooms.iter().flatten().copied().collect();
    let sockets: Vec<_> = seats
        .iter()
        .map(|_| socket::pair(OpenFlags::empty()))
        .collect();
    let connections = Sequences::disjoint(seats.len() as u32, affinity::cpus());
    let through_table = |numbers: &[i32]| {
        exchange(numbers, message_bytes, |number, message| {
            let Seat { client, server } = seats[number];
            descriptors.write(client, message)?;
            descriptors.read(server, message)
        })
    };
    let directly = |numbers: &[i32]| {
        exchange(numbers, message_bytes, |number, message| {
            let (client, server): &(StreamSocket, StreamSocket) = &sockets[number];
            client.write(message)?;
            server.read(message)
        })
    };
    let mut lookups = Vec::with_capacity(TURNS);
    for turn in 0..TURNS {
        let with = timing::turn(&connections, TURN, turn, &through_table)?;
        let without = timing::turn(&connections, TURN, turn, &directly)?;
        lookups.push((with - without) / 2.0);
    }
    Ok(median(&lookups))
}

/// Passes one message through each connection of a slice, and counts the bytes that came.
#[inline]
fn exchange(
    connections: &[i32],
    message_bytes: usize,
    pass: impl Fn(usize, &mut [u8]) -> Result<usize, Errno>,
) -> u64 {
    let mut message = vec![0; message_bytes];
    let came = |&number: &i32| pass(number as usize, &mut message).unwrap_or(0) as u64;
    connections.iter().map(came).sum()
}

#[cfg(test)]
mod tests {
    use fdtable_vfs::Process;

    use super::*;

    #[test]
    fn connections_are_empty_again_after_the_measurement() {
        let process = <Process as Descriptors>::with_limit(2);
        let (client, server) = socket::pair(OpenFlags::NONBLOCK);
        let client = Descriptors::open(&process, client).unwrap();
        let server = Descriptors::open(&process, server).unwrap();
        let cost = measure(&process, &[vec![Seat { client, server }]], 100).unwrap();
        assert!(cost.is_finite());
        assert_eq!(
            Descriptors::read(&process, server, &mut [0; 1]),
            Err(Errno::EAGAIN)
        );
    }

    #[test]
    fn an_exchange_counts_what_came() {
        let all = exchange(&[0, 1], 100, |_, message| Ok(message.len()));
        assert_eq!(all, 200);
    }
}
