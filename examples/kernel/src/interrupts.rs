//! Interrupts: exceptions, the timer of each CPU, and calls from one CPU to all others.
//!
//! An interrupt arrives on a stack of the CPU's own (`IST`), since compiled code of the host's
//! target keeps data below its stack pointer. The entry copies what the CPU has pushed to the
//! stack of the interrupted thread, 128 bytes below its pointer, saves the registers there, and
//! continues there. So the handler may switch to another thread, and this one returns from its
//! own stack later.

use alloc::boxed::Box;
use core::arch::global_asm;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use x86_64::PrivilegeLevel;
use x86_64::VirtAddr;
use x86_64::instructions::interrupts as cpu_interrupts;
use x86_64::instructions::port::Port;
use x86_64::instructions::segmentation::{CS, SS, Segment};
use x86_64::instructions::tables::{lidt, load_tss};
use x86_64::structures::DescriptorTablePointer;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::tss::TaskStateSegment;

use crate::{clock, cpu, println, serial, threads};

/// The vectors.
const TIMER: u8 = 0x40;
const CALL: u8 = 0x41;
const RESCHEDULE: u8 = 0x42;
const SPURIOUS: u8 = 0xFF;

/// The most CPUs.
pub const MOST: usize = 64;

/// The interrupts of each CPU. Each is a full fence there.
static PASSED: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
static CALLS: AtomicU64 = AtomicU64::new(0);
/// Sequences that were interrupted, and restarted.
pub static RESTARTS: AtomicU64 = AtomicU64::new(0);

/// The timer's counts of a millisecond.
static TIMER_COUNTS: AtomicU32 = AtomicU32::new(0);

macro_rules! entries {
    ($($name:literal $vector:literal),*) => {
        concat!($(
            $name, ": push rax; mov eax, ", $vector, "; jmp interrupted\n",
        )*)
    };
}

global_asm!(
    ".text; .global timer_entry, call_entry, reschedule_entry, spurious_entry, exception_entries",
    entries!("timer_entry" 0x40, "call_entry" 0x41, "reschedule_entry" 0x42),
    "interrupted:",
    // On the stack: rdx, rcx, rax, and what the CPU has pushed: rip, cs, rflags, rsp, ss.
    "push rcx; push rdx",
    "mov rcx, [rsp + 48]; sub rcx, 128; and rcx, -64",
    "mov rdx, [rsp + 56]; mov [rcx - 8], rdx; mov rdx, [rsp + 48]; mov [rcx - 16], rdx",
    "mov rdx, [rsp + 40]; mov [rcx - 24], rdx; mov rdx, [rsp + 32]; mov [rcx - 32], rdx",
    "mov rdx, [rsp + 24]; mov [rcx - 40], rdx; mov rdx, [rsp + 16]; mov [rcx - 48], rdx",
    "mov rdx, [rsp + 8]; mov [rcx - 56], rdx; mov rdx, [rsp]; mov [rcx - 64], rdx",
    // On the thread's own stack from here on.
    "lea rsp, [rcx - 64]",
    "push rbx; push rbp; push rsi; push rdi; push r8; push r9; push r10; push r11",
    "push r12; push r13; push r14; push r15",
    // Where the thread continues, and the vector.
    "lea rdi, [rsp + 120]; mov esi, eax; cld",
    "sub rsp, 544; fxsave64 [rsp]; call handle_interrupt; fxrstor64 [rsp]; add rsp, 544",
    "pop r15; pop r14; pop r13; pop r12",
    "pop r11; pop r10; pop r9; pop r8; pop rdi; pop rsi; pop rbp; pop rbx",
    "pop rdx; pop rcx; pop rax",
    "spurious_entry: iretq",
    // Exceptions: 16 bytes of code for each. Some of them push an error.
    ".balign 16",
    "exception_entries: .set vector, 0",
    ".rept 32; .balign 16",
    ".if !(1 << vector & 0x60227D00); push 0; .endif",
    "push vector; jmp exception; .set vector, vector + 1; .endr",
    "exception: mov rdi, rsp; and rsp, -16; call handle_exception",
);

unsafe extern "C" {
    fn timer_entry();
    fn call_entry();
    fn reschedule_entry();
    fn spurious_entry();
    fn exception_entries();
}

