//! The thread of the worker: started without memory from the heap, where the platform lets it.

#[cfg(all(unix, not(loom)))]
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::Worker;

#[cfg(all(unix, not(loom)))]
type Handle = libc::pthread_t;
#[cfg(loom)]
type Handle = loom::thread::JoinHandle<()>;
#[cfg(not(any(unix, loom)))]
type Handle = std::thread::JoinHandle<()>;

/// A thread that was started, and is neither joined nor detached.
#[cfg_attr(loom, allow(dead_code, reason = "no process ends in a model"))]
pub(super) struct Thread(Handle);

// SAFETY: a handle names a thread, and any thread may join or detach that. Some C libraries, such
// as musl, name threads by a pointer.
#[cfg(all(unix, not(loom)))]
unsafe impl Send for Thread {}

#[cfg(all(unix, not(loom)))]
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

    /// Forgets a thread that does not exist in this process.
    #[expect(clippy::unused_self, reason = "it is not used any more")]
    pub(super) fn forget(self) {}
}

/// True if the thread blocks signals of faults too.
#[cfg(all(unix, not(loom)))]
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
#[cfg(all(unix, not(loom)))]
pub fn block_faults() {
    // Relaxed: nothing else is published by it.
    BLOCKS_FAULTS.store(true, Relaxed);
}

/// Runs `body` while the calling thread blocks all signals but those that a thread raises itself,
/// by a fault or a system call that is filtered; after [`block_faults`] these too. A thread that
/// `body` starts blocks the same.
#[cfg(all(unix, not(loom)))]
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
#[cfg(all(unix, not(loom)))]
fn set_name() {
    #[cfg(target_os = "linux")]
    // SAFETY: the text ends with a zero byte, and has less than 16 bytes.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"fdtable-rcu".as_ptr());
    }
}

#[cfg(loom)]
impl Thread {
    pub(super) fn spawn(worker: &'static Worker) -> Option<Self> {
        Some(Self(loom::thread::spawn(|| worker.attend())))
    }

    #[allow(dead_code, reason = "no process ends in a model")]
    pub(super) fn join(self) {
        self.0.join().expect("the worker ends");
    }

    pub(super) fn detach(self) {
        drop(self);
    }

    pub(super) fn forget(self) {
        core::mem::forget(self);
    }
}

#[cfg(not(any(unix, loom)))]
impl Thread {
    pub(super) fn spawn(worker: &'static Worker) -> Option<Self> {
        let builder = std::thread::Builder::new().name("fdtable-rcu".into());
        builder.spawn(|| worker.attend()).ok().map(Self)
    }

    pub(super) fn detach(self) {
        drop(self);
    }

    pub(super) fn forget(self) {
        core::mem::forget(self);
    }
}
