//! A cell that is filled once, by a thread of any process.

use std::sync::OnceLock;

use crate::lock::Mutex;

/// A cell that is filled once, also in memory that processes share.
///
/// A [`OnceLock`] alone does not do: a thread that finds another one at the filling sleeps, and is
/// woken in its own process only. Here the filling is under a lock that all processes know, so no
/// thread ever finds another one at it.
///
/// ```
/// let cell = fdtable_shm::OnceCell::new();
/// assert_eq!(cell.get(), None);
/// assert_eq!(*cell.get_or_init(|| 1), 1);
/// assert_eq!(cell.set(2), Err(2));
/// ```
#[derive(Debug)]
pub struct OnceCell<T> {
    value: OnceLock<T>,
    fills: Mutex<()>,
}

impl<T> OnceCell<T> {
    /// Makes an empty cell.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            value: OnceLock::new(),
            fills: Mutex::new(()),
        }
    }

    /// Returns the value, if there is one. Never blocks.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// Returns the value. Fills the cell before that, if it is empty, by one call of `make` for all
    /// threads. Blocks while another thread fills the cell.
    ///
    /// # Panics
    /// If `make` does; the cell stays empty then. `make` does not use the cell: that would block
    /// forever.
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.value.get() {
            Some(value) => value,
            None => self.fill(make),
        }
    }

    #[cold]
    fn fill(&self, make: impl FnOnce() -> T) -> &T {
        let _fills = self.fills.lock();
        self.value.get_or_init(make)
    }

    /// Fills the cell. Blocks while another thread does.
    ///
    /// # Errors
    /// The given value, if there is one in the cell.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _fills = self.fills.lock();
        self.value.set(value)
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> Self {
        Self {
            value: OnceLock::from(value),
            fills: Mutex::new(()),
        }
    }
}
