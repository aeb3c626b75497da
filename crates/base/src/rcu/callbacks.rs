//! Callbacks: what is to be done after a grace period, without waiting for it.
//!
//! Every processor has a queue of three lists. New callbacks join `gathering`. When it is long
//! enough, and `waiting` is empty, it becomes `waiting` and takes a ticket for a grace period. When
//! that is over, it joins `ready`. So one heavy fence serves a batch of callbacks, and those of all
//! processors that took their tickets in time.
//!
//! For that a list with a ticket waits a little before somebody begins a grace period for it: until
//! some more have gathered behind it. A grace period reads what every reader writes, and has each
//! of them read its number, so it costs a few cache lines for each processor. If each processor
//! began one for each of its lists, that would be so much for each callback that it grew with the
//! number of processors. As it is, a grace period serves all lists that were long enough in that
//! time, and what a callback pays for it does not grow.
//!
//! What is ready is invoked a [`PORTION`] at a time, whenever as many have been queued. So a close
//! does not pay for a thousand others, as a rule. And the memory that a portion frees is what the
//! next objects are made of: it stays in the [magazines](crate::slab) of the processor, and in its
//! caches, where a batch would go to the depot, and from there to whoever comes first. If more than
//! two batches are ready, all of them are invoked.
//!
//! Work is done by the threads that queue callbacks, as they queue more; there is no thread of the
//! library's own. What was queued last therefore waits until a thread queues more, ends, or calls
//! [`barrier`](super::barrier), [`try_barrier`](super::try_barrier) or a
//! [`Barrier`](super::Barrier): see [`ends`].
//!
//! The backlog is bounded as far as it can be: a thread that finds [`BACKLOG`] callbacks in its
//! queue waits for the grace period and works them off, unless it is inside a read-side section
//! or a callback. It does not wait for ever. The caller may hold a lock that a reader inside a
//! section wants, and then neither would go on; so after [`PATIENCE`] looks it goes on, and looks
//! again a batch later. A reader that never leaves its section makes those who free slow, and
//! their memory grow slowly.

mod ends;

use alloc::boxed::Box;
use core::cell::Cell;
use core::ptr::{self, NonNull};

use super::grace::{GRACE, Ticket};
use super::reader::{RECORDS, inside_read_lock, inside_section, thread_name};
#[cfg(not(loom))]
use crate::lock::SpinLock;
use crate::percpu::PerCpu;
use crate::prefetch::prefetch;
use crate::sync::relax;
use crate::unwind;
// The lock has models of its own. Those of all that frees something would explore its every step
// again.
#[cfg(loom)]
use crate::sync::Mutex as SpinLock;

/// How many callbacks share a grace period; one that holds much counts as more. A lone thread needs
/// no heavy fence, and a short list keeps the memory that it reuses in its first-level cache.
const BATCH: usize = if cfg!(loom) { 1 } else { 1024 };
// The weight of a list is looked at whenever it passes a multiple of this.
const LONE_BATCH: usize = if cfg!(loom) { 1 } else { 64 };

/// How many callbacks run at once, where there is no hurry: as many as were queued since some ran
/// last.
const PORTION: usize = LONE_BATCH;

/// Of more callbacks than this that can run, all do.
const PLENTY: usize = if cfg!(loom) { 3 } else { 2 * BATCH };

/// How many callbacks may gather on a processor before the threads that queue them wait.
const BACKLOG: usize = if cfg!(loom) { 2 } else { 16 * 1024 };

/// How many times a thread with a full backlog looks for the end of the grace period before it goes
/// on. It gives its processor away between looks: about a millisecond on an idle machine.
const PATIENCE: u32 = if cfg!(loom) { 2 } else { 512 };

/// The part of an object through which it waits for its grace period: a link and what to do.
#[derive(Debug)]
#[repr(C)]
#[doc(alias = "rcu_head")]
pub struct Head {
    next: Cell<*mut Head>,
    invoke: unsafe fn(NonNull<Head>),
}

