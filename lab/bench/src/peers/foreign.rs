//! Rivals in processes of their own: tables that are not written in Rust.
//!
//! Each is a program under `lab/bench/rivals`, which this program builds. The rival stays alive and
//! answers requests over its standard streams for a turn, for growth, or for a footprint, so that
//! its turns alternate with those of the others. It measures time itself, around the same loop as
//! ours and with its threads on the same CPUs.
//!
//! The sequences of lookups are sent to it, so that they are the same for all tables.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::case::{Case, Work};
use super::rival::{Missing, Rival};
use crate::child::Program;
use crate::experiment::Progress;
use crate::tail::Tail;

mod gvisor;
mod liburcu;

/// Time limit for a turn beside its length, for busy machines.
const TURN_LIMIT: Duration = Duration::from_secs(60);

/// Time limit for millions of opens.
const SIZE_LIMIT: Duration = Duration::from_secs(300);

/// Treatment of programs that take minutes to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowBuilds {
    /// Uses only those that were built before.
    Skip,
    /// Builds them, once: they stay in the user's cache.
    Build,
}

/// Lists every rival, or why it is missing. Blocks while they are built.
pub(super) fn all(
    slow: SlowBuilds,
    progress: &dyn Progress,
) -> Vec<Result<Box<dyn Rival>, Missing>> {
    let mut rivals = liburcu::all();
    rivals.push(gvisor::rival(slow, progress));
    rivals
        .into_iter()
        .map(|rival| rival.map(|it| Box::new(it) as Box<dyn Rival>))
        .collect()
}

/// Rival in another process.
struct Foreign {
    name: &'static str,
    program: Program,
    /// The case whose sequences the program has received.
    sent: Option<Case>,
}

impl Foreign {
    fn new(name: &'static str, program: Program) -> Self {
        Foreign {
            name,
            program,
            sent: None,
        }
    }

    /// Sends the sequences of a case, unless the program has them.
    fn send_sequences(&mut self, case: Case) -> anyhow::Result<()> {
        if self.sent == Some(case) {
            return Ok(());
        }
        for (nth, sequence) in case.sequences().iter().enumerate() {
            let mut request = format!("sequence {nth}");
            for place in sequence {
                write!(request, " {place}")?;
            }
            self.program.ask_numbers::<0>(&request, "ok", TURN_LIMIT)?;
        }
        self.sent = Some(case);
        Ok(())
    }
}

impl Rival for Foreign {
    fn name(&self) -> &'static str {
        self.name
    }

    fn turn(&mut self, case: Case, length: Duration, round: usize) -> anyhow::Result<Option<f64>> {
        self.send_sequences(case)?;
        let Some(word) = word(case.work) else {
            return Ok(None);
        };
        let request = format!(
            "turn {word} {} {} {} {round}",
            case.threads,
            case.open(),
            length.as_nanos()
        );
        let limit = TURN_LIMIT + length;
        let ns = self.program.ask_numbers(&request, "ns", limit)?;
        Ok(ns.map(|[ns]| ns))
    }

    fn growth(&mut self, most: u32) -> anyhow::Result<Option<Tail>> {
        let request = format!("growth {most}");
        let tail = self.program.ask_numbers(&request, "tail", SIZE_LIMIT)?;
        Ok(tail.map(|[median, p9999, max, count]| Tail {
            median_ns: median as u64,
            p9999_ns: p9999 as u64,
            max_ns: max as u64,
            count: count as u64,
        }))
    }

    fn footprint(&mut self, live: u32) -> anyhow::Result<Option<f64>> {
        let request = format!("footprint {live}");
        let bytes = self.program.ask_numbers(&request, "bytes", SIZE_LIMIT)?;
        Ok(bytes.map(|[bytes]| bytes))
    }
}

/// Returns the word for it in a request, if programs do it.
fn word(work: Work) -> Option<&'static str> {
    Some(match work {
        Work::Borrowed => "borrowed",
        Work::Owned => "owned",
        Work::OpenClose => "open_close",
        Work::OpenCloseNew => "open_close_new",
        Work::Mixed => "mixed",
        Work::OpenCloseClone => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::experiment::Silent;

    /// Makes all requests to a rival, with small sizes.
    fn takes_part(rival: &mut dyn Rival) {
        let name = rival.name();
        for case in Case::ALL {
            for round in 0..2 {
                let ns = rival.turn(case, Duration::from_millis(1), round).unwrap();
                // Each lookup takes a reference there.
                let can = match case.work {
                    Work::Borrowed => name != gvisor::NAME,
                    work => word(work).is_some(),
                };
                assert_eq!(ns.is_some(), can, "{name}: {case:?}");
                assert!(ns.is_none_or(|ns| ns > 0.0), "{name}: {case:?}");
            }
        }
        if let Some(tail) = rival.growth(1000).unwrap() {
            assert_eq!(tail.count, 1000, "{name}");
            assert!(tail.median_ns <= tail.p9999_ns && tail.p9999_ns <= tail.max_ns);
        } else {
            assert_eq!(name, "liburcu hash table, qsbr");
        }
        let bytes = rival.footprint(10_000).unwrap().unwrap();
        // A pointer at least.
        assert!((8.0..1000.0).contains(&bytes), "{name}: {bytes}");
    }

    #[test]
    fn every_available_rival_takes_part() {
        for rival in all(SlowBuilds::Skip, &Silent) {
            match rival {
                Ok(mut rival) => takes_part(&mut *rival),
                Err(missing) => println!("skipped: {}: {}", missing.name, missing.reason),
            }
        }
    }

    #[test]
    fn sequences_are_sent_once_for_a_case() {
        // Answers a turn with the number of sequences that it was sent until then.
        let script = "n=0; while read -r what more; do case $what in \
            sequence) n=$((n + 1)); echo ok;; *) echo ns $n;; esac; done";
        let program = Program::start("the fake", Command::new("sh").args(["-c", script])).unwrap();
        let mut rival = Foreign::new("the fake", program);
        let mut turn = |case: Case| rival.turn(case, Duration::from_millis(1), 0).unwrap();
        let [one, two] = [1, 2].map(|threads| Case {
            work: Work::Owned,
            threads,
        });
        assert_eq!(turn(one), Some(1.0));
        assert_eq!(turn(one), Some(1.0));
        assert_eq!(turn(two), Some(3.0));
        assert_eq!(turn(one), Some(4.0));
    }
}
