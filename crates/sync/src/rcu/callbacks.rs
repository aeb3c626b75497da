//! Callbacks: work that runs after a grace period, without waiting for it.
//!
//! # A thread that is alone
//!
//! Most programs have one thread that reads, and the memory that it frees need not wait: such a
//! callback runs at once if no other thread has a record and the caller is outside of sections. The
//! caller looks after a light fence, since a thread takes the heavy one when it claims its record:
//! either the look finds the record, or the sections of that thread find what the caller stored
//! before. So an object that is made and freed costs no lock, and reuses memory that is in the
//! first-level cache. One in 64 is queued all the same, so that what was queued before, beside
//! other readers, does not stay.
//!
//! # The queues
//!
//! Every CPU has two queues, one for each [`Effect`]. A queue has three lists. New callbacks join
//! `gathering`. When it is long enough, and `waiting` is empty, it becomes `waiting` and takes a
//! ticket for a grace period. When that is over, it joins `ready`. So one heavy fence serves a
//! batch of callbacks, and those of all CPUs that took their tickets in time.
//!
//! For that, a list with a ticket waits a little before a thread begins a grace period for it:
//! until some more callbacks have gathered behind it. A grace period reads what every reader
//! writes, and makes each reader read its number, so it costs a few cache lines for each CPU. If
//! each CPU began one for each of its lists, the cost of each callback would grow with the CPU
//! count. Instead, a grace period serves all lists that became long enough in that time, and the
//! cost of each callback does not grow.
//!
//! Ready callbacks are invoked in steps of [`CHUNK`], whenever that many have been queued. So a
//! close usually does not pay for a thousand others. And the memory that a chunk frees serves the
//! next objects: it stays in the allocator's cache of the CPU, and in its caches. The memory
//! of a whole batch would go to the depot, and from there to any thread. If more than two batches
//! are ready, all of them are invoked.
//!
//! A thread inside a read-side section invokes only callbacks that free memory, at most
//! [`HIGH_WATER`] at a time: code of others might block there. Its own section ends no grace
//! period, but its next one does. So the memory stays bounded where each call of a kernel is a
//! section. That is why the queues are two: a callback that runs code does not keep back the memory
//! behind it.
//!
//! The threads that queue callbacks do the work, as they queue more: also a thread that is alone.
//! The last callbacks therefore wait until a thread queues more, ends, or calls
//! [`barrier`](super::barrier), [`try_barrier`](super::try_barrier), [`tick`](super::tick) or a
//! [`Barrier`](super::Barrier). [`call_timely`](super::call_timely) is for callbacks that must not
//! wait so long: the [worker](super::worker), a thread of the library, runs what the other threads
//! leave.
//!
//! The backlog is bounded as far as possible. A thread that finds [`BACKLOG`] callbacks in its
//! queue waits for the grace period and works them off, unless it is inside a read-side section or
//! a callback. It does not wait forever. The caller may hold a lock that a reader inside a section
//! wants, and then both would block; so after [`SPIN_LIMIT`] looks it continues, and looks again a
//! batch later. A reader that never leaves its section makes frees slow, and lets their memory grow
//! slowly.
//!
//! # The end of a table or of a thread
//!
//! The queues belong to CPUs, so they outlive a thread. But their callbacks run only while more are
//! queued, and after the end of a table or a thread that may not happen. So that end runs them. It
//! begins one grace period for all queues and does not wait for it. If a reader is in the way for
//! longer than a few looks, the callbacks stay queued, for the next callback, the next end, or the
//! next [`barrier`](crate::rcu::barrier). If another thread is invoking some, such as the worker,
//! the end waits for it for up to a millisecond: else objects would outlive their table by chance.
//!
//! A thread that has queued nothing runs nothing at its end, and so does one that ends inside a
//! section, or while another thread has frozen the freezer of [`host_fork`](crate::host_fork).
//! Callbacks that destructors of other thread locals queue later in the end of a thread stay
//! queued.
//!
//! Callbacks of all tables and threads run at such an end, and with them `Drop` of their objects.
//! So a lock that a callback takes must not be held by a thread that drops a table, or that joins
//! another.

use alloc::boxed::Box;
#[cfg(feature = "std")]
use core::num::NonZeroUsize;
use core::ptr::NonNull;

