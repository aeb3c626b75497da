//! The cases: which descriptors each thread looks up.

use std::os::fd::RawFd;

use serde::Serialize;

/// Shortest sequence of lookups: 16 KiB of descriptors, so that they stay in the first-level cache.
const SHORTEST: usize = 4096;

/// One arrangement of threads and descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Case {
    pub(super) live: u32,
    pub(super) threads: usize,
    pub(super) pattern: Pattern,
}

named! {
    /// Sharing of descriptors between threads.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Pattern {
        /// All threads look up one descriptor.
        Same = "same",
        /// Each thread has a part of the live descriptors to itself, and looks them up at random.
        Different = "different",
    }
}

impl Case {
    /// Lists the cases for `live` descriptors. A single thread shares with no other: only one case.
    pub(super) fn all(live: u32, threads: &[usize]) -> Vec<Case> {
        let case = |(threads, pattern)| Case {
            live,
            threads,
            pattern,
        };
        let all = threads.iter().flat_map(|&threads| {
            let patterns = Pattern::ALL.into_iter();
            // One thread shares nothing.
            let patterns = patterns.filter(move |it| threads > 1 || *it == Pattern::Different);
            patterns.map(move |pattern| (threads, pattern))
        });
        all.map(case).collect()
    }
}

/// The descriptors that each thread looks up, in order; the same for every subject.
#[derive(Debug)]
pub struct Sequences {
    of_thread: Vec<Vec<RawFd>>,
}

impl Sequences {
    pub(super) fn new(case: &Case) -> Self {
        let mut random = fastrand::Rng::with_seed(u64::from(case.live));
        let sequence = |thread| match case.pattern {
            Pattern::Same => vec![(case.live / 2) as RawFd; SHORTEST],
            Pattern::Different => shuffled(&part(case, thread), &mut random),
        };
        Sequences {
            of_thread: (0..case.threads).map(sequence).collect(),
        }
    }

    /// Makes disjoint sequences for `threads` threads. Each thread has a part of the descriptors
    /// below `live` to itself, in a random order.
    pub fn disjoint(live: u32, threads: usize) -> Self {
        Self::new(&Case {
            live,
            threads,
            pattern: Pattern::Different,
        })
    }

    /// Returns the sequence of each thread. None is empty.
    pub fn of_threads(&self) -> &[Vec<RawFd>] {
        &self.of_thread
    }

    /// Adds up all descriptors: the expected sum of objects that contain their descriptor.
    pub(super) fn sum(&self) -> u64 {
        self.of_thread.iter().flatten().map(|&fd| fd as u64).sum()
    }
}

/// Lists the descriptors that belong to one thread: an equal part of neighbours, at least one.
fn part(case: &Case, thread: usize) -> Vec<RawFd> {
    let live = case.live as usize;
    let first = live * thread / case.threads;
    let end = (live * (thread + 1) / case.threads).max(first + 1);
    (first as RawFd..end as RawFd).collect()
}

/// Puts each descriptor in the sequence equally often, in a random order.
fn shuffled(numbers: &[RawFd], random: &mut fastrand::Rng) -> Vec<RawFd> {
    let times = SHORTEST.div_ceil(numbers.len());
    let mut sequence = numbers.repeat(times);
    random.shuffle(&mut sequence);
    sequence
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn case(live: u32, threads: usize, pattern: Pattern) -> Sequences {
        Sequences::new(&Case {
            live,
            threads,
            pattern,
        })
    }

    fn sets(sequences: &Sequences) -> Vec<BTreeSet<RawFd>> {
        sequences
            .of_threads()
            .iter()
            .map(|one| one.iter().copied().collect())
            .collect()
    }

    #[test]
    fn different_threads_have_disjoint_descriptors_and_all_are_used() {
        let sets = sets(&case(64, 16, Pattern::Different));
        let union: BTreeSet<_> = sets.iter().flatten().copied().collect();
        assert_eq!(union, (0..64).collect());
        assert_eq!(sets.iter().map(BTreeSet::len).sum::<usize>(), 64);
    }

    #[test]
    fn the_same_descriptor_is_one() {
        let sets = sets(&case(1000, 2, Pattern::Same));
        assert_eq!(sets, [BTreeSet::from([500]), BTreeSet::from([500])]);
    }

    #[test]
    fn a_sequence_is_the_same_for_every_subject_and_not_sorted() {
        let [one, other] = [(), ()].map(|()| case(100_000, 1, Pattern::Different));
        assert_eq!(one.of_threads(), other.of_threads());
        assert!(!one.of_threads()[0].is_sorted());
        assert_eq!(one.of_threads()[0].len(), 100_000);
    }

    #[test]
    fn one_thread_is_one_case_and_more_are_two() {
        assert_eq!(Case::all(64, &[1, 2, 16]).len(), 5);
    }
}
