//! Emulated signals: SIGSYS, SIGSTKFLT, SIGSEGV, SIGBUS and SIGTRAP of the guest.
//!
//! The host may never block these for a thread of the guest. The runner uses the first two itself,
//! the next two report a bad address in a call, and SIGTRAP a site that changes. So the runner
//! emulates the host's state of them: which of them a thread blocks, which it waits for, and which
//! are pending, for a thread or for the process. A fault of the guest is never pending: it ends the
//! program if the thread blocks its signal.
//!
//! A signal that the guest sends to itself goes into a [`Slot`] without the host. A signal from
//! another process arrives in the runner's handler, which puts it there. As on the host, a pending
//! signal absorbs later ones. A thread checks the slots in the handler and at the end of each call,
//! and delivers signals that it does not block. If it blocks a signal, it forwards it: it
//! interrupts a thread that does not block it, or that waits for it.
//!
//! A handler may take no lock and free no memory. So mailboxes form a list that only grows; a new
//! thread takes a free mailbox.
//!
//! All orderings are sequentially consistent. A sender fills the slot before it reads the masks and
//! the awaited sets of threads, and a thread changes these before it checks the slots. So at least
//! one of the two sees the store of the other, and no signal stays in a slot that a thread wants. A
//! thread that no longer wants a signal of the process, or exits, forwards it.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst};

pub(crate) use fdtable_posix::runner::bit;
use fdtable_posix::runner::set_of;

/// The emulated signals.
const SIGNALS: [i32; 5] = [
    libc::SIGSYS,
    libc::SIGSTKFLT,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGTRAP,
];
/// Their bits in a mask.
pub(crate) const EMULATED: u64 = set_of(&SIGNALS);

/// Information of the host about a signal: a `siginfo_t`.
pub(crate) type Info = [u64; 16];

/// A signal that is pending, or none.
struct Slot {
    state: AtomicU8,
    info: UnsafeCell<Info>,
}

// SAFETY: the thread that has set the state to `BUSY` alone accesses the information.
unsafe impl Sync for Slot {}

const EMPTY: u8 = 0;
const BUSY: u8 = 1;
const FULL: u8 = 2;

/// How many slots are full or busy.
static PENDING: AtomicUsize = AtomicUsize::new(0);

impl Slot {
    const fn new() -> Self {
        Self {
            state: AtomicU8::new(EMPTY),
            info: UnsafeCell::new([0; 16]),
        }
    }

    fn put(&self, info: &Info) {
        let claim = self.state.compare_exchange(EMPTY, BUSY, SeqCst, SeqCst);
        if claim.is_ok() {
            PENDING.fetch_add(1, SeqCst);
            // SAFETY: the state is `BUSY`, by this thread.
            unsafe { *self.info.get() = *info };
            self.state.store(FULL, SeqCst);
        }
    }

    fn take(&self) -> Option<Info> {
        let claim = self.state.compare_exchange(FULL, BUSY, SeqCst, SeqCst);
        claim.ok()?;
        // SAFETY: the state is `BUSY`, by this thread.
        let info = unsafe { *self.info.get() };
        self.state.store(EMPTY, SeqCst);
        PENDING.fetch_sub(1, SeqCst);
        Some(info)
    }

    fn is_full(&self) -> bool {
        self.state.load(SeqCst) == FULL
    }
}

/// Signals that are pending for the process.
static PROCESS: [Slot; SIGNALS.len()] = [const { Slot::new() }; SIGNALS.len()];

/// The part of a thread that other threads and handlers access.
pub(crate) struct Mailbox {
    /// The id of the thread; 0 if there is none.
    thread: AtomicI32,
    /// The signals that it blocks, and those that it waits for.
    blocked: AtomicU64,
    awaited: AtomicU64,
    pending: [Slot; SIGNALS.len()],
    next: AtomicPtr<Mailbox>,
}

static FIRST: AtomicPtr<Mailbox> = AtomicPtr::new(ptr::null_mut());

/// Returns all mailboxes.
fn all() -> impl Iterator<Item = &'static Mailbox> {
    // SAFETY: a mailbox is never freed.
    let get = |at: &AtomicPtr<Mailbox>| unsafe { at.load(SeqCst).as_ref() };
    std::iter::successors(get(&FIRST), move |mailbox| get(&mailbox.next))
}

/// Target of a signal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Process,
    Thread(i32),
}

/// Returns true if signals are pending, for some thread or the process.
#[inline]
pub(crate) fn are_some() -> bool {
    PENDING.load(SeqCst) != 0
}

