//! State of the runner for a thread of the guest, to which `gs` leads.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::frame::Frame;
use crate::pending::{Info, Mailbox};

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
    pub(crate) is_asked: AtomicBool,
    pub(crate) ends: AtomicBool,
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
    pub(crate) delivered: Cell<Option<([u64; 2], Info)>>,
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
pub(crate) const NO_STACK: libc::stack_t = libc::stack_t {
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
}
