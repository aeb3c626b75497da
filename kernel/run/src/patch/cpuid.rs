//! Answers of the instruction `cpuid` from memory, while a program is linked.
//!
//! In a virtual machine `cpuid` is a call of the hypervisor, of some microseconds. The loader of C
//! libraries asks some 40 times, mostly for the sizes of the caches: a quarter of a millisecond of
//! each program. The answers are the same each time, so the sites become jumps to a stub that looks
//! them up.
//!
//! # How the sites are found
//!
//! Not by their bytes, which may be in data: by running them. The host can have the instruction
//! fault. A process that executes a program whose loader was mapped some times before has it do so,
//! until the loader sets the base of the thread's memory, after which few ask. The handler answers
//! as the CPU does, and notes the sites. At the end of this time they are looked at, as those
//! of calls are, and are [known](super::known) to all processes.
//!
//! # What is answered
//!
//! The stub gives the answers that are the same on each CPU of the machine. The numbers of CPUs are
//! not among them, nor the answers of a hypervisor about itself. If the CPUs differ in kind, the
//! runner searches for no sites. All other questions of a rewritten site go to the CPU.

use std::arch::global_asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use fdtable_shm::Mutex;

use super::{CPUID, Instruction, SITES, Sites, behind, code_around, has_tracer, in_front, known};
use crate::abi::host_now;
use crate::entry::address;
use crate::memory::pointer;

/// Time of one `cpuid` above which answers in memory are worth it.
const SLOW: Duration = Duration::from_micros(1);

/// The most answers.
const ANSWERS: usize = 48;
/// The most questions that are noted.
const NOTED: usize = 96;

/// An answer, as the code of stubs reads it.
#[repr(C)]
struct Answer {
    leaf: AtomicU32,
    /// That of a leaf without is [`ANY`].
    subleaf: AtomicU32,
    /// `eax`, `ebx`, `ecx` and `edx`.
    registers: [AtomicU32; 4],
}

const ANY: u32 = u32::MAX;

/// All answers, as the code of stubs reads them: the first `count` are whole.
#[repr(C)]
struct Answers {
    count: AtomicU32,
    unused: u32,
    all: [Answer; ANSWERS],
}

fdtable_sync::global! {
    pub(super) static ANSWERED: Answers = Answers {
        count: AtomicU32::new(0),
        unused: 0,
        all: [const {
            Answer {
                leaf: AtomicU32::new(0),
                subleaf: AtomicU32::new(0),
                registers: [const { AtomicU32::new(0) }; 4],
            }
        }; ANSWERS],
    };
}

fdtable_sync::global! {
    /// Held by the one that adds an answer.
    pub(super) static ADDING: Mutex<()> = Mutex::new(());
}

/// A question that has faulted, and its answer. Written by the handler of the only thread.
struct Noted {
    /// 0 for none.
    site: AtomicU64,
    leaf: AtomicU32,
    subleaf: AtomicU32,
    registers: [AtomicU32; 4],
}

/// True while `cpuid` faults on the only thread of this process.
static FAULTS: AtomicBool = AtomicBool::new(false);
static QUESTIONS: [Noted; NOTED] = [const {
    Noted {
        site: AtomicU64::new(0),
        leaf: AtomicU32::new(0),
        subleaf: AtomicU32::new(0),
        registers: [const { AtomicU32::new(0) }; 4],
    }
}; NOTED];

global_asm!(
    ".pushsection .text.fdtable_run_cpuid,\"ax\",@progbits",
    ".p2align 6",
    ".globl fdtable_run_cpuid_begin, fdtable_run_cpuid, fdtable_run_cpuid_end",
    ".hidden fdtable_run_cpuid_begin, fdtable_run_cpuid, fdtable_run_cpuid_end",
    // In the copy of a pool: the address of the answers.
    "fdtable_run_cpuid_begin:",
    "    .quad 0",
    // `rdx`: where the thread continues. It and `rbx` are free, as the instruction sets them.
    "fdtable_run_cpuid:",
    "    lea rsp, [rsp - {red_zone}]",
    "    push rdx",
    "    pushfq",
    "    push rsi; push rdi",
    "    mov rsi, [rip + fdtable_run_cpuid_begin]",
    "    mov edi, [rsi]",
    "    add rsi, 8 - {size}",
    "2:  sub edi, 1",
    "    jc 4f",
    "    add rsi, {size}",
    "    cmp [rsi], eax",
    "    jne 2b",
    "    cmp [rsi + 4], ecx",
    "    je 3f",
    "    cmp dword ptr [rsi + 4], {any}",
    "    jne 2b",
    "3:  mov eax, [rsi + 8]; mov ebx, [rsi + 12]; mov ecx, [rsi + 16]; mov edx, [rsi + 20]",
    "    pop rdi; pop rsi",
    "    popfq",
    "    ret {red_zone}",
    "4:  pop rdi; pop rsi",
    "    cpuid",
    "    popfq",
    "    ret {red_zone}",
    "fdtable_run_cpuid_end:",
    ".popsection",
    red_zone = const 128,
    size = const size_of::<Answer>(),
    any = const ANY.cast_signed(),
);

