//! Call sites that lead to the runner without the host's kernel.
//!
//! The first calls at a site trap. When there were [`COLD`] of them, or as many as are enough in
//! code of a [file](known), five bytes there become a jump to a *stub*, which loads the address to
//! return to, and jumps to the entry. To look for a change costs as much as some dozens of traps,
//! and most sites of a program are called once. There are two forms:
//!
//! - *In front*: the instruction before the `syscall` is `mov $number, %eax`, as in most code of C
//!   libraries. These five bytes become the jump, and the stub begins with them. The `syscall`
//!   stays: a branch to it traps as before.
//! - *Behind*: the `syscall` and the instructions behind it become the jump, and a copy of the
//!   latter follows in the stub. They must not depend on their place, but for one conditional
//!   jump, and no branch may lead to them: every byte of the code around is looked at as if a
//!   branch began there.
//!
//! All other sites stay as they are, and trap at each call.
//!
//! Code of files is mapped by many processes: what one has found out about a site is
//! [known](known) to the others.
//!
//! # Other threads
//!
//! A thread may be about to run a byte that changes. First the first byte becomes a trap, and every
//! CPU serializes (`membarrier`): from here on, a thread that comes to the place goes to the stub.
//! In the form *behind*, a thread may be between the instructions: each other thread that is in the
//! guest gets a signal, whose handler moves it to the copy. Then the other bytes change, and last
//! the first. A thread that is in a call made at the site continues in the copy (`return_to`), and
//! so does a handler that returns there.
//!
//! Code is never writable: the bytes go through `/proc/self/mem`, which the kernel copies for this
//! process as it does for a debugger, and so do the stubs.
//! Code that is writable itself may change at any time, and its sites stay as they are. Before the
//! guest makes code writable, its sites get their bytes back, in the opposite order, and then stay
//! as they are. A site that is unmapped is forgotten: other code may follow there.

pub(crate) mod cpuid;
mod known;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering::SeqCst};

use fdtable_posix::runner;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl};

use crate::abi::host_now;
use crate::block::Block;
use crate::entry::{address, fdtable_run_enter};
use crate::guarded::Guarded;
use crate::memory::{PAGE, pointer};
use crate::thread;

use known::{Answer, Identity};

/// The size of the stubs of one neighbourhood, in bytes.
const POOL: u64 = 64 << 10;
/// The most neighbourhoods.
const POOLS: usize = 64;
const STUB: u64 = 64;
/// The size of what is in front of the stubs.
const HEAD: u64 = 4 * STUB;
/// How far a jump leads, with room for the size of the pool.
const REACH: u64 = (1 << 31) - (1 << 20);

/// Stubs within the reach of some sites.
struct Pool {
    code: u64,
    used: u64,
}

/// Code of a file, which is mapped private and cannot be written.
#[derive(Clone, Copy)]
struct Mapped {
    end: u64,
    /// The place in the file of its begin.
    place: u64,
    identity: Identity,
}

/// How many calls of a site trap before it is rewritten.
const COLD: u32 = 8;

struct Sites {
    pools: Vec<Pool>,
    /// How many calls have trapped at a site that is neither left nor rewritten yet.
    trapped: BTreeMap<u64, u32>,
    /// Sites that were looked at and left.
    left: BTreeSet<u64>,
    /// Sites that were rewritten.
    rewritten: BTreeMap<u64, Jump>,
    /// Instructions that were moved: where they were, and where they are.
    moved: BTreeMap<u64, u64>,
    /// Stubs of sites that were restored or forgotten, by where their jumps were.
    unused: BTreeMap<u64, u64>,
    /// Code of files, by where it begins.
    mapped: BTreeMap<u64, Mapped>,
    /// How many changes were known when this process took them.
    known: u32,
    /// See [`Closed`].
    closed: Vec<Range<u64>>,
}

/// The jump of a site that was rewritten.
#[derive(Clone, Copy)]
struct Jump {
    begin: u64,
    stub: u64,
    /// The bytes that it has replaced.
    before: [u8; 5],
}

/// How far a site's jump and the instructions that moved with it may be from the `syscall`.
const EXTENT: u64 = 32;

static SITES: Guarded<Sites> = Guarded::new(Sites::NONE);

/// A change of a site beside other threads. It is never freed, because handlers read it.
struct Changing {
    /// The place whose first byte is a trap until the change is over, and its stub.
    begin: u64,
    stub: u64,
    is_over: AtomicBool,
}

/// The last of them. Written by the holder of the lock, read by handlers without it.
static LAST_CHANGE: AtomicPtr<Changing> = AtomicPtr::new(ptr::null_mut());

/// The most instructions that are moved, and the most bytes.
const MOVED: usize = 4;

/// Instructions that a handler moves a thread from, while they change: where they were, and where
/// they are. 0 for none.
static MOVING: [[AtomicU64; 2]; MOVED] = [const { [AtomicU64::new(0), AtomicU64::new(0)] }; MOVED];

/// Not 0 while a process traces the program. It runs the code too, no signal reaches it, and no
/// site is rewritten. The host clears the word at its end.
pub(crate) static TRACER: AtomicI32 = AtomicI32::new(0);

/// Returns true if a process traces the program.
pub(crate) fn has_tracer() -> bool {
    TRACER.load(SeqCst) != 0
}

/// Forgets the sites of a program that has ended.
pub(crate) fn clear() {
    cpuid::end();
    cpuid::have_answers();
    let mut sites = SITES.lock();
    for pool in sites.pools.drain(..) {
        // SAFETY: nothing else uses the mapping.
        unsafe { libc::munmap(pointer(pool.code), POOL as usize) };
    }
    sites.trapped.clear();
    sites.left.clear();
    sites.rewritten.clear();
    sites.moved.clear();
    sites.unused.clear();
    sites.mapped.clear();
    sites.closed.clear();
}

