//! The summary of `chat`: rows, tables, figures, and remarks.

use serde::Serialize;

use super::conversation::{Conversation, Run};
use super::form::Form;
use super::profile::Profile;
use super::{FILES_STRUCT, OURS, Profiled, RWLOCK_VEC, Subject, TABLES};
use crate::plot::Axis;
use crate::report::{Grid, Report, Table};
use crate::stats::{Summary, median, paired_ratio};

/// Results of one table in one form.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) table: &'static str,
    pub(super) form: Form,
    /// Messages that users received, per second.
    pub(super) messages_per_second: Summary,
    /// Throughput as a multiple of that of `RwLock<Vec<Option<Arc>>>`, in pairs.
    times_rwlock_vec: Summary,
    /// Throughput as a multiple of that of `files_struct` under a lock, in pairs.
    times_files_struct: Summary,
    /// Reads and writes of a run.
    lookups: u64,
    /// CPU time of a run in seconds, medians.
    user_seconds: f64,
    system_seconds: f64,
    /// Context switches for each message received, medians: the thread slept, or was preempted.
    voluntary_switches_per_message: f64,
    involuntary_switches_per_message: f64,
}

/// Samples of one table by kind.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ProfileRow {
    pub(super) table: &'static str,
    form: Form,
    /// Samples of all rounds.
    samples: u64,
    /// Parts of them in each round: 0 to 1.
    pub(super) lookup: Summary,
    pub(super) buffers: Summary,
    pub(super) sleep: Summary,
    pub(super) rest: Summary,
    /// `lookup` ÷ that of `files_struct` under a lock, and of `RwLock<Vec<Option<Arc>>>`, in pairs.
    times_files_struct: Summary,
    times_rwlock_vec: Summary,
}

/// Makes a row for each subject.
pub(super) fn rows(subjects: &[Subject], deliveries: u64) -> Vec<Row> {
    let deliveries = deliveries as f64;
    let rate = |run: &Run| deliveries / run.wall.as_secs_f64();
    let rates = |table, form| {
        let found = subjects
            .iter()
            .find(|it| it.table == table && it.form == form);
        found.map_or_else(Vec::new, |it| it.runs.iter().map(rate).collect::<Vec<_>>())
    };
    let row = |subject: &Subject| {
        let all = |of: &dyn Fn(&Run) -> f64| subject.runs.iter().map(of).collect::<Vec<_>>();
        let middle = |of: &dyn Fn(&Run) -> f64| median(&all(of));
        let own = all(&rate);
        Row {
            table: subject.table,
            form: subject.form,
            messages_per_second: Summary::of(&own),
            times_rwlock_vec: paired_ratio(&own, &rates(RWLOCK_VEC, subject.form)),
            times_files_struct: paired_ratio(&own, &rates(FILES_STRUCT, subject.form)),
            lookups: subject.runs.first().map_or(0, |run| run.lookups),
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

/// Makes a row for each table that was profiled.
pub(super) fn profile_rows(tables: &[Profiled]) -> Vec<ProfileRow> {
    let lookups = |table: &str| {
        let found = tables.iter().find(|it| it.table == table);
        let profiles = found.map_or(&[][..], |it| &it.profiles);
        let share = |profile: &Profile| profile.share(profile.lookup);
        profiles.iter().map(share).collect::<Vec<_>>()
    };
    let row = |it: &Profiled| {
        let share = |hits: fn(&Profile) -> u64| {
            let shares = it
                .profiles
                .iter()
                .map(|profile| profile.share(hits(profile)));
            Summary::of(&shares.collect::<Vec<_>>())
        };
        ProfileRow {
            table: it.table,
            form: Form::Classic,
            samples: it.profiles.iter().map(Profile::samples).sum(),
            lookup: share(|profile| profile.lookup),
            buffers: share(|profile| profile.buffers),
            sleep: share(|profile| profile.sleep),
            rest: share(|profile| profile.chat + profile.unknown),
            times_files_struct: paired_ratio(&lookups(it.table), &lookups(FILES_STRUCT)),
            times_rwlock_vec: paired_ratio(&lookups(it.table), &lookups(RWLOCK_VEC)),
        }
    };
    let measured = tables.iter().filter(|it| !it.profiles.is_empty());
    measured.map(row).collect()
}

/// Shows throughput, CPU time, and profiles.
pub(super) fn show(rows: &[Row], profiles: &[ProfileRow], report: &mut Report) {
    let rates = Grid::new(
        "throughput",
        "Messages that the users of a chat receive, by the table in which all sockets are. \"All in \
         flight\": buffers as large as the whole traffic, so that no thread waits for room. \
         \"Classic\": four threads for each user, and a queue in memory between the two of the server",
        Axis::linear("million messages/s"),
        Form::ALL.map(|form| (form.name(), form)),
        TABLES.map(|table| (table, table)),
        |table, form| Some(find(rows, table, *form)?.messages_per_second.times(1e-6)),
    );
    report.grid(rates);
    report.tables.push(processor(rows));
    figures(rows, report);
    if !profiles.is_empty() {
        profile(profiles, report);
    }
}

fn name(row: &Row) -> String {
    format!("{}: {}", row.form.name(), row.table)
}

fn processor(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        [
            name(row),
            format!("{:.2} / {:.2}", row.user_seconds, row.system_seconds),
            format!("{:.3}", row.voluntary_switches_per_message),
            format!("{:.3}", row.involuntary_switches_per_message),
            row.lookups.to_string(),
        ]
    };
    let header = [
        "form and table",
        "user / system s",
        "sleeps per message",
        "preemptions per message",
        "lookups",
    ];
    let caption = "CPU time of a run by its use: medians";
    Table::new(caption, header, rows.iter().map(line))
}

/// Shows which code the profiler hit, and how much of it was lookup.
fn profile(rows: &[ProfileRow], report: &mut Report) {
    type Share = fn(&ProfileRow) -> Summary;
    let parts: [(&str, Share); 4] = [
        ("lookup", |row| row.lookup),
        ("buffers", |row| row.buffers),
        ("sleep and wake", |row| row.sleep),
        ("the rest", |row| row.rest),
    ];
    report.grid(Grid::new(
        "profile",
        "Code that a sampling profiler hit in the classic form, in percent of the samples. \
         \"Lookup\": to find an open file, to keep it, and to let it go, with the locks for that \
         and the time in the kernel that they take",
        Axis::linear("% of the samples"),
        parts,
        rows.iter().map(|row| (row.table, row)),
        |row, share| Some(share(row).times(100.0)),
    ));
    let of = |table| rows.iter().find(|row| row.table == table);
    let gone = of(OURS).map(|row| 1.0 - row.times_files_struct.median);
    report.figure("chat.lookup_share_reduction", gone);
    for (key, table) in [
        ("chat.lookup_share", OURS),
        ("chat.files_struct_lookup_share", FILES_STRUCT),
        ("chat.rwlock_lookup_share", RWLOCK_VEC),
    ] {
        report.ratio(key, of(table).map(|row| row.lookup));
    }
}

fn find<'a>(rows: &'a [Row], table: &str, form: Form) -> Option<&'a Row> {
    rows.iter()
        .find(|row| row.table == table && row.form == form)
}

