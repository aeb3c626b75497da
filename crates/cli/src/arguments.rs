//! The command line as types.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};

/// A kernel's descriptor table as a library, and what it costs beside others.
///
/// Without a command: the quick form of every experiment, in less than three minutes.
#[derive(Debug, Parser)]
#[command(name = "fdtable", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one experiment, or all of them.
    Bench(Bench),
}

impl Default for Command {
    fn default() -> Self {
        let common = Common {
            quick: true,
            ..Common::default()
        };
        Command::Bench(Bench {
            experiment: None,
            common,
        })
    }
}

#[derive(Debug, Default, Args)]
pub(crate) struct Bench {
    /// Without one: all, each as `bench <experiment>` runs it.
    #[command(subcommand)]
    pub(crate) experiment: Option<Experiment>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What every experiment takes.
#[derive(Debug, Default, Args)]
pub(crate) struct Common {
    /// Take seconds for each experiment instead of minutes.
    #[arg(long, global = true)]
    pub(crate) quick: bool,
    /// Write the result as one JSON object to FILE.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// How often each subject has its turn.
    #[arg(long, global = true, value_name = "N", value_parser = at_least_one::<usize>())]
    pub(crate) rounds: Option<usize>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// From a descriptor to its open file: nanoseconds beside baselines and floors.
    Lookup,
    /// What an open costs while up to a million descriptors are open, cache hot and cold.
    FdScale,
    /// A number given out and taken back: pairs per thread, and bytes per slot.
    Alloc,
    /// The worst open and the worst lookup while a table grows to a million descriptors.
    Grow,
    /// A child's table, with 10 and with a million descriptors, and its first change.
    Fork,
    /// One descriptor at 2^31 - 1: time of the first open, and memory.
    Sparse,
    /// A chat server all of whose sockets are in one table: messages per second.
    Chat(ChatArguments),
}

/// What the chat takes; what is not given is 20, 20, 500 and 100.
#[derive(Debug, Default, Args)]
pub(crate) struct ChatArguments {
    /// Rooms.
    #[arg(long, value_name = "N", value_parser = at_least_one::<u32>())]
    pub(crate) rooms: Option<u32>,
    /// Users of each room, with three threads each.
    #[arg(long, value_name = "N", value_parser = at_least_one::<u32>())]
    pub(crate) users: Option<u32>,
    /// Messages that each user sends to the room.
    #[arg(long, value_name = "N", value_parser = at_least_one::<u32>())]
    pub(crate) messages: Option<u32>,
    /// Length of a message: 8 to 4096.
    #[arg(long, value_name = "BYTES", value_parser = RangedU64ValueParser::<usize>::new().range(8..=4096))]
    pub(crate) message_bytes: Option<usize>,
}

/// Accepts numbers from 1 to a million.
fn at_least_one<N: TryFrom<u64>>() -> RangedU64ValueParser<N> {
    RangedU64ValueParser::new().range(1..=1_000_000)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Bench, clap::Error> {
        let parsed = Arguments::try_parse_from(line.split_whitespace())?;
        let Command::Bench(bench) = parsed.command.unwrap_or_default();
        Ok(bench)
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn no_argument_is_the_quick_form_of_all() {
        let bench = parse("fdtable").unwrap();
        assert!(bench.experiment.is_none());
        assert!(bench.common.quick);
        assert!(bench.common.json.is_none());
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
            assert_eq!(bench.common.json, Some(PathBuf::from("out.json")), "{line}");
            assert_eq!(bench.common.rounds, Some(3), "{line}");
        }
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
    fn what_has_no_meaning_is_refused() {
        for line in [
            "fdtable bench chat --rooms 0",
            "fdtable bench chat --message-bytes 7",
            "fdtable bench chat --message-bytes 4097",
            "fdtable bench lookup --rounds 0",
            "fdtable bench lookup --rooms 3",
            "fdtable bench nothing",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