/// The protection of code: what can be read, and not be written.
pub(crate) const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;

/// Notes that the guest has mapped a file of ours, and changes its sites as far as they are known.
/// No thread runs the code yet.
pub(crate) fn map(start: u64, length: u64, of: Mapping) {
    let is_code = of.protection == CODE;
    let is_private = of.flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
    if !is_code || !is_private || of.flags & libc::MAP_ANONYMOUS != 0 {
        return;
    }
    let Some(identity) = Identity::of(of.fd) else {
        return;
    };
    // Pages behind the end of the file cannot be read.
    let size = identity.size().saturating_sub(of.offset);
    let mapped = Mapped {
        end: start + length.min(size),
        place: of.offset,
        identity,
    };
    let mut sites = SITES.lock();
    sites.mapped.insert(start, mapped);
    // No branches were searched here for the sites of other parts of the file.
    let whole = sites.code_of_file(start);
    for beside in [whole.start..start, mapped.end..whole.end] {
        if !beside.is_empty() {
            sites.restore(&beside);
        }
    }
    let changes = known::map(&identity);
    sites.change_all(start, &mapped, &changes);
}

/// Arguments of `mmap` for a mapping of a file, without its range.
#[derive(Clone, Copy)]
pub(crate) struct Mapping {
    pub(crate) protection: i32,
    pub(crate) flags: i32,
    pub(crate) fd: i32,
    pub(crate) offset: u64,
}

/// Changes the sites that others have found since, before the process is forked: else each child
/// would trap.
pub(crate) fn catch_up() {
    let mut sites = SITES.lock();
    let count = known::count();
    if sites.known == count || !thread::is_alone() || has_tracer() {
        return;
    }
    sites.known = count;
    let mapped: Vec<_> = sites
        .mapped
        .iter()
        .map(|(&at, &mapped)| (at, mapped))
        .collect();
    for (start, mapped) in mapped {
        let changes = known::changes(&mapped.identity);
        sites.change_all(start, &mapped, &changes);
    }
}

/// Ranges whose sites stay as they are until this is dropped: another thread may call there while
/// the host unmaps or changes them.
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

/// Gives the sites in a range their bytes back, and leaves them so: before code becomes writable,
/// or cannot be read any more.
#[must_use]
pub(crate) fn restore(range: Range<u64>) -> Closed<1> {
    let mut sites = SITES.lock();
    for site in sites.restore(&range) {
        sites.left.insert(site);
    }
    sites.unmap(&range);
    sites.close([range])
}

/// Gives the sites in a range their bytes back: before pages are discarded, which a jump may be in
/// with a part.
#[must_use]
pub(crate) fn discard(range: Range<u64>) -> Closed<1> {
    let mut sites = SITES.lock();
    sites.restore(&range);
    sites.close([range])
}

/// Gives the sites in ranges their bytes back, and forgets them: before code is unmapped.
#[must_use]
pub(crate) fn forget<const COUNT: usize>(ranges: [Range<u64>; COUNT]) -> Closed<COUNT> {
    let mut sites = SITES.lock();
    for range in &ranges {
        sites.restore(range);
        sites.unmap(range);
        let near = range.start.saturating_sub(EXTENT)..range.end;
        sites.left.retain(|site| !near.contains(site));
        sites.trapped.retain(|site, _| !near.contains(site));
    }
    sites.close(ranges)
}

/// Opens what other threads have closed, in the child of a fork, which does not have them.
pub(crate) fn open_all() {
    SITES.lock().closed.clear();
}

/// A change of code: a jump at `begin` to a stub with `code`.
#[derive(Clone)]
struct Change {
    begin: u64,
    code: Vec<u8>,
    /// Where in the code the address of the entry has to be, relative to its place.
    entry_at: usize,
    /// The bytes from there on to where the thread continues.
    original: Vec<u8>,
    /// Instructions behind the call: where they are now, and where in the code.
    moved: Vec<(u64, usize)>,
    /// Where in the code the distance of a conditional jump has to be, and where it leads.
    branch: Option<(usize, u64)>,
    /// The code in which no branch leads to what is replaced; `None` if one may.
    searched: Option<Range<u64>>,
    instruction: Instruction,
}

/// Instruction at a site.
#[derive(Clone, Copy)]
enum Instruction {
    Syscall,
    /// See [`cpuid`].
    Cpuid,
}

impl Instruction {
    const fn bytes(self) -> [u8; 2] {
        match self {
            Self::Syscall => SYSCALL,
            Self::Cpuid => CPUID,
        }
    }

    /// Returns the code that loads where the thread continues: `lea disp32(%rip)` to a register
    /// that the instruction sets.
    const fn load(self) -> [u8; 3] {
        match self {
            // `rcx`, `rdx`.
            Self::Syscall => [0x48, 0x8D, 0x0D],
            Self::Cpuid => [0x48, 0x8D, 0x15],
        }
    }

    /// Returns where in a pool the address is that stubs jump to.
    const fn word(self) -> u64 {
        match self {
            Self::Syscall => 0,
            Self::Cpuid => 8,
        }
    }
}

const MOV: u8 = 0xB8;
const JUMP: u8 = 0xE9;
const TRAP: u8 = 0xCC;
/// `jmp *disp32(%rip)`, and its size.
const JUMP_BY: [u8; 2] = [0xFF, 0x25];
const JUMP_BY_SIZE: usize = 6;
const SYSCALL: [u8; 2] = [0x0F, 0x05];
const CPUID: [u8; 2] = [0x0F, 0xA2];

