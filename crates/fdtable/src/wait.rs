//! Waiting for a number.
//!
//! While somebody waits, opens and closes of the table wait for one lock; otherwise waiting costs
//! those who do not wait nothing.

use core::task::{Context, Poll};

use crate::table::Waiter;
#[cfg(feature = "std")]
use crate::table::{FdTable, Structure};
use crate::{Error, Files};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Tells whether a number is free, and has the task woken when one may be, if none is. All who
    /// wait are woken; another thread may take it first. May wait for the lock.
    ///
    /// The waker runs on the thread that frees a number, outside of all locks. A panic of it does
    /// not come out there: it is [counted](crate::contained_panics).
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) if there is no memory to remember the task, or to look.
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

    /// Waits until a number is free. Somebody else may take it first: open, and wait again if that
    /// fails. Blocks, outside of the [freezer](crate::freezer); must not be called inside a
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
    /// [`Error::NoMemory`] (ENOMEM) as [`poll_free`](Self::poll_free).
    #[cfg(feature = "std")]
    pub fn wait_free(&self) -> Result<(), Error> {
        self.wait(|table, structure| table.has_free(structure))
    }

    /// Waits until `ask` has an answer. It is asked with the lock of the structure held.
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
            // A fork of the host need not wait for who sleeps.
            let _out = crate::freezer::step_out();
            // Returns at once if somebody has woken this thread since; or for no reason.
            std::thread::park();
        }
    }
}
