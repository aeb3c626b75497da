//! The threads of the guest, and the host's settings for each.

use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::{io, ptr};

use fdtable_posix::runner;

use crate::abi::{host_now, thread_id};
use crate::block::{Block, NO_STACK};
use crate::entry::*;
use crate::frame::Frame;
use crate::guarded::Guarded;
use crate::interrupt;
use crate::pending::Mailbox;

/// The size of the runner's alternate signal stack of each thread, in bytes. The kernel's frame has
/// all vector registers, and the handler copies it.
const SIGNAL_STACK: usize = 64 << 10;

/// Operation of `prctl(2)` that has the host's kernel catch the system calls of a thread.
pub(crate) const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;

impl Block {
    /// Prepares the calling thread to run a guest.
    ///
    /// # Errors
    /// Errors of the host's calls.
    pub(crate) fn prepare(serve: extern "C" fn(&mut Frame)) -> io::Result<Box<Block>> {
        let fs: u64;
        // SAFETY: reads a register.
        unsafe {
            std::arch::asm!("rdfsbase {}", out(reg) fs, options(nostack, preserves_flags));
        }
        let id = thread_id();
        let mut block = Block::new(id, fs, Mailbox::new(id), serve);
        block.handler_stack = Box::new_uninit_slice(SIGNAL_STACK);
        set_gs(block.myself)?;
        let stack = block.handler_stack();
        // SAFETY: `end` disables the stack before it frees the block.
        done(unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) })?;
        block.intercept()?;
        THREADS.lock().push((id, BlockPointer(block.myself)));
        Ok(block)
    }

    /// Frees the block of the calling thread, which no longer runs a guest. The thread blocks all
    /// signals: their handler uses the block and its stack.
    pub(crate) fn end(block: Box<Block>) {
        THREADS
            .lock()
            .retain(|(_, known)| !ptr::eq(known.0, &raw const *block));
        block.mailbox.end();
        let off = NO_STACK;
        // SAFETY: the thread is on its ordinary stack.
        unsafe { libc::sigaltstack(&raw const off, ptr::null_mut()) };
        // The kernel reads the selector at each call.
        // SAFETY: turns interception off.
        unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0) };
        // The call does not fail with these arguments.
        let _ = set_gs(ptr::null_mut());
        drop(block);
    }

    /// Has the host's kernel catch the system calls of this thread while the selector says so.
    ///
    /// # Errors
    /// Errors of the host's call.
    pub(crate) fn intercept(&self) -> io::Result<()> {
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

/// Describes threads for the completion process, which completes the calls of a killed process.
pub(crate) fn layout() -> runner::Threads {
    runner::Threads {
        fs_at: offset_of!(Block, host_fs),
        id_at: offset_of!(Block, id),
        inside_at: offset_of!(Block, in_runner),
        handler: fdtable_run_signal,
        restorer: fdtable_run_restore,
        killed: interrupt::KILLED,
    }
}

/// How many threads of the guest there are, from before one has a block until it begins to end.
static COUNT: AtomicUsize = AtomicUsize::new(1);

/// Returns true if the guest has one thread, or its last one ends.
pub(crate) fn is_alone() -> bool {
    COUNT.load(SeqCst) <= 1
}

/// Counts a thread that is about to begin.
pub(crate) fn count() {
    COUNT.fetch_add(1, SeqCst);
}

/// Counts a thread no longer, as it ends. Returns true if it was the last one.
pub(crate) fn uncount() -> bool {
    COUNT.fetch_sub(1, SeqCst) == 1
}

/// The threads of the guest: their ids, and their blocks.
static THREADS: Guarded<Vec<(i32, BlockPointer)>> = Guarded::new(Vec::new());

/// The block of a thread. It is in the list for as long as it lives.
struct BlockPointer(*const Block);

// SAFETY: other threads read one byte of it.
unsafe impl Send for BlockPointer {}

/// How many threads have not answered the last [`interrupt_guests`] yet.
static UNANSWERED: AtomicUsize = AtomicUsize::new(0);

/// Interrupts the other threads that are in the guest. Returns when each has run the handler.
pub(crate) fn interrupt_guests() {
    let threads = THREADS.lock();
    let myself = thread_id();
    for (id, block) in threads.iter().filter(|(id, _)| *id != myself) {
        // SAFETY: the block is in the list, so it lives; its owner writes these bytes.
        let byte = |cell: *const Cell<u8>| unsafe { cell.cast::<u8>().read_volatile() } != 0;
        // SAFETY: as above.
        let (in_runner, returns, must_answer) = unsafe {
            (
                &raw const (*block.0).in_runner,
                &raw const (*block.0).returns,
                &(*block.0).must_answer,
            )
        };
        while byte(in_runner) && byte(returns) {
            std::thread::yield_now();
        }
        if !byte(in_runner) {
            UNANSWERED.fetch_add(1, SeqCst);
            must_answer.store(true, SeqCst);
            if !interrupt::kick(*id) && must_answer.swap(false, SeqCst) {
                UNANSWERED.fetch_sub(1, SeqCst);
            }
        }
    }
    while UNANSWERED.load(SeqCst) > 0 {
        std::thread::yield_now();
    }
}

/// Returns the ids of all threads of the guest, and their blocks.
pub(crate) fn all() -> Vec<(i32, *const Block)> {
    let threads = THREADS.lock();
    threads.iter().map(|(id, block)| (*id, block.0)).collect()
}

/// Returns true if the calling thread is the only one that has a block.
pub(crate) fn has_one_block() -> bool {
    THREADS.lock().len() == 1
}

/// Marks and interrupts all other threads, so that they exit. Returns their ids. The caller repeats
/// it until they are gone: a thread may begin, or not have been interrupted in time.
pub(crate) fn end_others() -> Vec<i32> {
    let threads = THREADS.lock();
    let myself = thread_id();
    let others = threads.iter().filter(|(id, _)| *id != myself);
    let ends = others.map(|(id, block)| {
        // SAFETY: the block is in the list, so it lives.
        unsafe { &(*block.0).exits }.store(true, SeqCst);
        interrupt::kick_to_exit(*id);
        *id
    });
    ends.collect()
}

impl Block {
    /// Answers [`interrupt_guests`], if it waits for this thread.
    pub(crate) fn answer(&self) {
        if self.must_answer.swap(false, SeqCst) {
            UNANSWERED.fetch_sub(1, SeqCst);
        }
    }
}

/// Forgets the other threads, in the child of a fork.
pub(crate) fn forget_others() {
    let block = Block::current();
    let myself = block as *const Block;
    let id = thread_id();
    block.id.set(id);
    // The signals were sent to the parent.
    block.taken.set(0);
    block.must_answer.store(false, SeqCst);
    block.cancel_exit();
    block.mailbox.begin_child(id);
    *THREADS.lock() = vec![(id, BlockPointer(myself))];
    COUNT.store(1, SeqCst);
}

/// Converts the result of a call of the host.
pub(crate) fn done(result: i32) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Checks that the process does not run under another runner, which uses `gs` too.
///
/// # Errors
/// `EPERM` if it does.
pub(crate) fn check_not_nested() -> Result<(), i32> {
    const ARCH_GET_GS: i64 = 0x1004;
    let mut gs = 0_u64;
    let at = (&raw mut gs).expose_provenance() as i64;
    match host_now(libc::SYS_arch_prctl, [ARCH_GET_GS, at, 0, 0, 0, 0]) {
        result if result < 0 => Err(-result as i32),
        _ => Ok(()),
    }
}

fn set_gs(block: *mut Block) -> io::Result<()> {
    const ARCH_SET_GS: i32 = 0x1001;
    // SAFETY: nothing else of this process uses the segment.
    done(unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, block) } as i32)
}
