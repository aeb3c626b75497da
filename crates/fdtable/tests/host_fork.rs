//! Forks of the host process: the child can use all tables, caches and grace periods, in whatever
//! state the lost threads left them.
//!
//! An alarm ends a child that waits forever, and its status shows that.

#![cfg(all(target_os = "linux", not(loom)))]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use fdtable::rcu::qsbr::Reader;
use fdtable::{FdFlags, FileRef, Files, host_fork, rcu};
use fdtable_slab::{self as slab, Cache};
use nix::libc;
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

const NONE: FdFlags = FdFlags::empty();

/// Seconds after which a child counts as waiting forever.
const PATIENCE: u32 = 20;

/// Runs a test while no other one does, since forks copy the whole process. On a thread of its own:
/// the thread of a test ends when the next one has begun, and an end runs callbacks. And registers
/// the handlers.
fn in_turn(test: impl FnOnce() + Send + 'static) {
    static TURN: Mutex<()> = Mutex::new(());
    static REGISTERED: Once = Once::new();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    REGISTERED.call_once(|| {
        register(Some(call), Some(call), Some(call));
        host_fork::register().expect("memory");
        host_fork::register().expect("the second time does nothing");
        // Another library in this process may do the same: the two nest.
        register(
            Some(host_fork::prepare),
            Some(host_fork::parent),
            Some(host_fork::child),
        );
    });
    if let Err(panic) = thread::spawn(test).join() {
        resume_unwind(panic);
    }
}

type Handler = unsafe extern "C" fn();

fn register(prepare: Option<Handler>, parent: Option<Handler>, child: Option<Handler>) {
    // SAFETY: the handlers are functions of this program, and may be called at these places.
    let answer = unsafe { libc::pthread_atfork(prepare, parent, child) };
    assert_eq!(answer, 0);
}

/// A foreign handler that uses the library while the freezer is frozen.
extern "C" fn call() {
    let _inside = host_fork::enter();
    let files: Files<u32> = Files::new();
    assert!(files.open(FileRef::new(0), NONE).is_ok());
}

/// Forks, runs `work` in the child, and expects it to succeed.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the library says that its child goes on; nothing else is used there that a thread
    // which is gone may have locked, but for the memory allocator, which is prepared by the C
    // library.
    match unsafe { fork() }.expect("the host forks") {
        ForkResult::Child => {
            // SAFETY: both take an integer. No destructor and no handler of the parent's runs.
            unsafe { libc::alarm(PATIENCE) };
            let end = catch_unwind(AssertUnwindSafe(work));
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(end.is_err())) };
        }
        ForkResult::Parent { child } => {
            let end = waitpid(child, None).expect("the child is there");
            assert_eq!(end, WaitStatus::Exited(child, 0), "how the child ended");
        }
    }
}

/// A file that is counted while it exists.
struct Counted;

static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Counted {
    fn new() -> Self {
        COUNT.fetch_add(1, SeqCst);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, SeqCst);
    }
}

/// The objects that threads use while one of them forks.
struct World {
    files: Files<Counted>,
    cache: Cache<[usize; 8]>,
}

impl World {
    fn new() -> Self {
        Self {
            files: Files::new(),
            cache: Cache::new("forked").expect("memory"),
        }
    }

    /// One call of each kind.
    fn use_it(&self) {
        let files = &self.files;
        inside(|| {
            for _ in 0..100 {
                let open = || files.open(FileRef::new(Counted::new()), NONE);
                let (one, two) = (open().expect("a free fd"), open().expect("a free fd"));
                // Another thread may have closed them all.
                let _ = files.get(one);
                let _ = files.close(one);
                let _ = files.close(two);
            }
        });
        inside(|| {
            let taken: Vec<_> = (0..300).map(|it| self.cache.insert([it; 8])).collect();
            assert!(taken.iter().flatten().all(|it| it[0] == it[7]));
        });
        inside(|| drop(files.fork().expect("memory")));
        inside(|| files.close_range(0, u32::MAX, drop).expect("memory"));
        inside(|| rcu::synchronize().expect("outside of sections"));
        inside(slab::shrink);
    }

