//! The queues of [callbacks](super::callbacks): one CPU has two, one for each [`Effect`].

use core::num::NonZeroUsize;
use core::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use super::grace::{GRACE, Ticket};
use super::reader::inside_read_lock;
use crate::announce;
use crate::percpu::PerCpu;
use crate::platform::atomic::AtomicPtr;
#[cfg(not(loom))]
use crate::platform::atomic::Ordering::Relaxed;
use crate::platform::{const_fn, shared};
use crate::prefetch::prefetch;
pub(super) use crate::spin::SpinLock;
use crate::unwind;

/// The weight of a list is checked whenever it passes a multiple of this.
pub(super) const LONE_BATCH: usize = if cfg!(loom) { 1 } else { 64 };

/// Effect of a callback, which decides the queue that the callback joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Runs code of others, such as `Drop` of an object. It runs outside of sections.
    RunsCode,
    /// Frees memory, and calls no code of others and none of [`rcu`](crate::rcu). It runs anywhere,
    /// also inside sections and inside of the call that queues it.
    FreesMemory,
}

/// The part of an object that waits for its grace period: a link and a function.
#[derive(Debug)]
#[repr(C)]
#[doc(alias = "rcu_head")]
pub struct Head {
    /// The next head of the list, or the owner's word while the head is on no list.
    link: AtomicPtr<Head>,
    invoke: unsafe fn(NonNull<Head>),
}

impl Head {
    const_fn! {
        /// Makes a head that will call `invoke` with its own address, on any thread.
        #[must_use]
        pub fn new(invoke: unsafe fn(NonNull<Head>)) -> Self {
            Self {
                link: AtomicPtr::new(ptr::null_mut()),
                invoke,
            }
        }
    }

    /// Returns a place where the owner of the head may keep a pointer, null at first, until it
    /// queues the head. The queue keeps its link there. So the owner takes the pointer out before
    /// [`call`](super::call), which demands that no other code touches the head, and it is lost
    /// afterwards.
    pub fn owner_word(&self) -> &AtomicPtr<Self> {
        &self.link
    }

    /// Returns the function, for an object that does not have to wait.
    pub fn invoke(&self) -> unsafe fn(NonNull<Self>) {
        self.invoke
    }
}

/// Returns the head behind this one. Relaxed: the lock of the queue orders all that is done with
/// its lists.
///
/// # Safety
/// The caller's list owns the head.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn next(head: NonNull<Head>) -> *mut Head {
    // SAFETY: as the caller promises.
    unsafe { head.as_ref() }.link.load(Relaxed)
}

/// Sets the head behind this one. Relaxed: as above.
///
/// # Safety
/// The caller's list owns the head.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn set_next(head: NonNull<Head>, next: *mut Head) {
    // SAFETY: as the caller promises.
    unsafe { head.as_ref() }.link.store(next, Relaxed);
}

/// Returns the head behind this one. Not atomic in a model: the checker reports an owner that
/// touches its word after `call`, and does not explore the steps of the queue.
///
/// # Safety
/// The caller's list owns the head.
#[cfg(loom)]
unsafe fn next(head: NonNull<Head>) -> *mut Head {
    let mut answer = ptr::null_mut();
    // SAFETY: as the caller promises; no other reference to the link is used meanwhile.
    let link = unsafe { &mut (*head.as_ptr()).link };
    link.with_mut(|next| answer = *next);
    answer
}

/// Sets the head behind this one. Not atomic in a model: as above.
///
/// # Safety
/// The caller's list owns the head.
#[cfg(loom)]
unsafe fn set_next(head: NonNull<Head>, new: *mut Head) {
    // SAFETY: as the caller promises; no other reference to the link is used meanwhile.
    let link = unsafe { &mut (*head.as_ptr()).link };
    link.with_mut(|next| *next = new);
}

/// A first-in first-out list of heads.
pub(super) struct List {
    first: *mut Head,
    last: *mut Head,
    /// The weight of the heads on it, and 0 if there are none. Which of them weighs more than 1 is
    /// not known: the excess is removed with the last one.
    pub(super) weight: usize,
}

// SAFETY: the heads in the list belong to it, and `call` demands that any thread may invoke
// them.
unsafe impl Send for List {}