/// Rewrites the site of a call that has trapped, if that is safe. `site` is the address of the
/// `syscall`.
pub(crate) fn rewrite(site: u64, number: i64) {
    let mut sites = SITES.lock();
    // Another thread may have trapped here, and rewritten it, before this one.
    if sites.left.contains(&site)
        || sites.is_closed(site)
        || sites.rewritten.get(&site).is_some_and(Jump::is_there)
    {
        return;
    }
    if has_tracer() {
        return;
    }
    let mapped = sites.mapped_at(site);
    let answer = match mapped {
        Some((start, mapped)) => known::trap(&mapped.identity, site - start + mapped.place),
        None => Answer::Wait,
    };
    let known = match (&answer, mapped) {
        (Answer::Change(change), Some((start, mapped))) => {
            let change = change.moved_by(start.wrapping_sub(mapped.place));
            change.fits(&sites.code_of_file(start)).then_some(change)
        }
        _ => None,
    };
    let trapped = sites.trapped.entry(site).or_insert(0);
    *trapped += 1;
    let is_cold = *trapped < COLD;
    let change = match answer {
        Answer::Leave => None,
        _ if known.is_some() => known,
        // Also where more of the file is mapped than was searched for branches.
        Answer::Wait | Answer::Change(_) if is_cold => return,
        Answer::Wait | Answer::Look | Answer::Change(_) => {
            let call = Instruction::Syscall;
            let change = code_around(site).and_then(|code| {
                in_front(&code, site, number, call).or_else(|| behind(&code, site, call))
            });
            if let Some((start, mapped)) = mapped {
                let in_file = change.as_ref();
                let in_file = in_file.map(|change| sites.in_file(start, &mapped, change));
                let place = site - start + mapped.place;
                known::learn(&mapped.identity, place, in_file.as_ref());
            }
            change
        }
    };
    sites.trapped.remove(&site);
    match change.and_then(|change| sites.make(&change)) {
        Some(jump) => _ = sites.rewritten.insert(site, jump),
        None => _ = sites.left.insert(site),
    }
}

/// Which threads may run the code that changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// No thread but this one, which does not.
    None,
    Threads,
}

impl Readers {
    fn now() -> Self {
        match thread::is_alone() {
            true => Self::None,
            false => Self::Threads,
        }
    }
}

/// Returns the code around a site, if it cannot be written: the mapping, and those beside it. The
/// host may have split one that was changed.
fn code_around(site: u64) -> Option<Range<u64>> {
    let mut code: Option<Range<u64>> = None;
    for (begin, end, permissions) in mappings() {
        if permissions != *b"r-xp" {
            continue;
        }
        match &mut code {
            Some(code) if code.end == begin => code.end = end,
            Some(code) if code.contains(&site) => break,
            _ => code = Some(begin..end),
        }
    }
    code.filter(|code| code.contains(&site))
}

/// Returns a byte of the guest, or `None` if it cannot be read: the file may have become shorter.
fn byte_at(at: u64) -> Option<u8> {
    // SAFETY: a byte has any value.
    unsafe { runner::value(pointer(at)) }
}

/// Returns bytes of the guest, if all can be read.
fn text(range: Range<u64>) -> Option<Vec<u8>> {
    range.map(byte_at).collect()
}

/// Returns true if these bytes are there.
fn is_text(at: u64, text: &[u8]) -> bool {
    (at..)
        .zip(text)
        .all(|(at, &byte)| byte_at(at) == Some(byte))
}

/// Plans the first form.
fn in_front(code: &Range<u64>, site: u64, number: i64, instruction: Instruction) -> Option<Change> {
    let begin = site.checked_sub(5).filter(|&begin| begin > code.start)?;
    let number = u32::try_from(number).ok()?;
    let [n0, n1, n2, n3] = number.to_le_bytes();
    let [i0, i1] = instruction.bytes();
    let original = text(begin..site + 2)?;
    // With such a prefix it would be another register, and the number chance.
    if byte_at(begin - 1)? & 0xF0 == 0x40 || original != [MOV, n0, n1, n2, n3, i0, i1] {
        return None;
    }
    let mut change = Change {
        begin,
        code: vec![MOV, n0, n1, n2, n3],
        entry_at: 0,
        original,
        moved: Vec::new(),
        branch: None,
        searched: None,
        instruction,
    };
    change.enter();
    Some(change)
}

/// Plans the second form.
fn behind(code: &Range<u64>, site: u64, instruction: Instruction) -> Option<Change> {
    // Some instructions of up to 15 bytes.
    let all: Vec<u8> = (site..code.end.min(site + 64)).map_while(byte_at).collect();
    let rest = all.strip_prefix(&instruction.bytes())?;
    let mut decoder = Decoder::with_ip(64, rest, site + 2, DecoderOptions::NONE);
    let mut change = Change {
        begin: site,
        code: Vec::new(),
        entry_at: 0,
        original: Vec::new(),
        moved: Vec::new(),
        branch: None,
        searched: Some(code.clone()),
        instruction,
    };
    change.enter();
    let mut end = site + 2;
    while end < site + 5 {
        let next = decoder.decode();
        let is_movable = !next.is_invalid()
            && matches!(
                next.flow_control(),
                FlowControl::Next | FlowControl::ConditionalBranch
            )
            && !next.is_ip_rel_memory_operand()
            && !matches!(next.code(), Code::Syscall | Code::Cpuid);
        if !is_movable || change.moved.len() == MOVED {
            return None;
        }
        change.moved.push((end, change.code.len()));
        let text = &all[(end - site) as usize..(next.next_ip() - site) as usize];
        match next.flow_control() {
            FlowControl::ConditionalBranch => {
                change.code.extend([0x0F, 0x80 | condition(text)?]);
                let place = (change.code.len(), next.near_branch_target());
                if change.branch.replace(place).is_some() {
                    return None;
                }
                change.code.extend([0; 4]);
            }
            _ => change.code.extend(text),
        }
        end = next.next_ip();
    }
    if has_branch_to(code, site + 1..end.min(site + 5)) {
        return None;
    }
    change.original = all[..(end - site) as usize].to_vec();
    Some(change)
}

