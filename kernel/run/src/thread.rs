//! State of the runner for each thread of the guest: a block that `gs` leads to, a stack, and the
//! host's settings for interception.

use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::{io, ptr};

use fdtable_posix::runner;

use crate::entry::*;
use crate::guarded::Guarded;
use crate::observe;
use crate::pending::{Info, Mailbox};
use crate::signals;

/// The block of a thread. The entry and the signal handler find it by `gs`.
#[repr(C)]
pub(crate) struct Block {
    pub(crate) myself: *mut Block,
    /// Serves the calls of the thread.
    pub(crate) serve: extern "C" fn(&mut Frame),
    /// The top of the runner's stack while the guest runs.
    pub(crate) stack: u64,
    /// The bases of `fs` of the two sides.
    pub(crate) host_fs: u64,
    pub(crate) guest_fs: Cell<u64>,
    pub(crate) guest_rsp: u64,
    /// Address at which the guest continues after the call.
    pub(crate) guest_rip: u64,
    /// Read by the host's kernel: whether system calls are caught.
    pub(crate) selector: u8,
    /// Not 0 if the thread is in the runner: 1, and 2 from the end of the call on.
    pub(crate) inside: Cell<u8>,
    /// The host's number of the thread.
    pub(crate) id: Cell<i32>,
    /// Not 0 if signals wait for the end of the call.
    pub(crate) waiting: Cell<u8>,
    /// The signal mask of the guest while signals wait.
    pub(crate) mask: Cell<u64>,
    /// Registers of the guest while the mask is set on the way out.
    pub(crate) kept: Kept,
    /// Not 0 if the thread returns to the site of a call that has trapped, or to the code that a
    /// handler has interrupted. It is set on the way out, and stays until the next call begins.
    pub(crate) returns: Cell<u8>,
    /// The site at which the current call has trapped; 0 if it has not.
    pub(crate) trapped_at: Cell<u64>,
    /// The number of the call, to repeat it after a handler; negative if it is not repeated.
    pub(crate) repeats: Cell<i64>,
    /// The signals that the runner keeps for the guest.
    pub(crate) mailbox: &'static Mailbox,
    /// The guest's list of robust locks that the thread holds.
    pub(crate) robust_list: Cell<u64>,
    /// Set by other threads: an [`interrupt_guests`] waits for the thread; the thread ends.
    is_asked: AtomicBool,
    ends: AtomicBool,
    /// Address of the guest's word that the runner clears at the end of the thread; 0 for none.
    pub(crate) clear_on_exit: Cell<u64>,
    /// The stack pointer with which the child of the current call continues; 0 for the same.
    pub(crate) child_stack: Cell<u64>,
    /// The guest's alternate signal stack.
    pub(crate) signal_stack: Cell<libc::stack_t>,
    /// A mask to restore after the next handler, for `sigsuspend` and its relatives.
    pub(crate) suspended: Cell<Option<u64>>,
    /// Place of the guest's mask, for a signal that has to wait.
    pub(crate) mask_is: Cell<MaskIs>,
    /// Signals that were sent to the thread again, and may have been for the process.
    pub(crate) taken: Cell<u64>,
    /// Address and stack pointer with which the last handler of the guest began, and its signal.
    pub(crate) delivered: Cell<Option<([i64; 2], Info)>>,
}

/// Place of the guest's mask, inside of a call and while no signal waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaskIs {
    /// It is set on the host.
    Set,
    /// A call is about to block all signals. When it has done so, it keeps the mask itself.
    Taken,
    /// In [`Block::mask`]: a call is about to set it on the host, and to wait with it.
    Kept,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) rax: u64,
    pub(crate) rdi: u64,
    pub(crate) rsi: u64,
    pub(crate) rdx: u64,
    pub(crate) r10: u64,
    pub(crate) r11: u64,
}

/// The size of the runner's alternate signal stack of each thread, in bytes. The kernel's frame has
/// all vector registers, and the handler copies it.
const SIGNAL_STACK: usize = 64 << 10;

const NO_STACK: libc::stack_t = libc::stack_t {
    ss_sp: ptr::null_mut(),
    ss_flags: libc::SS_DISABLE,
    ss_size: 0,
};

