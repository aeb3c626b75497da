//! Threads: one queue for all CPUs, and preemption by the timer.
//!
//! A switch is done with interrupts off. The thread that ran before is put back into the queue
//! only by the next one, when its registers are saved (`finish_switch`): else another CPU could
//! continue it too early.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::arch::global_asm;
use core::cell::{Cell, UnsafeCell};
use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use x86_64::instructions::interrupts as cpu_interrupts;

use crate::lock::Lock;
use crate::{clock, cpu, interrupts};

/// The size of a stack, in units of 16 bytes.
const STACK: usize = 2048;

pub struct Thread {
    id: u64,
    /// Empty for the idle thread of a CPU, which has the stack of the boot.
    _stack: Vec<u128>,
    /// Where its registers are on the stack, while it does not run.
    saved: UnsafeCell<usize>,
    /// The library's word, while it does not run.
    word: Cell<*mut ()>,
    main: Cell<Option<Box<dyn FnOnce() + Send>>>,
    state: Lock<State>,
}

// SAFETY: `saved`, `word` and `main` are used by the CPU that runs or switches the thread alone.
unsafe impl Sync for Thread {}
// SAFETY: as above; the stack belongs to the thread.
unsafe impl Send for Thread {}

#[derive(Default)]
struct State {
    /// It does not run, and is in no queue, until it is woken.
    is_blocked: bool,
    /// Its next block returns at once.
    is_woken: bool,
    /// A CPU runs it, or has not saved its registers yet.
    is_on_cpu: bool,
    has_ended: bool,
    /// Threads that wait for its end.
    joining: Vec<u64>,
}

/// The threads that could run.
static QUEUE: Lock<VecDeque<Arc<Thread>>> = Lock::new(VecDeque::new());
/// All threads that have not ended.
static ALL: Lock<BTreeMap<u64, Arc<Thread>>> = Lock::new(BTreeMap::new());
/// Threads that sleep, and until when.
static SLEEPING: Lock<Vec<(u64, u64)>> = Lock::new(Vec::new());
static IDLE: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicU64 = AtomicU64::new(1);

global_asm!(
    ".text; .global switch, begin_thread",
    // The place to save the stack pointer in; the stack pointer to continue with.
    "switch: push rbx; push rbp; push r12; push r13; push r14; push r15; mov [rdi], rsp",
    "mov rsp, rsi; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx; ret",
    // The first instructions of a thread.
    "begin_thread: and rsp, -16; call run_thread",
);

unsafe extern "C" {
    fn switch(saved: *mut usize, next: usize);
    fn begin_thread();
}

/// Waits for a thread.
pub struct JoinHandle(Arc<Thread>);

impl JoinHandle {
    /// Blocks until the thread has ended.
    pub fn join(self) {
        loop {
            let mut state = self.0.state.lock();
            if state.has_ended {
                return;
            }
            state.joining.push(current_id());
            drop(state);
            block();
        }
    }
}

/// Starts a thread.
pub fn spawn(main: impl FnOnce() + Send + 'static) -> JoinHandle {
    let mut stack = vec![0; STACK];
    // Six registers, and where to begin.
    let place = &raw mut stack[STACK - 4];
    // SAFETY: the last eight words of the stack, which no other code uses.
    unsafe {
        place
            .cast::<usize>()
            .add(6)
            .write(begin_thread as *const () as usize)
    };
    let thread = Thread::new(stack, place.addr(), Some(Box::new(main)));
    ALL.lock().insert(thread.id, thread.clone());
    enqueue(thread.clone());
    JoinHandle(thread)
}

impl Thread {
    fn new(stack: Vec<u128>, saved: usize, main: Option<Box<dyn FnOnce() + Send>>) -> Arc<Self> {
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            _stack: stack,
            saved: UnsafeCell::new(saved),
            word: Cell::new(ptr::null_mut()),
            main: Cell::new(main),
            state: Lock::default(),
        })
    }
}

/// The first function of a thread.
#[unsafe(no_mangle)]
extern "C" fn run_thread() -> ! {
    finish_switch();
    cpu_interrupts::enable();
    let thread = current();
    if let Some(main) = thread.main.take() {
        main();
    }
    fdtable::rcu::end_thread();
    ALL.lock().remove(&thread.id);
    // From here on the next switch is the last one.
    cpu_interrupts::disable();
    let joining = {
        let mut state = thread.state.lock();
        state.has_ended = true;
        core::mem::take(&mut state.joining)
    };
    joining.into_iter().for_each(wake);
    schedule();
    unreachable!("a thread continues after its end")
}

/// Returns the current thread.
fn current() -> &'static Thread {
    // SAFETY: the CPU holds a reference while the thread runs; only the thread itself uses this.
    unsafe { &*cpu::current() }
}