impl Head {
    /// Makes a head that will call `invoke` with its own address, on any thread.
    #[must_use]
    pub const fn new(invoke: unsafe fn(NonNull<Head>)) -> Self {
        Self {
            next: Cell::new(ptr::null_mut()),
            invoke,
        }
    }

    /// Returns the function, for an object that need not wait.
    pub(crate) fn invoke(&self) -> unsafe fn(NonNull<Self>) {
        self.invoke
    }
}

// SAFETY: `next` is touched by the queue that the head was given to, and by nobody before, as
// `call` demands; `invoke` never changes.
unsafe impl Sync for Head {}
// SAFETY: a head owns nothing that belongs to a thread.
unsafe impl Send for Head {}

/// A first-in first-out list of heads.
struct List {
    first: *mut Head,
    last: *mut Head,
    /// What the heads on it weigh, and 0 if there are none. Which of them weighs more than 1 is not
    /// known: the rest of it goes with the last one.
    weight: usize,
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
    fn push(&mut self, head: NonNull<Head>, weight: usize) {
        // SAFETY: `call` gave the head to the queue, so nobody else touches its link.
        unsafe { head.as_ref() }.next.set(ptr::null_mut());
        // SAFETY: `last` is null or the last head of this list, which the list owns until it
        // is invoked, and whose link nobody else touches.
        match unsafe { self.last.as_ref() } {
            None => self.first = head.as_ptr(),
            Some(last) => last.next.set(head.as_ptr()),
        }
        self.last = head.as_ptr();
        self.weight += weight;
    }

    fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// Puts another list at the end.
    fn append(&mut self, other: Self) {
        // SAFETY: as in `push`.
        match unsafe { self.last.as_ref() } {
            None => *self = other,
            Some(last) if !other.first.is_null() => {
                last.next.set(other.first);
                self.last = other.last;
                self.weight += other.weight;
            }
            Some(_) => {}
        }
    }

    /// Takes the first head off the list.
    fn pop(&mut self) -> Option<NonNull<Head>> {
        let head = NonNull::new(self.first)?;
        // SAFETY: the list owns its heads, and nobody else touches their links.
        self.first = unsafe { head.as_ref() }.next.get();
        if self.first.is_null() {
            *self = Self::new();
        } else {
            // The next one is looked at when this one is done with.
            prefetch(self.first);
            self.weight -= 1;
        }
        Some(head)
    }

    /// Invokes so many heads, from the first one on. Only once the grace period of the list is
    /// over.
    fn invoke(&mut self, most: usize) {
        for head in core::iter::from_fn(|| self.pop()).take(most) {
            // SAFETY: the list owns the head until here, and nobody has invoked it yet.
            let invoke = unsafe { head.as_ref() }.invoke;
            // The thread that happens to run it has nothing to do with its panic.
            unwind::contain(|| {
                // SAFETY: `call` was promised that its function may be called with this head
                // once a grace period has passed.
                unsafe { invoke(head) }
            });
        }
    }
}

