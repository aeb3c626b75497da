//! Waiting for a free descriptor, and for other changes of a table.
//!
//! Threads and tasks wait until a descriptor is free, or a reservation ends. While there are
//! waiters, the fast path is closed, so every change holds the lock of the table. A change that may
//! meet a condition takes the waiters and wakes them after the lock is released. They check again,
//! and wait again if their condition is not met. Without waiters this costs nothing.
//!
//! *No wake-up is lost.* A waiter closes the fast path, and only then checks its condition and
//! joins the list, with the lock of the table. A change that was on the fast path has left it
//! before the check, which sees it. A later change finds the fast path closed, takes the lock, and
//! finds the waiter on the list.

use core::task::{Context, Poll};

use crate::fd::{index_of, place_of};
use crate::rare::{Waiter, Woken, thread};
use crate::table::WriteGuard;
use crate::{Error, FdArg, Files};

/// # Waiting
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Polls for a free descriptor, and wakes the task when one may be free. A free descriptor
    /// wakes all waiters; another thread may take it first, so open, and poll again if that fails.
    /// May wait for the lock, and allocates.
    ///
    /// The waker runs on the thread that frees a descriptor, outside of all locks. A panic of the
    /// waker does not unwind that thread: it is [counted](crate::contained_panics).
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) if there is no memory to register the task, or to search.
    pub fn poll_until_free(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let waiter = Waiter::Task(context.waker().clone());
        match self.ask_or_wait(waiter, |table, writer| table.has_free(writer)) {
            Ok(Some(())) => Poll::Ready(Ok(())),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Waits until a descriptor is free. Another thread may take it first: open, and wait again if
    /// that fails. Blocks, outside of the [freezer](crate::host_fork); must not be called inside a
    /// read-side section.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::with_limit(1);
    /// let fd = files.open(FileRef::new("first"), FdFlags::empty())?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| files.close(fd).unwrap());
    ///     files.wait_until_free()?;
    ///     files.open(FileRef::new("second"), FdFlags::empty())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// Without `std` it blocks by a
    /// [hook](crate::platform::Platform::block) of the kernel.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) as for [`poll_until_free`](Self::poll_until_free).
    pub fn wait_until_free(&self) -> Result<(), Error> {
        self.wait(|table, writer| table.has_free(writer))
    }

    /// Waits until a descriptor is not reserved: a file is installed there, or it is free. For a
    /// caller that got [`Error::Busy`]; another thread may reserve it again first. Blocks, outside
    /// of the [freezer](crate::host_fork); must not be called inside a read-side section, nor by
    /// the holder of the reservation.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let reserved = files.reserve(FdFlags::empty())?;
    /// let fd = reserved.fd();
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| reserved.install(FileRef::new("log")));
    ///     files.wait_while_reserved(fd)
    /// })?;
    /// assert_eq!(*files.get(fd)?, "log");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) if there is no memory to register the thread.
    pub fn wait_while_reserved(&self, fd: impl FdArg) -> Result<(), Error> {
        let number = index_of(fd.to_raw());
        self.wait(|_, writer| Ok((!is_reserved(writer, number)).then_some(())))
    }

    /// Waits until `ask` returns a value. It is called with the lock of the table held.
    fn wait<R>(
        &self,
        ask: impl Fn(&Self, &mut WriteGuard<'_, T>) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        loop {
            let thread = Waiter::Thread(thread::current());
            if let Some(answer) = self.ask_or_wait(thread, &ask)? {
                return Ok(answer);
            }
            // A fork of the host need not wait for a sleeping thread.
            #[cfg(feature = "std")]
            let _out = crate::host_fork::blocking_section();
            // Returns at once if another thread has woken this one since, or spuriously.
            thread::park();
        }
    }
}

/// Returns true if a descriptor is reserved. One in quarantine is not.
fn is_reserved<T: ?Sized + Send + Sync>(writer: &WriteGuard<'_, T>, number: usize) -> bool {
    let (index, bit) = place_of(number);
    writer
        .leaf(index)
        .is_some_and(|leaf| leaf.open.test(bit) && !leaf.has(bit))
        && (writer.rare.as_ref())
            .is_none_or(|it| it.quarantine.count(|waiting| waiting == number) == 0)
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Calls `ask`. If it returns nothing, registers `waiter`, to be woken after the next change.
    /// Returns an error of `ask` unchanged.
    fn ask_or_wait<R>(
        &self,
        waiter: Waiter,
        ask: impl FnOnce(&Self, &mut WriteGuard<'_, T>) -> Result<Option<R>, Error>,
    ) -> Result<Option<R>, Error> {
        // Dropped after the lock.
        let mut waiter = Some(waiter);
        let mut writer = self.tree.write();
        // Shut before `ask`: a change that comes after it sees the waiter.
        writer.exclude_readers();
        let answer = ask(self, &mut writer);
        if matches!(answer, Ok(None)) {
            let first = !writer.is_awaited();
            match (writer.make_rare()).and_then(|rare| rare.waiters.add(&mut waiter)) {
                // It stays shut until the waiters are taken.
                Ok(()) if first => return answer,
                Ok(()) => {}
                Err(error) => {
                    writer.admit_readers();
                    return Err(error.into());
                }
            }
        }
        writer.admit_readers();
        answer
    }

    /// Releases the lock after a change, and wakes all waiters.
    pub(crate) fn release_and_wake(mut writer: WriteGuard<'_, T>) {
        let woken = Self::take_waiters(&mut writer);
        drop(writer);
        drop(woken);
    }

    /// Takes all waiters after a change.
    pub(crate) fn take_waiters(writer: &mut WriteGuard<'_, T>) -> Woken {
        if !writer.is_awaited() {
            return Woken::none();
        }
        writer.admit_readers();
        (writer.rare.as_mut()).map_or_else(Woken::none, |rare| rare.waiters.take())
    }
}