/// Returns the condition of a conditional jump; `None` for one that is of another kind.
fn condition(text: &[u8]) -> Option<u8> {
    match *text {
        [short @ 0x70..=0x7F, _] => Some(short & 0xF),
        [0x0F, near @ 0x80..=0x8F, ..] => Some(near & 0xF),
        _ => None,
    }
}

impl Change {
    /// Returns it for code that is this much further on.
    fn moved_by(&self, distance: u64) -> Self {
        let there = |at: u64| at.wrapping_add(distance);
        Self {
            begin: there(self.begin),
            code: self.code.clone(),
            entry_at: self.entry_at,
            original: self.original.clone(),
            moved: self
                .moved
                .iter()
                .map(|&(at, copy)| (there(at), copy))
                .collect(),
            branch: self.branch.map(|(at, to)| (at, there(to))),
            searched: self
                .searched
                .as_ref()
                .map(|code| there(code.start)..there(code.end)),
            instruction: self.instruction,
        }
    }

    /// Returns where the thread continues behind what was replaced or moved.
    fn end(&self) -> u64 {
        self.begin.wrapping_add(self.original.len() as u64)
    }

    /// Returns the address of the `syscall`.
    fn site(&self) -> u64 {
        match self.moved.is_empty() {
            true => self.begin + 5,
            false => self.begin,
        }
    }

    /// Returns true if the bytes in this code are those that the change replaces, and branches were
    /// searched in all of it.
    fn fits(&self, code: &Range<u64>) -> bool {
        let end = self.end();
        let is_searched = |searched: &Range<u64>| {
            // The addresses may have wrapped.
            code.start.wrapping_sub(searched.start) <= searched.end.wrapping_sub(searched.start)
                && code.end.wrapping_sub(searched.start)
                    <= searched.end.wrapping_sub(searched.start)
        };
        if self.begin <= code.start || end > code.end {
            return false;
        }
        if !self.searched.as_ref().is_none_or(is_searched) {
            return false;
        }
        // With such a prefix it would be another register.
        let is_alone = || byte_at(self.begin - 1).is_some_and(|prefix| prefix & 0xF0 != 0x40);
        is_text(self.begin, &self.original) && (!self.moved.is_empty() || is_alone())
    }

    /// Returns the instructions that move, each with its place in a stub.
    fn moved_to(&self, stub: u64) -> Vec<(u64, u64)> {
        let in_stub = |&(from, at): &(u64, usize)| (from, stub + at as u64);
        self.moved.iter().map(in_stub).collect()
    }

    /// Appends the jump to the entry, with what follows it as the place to return to.
    fn enter(&mut self) {
        self.code.extend(self.instruction.load());
        self.code.extend((JUMP_BY_SIZE as i32).to_le_bytes());
        self.code.extend(JUMP_BY);
        self.entry_at = self.code.len();
        self.code.extend([0; 4]);
    }
}

/// Returns true if bytes that look like a direct branch lead to one of the addresses. Bytes that
/// cannot be read are no branch: another thread may unmap pages beside the site, and a file may end
/// before its mapping.
fn has_branch_to(code: &Range<u64>, targets: Range<u64>) -> bool {
    let leads = |next: u64, distance: i64| targets.contains(&next.wrapping_add_signed(distance));
    let first = targets.start.saturating_sub(256).max(code.start);
    let near: Vec<_> = (first..code.end.min(targets.start + 256))
        .map(byte_at)
        .collect();
    let is_short = |byte: u8| matches!(byte, 0x70..=0x7F | 0xE0..=0xE3 | 0xEB);
    let leads_shortly = |(at, pair): (u64, &[Option<u8>])| match *pair {
        [Some(byte), Some(distance)] => is_short(byte) && leads(at + 2, (distance as i8).into()),
        _ => false,
    };
    if (first..).zip(near.windows(2)).any(leads_shortly) {
        return true;
    }
    // The comparison modulo 2^32 comes first, for many places at once: it holds for few.
    let in_code = |at: u64| at.wrapping_sub(code.start) as u32;
    let among = in_code(targets.start)..in_code(targets.end);
    let leads_far = |at: u64, block: &[u8]| {
        may_branch_to(block, in_code(at), &among)
            && (at..).zip(block.windows(5)).any(|(at, window)| {
                let [first, d0, d1, d2, d3] = *window else {
                    return false;
                };
                matches!(first, 0xE8 | JUMP | 0x80..=0x8F)
                    && leads(at + 5, i32::from_le_bytes([d0, d1, d2, d3]).into())
            })
    };
    // A block, and in front of it the last bytes of the one before, if they could be read.
    let mut bytes = Vec::with_capacity(4 + BLOCK);
    (code.start..code.end).step_by(BLOCK).any(|at| {
        let last = bytes.len().saturating_sub(4);
        bytes.drain(..last);
        let before = bytes.len() as u64;
        if code.end - at >= BLOCK as u64 {
            // SAFETY: bytes have any value.
            match unsafe { runner::value(pointer::<[u8; BLOCK]>(at)) } {
                Some(block) => bytes.extend_from_slice(&block),
                None => bytes.clear(),
            }
        } else {
            bytes.extend((at..code.end).map_while(byte_at));
        }
        leads_far(at - before, &bytes)
    })
}

/// How many bytes are looked at at once: a page, which can be read or not.
const BLOCK: usize = PAGE as usize;

