//! Short programs in assembly whose loads and stores are known, one by one.
//!
//! The trace must contain what the CPU's manual says of each instruction.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::arch::{asm, global_asm};
use std::cell::UnsafeCell;

use conflict_tracer::Kind::{Load, LoadStore, Locked, Store};
use conflict_tracer::{CpuId, Kind, Recorder, Remark, Trace};

/// Puts this thread on a simulated CPU.
fn claim() -> CpuId {
    // SAFETY: no code here that has sequences takes what other CPUs have, and no handler runs it.
    unsafe { CpuId::claim() }.unwrap()
}

/// Defines a function in assembly, with its end.
macro_rules! program {
    ($name:ident, $end:ident, $($line:literal),* $(,)?) => {
        global_asm!(
            ".pushsection .text",
            concat!(".globl known_", stringify!($name)),
            concat!("known_", stringify!($name), ":"),
            $($line,)*
            concat!(".globl known_", stringify!($end)),
            concat!("known_", stringify!($end), ":"),
            ".popsection",
        );
        unsafe extern "C" {
            #[link_name = concat!("known_", stringify!($name))]
            fn $name(memory: *mut u8, more: *mut u8, count: u64) -> u64;
            #[link_name = concat!("known_", stringify!($end))]
            fn $end();
        }
    };
}

/// An access: offset from the start of the memory, size, kind.
type Touch = (i64, u16, Kind);

#[repr(C, align(4096))]
struct Memory(UnsafeCell<[u8; 8192]>);

impl Memory {
    fn new() -> Box<Self> {
        Box::new(Self(UnsafeCell::new([0; 8192])))
    }

    fn start(&self) -> *mut u8 {
        self.0.get().cast()
    }
}

/// Runs a program and returns its trace, without the accesses of the caller.
fn run(
    (program, end): (
        unsafe extern "C" fn(*mut u8, *mut u8, u64) -> u64,
        unsafe extern "C" fn(),
    ),
    memory: &Memory,
    count: u64,
) -> (u64, Trace) {
    let cpu = claim();
    let start = memory.start();
    let mut recorder = Recorder::with_limit(1 << 16).unwrap();
    let call = || {
        // SAFETY: each program keeps to the memory and to the C calling convention.
        unsafe { program(start, start.wrapping_add(4096), count) }
    };
    let (answer, trace) = recorder.record(&cpu, call).unwrap();
    let inside = (program as *const () as u64)..(end as *const () as u64);
    let own = trace
        .accesses()
        .iter()
        .filter(|access| inside.contains(&access.instruction));
    let own = Trace::from_accesses(0, own.copied().collect()).unwrap();
    for (_, remark) in trace.remarks() {
        assert!(
            !remark.blinds() || matches!(remark, Remark::SystemCall(_)),
            "{remark:?}"
        );
    }
    (answer, own)
}

fn touches(trace: &Trace, memory: &Memory) -> Vec<Touch> {
    let start = memory.start() as i64;
    let all = trace.accesses().iter();
    // Without the final `ret`.
    let all = all.map(|access| (access.address as i64 - start, access.size, access.kind));
    let mut all: Vec<_> = all.collect();
    let last = all.pop().expect("a `ret` loads");
    assert_eq!((last.1, last.2), (8, Load), "{all:?}");
    all
}

macro_rules! check {
    ($name:ident, $end:ident, $count:expr, $expected:expr) => {{
        let memory = Memory::new();
        let (answer, trace) = run(($name, $end), &memory, $count);
        assert_eq!(touches(&trace, &memory), $expected);
        answer
    }};
}

program!(
    plain,
    plain_end,
    "mov rax, [rdi]",
    "mov [rdi + 8], eax",
    "mov word ptr [rdi + rdx * 4 + 16], 7",
    "movzx eax, byte ptr [rdi + 1]",
    "add qword ptr [rdi + 24], 1",
    "cmp byte ptr [rdi + 2], 0",
    "lea rax, [rdi + 99]",
    "nop dword ptr [rax]",
    "ret",
);

#[test]
fn plain_loads_and_stores() {
    let expected = [
        (0, 8, Load),
        (8, 4, Store),
        (24, 2, Store),
        (1, 1, Load),
        (24, 8, LoadStore),
        (2, 1, Load),
    ];
    check!(plain, plain_end, 2, expected);
}

program!(
    stack,
    stack_end,
    "push rbx",
    "call 2f",
    "push qword ptr [rdi]",
    "pop qword ptr [rdi + 8]",
    "enter 32, 0",
    "leave",
    "pop rbx",
    "ret",
    "2: ret 0",
);