/// The queue of one processor.
struct Queue {
    gathering: List,
    waiting: List,
    /// The grace period that `waiting` waits for.
    ticket: Ticket,
    /// What has waited, and can run.
    ready: List,
    /// The [name](thread_name) of the thread that invokes a list of this queue, if one does; no
    /// other may, so that callbacks of a queue run in order and `barrier` can count them.
    invoking: Option<usize>,
    /// Somebody who queues should look for what is due.
    is_time: bool,
    /// Other readers were found since the list began to gather. It is asked once for each list, as
    /// the records of all readers that ever were are looked at.
    has_company: bool,
    /// What all callbacks weigh that were ever queued, and those of them that have run.
    queued: u64,
    invoked: u64,
}

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
        }
    }

    #[inline]
    fn push(&mut self, head: NonNull<Head>, weight: usize) {
        let before = self.gathering.weight;
        self.queued += weight as u64;
        self.gathering.push(head, weight);
        self.is_time |= before / LONE_BATCH != self.gathering.weight / LONE_BATCH;
    }

    /// Lets what has gathered wait for a grace period, if nothing else of this queue does.
    fn seal(&mut self) {
        if self.waiting.weight == 0 && self.gathering.weight > 0 {
            self.waiting = self.gathering.take();
            self.ticket = GRACE.ticket();
            self.has_company = false;
        }
    }

    /// Takes what can run, for the caller to invoke.
    fn take_ready(&mut self) -> Option<List> {
        if self.invoking.is_some() {
            return None;
        }
        if self.waiting.weight > 0 && GRACE.is_over(self.ticket) {
            self.ready.append(self.waiting.take());
        }
        if self.ready.weight == 0 {
            return None;
        }
        self.invoking = Some(thread_name());
        Some(self.ready.take())
    }

    /// Takes back what the caller has not invoked of a list of this weight.
    fn end_invocation(&mut self, weight: usize, mut rest: List) {
        self.invoking = None;
        self.invoked += (weight - rest.weight) as u64;
        rest.append(self.ready.take());
        self.ready = rest;
    }

    /// Returns what the callbacks weigh that nobody invokes.
    #[cfg(feature = "std")]
    fn weight(&self) -> usize {
        self.gathering.weight + self.waiting.weight + self.ready.weight
    }

    /// Takes what another thread was invoking as run.
    #[cfg(feature = "std")]
    fn forget_invocation(&mut self) {
        if self.invoking.is_some_and(|thread| thread != thread_name()) {
            self.invoking = None;
            self.invoked = self.queued - self.weight() as u64;
        }
    }
}

/// The queues of all processors. Where there is no memory for them when the first is needed, they
/// share one: a close must not fail for that.
#[cfg(not(loom))]
mod queues {
    use super::{PerCpu, Queue, SpinLock};
    #[cfg(not(feature = "std"))]
    use spin::LazyLock as Lazy;
    #[cfg(feature = "std")]
    use std::sync::LazyLock as Lazy;

    static QUEUES: Lazy<Option<PerCpu<SpinLock<Queue>>>> =
        Lazy::new(|| PerCpu::try_new(|_cpu| SpinLock::new(Queue::new())).ok());
    static SHARED: SpinLock<Queue> = SpinLock::new(Queue::new());

    #[inline]
    pub(super) fn this() -> &'static SpinLock<Queue> {
        (*QUEUES).as_ref().map_or(&SHARED, PerCpu::this)
    }

    pub(super) fn all() -> impl Iterator<Item = &'static SpinLock<Queue>> {
        let queues = (*QUEUES).iter().flat_map(PerCpu::iter);
        queues.chain(core::iter::once(&SHARED))
    }
}
#[cfg(loom)]
mod queues {
    use super::{PerCpu, Queue, SpinLock};
    loom::lazy_static! {
        static ref QUEUES: PerCpu<SpinLock<Queue>> =
            PerCpu::new(|_cpu| SpinLock::new(Queue::new()));
    }

    pub(super) fn this() -> &'static SpinLock<Queue> {
        QUEUES.this()
    }

    pub(super) fn all() -> impl Iterator<Item = &'static SpinLock<Queue>> {
        QUEUES.iter()
    }
}

/// Queues the callback of `head`, to be invoked once every read-side section that is under way
/// now has ended. Returns at once, but may run callbacks that are due, and waits a moment if the
/// backlog of this processor is too long and the caller is outside of sections and callbacks. May
/// allocate at a thread's first callback.
///
/// What is still queued when a thread ends that has queued some runs there, unless a reader is in
/// the way: so a callback may run on any thread that queues callbacks, also as it ends. A lock that
/// it takes must not be held by a thread that queues callbacks or waits for them, or that joins a
/// thread which has.
///
/// # Safety
/// - `head` stays valid, and nobody else touches it, until its function is called with it.
/// - That function may be called once, by any thread, at any time after the grace period.
///
/// # Panics
/// A panic of the function is reported by the panic hook,
/// [counted](crate::unwind::contained_panics), and goes no further. Without `std` it comes out of
/// the call that happens to run the function.
#[doc(alias = "call_rcu")]
#[inline]
pub unsafe fn call(head: NonNull<Head>) {
    ends::note_queued();
    let queue = queues::this();
    let (weight, is_time) = {
        let mut queue = queue.lock();
        queue.push(head, 1);
        (queue.gathering.weight, core::mem::take(&mut queue.is_time))
    };
    if is_time {
        work(queue, weight);
    }
}