    /// Every allocation is freed: no lost thread held one.
    fn is_whole(&self) {
        self.use_it();
        inside(|| self.files.close_range(0, u32::MAX, drop).expect("memory"));
        inside(|| rcu::barrier().expect("outside of sections"));
        assert_eq!(COUNT.load(SeqCst), 0, "files that are left");
    }
}

fn inside<R>(call: impl FnOnce() -> R) -> R {
    let _inside = host_fork::enter();
    call()
}

/// Runs `work` repeatedly on threads, while `meanwhile` runs.
fn while_working(threads: usize, work: impl Fn() + Sync, meanwhile: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    work();
                }
            });
        }
        let end = catch_unwind(AssertUnwindSafe(meanwhile));
        is_over.store(true, SeqCst);
        end.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

/// Runs `meanwhile` while another thread is inside the argument of `stay`.
fn while_there(stay: impl FnOnce(&dyn Fn()) + Send, meanwhile: impl FnOnce()) {
    let (tell_there, hear_there) = channel();
    let (tell_over, hear_over) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            stay(&|| {
                tell_there.send(()).expect("the receiver exists");
                // An error too: `meanwhile` has panicked.
                let _ = hear_over.recv();
            });
        });
        hear_there.recv().expect("it gets there");
        meanwhile();
        drop(tell_over);
    });
}

/// Runs threads in a child.
fn synchronize_beside_a_reader() {
    let (tell, hear) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            drop(rcu::read_lock());
            tell.send(()).expect("the receiver exists");
            thread::sleep(Duration::from_millis(1));
        });
        hear.recv().expect("it reads");
        rcu::synchronize().expect("outside of sections");
    });
}

/// The child inherits held locks, held counts and half-made changes.
#[test]
fn a_child_goes_on_whatever_the_others_were_doing() {
    in_turn(|| {
        let world = World::new();
        while_working(
            3,
            || world.use_it(),
            || {
                for _ in 0..60 {
                    in_child(|| {
                        world.is_whole();
                        while_working(2, || world.use_it(), synchronize_beside_a_reader);
                        world.is_whole();
                    });
                }
            },
        );
        world.is_whole();
    });
}

#[test]
fn threads_that_fork_at_once() {
    in_turn(|| {
        let world = World::new();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        // As a forking call of the interface does.
                        inside(|| {
                            let _out = host_fork::blocking_section();
                            in_child(|| world.is_whole());
                        });
                        // As a call that omits it: here the C library holds no lock meanwhile.
                        #[cfg(target_env = "gnu")]
                        inside(|| in_child(|| world.is_whole()));
                        world.use_it();
                    }
                });
            }
        });
        world.is_whole();
    });
}

/// The fences of the child reach its threads: the registration for `membarrier(2)` is passed on.
#[test]
fn the_fences_of_a_child_reach_its_threads() {
    in_turn(|| {
        synchronize_beside_a_reader();
        in_child(synchronize_beside_a_reader);
    });
}

#[test]
fn a_reader_that_is_gone_is_not_waited_for() {
    in_turn(|| {
        let read = |stay: &dyn Fn()| {
            let _section = rcu::read_lock();
            stay();
        };
        while_there(read, || in_child(|| rcu::synchronize().expect("outside")));
        let work = |stay: &dyn Fn()| {
            let _reader = Reader::online();
            stay();
        };
        while_there(work, || in_child(|| rcu::synchronize().expect("outside")));
    });
}

#[test]
fn a_section_of_the_thread_that_forks_goes_on() {
    in_turn(|| {
        let section = rcu::read_lock();
        in_child(|| grace_periods_wait_for(section));
        let reader = Reader::online();
        in_child(|| grace_periods_wait_for(reader));
    });
}

/// A section of this thread: grace periods wait until it is dropped.
fn grace_periods_wait_for<S>(section: S) {
    static RAN: AtomicBool = AtomicBool::new(false);
    assert_eq!(rcu::synchronize(), Err(rcu::WouldDeadlock));
    thread::scope(|scope| {
        scope.spawn(|| {
            rcu::defer(|| RAN.store(true, SeqCst));
            rcu::barrier().expect("outside of sections");
        });
        thread::sleep(Duration::from_millis(20));
        assert!(!RAN.load(SeqCst), "the section lasts");
        drop(section);
    });
    assert!(RAN.load(SeqCst));
}

