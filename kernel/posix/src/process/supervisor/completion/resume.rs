//! The steps in which a completion process replaces its memory and continues the calls.
//!
//! The code that runs while the memory is replaced uses none of what is replaced: no static, no
//! thread-local variable, no heap. It makes the host's calls itself. Its stack, and all that it
//! reads, is in pages of shared memory.

use std::arch::{asm, naked_asm};
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr;

use super::plan::{
    Context, PAGE, PLAN, Plan, RANGES, SLOT, Slot, address, call, end_process, end_thread, slot_of,
};
use crate::process::supervisor::threads::Threads;

/// Replaces the memory, and continues the calls.
pub(super) unsafe extern "C" fn take_over(plan: *const Plan) -> ! {
    // SAFETY: it is in the shared pages, and no other process writes it.
    let plan = unsafe { &*plan };
    const FIXED: i64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as i64;
    const RIGHTS: i64 = (libc::PROT_READ | libc::PROT_WRITE) as i64;
    let mut index = 0;
    while index < RANGES {
        let Range { start, end } = plan.taken[index];
        index += 1;
        let (at, length) = (start.cast_signed(), (end - start).cast_signed());
        if length == 0 {
            continue;
        }
        if call(libc::SYS_mmap, [at, length, RIGHTS, FIXED, -1, 0]) != at {
            end_process(1);
        }
        let mut done = 0;
        while done < length {
            let place = at + done;
            let arguments = [plan.memory.into(), place, length - done, place, 0, 0];
            let count = call(libc::SYS_pread64, arguments);
            if count <= 0 {
                end_process(2);
            }
            done += count;
        }
    }
    index = 0;
    while index < RANGES {
        let Range { start, end } = plan.dropped[index];
        index += 1;
        if end > start {
            call(
                libc::SYS_munmap,
                [start.cast_signed(), (end - start).cast_signed(), 0, 0, 0, 0],
            );
        }
    }
    // From here on it has the statics of the dead process.
    PLAN.store(ptr::from_ref(plan).expose_provenance());
    let has_filters = has_filters();
    index = 1;
    while index < plan.slots {
        let slot = slot_of(plan, index);
        // Without a filter, one that was in a fork would make a process.
        // SAFETY: `Completion::begin` has written the slot.
        if has_filters || unsafe { (*slot).is_in_call } {
            begin_thread(slot);
        }
        index += 1;
    }
    // SAFETY: `Completion::begin` has written the slot.
    unsafe { resume(slot_of(plan, 0)) }
}

/// Returns true if the host has filters of calls.
fn has_filters() -> bool {
    let action = libc::SECCOMP_RET_ERRNO;
    let ask = i64::from(libc::SECCOMP_GET_ACTION_AVAIL);
    call(
        libc::SYS_seccomp,
        [ask, 0, address(&raw const action), 0, 0, 0],
    ) == 0
}

/// Has all calls of this thread fail that would make a thread or a process.
fn forbid_making() {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const NUMBER: u32 = offset_of!(libc::seccomp_data, nr) as u32;
    const FAIL: u32 = libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32;
    /// The C library goes on to `clone` then.
    const MISSING: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    const fn step(code: u16, jt: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code, jt, jf: 0, k }
    }
    let filter = [
        step(LOAD, 0, NUMBER),
        step(IF_EQUAL, 4, libc::SYS_fork as u32),
        step(IF_EQUAL, 3, libc::SYS_vfork as u32),
        step(IF_EQUAL, 2, libc::SYS_clone as u32),
        step(IF_EQUAL, 2, libc::SYS_clone3 as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, FAIL),
        step(RETURN, 0, MISSING),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: (&raw const filter).cast_mut().cast(),
    };
    let plain = i64::from(libc::PR_SET_NO_NEW_PRIVS);
    call(libc::SYS_prctl, [plain, 1, 0, 0, 0, 0]);
    let mode = i64::from(libc::SECCOMP_SET_MODE_FILTER);
    call(
        libc::SYS_seccomp,
        [mode, 0, address(&raw const program), 0, 0, 0],
    );
}

/// Starts a thread that continues from a slot.
fn begin_thread(slot: *mut Slot) {
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    let stack = slot.cast::<u8>().wrapping_add(SLOT);
    let result: i64;
    // SAFETY: the thread begins on a stack in its slot, which nothing else uses.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov rdi, r12",
            "call {resume}",
            "ud2",
            "2:",
            resume = sym resume,
            inlateout("rax") libc::SYS_clone => result,
            in("rdi") i64::from(flags),
            in("rsi") stack,
            in("rdx") 0_u64,
            in("r10") 0_u64,
            in("r8") 0_u64,
            in("r12") slot,
            out("rcx") _, out("r11") _,
        );
    }
    if result < 0 {
        end_process(3);
    }
}