use super::grace::{GRACE, check_progress};
use super::queue::{Effect, Head, LONE_BATCH, List, Queue, Queues, SpinLock, queues};
use super::reader::{inside_read_lock, inside_section, is_without_readers};
use super::{WouldDeadlock, check_outside};
use crate::announce::{
    RECORDS, forget_own_record, inside_callback, own_record, replace_inside_callback,
};
use crate::platform::{relax, shared};
use crate::unwind;

/// How many callbacks share a grace period; one that holds much memory counts as more. A lone
/// thread needs no heavy fence, and a short list keeps the memory that it reuses in its first-level
/// cache.
const BATCH: usize = if cfg!(loom) { 1 } else { 1024 };

/// How many callbacks run at once, where there is no hurry: as many as were queued since the last
/// run.
const CHUNK: usize = LONE_BATCH;

/// If more callbacks than this are ready, all of them run; inside a section, so many.
const HIGH_WATER: usize = if cfg!(loom) { 3 } else { 2 * BATCH };

/// How often a barrier goes through the queues: a callback may queue another one, as that of a file
/// queues the node of its weak references.
const PASSES: usize = if cfg!(loom) { 1 } else { 2 };

/// How many callbacks may gather in a queue before the threads that queue them wait.
const BACKLOG: usize = if cfg!(loom) { 2 } else { 16 * 1024 };

/// How many times a thread with a full backlog looks for the end of the grace period before it
/// continues. It yields its CPU between looks: about a millisecond on an idle machine.
const SPIN_LIMIT: u32 = if cfg!(loom) { 2 } else { 512 };

/// How many looks in a row may find a reader in the way.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 64 };

/// How many looks in a row may find that another thread invokes callbacks of the queue: up to a
/// millisecond, since the thread yields its CPU between most of them.
const INVOKER_LOOKS: u32 = if cfg!(loom) { 2 } else { 512 };

/// How many rounds run callbacks that the round before has queued: an object may hold the only
/// reference to another.
const ROUNDS: usize = 16;

/// Queues the callback of `head`. It runs once every read-side section that is under way now has
/// ended: mostly inside of the call if it [frees memory](Effect::FreesMemory) and no other thread
/// is a reader. Waits for none of them, but may run callbacks that are due, and waits briefly if
/// the backlog of this CPU is too long and the caller is outside of sections and callbacks. Inside
/// a section only callbacks run that [free memory](Effect::FreesMemory). May allocate at a thread's
/// first callback.
///
/// When a thread that has queued callbacks ends, the callbacks that are still queued run there,
/// unless a reader is in the way. So a callback may run on any thread that queues callbacks, also
/// as it ends. A lock that it takes must not be held by a thread that queues callbacks or waits for
/// them, or that joins a thread which has.
///
/// # Safety
/// - `head` stays valid, and no other code touches it or its [word](Head::owner_word), until its
///   function is called with it.
/// - That function may be called once, by any thread, at any time after the grace period; inside a
///   section too, if its effect is [`FreesMemory`](Effect::FreesMemory).
///
/// # Panics
/// A panic of the function is reported by the panic hook,
/// [counted](crate::unwind::contained_panics), and does not propagate. Without `std` it propagates
/// out of the call that happens to run the function.
#[doc(alias = "call_rcu")]
#[inline]
pub unsafe fn call(effect: Effect, head: NonNull<Head>) {
    if effect == Effect::RunsCode || !is_without_readers() || end::is_turn_to_queue() {
        // SAFETY: as the caller promises.
        return unsafe { queue(effect, head) };
    }
    let _shared = shared::allocate();
    // SAFETY: the caller gives the head to the queue, which it does not join.
    let invoke = unsafe { head.as_ref() }.invoke();
    // SAFETY: as the caller promises. A grace period would have nothing to wait for: no thread is
    // inside a section, and none that begins one later finds what was unpublished before.
    unwind::contain(|| unsafe { invoke(head) });
}

/// Queues the callback of `head`, whatever other readers there are.
///
/// # Safety
/// As for [`call`].
#[inline(never)]
unsafe fn queue(effect: Effect, head: NonNull<Head>) {
    end::note_queued();
    let queues = queues::this();
    let (weight, is_time) = {
        let mut queue = queues.of(effect).lock();
        queue.push(head, 1);
        (queue.gathering.weight, queue.take_time(effect))
    };
    if is_time {
        work(queues, weight);
    }
}