/// Returns false if no instruction of five bytes in a block can lead to the targets, modulo 2³².
/// Has no branches inside, so that the compiler uses vectors: a child of a fork does this for each
/// site that it rewrites, over all of a library.
fn may_branch_to(block: &[u8], begin: u32, targets: &Range<u32>) -> bool {
    let count = targets.end - targets.start;
    let mut leads = false;
    for phase in 0..4 {
        let distances = block.get(phase + 1..).unwrap_or_default().chunks_exact(4);
        let from = begin
            .wrapping_add(phase as u32 + 5)
            .wrapping_sub(targets.start);
        for (index, distance) in distances.enumerate() {
            let distance = u32::from_le_bytes([distance[0], distance[1], distance[2], distance[3]]);
            leads |= distance.wrapping_add(from).wrapping_add(4 * index as u32) < count;
        }
    }
    leads
}

impl Changing {
    fn begin(begin: u64, stub: u64) -> &'static Self {
        let change: &'static Self = Box::leak(Box::new(Self {
            begin,
            stub,
            is_over: AtomicBool::new(false),
        }));
        LAST_CHANGE.store(ptr::from_ref(change).cast_mut(), SeqCst);
        change
    }

    fn end(&self) {
        self.is_over.store(true, SeqCst);
    }

    /// Returns the last change, and whether it is over.
    fn last() -> Option<(&'static Self, bool)> {
        // SAFETY: a change is never freed.
        let last = unsafe { LAST_CHANGE.load(SeqCst).as_ref() }?;
        Some((last, last.is_over.load(SeqCst)))
    }
}

/// Returns where a thread continues that has met the trap at `at`, while a site changes or has
/// changed. For handlers: takes no lock.
pub(crate) fn stub_of(at: u64) -> Option<u64> {
    // SAFETY: the thread has just run this byte.
    stub_by(at, || unsafe { pointer::<u8>(at).read_volatile() })
}

/// As [`stub_of`], with the means to read the byte.
fn stub_by(at: u64, read: impl Fn() -> u8) -> Option<u64> {
    let identity = |(change, is_over): (&Changing, bool)| (ptr::from_ref(change), is_over);
    loop {
        let last = Changing::last();
        let byte = read();
        // Each change has an address of its own, so none has begun or ended meanwhile if this is
        // the same: the byte is of that time.
        if Changing::last().map(identity) == last.map(identity) {
            return match last {
                Some((change, false)) if change.begin == at => Some(change.stub),
                _ => (byte != TRAP).then_some(at),
            };
        }
    }
}

/// Returns where a thread continues that is between instructions that change. For handlers.
pub(crate) fn moving(at: u64) -> u64 {
    let found = MOVING
        .iter()
        .find(|[from, _]| at != 0 && from.load(SeqCst) == at);
    found.map_or(at, |[_, to]| to.load(SeqCst))
}

/// Returns where a thread continues that is about to return to an address, from a call that has
/// trapped or from a handler: elsewhere, if the instruction was moved. Until the thread is in the
/// guest, a change of code waits for it.
pub(crate) fn return_to(block: &Block, at: u64) -> u64 {
    let sites = SITES.lock();
    block.returns.set(1);
    // Pages may have gone without a word, as by `MADV_DONTFORK`.
    let is_there = |copy: &&u64| {
        let mut near = sites.rewritten.range(at.saturating_sub(EXTENT)..=at);
        near.any(|(_, jump)| jump.has_in_stub(**copy) && jump.is_there())
    };
    sites.moved.get(&at).filter(is_there).copied().unwrap_or(at)
}

impl Sites {
    const NONE: Self = Self {
        pools: Vec::new(),
        trapped: BTreeMap::new(),
        left: BTreeSet::new(),
        rewritten: BTreeMap::new(),
        moved: BTreeMap::new(),
        unused: BTreeMap::new(),
        mapped: BTreeMap::new(),
        known: 0,
        closed: Vec::new(),
    };

    fn close<const COUNT: usize>(&mut self, ranges: [Range<u64>; COUNT]) -> Closed<COUNT> {
        self.closed.extend_from_slice(&ranges);
        Closed(ranges)
    }

    fn is_closed(&self, site: u64) -> bool {
        let near = |range: &Range<u64>| {
            site + EXTENT > range.start && site < range.end.saturating_add(EXTENT)
        };
        self.closed.iter().any(near)
    }

    /// Returns where the code of a file begins that has an address, and what it is.
    fn mapped_at(&self, at: u64) -> Option<(u64, Mapped)> {
        let (&start, &mapped) = self.mapped.range(..=at).next_back()?;
        (at < mapped.end).then_some((start, mapped))
    }

    /// Returns the code of a file of which a part begins at an address: what is mapped as it is in
    /// the file.
    fn code_of_file(&self, start: u64) -> Range<u64> {
        let Some(&part) = self.mapped.get(&start) else {
            return start..start;
        };
        let follows = |(before, one): (u64, Mapped), (after, other): (u64, Mapped)| {
            one.end == after
                && one.identity == other.identity
                && other.place.wrapping_sub(one.place) == after - before
        };
        let (mut first, mut last) = ((start, part), (start, part));
        for (&before, &one) in self.mapped.range(..start).rev() {
            if !follows((before, one), first) {
                break;
            }
            first = (before, one);
        }
        for (&after, &other) in self.mapped.range(start..).skip(1) {
            if !follows(last, (after, other)) {
                break;
            }
            last = (after, other);
        }
        first.0..last.1.end
    }