/// Continues from a slot.
///
/// # Safety
/// The slot was written, and no other thread continues from it. The memory is that of the dead
/// process.
unsafe extern "C" fn resume(slot: *mut Slot) -> ! {
    // SAFETY: as the caller promises.
    let Slot {
        fs,
        gs,
        plan,
        id: own,
        ..
    } = unsafe { &*slot };
    own.store(call(libc::SYS_gettid, [0; 6]) as i32);
    forbid_making();
    // SAFETY: as the caller promises.
    let Plan {
        threads: Threads { id_at, killed, .. },
        cpu_at,
        ..
    } = unsafe { &**plan };
    let (id_at, killed, cpu_at) = (*id_at, *killed, *cpu_at);
    if cpu_at != 0 {
        // This thread has no rseq area: no sequence, and no lookup of the CPU, may believe it.
        let cpu =
            ptr::with_exposed_provenance_mut::<i32>((*fs as usize).wrapping_add_signed(cpu_at));
        // SAFETY: the area is in the memory of the dead thread.
        unsafe { cpu.write_volatile(-1) };
    }
    // SAFETY: both lead to the memory of the dead thread.
    unsafe {
        asm!("wrfsbase {}", in(reg) *fs, options(nostack));
        asm!("wrgsbase {}", in(reg) *gs, options(nostack));
    }
    if *gs != 0 {
        let thread = call(libc::SYS_gettid, [0; 6]);
        let process = call(libc::SYS_getpid, [0; 6]);
        let id = ptr::with_exposed_provenance_mut::<i32>(*gs as usize + id_at);
        // SAFETY: the id of the thread, in what the runner has for it.
        unsafe { id.write_volatile(thread as i32) };
        let (signal, code) = killed;
        let mut info = [0_i32; 32];
        (info[0], info[2]) = (signal, code);
        let info = address(&raw const info);
        call(
            libc::SYS_rt_tgsigqueueinfo,
            [process, thread, signal.into(), info, 0, 0],
        );
    }
    // SAFETY: the context is complete, and the thread has no other use of its stack.
    unsafe {
        asm!(
            "mov rsp, {context}",
            "mov eax, 15",
            "syscall",
            "ud2",
            context = in(reg) &raw const (*slot).context,
            options(noreturn),
        );
    }
}

/// The handler of bad addresses. An address in no page of the dead process is left to the runner's
/// handler.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn fault() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "call {on_fault}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2: ret",
        on_fault = sym on_fault,
    );
}

/// Brings in the page at a bad address. Returns the handler for it if there is none, or 0.
///
/// # Safety
/// The arguments are those of a handler, which runs on the stack for signals in a slot.
unsafe extern "C" fn on_fault(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) -> usize {
    /// Bits of a page fault's error code: the page is there; the access was to execute it.
    const IS_THERE: u64 = 1;
    const EXECUTES: u64 = 1 << 4;
    const ERROR: usize = 19;
    // SAFETY: the host's context.
    let error = unsafe { (*context.cast::<Context>()).registers[ERROR] };
    let slot = context.map_addr(|at| at & !(SLOT - 1)).cast::<Slot>();
    // A thread that was killed in a handler of the runner has the stack of that again, when it has
    // returned from it.
    // SAFETY: a word of memory of this thread's stack, of any value. If there is none, the host
    // ends the process, because this signal is blocked here.
    if unsafe { (*slot).id.load() } != call(libc::SYS_gettid, [0; 6]) as i32 {
        end_process(4);
    }
    if error & EXECUTES != 0 {
        // The way back to the program, which has its own base.
        // SAFETY: the context is in the slot, and the base leads to the thread's own memory.
        unsafe { asm!("wrfsbase {}", in(reg) (*slot).fs, options(nostack)) };
        end_thread();
    }
    // SAFETY: the context is in the slot.
    let plan = unsafe { &*(*slot).plan };
    let handler = (plan.threads.handler as *const ()).addr();
    // SAFETY: the host's information.
    let page = unsafe { (*info).si_addr() }.addr() as u64 & !(PAGE - 1);
    if error & IS_THERE != 0 {
        return handler;
    }
    while plan.lock.compare_exchange(0, 1).is_err() {
        call(libc::SYS_sched_yield, [0; 6]);
    }
    let is_here = bring_in(plan.memory, page.cast_signed());
    plan.lock.store(0);
    if is_here { 0 } else { handler }
}

/// Brings in a page of the dead process. Returns true if it is there.
fn bring_in(memory: RawFd, page: i64) -> bool {
    const LENGTH: i64 = PAGE as i64;
    let mut is_mapped = 0_u8;
    if call(
        libc::SYS_mincore,
        [page, LENGTH, address(&raw mut is_mapped), 0, 0, 0],
    ) == 0
    {
        // Another thread was first.
        return true;
    }
    let rights = i64::from(libc::PROT_READ | libc::PROT_WRITE);
    let flags = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let copy = call(libc::SYS_mmap, [0, LENGTH, rights, flags, -1, 0]);
    if (-4095..0).contains(&copy) {
        return false;
    }
    if call(libc::SYS_pread64, [memory.into(), copy, LENGTH, page, 0, 0]) != LENGTH {
        call(libc::SYS_munmap, [copy, LENGTH, 0, 0, 0, 0]);
        return false;
    }
    // At once: another thread may access it from here on.
    let flags = i64::from(libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
    call(libc::SYS_mremap, [copy, LENGTH, LENGTH, flags, page, 0]) == page
}