/// Queues the callback of `head` as [`call`] does, and runs none: for callers that hold a lock.
/// They call [`catch_up`] after they release it. The callback counts as `weight` callbacks, at
/// least as one: more than 1 is for objects that hold much more memory than others.
///
/// # Safety
/// As for [`call`].
pub unsafe fn call_later(effect: Effect, weight: usize, head: NonNull<Head>) {
    end::note_queued();
    // A list without weight counts as empty.
    queues::this().of(effect).lock().push(head, weight.max(1));
}

/// Runs callbacks that are due, as [`call`] does, if it is time to look for some.
pub fn catch_up() {
    let queues = queues::this();
    let due = [Effect::RunsCode, Effect::FreesMemory].map(|effect| {
        let mut queue = queues.of(effect).lock();
        queue.take_time(effect).then_some(queue.gathering.weight)
    });
    if let Some(weight) = due.into_iter().flatten().max() {
        work(queues, weight);
    }
}

/// Runs `f` after a grace period, as [`call`] runs its function, outside of sections. Allocates.
///
/// A thread that calls this only inside sections runs no `f` itself. Each one waits until the
/// thread ends, until threads queue more outside of sections on that CPU, or until a
/// [`barrier`](super::barrier).
///
/// ```
/// use fdtable_sync::rcu;
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
    // SAFETY: the box was leaked, so the head stays until `invoke_deferred` takes it back, and `F`
    // is `Send`, so any thread may.
    unsafe { call(Effect::RunsCode, head) };
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

/// Runs what is due on a CPU, after the gathering list of one of its queues has grown to `weight`.
/// The other queue has the same batches: a few callbacks there do not wait until it has as many.
#[cold]
fn work(queues: &Queues, weight: usize) {
    // Inside a section without the first queue, whose callbacks run code.
    let queues = queues.iter().skip(usize::from(inside_read_lock()));
    for queue in queues.clone().filter(|queue| queue.lock().weight() > 0) {
        if weight >= LONE_BATCH && is_time_to_advance(queue, weight) {
            advance(queue, CHUNK);
        } else {
            invoke_ready(queue, CHUNK);
        }
    }
    if weight >= BACKLOG && !inside_section() && !inside_callback() {
        queues.for_each(work_off);
    }
}

/// Gives the gathered callbacks a ticket if there are enough. Returns true if the caller should
/// start or end a grace period. There are three cases: the waiting list had its ticket before, so
/// other threads have had the time to take theirs; there are no other threads; or two batches have
/// gathered, which pay for a grace period of their own, and should not stay queued if they weigh so
/// much.
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
    let is_lone = RECORDS.only_own_claimed(|_| true);
    if !is_lone {
        queue.lock().has_company = true;
    }
    is_lone
}

/// Works the queue off until less than a backlog is left, another thread does it, or the spin limit
/// is reached.
fn work_off(queue: &SpinLock<Queue>) {
    loop {
        let ticket = {
            let queue = queue.lock();
            if queue.invoking.is_some() || queue.gathering.weight < BACKLOG {
                return;
            }
            queue.ticket
        };
        if !GRACE.wait_briefly(ticket, SPIN_LIMIT) {
            return;
        }
        advance(queue, usize::MAX);
    }
}

/// Advances the queue as far as possible without waiting, and invokes at most `max` callbacks.
fn advance(queue: &SpinLock<Queue>, max: usize) {
    let (ticket, some_ready) = {
        let mut queue = queue.lock();
        queue.seal();
        (queue.ticket, queue.ready.weight > 0)
    };
    // Outside of the lock: this may take a heavy fence.
    if GRACE.poll(ticket) || some_ready {
        invoke_ready(queue, max);
    }
}

