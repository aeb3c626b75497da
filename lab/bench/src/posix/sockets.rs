//! Two event loops that talk over sockets of the host.
//!
//! A hundred TCP connections over the loopback interface, with a message of 64 bytes on each, which
//! goes back and forth. Each end has a thread with an epoll. Both make all calls on one side: here,
//! where a socket of the host has a descriptor of ours, or on the host.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fdtable_posix::timed::{ReadyFds, Sockets};
use serde::Serialize;

use super::{HOST, OURS};
use crate::affinity;
use crate::report::{Figure, Goal, Table, nanoseconds};
use crate::stats::{Summary, order, paired_ratio};

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
    ns: Summary,
    /// The samples of each round, for ratios in pairs.
    #[serde(skip)]
    rounds: Vec<f64>,
}

/// Connections of one side.
struct Talk {
    side: &'static str,
    calls: Sockets,
    clients: End,
    servers: End,
}

/// One end of all connections, and its epoll.
struct End {
    fds: Vec<i32>,
    epoll: i32,
}

impl Talk {
    fn begin(side: &'static str, calls: Sockets) -> anyhow::Result<Self> {
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
        end.fds.iter().for_each(|&fd| self.calls.close(fd));
    }

    /// Sends every message back, until the clients close.
    fn serve(&self) {
        affinity::pin(0);
        let (calls, mut ready) = (&self.calls, ReadyFds::new());
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
        let (calls, mut ready) = (&self.calls, ReadyFds::new());
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
        Talk::begin(OURS, Sockets::ours())?,
        Talk::begin(HOST, Sockets::host())?,
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
    let ns = ns.map_err(|_| anyhow::anyhow!("a measuring thread panicked"))?;
    let row = |(talk, rounds): (&Talk, Vec<f64>)| Row {
        call: "round trip of 64 bytes over TCP",
        side: talk.side,
        connections: CONNECTIONS,
        ns: Summary::of(&rounds),
        rounds,
    };
    Ok(talks.iter().zip(ns).map(row).collect())
}

/// Lets each side talk in turn, and ends the connections.
fn talk_in_turn(talks: &[Talk], rounds: usize) -> Vec<Vec<f64>> {
    let mut ns = vec![Vec::new(); talks.len()];
    for round in 0..rounds {
        for place in order(talks.len(), round) {
            ns[place].push(talks[place].turn());
        }
    }
    for talk in talks {
        talk.close(&talk.clients);
    }
    ns
}

pub(super) fn table(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        let Summary {
            median, p10, p90, ..
        } = row.ns;
        vec![
            row.side.to_owned(),
            nanoseconds(median),
            format!("{}–{}", nanoseconds(p10), nanoseconds(p90)),
        ]
    };
    Table {
        caption: "Nanoseconds of the wall for a round trip of 64 bytes over TCP, of 100 that are \
                  under way between two event loops: median (10th–90th percentile)"
            .to_owned(),
        header: ["side", "ns", "spread"].map(str::to_owned).to_vec(),
        rows: rows.iter().map(line).collect(),
    }
}

pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let of = |side| rows.iter().find(|row| row.side == side);
    let (Some(ours), Some(host)) = (of(OURS), of(HOST)) else {
        return Vec::new();
    };
    // Throughput is the inverse of the time.
    let ratio = paired_ratio(&host.rounds, &ours.rounds);
    vec![Figure::of_ratio(
        "posix.host_epoll_vs_host",
        &ratio,
        Goal::AtLeast(0.95),
        "event loops on sockets of the host: throughput ÷ that on the host",
    )]
}

/// Says what the difference is made of.
pub(super) fn remark() -> String {
    "An event loop on sockets of the host makes the same system calls on both sides. Here, each call \
     also looks up the descriptor and takes a reference to the file, and leaves the freezer while it \
     may block."
        .to_owned()
}