#[test]
fn implicit_accesses_to_the_stack() {
    let memory = Memory::new();
    let (_, trace) = run((stack, stack_end), &memory, 0);
    let top = trace.accesses().last().unwrap().address as i64;
    let start = memory.start() as i64;
    let named = trace.accesses().iter().map(|access| {
        let address = access.address as i64;
        let in_memory = (0..8192).contains(&(address - start));
        let from = if in_memory { start } else { top };
        (address - from, access.size, access.kind)
    });
    let expected = [
        (-8, 8, Store),
        (-16, 8, Store),
        (-16, 8, Load),
        (0, 8, Load),
        (-16, 8, Store),
        (-16, 8, Load),
        (8, 8, Store),
        (-16, 8, Store),
        (-16, 8, Load),
        (-8, 8, Load),
        (0, 8, Load),
    ];
    let mut named: Vec<_> = named.collect();
    // The trace does not define which of its two operands an instruction accesses first.
    named[3..5].sort_by_key(|touch| touch.2 == Store);
    named[5..7].sort_by_key(|touch| touch.2 == Store);
    assert_eq!(named, expected);
}

program!(
    strings,
    strings_end,
    "mov rcx, rdx",
    "rep movsb",
    "mov rcx, 2",
    "rep stosd",
    "lodsw",
    "xor ecx, ecx",
    "rep movsq",
    "ret",
);

#[test]
fn string_instructions_access_the_memory_of_each_iteration() {
    let expected = [
        (4096, 1, Load),
        (0, 1, Store),
        (4097, 1, Load),
        (1, 1, Store),
        (4098, 1, Load),
        (2, 1, Store),
        (3, 4, Store),
        (7, 4, Store),
        (4099, 2, Load),
    ];
    let memory = Memory::new();
    let (_, trace) = run((strings, strings_end), &memory, 3);
    let mut found = touches(&trace, &memory);
    for turn in found[..6].chunks_mut(2) {
        turn.sort_by_key(|touch| touch.2 == Store);
    }
    assert_eq!(found, expected);
}

program!(
    scan,
    scan_end,
    "mov byte ptr [rdi + 2], 9",
    "mov rcx, 100",
    "mov al, 9",
    "repne scasb",
    "ret",
);

#[test]
fn a_search_accesses_only_the_searched_part() {
    let expected = [(2, 1, Store), (0, 1, Load), (1, 1, Load), (2, 1, Load)];
    check!(scan, scan_end, 0, expected);
}

program!(
    locked,
    locked_end,
    "push rbx",
    "xor eax, eax",
    "mov ecx, 5",
    "lock cmpxchg [rdi], rcx",
    "xor eax, eax",
    "lock cmpxchg [rdi], rcx",
    "lock xadd [rdi + 8], ecx",
    "lock add word ptr [rdi + 12], 1",
    "xchg [rdi + 16], rcx",
    "lock inc byte ptr [rdi + 24]",
    "lock bts dword ptr [rdi + 28], 3",
    "lock cmpxchg16b [rdi + 32]",
    "cmpxchg [rdi + 48], rcx",
    "xadd [rdi + 56], rcx",
    "pop rbx",
    "ret",
);

#[test]
fn locked_instructions_are_distinguished_from_others() {
    let memory = Memory::new();
    let (_, trace) = run((locked, locked_end), &memory, 0);
    let mut found = touches(&trace, &memory);
    found.retain(|touch| (0..8192).contains(&touch.0));
    let expected = [
        (0, 8, Locked),
        (0, 8, Locked),
        (8, 4, Locked),
        (12, 2, Locked),
        (16, 8, Locked),
        (24, 1, Locked),
        (28, 4, Locked),
        (32, 16, Locked),
        (48, 8, LoadStore),
        (56, 8, LoadStore),
    ];
    assert_eq!(found, expected);
}

program!(
    bits,
    bits_end,
    "mov rcx, 700",
    "bt qword ptr [rdi], rcx",
    "mov ecx, -1",
    "lock bts dword ptr [rdi + 64], ecx",
    "mov cx, 17",
    "btr word ptr [rdi], cx",
    "ret",
);

#[test]
fn a_bit_index_selects_the_accessed_word() {
    check!(
        bits,
        bits_end,
        0,
        [(80, 8, Load), (60, 4, Locked), (2, 2, LoadStore)]
    );
}

program!(
    table,
    table_end,
    "push rbx",
    "mov rbx, rdi",
    "mov rax, 0x1234567805",
    "xlatb",
    "pop rbx",
    "ret",
);

#[test]
fn the_index_of_a_table_is_a_byte() {
    let memory = Memory::new();
    let (_, trace) = run((table, table_end), &memory, 0);
    let mut found = touches(&trace, &memory);
    found.retain(|touch| touch.1 == 1);
    assert_eq!(found, [(5, 1, Load)]);
}