impl Mailbox {
    /// Takes a mailbox for a thread, which blocks all emulated signals.
    pub(crate) fn new(thread: i32) -> &'static Self {
        let is_taken = |mailbox: &&Self| {
            let claim = mailbox.thread.compare_exchange(0, thread, SeqCst, SeqCst);
            claim.is_ok()
        };
        if let Some(free) = all().find(is_taken) {
            // A late sender may have filled a slot for the last thread.
            free.forget_pending();
            return free;
        }
        let new = Box::leak(Box::new(Self {
            thread: AtomicI32::new(thread),
            blocked: AtomicU64::new(EMULATED),
            awaited: AtomicU64::new(0),
            pending: [const { Slot::new() }; SIGNALS.len()],
            next: AtomicPtr::new(ptr::null_mut()),
        }));
        let mut first = FIRST.load(SeqCst);
        loop {
            new.next.store(first, SeqCst);
            match FIRST.compare_exchange(first, new, SeqCst, SeqCst) {
                Ok(_) => return new,
                Err(found) => first = found,
            }
        }
    }

    /// Ends the use by a thread, and discards the signals that are pending for it.
    pub(crate) fn end(&self) {
        self.awaited.store(0, SeqCst);
        self.block(EMULATED);
        self.forget_pending();
        self.thread.store(0, SeqCst);
    }

    /// Interrupts another thread for each signal that is pending for the process and that this
    /// thread does not want: a sender may have chosen this thread before.
    fn forward(&self) {
        if PENDING.load(SeqCst) == 0 {
            return;
        }
        for (slot, signal) in PROCESS.iter().zip(SIGNALS) {
            if slot.is_full() && !self.wants(signal) {
                let mut others = all().filter(|mailbox| mailbox.wants(signal));
                let other = others.find(|mailbox| mailbox.thread.load(SeqCst) != 0);
                if let Some(other) = other {
                    crate::interrupt::kick(other.thread.load(SeqCst));
                }
            }
        }
    }

    fn forget_pending(&self) {
        for slot in &self.pending {
            let _ = slot.take();
        }
    }

    /// Continues in the child of a fork, where the calling thread is the only one and no signal is
    /// pending.
    pub(crate) fn begin_child(&self, thread: i32) {
        for mailbox in all().filter(|mailbox| !ptr::eq(*mailbox, self)) {
            mailbox.thread.store(0, SeqCst);
            mailbox.blocked.store(EMULATED, SeqCst);
            mailbox.awaited.store(0, SeqCst);
        }
        let slots = all().flat_map(|mailbox| &mailbox.pending).chain(&PROCESS);
        // The others are not stored to: that would copy their pages for this process.
        let used = slots.filter(|slot| slot.state.load(SeqCst) != EMPTY);
        used.for_each(|slot| slot.state.store(EMPTY, SeqCst));
        PENDING.store(0, SeqCst);
        self.thread.store(thread, SeqCst);
    }

    /// Returns which of these signals the thread blocks.
    pub(crate) fn blocked(&self) -> u64 {
        self.blocked.load(SeqCst)
    }

    /// Sets which of these signals the thread blocks.
    pub(crate) fn block(&self, mask: u64) {
        self.blocked.store(mask & EMULATED, SeqCst);
        self.forward();
    }

    /// Sets which of these signals the thread waits for.
    pub(crate) fn await_signals(&self, set: u64) {
        self.awaited.store(set & EMULATED, SeqCst);
        self.forward();
    }

    fn wants(&self, signal: i32) -> bool {
        (!self.blocked() | self.awaited.load(SeqCst)) & bit(signal) != 0
    }

    /// Returns the signals that are pending for the thread or the process.
    pub(crate) fn pending(&self) -> u64 {
        if !are_some() {
            return 0;
        }
        let slots = self.pending.iter().zip(&PROCESS).zip(SIGNALS);
        let full = slots.filter(|((own, shared), _)| own.is_full() || shared.is_full());
        full.map(|(_, signal)| bit(signal)).sum()
    }

    /// Returns true if a signal is pending that the thread does not block.
    pub(crate) fn is_due(&self) -> bool {
        self.pending() & !self.blocked() != 0
    }

    /// Returns true if a signal is pending that ends a sleep of the thread.
    pub(crate) fn ends_sleep(&self) -> bool {
        self.pending() & (!self.blocked() | self.awaited.load(SeqCst)) != 0
    }

    /// Takes a pending signal of a set.
    pub(crate) fn take(&self, set: u64) -> Option<(i32, Info)> {
        let slots = self.pending.iter().zip(&PROCESS).zip(SIGNALS);
        let mut slots = slots.filter(|(_, signal)| set & bit(*signal) != 0);
        slots.find_map(|((own, shared), signal)| {
            let info = own.take().or_else(|| shared.take())?;
            Some((signal, info))
        })
    }
}

/// Makes a signal pending. Returns the thread to interrupt for it, if it is not `myself`, which
/// checks pending signals in any case. Returns `None` if the target does not exist.
pub(crate) fn post(
    target: Target,
    signal: i32,
    info: &Info,
    myself: &Mailbox,
) -> Option<Option<i32>> {
    let index = SIGNALS.iter().position(|&emulated| emulated == signal)?;
    let other = |mailbox: &Mailbox| {
        let thread = mailbox.thread.load(SeqCst);
        (thread != 0 && !ptr::eq(mailbox, myself)).then_some(thread)
    };
    match target {
        Target::Process => {
            PROCESS[index].put(info);
            if myself.wants(signal) {
                return Some(None);
            }
            let mut others = all().filter(|mailbox| mailbox.wants(signal));
            Some(others.find_map(other))
        }
        Target::Thread(thread) => {
            let mailbox = all().find(|mailbox| mailbox.thread.load(SeqCst) == thread)?;
            mailbox.pending[index].put(info);
            Some(other(mailbox))
        }
    }
}

/// Returns true if the target does not block a signal. As on the host, the leader decides for the
/// process.
pub(crate) fn unblocks(target: Target, signal: i32) -> bool {
    let thread = match target {
        // SAFETY: it takes nothing.
        Target::Process => unsafe { libc::getpid() },
        Target::Thread(thread) => thread,
    };
    let mailbox = all().find(|mailbox| mailbox.thread.load(SeqCst) == thread);
    mailbox.is_some_and(|mailbox| mailbox.blocked() & bit(signal) == 0)
}

/// Discards a pending signal, which is ignored from now on.
pub(crate) fn discard(signal: i32) {
    let Some(index) = SIGNALS.iter().position(|&emulated| emulated == signal) else {
        return;
    };
    let own = all().map(|mailbox| &mailbox.pending[index]);
    for slot in own.chain([&PROCESS[index]]) {
        let _ = slot.take();
    }
}