    /// Returns a change of code of a file, at its place there.
    fn in_file(&self, start: u64, mapped: &Mapped, change: &Change) -> Change {
        let by = mapped.place.wrapping_sub(start);
        let of_file = self.code_of_file(start);
        let mut in_file = change.moved_by(by);
        if mapped.identity.changes_unseen() && in_file.searched.is_some() {
            in_file.searched = Some(0..0);
            return in_file;
        }
        // Not what belongs to other files.
        in_file.searched = change.searched.as_ref().map(|searched| {
            let part = searched.start.max(of_file.start)..searched.end.min(of_file.end);
            part.start.wrapping_add(by)..part.end.wrapping_add(by)
        });
        in_file
    }

    /// Forgets the code of files in a range.
    fn unmap(&mut self, range: &Range<u64>) {
        let touched: Vec<_> = self
            .mapped
            .range(..range.end)
            .rev()
            .take_while(|(_, mapped)| mapped.end > range.start)
            .map(|(&start, &mapped)| (start, mapped))
            .collect();
        for (start, mapped) in touched {
            self.mapped.remove(&start);
            if start < range.start {
                let end = range.start;
                self.mapped.insert(start, Mapped { end, ..mapped });
            }
            if mapped.end > range.end {
                let place = mapped.place + (range.end - start);
                self.mapped.insert(range.end, Mapped { place, ..mapped });
            }
        }
    }

    /// Makes changes of a file, as far as they are not made yet. No thread runs the code.
    fn change_all(&mut self, start: u64, mapped: &Mapped, changes: &[Change]) {
        let by = start.wrapping_sub(mapped.place);
        let code = self.code_of_file(start);
        let missing: Vec<_> = changes
            .iter()
            .map(|change| change.moved_by(by))
            .filter(|change| {
                let site = change.site();
                let is_done = self.left.contains(&site)
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
            let stub = self.add_stub(&change, &mut stubs, &memory)?;
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
        // One that reaches into the next page is alone, as the host may write a part.
        let in_page = |(one, _): &(Change, u64), (next, _): &(Change, u64)| {
            one.begin / PAGE == (next.begin + 4) / PAGE
        };
        for group in planned.chunk_by(in_page) {
            self.jump_at_once(group, &memory);
        }
    }

    /// Has sites of a page, in the order of their addresses, jump to their stubs, by one call of
    /// the host. No thread runs the code.
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

    fn make(&mut self, change: &Change) -> Option<Jump> {
        let memory = code_memory()?;
        let mut stubs = Stubs::default();
        let stub = self.add_stub(change, &mut stubs, &memory)?;
        stubs.write(&memory)?;
        self.jump(change, stub, &memory, Readers::now())
    }

    /// Has a site jump to its stub.
    fn jump(
        &mut self,
        change: &Change,
        stub: u64,
        memory: &File,
        readers: Readers,
    ) -> Option<Jump> {
        let begin = change.begin;
        let jump = Jump::of(change, stub)?;
        let code = jump.code();
        let moved = change.moved_to(stub);
        if readers == Readers::None {
            memory.write_all_at(&code, begin).ok()?;
        } else {
            let change = Changing::begin(begin, stub);
            memory.write_all_at(&[TRAP], begin).ok()?;
            serialize();
            if !moved.is_empty() {
                for (place, &(from, to)) in MOVING.iter().zip(&moved) {
                    place[1].store(to, SeqCst);
                    place[0].store(from, SeqCst);
                }
                thread::interrupt_guests();
                MOVING.iter().for_each(|place| place[0].store(0, SeqCst));
            }
            memory.write_all_at(&code[1..], begin + 1).ok()?;
            serialize();
            memory.write_all_at(&code[..1], begin).ok()?;
            serialize();
            change.end();
        }
        self.moved.extend(moved);
        Some(jump)
    }

    /// Gives the sites in a range their bytes back, and returns them.
    fn restore(&mut self, range: &Range<u64>) -> Vec<u64> {
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
            self.unused.insert(jump.begin, jump.stub);
            self.moved.retain(|_, copy| !jump.has_in_stub(*copy));
            restored.push(site);
        }
        restored
    }

    /// Adds a stub in reach of its site, and returns its address.
    fn add_stub(&mut self, change: &Change, stubs: &mut Stubs, memory: &File) -> Option<u64> {
        let begin = change.begin;
        // A library that is mapped again, mostly at the same place. Another stub cannot take the
        // place of this one: a handler may return into it.
        if let Some(&stub) = self.unused.get(&begin)
            && self
                .stub_code(change, stub)
                .is_some_and(|code| is_text(stub, &code))
        {
            self.unused.remove(&begin);
            return Some(stub);
        }
        let fits = |pool: &Pool| pool.used + STUB <= POOL && pool.code.abs_diff(begin) < REACH;
        let index = match self.pools.iter().position(fits) {
            Some(index) => index,
            None if self.pools.len() == POOLS => return None,
            None => {
                self.pools.push(Pool::near(begin, memory)?);
                self.pools.len() - 1
            }
        };
        let stub = self.pools[index].code + self.pools[index].used;
        let code = self.stub_code(change, stub)?;
        stubs.add(stub, code, memory)?;
        self.pools[index].used += STUB;
        Some(stub)
    }

    /// Returns the code of a stub at an address in a pool.
    fn stub_code(&self, change: &Change, stub: u64) -> Option<Vec<u8>> {
        let mut pools = self.pools.iter();
        let pool = pools.find(|pool| (pool.code..pool.code + POOL).contains(&stub))?;
        let mut code = change.code.clone();
        // To the word of the pool that has the address of the entry.
        let behind = stub + change.entry_at as u64 + 4;
        let word = pool.code + change.instruction.word();
        let distance = i32::try_from(word.cast_signed() - behind.cast_signed()).ok()?;
        code[change.entry_at..change.entry_at + 4].copy_from_slice(&distance.to_le_bytes());
        if let Some((at, to)) = change.branch {
            let distance = to.cast_signed() - (stub + at as u64 + 4).cast_signed();
            let distance = i32::try_from(distance).ok()?;
            code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        let back = change.end();
        if change.moved.is_empty() {
            // The place to return to is behind the call itself.
            let load = change.entry_at - JUMP_BY.len() - 4;
            let distance = back.cast_signed() - (stub + load as u64 + 4).cast_signed();
            code[load..load + 4].copy_from_slice(&i32::try_from(distance).ok()?.to_le_bytes());
        } else {
            let distance = back.cast_signed() - (stub + code.len() as u64 + 5).cast_signed();
            code.push(JUMP);
            code.extend(i32::try_from(distance).ok()?.to_le_bytes());
        }
        (code.len() <= STUB as usize).then_some(code)
    }
}

/// Stubs that are written at once: one behind the other.
#[derive(Default)]
struct Stubs {
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
    fn write(&mut self, memory: &File) -> Option<()> {
        let code = std::mem::take(&mut self.code);
        memory.write_all_at(&code, self.at).ok()
    }
}

/// Opens the memory of this process, to write to code.
fn code_memory() -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open("/proc/self/mem").ok()
}

impl Jump {
    /// Returns that of a change, if the stub is in reach.
    fn of(change: &Change, stub: u64) -> Option<Self> {
        let begin = change.begin;
        let distance = stub.cast_signed() - (begin + 5).cast_signed();
        i32::try_from(distance).ok()?;
        let before = *text(begin..begin + 5)?.first_chunk()?;
        Some(Self {
            begin,
            stub,
            before,
        })
    }

