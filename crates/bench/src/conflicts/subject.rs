//! Who is traced: a table with everything beside it, on two CPUs.

use conflict_tracer::Cpus;
use parking_lot::Mutex;

use super::operation::{ARGUMENTS, Argument, Call};
use super::setup::Setup;
use super::specification::{Response, State};

/// Table that is furnished for the calls of both CPUs.
pub(super) trait Subject: Sync + Sized {
    /// Name in reports.
    const NAME: &'static str;

    /// States that it has.
    const SETUPS: &'static [Setup];

    /// Tells whether it can make a call.
    fn can(call: Call) -> bool;

    /// Makes one, with what each CPU needs, made by that CPU, and has both work for a while. Each call
    /// is made once at most.
    ///
    /// # Errors
    /// If there is no memory, or something does not answer as it must.
    fn set_up(cpus: &mut Cpus, setup: Setup) -> anyhow::Result<Self>;

    /// Returns the state as the specification has it.
    ///
    /// # Errors
    /// As [`set_up`](Self::set_up).
    fn state(&self) -> anyhow::Result<State>;

    /// Makes a call on `cpu`. This is what is traced.
    fn perform(&self, cpu: usize, call: Call) -> Response;
}

/// References that a CPU has at hand, on lines of its own.
#[repr(align(128))]
pub(super) struct Hand<R, B = ()> {
    /// To be opened.
    pub(super) ready: Place<R>,
    /// To objects that others have references to.
    pub(super) held: Places<R>,
    /// To objects that nobody else has references to.
    pub(super) last: Places<R>,
    pub(super) blocks: Places<B>,
    /// What a call gave.
    pub(super) result: Place<R>,
    pub(super) block: Place<B>,
}

/// Room for one thing.
pub(super) struct Place<V>(Mutex<Option<V>>);

/// Room for something for each argument.
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

    /// Takes what is there.
    ///
    /// # Panics
    /// If nothing is.
    pub(super) fn take(&self) -> V {
        self.0.lock().take().expect("each call is made once")
    }

    /// Looks at what is there, if anything is.
    pub(super) fn look<A>(&self, look: impl FnOnce(&V) -> A) -> Option<A> {
        self.0.lock().as_ref().map(look)
    }
}

impl<V> Places<V> {
    pub(super) fn of(&self, argument: Argument) -> &Place<V> {
        &self.0[argument as usize]
    }

    /// Asks about each place.
    pub(super) fn each(&self, mut ask: impl FnMut(&Place<V>) -> usize) -> [usize; ARGUMENTS] {
        std::array::from_fn(|argument| ask(&self.0[argument]))
    }
}
