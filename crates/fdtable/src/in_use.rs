//! Closing descriptors in use: return at once, as on Linux, or wait, as on NetBSD.
//!
//! [`Files::close`] returns at once: threads that are using the file continue with their
//! references, at a descriptor that may already be reused. Where that is not acceptable, users of a
//! descriptor register ([`Files::begin_use`]), and the closer waits for them
//! ([`Files::close_and_wait`]). It waits only for registered uses, which are counted with the lock
//! of the table held: a table without waiting closes pays nothing.

use alloc::vec::Vec;
use core::ops::Deref;

use fdtable_objects::free_hint::Reports;
use fdtable_objects::object::SlotRef;
use fdtable_sync::unwind;

use crate::close::take_file;
use crate::fd::place_of;
use crate::table::WriteGuard;
use crate::{Error, Fd, FdArg, FileRef, Files, RawFd};

/// A registered use of a descriptor. It ends when this is dropped.
///
/// It holds a reference to the file, and stays usable when the descriptor is closed meanwhile.
#[derive(Debug)]
#[must_use = "the use ends when this is dropped"]
#[doc(alias = "fd_getfile")]
#[doc(alias = "fd_putfile")]
pub struct InUse<'f, T: ?Sized + Send + Sync> {
    files: &'f Files<T>,
    fd: Fd,
    /// Always present until the use ends: the file is dropped before.
    file: Option<FileRef<T>>,
}

/// # Closing what is in use
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Finds the file of a descriptor, and registers a use of it.
    /// [`close_and_wait`](Self::close_and_wait) waits for the end of the use. May wait for the
    /// lock, and allocates.
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open.
    /// - [`Error::Revoked`] (EIO) if the file was [revoked](FileRef::revoke).
    /// - [`Error::NoMemory`] (ENOMEM) if there is no memory to count the use.
    pub fn begin_use(&self, fd: impl FdArg) -> Result<InUse<'_, T>, Error> {
        let fd = Fd::new(fd.to_raw())?;
        let mut writer = self.tree.write();
        let file = self.get_even_revoked(fd.raw())?;
        if FileRef::is_revoked(&file) {
            // The reference is dropped after the lock is released.
            drop(writer);
            return Err(Error::Revoked);
        }
        let counted = writer.in_use.add(fd.index());
        drop(writer);
        counted?;
        Ok(InUse {
            files: self,
            fd,
            file: Some(file),
        })
    }

    /// Closes a descriptor, and waits until every [use](Self::begin_use) of it has ended. Then it
    /// frees the descriptor and drops the table's reference. From the beginning lookups return
    /// EBADF, and `dup3` onto it returns EBUSY. Blocks, outside of the [freezer](crate::host_fork).
    /// A thread that calls it while it has a use of the descriptor itself waits forever.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new(vec![1, 2, 3]), FdFlags::empty())?;
    /// std::thread::scope(|scope| {
    ///     let reader = files.begin_use(fd)?;
    ///     scope.spawn(move || assert_eq!(reader.len(), 3));
    ///     files.close_and_wait(fd)
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) and [`Error::NoMemory`] (ENOMEM) as for [`close`](Self::close);
    ///   the descriptor stays open.
    /// - [`Error::NoMemory`] (ENOMEM) also if there is no memory to wait; the descriptor is closed
    ///   then, as by `close`.
    pub fn close_and_wait(&self, fd: impl FdArg) -> Result<(), Error> {
        let (fd, file) = self.close_to_reserved(fd.to_raw())?;
        let waited = self.wait(|table, writer| Ok(table.is_unused(writer, fd).then_some(())));
        self.unreserve_closed(fd);
        drop(file);
        waited
    }
}

impl<T: ?Sized + Send + Sync> InUse<'_, T> {
    /// Returns the descriptor at which the use began.
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// Returns a reference to the file, which may outlive the use.
    #[must_use]
    pub fn file(&self) -> FileRef<T> {
        self.reference().clone()
    }

    fn reference(&self) -> &FileRef<T> {
        self.file.as_ref().expect("it is dropped with the use")
    }
}

impl<T: ?Sized + Send + Sync> Deref for InUse<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.reference()
    }
}

impl<T: ?Sized + Send + Sync> Drop for InUse<'_, T> {
    fn drop(&mut self) {
        let file = self.file.take();
        unwind::both(
            // First, so that a thread that waits for the end of the use finds the reference
            // dropped.
            || drop(file),
            || self.files.end_use(self.fd),
        );
    }
}

/// The number of uses of each descriptor.
#[derive(Default)]
pub(crate) struct UseCounts {
    /// Short: a thread uses one or two at once.
    numbers: Vec<(usize, usize)>,
}

impl UseCounts {
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    fn count(&self, number: usize) -> usize {
        self.numbers
            .iter()
            .find(|&&(used, _)| used == number)
            .map_or(0, |&(_, count)| count)
    }

    fn add(&mut self, number: usize) -> Result<(), Error> {
        if let Some((_, count)) = self.numbers.iter_mut().find(|(used, _)| *used == number) {
            *count += 1;
            return Ok(());
        }
        self.numbers.try_reserve(1).map_err(|_| Error::NoMemory)?;
        self.numbers.push((number, 1));
        Ok(())
    }

    fn remove(&mut self, number: usize) {
        if let Some(at) = self.numbers.iter().position(|&(used, _)| used == number) {
            self.numbers[at].1 -= 1;
            if self.numbers[at].1 == 0 {
                self.numbers.swap_remove(at);
            }
        }
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Ends a use.
    fn end_use(&self, fd: Fd) {
        let mut writer = self.tree.write();
        writer.in_use.remove(fd.index());
        let woken = Self::take_waiters(&mut writer);
        drop(writer);
        drop(woken);
    }

    /// Removes the file of an open descriptor, and leaves the descriptor reserved.
    fn close_to_reserved(&self, fd: RawFd) -> Result<(Fd, SlotRef<T>), Error> {
        let checked = Fd::new(fd)?;
        let (index, bit) = place_of(checked.index());
        let mut writer = self.tree.write();
        if writer.leaf(index).is_none_or(|leaf| leaf.is_vacant(bit)) {
            return Err(Error::BadFd);
        }
        writer.reserved.prepare(1)?;
        self.make_writable(&mut writer, index)?;
        let file = {
            let mut leaf = writer.lock_leaf(index).ok_or(Error::BadFd)?;
            // The descriptor stays taken.
            let ((file, _), _) = take_file(&mut leaf, bit, None, |_| Reports::Few)?;
            file
        };
        writer.reserved.add(index);
        Ok((checked, file))
    }

    /// Returns true if a descriptor has no registered use.
    fn is_unused(&self, writer: &WriteGuard<'_, T>, fd: Fd) -> bool {
        writer.in_use.count(fd.index()) == 0
    }
}