impl Block {
    /// Returns the block of the calling thread.
    pub(crate) fn current() -> &'static Block {
        let block: *const Block;
        // SAFETY: `gs` leads to the block of each thread that runs a guest, which begins with its
        // address.
        unsafe {
            std::arch::asm!("mov {}, gs:[0]", out(reg) block, options(nostack, preserves_flags));
        }
        // SAFETY: the block lives as long as the thread, and what changes in it is in cells or
        // belongs to the entry.
        unsafe { &*block }
    }

    pub(crate) fn new(
        id: i32,
        host_fs: u64,
        mailbox: &'static Mailbox,
        serve: extern "C" fn(&mut Frame),
    ) -> Box<Block> {
        let mut block = Box::new(Block {
            myself: ptr::null_mut(),
            serve,
            stack: 0,
            host_fs,
            guest_fs: Cell::new(0),
            guest_rsp: 0,
            guest_rip: 0,
            selector: 0,
            inside: Cell::new(1),
            id: Cell::new(id),
            waiting: Cell::new(0),
            mask: Cell::new(0),
            kept: Kept::default(),
            returns: Cell::new(0),
            trapped_at: Cell::new(0),
            repeats: Cell::new(-1),
            mailbox,
            robust_list: Cell::new(0),
            is_asked: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            clear_on_exit: Cell::new(0),
            child_stack: Cell::new(0),
            signal_stack: Cell::new(NO_STACK),
            suspended: Cell::new(None),
            mask_is: Cell::new(MaskIs::Set),
            taken: Cell::new(0),
            delivered: Cell::new(None),
        });
        block.myself = &raw mut *block;
        block
    }

    /// Returns a block for a process that shares memory with a thread. No signal is for it.
    pub(crate) fn beside(parent: &Block, serve: extern "C" fn(&mut Frame)) -> Box<Block> {
        const NO_THREAD: i32 = 0;
        let block = Block::new(NO_THREAD, parent.host_fs, parent.mailbox, serve);
        block.guest_fs.set(parent.guest_fs.get());
        block
    }

    /// Prepares the calling thread to run a guest.
    ///
    /// # Errors
    /// Errors of the host's calls.
    pub(crate) fn prepare() -> io::Result<Box<Block>> {
        let fs: u64;
        // SAFETY: reads a register.
        unsafe {
            std::arch::asm!("rdfsbase {}", out(reg) fs, options(nostack, preserves_flags));
        }
        // SAFETY: it takes nothing.
        let id = unsafe { libc::gettid() };
        let block = Block::new(id, fs, Mailbox::new(id), observe::serves());
        set_gs(block.myself)?;
        set_signal_stack()?;
        block.intercept()?;
        THREADS.lock().push((id, Known(block.myself)));
        Ok(block)
    }

    /// Returns true if the thread is in the runner.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside.get() != 0
    }

    /// Notes that from here on nothing of the guest is accessed until the call has returned.
    pub(crate) fn begin_way_out(&self) {
        self.inside.set(2);
    }

    /// Returns true from [`begin_way_out`](Self::begin_way_out) on, until the thread has left.
    pub(crate) fn is_on_way_out(&self) -> bool {
        self.inside.get() == 2
    }

    /// Notes that the thread is in the guest, for a handler that finishes the way there.
    pub(crate) fn leave(&self) {
        self.waiting.set(0);
        self.inside.set(0);
    }

    /// Returns true if signals wait for the end of the call.
    pub(crate) fn waits(&self) -> bool {
        self.waiting.get() != 0
    }

    /// Has the entry set the guest's mask at the end of the call.
    pub(crate) fn hold(&self, mask: u64) {
        self.mask.set(mask);
        self.waiting.set(1);
    }

    /// Forgets the mask for the end of the call.
    pub(crate) fn release(&self) {
        self.waiting.set(0);
    }

    /// Returns the guest's mask, while signals wait.
    pub(crate) fn mask(&self) -> u64 {
        self.mask.get()
    }

    /// Forgets the guest's alternate stack.
    pub(crate) fn disable_signal_stack(&self) {
        self.signal_stack.set(NO_STACK);
    }

    /// Returns true if the thread has to end, because another one executes a program.
    pub(crate) fn is_to_end(&self) -> bool {
        self.ends.load(SeqCst)
    }

    /// Has the thread end at the end of its call.
    pub(crate) fn end_soon(&self) {
        self.ends.store(true, SeqCst);
    }

    /// Lets the thread continue with a new program.
    pub(crate) fn begin_again(&self) {
        self.ends.store(false, SeqCst);
    }

    /// Ends the use of a block by the calling thread, which runs no guest any more. It blocks all
    /// signals: their handler uses the block and its stack.
    pub(crate) fn end(block: Box<Block>) {
        THREADS
            .lock()
            .retain(|(_, known)| !ptr::eq(known.0, &raw const *block));
        block.mailbox.end();
        let off = NO_STACK;
        // SAFETY: the thread is on its ordinary stack.
        unsafe { libc::sigaltstack(&raw const off, ptr::null_mut()) };
        if let Some(stack) = STACK.take() {
            // SAFETY: leaked by `set_signal_stack`, and no longer the thread's.
            drop(unsafe { Box::from_raw(stack) });
        }
        // The kernel reads the selector at each call.
        const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
        // SAFETY: turns interception off.
        unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0) };
        // It does not fail with these arguments.
        let _ = set_gs(ptr::null_mut());
        drop(block);
    }

    /// Has the host's kernel catch the system calls of this thread while the selector says so.
    ///
    /// # Errors
    /// Errors of the host's call.
    pub(crate) fn intercept(&self) -> io::Result<()> {
        const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
        const PR_SYS_DISPATCH_ON: i32 = 1;
        let begin = address(fdtable_run_begin);
        let length = address(fdtable_run_end) - begin;
        // SAFETY: the selector lives as long as the thread.
        done(unsafe {
            libc::prctl(
                PR_SET_SYSCALL_USER_DISPATCH,
                PR_SYS_DISPATCH_ON,
                begin,
                length,
                &raw const self.selector,
            )
        })
    }
}