unsafe extern "C" {
    fn fdtable_run_cpuid_begin();
    fn fdtable_run_cpuid();
    fn fdtable_run_cpuid_end();
}

/// Returns the code that stubs of this instruction jump to, for a pool, and where in it they do.
pub(super) fn code() -> (Vec<u8>, u64) {
    let begin = pointer::<u8>(address(fdtable_run_cpuid_begin));
    let place = |label| (address(label) - address(fdtable_run_cpuid_begin)) as usize;
    let size = place(fdtable_run_cpuid_end);
    // SAFETY: the code between the labels, which nothing changes.
    let mut code = unsafe { std::slice::from_raw_parts(begin, size) }.to_vec();
    let answers = ptr::from_ref(&ANSWERED).expose_provenance() as u64;
    code[..8].copy_from_slice(&answers.to_ne_bytes());
    (code, place(fdtable_run_cpuid) as u64)
}

/// Returns how an answer is kept: the subleaf, or [`ANY`]; `None` if it is not the same everywhere.
fn kept(leaf: u32, subleaf: u32) -> Option<u32> {
    /// More than any of these leaves has.
    const SUBLEAVES: u32 = 64;
    match leaf {
        0 | 2 | 0x8000_0000..=0x8000_0008 => Some(ANY),
        4 | 7 | 0xD | 0x14 | 0x19 => (subleaf < SUBLEAVES).then_some(subleaf),
        _ => None,
    }
}

/// Returns true if the CPU has a leaf. It may answer for another one with its highest leaf, which
/// may have the number of the CPU.
fn is_there(leaf: u32) -> bool {
    leaf <= __cpuid(leaf & 0x8000_0000).eax
}

/// Returns true if all CPUs of the machine are of one kind.
fn are_equal() -> bool {
    const HYBRID: u32 = 1 << 15;
    __cpuid(0).eax < 7 || __cpuid_count(7, 0).edx & HYBRID == 0
}

/// Asks the host to have the instruction fault on this thread, or not to.
fn set_faults(faults: bool) -> bool {
    const ARCH_CPUID: i64 = 0x1012;
    let answers = i64::from(!faults);
    host_now(libc::SYS_arch_prctl, [ARCH_CPUID, answers, 0, 0, 0, 0]) == 0
}

/// Has this thread get answers, also if it was set up otherwise: as a new program does, whatever
/// the one before has asked the host for.
pub(crate) fn have_answers() {
    set_faults(false);
}

/// Has a thread of the runner's libraries get answers, if an instruction of it has faulted that
/// asks: it has the setting of the thread that has started it. Returns true if so. For handlers.
pub(crate) fn has_faulted_elsewhere(registers: &[i64; 23]) -> bool {
    asks(registers[libc::REG_RIP as usize]) && set_faults(false)
}

/// Returns true if the instruction that has faulted at an address asks. For handlers.
fn asks(at: i64) -> bool {
    // An address that the CPU does not have faults in the same way.
    const ADDRESSES: i64 = 1 << 47;
    if !(0..ADDRESSES).contains(&at) {
        return false;
    }
    let code = pointer::<u8>(at.cast_unsigned());
    // SAFETY: the thread has just run an instruction there. With such a first byte it has another.
    unsafe { code.read() == CPUID[0] && code.add(1).read() == CPUID[1] }
}

/// Finds the sites of a program that begins, if its code at an address is worth it. The program has
/// one thread.
pub(crate) fn begin(code: u64) {
    let mapped = SITES.lock().mapped_at(code);
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
    for noted in &QUESTIONS {
        let site = noted.site.swap(0, SeqCst);
        if site == 0 {
            break;
        }
        if is_there(noted.leaf.load(SeqCst)) {
            add(noted);
        }
        // Most ask in a loop.
        if site != last {
            learn(&sites, site, noted.leaf.load(SeqCst));
        }
        last = site;
    }
}

fn learn(sites: &Sites, site: u64, leaf: u32) -> Option<()> {
    let (start, mapped) = sites.mapped_at(site)?;
    let code = code_around(site)?;
    let change = in_front(&code, site, leaf.into(), Instruction::Cpuid)
        .or_else(|| behind(&code, site, Instruction::Cpuid))?;
    known::learn_always(
        &mapped.identity,
        site - start + mapped.place,
        &sites.in_file(start, &mapped, &change),
    );
    Some(())
}

/// Answers for the CPU, if the instruction has faulted. Returns true if so. For handlers:
/// takes no lock, and allocates nothing.
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
    if let Some(subleaf) = kept(leaf, subleaf) {
        note(rip, [leaf, subleaf], result);
    }
    true
}

/// Notes a question, if there is room.
fn note(site: u64, [leaf, subleaf]: [u32; 2], result: [u32; 4]) {
    let is_free = |noted: &&Noted| noted.site.load(SeqCst) == 0;
    if let Some(noted) = QUESTIONS.iter().find(is_free) {
        noted.leaf.store(leaf, SeqCst);
        noted.subleaf.store(subleaf, SeqCst);
        for (place, value) in noted.registers.iter().zip(result) {
            place.store(value, SeqCst);
        }
        noted.site.store(site, SeqCst);
    }
}

