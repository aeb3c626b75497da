//! What the measurements of `chat` say: rows, tables, figures, and sentences.

use fdtable_vfs::{Object, Process};
use serde::Serialize;

use super::conversation::{Conversation, Run};
use super::descriptors::{Descriptors, Owned};
use super::{Buffers, Subject};
use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::report::{Figure, Goal, Table, nanoseconds, ratio};
use crate::stats::{Summary, median, paired_ratio};

const OURS: &str = <Process as Descriptors>::NAME;
const FILES_STRUCT: &str = <Owned<RwLockBitmap<dyn Object>> as Descriptors>::NAME;
const RWLOCK_VEC: &str = <Owned<RwLockVec<dyn Object>> as Descriptors>::NAME;

/// What one table did with one kind of buffers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    table: &'static str,
    buffers: Buffers,
    /// Messages that users received, per second.
    messages_per_second: Summary,
    /// Throughput as a multiple of that of `RwLock<Vec<Option<Arc>>>`, in pairs.
    times_rwlock_vec: Summary,
    /// Throughput as a multiple of that of `files_struct` under a lock, in pairs.
    times_files_struct: Summary,
    /// Reads and writes of a run.
    lookups: u64,
    /// Nanoseconds of a lookup as part of a read or write, with all CPUs at it.
    lookup_ns: Summary,
    /// Lookups × their cost ÷ processor time of the run: median, and an upper bound, since the
    /// cost was measured without the pauses that a run has.
    lookup_share: f64,
    /// Processor time of a run in seconds, medians.
    user_seconds: f64,
    system_seconds: f64,
    /// Context switches for each message received, medians: the thread slept, or gave way.
    voluntary_switches_per_message: f64,
    involuntary_switches_per_message: f64,
}

/// Makes a row for each subject.
pub(super) fn rows(subjects: &[Subject], usual: &Conversation) -> Vec<Row> {
    let deliveries = usual.deliveries() as f64;
    let rate = |run: &Run| deliveries / run.wall.as_secs_f64();
    let rates = |name, buffers| {
        let found = subjects
            .iter()
            .find(|it| it.name == name && it.buffers == buffers);
        found.map_or_else(Vec::new, |it| it.runs.iter().map(rate).collect::<Vec<_>>())
    };
    let row = |subject: &Subject| {
        let all = |of: &dyn Fn(&Run) -> f64| subject.runs.iter().map(of).collect::<Vec<_>>();
        let middle = |of: &dyn Fn(&Run) -> f64| median(&all(of));
        let own = all(&rate);
        Row {
            table: subject.name,
            buffers: subject.buffers,
            messages_per_second: Summary::of(&own),
            times_rwlock_vec: paired_ratio(&own, &rates(RWLOCK_VEC, subject.buffers)),
            times_files_struct: paired_ratio(&own, &rates(FILES_STRUCT, subject.buffers)),
            lookups: subject.runs.first().map_or(0, |run| run.lookups),
            lookup_ns: Summary::of(&all(&|run| run.lookup_ns)),
            lookup_share: middle(&lookup_share),
            user_seconds: middle(&|run| run.usage.user.as_secs_f64()),
            system_seconds: middle(&|run| run.usage.system.as_secs_f64()),
            voluntary_switches_per_message: middle(&|run| {
                run.usage.voluntary_switches as f64 / deliveries
            }),
            involuntary_switches_per_message: middle(&|run| {
                run.usage.involuntary_switches as f64 / deliveries
            }),
        }
    };
    subjects.iter().map(row).collect()
}

/// Returns the part of a run's processor time that lookups took.
fn lookup_share(run: &Run) -> f64 {
    let processor = run.usage.user + run.usage.system;
    run.lookups as f64 * run.lookup_ns / processor.as_nanos() as f64
}

/// Makes a table of throughput, and one of where the time went.
pub(super) fn tables(rows: &[Row]) -> Vec<Table> {
    vec![throughput(rows), profile(rows)]
}

fn name(row: &Row) -> String {
    match row.buffers {
        Buffers::Usual => row.table.to_owned(),
        Buffers::WholeTraffic => format!("{}, all in flight", row.table),
    }
}

fn throughput(rows: &[Row]) -> Table {
    let spread =
        |of: &Summary| format!("{} ({}–{})", ratio(of.median), ratio(of.p10), ratio(of.p90));
    let line = |row: &Row| {
        let thousands = |rate: f64| format!("{:.0}", rate / 1000.0);
        let Summary {
            median, p10, p90, ..
        } = row.messages_per_second;
        vec![
            name(row),
            format!(
                "{} ({}–{})",
                thousands(median),
                thousands(p10),
                thousands(p90)
            ),
            spread(&row.times_rwlock_vec),
            spread(&row.times_files_struct),
        ]
    };
    let header = [
        "table",
        "1000 messages/s",
        "times RwLock<Vec>",
        "times files_struct",
    ];
    Table {
        caption: "Messages received per second, and how many times as many as with a baseline in \
                  the same round: median (10th–90th percentile). \"All in flight\": buffers as \
                  large as the whole traffic, so that nobody waits for room"
            .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.iter().map(line).collect(),
    }
}

