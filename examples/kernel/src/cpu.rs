//! State of a CPU: its block, which the segment `gs` leads to.
//!
//! A thread may be moved to another CPU between any two instructions. So what is read or changed
//! of the block with one instruction is of one CPU, and no more than that is done with interrupts
//! on.

use alloc::boxed::Box;
use core::arch::asm;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;

use crate::threads::Thread;

/// The block of a CPU.
#[repr(C, align(64))]
pub struct Block {
    pub current: *const Thread,
    /// The library's word of the current thread. A switch exchanges it.
    word: *mut (),
    /// How often preemption is disabled.
    depth: usize,
    index: usize,
    /// The area for restartable sequences: the index of the CPU at 4, a pointer at 8.
    area: [u32; 8],
    /// The thread that ran before the current one, until its context is saved.
    pub previous: *const Thread,
    pub idle: *const Thread,
}

/// Where the area is, from the base of `gs`.
pub const AREA: isize = offset_of!(Block, area) as isize;

static COUNT: AtomicUsize = AtomicUsize::new(1);
static ONLINE: AtomicUsize = AtomicUsize::new(0);

/// Returns how many CPUs the machine has.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Sets how many CPUs the machine has, before anything asks.
pub fn set_count(count: usize) {
    COUNT.store(count, Ordering::Relaxed);
}

/// Returns how many CPUs run.
pub fn online() -> usize {
    ONLINE.load(Ordering::SeqCst)
}

/// Counts the calling CPU among those that run, while no CPU calls the others.
pub fn come_online() {
    ONLINE.fetch_add(1, Ordering::SeqCst);
}

/// Gives the calling CPU its block. Before anything else here, with interrupts off.
pub fn prepare(index: usize) {
    let mut area = [0; 8];
    area[1] = index as u32;
    let block = Box::leak(Box::new(Block {
        current: ptr::null(),
        word: ptr::null_mut(),
        depth: 0,
        index,
        area,
        previous: ptr::null(),
        idle: ptr::null(),
    }));
    GsBase::write(VirtAddr::from_ptr(block));
}

/// Returns the block of the calling CPU, for code with interrupts off.
pub fn block() -> *mut Block {
    GsBase::read().as_mut_ptr()
}

/// Reads a field of the block of the calling CPU.
macro_rules! read {
    ($field:ident) => {{
        let value;
        // SAFETY: `gs` leads to the block; the load has no side effect.
        unsafe {
            asm!("mov {}, gs:[{}]", out(reg) value, const offset_of!(Block, $field),
                options(nostack, preserves_flags, readonly));
        }
        value
    }};
}

/// Returns the index of the calling CPU.
#[inline(always)]
pub fn id() -> usize {
    read!(index)
}

/// Returns the current thread.
#[inline(always)]
pub fn current() -> *const Thread {
    read!(current)
}

/// Returns the library's word of the current thread.
#[inline(always)]
pub fn thread_word() -> *mut () {
    read!(word)
}

/// Returns true if the current thread may be preempted.
#[inline(always)]
pub fn is_preemptible() -> bool {
    let depth: usize = read!(depth);
    depth == 0
}

/// Sets the library's word of the current thread.
#[inline(always)]
pub fn set_thread_word(word: *mut ()) {
    // SAFETY: the block is the CPU's own, and only this code and a switch write the word.
    unsafe {
        asm!("mov gs:[{}], {}", const offset_of!(Block, word), in(reg) word,
            options(nostack, preserves_flags));
    }
}

/// Keeps the current thread on its CPU until preemption is enabled as often.
#[inline(always)]
pub fn disable_preemption() {
    // SAFETY: as in `set_thread_word`. One instruction: a thread that is moved before it changes
    // the count of its new CPU.
    unsafe {
        asm!("inc qword ptr gs:[{}]", const offset_of!(Block, depth), options(nostack));
    }
}

/// Undoes one `disable_preemption`.
#[inline(always)]
pub fn enable_preemption() {
    // SAFETY: as above.
    unsafe {
        asm!("dec qword ptr gs:[{}]", const offset_of!(Block, depth), options(nostack));
    }
}