    /// Returns what is written there.
    fn code(&self) -> [u8; 5] {
        let distance = self.stub.wrapping_sub(self.begin + 5) as u32;
        let [d0, d1, d2, d3] = distance.to_le_bytes();
        [JUMP, d0, d1, d2, d3]
    }

    /// Returns true if it is what was written there.
    fn is_there(&self) -> bool {
        is_text(self.begin, &self.code())
    }

    /// Returns true if an address is in the stub.
    fn has_in_stub(&self, at: u64) -> bool {
        (self.stub..self.stub + STUB).contains(&at)
    }

    /// Gives the site its bytes back. A thread that is in the stub stays there.
    fn undo(&self, memory: &File) -> Option<()> {
        if thread::is_alone() {
            return memory.write_all_at(&self.before, self.begin).ok();
        }
        let change = Changing::begin(self.begin, self.stub);
        memory.write_all_at(&[TRAP], self.begin).ok()?;
        serialize();
        memory
            .write_all_at(&self.before[1..], self.begin + 1)
            .ok()?;
        serialize();
        memory.write_all_at(&self.before[..1], self.begin).ok()?;
        serialize();
        change.end();
        Some(())
    }
}

impl Pool {
    /// Returns what is in front of the stubs: the addresses that they jump to, and the code for
    /// `cpuid`.
    fn head(pool: u64) -> Vec<u8> {
        let (code, entry) = cpuid::code();
        let mut head = address(fdtable_run_enter).to_ne_bytes().to_vec();
        head.extend((pool + STUB + entry).to_ne_bytes());
        head.resize(STUB as usize, TRAP);
        head.extend(code);
        head
    }

