//! Waiting for a free descriptor.
//!
//! While a thread or task waits, opens and closes of the table wait for one lock. While none waits,
//! the feature costs nothing.

use core::task::{Context, Poll};

use crate::table::Waiter;
#[cfg(feature = "std")]
use crate::table::{FdTable, Structure};
use crate::{Error, Files};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Polls for a free descriptor, and wakes the task when one may be free. A free descriptor
    /// wakes all waiters; another thread may take it first. May wait for the lock, and allocates.
    ///
    /// The waker runs on the thread that frees a descriptor, outside of all locks. A panic of the
    /// waker does not unwind that thread: it is [counted](crate::contained_panics).
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) if there is no memory to register the task, or to search.
    pub fn poll_free(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let waiter = Waiter::Task(context.waker().clone());
        match self
            .table
            .ask_or_wait(waiter, |table, structure| table.has_free(structure))
        {
            Ok(Some(())) => Poll::Ready(Ok(())),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Waits until a descriptor is free. Another thread may take it first: open, and wait again if
    /// that fails. Blocks, outside of the [freezer](crate::freezer); must not be called inside a
    /// read-side section.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::with_limit(1);
    /// let fd = files.open(FileRef::new("first"), FdFlags::empty())?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| files.close(fd).unwrap());
    ///     files.wait_free()?;
    ///     files.open(FileRef::new("second"), FdFlags::empty())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) as for [`poll_free`](Self::poll_free).
    #[cfg(feature = "std")]
    pub fn wait_free(&self) -> Result<(), Error> {
        self.wait(|table, structure| table.has_free(structure))
    }

    /// Waits until `ask` returns a value. It is called with the lock of the structure held.
    #[cfg(feature = "std")]
    pub(crate) fn wait<R>(
        &self,
        ask: impl Fn(&FdTable<T>, &mut Structure<'_, T>) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        loop {
            let thread = Waiter::Thread(std::thread::current());
            if let Some(answer) = self.table.ask_or_wait(thread, &ask)? {
                return Ok(answer);
            }
            // A fork of the host need not wait for a sleeping thread.
            let _out = crate::freezer::step_out();
            // Returns at once if another thread has woken this one since, or spuriously.
            std::thread::park();
        }
    }
}