impl List {
    const fn new() -> Self {
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
            weight: 0,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, head: NonNull<Head>, weight: usize) {
        // SAFETY: `call` gave the head to the queue, so no other thread touches its link.
        unsafe { set_next(head, ptr::null_mut()) };
        match NonNull::new(self.last) {
            None => self.first = head.as_ptr(),
            // SAFETY: the last head of this list, which the list owns until it is invoked, and
            // whose link no other thread touches.
            Some(last) => unsafe { set_next(last, head.as_ptr()) },
        }
        self.last = head.as_ptr();
        self.weight += weight;
    }

    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// Appends another list.
    fn append(&mut self, other: Self) {
        match NonNull::new(self.last) {
            None => *self = other,
            Some(last) if !other.first.is_null() => {
                // SAFETY: as in `push`.
                unsafe { set_next(last, other.first) };
                self.last = other.last;
                self.weight += other.weight;
            }
            Some(_) => {}
        }
    }

    /// Takes the first head off the list.
    fn pop(&mut self) -> Option<NonNull<Head>> {
        let head = NonNull::new(self.first)?;
        // SAFETY: the list owns its heads, and no other thread touches their links.
        self.first = unsafe { next(head) };
        if self.first.is_null() {
            *self = Self::new();
        } else {
            // The next head is read after this one is invoked.
            prefetch(self.first);
            self.weight -= 1;
        }
        Some(head)
    }

    /// Invokes at most `max` heads, from the first one on. Only once the grace period of the list
    /// is over.
    pub(super) fn invoke(&mut self, max: usize) {
        for head in core::iter::from_fn(|| self.pop()).take(max) {
            // SAFETY: the list owns the head until here, and no thread has invoked it yet.
            let invoke = unsafe { head.as_ref() }.invoke;
            // The panic is contained: the thread that runs the callback has nothing to do with it.
            unwind::contain(|| {
                // SAFETY: `call` was promised that its function may be called with this head
                // once a grace period has passed.
                unsafe { invoke(head) }
            });
        }
    }
}

/// A queue of one CPU.
pub(super) struct Queue {
    pub(super) gathering: List,
    pub(super) waiting: List,
    /// The grace period that `waiting` waits for.
    pub(super) ticket: Ticket,
    /// Callbacks whose grace period is over.
    pub(super) ready: List,
    /// The [name](announce::name) of the thread that invokes a list of this queue, if there is one.
    /// No other thread may, so that callbacks of a queue run in order and `barrier` can count them.
    pub(super) invoking: Option<NonZeroUsize>,
    /// The next thread that queues should look for what is due.
    pub(super) is_time: bool,
    /// Other readers were found since the list began to gather. This is checked once for each list,
    /// as the check reads all records that were ever made.
    pub(super) has_company: bool,
    /// The weight of all callbacks that were ever queued, and of those that have run.
    pub(super) queued: u64,
    pub(super) invoked: u64,
    /// Value of `queued` when [`note_due`] last looked: so much should have run by its next look.
    pub(super) due: u64,
}

// A queue shares its cache lines with no other, and a further pair of lines for each would show.
#[cfg(all(target_pointer_width = "64", not(loom)))]
const _: () = assert!(size_of::<SpinLock<Queue>>() <= 128);