/// Returns the number of the current thread.
pub fn current_id() -> u64 {
    current().id
}

fn enqueue(thread: Arc<Thread>) {
    QUEUE.lock().push_back(thread);
    if IDLE.load(Ordering::Relaxed) > 0 {
        interrupts::reschedule_others();
    }
}

/// Lets another thread run, if there is one.
pub fn yield_now() {
    cpu_interrupts::without_interrupts(schedule);
}

/// For the timer interrupt: lets another thread run, if the current one may be preempted.
pub fn preempt() {
    if cpu::is_preemptible() && !cpu::current().is_null() {
        schedule();
    }
}

/// Blocks the current thread until it is woken, or has been since it blocked last.
pub fn block() {
    cpu_interrupts::disable();
    {
        let mut state = current().state.lock();
        if core::mem::take(&mut state.is_woken) {
            drop(state);
            cpu_interrupts::enable();
            return;
        }
        state.is_blocked = true;
    }
    schedule();
    cpu_interrupts::enable();
}

/// Wakes a thread, or lets its next block return at once. Does nothing if it has ended.
pub fn wake(id: u64) {
    let Some(thread) = ALL.lock().get(&id).cloned() else {
        return;
    };
    let mut state = thread.state.lock();
    if !state.is_blocked {
        state.is_woken = true;
        return;
    }
    state.is_blocked = false;
    // Else the switch that it is in puts it into the queue.
    if !state.is_on_cpu {
        drop(state);
        enqueue(thread);
    }
}

/// Blocks the current thread for so many milliseconds or more.
pub fn sleep(milliseconds: u64) {
    let until = clock::nanoseconds() + milliseconds * 1_000_000;
    while clock::nanoseconds() < until {
        SLEEPING.lock().push((until, current_id()));
        block();
    }
}

/// Wakes the threads that have slept for long enough, at a timer interrupt.
pub fn note_tick() {
    let now = clock::nanoseconds();
    let mut sleeping = SLEEPING.lock();
    while let Some(place) = sleeping.iter().position(|&(until, _)| until <= now) {
        let (_, thread) = sleeping.swap_remove(place);
        drop(sleeping);
        wake(thread);
        sleeping = SLEEPING.lock();
    }
}

/// Continues with the next thread of the queue, with interrupts off. Returns when this thread is
/// next; at once if no other can run.
fn schedule() {
    let block = cpu::block();
    // SAFETY: the CPU's own, with interrupts off.
    let block = unsafe { &mut *block };
    let next = QUEUE.lock().pop_front();
    let this = current();
    let next = match next {
        Some(next) => Arc::into_raw(next),
        None => {
            let state = this.state.lock();
            if !(state.is_blocked || state.has_ended) || ptr::eq(this, block.idle) {
                return;
            }
            block.idle
        }
    };
    // SAFETY: a reference that came from the queue, or the idle thread, which stays.
    let next = unsafe { &*next };
    next.state.lock().is_on_cpu = true;
    this.word.set(cpu::thread_word());
    cpu::set_thread_word(next.word.get());
    block.previous = this;
    block.current = next;
    // SAFETY: no other CPU uses the stack pointer of a thread that one switches.
    let to = unsafe { *next.saved.get() };
    // SAFETY: the next thread was left by a switch, or has never run, and its stack is as that
    // left it.
    unsafe { switch(this.saved.get(), to) };
    finish_switch();
}

/// Puts the thread that ran before back into the queue, or drops it. Its registers are saved now.
fn finish_switch() {
    // SAFETY: the CPU's own, with interrupts off.
    let block = unsafe { &mut *cpu::block() };
    let previous = core::mem::replace(&mut block.previous, ptr::null());
    if ptr::eq(previous, block.idle) {
        return;
    }
    // SAFETY: the reference that the CPU had while the thread ran.
    let previous = unsafe { Arc::from_raw(previous) };
    let goes_on = {
        let mut state = previous.state.lock();
        state.is_on_cpu = false;
        !(state.is_blocked || state.has_ended)
    };
    if goes_on {
        QUEUE.lock().push_back(previous);
    }
}

/// Makes the calling code the idle thread of its CPU, and runs the others. With interrupts off.
pub fn idle() -> ! {
    let idle = Arc::into_raw(Thread::new(Vec::new(), 0, None));
    // SAFETY: the CPU's own, with interrupts off.
    let block = unsafe { &mut *cpu::block() };
    block.idle = idle;
    block.current = idle;
    loop {
        cpu_interrupts::disable();
        schedule();
        IDLE.fetch_add(1, Ordering::Relaxed);
        cpu_interrupts::enable_and_hlt();
        IDLE.fetch_sub(1, Ordering::Relaxed);
    }
}