/// Returns what a process has to know that completes the calls of one that was killed.
pub(crate) fn layout() -> runner::Threads {
    runner::Threads {
        fs_at: offset_of!(Block, host_fs),
        id_at: offset_of!(Block, id),
        inside_at: offset_of!(Block, inside),
        handler: fdtable_run_signal,
        restorer: fdtable_run_restore,
        killed: signals::KILLED,
    }
}

/// The threads of the guest: their numbers, and their blocks.
static THREADS: Guarded<Vec<(i32, Known)>> = Guarded::new(Vec::new());

/// The block of a thread, which is in the list for as long as it lives.
struct Known(*const Block);

// SAFETY: other threads read one byte of it.
unsafe impl Send for Known {}

/// How many threads have not answered the last [`interrupt_guests`] yet.
static MISSING: AtomicUsize = AtomicUsize::new(0);

/// Interrupts the other threads that are in the guest, and returns when each has run the handler.
pub(crate) fn interrupt_guests() {
    let threads = THREADS.lock();
    // SAFETY: it takes nothing.
    let myself = unsafe { libc::gettid() };
    for (id, block) in threads.iter().filter(|(id, _)| *id != myself) {
        // SAFETY: the block is in the list, so it lives; its owner writes these bytes.
        let byte = |cell: *const Cell<u8>| unsafe { cell.cast::<u8>().read_volatile() } != 0;
        // SAFETY: as above.
        let (inside, returns, is_asked) = unsafe {
            (
                &raw const (*block.0).inside,
                &raw const (*block.0).returns,
                &(*block.0).is_asked,
            )
        };
        while byte(inside) && byte(returns) {
            std::thread::yield_now();
        }
        if !byte(inside) {
            MISSING.fetch_add(1, SeqCst);
            is_asked.store(true, SeqCst);
            if !signals::kick(*id) && is_asked.swap(false, SeqCst) {
                MISSING.fetch_sub(1, SeqCst);
            }
        }
    }
    while MISSING.load(SeqCst) > 0 {
        std::thread::yield_now();
    }
}

/// Returns the ids of all threads of the guest, and their blocks.
pub(crate) fn all() -> Vec<(i32, *const Block)> {
    let threads = THREADS.lock();
    threads.iter().map(|(id, block)| (*id, block.0)).collect()
}

/// Returns true if the calling thread is the only one that has a block.
pub(crate) fn is_alone() -> bool {
    THREADS.lock().len() == 1
}

/// Has all other threads end, but for the leader once it waits for a program. Returns their ids.
/// To be called until they are gone: a thread may begin, or not have been interrupted in time.
pub(crate) fn end_others() -> Vec<i32> {
    let threads = THREADS.lock();
    // SAFETY: it takes nothing.
    let myself = unsafe { libc::gettid() };
    let others = threads.iter().filter(|(id, _)| *id != myself);
    let ends = others.map(|(id, block)| {
        // SAFETY: the block is in the list, so it lives.
        unsafe { &(*block.0).ends }.store(true, SeqCst);
        signals::kick_to_end(*id);
        *id
    });
    ends.collect()
}

impl Block {
    /// Answers [`interrupt_guests`], if it waits for this thread. Returns true if it does.
    pub(crate) fn answer(&self) -> bool {
        let is_asked = self.is_asked.swap(false, SeqCst);
        if is_asked {
            MISSING.fetch_sub(1, SeqCst);
        }
        is_asked
    }
}

/// Forgets the other threads, in the child of a fork.
pub(crate) fn forget_others() {
    let block = Block::current();
    let myself = block as *const Block;
    // SAFETY: it takes nothing.
    let id = unsafe { libc::gettid() };
    block.id.set(id);
    // They were sent to the parent.
    block.taken.set(0);
    block.is_asked.store(false, SeqCst);
    block.begin_again();
    block.mailbox.begin_child(id);
    *THREADS.lock() = vec![(id, Known(myself))];
}

/// Converts the result of a call of the host.
pub(crate) fn done(result: i32) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn set_gs(block: *mut Block) -> io::Result<()> {
    const ARCH_SET_GS: i32 = 0x1001;
    // SAFETY: nothing else of this process uses the segment.
    done(unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, block) } as i32)
}

std::thread_local! {
    static STACK: Cell<Option<&'static mut [u8]>> = const { Cell::new(None) };
}

/// Returns the alternate stack of the runner's signal handler on the calling thread.
pub(crate) fn signal_stack() -> libc::stack_t {
    let stack = STACK.take();
    let described = match &stack {
        None => NO_STACK,
        Some(memory) => libc::stack_t {
            ss_sp: memory.as_ptr().cast_mut().cast(),
            ss_flags: 0,
            ss_size: memory.len(),
        },
    };
    STACK.set(stack);
    described
}

/// Gives the calling thread an alternate stack for the runner's signal handler.
fn set_signal_stack() -> io::Result<()> {
    STACK.set(Some(vec![0_u8; SIGNAL_STACK].leak()));
    let stack = signal_stack();
    // SAFETY: the memory is there for good.
    done(unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) })
}