/// Queues the callback of `head` as [`call`] does, and runs none: for callers who hold a lock. They
/// let [`catch_up`] follow, without it.
///
/// # Safety
/// As for [`call`].
pub(crate) unsafe fn call_later(head: NonNull<Head>) {
    ends::note_queued();
    queues::this().lock().push(head, 1);
}

/// Queues the callback of `head` as [`call_later`] does. It counts as `weight` of them, 1 or more:
/// for what holds so much more memory than others.
///
/// # Safety
/// As for [`call`].
pub(crate) unsafe fn call_later_weighing(weight: usize, head: NonNull<Head>) {
    ends::note_queued();
    queues::this().lock().push(head, weight);
}

/// Runs callbacks that are due, as [`call`] does, if it is time to look for some.
pub(crate) fn catch_up() {
    let queue = queues::this();
    let (weight, is_time) = {
        let mut queue = queue.lock();
        (queue.gathering.weight, core::mem::take(&mut queue.is_time))
    };
    if is_time {
        work(queue, weight);
    }
}

/// Runs `f` after a grace period. Allocates; otherwise as [`call`].
///
/// ```
/// use fdtable_base::rcu;
///
/// let (tell, hear) = std::sync::mpsc::channel();
/// rcu::defer(move || tell.send("readers have left").unwrap());
/// rcu::barrier()?;
/// assert_eq!(hear.recv().unwrap(), "readers have left");
/// # Ok::<(), rcu::WouldDeadlock>(())
/// ```
pub fn defer<F: FnOnce() + Send + 'static>(f: F) {
    let deferred = Box::new(Deferred {
        head: Head::new(invoke_deferred::<F>),
        f,
    });
    let head = NonNull::from(Box::leak(deferred)).cast::<Head>();
    // SAFETY: the box was leaked, so the head stays until `invoke_deferred` takes it back, and
    // `F` is `Send`, so any thread may.
    unsafe { call(head) };
}

/// A closure that waits; `head` is its first field, so their addresses are the same.
#[repr(C)]
struct Deferred<F> {
    head: Head,
    f: F,
}

unsafe fn invoke_deferred<F: FnOnce()>(head: NonNull<Head>) {
    // SAFETY: `defer` leaked this box under this address, and the callback is invoked once.
    let deferred = unsafe { Box::from_raw(head.cast::<Deferred<F>>().as_ptr()) };
    (deferred.f)();
}

/// Does what is due in a queue whose gathering list has grown to `weight`.
#[cold]
fn work(queue: &SpinLock<Queue>, weight: usize) {
    if inside_read_lock() {
        return;
    }
    if weight >= LONE_BATCH && is_time_to_advance(queue, weight) {
        advance(queue, PORTION);
    } else {
        invoke_ready(queue, PORTION);
    }
    if weight >= BACKLOG && !inside_section() && !inside_callback() {
        work_off(queue);
    }
}

/// Gives what has gathered its ticket if that is enough, and tells whether somebody should see to
/// the grace period: if what waits had its ticket before, since then others have had the time to
/// take theirs; if there are no others; or if two batches have gathered, which pay for a grace
/// period of their own, and should not lie about if they weigh so much.
fn is_time_to_advance(queue: &SpinLock<Queue>, weight: usize) -> bool {
    let (is_time, has_company) = {
        let mut queue = queue.lock();
        let is_time = queue.waiting.weight > 0 || weight >= 2 * BATCH;
        if weight >= BATCH {
            queue.seal();
        }
        (is_time, queue.has_company)
    };
    if is_time || has_company {
        return is_time;
    }
    let is_lone = RECORDS.only_own_claimed();
    if !is_lone {
        queue.lock().has_company = true;
    }
    is_lone
}

