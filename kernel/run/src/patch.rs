//! Binary patching: call sites jump to the runner instead of trapping.
//!
//! The first calls at a site trap. After [`COLD`] traps, or fewer in code of a [file](known), five
//! bytes there become a jump to a *stub*. The stub loads the return address, and jumps to the
//! entry. The search for a change costs as much as some dozens of traps, and most sites of a
//! program are called once. There are two forms:
//!
//! - *In front*: the instruction before the `syscall` is `mov $number, %eax`, as in most code of C
//!   libraries. These five bytes become the jump, and the stub begins with them. The `syscall`
//!   stays: a branch to it traps as before.
//! - *Behind*: the `syscall` and the instructions behind it become the jump, and a copy of the
//!   latter follows in the stub. They must not depend on their place, except for one conditional
//!   jump, and no branch may lead to them: the search takes every byte of the code around for the
//!   begin of a branch.
//!
//! All other sites are rejected, and trap at each call.
//!
//! Many processes map the code of a file. The result of one about a site is [known](known) to the
//! others.
//!
//! # Other threads
//!
//! A thread may be about to run a byte that changes. The first byte becomes a trap, and every CPU
//! serializes (`membarrier`): from here on, a thread that reaches the place continues in the stub.
//! In the form *behind*, a thread may be between the instructions: each other thread in the guest
//! gets a signal, whose handler moves it to the copy. Then the other bytes change, and the first
//! byte last. A thread in a call made at the site continues in the copy (`return_to`), and so does
//! a handler that returns there.
//!
//! Code is never writable: the bytes go through `/proc/self/mem`, which the kernel copies for this
//! process as it does for a debugger, and so do the stubs. Code that is writable itself may change
//! at any time, and its sites are rejected. Before the guest makes code writable, its sites get
//! their bytes back, in the opposite order, and are rejected. A site that is unmapped is forgotten:
//! other code may follow there.

mod answers;
mod branches;
mod change;
mod code;
pub(crate) mod cpuid;
mod files;
mod jump;
mod known;
mod sites;
mod stubs;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::block::Block;
use crate::thread;

use change::{Instruction, plan};
use code::code_around;
use files::Mapped;
use jump::Jump;
use known::{Identity, Verdict};
use sites::{Closed, SITES};

pub(crate) use code::{CODE, TRACER, has_tracer};
pub(crate) use jump::{moving, stub_of};

/// How many calls of a site trap before it is rewritten.
const COLD: u32 = 8;

/// Returns true if the host lets a process change its code.
pub(crate) fn has_code_memory() -> bool {
    code::code_memory().is_some()
}

/// Forgets the sites of a program that has ended.
pub(crate) fn clear() {
    cpuid::end();
    cpuid::have_answers();
    SITES.lock().clear();
}

/// True if the program translates the code that it maps, as valgrind does: it would not find the
/// stubs of changed sites.
static TRANSLATES: AtomicBool = AtomicBool::new(false);

/// Notes whether a program, which begins, translates code.
pub(crate) fn begin_program(translates: bool) {
    TRANSLATES.store(translates, Ordering::SeqCst);
}