fn profile(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        vec![
            name(row),
            format!("{:.2} / {:.2}", row.user_seconds, row.system_seconds),
            format!("{:.3}", row.voluntary_switches_per_message),
            format!("{:.3}", row.involuntary_switches_per_message),
            row.lookups.to_string(),
            nanoseconds(row.lookup_ns.median),
            format!("{:.1} %", row.lookup_share * 100.0),
        ]
    };
    let header = [
        "table",
        "user / system s",
        "sleeps per message",
        "preemptions per message",
        "lookups",
        "ns per lookup",
        "in lookup",
    ];
    Table {
        caption: "Where a run's time went: medians. \"In lookup\" is lookups × ns per lookup ÷ \
                  processor time; a lookup's cost is that of a read or write which need not wait, with \
                  every CPU at it, less that of one on a socket without a table"
            .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.iter().map(line).collect(),
    }
}

fn find<'a>(rows: &'a [Row], table: &str, buffers: Buffers) -> Option<&'a Row> {
    rows.iter()
        .find(|row| row.table == table && row.buffers == buffers)
}

/// Picks the headline figures.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let (usual, whole) = (
        find(rows, OURS, Buffers::Usual),
        find(rows, OURS, Buffers::WholeTraffic),
    );
    let rwlock = find(rows, RWLOCK_VEC, Buffers::Usual);
    let figure = |key, value: Option<f64>, goal, meaning: &str| {
        value.map(|value| Figure {
            key,
            value,
            goal,
            meaning: meaning.to_owned(),
        })
    };
    [
        figure(
            "chat.vs_rwlock",
            usual.map(|row| row.times_rwlock_vec.median),
            Goal::AtLeast(1.318),
            "Chat throughput as a multiple of that on RwLock<Vec>",
        ),
        figure(
            "chat.vs_files_struct",
            usual.map(|row| row.times_files_struct.median),
            Goal::AtLeast(1.318),
            "The same against the table that RCU replaced in Linux",
        ),
        figure(
            "chat.in_flight_vs_rwlock",
            whole.map(|row| row.times_rwlock_vec.median),
            Goal::None,
            "Against RwLock<Vec> with all messages in flight",
        ),
        figure(
            "chat.in_flight_vs_files_struct",
            whole.map(|row| row.times_files_struct.median),
            Goal::None,
            "Against the table that RCU replaced, with all messages in flight",
        ),
        figure(
            "chat.lookup_share",
            usual.map(|row| row.lookup_share),
            Goal::None,
            "Part of the run that fdtable spends in lookup, at most",
        ),
        figure(
            "chat.rwlock_lookup_share",
            rwlock.map(|row| row.lookup_share),
            Goal::None,
            "Part of the run that RwLock<Vec> spends in lookup, at most",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Says what the tables show.
pub(super) fn remarks(rows: &[Row], usual: &Conversation) -> Vec<String> {
    let Conversation {
        rooms,
        users,
        messages,
        message_bytes,
        buffer_bytes,
    } = usual;
    let mut remarks = vec![format!(
        "{rooms} rooms of {users} users, each of whom sends {messages} messages of {message_bytes} \
         bytes: {} deliveries a run by {} threads. A socket's buffer holds {} messages. \
         The original was judged by +31.8 % on 4 CPUs and +6.2 % on 2.",
        usual.deliveries(),
        usual.threads(),
        buffer_bytes / message_bytes
    )];
    let baseline = find(rows, RWLOCK_VEC, Buffers::Usual);
    let both = baseline.zip(find(rows, OURS, Buffers::Usual));
    remarks.extend(both.map(|(baseline, ours)| what_limits(baseline, ours)));
    remarks
}

/// Says how much a table could gain at most, and what takes the rest.
fn what_limits(baseline: &Row, ours: &Row) -> String {
    let share = baseline.lookup_share.clamp(0.0, 0.99);
    let seconds = baseline.user_seconds + baseline.system_seconds;
    let switches =
        baseline.voluntary_switches_per_message + baseline.involuntary_switches_per_message;
    format!(
        "On RwLock<Vec> lookups take up to {:.0} % of the processor time, so a table whose lookups \
         cost nothing would be {} times as fast at most. Up to, since their cost was measured with \
         every CPU reading and writing without a pause: in the run {:.0} % of the time is in the \
         kernel, where threads are put to sleep and woken ({switches:.3} context switches per \
         message). User time, where lookups are, is {:.2} s a run on RwLock<Vec> and \
         {:.2} s on fdtable.",
        share * 100.0,
        ratio(1.0 / (1.0 - share)),
        baseline.system_seconds / seconds * 100.0,
        baseline.user_seconds,
        ours.user_seconds,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::usage::Usage;

    #[test]
    fn the_share_of_lookups_is_that_of_the_processor_time() {
        let usage = Usage {
            user: Duration::from_millis(3),
            system: Duration::from_millis(1),
            ..Usage::default()
        };
        let run = Run {
            wall: Duration::from_millis(2),
            usage,
            lookups: 10_000,
            lookup_ns: 100.0,
        };
        assert_eq!(lookup_share(&run), 0.25);
    }
}