    /// Maps a pool in reach of a site.
    fn near(site: u64, memory: &File) -> Option<Self> {
        let unmap = |at: u64| {
            // SAFETY: it was just mapped.
            unsafe { libc::munmap(pointer(at), POOL as usize) };
        };
        let map = |at: u64, flags| {
            // SAFETY: nothing is replaced.
            let place = unsafe {
                libc::mmap(
                    pointer(at),
                    POOL as usize,
                    libc::PROT_READ | libc::PROT_EXEC,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
                    -1,
                    0,
                )
            };
            (place != libc::MAP_FAILED).then(|| place.expose_provenance() as u64)
        };
        // Libraries are where the host maps things.
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

/// A line of `/proc/self/maps`: begin, end, and permissions.
fn mappings() -> Vec<(u64, u64, [u8; 4])> {
    let text = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let parse = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (begin, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let permissions = rest.as_bytes().first_chunk::<4>()?;
        Some((number(begin)?, number(end)?, *permissions))
    };
    text.lines().filter_map(parse).collect()
}

/// Returns addresses with room for a pool in reach of a site, the nearest first.
fn gaps(site: u64) -> Vec<u64> {
    let all = mappings();
    let ends = all.iter().map(|&(_, end, _)| end.next_multiple_of(4096));
    let begins = all.iter().skip(1).map(|&(begin, ..)| begin);
    let mut found: Vec<u64> = ends
        .zip(begins)
        .filter(|&(end, begin)| begin >= end + POOL)
        .flat_map(|(end, begin)| [end, begin - POOL])
        .filter(|gap| gap.abs_diff(site) < REACH && *gap >= 1 << 16)
        .collect();
    found.sort_by_key(|gap| gap.abs_diff(site));
    found
}

/// Has every CPU that runs a thread of this process fetch its instructions again.
fn serialize() {
    const REGISTER: i64 = 1 << 6;
    const SYNC_CORE: i64 = 1 << 5;
    if host_now(libc::SYS_membarrier, [SYNC_CORE, 0, 0, 0, 0, 0]) != 0 {
        host_now(libc::SYS_membarrier, [REGISTER, 0, 0, 0, 0, 0]);
        host_now(libc::SYS_membarrier, [SYNC_CORE, 0, 0, 0, 0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Code with a site of each form, at 16 and at 40, in front of which there is other code.
    fn code() -> Vec<u8> {
        let mut code = vec![0x90; 64];
        code[11..18].copy_from_slice(&[MOV, 39, 0, 0, 0, 0x0F, 0x05]);
        // syscall; cmp $-4096, %rax
        code[40..48].copy_from_slice(&[0x0F, 0x05, 0x48, 0x3D, 0x00, 0xF0, 0xFF, 0xFF]);
        code
    }

    fn range_of(code: &[u8]) -> Range<u64> {
        let start = code.as_ptr().expose_provenance() as u64;
        start..start + code.len() as u64
    }

    #[test]
    fn a_change_fits_equal_code_elsewhere_and_no_other() {
        let (here, there) = (code(), code());
        let (from, to) = (range_of(&here), range_of(&there));
        let by = to.start.wrapping_sub(from.start);
        let call = Instruction::Syscall;
        let forms = [
            (in_front(&from, from.start + 16, 39, call), 16, 11..18),
            (behind(&from, from.start + 40, call), 40, 40..48),
        ];
        for (change, site, replaced) in forms {
            let change = change.expect("it is of this form");
            assert_eq!(change.site(), from.start + site);
            let change = change.moved_by(by);
            assert_eq!(change.site(), to.start + site);
            assert!(change.fits(&to));
            if change.searched.is_some() {
                // A branch may be in what was not searched.
                assert!(!change.fits(&(to.start..to.end + 1)));
                assert!(!change.fits(&(to.start - 1..to.end)));
            }
            for at in replaced.clone() {
                let mut other = there.clone();
                other[at] ^= 1;
                let range = range_of(&other);
                let moved = change.moved_by(range.start.wrapping_sub(to.start));
                assert!(!moved.fits(&range), "{site} {at}");
                let end = range.start + replaced.end as u64;
                assert!(!moved.fits(&(range.start..end - 1)));
            }
        }
    }

    #[test]
    fn code_of_files_is_forgotten_by_parts() {
        let mut sites = Sites::NONE;
        let identity = Identity::EMPTY;
        let mapped = Mapped {
            end: 0x9000,
            place: 0x3000,
            identity,
        };
        sites.mapped.insert(0x4000, mapped);
        sites.unmap(&(0x9000..0xA000));
        sites.unmap(&(0x5000..0x7000));
        let place = |at| {
            sites
                .mapped_at(at)
                .map(|(start, mapped)| at - start + mapped.place)
        };
        assert_eq!(place(0x4FFF), Some(0x3FFF));
        assert_eq!(place(0x5000), None);
        assert_eq!(place(0x6FFF), None);
        assert_eq!(place(0x7000), Some(0x6000));
        assert_eq!(place(0x8FFF), Some(0x7FFF));
        assert_eq!(place(0x9000), None);
        assert_eq!(sites.code_of_file(0x4000), 0x4000..0x5000);
        let hole = Mapped {
            end: 0x7000,
            place: 0x4000,
            identity,
        };
        sites.mapped.insert(0x5000, hole);
        assert_eq!(sites.code_of_file(0x5000), 0x4000..0x9000);
        // Another part of the file.
        sites.mapped.insert(0x5000, Mapped { place: 0, ..hole });
        assert_eq!(sites.code_of_file(0x4000), 0x4000..0x5000);
        assert_eq!(sites.code_of_file(0x7000), 0x7000..0x9000);
    }

    #[test]
    fn a_branch_at_any_place_is_seen() {
        let mut code = vec![0x90; 2 * BLOCK + 7];
        let start = code.as_ptr().addr() as u64;
        let all = start..start + code.len() as u64;
        let target = start + 5000;
        assert!(!has_branch_to(&all, target..target + 4));
        let last = code.len() - 5;
        let edges = [0, 1, BLOCK - 5, BLOCK - 1, BLOCK, BLOCK + 1, last - 1, last];
        for at in (0..8).chain((0..last).step_by(97)).chain(edges) {
            for (to, is_found) in [(-1, false), (0, true), (3, true), (4, false)] {
                let distance = 5000 + to - (at as i32 + 5);
                code[at] = 0xE8;
                code[at + 1..at + 5].copy_from_slice(&distance.to_le_bytes());
                assert_eq!(
                    has_branch_to(&all, target..target + 4),
                    is_found,
                    "{at} {to}"
                );
                code[at..at + 5].fill(0x90);
            }
        }
    }

    #[test]
    fn a_trap_leads_to_its_own_stub_or_back_if_changes_begin_or_end_meanwhile() {
        const AT: u64 = 0x1000;
        const STUB_AT: u64 = 0x2000;
        // Runs steps of the thread that changes code just before the byte is read, the first time.
        let answer = |steps: &dyn Fn(&Cell<u8>), byte: u8| {
            let (byte, is_first) = (Cell::new(byte), Cell::new(true));
            let answer = stub_by(AT, || {
                if is_first.replace(false) {
                    steps(&byte);
                }
                byte.get()
            });
            if let Some((change, false)) = Changing::last() {
                change.end();
            }
            answer
        };
        let begins = |byte: &Cell<u8>| {
            Changing::begin(AT, STUB_AT);
            byte.set(TRAP);
        };
        assert_eq!(answer(&begins, JUMP), Some(STUB_AT));

        let change = Changing::begin(AT, STUB_AT);
        let ends = |byte: &Cell<u8>| {
            byte.set(JUMP);
            change.end();
        };
        assert_eq!(answer(&ends, TRAP), Some(AT));

        let change = Changing::begin(AT, STUB_AT);
        let ends_before_another = |byte: &Cell<u8>| {
            byte.set(JUMP);
            change.end();
            Changing::begin(0x3000, 0x4000);
        };
        assert_eq!(answer(&ends_before_another, TRAP), Some(AT));

        // A trap of the program.
        assert_eq!(answer(&|_| (), TRAP), None);
        Changing::begin(0x3000, 0x4000);
        assert_eq!(answer(&|_| (), TRAP), None);
    }
}
