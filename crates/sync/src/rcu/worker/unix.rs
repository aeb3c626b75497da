//! The thread of the worker on Unix: started without memory from the heap, and ended for a while or
//! with the process.

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::time::Instant;

use super::{CALLED, ENDED, PAUSED, Relaxed, WORKER, Worker, callbacks};
use crate::announce::inside_callback;
use crate::host_fork::{blocking_section, freezer};
use crate::rcu::reader;

/// How long the end of the process waits for a look of the worker, and again for readers.
const END_LIMIT: Duration = Duration::from_millis(10);

/// A thread that was started, and is neither joined nor detached.
pub(super) struct Thread(libc::pthread_t);

// SAFETY: a handle names a thread, and any thread may join or detach that. Some C libraries, such
// as musl, name threads by a pointer.
unsafe impl Send for Thread {}

impl Thread {
    /// Starts the thread. Returns `None` if that fails.
    pub(super) fn spawn(worker: &'static Worker) -> Option<Self> {
        extern "C" fn attend(worker: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: `spawn` passed a worker that lives as long as the process.
            let worker = unsafe { &*worker.cast::<Worker>() };
            set_name();
            worker.attend();
            core::ptr::null_mut()
        }
        let argument = core::ptr::from_ref(worker).cast_mut().cast();
        let mut handle = core::mem::MaybeUninit::<libc::pthread_t>::uninit();
        let answer = without_signals(|| {
            // SAFETY: the handle has room for the answer, there are no attributes, and the function
            // takes this argument.
            unsafe {
                libc::pthread_create(handle.as_mut_ptr(), core::ptr::null(), attend, argument)
            }
        });
        // SAFETY: the call has succeeded, and stored it.
        (answer == 0).then(|| Self(unsafe { handle.assume_init() }))
    }

    /// Waits for the end of the thread.
    pub(super) fn join(self) {
        // SAFETY: the thread was started by this process, and is not joined twice: `self` is gone.
        unsafe { libc::pthread_join(self.0, core::ptr::null_mut()) };
    }

    /// Has the thread free what it has when it ends.
    pub(super) fn detach(self) {
        // SAFETY: as in `join`.
        unsafe { libc::pthread_detach(self.0) };
    }
}

/// True if the thread blocks signals of faults too.
static BLOCKS_FAULTS: AtomicBool = AtomicBool::new(false);

/// Has the thread of this crate block all signals, if it is started after this call.
///
/// By default the thread does not block the signals that a thread raises itself, by a fault or a
/// system call that is filtered: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP and SIGSYS. So a handler
/// of the program runs for a fault in a callback. The thread may then also take such a signal that
/// another process sends, although all other threads of the program block it. A program in which
/// the signal has to stay pending makes this call. A fault in a callback on the thread then ends
/// the process.
///
/// To be called before the first [`call_timely`](crate::rcu::call_timely). It cannot be undone, and
/// holds in children of a host fork too. Callable anywhere.
pub fn block_faults() {
    // Relaxed: nothing else is published by it.
    BLOCKS_FAULTS.store(true, Relaxed);
}

/// Runs `body` while the calling thread blocks all signals but those that a thread raises itself,
/// by a fault or a system call that is filtered; after [`block_faults`] these too. A thread that
/// `body` starts blocks the same.
pub(super) fn without_signals<R>(body: impl FnOnce() -> R) -> R {
    const OWN: [libc::c_int; 6] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
    ];
    let mut blocked = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: there is room for a set, which the call fills.
    unsafe { libc::sigfillset(blocked.as_mut_ptr()) };
    // SAFETY: it is filled.
    let mut blocked = unsafe { blocked.assume_init() };
    // Relaxed: a thread that calls `block_faults` before sees it.
    let own = match BLOCKS_FAULTS.load(Relaxed) {
        true => &[][..],
        false => &OWN,
    };
    for &signal in own {
        // SAFETY: it is a set.
        unsafe { libc::sigdelset(&raw mut blocked, signal) };
    }
    let mut before = blocked;
    // SAFETY: both are sets.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, &raw mut before) };
    let result = body();
    // SAFETY: the call above has stored the set. It does not fail with these arguments.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut()) };
    result
}