/// Works the queue off until less than a backlog is left, somebody else does it, or patience ends.
fn work_off(queue: &SpinLock<Queue>) {
    loop {
        let ticket = {
            let queue = queue.lock();
            if queue.invoking.is_some() || queue.gathering.weight < BACKLOG {
                return;
            }
            queue.ticket
        };
        if !GRACE.wait_briefly(ticket, PATIENCE) {
            return;
        }
        advance(queue, usize::MAX);
    }
}

/// Takes the queue as far as it goes without waiting, and invokes so many callbacks.
fn advance(queue: &SpinLock<Queue>, most: usize) {
    let (ticket, some_ready) = {
        let mut queue = queue.lock();
        queue.seal();
        (queue.ticket, queue.ready.weight > 0)
    };
    // Outside of the lock: this may take a heavy fence.
    if GRACE.poll(ticket) || some_ready {
        invoke_ready(queue, most);
    }
}

/// Invokes callbacks that can run, so many, or all if there are [`PLENTY`] of them.
fn invoke_ready(queue: &SpinLock<Queue>, most: usize) {
    let Some(ready) = queue.lock().take_ready() else {
        return;
    };
    let weight = ready.weight;
    // Not to fall behind.
    let most = if weight > PLENTY { usize::MAX } else { most };
    let outer = thread::replace_inside_callback(true);
    let mut invocation = Invocation {
        queue,
        ready,
        weight,
        outer,
    };
    invocation.ready.invoke(most);
}

/// A list that is being invoked. Dropping it ends the invocation, and gives back what is left of
/// it.
struct Invocation<'a> {
    queue: &'a SpinLock<Queue>,
    ready: List,
    weight: usize,
    /// Whether the thread was inside a callback before.
    outer: bool,
}

impl Drop for Invocation<'_> {
    fn drop(&mut self) {
        thread::replace_inside_callback(self.outer);
        let mut queue = self.queue.lock();
        queue.end_invocation(self.weight, self.ready.take());
    }
}

/// Waits until all callbacks that are queued now have run.
pub(super) fn drain() {
    for queue in queues::all() {
        let target = queue.lock().queued;
        let mut attempts = 0;
        while queue.lock().invoked < target {
            advance(queue, usize::MAX);
            relax(attempts);
            attempts = attempts.saturating_add(1);
        }
    }
}

pub(super) use ends::{Progress, drain_briefly};

/// Takes the lists that other threads were invoking as run: those threads do not exist, and what
/// they had left to invoke leaks.
#[cfg(feature = "std")]
pub(super) fn forget_invocations() {
    for queue in queues::all() {
        queue.lock().forget_invocation();
    }
}

/// Tells whether the calling thread runs a callback, as far as it can be known.
pub(super) use thread::inside_callback;

#[cfg(any(feature = "std", loom))]
mod thread {
    use core::cell::Cell;

    #[cfg(not(loom))]
    std::thread_local! {
        static INSIDE: Cell<bool> = const { Cell::new(false) };
    }
    #[cfg(loom)]
    loom::thread_local! {
        static INSIDE: Cell<bool> = Cell::new(false);
    }

    pub(in super::super) fn inside_callback() -> bool {
        INSIDE.try_with(Cell::get).unwrap_or(false)
    }

    /// Notes whether the thread runs a callback; returns whether it did before.
    pub(super) fn replace_inside_callback(inside: bool) -> bool {
        INSIDE
            .try_with(|place| place.replace(inside))
            .unwrap_or(false)
    }
}

#[cfg(not(any(feature = "std", loom)))]
mod thread {
    pub(in super::super) fn inside_callback() -> bool {
        false
    }

    pub(super) fn replace_inside_callback(_inside: bool) -> bool {
        false
    }
}
