//! The sites of this process: which trap, and which jump to a stub.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::change::Change;
use super::code::code_memory;
use super::files::{CodeOfFiles, Mapped};
use super::jump::Jump;
use super::stubs::{Pools, Stubs};
use crate::guarded::Guarded;
use crate::memory::PAGE;

pub(super) struct Sites {
    pools: Pools,
    /// How many calls have trapped at a site that is neither rejected nor rewritten yet.
    pub(super) trapped: BTreeMap<u64, u32>,
    /// Sites that cannot be changed.
    pub(super) rejected: BTreeSet<u64>,
    /// Sites that were rewritten.
    pub(super) rewritten: BTreeMap<u64, Jump>,
    /// Instructions that were moved: where they were, and where they are.
    moved: BTreeMap<u64, u64>,
    pub(super) files: CodeOfFiles,
    /// How many changes were known when this process took them.
    pub(super) known: u32,
    /// See [`Closed`].
    closed: Vec<Range<u64>>,
}

/// How far a site's jump and the instructions that moved with it may be from the `syscall`.
const EXTENT: u64 = 32;

pub(super) static SITES: Guarded<Sites> = Guarded::new(Sites {
    pools: Pools::NONE,
    trapped: BTreeMap::new(),
    rejected: BTreeSet::new(),
    rewritten: BTreeMap::new(),
    moved: BTreeMap::new(),
    files: CodeOfFiles(BTreeMap::new()),
    known: 0,
    closed: Vec::new(),
});

/// Ranges in which no site changes until this is dropped: another thread may call there while the
/// host unmaps or changes them.
pub(crate) struct Closed<const COUNT: usize>([Range<u64>; COUNT]);

impl<const COUNT: usize> Drop for Closed<COUNT> {
    fn drop(&mut self) {
        let mut sites = SITES.lock();
        for range in &self.0 {
            // Another thread may have closed the same one.
            let found = sites.closed.iter().position(|closed| closed == range);
            found.map(|index| sites.closed.swap_remove(index));
        }
    }
}

impl Sites {
    /// Forgets the sites of a program that has ended.
    pub(super) fn clear(&mut self) {
        self.pools.clear();
        self.trapped.clear();
        self.rejected.clear();
        self.rewritten.clear();
        self.moved.clear();
        self.files.0.clear();
        self.closed.clear();
    }

    pub(super) fn close<const COUNT: usize>(
        &mut self,
        ranges: [Range<u64>; COUNT],
    ) -> Closed<COUNT> {
        self.closed.extend_from_slice(&ranges);
        Closed(ranges)
    }

    /// Lets sites change again in all ranges: the threads that closed them are the parent's.
    pub(super) fn open_all(&mut self) {
        self.closed.clear();
    }

    pub(super) fn is_closed(&self, site: u64) -> bool {
        let near = |range: &Range<u64>| {
            site + EXTENT > range.start && site < range.end.saturating_add(EXTENT)
        };
        self.closed.iter().any(near)
    }

    /// Forgets the sites in a range.
    pub(super) fn forget(&mut self, range: &Range<u64>) {
        let near = range.start.saturating_sub(EXTENT)..range.end;
        self.rejected.retain(|site| !near.contains(site));
        self.trapped.retain(|site, _| !near.contains(site));
    }

    /// Returns the copy of an instruction that was moved, if its site still jumps to the stub.
    pub(super) fn copy_of(&self, at: u64) -> Option<u64> {
        // The host may have discarded pages without a call, as by `MADV_DONTFORK`.
        let is_there = |copy: &u64| {
            let mut near = self.rewritten.range(at.saturating_sub(EXTENT)..=at);
            near.any(|(_, jump)| jump.has_in_stub(*copy) && jump.is_there())
        };
        self.moved.get(&at).copied().filter(is_there)
    }

    /// Returns where the instruction was whose copy is at an address, if there is one.
    pub(super) fn original(&self, at: u64) -> Option<u64> {
        let mut moved = self.moved.iter();
        moved.find_map(|(&from, &copy)| (copy == at).then_some(from))
    }