/// Names the calling thread for debuggers and `ps`.
fn set_name() {
    #[cfg(target_os = "linux")]
    // SAFETY: the text ends with a zero byte, and has less than 16 bytes.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"fdtable-rcu".as_ptr());
    }
}

/// Runs `body` while the thread of this crate does not exist, and starts it again afterwards if it
/// existed before. The thread then has the credentials of the calling thread. For calls that change
/// the credentials of one thread, or of each thread of the process: the C library ends the process
/// if a change succeeds in one thread and fails in another.
///
/// Callbacks that are queued meanwhile run later. Blocks for a few milliseconds, and for callbacks
/// that are under way, outside of the [freezer](crate::host_fork). Not to be called inside a
/// read-side section. In a callback it only runs `body`.
///
/// ```
/// use fdtable_sync::rcu;
///
/// let answer = rcu::without_thread(|| 42);
/// assert_eq!(answer, 42);
/// ```
pub fn without_thread<R>(body: impl FnOnce() -> R) -> R {
    let worker = match inside_callback() {
        true => None,
        false => WORKER.stop(PAUSED),
    };
    let Some(worker) = worker else {
        return body();
    };
    let _resumes = Resumes;
    {
        // The thread enters the freezer before it ends, and a fork may wait for the caller.
        let _outside = blocking_section();
        // A handler that leaves by a jump would leave the worker without a thread.
        without_signals(|| worker.join());
    }
    body()
}

/// Starts the thread that was paused, also after a panic, unless it is not wanted any more.
struct Resumes;

impl Drop for Resumes {
    fn drop(&mut self) {
        let mut start = WORKER.thread.lock();
        // Relaxed, both: see "Without the thread".
        let resumed = WORKER
            .state
            .compare_exchange(PAUSED, CALLED, Relaxed, Relaxed);
        if resumed.is_ok() {
            WORKER.spawn(&mut start, Thread::spawn);
        }
    }
}

/// The time between two checks of the end.
const PAUSE: Duration = Duration::from_micros(100);

impl Worker {
    /// Registers the handler, once. Without memory for it, the next start tries again. With the
    /// lock of the thread.
    pub(super) fn run_callbacks_at_exit(&self) {
        extern "C" fn at_exit() {
            WORKER.end();
        }
        // Relaxed: the lock orders it.
        if self.process.load(Relaxed) != 0 {
            return;
        }
        // SAFETY: the function stays valid for the life of the process: a library with this
        // code in it is not unloaded, as its slabs say.
        if unsafe { libc::atexit(at_exit) } == 0 {
            // Relaxed: as above.
            self.process.store(std::process::id(), Relaxed);
        }
    }

    /// A child has inherited the handler, if there is one.
    pub(super) fn follow_fork(&self) {
        // Relaxed, both: there is one thread.
        if self.process.load(Relaxed) != 0 {
            self.process.store(std::process::id(), Relaxed);
        }
    }

    pub(super) fn end(&self) {
        // Relaxed: the handler was registered before, with the ID of this process or one that
        // it was forked from. The other ID alone shows that the lock may not be released.
        if self.process.load(Relaxed) != std::process::id() {
            return;
        }
        let thread = self.stop(ENDED);
        // A callback has ended the process, maybe on the worker.
        if inside_callback() {
            return;
        }
        if let Some(thread) = thread
            // Relaxed: the join orders what comes after it.
            && wait_until(|| self.has_left.load(Relaxed) != 0)
        {
            thread.join();
        }
        wait_until(|| {
            // As at the end of a thread.
            if reader::inside_section() {
                return true;
            }
            let Some(_inside) = freezer::try_enter() else {
                return true;
            };
            callbacks::drain_briefly()
        });
    }
}

/// Waits until `is_over`, for [`END_LIMIT`] at most and the time of one check. Returns true if
/// it is over.
pub(super) fn wait_until(is_over: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_over() {
        // A check may itself wait for a millisecond.
        if start.elapsed() >= END_LIMIT {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}
