//! The workloads on each kind of list, in turns.

use std::sync::Arc;

use anyhow::Context;
use fdtable::rcu;
use fdtable_objects::percpu_list::Statistics;
use serde::Serialize;

use super::lists::Lists;
use super::{Build, Loadfile, Outcome, Until, build, replay};
use crate::experiment::Progress;
use crate::stats::{Samples, Summary, order};

/// Kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Dbench,
    Build,
}

/// Workload with its size.
pub(super) enum Load<'a> {
    Dbench {
        loadfile: &'a Loadfile,
        clients: usize,
    },
    Build(Build),
}

/// Results of all turns of a workload on one kind of list.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Turns {
    /// Operations of all threads per second.
    pub(super) operations_per_second: Samples,
    /// Seconds of all CPUs in the program, in all turns together.
    pub(super) user_seconds: f64,
    /// Seconds of all CPUs in the host's kernel for it, in all turns together.
    pub(super) system_seconds: f64,
    /// Statistics of the lists, if there are any.
    pub(super) locality: Option<Locality>,
}

/// Statistics of locks and removals of the lists.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Locality {
    /// Locks of lists that were taken by files that joined or left, in all turns together.
    pub(super) locks: u64,
    /// Files that left, in all turns together.
    pub(super) removals: u64,
    /// Fraction of the removals on the CPU where the file joined, a sample for each turn. None for
    /// one list, where it has no meaning.
    pub(super) cpu_hits: Option<Summary>,
    /// The same for memory nodes.
    pub(super) node_hits: Option<Summary>,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Dbench => "dbench",
            Kind::Build => "build",
        }
    }
}

impl Load<'_> {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Load::Dbench { .. } => Kind::Dbench,
            Load::Build(_) => Kind::Build,
        }
    }

    /// Runs a turn on a file system of its own, which is freed before this returns.
    fn turn(&self, lists: Lists, until: Until) -> anyhow::Result<Outcome> {
        let fs = Arc::new(lists.file_system()?);
        let outcome = match self {
            Load::Dbench { loadfile, clients } => replay(loadfile, *clients, &fs, until),
            Load::Build(size) => build(size, &fs, until),
        };
        drop(fs);
        rcu::barrier()?;
        outcome.with_context(|| format!("{}, {}", self.kind().name(), lists.name()))
    }
}

/// Gives every kind of lists its turn in each round.
pub(super) fn measure(
    load: &Load<'_>,
    rounds: usize,
    until: Until,
    progress: &dyn Progress,
) -> anyhow::Result<Vec<(Lists, Turns)>> {
    let mut outcomes = vec![Vec::with_capacity(rounds); Lists::ALL.len()];
    for round in 0..rounds {
        for place in order(Lists::ALL.len(), round) {
            outcomes[place].push(load.turn(Lists::ALL[place], until)?);
        }
        progress.step();
    }
    let turns = |(lists, outcomes): (Lists, Vec<_>)| (lists, Turns::of(lists, &outcomes));
    Ok(Lists::ALL.into_iter().zip(outcomes).map(turns).collect())
}

impl Turns {
    fn of(lists: Lists, outcomes: &[Outcome]) -> Self {
        let rounds = outcomes.iter().map(Outcome::operations_per_second);
        Turns {
            operations_per_second: rounds.collect::<Vec<_>>().into(),
            user_seconds: outcomes.iter().map(|it| it.user.as_secs_f64()).sum(),
            system_seconds: outcomes.iter().map(|it| it.system.as_secs_f64()).sum(),
            locality: Locality::of(lists, outcomes),
        }
    }
}

impl Locality {
    /// Adds up the statistics; none if there are no lists.
    fn of(lists: Lists, outcomes: &[Outcome]) -> Option<Self> {
        let counted: Option<Vec<_>> = outcomes.iter().map(|outcome| outcome.lists).collect();
        let counted = counted?;
        let hits = |of: fn(&Statistics) -> u64| {
            let rate = |it: &Statistics| of(it) as f64 / it.left as f64;
            let rates: Vec<_> = counted.iter().map(rate).collect();
            (lists == Lists::PerCpu).then(|| Summary::of(&rates))
        };
        Some(Locality {
            locks: counted.iter().map(|it| it.joined + it.left).sum(),
            removals: counted.iter().map(|it| it.left).sum(),
            cpu_hits: hits(|it| it.left_same_cpu),
            node_hits: hits(|it| it.left_same_node),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiment::Silent;

    fn outcome(lists: Option<Statistics>) -> Outcome {
        Outcome {
            operations: 10,
            opens: 0,
            closes: 0,
            bytes: 0,
            wall: Duration::from_secs(2),
            user: Duration::from_secs(3),
            system: Duration::from_secs(1),
            lists,
        }
    }

    fn counted(left: u64, left_same_cpu: u64) -> Outcome {
        let mut lists = Statistics::default();
        lists.joined = left + 1;
        lists.left = left;
        lists.left_same_cpu = left_same_cpu;
        lists.left_same_node = left;
        outcome(Some(lists))
    }

    #[test]
    fn hits_are_those_of_each_turn_and_locks_of_all() {
        let turns = Turns::of(Lists::PerCpu, &[counted(100, 50), counted(10, 10)]);
        assert_eq!(turns.operations_per_second.summary().median, 5.0);
        assert_eq!((turns.user_seconds, turns.system_seconds), (6.0, 2.0));
        let locality = turns.locality.unwrap();
        assert_eq!((locality.locks, locality.removals), (222, 110));
        assert_eq!(locality.cpu_hits.unwrap().median, 0.75);
        assert_eq!(locality.node_hits.unwrap().median, 1.0);
    }

    #[test]
    fn one_list_has_no_hits_and_no_list_no_locks() {
        let locality = Turns::of(Lists::One, &[counted(10, 10)]).locality.unwrap();
        assert_eq!((locality.locks, locality.removals), (21, 10));
        assert!(locality.cpu_hits.is_none() && locality.node_hits.is_none());
        assert!(Turns::of(Lists::None, &[outcome(None)]).locality.is_none());
    }

    #[test]
    fn every_kind_of_lists_has_its_turn() {
        let text = "NTCreateX \"\\file\" 0x40 0x3 1 NT_STATUS_OK\n";
        let loadfile = Loadfile::parse(text).unwrap();
        let load = Load::Dbench {
            loadfile: &loadfile,
            clients: 2,
        };
        let turns = measure(&load, 3, Until::Passes(5), &Silent).unwrap();
        let removals = |turns: &Turns| turns.locality.as_ref().map(|it| it.removals);
        let removals: Vec<_> = turns
            .iter()
            .map(|(it, turns)| (*it, removals(turns)))
            .collect();
        let all = Some(3 * 2 * 5);
        assert_eq!(
            removals,
            [(Lists::PerCpu, all), (Lists::One, all), (Lists::None, None)]
        );
    }

    #[test]
    fn an_unexpected_result_is_an_error_that_names_the_lists() {
        let loadfile = Loadfile::parse("Rmdir \"\\nothing\" NT_STATUS_OK\n").unwrap();
        let load = Load::Dbench {
            loadfile: &loadfile,
            clients: 1,
        };
        let error = measure(&load, 1, Until::Passes(1), &Silent).unwrap_err();
        assert!(format!("{error:#}").starts_with("dbench, "), "{error:#}");
    }
}
