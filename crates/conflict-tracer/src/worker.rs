//! A thread that does what it is told, while whoever tells it waits.
//!
//! What is handed over goes by way of a desk: a call is put there, done, and the desk is free
//! again. Nothing is allocated for it. An allocation that one thread makes and another frees would
//! mix their heaps, and with them the lines of what they allocate.

use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::cpu_id::CpuId;
use crate::error::Error;

/// Thread that simulates a CPU, and ends when this is dropped.
pub(crate) struct Worker {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread of this name, and waits until it is on a CPU.
    ///
    /// # Safety
    /// As for [`CpuId::claim`], while it makes calls.
    pub(crate) unsafe fn start(name: String) -> Result<Self, Error> {
        let desk = Arc::new(Desk::default());
        let work = Arc::clone(&desk);
        let serve = move || {
            // SAFETY: as the caller promises.
            unsafe { work.serve() };
        };
        let thread = thread::Builder::new()
            .name(name)
            .spawn(serve)
            .map_err(|error| Error::System("thread", error))?;
        let worker = Self {
            desk,
            thread: Some(thread),
        };
        match worker.desk.wait_for_start() {
            Ok(()) => Ok(worker),
            Err(error) => Err(error),
        }
    }

    /// Has the thread make a call, and returns what it returned or panicked with.
    pub(crate) fn call<R: Send>(&self, call: impl FnOnce(&CpuId) -> R + Send) -> thread::Result<R> {
        let mut call = Some(call);
        let mut answer = None;
        self.desk.put_and_wait(&mut |cpu| {
            if let Some(call) = call.take() {
                answer = Some(catch_unwind(AssertUnwindSafe(|| call(cpu))));
            }
        });
        answer.expect("the desk is free again only after the call")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.desk.change(State::Stop);
        if let Some(thread) = self.thread.take() {
            // It catches the panics of what it calls, and has none of its own.
            let _ = thread.join();
        }
    }
}

/// Where calls are handed over.
#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
enum State {
    /// The thread is not there yet.
    #[default]
    Starting,
    /// It could not be on its CPU.
    Failed(Error),
    Free,
    Waiting(Call),
    /// The thread makes a call.
    Busy,
    Stop,
}

/// A call that somebody waits for.
struct Call(*mut Erased);

/// A call whose lifetime is that of whoever waits.
type Erased = dyn FnMut(&CpuId) + Send + 'static;

// SAFETY: the call itself may be sent, and `put_and_wait` does not use it meanwhile.
unsafe impl Send for Call {}

impl Desk {
    /// What the thread does.
    ///
    /// # Safety
    /// As for [`CpuId::claim`], while it makes calls.
    unsafe fn serve(&self) {
        // SAFETY: as the caller promises; between calls there is no sequence.
        let cpu = match unsafe { CpuId::claim() } {
            Ok(cpu) => cpu,
            Err(error) => return self.change(State::Failed(error)),
        };
        // The thread's heap comes with its first allocation.
        drop(std::hint::black_box(Vec::<u8>::with_capacity(64)));
        self.change(State::Free);
        while let Some(call) = self.next() {
            // SAFETY: who put the call waits until the desk is free, and keeps it so long.
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

    /// Waits until the thread has begun or failed to.
    fn wait_for_start(&self) -> Result<(), Error> {
        let mut state = self.wait_while(|state| matches!(state, State::Starting));
        match std::mem::replace(&mut *state, State::Free) {
            State::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Has the thread make a call, and waits until it is made.
    fn put_and_wait<'a>(&self, call: &'a mut (dyn FnMut(&CpuId) + Send + 'a)) {
        let call: *mut (dyn FnMut(&CpuId) + Send + 'a) = call;
        // SAFETY: only the lifetime differs. The pointer is used before the desk is free again,
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
