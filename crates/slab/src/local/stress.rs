//! Threads that allocate and free objects while they interrupt each other at every step. Several
//! threads run on one CPU. A signal handler lets the others run and then allocates and frees as
//! well. Threads move from CPU to CPU, and one thread drains all the time. In another test, one
//! thread runs alone with a thread that only drains.
//!
//! Every object records whether it has an owner. So an object with two owners is noticed when the
//! second takes it, and a lost one when all are counted.

use super::tests::pin_to;
use super::*;
use core::cell::Cell;
use core::ptr;
use core::time::Duration;
use fdtable_sync::platform::Mutex;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;
use std::vec::Vec;

const OBJECTS: usize = 3000;
/// How many objects a thread has at most.
const HANDFUL: usize = 300;
/// How long it is from one signal of a thread to the next.
const PERIOD: Duration = Duration::from_micros(60);

/// The test's state: the objects are in the magazines, in the depot, or held by a thread.
struct World {
    local: Local,
    /// Magazines with objects, and magazines without.
    depot: Mutex<[MagazineList; 2]>,
    /// True for each object that has an owner.
    objects: Vec<AtomicBool>,
    is_over: AtomicBool,
    /// How many sequences were interrupted by a signal.
    interrupted: AtomicUsize,
}

/// A thread and its objects.
struct Thread<'w> {
    world: &'w World,
    hand: Vec<NonNull<u8>>,
    /// Objects that the signal handler could not free.
    pocket: AtomicPtr<u8>,
    random: u64,
    /// The CPUs that it alternates between.
    cpus: [usize; 2],
    moves: AtomicUsize,
}

impl World {
    fn new(local: Local) -> Self {
        let world = Self {
            local,
            depot: Mutex::new([const { MagazineList::new() }; 2]),
            objects: (0..OBJECTS).map(|_| AtomicBool::new(true)).collect(),
            is_over: AtomicBool::new(false),
            interrupted: AtomicUsize::new(0),
        };
        let mut thread = Thread::new(&world, 0, [0; 2]);
        for object in &world.objects {
            thread.give(NonNull::from(object).cast());
        }
        world
    }

    /// Takes an object out of the magazines of a CPU.
    fn pop(&self) -> Option<NonNull<u8>> {
        let object = self.local.pop()?;
        assert!(!self.mark(object, true), "it has two owners");
        Some(object)
    }

    fn push(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        assert!(self.mark(object, false), "it was free");
        self.local.push(object).inspect_err(|&object| {
            assert!(!self.mark(object, true), "it has two owners");
        })
    }

    /// Records whether the object has an owner; returns the previous state.
    fn mark(&self, object: NonNull<u8>, has: bool) -> bool {
        let place = self.objects.as_ptr().addr();
        let index = object.addr().get().wrapping_sub(place);
        self.objects[index].swap(has, SeqCst)
    }

    fn put_by(&self, magazine: Magazine) {
        let kind = usize::from(magazine.is_empty());
        self.depot.lock()[kind].push(magazine);
    }

    fn drain(&self) {
        let mut drained = MagazineList::new();
        let done = self.local.drain(&mut drained);
        done.expect("no process shares it");
        while let Some(magazine) = drained.pop() {
            // Read at once, while a sequence that was not restarted would still use it.
            let mut objects = Vec::new();
            while let Some(object) = magazine.pop() {
                assert!(!self.mark(object, true), "it has two owners");
                objects.push(object);
            }
            for object in objects {
                assert!(self.mark(object, false), "it was free");
                magazine.push(object).expect("they were there");
            }
            self.put_by(magazine);
        }
    }

    /// Counts the objects, all of which are in magazines.
    fn count(&self) -> usize {
        let mut count = 0;
        self.drain();
        let mut depot = self.depot.lock();
        for list in depot.iter_mut() {
            while let Some(magazine) = list.pop() {
                while let Some(object) = magazine.pop() {
                    assert!(!self.mark(object, true), "it has two owners");
                    count += 1;
                }
            }
        }
        count
    }
}

impl<'w> Thread<'w> {
    fn new(world: &'w World, number: usize, cpus: [usize; 2]) -> Self {
        Self {
            world,
            hand: Vec::with_capacity(HANDFUL),
            pocket: AtomicPtr::new(ptr::null_mut()),
            random: number as u64 * 2 + 1,
            cpus,
            moves: AtomicUsize::new(0),
        }
    }

