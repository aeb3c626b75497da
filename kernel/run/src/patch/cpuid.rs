//! The search for sites of the instruction `cpuid`, while a program is linked.
//!
//! In a virtual machine `cpuid` is a call of the hypervisor, of some microseconds. The loader of C
//! libraries asks some 40 times, mostly for the sizes of the caches: a quarter of a millisecond of
//! each program. The answers are the same each time, so the sites become jumps to a stub that
//! finds them in memory (see `answers`).
//!
//! Their bytes may be in data, so the runner finds the sites by running them: the host can have the
//! instruction fault. A process that executes a program whose loader was mapped some times before
//! does so, until the loader sets the base of the thread's memory. Few sites ask after that. The
//! handler answers as the CPU does, and records the sites. At the end of this time the process
//! inspects them, like sites of calls, and makes them [known](super::known) to all processes. If
//! the CPUs differ in kind, the runner searches for no sites.

use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::answers::{self, Answer, is_there, recorded};
use super::change::{Instruction, plan};
use super::code::{CPUID, code_around, has_tracer};
use super::known;
use super::sites::{SITES, Sites};
use crate::abi::host_now;
use crate::memory::pointer;

/// Time of one `cpuid` above which answers in memory are worth it.
const SLOW: Duration = Duration::from_micros(1);

/// The most questions that are recorded.
const QUESTIONS: usize = 96;

/// A question that has faulted, and its answer. Written by the handler of the only thread.
struct Question {
    /// 0 for none.
    site: AtomicU64,
    answer: Answer,
}

/// True while `cpuid` faults on the only thread of this process.
static FAULTS: AtomicBool = AtomicBool::new(false);
static ASKED: [Question; QUESTIONS] = [const {
    Question {
        site: AtomicU64::new(0),
        answer: Answer::new(),
    }
}; QUESTIONS];

/// Returns true if all CPUs of the machine are of one kind.
fn are_equal() -> bool {
    const HYBRID: u32 = 1 << 15;
    __cpuid(0).eax < 7 || __cpuid_count(7, 0).edx & HYBRID == 0
}

/// Makes the instruction fault on this thread, or answer. Returns false if the host cannot do it.
fn set_faults(faults: bool) -> bool {
    const ARCH_CPUID: i64 = 0x1012;
    let answers = i64::from(!faults);
    host_now(libc::SYS_arch_prctl, [ARCH_CPUID, answers, 0, 0, 0, 0]) == 0
}

/// Makes the instruction answer on this thread, as for a new program.
pub(crate) fn have_answers() {
    set_faults(false);
}

/// Makes the instruction answer on a thread of the runner's libraries, if it has faulted there: the
/// thread has inherited the setting. Returns true if so. For handlers.
pub(crate) fn has_faulted_elsewhere(registers: &[i64; 23]) -> bool {
    asks(registers[libc::REG_RIP as usize]) && set_faults(false)
}

/// Returns true if the instruction that has faulted at an address is `cpuid`. For handlers.
fn asks(at: i64) -> bool {
    // An address beyond the CPU's address space faults in the same way.
    const ADDRESSES: i64 = 1 << 47;
    if !(0..ADDRESSES).contains(&at) {
        return false;
    }
    let code = pointer::<u8>(at.cast_unsigned());
    // SAFETY: the thread has just run an instruction there. With such a first byte it has a second.
    unsafe { code.read() == CPUID[0] && code.add(1).read() == CPUID[1] }
}

/// Finds the sites of a program that begins, if its code at an address is worth it. The program has
/// one thread.
pub(crate) fn begin(code: u64) {
    let mapped = SITES.lock().files.mapped_at(code);
    let is_worth = || {
        let begin = Instant::now();
        __cpuid(0);
        begin.elapsed() > SLOW && are_equal()
    };
    if let Some((_, mapped)) = mapped
        && !has_tracer()
        && known::asks_first(&mapped.identity)
        && is_worth()
        && set_faults(true)
    {
        FAULTS.store(true, SeqCst);
    }
}

/// Ends the search for sites, when the program has set up its thread, begins another one, or ends.
/// Makes the sites and the answers known to all processes.
pub(crate) fn end() {
    if !FAULTS.swap(false, SeqCst) {
        return;
    }
    set_faults(false);
    let sites = SITES.lock();
    let mut last = 0;
    for asked in &ASKED {
        let site = asked.site.swap(0, SeqCst);
        if site == 0 {
            break;
        }
        let question @ [leaf, _] = asked.answer.question();
        if is_there(leaf) {
            answers::add(question, asked.answer.registers());
        }
        // Most sites ask in a loop.
        if site != last {
            learn(&sites, site, leaf);
        }
        last = site;
    }
}

fn learn(sites: &Sites, site: u64, leaf: u32) -> Option<()> {
    let (start, mapped) = sites.files.mapped_at(site)?;
    let code = code_around(site)?;
    let change = plan(&code, site, leaf.into(), Instruction::Cpuid)?;
    let in_file = sites.files.in_file(start, &mapped, &change);
    known::learn_always(&mapped.identity, mapped.place_of(start, site), &in_file);
    Some(())
}

/// Answers for the CPU, if the instruction has faulted. Returns true if so. For handlers: takes no
/// lock, and allocates nothing.
pub(crate) fn answer(registers: &mut [i64; 23]) -> bool {
    if !FAULTS.load(SeqCst) {
        return false;
    }
    let rip = registers[libc::REG_RIP as usize].cast_unsigned();
    if !asks(rip.cast_signed()) {
        return false;
    }
    let leaf = registers[libc::REG_RAX as usize] as u32;
    let subleaf = registers[libc::REG_RCX as usize] as u32;
    set_faults(false);
    let result = __cpuid_count(leaf, subleaf);
    set_faults(true);
    let result = [result.eax, result.ebx, result.ecx, result.edx];
    let places = [libc::REG_RAX, libc::REG_RBX, libc::REG_RCX, libc::REG_RDX];
    for (place, value) in places.into_iter().zip(result) {
        registers[place as usize] = value.into();
    }
    registers[libc::REG_RIP as usize] += CPUID.len() as i64;
    let is_free = |asked: &&Question| asked.site.load(SeqCst) == 0;
    if let Some(subleaf) = recorded(leaf, subleaf)
        && let Some(asked) = ASKED.iter().find(is_free)
    {
        asked.answer.set([leaf, subleaf], result);
        asked.site.store(rip, SeqCst);
    }
    true
}
