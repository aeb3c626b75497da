//! A walk over the first objects of many slabs, with colours and without.
//!
//! Each slab is on pages of its own, and colours do not help against misses of the TLB: so there
//! are no more slabs than a first-level TLB has entries. The order is shuffled, since CPUs prefetch
//! steps of constant length.

use std::hint::black_box;
use std::path::Path;
use std::ptr::from_ref;
use std::time::Instant;

use serde::Serialize;

use super::cachegrind::{self, FIRST, Geometry};
use crate::part::Part;
use crate::stats::{Samples, order};
use fdtable_slab::{Cache, Colouring, Object};

/// Slabs of a walk. Without colours that is eight times the ways of a set.
const SLABS: usize = 64;

/// Seed of the order of the slabs: the same one in each walk.
const SEED: u64 = 7;

/// Laps of a walk while it is timed: some 50 µs.
const ROUNDS: usize = 400;

/// Laps of a walk while misses are counted.
const COUNTED: usize = 1000;

/// An object of 1 KiB, as large as an inode. Its first word is the index of the next one.
type Node = [u64; 128];

/// Results of the walks.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Walks {
    /// Slabs of each walk: one object of each is read.
    pub(super) slabs: usize,
    /// Number of colours of the cache.
    pub(super) colours: usize,
    /// Laps over all slabs while misses were counted.
    pub(super) counted: usize,
    /// First-level cache in which they were counted.
    pub(super) simulated: Geometry,
    pub(super) with: Walked,
    pub(super) without: Walked,
}

/// Result of one walk.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Walked {
    /// Nanoseconds of a step.
    pub(super) ns: Samples,
    /// Misses of the walk; none if the tool is missing.
    pub(super) misses: Option<u64>,
}

/// The first objects of the slabs, in a ring.
struct Ring<'a> {
    nodes: Vec<&'a Node>,
}

impl Ring<'_> {
    /// Walks around the ring; each step depends on the value that the previous one read.
    #[inline(never)]
    fn walk(&self, rounds: usize) {
        let mut at = 0;
        for _ in 0..rounds * self.nodes.len() {
            at = self.nodes[at][0] as usize;
        }
        black_box(at);
    }

    /// Returns the nanoseconds of a step.
    fn time(&self) -> f64 {
        let began = Instant::now();
        self.walk(ROUNDS);
        began.elapsed().as_nanos() as f64 / (ROUNDS * self.nodes.len()) as f64
    }
}

/// Times the walks in `rounds` rounds, and counts their misses. Blocks for some seconds.
///
/// # Errors
/// If there is no memory, or the counting fails.
pub(super) fn measure(rounds: usize, program: &Path) -> anyhow::Result<Walks> {
    let mut ns = [const { Vec::new() }; 2];
    let colours = with_ring(Colouring::On, |with, colours| {
        with_ring(Colouring::Off, |without, _| {
            for round in 0..rounds {
                for place in order(2, round) {
                    ns[place].push([with, without][place].time());
                }
            }
            Ok(())
        })?;
        Ok(colours)
    })?;
    let [with, without] = ns;
    Ok(Walks {
        slabs: SLABS,
        colours,
        counted: COUNTED,
        simulated: FIRST,
        with: Walked::new(with, true, program)?,
        without: Walked::new(without, false, program)?,
    })
}

impl Walked {
    /// Counts the misses too: those of the program with the walk, minus those of the program
    /// without a step.
    fn new(ns: Vec<f64>, has_colours: bool, program: &Path) -> anyhow::Result<Self> {
        let count = |rounds| {
            let part = Part::Walk {
                has_colours,
                rounds,
            };
            cachegrind::count(program, &part.arguments()?)
        };
        let (walked, stood) = (count(COUNTED)?, count(0)?);
        Ok(Walked {
            ns: ns.into(),
            misses: walked
                .zip(stood)
                .map(|(walked, stood)| walked.first.saturating_sub(stood.first)),
        })
    }
}