    fn draw(&mut self, below: usize) -> usize {
        // A linear congruential generator; the high bits are good.
        self.random = self.random.wrapping_mul(0x5851_F42D_4C95_7F2D) + 0x1405;
        (self.random >> 33) as usize % below
    }

    /// Takes an object, unless there is none.
    fn take(&self) -> Option<NonNull<u8>> {
        let world = self.world;
        loop {
            if let Some(object) = world.pop() {
                return Some(object);
            }
            let full = world.depot.lock()[0].pop()?;
            if let Some(displaced) = world.local.load(full, Lack::Objects) {
                world.put_by(displaced);
            }
        }
    }

    fn give(&mut self, mut object: NonNull<u8>) {
        let world = self.world;
        while let Err(refused) = world.push(object) {
            object = refused;
            let empty = world.depot.lock()[1].pop();
            let empty = empty.unwrap_or_else(|| Magazine::try_new().expect("there is memory"));
            if let Some(displaced) = world.local.load(empty, Lack::Room) {
                world.put_by(displaced);
            }
        }
    }

    /// Takes some objects or frees some.
    fn act(&mut self) {
        let some = 1 + self.draw(HANDFUL);
        if self.draw(2) == 0 {
            for _ in self.hand.len()..some {
                let Some(object) = self.take() else { break };
                self.hand.push(object);
            }
        } else {
            for object in self.hand.split_off(some.min(self.hand.len())) {
                self.give(object);
            }
        }
        if let Some(object) = NonNull::new(self.pocket.swap(ptr::null_mut(), SeqCst)) {
            self.give(object);
        }
    }

    /// Moves to its other CPU.
    fn move_on(&self) {
        if self.cpus[0] != self.cpus[1] {
            pin_to(self.cpus[self.moves.fetch_add(1, SeqCst) % 2]);
        }
    }

    /// The signal handler, between any two instructions: it moves to another CPU, other threads
    /// run, and it takes an object and frees it.
    fn interrupt(&self) {
        self.move_on();
        std::thread::yield_now();
        if !self.pocket.load(SeqCst).is_null() {
            return;
        }
        let Some(object) = self.world.pop() else {
            return;
        };
        std::thread::yield_now();
        if let Err(object) = self.world.push(object) {
            self.pocket.store(object.as_ptr(), SeqCst);
        }
    }