#[test]
fn an_instruction_without_a_trap_is_recorded_as_missing() {
    let cpu = claim();
    // SAFETY: loads the current stack segment.
    let load = || unsafe { asm!("mov {0:e}, ss", "mov ss, {0:e}", "nop", out(reg) _) };
    let trace = Recorder::with_limit(1000).unwrap().record(&cpu, load);
    assert_eq!(trace.unwrap().1.remarks()[0].1, Remark::SkippedInstruction);
}

#[test]
fn code_emulated_by_the_kernel_is_recorded_as_missing() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    if !maps.contains("[vsyscall]") {
        return;
    }
    // SAFETY: the kernel provides `time` for old programs.
    let time: extern "C" fn(*mut i64) -> i64 =
        unsafe { std::mem::transmute(0xffff_ffff_ff60_0400_usize) };
    let cpu = claim();
    let ask = || time(std::ptr::null_mut());
    let (time, trace) = Recorder::with_limit(1000)
        .unwrap()
        .record(&cpu, ask)
        .unwrap();
    assert!(time > 0 && !trace.is_whole());
}

program!(
    vectors,
    vectors_end,
    "movups xmm0, [rdi + 60]",
    "movaps [rdi + 16], xmm0",
    "movq [rdi], xmm0",
    "movhps xmm1, [rdi + 8]",
    "movnti [rdi + 32], rax",
    "fxsave [rdi + 512]",
    "ret",
);

#[test]
fn vector_registers() {
    let expected = [
        (60, 16, Load),
        (16, 16, Store),
        (0, 8, Store),
        (8, 8, Load),
        (32, 8, Store),
        (512, 512, Store),
    ];
    check!(vectors, vectors_end, 0, expected);
}

program!(
    wide,
    wide_end,
    "vmovdqu ymm0, [rdi + 1]",
    "vmovdqu [rdi + 64], ymm0",
    "vbroadcastss ymm1, [rdi + 4]",
    "vzeroupper",
    "ret",
);

#[test]
fn wide_vector_registers() {
    if std::is_x86_feature_detected!("avx2") {
        check!(
            wide,
            wide_end,
            0,
            [(1, 32, Load), (64, 32, Store), (4, 4, Load)]
        );
    }
}

program!(
    widest,
    widest_end,
    "vmovdqu64 zmm17, [rdi + 8]",
    "vmovdqu64 [rdi + 128], zmm17",
    "ret",
);

#[test]
fn the_widest_vector_registers() {
    if std::is_x86_feature_detected!("avx512f") {
        check!(widest, widest_end, 0, [(8, 64, Load), (128, 64, Store)]);
    }
}

// The indices are 0, 3, ..., 21, and then the negatives; every second lane is masked off.
program!(
    gather,
    gather_end,
    "mov eax, 0",
    "2:",
    "lea ecx, [rax + rax * 2]",
    "mov [rsi + rax * 4], ecx",
    "mov r8d, eax",
    "and r8d, 1",
    "neg r8d",
    "mov [rsi + rax * 4 + 64], r8d",
    "inc eax",
    "cmp eax, 8",
    "jne 2b",
    "vmovdqu ymm1, [rsi]",
    "vmovdqu ymm2, [rsi + 64]",
    "vpgatherdd ymm0, [rdi + ymm1 * 4 + 16], ymm2",
    "vpcmpeqd ymm2, ymm2, ymm2",
    "vpxor ymm3, ymm3, ymm3",
    "vpsubq ymm1, ymm3, [rsi + 256]",
    "vpgatherqq ymm0, [rdi + ymm1 * 8 + 64], ymm2",
    "vzeroupper",
    "ret",
);

#[test]
fn gathers_touch_the_lanes_that_are_not_masked_off() {
    if !std::is_x86_feature_detected!("avx2") {
        return;
    }
    let memory = Memory::new();
    let start = memory.start();
    for lane in 0..4_u64 {
        let place = start
            .wrapping_add(4096 + 256 + 8 * lane as usize)
            .cast::<u64>();
        // SAFETY: inside of the memory.
        unsafe { place.write(lane * 2) };
    }
    let (_, trace) = run((gather, gather_end), &memory, 0);
    let mut found = touches(&trace, &memory);
    found.retain(|touch| touch.0 < 4096);
    let first = [1, 3, 5, 7].map(|lane| (16 + 12 * lane, 4, Load));
    let second = [0, 1, 2, 3].map(|lane| (64 - 16 * lane, 8, Load));
    assert_eq!(found, [first, second].concat());
}

