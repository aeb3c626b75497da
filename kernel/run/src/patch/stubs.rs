//! Stubs of sites, in pools within the reach of jumps.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use fdtable_posix::runner::maps;

use super::answers;
use super::change::{Change, JUMP_BY};
use super::code::{CODE, JUMP, TRAP, is_text};
use crate::entry::{address, fdtable_run_enter};
use crate::memory::{self, pointer};

/// The size of a pool, in bytes.
const POOL: u64 = 64 << 10;
/// The most pools.
const POOLS: usize = 64;
pub(super) const STUB: u64 = 64;
/// The size of the head of a pool, in front of the stubs.
pub(super) const HEAD: u64 = 4 * STUB;
/// The reach of a jump, less the size of a pool.
const REACH: u64 = (1 << 31) - (1 << 20);

/// Stubs within the reach of some sites.
struct Pool {
    code: u64,
    used: u64,
}

/// All pools.
pub(super) struct Pools {
    all: Vec<Pool>,
    /// Stubs of sites that were restored or forgotten, by where their jumps were.
    unused: BTreeMap<u64, u64>,
}

impl Pools {
    pub(super) const NONE: Self = Self {
        all: Vec::new(),
        unused: BTreeMap::new(),
    };

    /// Unmaps all of them: no thread is in a stub.
    pub(super) fn clear(&mut self) {
        self.all.drain(..).for_each(|pool| unmap(pool.code));
        self.unused.clear();
    }

    /// Leaves a stub for the next change at the same place.
    pub(super) fn leave(&mut self, begin: u64, stub: u64) {
        self.unused.insert(begin, stub);
    }

    /// Adds a stub in reach of its site, and returns its address.
    pub(super) fn add(&mut self, change: &Change, stubs: &mut Stubs, memory: &File) -> Option<u64> {
        let begin = change.begin;
        // A library that is mapped again is mostly at the same place. The stub cannot be replaced:
        // a handler may return into it.
        if let Some(&stub) = self.unused.get(&begin)
            && self
                .stub_code(change, stub)
                .is_some_and(|code| is_text(stub, &code))
        {
            self.unused.remove(&begin);
            return Some(stub);
        }
        let fits = |pool: &Pool| pool.used + STUB <= POOL && pool.code.abs_diff(begin) < REACH;
        let index = match self.all.iter().position(fits) {
            Some(index) => index,
            None if self.all.len() == POOLS => return None,
            None => {
                self.all.push(Pool::near(begin, memory)?);
                self.all.len() - 1
            }
        };
        let stub = self.all[index].code + self.all[index].used;
        let code = self.stub_code(change, stub)?;
        stubs.add(stub, code, memory)?;
        self.all[index].used += STUB;
        Some(stub)
    }

    /// Returns the code of a stub at an address in a pool.
    fn stub_code(&self, change: &Change, stub: u64) -> Option<Vec<u8>> {
        let mut pools = self.all.iter();
        let pool = pools.find(|pool| (pool.code..pool.code + POOL).contains(&stub))?;
        let mut code = change.code.clone();
        // To the word of the pool that has the address of the entry.
        let behind = stub + change.entry_at as u64 + 4;
        let word = pool.code + change.instruction.word();
        code[change.entry_at..change.entry_at + 4].copy_from_slice(&distance(behind, word)?);
        if let Some((at, to)) = change.branch {
            let target = change.begin.wrapping_add(to);
            code[at..at + 4].copy_from_slice(&distance(stub + at as u64 + 4, target)?);
        }
        let back = change.end();
        if change.moved.is_empty() {
            // The return address is behind the call itself.
            let load = change.entry_at - JUMP_BY.len() - 4;
            code[load..load + 4].copy_from_slice(&distance(stub + load as u64 + 4, back)?);
        } else {
            let end = stub + code.len() as u64 + 5;
            code.push(JUMP);
            code.extend(distance(end, back)?);
        }
        (code.len() <= STUB as usize).then_some(code)
    }
}

/// Returns the operand of an instruction that leads from its end to a place.
fn distance(end: u64, to: u64) -> Option<[u8; 4]> {
    let distance = i32::try_from(to.cast_signed() - end.cast_signed()).ok()?;
    Some(distance.to_le_bytes())
}

/// Stubs that are written at once: one behind the other.
#[derive(Default)]
pub(super) struct Stubs {
    at: u64,
    code: Vec<u8>,
}

impl Stubs {
    fn add(&mut self, stub: u64, mut code: Vec<u8>, memory: &File) -> Option<()> {
        if self.at + self.code.len() as u64 != stub {
            self.write(memory)?;
            self.at = stub;
        }
        code.resize(STUB as usize, TRAP);
        self.code.append(&mut code);
        Some(())
    }

    /// Writes those that were added since the last time.
    pub(super) fn write(&mut self, memory: &File) -> Option<()> {
        let code = std::mem::take(&mut self.code);
        memory.write_all_at(&code, self.at).ok()
    }
}

impl Pool {
    /// Returns the head: the addresses that stubs jump to, and the code for `cpuid`.
    fn head(pool: u64) -> Vec<u8> {
        let (code, entry) = answers::code();
        let mut head = address(fdtable_run_enter).to_ne_bytes().to_vec();
        head.extend((pool + STUB + entry).to_ne_bytes());
        head.resize(STUB as usize, TRAP);
        head.extend(code);
        head
    }

    /// Maps a pool in reach of a site.
    fn near(site: u64, memory: &File) -> Option<Self> {
        let map = |at: u64, flags| {
            // SAFETY: nothing is replaced.
            unsafe { memory::map_anonymous(at..at + POOL, CODE, flags) }.ok()
        };
        // The host maps libraries close together.
        let anywhere = map(0, 0)?;
        let code = match anywhere.abs_diff(site) < REACH {
            true => anywhere,
            false => {
                unmap(anywhere);
                gaps(site)
                    .into_iter()
                    .find_map(|gap| map(gap, libc::MAP_FIXED_NOREPLACE))?
            }
        };
        match memory.write_all_at(&Self::head(code), code) {
            Ok(()) => Some(Self { code, used: HEAD }),
            Err(_) => {
                unmap(code);
                None
            }
        }
    }
}

/// Unmaps a pool.
fn unmap(pool: u64) {
    // SAFETY: nothing uses the mapping.
    unsafe { libc::munmap(pointer(pool), POOL as usize) };
}

/// Returns addresses with room for a pool in reach of a site, the nearest first.
fn gaps(site: u64) -> Vec<u64> {
    let text = maps::read();
    let all: Vec<_> = maps::parse(&text).map(|mapping| mapping.range).collect();
    let mut found: Vec<u64> = all
        .windows(2)
        .filter(|pair| pair[1].start >= pair[0].end + POOL)
        .flat_map(|pair| [pair[0].end, pair[1].start - POOL])
        .filter(|gap| gap.abs_diff(site) < REACH && *gap >= 1 << 16)
        .collect();
    found.sort_by_key(|gap| gap.abs_diff(site));
    found
}
