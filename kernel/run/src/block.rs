//! The block of a thread of the guest: its state in the runner, to which `gs` leads.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::frame::Frame;
use crate::pending::{Info, Mailbox};

/// State of the runner for a thread. The entry and the signal handler find it by `gs`.
#[repr(C)]
pub(crate) struct Block {
    pub(crate) myself: *mut Block,
    /// Serves the calls of the thread.
    pub(crate) serve: extern "C" fn(&mut Frame),
    /// The top of the runner's stack while the guest runs.
    pub(crate) stack: u64,
    /// The bases of `fs`: the runner's, and the guest's.
    pub(crate) host_fs: u64,
    pub(crate) guest_fs: Cell<u64>,
    pub(crate) guest_rsp: u64,
    /// Address at which the guest continues after the call.
    pub(crate) guest_rip: u64,
    /// Not 0 if the host's kernel intercepts system calls. The kernel reads it.
    pub(crate) selector: u8,
    /// 0 in the guest, 1 in a call, 2 on the exit to the guest.
    pub(crate) in_runner: Cell<u8>,
    /// The host's id of the thread.
    pub(crate) id: Cell<i32>,
    /// Not 0 if signals are deferred to the end of the call.
    pub(crate) deferred: Cell<u8>,
    /// The signal mask of the guest while signals are deferred.
    pub(crate) mask: Cell<u64>,
    /// Registers of the guest while the exit to the guest sets the mask: those in [`SAVED`].
    pub(crate) saved: [u64; 6],
    /// Not 0 if the thread returns to the site of a call that has trapped, or to the code that a
    /// handler has interrupted. It is set at the end of a call, until the next call begins.
    pub(crate) returns: Cell<u8>,
    /// The site at which the current call has trapped; 0 if it has not.
    pub(crate) trapped_at: Cell<u64>,
    /// The number of the call, to repeat it after a handler; negative if it is not repeated.
    pub(crate) repeats: Cell<i64>,
    /// Blocked and pending signals that the runner emulates.
    pub(crate) mailbox: &'static Mailbox,
    /// The guest's list of robust locks that the thread holds.
    pub(crate) robust_list: Cell<u64>,
    /// True while `thread::interrupt_guests` on another thread waits for this one.
    pub(crate) must_answer: AtomicBool,
    /// True if the thread exits at the end of its call. Other threads set it.
    pub(crate) exits: AtomicBool,
    /// Address of the guest's word that the runner clears at the end of the thread; 0 for none.
    pub(crate) clear_on_exit: Cell<u64>,
    /// The stack pointer with which the child of the current call continues; 0 for the same.
    pub(crate) child_stack: Cell<u64>,
    /// The alternate stack of the runner's signal handler. No page of it is touched before.
    pub(crate) handler_stack: Box<[MaybeUninit<u8>]>,
    /// The guest's alternate signal stack.
    pub(crate) signal_stack: Cell<libc::stack_t>,
    /// The mask to restore after the next handler, for a call that waits with another mask.
    pub(crate) suspended: Cell<Option<u64>>,
    /// Place of the guest's mask, for a signal that is deferred.
    pub(crate) mask_place: Cell<MaskPlace>,
    /// Signals that were sent to the thread again, and may have been for the process.
    pub(crate) taken: Cell<u64>,
    /// Address and stack pointer with which the last handler of the guest began, and its signal.
    pub(crate) delivered: Cell<Option<([u64; 2], Info)>>,
}

/// A call of the guest, as its handler gets it.
pub(crate) struct Request<'c> {
    pub(crate) block: &'static Block,
    pub(crate) frame: &'c mut Frame,
    pub(crate) number: i64,
}

/// Serves a call with these arguments, and returns its result.
pub(crate) type Handler = fn(&mut Request<'_>, &[i64; 6]) -> i64;
/// The number of a call, and its handler.
pub(crate) type Row = (i64, Handler);

/// Place of the guest's mask, during a call and while no signal is deferred.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaskPlace {
    /// The host has it.
    Host,
    /// A call is about to block all signals, and stores the mask in the block itself.
    Moving,
    /// [`Block::mask`] has it: a call is about to set it on the host, and to wait with it.
    Block,
}

/// The registers in [`Block::saved`].
pub(crate) const SAVED: [i32; 6] = [
    libc::REG_RAX,
    libc::REG_RDI,
    libc::REG_RSI,
    libc::REG_RDX,
    libc::REG_R10,
    libc::REG_R11,
];

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
            in_runner: Cell::new(1),
            id: Cell::new(id),
            deferred: Cell::new(0),
            mask: Cell::new(0),
            saved: [0; 6],
            returns: Cell::new(0),
            trapped_at: Cell::new(0),
            repeats: Cell::new(-1),
            mailbox,
            robust_list: Cell::new(0),
            must_answer: AtomicBool::new(false),
            exits: AtomicBool::new(false),
            clear_on_exit: Cell::new(0),
            child_stack: Cell::new(0),
            handler_stack: Box::default(),
            signal_stack: Cell::new(NO_STACK),
            suspended: Cell::new(None),
            mask_place: Cell::new(MaskPlace::Host),
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
    pub(crate) fn is_in_runner(&self) -> bool {
        self.in_runner.get() != 0
    }

    /// Begins the exit to the guest: from here on the call accesses no memory of the guest.
    pub(crate) fn begin_exit_to_guest(&self) {
        self.in_runner.set(2);
    }

    /// Returns true during the exit to the guest.
    pub(crate) fn is_exiting_to_guest(&self) -> bool {
        self.in_runner.get() == 2
    }

    /// Marks the thread as one in the guest, for a handler that finishes the exit to it.
    pub(crate) fn enter_guest(&self) {
        self.deferred.set(0);
        self.in_runner.set(0);
    }

    /// Returns true if signals are deferred to the end of the call.
    pub(crate) fn has_deferred(&self) -> bool {
        self.deferred.get() != 0
    }

    /// Defers signals: the entry sets this mask at the end of the call.
    pub(crate) fn defer(&self, mask: u64) {
        self.mask.set(mask);
        self.deferred.set(1);
    }

    /// Ends the deferral, as a call waits with a mask of its own.
    pub(crate) fn clear_deferred(&self) {
        self.deferred.set(0);
    }

    /// Returns the guest's mask while signals are deferred.
    pub(crate) fn mask(&self) -> u64 {
        self.mask.get()
    }

    /// Describes the alternate stack of the runner's signal handler.
    pub(crate) fn handler_stack(&self) -> libc::stack_t {
        libc::stack_t {
            ss_sp: self.handler_stack.as_ptr().cast_mut().cast(),
            ss_flags: 0,
            ss_size: self.handler_stack.len(),
        }
    }

    /// Disables the guest's alternate stack.
    pub(crate) fn disable_signal_stack(&self) {
        self.signal_stack.set(NO_STACK);
    }

    /// Returns true if the thread exits at the end of its call, because another thread executes a
    /// program or the process ends.
    pub(crate) fn must_exit(&self) -> bool {
        self.exits.load(SeqCst)
    }

    /// Has the thread exit at the end of its call.
    pub(crate) fn request_exit(&self) {
        self.exits.store(true, SeqCst);
    }

    /// Lets the thread continue, with a new program or in a child process.
    pub(crate) fn cancel_exit(&self) {
        self.exits.store(false, SeqCst);
    }
}
