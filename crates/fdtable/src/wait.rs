//! Waiting for a free descriptor.
//!
//! While tasks wait, the fast path is closed, so every change holds the lock of the table. A change
//! that frees a descriptor takes the waiters and wakes them after the lock is released. They check
//! again, and wait again if another thread was faster. Without waiters this costs nothing.
//!
//! *No wake-up is lost.* A waiter closes the fast path, and only then checks for a free descriptor
//! and joins the list, with the lock of the table. A close that was on the fast path has left it
//! before the check, which sees the free descriptor. A later close finds the fast path closed,
//! takes the lock, and finds the waiter on the list.

use core::task::{Context, Poll, Waker};

use crate::rare::Woken;
use crate::table::WriteGuard;
use crate::{Error, Files};

/// # Waiting
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Polls for a free descriptor, and wakes the task when one may be free. A free descriptor
    /// wakes all waiters; another thread may take it first, so open, and poll again if that fails.
    /// May wait for the lock, and allocates.
    ///
    /// The waker runs on the thread that frees a descriptor, outside of all locks. A panic of the
    /// waker does not unwind that thread: it is [counted](crate::contained_panics). To block a
    /// thread, pass a waker that unparks it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::task::{Context, Wake, Waker};
    /// use std::thread::{self, Thread};
    ///
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// struct Unpark(Thread);
    ///
    /// impl Wake for Unpark {
    ///     fn wake(self: Arc<Self>) {
    ///         self.0.unpark();
    ///     }
    /// }
    ///
    /// let files = Files::with_limit(1);
    /// let fd = files.open(FileRef::new("first"), FdFlags::empty())?;
    /// let waker = Waker::from(Arc::new(Unpark(thread::current())));
    /// thread::scope(|scope| {
    ///     scope.spawn(|| files.close(fd).unwrap());
    ///     while files.poll_until_free(&mut Context::from_waker(&waker))?.is_pending() {
    ///         thread::park();
    ///     }
    ///     files.open(FileRef::new("second"), FdFlags::empty())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) if there is no memory to register the task, or to search.
    pub fn poll_until_free(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        // Dropped after the lock, if it is not registered.
        let mut waker = Some(context.waker().clone());
        let mut writer = self.tree.write();
        match self.check_or_wait(&mut writer, &mut waker) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Returns true if a descriptor is free, or registers the waker.
    fn check_or_wait(
        &self,
        writer: &mut WriteGuard<'_, T>,
        waker: &mut Option<Waker>,
    ) -> Result<bool, Error> {
        // Before the check: a close that comes after it sees the waiter.
        writer.exclude_readers();
        let free = self.has_free(writer);
        if free == Ok(false) {
            let first = !writer.is_awaited();
            match (writer.make_rare()).and_then(|rare| rare.waiters.add(waker)) {
                // The fast path stays closed until the waiters are taken.
                Ok(()) if first => return Ok(false),
                Ok(()) => {}
                Err(error) => {
                    writer.admit_readers();
                    return Err(error.into());
                }
            }
        }
        writer.admit_readers();
        free
    }

    /// Releases the lock after a descriptor was freed, and wakes all waiters.
    pub(crate) fn release_and_wake(mut writer: WriteGuard<'_, T>) {
        let woken = Self::take_waiters(&mut writer);
        drop(writer);
        drop(woken);
    }

    /// Takes all waiters after a descriptor was freed.
    pub(crate) fn take_waiters(writer: &mut WriteGuard<'_, T>) -> Woken {
        if !writer.is_awaited() {
            return Woken::none();
        }
        writer.admit_readers();
        (writer.rare.as_mut()).map_or_else(Woken::none, |rare| rare.waiters.take())
    }
}