/// Records that the guest has mapped a file, and changes the known sites in it. No thread runs the
/// code yet.
pub(crate) fn map(start: u64, length: u64, of: FileMapping) {
    let is_code = of.protection == CODE;
    let is_private = of.flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
    let is_translated = TRANSLATES.load(Ordering::SeqCst);
    if !is_code || !is_private || is_translated || of.flags & libc::MAP_ANONYMOUS != 0 {
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
    sites.files.0.insert(start, mapped);
    // The search for branches to sites of other parts of the file has not covered this part.
    let whole = sites.files.code_of_file(start);
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
pub(crate) struct FileMapping {
    pub(crate) protection: i32,
    pub(crate) flags: i32,
    pub(crate) fd: i32,
    pub(crate) offset: u64,
}

/// Changes the sites that other processes have found since, before a fork: otherwise each child
/// would trap.
pub(crate) fn catch_up() {
    let mut sites = SITES.lock();
    let count = known::count();
    if sites.known == count || !thread::is_alone() || has_tracer() {
        return;
    }
    sites.known = count;
    let mapped: Vec<_> = sites
        .files
        .0
        .iter()
        .map(|(&at, &mapped)| (at, mapped))
        .collect();
    for (start, mapped) in mapped {
        let changes = known::changes(&mapped.identity);
        sites.change_all(start, &mapped, &changes);
    }
}

/// Gives the sites in a range their bytes back, and rejects them: before code becomes writable or
/// unreadable.
#[must_use]
pub(crate) fn restore(range: Range<u64>) -> Closed<1> {
    let mut sites = SITES.lock();
    for site in sites.restore(&range) {
        sites.rejected.insert(site);
    }
    sites.files.unmap(&range);
    sites.close([range])
}

/// Gives the sites in a range their bytes back: before pages are discarded. A jump may be partly in
/// such a page.
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
        sites.files.unmap(range);
        sites.forget(range);
    }
    sites.close(ranges)
}

/// Opens the ranges that other threads have closed, in the child of a fork.
pub(crate) fn open_all() {
    SITES.lock().open_all();
}

/// Rewrites the site of a call that has trapped, if that is safe. `site` is the address of the
/// `syscall`.
pub(crate) fn rewrite(site: u64, number: i64) {
    let mut sites = SITES.lock();
    // Another thread may have trapped here, and rewritten the site, before this one.
    if sites.rejected.contains(&site)
        || sites.is_closed(site)
        || sites.rewritten.get(&site).is_some_and(Jump::is_there)
    {
        return;
    }
    if has_tracer() {
        return;
    }
    let mapped = sites.files.mapped_at(site);
    let verdict = match mapped {
        Some((start, mapped)) => known::trap(&mapped.identity, mapped.place_of(start, site)),
        None => Verdict::Wait,
    };
    let known = match (&verdict, mapped) {
        (Verdict::Change(change), Some((start, mapped))) => {
            let change = change.moved_by(start.wrapping_sub(mapped.place));
            change
                .fits(&sites.files.code_of_file(start))
                .then_some(change)
        }
        _ => None,
    };
    let trapped = sites.trapped.entry(site).or_insert(0);
    *trapped += 1;
    let is_cold = *trapped < COLD;
    let change = match verdict {
        Verdict::Reject => None,
        _ if known.is_some() => known,
        // Also if a larger part of the file is mapped than the search has covered.
        Verdict::Wait | Verdict::Change(_) if is_cold => return,
        Verdict::Wait | Verdict::Inspect | Verdict::Change(_) => {
            let code = code_around(site);
            let change = code.and_then(|code| plan(&code, site, number, Instruction::Syscall));
            if let Some((start, mapped)) = mapped {
                let in_file = change.as_ref();
                let in_file = in_file.map(|change| sites.files.in_file(start, &mapped, change));
                let place = mapped.place_of(start, site);
                known::learn(&mapped.identity, place, in_file.as_ref());
            }
            change
        }
    };
    sites.trapped.remove(&site);
    match change.and_then(|change| sites.make(&change)) {
        Some(jump) => _ = sites.rewritten.insert(site, jump),
        None => _ = sites.rejected.insert(site),
    }
}

/// Returns where a thread continues that is about to return to an address, from a call that has
/// trapped or from a handler: elsewhere, if the instruction was moved. Until the thread is in the
/// guest, a change of code waits for it.
pub(crate) fn return_to(block: &Block, at: u64) -> u64 {
    let sites = SITES.lock();
    block.returns.set(1);
    sites.copy_of(at).unwrap_or(at)
}

/// Returns the address in the guest's code of an instruction whose copy is at `at`, for reports.
pub(crate) fn original(at: u64) -> Option<u64> {
    SITES.lock().original(at)
}