/// Keeps an answer for all processes, if there is room.
fn add(noted: &Noted) {
    let _call = fdtable_shm::enter();
    let _adding = ADDING.lock();
    let question = [noted.leaf.load(SeqCst), noted.subleaf.load(SeqCst)];
    let count = ANSWERED.count.load(SeqCst) as usize;
    let is_known =
        |answer: &Answer| [answer.leaf.load(SeqCst), answer.subleaf.load(SeqCst)] == question;
    if ANSWERED.all.iter().take(count).any(is_known) {
        return;
    }
    if let Some(answer) = ANSWERED.all.get(count) {
        answer.leaf.store(question[0], SeqCst);
        answer.subleaf.store(question[1], SeqCst);
        for (place, value) in answer.registers.iter().zip(&noted.registers) {
            place.store(value.load(SeqCst), SeqCst);
        }
        // The code of stubs reads it first. CPUs of this kind show stores in their order.
        ANSWERED.count.store(count as u32 + 1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::arch::asm;

    use super::super::{HEAD, STUB};
    use super::*;

    /// Runs a copy of the code as a stub does. Returns the registers, the carry flag, which it
    /// sets before, and a word of the red zone, which is 7 before.
    fn ask(copy: u64, leaf: u32, subleaf: u32) -> ([u32; 4], u8, u64) {
        let (mut a, mut c) = (leaf, subleaf);
        let (b, d, carry, word): (u32, u32, u8, u64);
        // SAFETY: the code returns to the label with the stack as it was.
        unsafe {
            asm!(
                "mov r8, rbx",
                "lea rsp, [rsp - 512]",
                "mov qword ptr [rsp - 8], 7",
                "stc",
                "lea rdx, [rip + 2f]",
                "jmp {copy}",
                "2:",
                "setc r9b",
                "mov r10, [rsp - 8]",
                "lea rsp, [rsp + 512]",
                "mov r11d, ebx",
                "mov rbx, r8",
                copy = in(reg) copy,
                inout("eax") a,
                inout("ecx") c,
                out("edx") d,
                out("r8") _,
                out("r9b") carry,
                out("r10") word,
                out("r11d") b,
            );
        }
        ([a, b, c, d], carry, word)
    }

    #[test]
    fn the_code_of_stubs_answers_what_is_kept_and_asks_the_cpu_for_the_rest() {
        let noted = |leaf, subleaf, first: u32| Noted {
            site: AtomicU64::new(0),
            leaf: AtomicU32::new(leaf),
            subleaf: AtomicU32::new(subleaf),
            registers: [0, 1, 2, 3].map(|more| AtomicU32::new(first + more)),
        };
        // No CPU has these leaves.
        const WITH: u32 = 0x7000_0001;
        const WITHOUT: u32 = 0x7000_0002;
        add(&noted(WITH, 0, 10));
        add(&noted(WITH, 1, 20));
        add(&noted(WITHOUT, ANY, u32::MAX - 3));
        // The first answer stays.
        add(&noted(WITH, 1, 30));
        let (code, entry) = code();
        // The stubs follow it.
        assert!(code.len() as u64 <= HEAD - STUB);
        // SAFETY: nothing is replaced.
        let copy = unsafe {
            let all = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let copy = libc::mmap(ptr::null_mut(), 4096, all, flags, -1, 0);
            assert_ne!(copy, libc::MAP_FAILED);
            copy.cast::<u8>().copy_from(code.as_ptr(), code.len());
            assert_eq!(libc::mprotect(copy, 4096, super::super::CODE), 0);
            copy.expose_provenance() as u64 + entry
        };
        let max = u32::MAX;
        assert_eq!(ask(copy, WITH, 0), ([10, 11, 12, 13], 1, 7));
        assert_eq!(ask(copy, WITH, 1), ([20, 21, 22, 23], 1, 7));
        assert_eq!(
            ask(copy, WITHOUT, 5),
            ([max - 3, max - 2, max - 1, max], 1, 7)
        );
        let cpu = |leaf, subleaf| {
            let result = __cpuid_count(leaf, subleaf);
            ([result.eax, result.ebx, result.ecx, result.edx], 1, 7)
        };
        assert_eq!(ask(copy, WITH, 2), cpu(WITH, 2));
        assert_eq!(ask(copy, 0x8000_0000, 0), cpu(0x8000_0000, 0));
        assert_eq!(ask(copy, 7, 0), cpu(7, 0));
    }

    #[test]
    fn what_differs_between_cpus_is_not_kept() {
        // With the number of the CPU: 1, 0xB, 0x1F, 0x8000_001E.
        for leaf in [1, 0xB, 0x1F, 0x8000_001E, 0x4000_0000] {
            assert_eq!(kept(leaf, 0), None, "{leaf:#x}");
        }
        assert_eq!(kept(4, 3), Some(3));
        assert_eq!(kept(2, 3), Some(ANY));
        // It would answer for all.
        assert_eq!(kept(7, u32::MAX), None);
        assert!(is_there(0) && !is_there(0x4000_0000) && !is_there(0x8FFF_FFFF));
    }
}