    /// Makes changes of a file that are not made yet. No thread runs the code.
    pub(super) fn change_all(&mut self, start: u64, mapped: &Mapped, changes: &[Change]) {
        let by = start.wrapping_sub(mapped.place);
        let code = self.files.code_of_file(start);
        let missing: Vec<_> = changes
            .iter()
            .map(|change| change.moved_by(by))
            .filter(|change| {
                let site = change.site();
                let is_done = self.rejected.contains(&site)
                    || self.is_closed(site)
                    || self.rewritten.contains_key(&site);
                !is_done && change.fits(&code)
            })
            .collect();
        let Some(memory) = (!missing.is_empty()).then(code_memory).flatten() else {
            return;
        };
        let mut stubs = Stubs::default();
        let stub_of = |change: Change| {
            let stub = self.pools.add(&change, &mut stubs, &memory)?;
            Some((change, stub))
        };
        let mut planned: Vec<_> = missing.into_iter().filter_map(stub_of).collect();
        if stubs.write(&memory).is_none() {
            return;
        }
        planned.sort_unstable_by_key(|(change, _)| change.begin);
        // Another change may have moved the begin of one.
        let mut free = 0;
        planned.retain(|(change, _)| {
            let is_apart = change.begin >= free;
            free = free.max(change.end().max(change.begin + 5));
            is_apart
        });
        // A change that reaches into the next page is alone, as the host may write only a part of
        // it.
        let in_page = |(one, _): &(Change, u64), (next, _): &(Change, u64)| {
            one.begin / PAGE == (next.begin + 4) / PAGE
        };
        for group in planned.chunk_by(in_page) {
            self.jump_at_once(group, &memory);
        }
    }

    /// Makes sites of a page jump to their stubs, by one call of the host. They are in the order of
    /// their addresses. No thread runs the code.
    fn jump_at_once(&mut self, group: &[(Change, u64)], memory: &File) -> Option<()> {
        let begin = group.first()?.0.begin;
        let mut code = vec![0; (group.last()?.0.begin + 5 - begin) as usize];
        if group.len() > 1 {
            // The bytes between the sites stay.
            memory.read_exact_at(&mut code, begin).ok()?;
        }
        let mut jumps = Vec::with_capacity(group.len());
        for &(ref change, stub) in group {
            let Some(jump) = Jump::of(change, stub) else {
                continue;
            };
            let at = (change.begin - begin) as usize;
            code[at..at + 5].copy_from_slice(&jump.code());
            jumps.push((change, jump));
        }
        if jumps.is_empty() {
            return None;
        }
        memory.write_all_at(&code, begin).ok()?;
        for (change, jump) in jumps {
            self.moved.extend(change.moved_to(jump.stub));
            self.trapped.remove(&change.site());
            self.rewritten.insert(change.site(), jump);
        }
        Some(())
    }

    /// Makes a change, and returns the jump.
    pub(super) fn make(&mut self, change: &Change) -> Option<Jump> {
        let memory = code_memory()?;
        let mut stubs = Stubs::default();
        let stub = self.pools.add(change, &mut stubs, &memory)?;
        stubs.write(&memory)?;
        let jump = Jump::of(change, stub)?;
        let moved = change.moved_to(stub);
        jump.make(&moved, &memory)?;
        self.moved.extend(moved);
        Some(jump)
    }

    /// Gives the sites in a range their bytes back, and returns them.
    pub(super) fn restore(&mut self, range: &Range<u64>) -> Vec<u64> {
        let near = range.start.saturating_sub(EXTENT)..range.end.saturating_add(EXTENT);
        let found: Vec<_> = self
            .rewritten
            .range(near)
            .map(|(&site, &jump)| (site, jump))
            .collect();
        let Some(memory) = (!found.is_empty()).then(code_memory).flatten() else {
            return Vec::new();
        };
        let mut restored = Vec::new();
        for (site, jump) in found {
            // A page that the guest has discarded has its bytes back already.
            if jump.is_there() && jump.undo(&memory).is_none() {
                continue;
            }
            self.rewritten.remove(&site);
            self.pools.leave(jump.begin, jump.stub);
            self.moved.retain(|_, copy| !jump.has_in_stub(*copy));
            restored.push(site);
        }
        restored
    }
}