    /// Acts until it is over.
    fn run(mut self, interrupts: Interrupts) {
        pin_to(self.cpus[0]);
        let timer = (interrupts == Interrupts::Signals).then(|| Timer::start(&self));
        while !self.world.is_over.load(SeqCst) {
            self.act();
            if interrupts == Interrupts::Scheduler {
                self.move_on();
            }
        }
        drop(timer);
        let pocket = NonNull::new(self.pocket.swap(ptr::null_mut(), SeqCst));
        let hand = core::mem::take(&mut self.hand);
        hand.into_iter().chain(pocket).for_each(|it| self.give(it));
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Interrupts {
    Signals,
    Scheduler,
}

thread_local! {
    /// The thread, for the handler.
    static THREAD: Cell<*const Thread<'static>> = const { Cell::new(ptr::null()) };
    static TIMER: Cell<libc::timer_t> = const { Cell::new(ptr::null_mut()) };
}

/// Sends a signal to the thread that made it, and again after each.
struct Timer(libc::timer_t);

impl Timer {
    fn start(thread: &Thread<'_>) -> Self {
        THREAD.set(ptr::from_ref(thread).cast());
        let signal = libc::SIGRTMIN();
        // SAFETY: all zero is a valid value of the structure.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        // SAFETY: as above.
        let mut event: libc::sigevent = unsafe { core::mem::zeroed() };
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the action is filled in.
        let answer = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
        assert_eq!(answer, 0);
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        // SAFETY: takes nothing.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer = ptr::null_mut();
        // SAFETY: both places are on this frame.
        let answer =
            unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        assert_eq!(answer, 0);
        let timer = Self(timer);
        TIMER.set(timer.0);
        arm(timer.0);
        timer
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        THREAD.set(ptr::null());
        // SAFETY: made in `start`. A signal that is under way has no effect.
        unsafe { libc::timer_delete(self.0) };
    }
}

unsafe extern "C" {
    // The bounds of the section to which an interrupted sequence goes; the linker knows them.
    #[link_name = "__start___rseq_failure"]
    static FAILURE_START: u8;
    #[link_name = "__stop___rseq_failure"]
    static FAILURE_STOP: u8;
}

/// Makes the timer send its signal once.
fn arm(timer: libc::timer_t) {
    let nothing = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let once = libc::itimerspec {
        it_interval: nothing,
        it_value: libc::timespec {
            tv_nsec: PERIOD.subsec_nanos().into(),
            ..nothing
        },
    };
    // SAFETY: the thread's own timer, which is there until `THREAD` is null.
    let answer = unsafe { libc::timer_settime(timer, 0, &raw const once, ptr::null_mut()) };
    assert_eq!(answer, 0);
}

extern "C" fn handler(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: null, or the thread that runs, which is in `run`.
    let Some(thread) = (unsafe { THREAD.get().as_ref() }) else {
        return;
    };
    // SAFETY: with `SA_SIGINFO` the third argument is the interrupted context.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let next = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    if (&raw const FAILURE_START..&raw const FAILURE_STOP).contains(&ptr::without_provenance(next))
    {
        thread.world.interrupted.fetch_add(1, SeqCst);
    }
    if !thread.world.is_over.load(SeqCst) {
        thread.interrupt();
        arm(TIMER.get());
    }
}

/// Where the threads are, and what happens to them.
struct Plan {
    interrupts: Interrupts,
    /// The CPUs that each thread alternates between: the first and the last one that may be used.
    threads: &'static [[End; 2]],
    /// The pause between two drains.
    rest: Duration,
}

#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

use End::{First, Last};

const CROWD: Plan = Plan {
    interrupts: Interrupts::Signals,
    threads: &[
        [First; 2],
        [First; 2],
        [First, Last],
        [Last, First],
        [Last; 2],
    ],
    rest: Duration::from_micros(20),
};

/// The thread that drains has the last CPU to itself.
const ALONE: Plan = Plan {
    interrupts: Interrupts::Scheduler,
    threads: &[[First; 2]],
    rest: Duration::ZERO,
};

/// Runs threads, with one that drains.
fn stress(local: Local, plan: &'static Plan) -> World {
    let world = World::new(local);
    let seconds = std::env::var("FDTABLE_STRESS_SECONDS").ok();
    let time = seconds.map_or(Duration::from_millis(700), |seconds| {
        Duration::from_secs(seconds.parse().expect("a number"))
    });
    let usable = usable_cpus();
    let cpu = |end: End| match end {
        First => usable[0],
        Last => usable[usable.len() - 1],
    };
    std::thread::scope(|scope| {
        for (number, ends) in plan.threads.iter().enumerate() {
            let (world, cpus) = (&world, ends.map(cpu));
            scope.spawn(move || Thread::new(world, number, cpus).run(plan.interrupts));
        }
        pin_to(cpu(Last));
        let start = Instant::now();
        while start.elapsed() < time {
            world.drain();
            if !plan.rest.is_zero() {
                std::thread::sleep(plan.rest);
            }
        }
        world.is_over.store(true, SeqCst);
    });
    assert_eq!(world.count(), OBJECTS, "some are lost");
    world
}

/// Returns the CPUs that this thread may use.
fn usable_cpus() -> Vec<usize> {
    // SAFETY: an all-zero `cpu_set_t` is an empty set.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set lives on this frame and has the size that is passed.
    let answer = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    assert_eq!(answer, 0);
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the number is below the size of the set.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// Returns magazines with sequences, or says that the machine has none.
fn sequences() -> Option<Local> {
    let area = Area::find();
    if area.is_none() {
        // The harness prints it also for a test that passes, unlike what a macro prints.
        let _ = std::io::stderr().write_all(b"skipped: there are no restartable sequences\n");
    }
    Some(Local::with_area(Some(area?)).expect("there is memory"))
}

fn locks() -> Local {
    Local::with_area(None).expect("there is memory")
}

#[test]
fn sequences_that_are_interrupted_lose_nothing() {
    let Some(local) = sequences() else { return };
    let world = stress(local, &CROWD);
    let interrupted = world.interrupted.load(SeqCst);
    println!("{interrupted} sequences were interrupted by a signal");
    assert!(interrupted > 0);
}

#[test]
fn sequences_that_are_drained_lose_nothing() {
    let Some(local) = sequences() else { return };
    stress(local, &ALONE);
}

#[test]
fn threads_that_lock_lose_nothing() {
    // Not with signals: a handler must not wait for the lock of its own thread.
    let crowd = &const {
        Plan {
            interrupts: Interrupts::Scheduler,
            ..CROWD
        }
    };
    stress(locks(), crowd);
    stress(locks(), &ALONE);
}
