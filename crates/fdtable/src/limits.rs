//! Limits: `RLIMIT_NOFILE` of `getrlimit(2)`.

use crate::table::MAX_LIMIT;
use crate::{Error, Files};

/// The soft and the hard limit of a table. New descriptors are below the soft limit, which can be
/// set up to the hard one. Both are 0 to 2^31; more counts as 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "rlimit")]
pub struct Limits {
    /// Exclusive upper bound for new descriptors.
    pub soft: u32,
    /// Inclusive upper bound for the soft limit.
    pub hard: u32,
}

/// # Limits
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Returns the soft limit: new descriptors are below it. Takes no lock, neither blocks nor
    /// allocates, and may be called inside a read-side section.
    #[doc(alias = "RLIMIT_NOFILE")]
    pub fn limit(&self) -> u32 {
        // At most 2^31.
        self.free_hint.limit() as u32
    }

    /// Sets the soft limit. Descriptors at or above it stay open. Threads that [wait for a free
    /// descriptor](Self::wait_until_free) check again. May wait for the lock.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] (EINVAL) if it is above the hard limit.
    pub fn set_limit(&self, soft: u32) -> Result<(), Error> {
        self.change_limits(soft, None)
    }

    /// Returns both limits. May wait for the lock.
    pub fn limits(&self) -> Limits {
        let writer = self.tree.write();
        // Both are at most 2^31.
        Limits {
            soft: self.free_hint.limit() as u32,
            hard: writer.hard_limit as u32,
        }
    }

    /// Sets both limits, like [`set_limit`](Self::set_limit). The caller decides which process may
    /// raise the hard limit: `setrlimit(2)` allows it only to a privileged one. May wait for the
    /// lock.
    ///
    /// ```
    /// use fdtable::{Error, Files, Limits};
    ///
    /// let files: Files<()> = Files::new();
    /// files.set_limits(Limits { soft: 256, hard: 4096 })?;
    /// files.set_limit(4096)?;
    /// assert_eq!(files.set_limit(4097), Err(Error::InvalidArgument));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] (EINVAL) if the soft limit is above the hard one.
    #[doc(alias = "setrlimit")]
    pub fn set_limits(&self, limits: Limits) -> Result<(), Error> {
        self.change_limits(limits.soft, Some(limits.hard))
    }

    /// Sets the soft limit, and the hard one if one is given.
    fn change_limits(&self, soft: u32, hard: Option<u32>) -> Result<(), Error> {
        let soft = (soft as usize).min(MAX_LIMIT);
        let mut writer = self.tree.write();
        let hard = hard.map_or(writer.hard_limit, |hard| (hard as usize).min(MAX_LIMIT));
        if soft > hard {
            return Err(Error::InvalidArgument);
        }
        writer.hard_limit = hard;
        self.free_hint.set_limit(soft);
        // Opens look only at leaves below it.
        self.drain_and_hint(&mut writer);
        // There may be free descriptors below the new limit.
        Self::release_and_wake(writer);
        Ok(())
    }
}
