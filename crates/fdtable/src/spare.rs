//! A spare number, for loops that accept connections.
//!
//! When no number is free, `accept` fails, the connection stays in the queue, and the loop spins.
//! The classic cure keeps a descriptor of `/dev/null` open, to be closed in that case: then the
//! connection can be accepted, and closed at once. Here the number is reserved instead.

use crate::{Error, Fd, FdFlags, FileRef, Files, Reservation};

/// A number that is kept back for the case that no other is free. Dropping it frees the number.
///
/// ```
/// use fdtable::{Error, FdFlags, FileRef, Files, Opened};
///
/// let files: Files<&str> = Files::with_limit(2);
/// let mut spare = files.spare(FdFlags::CLOEXEC)?;
/// let accept = |spare: &mut fdtable::Spare<'_, _>| spare.open(FileRef::new("connection"));
/// assert!(matches!(accept(&mut spare)?, Opened::Free(_)));
/// // All numbers are taken: this one is told to come back later.
/// let Opened::Spare(fd) = accept(&mut spare)? else { panic!("no other is free") };
/// files.close(fd)?;
/// // The number is kept back again.
/// assert!(matches!(accept(&mut spare)?, Opened::Spare(_)));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Spare<'f, T: ?Sized + Send + Sync> {
    files: &'f Files<T>,
    flags: FdFlags,
    kept: Option<Reservation<'f, T>>,
}

/// Under which number a file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a file under the spare number is to be closed soon"]
pub enum Opened {
    /// One that was free.
    Free(Fd),
    /// The spare one: no other was free.
    Spare(Fd),
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Keeps a number back, for descriptors with these flags. As [`reserve`](Self::reserve).
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn spare(&self, flags: FdFlags) -> Result<Spare<'_, T>, Error> {
        Ok(Spare {
            files: self,
            flags,
            kept: Some(self.reserve(flags)?),
        })
    }
}

impl<T: ?Sized + Send + Sync> Spare<'_, T> {
    /// Opens `file` under the lowest free number, or under the spare one if no other is free. First
    /// keeps a number back again, if the spare one was used and one is free. May wait for the
    /// lock, and allocates when the table grows.
    ///
    /// # Errors
    /// - [`Error::TooManyFiles`] (EMFILE) if no number is free, and the spare one is in use. The
    ///   file is dropped.
    /// - [`Error::NoMemory`] (ENOMEM) if the table cannot grow. The file is dropped.
    pub fn open(&mut self, file: FileRef<T>) -> Result<Opened, Error> {
        if self.kept.is_none() {
            self.kept = Some(self.files.reserve(self.flags)?);
        }
        match self.files.reserve(self.flags) {
            Ok(free) => Ok(Opened::Free(free.install(file))),
            Err(Error::TooManyFiles) => {
                let spare = self.kept.take().ok_or(Error::TooManyFiles)?;
                Ok(Opened::Spare(spare.install(file)))
            }
            Err(error) => Err(error),
        }
    }
}
