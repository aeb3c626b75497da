//! A thread that makes calls on request, while the requesting thread waits.
//!
//! A call is passed through a one-slot mailbox: it is put there, made, and the slot is empty again.
//! Nothing is allocated for it. An allocation that one thread makes and another frees would mix
//! their heaps, and with them the lines of their allocations.

use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::cpu_id::CpuId;
use crate::error::Error;

/// Thread that simulates a CPU, and ends when this is dropped.
pub(crate) struct Worker {
    mailbox: Arc<Mailbox>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread with this name, and waits until it is on a CPU.
    ///
    /// # Safety
    /// As for [`CpuId::claim`], while it makes calls.
    pub(crate) unsafe fn start(name: String) -> Result<Self, Error> {
        let mailbox = Arc::new(Mailbox::default());
        let work = Arc::clone(&mailbox);
        let serve = move || {
            // SAFETY: by the caller's promise.
            unsafe { work.serve() };
        };
        let thread = thread::Builder::new()
            .name(name)
            .spawn(serve)
            .map_err(|error| Error::System("thread", error))?;
        let worker = Self {
            mailbox,
            thread: Some(thread),
        };
        match worker.mailbox.wait_for_start() {
            Ok(()) => Ok(worker),
            Err(error) => Err(error),
        }
    }

    /// Makes a call on the thread, and returns its result or its panic.
    pub(crate) fn call<R: Send>(&self, call: impl FnOnce(&CpuId) -> R + Send) -> thread::Result<R> {
        let mut call = Some(call);
        let mut answer = None;
        self.mailbox.put_and_wait(&mut |cpu| {
            if let Some(call) = call.take() {
                answer = Some(catch_unwind(AssertUnwindSafe(|| call(cpu))));
            }
        });
        answer.expect("the mailbox is empty again only after the call")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.mailbox.change(State::Stop);
        if let Some(thread) = self.thread.take() {
            // It catches the panics of its calls, and has none of its own.
            let _ = thread.join();
        }
    }
}

/// Mailbox for calls.
#[derive(Default)]
struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
enum State {
    /// The thread has not started yet.
    #[default]
    Starting,
    /// It could not claim its CPU.
    Failed(Error),
    Free,
    Waiting(Call),
    /// The thread makes a call.
    Busy,
    Stop,
}

/// A call that another thread waits for.
struct Call(*mut Erased);

/// A call whose lifetime is that of the waiting thread.
type Erased = dyn FnMut(&CpuId) + Send + 'static;

// SAFETY: the call itself is `Send`, and `put_and_wait` does not use it meanwhile.
unsafe impl Send for Call {}

impl Mailbox {
    /// Main loop of the thread.
    ///
    /// # Safety
    /// As for [`CpuId::claim`], while it makes calls.
    unsafe fn serve(&self) {
        // SAFETY: by the caller's promise; between calls there is no sequence.
        let cpu = match unsafe { CpuId::claim() } {
            Ok(cpu) => cpu,
            Err(error) => return self.change(State::Failed(error)),
        };
        // The first allocation creates the thread's heap arena.
        drop(std::hint::black_box(Vec::<u8>::with_capacity(64)));
        self.change(State::Free);
        while let Some(call) = self.next() {
            // SAFETY: the thread that put the call waits until the mailbox is empty, and keeps the
            // call until then.
            let call = unsafe { &mut *call.0 };
            call(&cpu);
            self.change(State::Free);
        }
    }

    fn next(&self) -> Option<Call> {
        let mut state = self.wait_while(|state| matches!(state, State::Free));
        match std::mem::replace(&mut *state, State::Busy) {
            State::Waiting(call) => Some(call),
            _ => None,
        }
    }

    /// Waits until the thread has started or failed to.
    fn wait_for_start(&self) -> Result<(), Error> {
        let mut state = self.wait_while(|state| matches!(state, State::Starting));
        match std::mem::replace(&mut *state, State::Free) {
            State::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes a call on the thread, and waits for its end.
    fn put_and_wait<'a>(&self, call: &'a mut (dyn FnMut(&CpuId) + Send + 'a)) {
        let call: *mut (dyn FnMut(&CpuId) + Send + 'a) = call;
        // SAFETY: only the lifetime differs. The pointer is used before the mailbox is empty again,
        // for which this waits, and nothing in between panics.
        let call = unsafe { transmute::<*mut (dyn FnMut(&CpuId) + Send + 'a), *mut Erased>(call) };
        let call = Call(call);
        self.change(State::Waiting(call));
        drop(self.wait_while(|state| !matches!(state, State::Free)));
    }

    fn change(&self, to: State) {
        *self.lock() = to;
        self.changed.notify_all();
    }

    fn wait_while(&self, mut holds: impl FnMut(&State) -> bool) -> MutexGuard<'_, State> {
        self.changed
            .wait_while(self.lock(), |state| holds(state))
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