fn figures(rows: &[Row], report: &mut Report) {
    for (key, table) in [
        ("chat.million_messages", OURS),
        ("chat.files_struct_million_messages", FILES_STRUCT),
    ] {
        let row = find(rows, table, Form::ThreeThreads);
        let millions = row.map(|row| row.messages_per_second.median * 1e-6);
        report.figure(key, millions);
    }
    for (form, word) in [
        (Form::ThreeThreads, ""),
        (Form::AllInFlight, "in_flight_"),
        (Form::Classic, "classic_"),
    ] {
        let key = |rival| format!("chat.{word}vs_{rival}");
        let row = find(rows, OURS, form);
        report.ratio(&key("rwlock"), row.map(|row| row.times_rwlock_vec));
        report.ratio(&key("files_struct"), row.map(|row| row.times_files_struct));
    }
}

/// Draws conclusions from the tables.
pub(super) fn remarks(usual: &Conversation) -> Vec<String> {
    let Conversation {
        rooms,
        users,
        messages,
        message_bytes,
        buffer_bytes,
        ..
    } = usual;
    vec![format!(
        "{rooms} rooms of {users} users, each of whom sends {messages} messages of {message_bytes} \
         bytes: {} deliveries a run by {} threads, or {} in the classic form. A socket's buffer \
         holds {} messages. The original was judged by +31.8 % on 4 CPUs and +6.2 % on 2, and by \
         65 % fewer hits of a profiler in lookup.",
        usual.deliveries(),
        usual.threads(),
        Conversation {
            form: Form::Classic,
            ..*usual
        }
        .threads(),
        buffer_bytes / message_bytes
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::shown;

    fn profiled(table: &'static str, lookup: u64) -> Profiled {
        let profile = Profile {
            lookup,
            buffers: 100 - lookup,
            ..Profile::default()
        };
        Profiled {
            table,
            profiles: vec![profile; 2],
        }
    }

    #[test]
    fn the_reduction_is_the_removed_fraction_of_the_share() {
        let tables = [
            profiled(OURS, 10),
            profiled(FILES_STRUCT, 40),
            profiled(RWLOCK_VEC, 50),
        ];
        let figures = shown(|report| profile(&profile_rows(&tables), report)).headline;
        let value = |key| figures.iter().find(|it| it.key == key).map(|it| it.value);
        assert_eq!(value("chat.lookup_share_reduction"), Some(0.75));
        assert_eq!(value("chat.lookup_share"), Some(0.1));
        assert_eq!(value("chat.rwlock_lookup_share"), Some(0.5));
    }

    #[test]
    fn tables_without_a_profile_have_no_figure_of_it() {
        let none = profile_rows(&[Profiled {
            table: OURS,
            profiles: Vec::new(),
        }]);
        assert!(none.is_empty());
    }
}
