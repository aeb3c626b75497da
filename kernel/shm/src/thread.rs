//! State of a thread: its id, the side that it is on, and whether it is in a call.
//!
//! A thread that enters also reads here if there is shared memory.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// State of a thread. Another process finds it at [`words_of_thread`].
#[repr(C)]
struct Words {
    state: Cell<usize>,
    id: Cell<u32>,
    /// The name of the child that it forks next, or 0.
    child: Cell<u32>,
}

thread_local! {
    // Without a destructor, so it can be read wherever memory is allocated.
    static WORDS: Words = const {
        Words { state: Cell::new(0), id: Cell::new(0), child: Cell::new(0) }
    };
}

/// True once [`begin`](crate::begin) was called.
static IS_SHARED: AtomicBool = AtomicBool::new(false);

/// Returns true if there is shared memory. From then on, forks of this process share it.
#[inline]
pub fn is_shared() -> bool {
    // Relaxed: it is written while there is one thread, and the others see what was written before
    // their start.
    IS_SHARED.load(Relaxed)
}

/// Says that there is shared memory. Called once, while there is one thread.
pub(crate) fn set_shared() {
    // Relaxed: there is one thread.
    IS_SHARED.store(true, Relaxed);
}

/// The lowest bit of a state: the thread allocates shared memory. The bits above count the calls
/// that it is in, one in another.
const SHARED: usize = 1;
const CALL: usize = 2;

/// The side on which a thread is, until this is dropped. Then it is where it was before.
#[derive(Debug)]
#[must_use = "the thread goes back when this is dropped"]
pub struct Side {
    before: usize,
    /// Not `Send`: stays on its thread.
    stays: PhantomData<*const ()>,
}

/// Begins a call of the kernel: has the calling thread allocate shared memory, if there is some.
/// Nests. Callable anywhere.
#[inline]
pub fn enter() -> Side {
    Side {
        before: enter_call(),
        stays: PhantomData,
    }
}

/// As [`enter`], without a guard. Returns the state to restore.
#[inline]
pub(crate) fn enter_call() -> usize {
    let before = state();
    restore((before + CALL) | usize::from(is_shared()));
    before
}

/// Has the calling thread allocate private memory, inside of a call or outside. Nests. Callable
/// anywhere.
#[inline]
pub fn leave() -> Side {
    let before = state();
    restore(before & !SHARED);
    Side {
        before,
        stays: PhantomData,
    }
}

#[inline]
fn state() -> usize {
    WORDS.with(|words| words.state.get())
}

#[inline]
pub(crate) fn restore(state: usize) {
    WORDS.with(|words| words.state.set(state));
}

/// Function that a thread calls after its last call.
static AFTER_LAST: OnceLock<fn()> = OnceLock::new();

/// Sets what threads call after their last calls, outside of them, where there is shared memory. A
/// thread that completes the calls of another one hears of its end by it. The first one stays.
pub fn after_last_calls(act: fn()) {
    let _ = AFTER_LAST.set(act);
}

/// Tells that the calling thread has made its last call.
pub(crate) fn after_last_call() {
    if let Some(act) = AFTER_LAST.get() {
        act();
    }
}

impl Drop for Side {
    #[inline]
    fn drop(&mut self) {
        restore(self.before);
    }
}

/// Returns true if the calling thread allocates shared memory.
#[inline]
pub(crate) fn is_inside() -> bool {
    state() & SHARED != 0
}

/// Returns true from [`enter`] until what it returned is dropped, on the calling thread.
#[inline]
#[must_use]
pub fn is_in_call() -> bool {
    state() >= CALL
}

/// Note of a thread of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// True if it is in a call.
    pub is_in_call: bool,
    /// The [name](name_child) of the child that it forks, or 0.
    pub child: u32,
}

impl Noted {
    /// Reads a copy of the two words at [`words_of_thread`] of a thread.
    #[must_use]
    pub fn of(words: [u64; 2]) -> Self {
        Self {
            is_in_call: words[0] >= CALL as u64,
            child: (words[1] >> 32) as u32,
        }
    }
}

/// Returns the address of two words of the calling thread, for a process that looks into the memory
/// of this one: see [`Noted::of`]. They are as far from the thread pointer in all threads.
#[must_use]
pub fn words_of_thread() -> *const [u64; 2] {
    WORDS.with(|words| ptr::from_ref(words).cast())
}

/// Returns the id of the calling thread, which its locks have: `gettid(2)`, or the id of the thread
/// for which it stands in.
#[inline]
pub(crate) fn id() -> u32 {
    match WORDS.with(|words| words.id.get()) {
        0 => first_id(),
        id => id,
    }
}

#[cold]
fn first_id() -> u32 {
    // SAFETY: it takes nothing.
    let id = unsafe { libc::gettid() }.cast_unsigned();
    WORDS.with(|words| words.id.set(id));
    id
}

/// The name of this process.
static PROCESS: AtomicU32 = AtomicU32::new(FIRST);

/// The name of the first process.
pub const FIRST: u32 = 1;

/// Returns the name of this process, not 0: no other one of the tree ever has it, while process ids
/// are used again.
#[must_use]
pub fn process() -> u32 {
    // Relaxed: it is written while there is one thread.
    PROCESS.load(Relaxed)
}

/// Gives a name to the child that the calling thread forks next, or none with 0.
pub fn name_child(name: u32) {
    WORDS.with(|words| words.child.set(name));
}

/// Forgets the id of the calling thread, and takes the name of a child. The child of a fork calls
/// it before it takes a lock: it has the memory of its parent's thread, and an id of its own.
pub fn forget_thread() {
    let name = WORDS.with(|words| {
        words.id.set(0);
        words.child.replace(0)
    });
    if name != 0 {
        // Relaxed: as above.
        PROCESS.store(name, Relaxed);
    }
}

/// Returns true if the thread has died. A thread that takes its id later is taken for it. Reads a
/// file of the host.
#[must_use]
pub fn has_died(id: u32) -> bool {
    // SAFETY: it takes integers.
    if unsafe { libc::kill(id.cast_signed(), 0) } == 0 {
        return is_zombie(id);
    }
    // Where it may not be signalled, it is there.
    std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Returns true if the thread has ended, and its parent has not waited for it yet.
fn is_zombie(id: u32) -> bool {
    // The lock of the shared heap may be the one that is waited for.
    let _private = leave();
    let path = format!("/proc/{id}/stat");
    // The state follows the name, which may have spaces and parentheses. A thread
    // whose file cannot be read is taken to live.
    std::fs::read_to_string(path).is_ok_and(|text| {
        text.rsplit_once(')')
            .is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
    })
}