program!(
    sparse,
    sparse_end,
    "vpxor ymm1, ymm1, ymm1",
    "mov eax, 5",
    "kmovw k1, eax",
    "vpternlogd zmm20, zmm20, zmm20, 255",
    "vpabsd zmm20, zmm20",
    "vpscatterdd [rdi + zmm20 * 8]{{k1}}, zmm20",
    "ret",
);

#[test]
fn scatters_with_a_mask_register() {
    if std::is_x86_feature_detected!("avx512f") {
        check!(sparse, sparse_end, 0, [(8, 4, Store), (8, 4, Store)]);
    }
}

program!(
    hints,
    hints_end,
    "prefetcht0 [rdi + 64]",
    "prefetchw [rdi + 128]",
    "mfence",
    "pause",
    "ret",
);

#[test]
fn prefetches_fetch_lines_and_fences_are_remarks() {
    check!(hints, hints_end, 0, [(64, 1, Load), (128, 1, Store)]);
    let cpu = claim();
    let memory = Memory::new();
    let start = memory.start();
    // SAFETY: hints.
    let call = || unsafe { hints(start, start, 0) };
    let (_, trace) = Recorder::with_limit(1000)
        .unwrap()
        .record(&cpu, call)
        .unwrap();
    let remarks: Vec<_> = trace.remarks().iter().map(|(_, remark)| *remark).collect();
    assert_eq!(remarks, [Remark::Fence, Remark::Pause]);
    assert!(trace.is_whole());
    let locked = trace.accesses().iter().filter(|it| it.kind == Locked);
    let fences = trace.remarks().iter().filter(|it| it.1 == Remark::Fence);
    assert_eq!(locked.count() + fences.count(), 1);
}

program!(
    segments,
    segments_end,
    "mov rax, fs:[0]",
    "mov rcx, [rip + known_segments]",
    "ret",
);

#[test]
fn thread_local_and_relative_addresses() {
    let memory = Memory::new();
    let (thread_pointer, trace) = run((segments, segments_end), &memory, 0);
    let addresses: Vec<_> = trace
        .accesses()
        .iter()
        .map(|access| access.address)
        .collect();
    assert_eq!(
        addresses[..2],
        [thread_pointer, segments as *const () as u64]
    );
}

program!(
    flags,
    flags_end,
    "pushfq",
    "and qword ptr [rsp], -257",
    "popfq",
    "mov [rdi], eax",
    "push 514",
    "popfq",
    "mov [rdi + 8], eax",
    "ret",
);

#[test]
fn flags_that_are_loaded_do_not_end_the_stepping() {
    let memory = Memory::new();
    let (_, trace) = run((flags, flags_end), &memory, 0);
    let mut found = touches(&trace, &memory);
    found.retain(|touch| (0..8192).contains(&touch.0));
    assert_eq!(found, [(0, 4, Store), (8, 4, Store)]);
}

program!(
    system_call,
    system_call_end,
    "mov eax, 39",
    "syscall",
    "mov [rdi], eax",
    "mov [rdi + 8], rcx",
    "lea rdx, [rip + 2f]",
    "mov eax, 39",
    "syscall",
    "2: mov [rdi + 16], rcx",
    "mov [rdi + 24], rdx",
    "ret",
);

#[test]
fn the_instruction_after_a_system_call_is_traced_with_correct_registers() {
    let memory = Memory::new();
    let (_, trace) = run((system_call, system_call_end), &memory, 0);
    let expected = [(0, 4, Store), (8, 8, Store), (16, 8, Store), (24, 8, Store)];
    assert_eq!(touches(&trace, &memory), expected);
    // SAFETY: the memory is there.
    let words = unsafe { memory.start().cast::<[u64; 4]>().read() };
    assert_eq!(words[0], u64::from(std::process::id()));
    assert_eq!(words[2], words[3], "rcx is where the call returned to");
}

#[test]
fn the_same_program_has_the_same_trace() {
    let memory = Memory::new();
    let first = run((strings, strings_end), &memory, 40).1;
    let second = run((strings, strings_end), &memory, 40).1;
    assert_eq!(touches(&first, &memory), touches(&second, &memory));
}

#[test]
fn nothing_is_traced_but_what_is_between_the_markers() {
    let cpu = claim();
    let mut recorder = Recorder::with_limit(1000).unwrap();
    let nothing = recorder.record(&cpu, || ()).unwrap().1;
    // SAFETY: does nothing.
    let nop = recorder.record(&cpu, || unsafe { asm!("nop") }).unwrap().1;
    assert!(nothing.is_whole());
    assert!(
        nothing.accesses().len() < 60,
        "{}",
        nothing.accesses().len()
    );
    assert!(nop.instructions() >= 1);
}
