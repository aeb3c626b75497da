//! The commands of the experiments.

use std::path::PathBuf;

#[cfg(feature = "experiments")]
use clap::builder::PossibleValuesParser;
use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};
#[cfg(feature = "experiments")]
use fdtable_bench::conflicts;
use fdtable_bench::experiment::Effort;
#[cfg(not(feature = "experiments"))]
use fdtable_bench::systems::EVERYTHING;

/// Output of `conflicts`.
#[cfg(feature = "experiments")]
#[derive(Debug, Default, Args)]
pub(crate) struct Conflicts {
    /// Fail unless our conflicts are exactly the allowed ones.
    #[arg(long, conflicts_with = "explain")]
    pub(crate) check: bool,
    /// Show where in the source our conflicts are: those of an operation with another, or with any.
    #[arg(long, value_name = "OPERATION", num_args = 0..=2, value_parser = PossibleValuesParser::new(conflicts::operations()))]
    pub(crate) explain: Option<Vec<String>>,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Debug, Default, Args)]
#[cfg_attr(not(feature = "experiments"), command(after_help = format!("All experiments: {EVERYTHING}")))]
pub(crate) struct Bench {
    /// Without one: all, each as `bench <experiment>` runs it.
    #[command(subcommand)]
    pub(crate) experiment: Option<Experiment>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of every experiment.
#[derive(Debug, Default, Args)]
pub(crate) struct Common {
    /// Take seconds for each experiment instead of minutes.
    #[arg(long, global = true)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) form: Form,
    /// List what became faster or slower beyond the noise since FILE was written with --json.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    /// Number of turns of each subject.
    #[arg(long, global = true, value_name = "N", value_parser = at_least_one::<usize>())]
    pub(crate) rounds: Option<usize>,
}

impl Common {
    pub(crate) fn effort(&self) -> Effort {
        Effort {
            quick: self.quick,
            rounds: self.rounds,
        }
    }
}

/// Output formats of reports.
#[derive(Debug, Default, Args)]
pub(crate) struct Form {
    /// Write the result as one JSON object to FILE.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with plots to DIR/index.html, and each plot to DIR/<experiment>-<name>.svg.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) html: Option<PathBuf>,
    /// Write the headline figures of all reports to FILE, as a page of Markdown.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) figures: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// From a descriptor to its open file: nanoseconds beside baselines and floors.
    Lookup,
    /// The cost of an open while up to a million descriptors are open, cache hot and cold.
    FdScale,
    /// An object allocated and freed, beside mimalloc, jemalloc and others: time, memory, colours.
    Slab,
    /// Lists of open files, for each CPU and under one lock: dbench, a build, and their parts.
    OpenFiles(OpenFilesArguments),
    /// The worst open and the worst lookup while a table grows to a million descriptors.
    #[cfg(feature = "experiments")]
    Grow,
    /// A child's table, with 10 and with a million descriptors, and its first change.
    #[cfg(feature = "experiments")]
    Fork,
    /// A chat server all of whose sockets are in one table: messages per second.
    Chat(ChatArguments),
    /// The calls of libMicro that concern descriptors, beside tables under a lock.
    Libmicro,
    /// Our table beside existing alternatives: lookups, opens and closes, growth, memory.
    #[cfg(feature = "experiments")]
    Peers,
    /// The rows of lmbench, with slabs and blocks and without: microseconds, MB/s.
    #[cfg(feature = "experiments")]
    Lmbench,
    /// Words of descriptors and replacements, beside the plain operations.
    #[cfg(feature = "experiments")]
    Ports,
    /// Unmodified programs under `fdtable run`, beside the same on the host.
    #[cfg(feature = "experiments")]
    Run,
    /// Trees of processes on one kernel, beside the same on the host.
    #[cfg(feature = "experiments")]
    Tree,
    /// The first command of the README in a fresh clone, and a table in an empty crate.
    #[cfg(feature = "experiments")]
    Adopt,
}

/// Options of the chat; the defaults are 20, 20, 500 and 100.
#[derive(Debug, Default, Args)]
pub(crate) struct ChatArguments {
    /// Rooms.
    #[arg(long, value_name = "N", value_parser = at_least_one::<u32>())]
    pub(crate) rooms: Option<u32>,
    /// Users of each room, with three threads each, or four in the classic form.
    #[arg(long, value_name = "N", value_parser = at_least_one::<u32>())]
    pub(crate) users: Option<u32>,
    /// Messages that each user sends to the room.
    #[arg(long, value_name = "N", value_parser = at_least_one::<u32>())]
    pub(crate) messages: Option<u32>,
    /// Length of a message: 8 to 4096.
    #[arg(long, value_name = "BYTES", value_parser = RangedU64ValueParser::<usize>::new().range(8..=4096))]
    pub(crate) message_bytes: Option<usize>,
}

/// Options of open-files.
#[derive(Debug, Default, Args)]
pub(crate) struct OpenFilesArguments {
    /// Load file of dbench. Default: /usr/share/dbench/client.txt, if it exists.
    #[arg(long, value_name = "PATH")]
    pub(crate) loadfile: Option<PathBuf>,
    /// Clients that replay it, each on a thread of its own; 64 by default. Some 30 MB each.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    pub(crate) clients: Option<usize>,
}

/// Accepts numbers from 1 to a million.
fn at_least_one<N: TryFrom<u64>>() -> RangedU64ValueParser<N> {
    RangedU64ValueParser::new().range(1..=1_000_000)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn parse(line: &str) -> Result<Bench, clap::Error> {
        let parsed = Arguments::try_parse_from(line.split_whitespace())?;
        match parsed.command {
            Some(Command::Bench(bench)) => Ok(bench),
            other => panic!("not an experiment: {other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn bench_alone_is_the_full_form_of_all() {
        let bench = parse("fdtable bench").unwrap();
        assert!(bench.experiment.is_none());
        assert!(!bench.common.quick);
    }

    #[test]
    fn common_options_may_stand_before_or_after_the_experiment() {
        for line in [
            "fdtable bench lookup --quick --json out.json --rounds 3",
            "fdtable bench --quick --json out.json --rounds 3 lookup",
        ] {
            let bench = parse(line).unwrap();
            assert!(
                matches!(bench.experiment, Some(Experiment::Lookup)),
                "{line}"
            );
            assert!(bench.common.quick, "{line}");
            assert_eq!(
                bench.common.form.json,
                Some(PathBuf::from("out.json")),
                "{line}"
            );
            assert_eq!(bench.common.rounds, Some(3), "{line}");
        }
    }

    #[test]
    fn a_report_has_several_forms() {
        let line = "fdtable bench lookup --html site --compare old.json --json new.json";
        let common = parse(line).unwrap().common;
        assert_eq!(common.form.html, Some(PathBuf::from("site")));
        assert_eq!(common.compare, Some(PathBuf::from("old.json")));
        assert_eq!(common.form.json, Some(PathBuf::from("new.json")));
        let common = parse("fdtable bench").unwrap().common;
        assert!(common.form.html.is_none() && common.compare.is_none());
    }

    #[test]
    fn a_chat_takes_its_size() {
        let line = "fdtable bench chat --rooms 2 --users 3 --messages 4 --message-bytes 64";
        let Some(Experiment::Chat(chat)) = parse(line).unwrap().experiment else {
            panic!("not a chat")
        };
        let given = (chat.rooms, chat.users, chat.messages, chat.message_bytes);
        assert_eq!(given, (Some(2), Some(3), Some(4), Some(64)));
    }

    #[test]
    fn open_files_take_a_load_file_and_clients() {
        let line = "fdtable bench open-files --loadfile day.txt --clients 8 --quick";
        let Some(Experiment::OpenFiles(open_files)) = parse(line).unwrap().experiment else {
            panic!("not open files")
        };
        assert_eq!(open_files.loadfile, Some(PathBuf::from("day.txt")));
        assert_eq!(open_files.clients, Some(8));
    }

    #[cfg(feature = "experiments")]
    #[test]
    fn conflicts_are_explained_for_existing_operations() {
        let parse = |line: &str| Arguments::try_parse_from(line.split_whitespace());
        let asked = parse("fdtable conflicts --explain close dup").unwrap();
        let Some(Command::Conflicts(asked)) = asked.command else {
            panic!("not the conflicts")
        };
        assert_eq!(asked.explain.unwrap(), ["close", "dup"]);
        for line in [
            "fdtable conflicts --explain cloze",
            "fdtable conflicts --explain close dup put",
            "fdtable conflicts --explain close --check",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn invalid_values_are_refused() {
        for line in [
            "fdtable bench chat --rooms 0",
            "fdtable bench chat --message-bytes 7",
            "fdtable bench chat --message-bytes 4097",
            "fdtable bench open-files --clients 0",
            "fdtable bench open-files --clients 4097",
            "fdtable bench lookup --loadfile day.txt",
            "fdtable bench lookup --rounds 0",
            "fdtable bench lookup --rooms 3",
            "fdtable bench nothing",
            "fdtable bench --html",
            "fdtable bench --compare",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
