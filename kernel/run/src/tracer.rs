//! A tracer that shares memory with the program: the leak check of the sanitizers.
//!
//! At the end of a program, or when it asks, the check starts the tracer by `clone`. The tracer
//! stops all threads of the program by `ptrace`, reads their registers, searches the memory for
//! pointers, and leaves its results in the memory. It may stop a thread that holds a lock of the
//! runner, so its own calls may take none.
//!
//! So the host makes the calls of the tracer unchanged, if they are [`PASSED`]: its descriptors are
//! those of the host, and it closes them itself. The tracer has a block of its own, by which its
//! calls lead here. While it runs, no site is rewritten.
//!
//! A thread in a call has the runner's registers on the host. The tracer gets those of the guest,
//! so that it finds the end of the guest's stack.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};

use fdtable_posix::runner;

use crate::abi::{on_host, process_id};
use crate::block::{Block, Request};
use crate::entry::*;
use crate::frame::Frame;
use crate::guarded::Guarded;
use crate::memory::pointer;
use crate::patch::{self, TRACER};
use crate::{exit, signals, thread};

/// The flags of `clone` for a tracer.
pub(crate) const FLAGS: u64 =
    (libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_UNTRACED) as u64;

/// The calls that the host makes for the tracer. All others fail with `ENOSYS`.
const PASSED: [i64; 29] = [
    libc::SYS_ptrace,
    libc::SYS_wait4,
    libc::SYS_kill,
    libc::SYS_tgkill,
    libc::SYS_prctl,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_sched_yield,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_pipe,
    libc::SYS_pipe2,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_getdents,
    libc::SYS_getdents64,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// State of the runner for a tracer.
struct Tracer {
    block: Box<Block>,
    /// The registers with which it begins.
    frame: Frame,
    /// The stack for its calls.
    stack: Vec<u128>,
    /// The threads of the guest when it began.
    threads: Vec<(i32, *const Block)>,
}

/// The last tracer. It is freed when another one begins.
static LAST: AtomicPtr<Tracer> = AtomicPtr::new(ptr::null_mut());
/// Held while a tracer begins.
static BEGINS: Guarded<()> = Guarded::new(());

/// The size of the stack, in words of 16 bytes.
const STACK: usize = 4096;

/// True if this process has asked for its parent as the tracer, and the host has refused that.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Forgets the tracer of the parent, in the child of a fork.
pub(crate) fn forget() {
    TRACER.store(0, SeqCst);
    IS_REFUSED.store(false, SeqCst);
}

/// Serves `ptrace(2)`. The supervisor traces the processes of a tree, so the host refuses others.
pub(crate) fn trace(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let result = on_host(r.number, *a);
    if a[0] == libc::PTRACE_TRACEME.into() && result < 0 {
        IS_REFUSED.store(true, SeqCst);
    }
    result
}

/// Sends a signal: `kill(2)` or `tgkill(2)`. Ends a process that stops to wait for the tracer that
/// it was refused: debuggers wait for that stop, which only a tracer sees.
pub(crate) fn send(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    let signal = if r.number == libc::SYS_kill {
        a[1]
    } else {
        a[2]
    };
    let is_stop = signal == libc::SIGSTOP.into() && a[0] == process_id().into();
    if is_stop && IS_REFUSED.load(SeqCst) {
        eprintln!("fdtable: a debugger cannot trace this process: the supervisor traces it");
        return exit::end_process(125);
    }
    signals::send(r, a)
}

/// Starts the process: `clone(2)` with [`FLAGS`].
///
/// # Errors
/// `EAGAIN` if there is one already; those of the host's call.
pub(crate) fn begin(parent: &Block, frame: &Frame, flags: u64, stack: u64) -> i64 {
    let _begins = BEGINS.lock();
    if patch::has_tracer() {
        return -i64::from(libc::EAGAIN);
    }
    TRACER.store(1, SeqCst);
    // A process has one tracer.
    runner::release_from_supervisor();
    let block = Block::beside(parent, serve);
    let mut frame = frame.clone();
    (frame.rax, frame.rsp) = (0, stack);
    // From here on no site is rewritten.
    frame.rip = patch::return_to(&block, frame.rip);
    let tracer = Box::into_raw(Box::new(Tracer {
        block,
        frame,
        stack: vec![0; STACK],
        threads: thread::all(),
    }));
    let before = LAST.swap(tracer, SeqCst);
    if !before.is_null() {
        // SAFETY: made by `Box::into_raw` here, and its process has ended.
        drop(unsafe { Box::from_raw(before) });
    }
    // SAFETY: made above. Only the process uses it from here on, until the next one begins.
    let tracer = unsafe { &mut *tracer };
    let (top, ended) = (tracer.stack.as_mut_ptr_range().end.cast(), TRACER.as_ptr());
    let (block, frame) = (
        ptr::from_ref(&*tracer.block).cast(),
        &raw const tracer.frame,
    );
    let flags = flags | libc::CLONE_CHILD_CLEARTID as u64;
    // SAFETY: the stack, the block and the registers stay until the process has ended.
    let id = unsafe { fdtable_run_clone(flags, top, ended, block, frame) };
    if id < 0 {
        TRACER.store(0, SeqCst);
    }
    id
}

/// Serves a call of the tracer. The tracer uses the thread-local memory of its parent, so this
/// takes no lock, and has no `errno`.
extern "C" fn serve(frame: &mut Frame) {
    let number = i64::from(frame.rax as i32);
    let a = frame.arguments();
    Block::current().trapped_at.set(0);
    let mut result = -i64::from(libc::ENOSYS);
    if PASSED.contains(&number) {
        // SAFETY: the guest's own call, with what it passed.
        result = unsafe { fdtable_run_host_prompt(number, &raw const a) };
    }
    if number == libc::SYS_ptrace && result == 0 {
        show_guest(a);
    }
    frame.rax = result.cast_unsigned();
}

/// Replaces the registers of a thread that the tracer has read by those of the guest.
fn show_guest(a: [i64; 6]) {
    const NT_PRSTATUS: i64 = 1;
    let [request, id, kind, data] = [a[0], a[1], a[2], a[3]];
    let at = if request == i64::from(libc::PTRACE_GETREGS) {
        data.cast_unsigned()
    } else if request == i64::from(libc::PTRACE_GETREGSET) && kind == NT_PRSTATUS {
        // SAFETY: the host has stored the registers where this leads.
        unsafe { *pointer::<u64>(data.cast_unsigned()) }
    } else {
        return;
    };
    // SAFETY: it was made before the process began, and stays until it has ended.
    let Some(tracer) = (unsafe { LAST.load(SeqCst).as_ref() }) else {
        return;
    };
    let known = tracer.threads.iter().find(|known| i64::from(known.0) == id);
    let Some(&(_, block)) = known else {
        return;
    };
    // SAFETY: the host has stored the registers there.
    let registers = unsafe { &mut *pointer::<libc::user_regs_struct>(at) };
    // During the entry and the exit, some registers are the runner's and some the guest's.
    let is_between =
        (address(fdtable_run_begin)..address(fdtable_run_signal)).contains(&registers.rip);
    // SAFETY: the thread is stopped, so it has its block, or is at its very end: then this reads
    // memory that was freed, and the tracer finds no stack at the address.
    let (is_in_runner, stack) = unsafe { ((*block).is_in_runner(), (*block).stack) };
    if !is_in_runner || is_between {
        return;
    }
    // SAFETY: the entry has stored the registers on the top of the runner's stack.
    let frame = unsafe { &*pointer::<Frame>(stack - size_of::<Frame>() as u64) };
    *registers = libc::user_regs_struct {
        r15: frame.r15,
        r14: frame.r14,
        r13: frame.r13,
        r12: frame.r12,
        rbp: frame.rbp,
        rbx: frame.rbx,
        r10: frame.r10,
        r9: frame.r9,
        r8: frame.r8,
        rax: frame.rax,
        rdx: frame.rdx,
        rsi: frame.rsi,
        rdi: frame.rdi,
        rip: frame.rip,
        rsp: frame.rsp,
        eflags: frame.flags,
        ..*registers
    };
}