/// Invokes at most `max` ready callbacks. If there are more than [`HIGH_WATER`], it invokes all of
/// them, or so many inside a section.
fn invoke_ready(queue: &SpinLock<Queue>, max: usize) {
    let Some(ready) = queue.lock().take_ready() else {
        return;
    };
    let weight = ready.weight;
    // So that the queue does not fall behind.
    let max = match weight > HIGH_WATER {
        true if inside_read_lock() => HIGH_WATER,
        true => usize::MAX,
        false => max,
    };
    let _shared = shared::allocate();
    let outer = replace_inside_callback(true);
    let mut invocation = Invocation {
        queue,
        ready,
        weight,
        outer,
    };
    invocation.ready.invoke(max);
}

/// A list that is being invoked. Dropping it ends the invocation, and puts the rest back.
struct Invocation<'a> {
    queue: &'a SpinLock<Queue>,
    ready: List,
    weight: usize,
    /// True if the thread was inside a callback before.
    outer: bool,
}

impl Drop for Invocation<'_> {
    fn drop(&mut self) {
        replace_inside_callback(self.outer);
        let mut queue = self.queue.lock();
        queue.end_invocation(self.weight, self.ready.take());
    }
}

/// Waits until all callbacks that are queued now have run, and frees what they leave.
pub(super) fn drain() {
    let mut barrier = Barrier::new();
    let mut attempts = 0;
    while !barrier.step(&mut Looks::new(0..0, 0..0)) {
        relax(attempts);
        attempts = attempts.saturating_add(1);
        check_progress(attempts);
    }
}

/// Runs all callbacks that are queued now, and what these queue in turn. Stops if a reader is in
/// the way for long. Returns true if all callbacks that were queued at the call have run.
pub(super) fn drain_briefly() -> bool {
    let (all_ran, mut more) = end::noting_queued(|| Barrier::new().step_in_pass(&mut Looks::few()));
    let mut goes_on = all_ran;
    for _ in 1..ROUNDS {
        if !(goes_on && more) {
            break;
        }
        (goes_on, more) = end::noting_queued(|| Barrier::new().step_in_pass(&mut Looks::few()));
    }
    all_ran
}

/// A [`barrier`](super::barrier) in steps, for a caller that waits by other means between them.
///
/// It waits for every callback that was queued before it was made. Callbacks that are queued later
/// do not hold it up for good: it goes from queue to queue, twice, and takes the target of each
/// once, when it gets there. So it waits for a few grace periods for each CPU at most. Neither
/// making nor dropping it does anything.
///
/// ```
/// use fdtable_sync::rcu;
///
/// let (tell, hear) = std::sync::mpsc::channel();
/// rcu::defer(move || tell.send("readers have left").unwrap());
/// let mut barrier = rcu::Barrier::new();
/// while !barrier.poll()? {
///     std::thread::yield_now();
/// }
/// assert_eq!(hear.recv().unwrap(), "readers have left");
/// # Ok::<(), rcu::WouldDeadlock>(())
/// ```
#[derive(Debug, Default)]
pub struct Barrier {
    /// How many passes are finished.
    passes: usize,
    /// How many queues of this pass are finished.
    done: usize,
    /// The target of the next queue, if it was taken.
    target: Option<u64>,
}

impl Barrier {
    /// Makes a barrier for the callbacks that are queued now. Neither blocks nor allocates.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            passes: 0,
            done: 0,
            target: None,
        }
    }

    /// Runs callbacks that the barrier waits for, unless a reader is in the way. Returns true if
    /// all of them have run; false if the caller is to poll again.
    ///
    /// Waits, and runs callbacks, as [`try_barrier`](super::try_barrier) does: the caller holds no
    /// lock that one of them takes. Costs as much as that or less.
    ///
    /// # Errors
    /// As [`try_barrier`](super::try_barrier). The barrier can be polled again elsewhere.
    pub fn poll(&mut self) -> Result<bool, WouldDeadlock> {
        check_outside()?;
        Ok(self.step(&mut Looks::few()))
    }

    /// Returns true if callbacks are queued, and seals them: before the first grace period begins,
    /// so that one grace period serves all queues.
    fn seal(&self) -> bool {
        let seal = |queue: &SpinLock<Queue>| {
            let mut queue = queue.lock();
            queue.seal();
            queue.invoked < queue.queued
        };
        queues::all()
            .skip(self.done)
            .fold(false, |some, queue| some | seal(queue))
    }

    /// Runs callbacks up to the targets, unless there are too many looks in vain. Returns true if
    /// all of them have run.
    fn step(&mut self, looks: &mut Looks) -> bool {
        // A pass without callbacks is not the end of all: a callback that another thread was
        // running may have queued one behind the look, and have ended before it.
        while self.passes < PASSES {
            if !self.step_in_pass(looks) {
                return false;
            }
            self.passes += 1;
            self.done = 0;
        }
        true
    }

    /// Runs callbacks up to the targets of this pass, as `step`.
    fn step_in_pass(&mut self, looks: &mut Looks) -> bool {
        let has_begun = self.done > 0 || self.target.is_some();
        if !has_begun && !self.seal() {
            return true;
        }
        for queue in queues::all().skip(self.done) {
            let target = *self.target.get_or_insert_with(|| queue.lock().queued);
            if !run_to(queue, target, usize::MAX, looks, || true) {
                return false;
            }
            self.done += 1;
            self.target = None;
        }
        true
    }
}

