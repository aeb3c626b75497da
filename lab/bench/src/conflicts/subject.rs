//! The traced subject: a table and the objects beside it, on two CPUs.

use conflict_tracer::Cpus;
use parking_lot::Mutex;

use super::operation::{ARGUMENTS, Argument, Call};
use super::setup::Setup;
use super::specification::{Response, State};

/// Table that is prepared for the calls of both CPUs.
pub(super) trait Subject: Send + Sync + Sized {
    /// Name in reports.
    const NAME: &'static str;

    /// States in which it can be.
    const SETUPS: &'static [Setup];

    /// Returns true if it supports a call.
    fn can(call: Call) -> bool;

    /// Creates a subject with the objects of each CPU, created on that CPU, and warms both up. Each
    /// call is made at most once.
    ///
    /// # Errors
    /// If there is no memory, or a call returns a wrong result.
    fn set_up(cpus: &mut Cpus, setup: Setup) -> anyhow::Result<Self>;

    /// Returns the state in terms of the specification.
    ///
    /// # Errors
    /// Errors of [`set_up`](Self::set_up).
    fn state(&self) -> anyhow::Result<State>;

    /// Makes a call on `cpu`. Only this is traced.
    fn perform(&self, cpu: usize, call: Call) -> Response;
}

/// References of a CPU, on lines of its own.
#[repr(align(128))]
pub(super) struct Hand<R, B = ()> {
    /// Object to be opened.
    pub(super) ready: Place<R>,
    /// References to objects that others reference too.
    pub(super) held: Places<R>,
    /// References to objects that nothing else references.
    pub(super) last: Places<R>,
    pub(super) blocks: Places<B>,
    /// Result of a call.
    pub(super) result: Place<R>,
    pub(super) block: Place<B>,
}

/// Slot for one value.
pub(super) struct Place<V>(Mutex<Option<V>>);

/// Slots for a value of each argument.
pub(super) struct Places<V>([Place<V>; ARGUMENTS]);

impl<R, B> Default for Hand<R, B> {
    fn default() -> Self {
        Hand {
            ready: Place::default(),
            held: Places::default(),
            last: Places::default(),
            blocks: Places::default(),
            result: Place::default(),
            block: Place::default(),
        }
    }
}

impl<V> Default for Place<V> {
    fn default() -> Self {
        Place(Mutex::new(None))
    }
}

impl<V> Default for Places<V> {
    fn default() -> Self {
        Places(std::array::from_fn(|_| Place::default()))
    }
}

impl<V> Place<V> {
    pub(super) fn put(&self, value: V) {
        *self.0.lock() = Some(value);
    }

    /// Takes the value.
    ///
    /// # Panics
    /// If the slot is empty.
    pub(super) fn take(&self) -> V {
        self.0.lock().take().expect("each call is made once")
    }

    /// Borrows the value, if there is one.
    pub(super) fn look<A>(&self, look: impl FnOnce(&V) -> A) -> Option<A> {
        self.0.lock().as_ref().map(look)
    }
}

impl<V> Places<V> {
    pub(super) fn of(&self, argument: Argument) -> &Place<V> {
        &self.0[argument as usize]
    }

    /// Calls `ask` with each slot.
    pub(super) fn each(&self, mut ask: impl FnMut(&Place<V>) -> usize) -> [usize; ARGUMENTS] {
        std::array::from_fn(|argument| ask(&self.0[argument]))
    }
}