#[unsafe(no_mangle)]
extern "C" fn handle_interrupt(rip: &mut usize, vector: u32) {
    // Before anything else: the handler uses the library, and may switch threads.
    let resume = fdtable::platform::resume_address(*rip);
    if resume != *rip {
        RESTARTS.fetch_add(1, Relaxed);
        *rip = resume;
    }
    PASSED[cpu::id()].fetch_add(1, SeqCst);
    // The local controller may send the next one.
    write(0xB0, 0);
    match vector as u8 {
        TIMER => {
            threads::note_tick();
            threads::preempt();
        }
        CALL => run_call(),
        _ => threads::preempt(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn handle_exception(stack: &[usize; 4]) -> ! {
    let fault = x86_64::registers::control::Cr2::read_raw();
    let [vector, error, rip, _] = *stack;
    println!(
        "CPU {}: exception {vector}, error {error:#x}, at {rip:#x}, address {fault:#x}",
        cpu::id()
    );
    serial::exit(serial::Exit::Failure)
}

/// Prepares the calling CPU, with interrupts off.
pub fn prepare_cpu() {
    /// Stacks for what arrives: interrupts, and exceptions.
    const STACK: usize = 8192;
    let stack = || {
        let stack: &mut [u128; STACK / 16] = Box::leak(Box::new([0; STACK / 16]));
        VirtAddr::from_ptr(stack) + STACK as u64
    };
    let mut state = TaskStateSegment::new();
    state.interrupt_stack_table[0] = stack();
    state.interrupt_stack_table[1] = stack();
    let state: &'static TaskStateSegment = Box::leak(Box::new(state));
    let segments = Box::leak(Box::new(GlobalDescriptorTable::new()));
    let code = segments.append(Descriptor::kernel_code_segment());
    let task = segments.append(Descriptor::tss_segment(state));
    segments.load();
    // SAFETY: the segments are of 64-bit code, of nothing, and of the state above.
    unsafe {
        CS::set_reg(code);
        SS::set_reg(SegmentSelector::new(0, PrivilegeLevel::Ring0));
        load_tss(task);
    }
    let table: &mut [[u64; 2]; 256] = Box::leak(Box::new([[0; 2]; 256]));
    for (vector, entry) in table.iter_mut().enumerate().take(32) {
        *entry = gate(exception_entries as *const () as usize + vector * 16, 2);
    }
    table[usize::from(TIMER)] = gate(timer_entry as *const () as usize, 1);
    table[usize::from(CALL)] = gate(call_entry as *const () as usize, 1);
    table[usize::from(RESCHEDULE)] = gate(reschedule_entry as *const () as usize, 1);
    table[usize::from(SPURIOUS)] = gate(spurious_entry as *const () as usize, 1);
    let limit = size_of_val(table) as u16 - 1;
    let base = VirtAddr::from_ptr(table);
    // SAFETY: the entries are what the CPU expects, and each has a stack.
    unsafe { lidt(&DescriptorTablePointer { limit, base }) };
    // The local controller on, and its timer periodic.
    write(0xF0, 0x100 | u32::from(SPURIOUS));
    write(0x3E0, 0b1011);
    write(0x320, 0x2_0000 | u32::from(TIMER));
    write(0x380, TIMER_COUNTS.load(Relaxed));
}

/// Returns the entry of the interrupt table for a handler on one of the stacks of the CPU.
fn gate(handler: usize, stack: u64) -> [u64; 2] {
    let handler = handler as u64;
    let (low, middle, high) = (handler & 0xFFFF, handler >> 16 & 0xFFFF, handler >> 32);
    [
        low | 8 << 16 | stack << 32 | 0x8E << 40 | middle << 48,
        high,
    ]
}

/// Measures the timer of the local controller, which is alike on all CPUs. Once, on the first.
pub fn prepare() {
    // The old controllers are not used.
    // SAFETY: masks their interrupts.
    unsafe {
        Port::<u8>::new(0x21).write(0xFF);
        Port::<u8>::new(0xA1).write(0xFF);
    }
    write(0x3E0, 0b1011);
    clock::wait_by_timer(|| write(0x380, u32::MAX));
    let counts = u32::MAX - read(0x390);
    TIMER_COUNTS.store(counts / clock::MILLISECONDS as u32, Relaxed);
}

fn register(offset: usize) -> *mut u32 {
    core::ptr::with_exposed_provenance_mut(0xFEE0_0000 + offset)
}

fn write(offset: usize, value: u32) {
    // SAFETY: a register of the CPU's local controller, which the page tables map.
    unsafe { register(offset).write_volatile(value) };
}

fn read(offset: usize) -> u32 {
    // SAFETY: as above.
    unsafe { register(offset).read_volatile() }
}

/// Sends a command to other CPUs: bits of the command register.
pub fn send(command: u32) {
    cpu_interrupts::without_interrupts(|| {
        write(0x310, 0);
        write(0x300, command);
        while read(0x300) & 1 << 12 != 0 {
            core::hint::spin_loop();
        }
    });
}

/// All CPUs but this one.
const OTHERS: u32 = 3 << 18 | 1 << 14;

/// Commands that start other CPUs: reset, and start at a page.
pub const RESET: u32 = OTHERS | 5 << 8;
pub const START: u32 = OTHERS | 6 << 8;

/// Lets idle CPUs look for threads.
pub fn reschedule_others() {
    send(OTHERS | u32::from(RESCHEDULE));
}

/// Taken by the CPU that calls the others. A CPU that waits for it has its interrupts on, so it
/// answers the call of the other one.
static CALLING: AtomicBool = AtomicBool::new(false);
static FUNCTION: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static ANSWERS: AtomicUsize = AtomicUsize::new(0);

/// Runs a function on all other CPUs, in an interrupt, and waits until all have run it. With
/// interrupts on, or else two CPUs could wait for each other.
pub fn on_all_others(function: fn()) {
    assert!(
        cpu_interrupts::are_enabled(),
        "others may call this CPU meanwhile"
    );
    alone(|| {
        FUNCTION.store(function as *mut (), SeqCst);
        ANSWERS.store(0, SeqCst);
        let others = cpu::online() - 1;
        if others > 0 {
            CALLS.fetch_add(1, Relaxed);
            send(OTHERS | u32::from(CALL));
        }
        while ANSWERS.load(SeqCst) < others {
            core::hint::spin_loop();
        }
        // Also where there are no others.
        core::sync::atomic::fence(SeqCst);
    });
}

/// Runs `work` while no CPU calls the others.
pub fn alone(work: impl FnOnce()) {
    cpu::disable_preemption();
    while CALLING.swap(true, Acquire) {
        core::hint::spin_loop();
    }
    work();
    CALLING.store(false, Release);
    cpu::enable_preemption();
}

fn run_call() {
    let function = FUNCTION.load(SeqCst);
    // SAFETY: `on_all_others` stored it before it sent the interrupt, and waits for the answer.
    let function: fn() = unsafe { core::mem::transmute(function) };
    function();
    ANSWERS.fetch_add(1, SeqCst);
}

/// Waits until every other CPU has had an interrupt: within a millisecond, that of its timer.
pub fn wait_for_interrupts() {
    core::sync::atomic::fence(SeqCst);
    let before: [u64; MOST] = core::array::from_fn(|cpu| PASSED[cpu].load(SeqCst));
    cpu::disable_preemption();
    let this = cpu::id();
    for other in (0..cpu::count()).filter(|&other| other != this) {
        // A CPU that does not run yet has none, and will pass a fence before its first thread.
        while before[other] > 0 && PASSED[other].load(SeqCst) == before[other] {
            core::hint::spin_loop();
        }
    }
    cpu::enable_preemption();
    core::sync::atomic::fence(SeqCst);
}

/// Counts the calling CPU among those that have interrupts, before its first thread.
pub fn come_online() {
    PASSED[cpu::id()].fetch_add(1, SeqCst);
    alone(cpu::come_online);
}

/// Returns how often all other CPUs were called.
pub fn calls() -> u64 {
    CALLS.load(Relaxed)
}

/// Returns how many interrupts a CPU has had.
pub fn passed(cpu: usize) -> u64 {
    PASSED[cpu].load(SeqCst)
}

/// Returns how many interrupts there were.
pub fn count() -> u64 {
    PASSED.iter().map(|passed| passed.load(Relaxed)).sum()
}