impl Queue {
    const fn new() -> Self {
        Self {
            gathering: List::new(),
            waiting: List::new(),
            ticket: Ticket::NONE,
            ready: List::new(),
            invoking: None,
            is_time: false,
            has_company: false,
            queued: 0,
            invoked: 0,
            due: 0,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, head: NonNull<Head>, weight: usize) {
        let before = self.gathering.weight;
        self.queued += weight as u64;
        self.gathering.push(head, weight);
        self.is_time |= before / LONE_BATCH != self.gathering.weight / LONE_BATCH;
    }

    /// Returns true, once, if the caller should look for what is due. Inside a section it cannot
    /// run code of others, and leaves that to the next thread.
    #[inline]
    pub(super) fn take_time(&mut self, effect: Effect) -> bool {
        if !self.is_time || effect == Effect::RunsCode && inside_read_lock() {
            return false;
        }
        self.is_time = false;
        true
    }

    /// Seals the gathered callbacks for a grace period, if no other list of this queue waits.
    pub(super) fn seal(&mut self) {
        if self.waiting.weight == 0 && self.gathering.weight > 0 {
            self.waiting = self.gathering.take();
            self.ticket = GRACE.ticket();
            self.has_company = false;
        }
    }

    /// Takes the callbacks that can run, for the caller to invoke.
    pub(super) fn take_ready(&mut self) -> Option<List> {
        // weaken: two-invoke-a-queue
        if self.invoking.is_some() {
            return None;
        }
        // weaken: list-without-a-look-at-its-ticket
        if self.waiting.weight > 0 && GRACE.is_over(self.ticket) {
            self.ready.append(self.waiting.take());
        }
        if self.ready.weight == 0 {
            return None;
        }
        self.invoking = Some(invoker_name());
        Some(self.ready.take())
    }

    /// Takes back the callbacks of a list of this weight that the caller has not invoked.
    pub(super) fn end_invocation(&mut self, weight: usize, mut rest: List) {
        self.invoking = None;
        // weaken: chunk-that-counts-as-all
        self.invoked += (weight - rest.weight) as u64;
        rest.append(self.ready.take());
        self.ready = rest;
    }

    /// Returns the weight of the callbacks that no thread is invoking.
    pub(super) fn weight(&self) -> usize {
        self.gathering.weight + self.waiting.weight + self.ready.weight
    }
}

/// Names the calling thread as one that invokes. Without `std` all threads have the same name.
pub(super) fn invoker_name() -> NonZeroUsize {
    // Threads of two processes may have one name. All threads of a process end together.
    let name = match shared::process() {
        0 => announce::name(),
        process => process as usize,
    };
    NonZeroUsize::new(name).unwrap_or(NonZeroUsize::MIN)
}

/// The queues of one CPU, on cache lines of their own: one for each [`Effect`].
pub(super) struct Queues([CachePadded<SpinLock<Queue>>; 2]);

impl Queues {
    const fn new() -> Self {
        Self([const { CachePadded::new(SpinLock::new(Queue::new())) }; 2])
    }

    #[inline]
    pub(super) fn of(&self, effect: Effect) -> &SpinLock<Queue> {
        &self.0[effect as usize]
    }

    /// Iterates over both, the one that runs outside of sections first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &SpinLock<Queue>> + Clone {
        self.0.iter().map(|queue| &**queue)
    }
}

/// The queues of all CPUs. If there is no memory for them at first use, all CPUs share two queues:
/// a close must not fail for that.
#[cfg(not(loom))]
pub(super) mod queues {
    use super::{PerCpu, Queue, Queues, SpinLock};
    use crate::platform::global;

    global! {
        pub(super) static QUEUES: crate::fallible::OnceBox<PerCpu<Queues>> =
            crate::fallible::OnceBox::new();
    }
    global! {
        pub(super) static SHARED: Queues = Queues::new();
    }

    /// Returns the queues of the CPUs. Where there is no memory, the next call tries again.
    #[inline]
    fn per_cpu() -> Option<&'static PerCpu<Queues>> {
        let make = || PerCpu::try_new(|_cpu| Queues::new());
        QUEUES.get_or_try_init(make).ok()
    }

    #[inline]
    pub(in crate::rcu) fn this() -> &'static Queues {
        per_cpu().map_or(&SHARED, PerCpu::this)
    }

    pub(in crate::rcu) fn all() -> impl Iterator<Item = &'static SpinLock<Queue>> {
        // In front: those of the CPUs may be made while a barrier counts how many are done.
        core::iter::once(&SHARED)
            .chain(per_cpu().into_iter().flat_map(PerCpu::iter))
            .flat_map(Queues::iter)
    }
}
#[cfg(loom)]
pub(super) mod queues {
    use super::{PerCpu, Queue, Queues, SpinLock};
    loom::lazy_static! {
        static ref QUEUES: PerCpu<Queues> =
            PerCpu::try_new(|_cpu| Queues::new()).expect("models have memory");
    }

    pub(in crate::rcu) fn this() -> &'static Queues {
        QUEUES.this()
    }

    pub(in crate::rcu) fn all() -> impl Iterator<Item = &'static SpinLock<Queue>> {
        QUEUES.iter().flat_map(Queues::iter)
    }
}