/// A callback that sleeps: the remaining callbacks of its thread are lost, and no thread waits for
/// them.
#[test]
fn a_callback_of_a_thread_that_is_gone_is_not_waited_for() {
    in_turn(|| {
        let (tell, hear) = channel::<()>();
        let (tell_over, hear_over) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let _inside = host_fork::enter();
                rcu::defer(move || {
                    let _out = host_fork::blocking_section();
                    tell.send(()).expect("the receiver exists");
                    let _ = hear_over.recv();
                });
                rcu::barrier().expect("outside of sections");
            });
            hear.recv().expect("the callback runs");
            in_child(|| {
                let (tell, hear) = channel();
                rcu::defer(move || tell.send(()).expect("the receiver exists"));
                rcu::barrier().expect("outside of sections");
                hear.recv().expect("it ran");
            });
            drop(tell_over);
        });
    });
}

/// The thread forks inside a callback of its own: callbacks of a CPU run one after the other, in
/// the child too.
#[test]
fn a_callback_that_forks_goes_on() {
    in_turn(|| {
        stay_on_this_processor();
        // The thread of the library would fork while this one is in the queues.
        rcu::use_ticks();
        // A panic goes no further than the callback.
        let (tell, hear) = channel();
        rcu::defer(move || {
            in_child(|| {
                let ran = Arc::new(AtomicUsize::new(0));
                for _ in 0..1000 {
                    let ran = ran.clone();
                    rcu::defer(move || {
                        ran.fetch_add(1, SeqCst);
                    });
                }
                rcu::synchronize().expect("outside of sections");
                assert_eq!(rcu::barrier(), Err(rcu::WouldDeadlock));
                assert_eq!(ran.load(SeqCst), 0, "this one has not ended");
            });
            tell.send(()).expect("the receiver exists");
        });
        rcu::barrier().expect("outside of sections");
        hear.try_recv().expect("the child succeeded");
    });
}

fn stay_on_this_processor() {
    let mut this = CpuSet::new();
    this.set(sched_getcpu().expect("the thread runs on a CPU"))
        .expect("a set has all CPUs");
    sched_setaffinity(Pid::from_raw(0), &this).expect("it may stay");
}

/// Wakes a thread that is parked.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A thread that waits for a descriptor is asleep: neither the fork nor the child waits for it.
#[test]
fn a_freeze_does_not_wait_for_a_thread_that_waits_for_a_descriptor() {
    in_turn(|| {
        let files = Files::with_limit(1);
        let fd = files.open(FileRef::new(1), NONE).expect("a free fd");
        thread::scope(|scope| {
            scope.spawn(|| {
                let waker = Waker::from(Arc::new(Unpark(thread::current())));
                let mut context = Context::from_waker(&waker);
                while inside(|| files.poll_until_free(&mut context)).is_pending() {
                    thread::park();
                }
            });
            // Now or later it sleeps; a fork waits until it does.
            for _ in 0..20 {
                thread::sleep(Duration::from_millis(1));
                in_child(|| {
                    let files = &files;
                    drop(inside(|| files.close(fd)).expect("it is open"));
                    inside(|| files.open(FileRef::new(2), NONE)).expect("a free fd");
                    rcu::barrier().expect("outside of sections");
                });
            }
            drop(files.close(fd).expect("it is open"));
        });
    });
}

#[test]
fn each_child_is_a_generation_of_its_own() {
    in_turn(|| {
        assert_eq!(host_fork::generation(), 0);
        in_child(|| {
            assert_eq!(host_fork::generation(), 1);
            in_child(|| assert_eq!(host_fork::generation(), 2));
            in_child(|| assert_eq!(host_fork::generation(), 2));
            assert_eq!(host_fork::generation(), 1);
        });
        assert_eq!(host_fork::generation(), 0);
    });
}
