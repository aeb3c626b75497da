//! The memory that a completion process takes over at once, and what it drops.

use std::ffi::c_int;
use std::fs;
use std::io;
use std::ops::Range;

use super::plan::{Dead, PAGE};
use crate::host::maps::{self, Mapping};

pub(super) struct Ranges {
    pub(super) taken: Vec<Range<u64>>,
    pub(super) dropped: Vec<Range<u64>>,
}

impl Ranges {
    /// Finds them: the runner had some memory when the supervisor was made; since then its heap has
    /// grown, and threads have got stacks. All else is the program's.
    pub(super) fn of(process: c_int, dead: &[Dead]) -> io::Result<Self> {
        /// How far from its stack pointer, and from its thread-local variables, a thread may need
        /// memory: the size of a stack of the runner's threads, and more than these variables.
        const NEAR: u64 = 768 << 10;
        let own = private("self")?;
        let theirs = private(&process.to_string())?;
        let mut taken: Vec<Range<u64>> = Vec::new();
        for (range, name) in &theirs {
            if matches!(name.as_str(), "[heap]" | "[stack]") {
                taken.push(range.clone());
                continue;
            }
            let near = dead.iter().flat_map(|dead| [dead.registers.rsp, dead.fs]);
            let near =
                near.map(|at| at.saturating_sub(NEAR)..at.saturating_add(NEAR) & !(PAGE - 1));
            let wanted = own.iter().map(|(range, _)| range.clone()).chain(near);
            for wanted in wanted {
                let part = range.start.max(wanted.start & !(PAGE - 1))..range.end.min(wanted.end);
                if !part.is_empty() {
                    taken.push(part);
                }
            }
        }
        let taken = joined(taken);
        let mut dropped = Vec::new();
        for (range, _) in own {
            let mut at = range.start;
            for part in taken
                .iter()
                .filter(|part| part.end > range.start && part.start < range.end)
            {
                if part.start > at {
                    dropped.push(at..part.start);
                }
                at = at.max(part.end);
            }
            if at < range.end {
                dropped.push(at..range.end);
            }
        }
        Ok(Self { taken, dropped })
    }
}

/// Returns the ranges, without what is in two of them.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

/// Returns the private mappings of a process that can be written, and their names.
fn private(process: &str) -> io::Result<Vec<(Range<u64>, String)>> {
    let text = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let is_private = |mapping: &Mapping<'_>| matches!(mapping.permissions, "rw-p" | "rwxp");
    let found = maps::parse(&text).filter(is_private);
    Ok(found
        .map(|mapping| (mapping.range, mapping.name.to_owned()))
        .collect())
}