/// Walks `rounds` laps and does nothing else.
///
/// # Errors
/// If there is no memory.
pub(crate) fn walk(has_colours: bool, rounds: usize) -> anyhow::Result<()> {
    let colouring = if has_colours {
        Colouring::On
    } else {
        Colouring::Off
    };
    with_ring(colouring, |ring, _| {
        ring.walk(rounds);
        Ok(())
    })
}

/// Fills slabs and passes on the ring of their first objects, with the number of colours.
fn with_ring<R>(
    colouring: Colouring,
    f: impl FnOnce(&Ring<'_>, usize) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let cache = Cache::with("walk", colouring)?;
    let mut objects: Vec<Object<'_, Node>> = Vec::new();
    let per_slab = cache.info().objects_per_slab;
    let mut firsts: Vec<usize> = Vec::new();
    // A slab need not be full although later ones were started: a thread that migrates to another
    // CPU leaves objects in the magazine of the first.
    while firsts.len() < SLABS {
        for _ in 0..per_slab * (SLABS - firsts.len()) {
            objects.push(cache.insert([0; 128])?);
        }
        objects.sort_by_key(address);
        let addresses: Vec<_> = objects.iter().map(address).collect();
        firsts = first_of_each_slab(&addresses, per_slab);
    }
    firsts.truncate(SLABS);
    fastrand::Rng::with_seed(SEED).shuffle(&mut firsts);
    for (n, &first) in firsts.iter().enumerate() {
        objects[first][0] = ((n + 1) % SLABS) as u64;
    }
    let nodes = firsts.iter().map(|&first| &*objects[first]);
    let ring = Ring {
        nodes: nodes.collect(),
    };
    f(&ring, cache.info().colours)
}

fn address(object: &Object<'_, Node>) -> usize {
    from_ref::<Node>(object).addr()
}

/// Finds the indices of the first objects of full slabs in sorted addresses: `per_slab` objects
/// without a gap are a slab.
fn first_of_each_slab(addresses: &[usize], per_slab: usize) -> Vec<usize> {
    let mut firsts = Vec::new();
    let mut start = 0;
    for end in 1..=addresses.len() {
        let adjoins = addresses
            .get(end)
            .is_some_and(|next| next - addresses[end - 1] == size_of::<Node>());
        if !adjoins || end - start == per_slab {
            firsts.extend((end - start == per_slab).then_some(start));
            start = end;
        }
    }
    firsts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the addresses of `objects` objects without a gap.
    fn row(first: usize, objects: usize) -> Vec<usize> {
        let address = |n| first + n * size_of::<Node>();
        (0..objects).map(address).collect()
    }

    #[test]
    fn slabs_are_separated_at_their_gaps() {
        // A full slab, one without its middle object, a full one, and the beginning of one.
        let broken = [row(1 << 16, 1), row((1 << 16) + 2048, 1)].concat();
        let addresses = [row(64, 3), broken, row(2 << 16, 3), row(3 << 16, 2)].concat();
        assert_eq!(first_of_each_slab(&addresses, 3), [0, 5]);
        assert_eq!(first_of_each_slab(&[], 3), [0; 0]);
    }

    #[test]
    fn slabs_without_a_gap_are_separated_by_their_size() {
        assert_eq!(first_of_each_slab(&row(4096, 6), 3), [0, 3]);
    }

    #[test]
    fn a_walk_reads_an_object_of_each_slab() {
        for colouring in [Colouring::On, Colouring::Off] {
            let seen = with_ring(colouring, |ring, _| {
                let mut at = 0;
                let steps = (0..SLABS).map(|_| {
                    at = ring.nodes[at][0] as usize;
                    at
                });
                Ok(steps.collect::<std::collections::BTreeSet<_>>().len())
            });
            assert_eq!(seen.unwrap(), SLABS);
        }
    }
}
