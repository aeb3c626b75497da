//! Answers of the instruction `cpuid` in memory, and the code of stubs that finds them.
//!
//! The code gives the answers that are the same on each CPU of the machine. The numbers of CPUs are
//! not among them, nor the answers of a hypervisor about itself. All other questions of a rewritten
//! site go to the CPU.

use std::arch::global_asm;
use std::arch::x86_64::__cpuid;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use fdtable_shm::Mutex;

use crate::entry::address;
use crate::memory::pointer;

/// The most answers.
const ANSWERS: usize = 48;
/// An answer, as the code of stubs reads it.
#[repr(C)]
pub(super) struct Answer {
    leaf: AtomicU32,
    /// [`ANY`] for a leaf without subleaves.
    subleaf: AtomicU32,
    /// `eax`, `ebx`, `ecx` and `edx`.
    registers: [AtomicU32; 4],
}

pub(super) const ANY: u32 = u32::MAX;

impl Answer {
    pub(super) const fn new() -> Self {
        Self {
            leaf: AtomicU32::new(0),
            subleaf: AtomicU32::new(0),
            registers: [const { AtomicU32::new(0) }; 4],
        }
    }

    /// Returns the leaf and the subleaf.
    pub(super) fn question(&self) -> [u32; 2] {
        [&self.leaf, &self.subleaf].map(|word| word.load(SeqCst))
    }

    pub(super) fn registers(&self) -> [u32; 4] {
        self.registers.each_ref().map(|word| word.load(SeqCst))
    }

    pub(super) fn set(&self, [leaf, subleaf]: [u32; 2], registers: [u32; 4]) {
        self.leaf.store(leaf, SeqCst);
        self.subleaf.store(subleaf, SeqCst);
        for (place, value) in self.registers.iter().zip(registers) {
            place.store(value, SeqCst);
        }
    }
}

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
        all: [const { Answer::new() }; ANSWERS],
    };
}

fdtable_sync::global! {
    /// Held by the thread that adds an answer.
    pub(super) static ADDING: Mutex<()> = Mutex::new(());
}

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

/// Returns the code that stubs of this instruction jump to, for a pool, and the offset of its
/// entry.
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

/// Returns the subleaf to record with an answer, or [`ANY`]; `None` if CPUs differ in the answer.
pub(super) fn recorded(leaf: u32, subleaf: u32) -> Option<u32> {
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
pub(super) fn is_there(leaf: u32) -> bool {
    leaf <= __cpuid(leaf & 0x8000_0000).eax
}

/// Adds an answer for all processes, if there is room.
pub(super) fn add(question: [u32; 2], registers: [u32; 4]) {
    let _call = fdtable_shm::enter();
    let _adding = ADDING.lock();
    let count = ANSWERED.count.load(SeqCst) as usize;
    let mut known = ANSWERED.all.iter().take(count);
    if known.any(|answer| answer.question() == question) {
        return;
    }
    if let Some(answer) = ANSWERED.all.get(count) {
        answer.set(question, registers);
        // The code of stubs reads it first. CPUs of this kind show stores in their order.
        ANSWERED.count.store(count as u32 + 1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::arch::asm;
    use std::arch::x86_64::__cpuid_count;

    use super::super::stubs::{HEAD, STUB};
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
    fn the_code_of_stubs_answers_what_is_recorded_and_asks_the_cpu_for_the_rest() {
        let add = |leaf, subleaf, first: u32| {
            add([leaf, subleaf], [0, 1, 2, 3].map(|more| first + more));
        };
        // No CPU has these leaves.
        const WITH: u32 = 0x7000_0001;
        const WITHOUT: u32 = 0x7000_0002;
        add(WITH, 0, 10);
        add(WITH, 1, 20);
        add(WITHOUT, ANY, u32::MAX - 3);
        // The first answer stays.
        add(WITH, 1, 30);
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
            assert_eq!(libc::mprotect(copy, 4096, super::super::code::CODE), 0);
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
    fn what_differs_between_cpus_is_not_recorded() {
        // With the number of the CPU: 1, 0xB, 0x1F, 0x8000_001E.
        for leaf in [1, 0xB, 0x1F, 0x8000_001E, 0x4000_0000] {
            assert_eq!(recorded(leaf, 0), None, "{leaf:#x}");
        }
        assert_eq!(recorded(4, 3), Some(3));
        assert_eq!(recorded(2, 3), Some(ANY));
        // The answer would be for all subleaves.
        assert_eq!(recorded(7, u32::MAX), None);
        assert!(is_there(0) && !is_there(0x4000_0000) && !is_there(0x8FFF_FFFF));
    }
}
