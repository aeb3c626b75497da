//! Two event loops that talk over sockets of the host.
//!
//! A hundred TCP connections over the loopback interface, with a message of 64 bytes on each, which
//! goes back and forth. Each end has a thread with an epoll. Both make all calls on one side: here,
//! where a socket of the host has a descriptor of ours, or on the host.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fdtable_posix::timed::{Calls, ReadyFds};
use serde::Serialize;

use super::{HOST, OURS};
use crate::affinity;
use crate::experiment::{Silent, alternate};
use crate::plot::Axis;
use crate::report::{Grid, Report};
use crate::stats::Samples;

/// How long each turn lasts.
const TURN: Duration = Duration::from_millis(20);

/// Connections of each side.
const CONNECTIONS: usize = 100;

/// Bytes of a message.
const MESSAGE: [u8; 64] = [7; 64];

/// The time of a round trip on one side.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    call: &'static str,
    side: &'static str,
    connections: usize,
    /// Nanoseconds of the wall for one round trip, of which many are under way.
    ns: Samples,
}

/// Connections of one side.
struct Talk {
    side: &'static str,
    calls: Calls,
    clients: End,
    servers: End,
}

/// One end of all connections, and its epoll.
struct End {
    fds: Vec<i32>,
    epoll: i32,
}

impl Talk {
    fn begin(side: &'static str, calls: Calls) -> anyhow::Result<Self> {
        let pairs = calls
            .pairs(CONNECTIONS)
            .with_context(|| format!("{side}: no connections over the loopback interface"))?;
        let (clients, servers): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let end = |fds: Vec<i32>| {
            let epoll = calls.epoll_of(fds.iter().copied());
            ensure!(epoll >= 0, "{side}: no epoll");
            Ok(End { fds, epoll })
        };
        let (clients, servers) = (end(clients)?, end(servers)?);
        Ok(Talk {
            side,
            calls,
            clients,
            servers,
        })
    }

    fn close(&self, end: &End) {
        self.calls.close(end.epoll);
        end.fds.iter().for_each(|&fd| _ = self.calls.close(fd));
    }

    /// Sends every message back, until the clients close.
    fn serve(&self) {
        affinity::pin(0);
        let (calls, mut ready) = (&self.calls, ReadyFds::default());
        let mut message = MESSAGE;
        loop {
            for fd in calls.wait(self.servers.epoll, &mut ready) {
                match calls.read(fd, &mut message) {
                    count @ 1.. => _ = calls.write(fd, &message[..count as usize]),
                    _ => return self.close(&self.servers),
                }
            }
        }
    }

    /// Talks for one turn, and returns the nanoseconds of a round trip.
    fn turn(&self) -> f64 {
        let (calls, mut ready) = (&self.calls, ReadyFds::default());
        let mut message = MESSAGE;
        let began = Instant::now();
        let mut trips = 0_u32;
        for &fd in &self.clients.fds {
            calls.write(fd, &message);
        }
        let (mut under_way, mut is_over) = (self.clients.fds.len(), false);
        while under_way > 0 {
            for fd in calls.wait(self.clients.epoll, &mut ready) {
                if calls.read(fd, &mut message) <= 0 {
                    return f64::INFINITY;
                }
                trips += 1;
                if is_over {
                    under_way -= 1;
                } else {
                    calls.write(fd, &message);
                }
            }
            is_over = is_over || began.elapsed() >= TURN;
        }
        began.elapsed().as_nanos() as f64 / f64::from(trips)
    }
}

/// Measures both sides.
pub(super) fn measure(rounds: usize) -> anyhow::Result<Vec<Row>> {
    let talks = [
        Talk::begin(OURS, Calls::ours())?,
        Talk::begin(HOST, Calls::host())?,
    ];
    let ns = thread::scope(|scope| {
        for talk in &talks {
            scope.spawn(|| talk.serve());
        }
        let talking = scope.spawn(|| {
            affinity::pin(1);
            talk_in_turn(&talks, rounds)
        });
        talking.join()
    });
    let ns = ns.map_err(|_| anyhow::anyhow!("a measuring thread panicked"))??;
    let row = |(talk, ns): (&Talk, Samples)| Row {
        call: "round trip of 64 bytes over TCP",
        side: talk.side,
        connections: CONNECTIONS,
        ns,
    };
    Ok(talks.iter().zip(ns).map(row).collect())
}

/// Lets each side talk in turn, and ends the connections.
fn talk_in_turn(talks: &[Talk], rounds: usize) -> anyhow::Result<Vec<Samples>> {
    let talk = |place: usize, _| Ok(talks[place].turn());
    let ns = alternate(talks.len(), rounds, &Silent, talk);
    for talk in talks {
        talk.close(&talk.clients);
    }
    ns
}

/// Shows the times, and what their difference is made of.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    let of = |side| rows.iter().find(|row| row.side == side).map(|row| &row.ns);
    report.grid(Grid::new(
        "sockets",
        "Nanoseconds of the wall for a round trip of 64 bytes over TCP, of 100 that are under way \
         between two event loops",
        Axis::linear("ns"),
        [("round trip", ())],
        [OURS, HOST].map(|side| (side, side)),
        |side, ()| of(*side).map(Samples::summary),
    ));
    // Throughput is the inverse of the time.
    let throughput = of(HOST).zip(of(OURS)).map(|(host, ours)| host.over(ours));
    report.ratio("posix.host_epoll_vs_host", throughput);
    report.remarks.push(
        "An event loop on sockets of the host makes the same system calls on both sides. Here, each \
         call also looks up the descriptor and takes a reference to the file, and leaves the freezer \
         while it may block."
            .to_owned(),
    );
}