/// How many more looks may be in vain.
struct Looks {
    /// As a reader is in the way.
    readers: core::ops::Range<u32>,
    /// As another thread invokes callbacks of the queue.
    invokers: core::ops::Range<u32>,
}

impl Looks {
    fn new(readers: core::ops::Range<u32>, invokers: core::ops::Range<u32>) -> Self {
        Self { readers, invokers }
    }

    /// Returns as many as a call makes that does not wait for long.
    fn few() -> Self {
        Self::new(0..LOOKS, 0..INVOKER_LOOKS)
    }

    /// Waits after a look in vain. Returns false if there were enough.
    fn wait(&mut self, is_invoking: bool) -> bool {
        let invokers = if is_invoking {
            self.invokers.next()
        } else {
            None
        };
        let attempts = invokers.or_else(|| self.readers.next());
        attempts.inspect(|&attempts| relax(attempts)).is_some()
    }
}

/// Runs callbacks of a queue until `target` of all that were ever queued have run, at most `max` at
/// once. Returns false if it stops before: when there were too many [`Looks`] in vain, or when
/// `goes_on`, which is called after each step, says so.
fn run_to(
    queue: &SpinLock<Queue>,
    target: u64,
    max: usize,
    looks: &mut Looks,
    mut goes_on: impl FnMut() -> bool,
) -> bool {
    loop {
        let invoked = queue.lock().invoked;
        if invoked >= target {
            return true;
        }
        advance(queue, max);
        let (is_same, is_invoking) = {
            let queue = queue.lock();
            (queue.invoked == invoked, queue.invoking.is_some())
        };
        if is_same && !looks.wait(is_invoking) || !goes_on() {
            return false;
        }
    }
}

/// Runs the callbacks that were queued before the last [`note_due`] and that no thread has run
/// since. Leaves a queue if a reader or another thread that invokes is in the way for long, and
/// stops when `goes_on` returns false, which is called after every few callbacks. Returns true if
/// all have run.
pub(super) fn run_due(mut goes_on: impl FnMut() -> bool) -> bool {
    // Before the first grace period begins, so that one grace period serves all queues.
    for queue in queues::all() {
        let mut queue = queue.lock();
        if queue.invoked < queue.due {
            queue.seal();
        }
    }
    // Callbacks that another thread invokes are left to it.
    let mut looks = Looks::new(0..LOOKS, 0..0);
    let mut all_ran = true;
    for queue in queues::all() {
        let due = queue.lock().due;
        let mut is_over = false;
        all_ran &= run_to(queue, due, CHUNK, &mut looks, || {
            is_over = !goes_on();
            !is_over
        });
        if is_over {
            break;
        }
        // To the next one, also if this one is held up: a callback that another thread invokes may
        // take long, and those of other queues do not wait for it.
    }
    all_ran
}

/// Makes everything that is queued now due at the next [`run_due`]. Returns true if there is any.
pub(super) fn note_due() -> bool {
    let mut some_queued = false;
    for queue in queues::all() {
        let mut queue = queue.lock();
        queue.due = queue.queued;
        some_queued |= queue.invoked < queue.queued;
    }
    some_queued
}

