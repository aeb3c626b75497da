//! The summary of `chat`: rows, tables, figures, and remarks.

use serde::Serialize;

use super::conversation::{Conversation, Run};
use super::form::Form;
use super::profile::Profile;
use super::{FILES_STRUCT, OURS, Profiled, RWLOCK_VEC, Subject};
use crate::report::{Figure, Goal, Table, ratio};
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

/// Makes a table of throughput, one of the CPU time, and one of the profiles.
pub(super) fn tables(rows: &[Row], profiles: &[ProfileRow]) -> Vec<Table> {
    let mut tables = vec![throughput(rows), processor(rows)];
    if !profiles.is_empty() {
        tables.push(profile(profiles));
    }
    tables
}

fn name(row: &Row) -> String {
    format!("{}: {}", row.form.name(), row.table)
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
        "form and table",
        "1000 messages/s",
        "times RwLock<Vec>",
        "times files_struct",
    ];
    Table {
        caption: "Messages received per second, and how many times as many as with a baseline in \
                  the same round: median (10th–90th percentile). \"All in flight\": buffers as \
                  large as the whole traffic, so that no thread waits for room. \"Classic\": four \
                  threads for each user, and a queue in memory between the two of the server"
            .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.iter().map(line).collect(),
    }
}

fn processor(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        vec![
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
    Table {
        caption: "CPU time of a run by its use: medians".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.iter().map(line).collect(),
    }
}

fn profile(rows: &[ProfileRow]) -> Table {
    let percent = |share: &Summary| format!("{:.1}", share.median * 100.0);
    let line = |row: &ProfileRow| {
        vec![
            row.table.to_owned(),
            percent(&row.lookup),
            percent(&row.buffers),
            percent(&row.sleep),
            percent(&row.rest),
            row.samples.to_string(),
        ]
    };
    let header = [
        "table",
        "lookup",
        "buffers",
        "sleep and wake",
        "the rest",
        "samples",
    ];
    Table {
        caption:
            "Code that a sampling profiler hit in the classic form, in percent of the samples: \
                  medians of the rounds. \"Lookup\": to find an open file, to keep it, and to let \
                  it go, with the locks for that and the time in the kernel that they take"
                .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.iter().map(line).collect(),
    }
}

fn find<'a>(rows: &'a [Row], table: &str, form: Form) -> Option<&'a Row> {
    rows.iter()
        .find(|row| row.table == table && row.form == form)
}

/// Goal of each form: what RCU gained on 4 CPUs.
const GAIN: Goal = Goal::AtLeast(1.318);

/// Picks the headline figures.
pub(super) fn figures(rows: &[Row], profiles: &[ProfileRow]) -> Vec<Figure> {
    let mut figures = throughput_figures(rows);
    figures.extend(profile_figures(profiles));
    figures
}

fn throughput_figures(rows: &[Row]) -> Vec<Figure> {
    type Times = fn(&Row) -> &Summary;
    let rwlock: Times = |row| &row.times_rwlock_vec;
    let files_struct: Times = |row| &row.times_files_struct;
    let all = [
        (
            "chat.vs_rwlock",
            Form::ThreeThreads,
            rwlock,
            "Chat throughput as a multiple of that on RwLock<Vec>",
        ),
        (
            "chat.vs_files_struct",
            Form::ThreeThreads,
            files_struct,
            "The same against the table that RCU replaced in Linux",
        ),
        (
            "chat.in_flight_vs_rwlock",
            Form::AllInFlight,
            rwlock,
            "Against RwLock<Vec> with all messages in flight",
        ),
        (
            "chat.in_flight_vs_files_struct",
            Form::AllInFlight,
            files_struct,
            "Against the table that RCU replaced, with all messages in flight",
        ),
        (
            "chat.classic_vs_rwlock",
            Form::Classic,
            rwlock,
            "Against RwLock<Vec> with four threads for each user, as in the original",
        ),
        (
            "chat.classic_vs_files_struct",
            Form::Classic,
            files_struct,
            "Against the table that RCU replaced, with four threads for each user",
        ),
    ];
    let figure = |(key, form, times, meaning): (_, _, Times, _)| {
        let row = find(rows, OURS, form)?;
        Some(Figure::of_ratio(key, times(row), GAIN, meaning))
    };
    all.into_iter().filter_map(figure).collect()
}

fn profile_figures(profiles: &[ProfileRow]) -> Vec<Figure> {
    let of = |table| profiles.iter().find(|row| row.table == table);
    let share = |key, table, meaning| {
        Some(Figure::of_ratio(
            key,
            &of(table)?.lookup,
            Goal::None,
            meaning,
        ))
    };
    let reduction = of(OURS).map(|row| Figure {
        key: "chat.lookup_share_reduction",
        value: 1.0 - row.times_files_struct.median,
        goal: Goal::AtLeast(0.65),
        meaning: "Part of the samples in lookup that is gone, against the table that RCU replaced"
            .to_owned(),
    });
    let shares = [
        share(
            "chat.lookup_share",
            OURS,
            "Part of the samples that is in lookup on fdtable",
        ),
        share(
            "chat.files_struct_lookup_share",
            FILES_STRUCT,
            "The same on the table that RCU replaced",
        ),
        share(
            "chat.rwlock_lookup_share",
            RWLOCK_VEC,
            "The same on RwLock<Vec>",
        ),
    ];
    reduction
        .into_iter()
        .chain(shares.into_iter().flatten())
        .collect()
}

/// Draws conclusions from the tables.
pub(super) fn remarks(rows: &[Row], usual: &Conversation) -> Vec<String> {
    let Conversation {
        rooms,
        users,
        messages,
        message_bytes,
        buffer_bytes,
        ..
    } = usual;
    let mut remarks = vec![format!(
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
    )];
    for form in [Form::ThreeThreads, Form::Classic] {
        let both = find(rows, RWLOCK_VEC, form).zip(find(rows, OURS, form));
        remarks.extend(both.map(|(baseline, ours)| what_limits(baseline, ours)));
    }
    remarks
}

/// Describes the part of the time that no table can reduce.
fn what_limits(baseline: &Row, ours: &Row) -> String {
    let seconds = baseline.user_seconds + baseline.system_seconds;
    let switches =
        baseline.voluntary_switches_per_message + baseline.involuntary_switches_per_message;
    format!(
        "{}: on RwLock<Vec> {:.0} % of the CPU time is in the kernel, where threads are put \
         to sleep and woken ({switches:.3} context switches per message). User time, where lookups \
         are, is {:.2} s a run on RwLock<Vec> and {:.2} s on fdtable.",
        baseline.form.name(),
        baseline.system_seconds / seconds * 100.0,
        baseline.user_seconds,
        ours.user_seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let figures = profile_figures(&profile_rows(&tables));
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
        assert!(profile_figures(&none).is_empty());
    }
}