/// Counts the lists as run that threads were invoking which do not exist. The callbacks that they
/// had not yet invoked leak.
#[cfg(feature = "std")]
pub(super) fn forget_invocations(is_gone: impl Fn(NonZeroUsize) -> bool) {
    for queue in queues::all() {
        let mut queue = queue.lock();
        if queue.invoking.is_some_and(&is_gone) {
            queue.invoking = None;
            queue.invoked = queue.queued - queue.weight() as u64;
        }
    }
}

/// Returns the calling thread's record to the others, and runs the callbacks that are queued unless
/// a reader is in the way. A kernel calls it on each thread that ends: else the record is lost, and
/// a few hundred bytes with it. With `std` this happens by itself, and the call does nothing.
///
/// May run callbacks: the caller holds no lock that one of them takes. Inside a section or a
/// callback it does nothing, and the record stays: then the section never ends. A thread that
/// continues gets another record, and so does one that an interrupt handler with a use of the
/// library interrupts after the call: see
/// [`Platform::set_thread_word`](crate::platform::kernel::Platform::set_thread_word). A handler
/// itself never calls this.
pub fn end_thread() {
    if cfg!(feature = "std") || inside_section() || inside_callback() {
        return;
    }
    drain_briefly();
    if let Some(record) = own_record() {
        forget_own_record();
        record.unclaim();
    }
}

#[cfg(all(feature = "std", not(loom)))]
mod end {
    use super::super::reader::first_record;
    use super::{drain_briefly, inside_section};
    use crate::announce::{RECORDS, inside_callback};
    use crate::host_fork::freezer;
    use crate::platform::shared;
    use core::cell::Cell;

    std::thread_local! {
        // No destructor, so reading it is one load.
        static HAS_QUEUED: Cell<bool> = const { Cell::new(false) };
        static TURN: Cell<u8> = const { Cell::new(1) };
        static AT_END: AtEnd = const { AtEnd };
    }

    /// Runs what is queued when the thread ends.
    struct AtEnd;

    impl Drop for AtEnd {
        fn drop(&mut self) {
            if inside_section() || inside_callback() {
                // The freezer may not be entered inside a section.
                return;
            }
            // The end does not wait for the freezer: the thread that has frozen it may wait for
            // this end.
            let drain = || {
                if let Some(_inside) = freezer::try_enter() {
                    drain_briefly();
                }
            };
            // The queues have locks that all processes share.
            shared::call_at_end(drain);
        }
    }

    /// Notes that the calling thread queues a callback. Allocates at the first one of a thread.
    #[inline]
    pub(super) fn note_queued() {
        if !HAS_QUEUED.try_with(Cell::get).unwrap_or(true) {
            note_first();
        }
    }

    /// Runs `work`. Returns its answer, and true if the calling thread has queued callbacks in it.
    pub(super) fn noting_queued<R>(work: impl FnOnce() -> R) -> (R, bool) {
        let before = HAS_QUEUED.try_with(|place| place.replace(false));
        let answer = work();
        let has_queued = HAS_QUEUED.try_with(Cell::get).unwrap_or(false);
        let _ = HAS_QUEUED.try_with(|place| place.set(before.unwrap_or(false) || has_queued));
        (answer, has_queued)
    }

    #[cold]
    fn note_first() {
        let _ = HAS_QUEUED.try_with(|has_queued| has_queued.set(true));
        // The thread local is gone already in a thread that is ending: its callbacks stay queued
        // for the next end.
        // A thread that is alone needs a record to know it. Before the other thread local, so that
        // it has the record when that is dropped.
        if RECORDS.only_own_claimed(|_| true) {
            first_record();
        }
        let _ = AT_END.try_with(|_| ());
    }

    /// Returns true once in 64 calls: for a thread that is alone.
    #[inline]
    pub(super) fn is_turn_to_queue() -> bool {
        let turn = TURN.try_with(|turn| turn.replace(turn.get().wrapping_add(1)));
        turn.is_ok_and(|turn| turn % 64 == 0)
    }
}

/// The library sees no ends here. The models call what would run at one.
#[cfg(not(all(feature = "std", not(loom))))]
mod end {
    pub(super) fn note_queued() {}

    pub(super) fn is_turn_to_queue() -> bool {
        false
    }

    /// Returns false as the second answer: it is unknown here whether a thread queues callbacks.
    pub(super) fn noting_queued<R>(work: impl FnOnce() -> R) -> (R, bool) {
        (work(), false)
    }
}
