//! A spare descriptor, for loops that accept connections.
//!
//! When no descriptor is free, `accept` fails, the connection stays in the queue, and the loop
//! spins. The usual remedy is to keep a descriptor of `/dev/null` open, and to close it in that
//! case: then the connection can be accepted, and closed at once. Here the descriptor is reserved
//! instead.

use crate::{Error, Fd, FdFlags, FileRef, Files, Reservation};

/// A descriptor that is kept reserved, for when no other is free. Dropping it frees the descriptor.
///
/// ```
/// use fdtable::{Error, FdFlags, FileRef, Files, Opened};
///
/// let files: Files<&str> = Files::with_limit(2);
/// let mut spare = files.spare(FdFlags::CLOEXEC)?;
/// let accept = |spare: &mut fdtable::Spare<'_, _>| spare.open(FileRef::new("connection"));
/// assert!(matches!(accept(&mut spare)?, Opened::Free(_)));
/// // All others are taken: ask this client to come back later.
/// let Opened::Spare(fd) = accept(&mut spare)? else { panic!("no other is free") };
/// drop(files.close(fd)?);
/// // The descriptor is reserved again.
/// assert!(matches!(accept(&mut spare)?, Opened::Spare(_)));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Spare<'f, T: ?Sized + Send + Sync> {
    files: &'f Files<T>,
    flags: FdFlags,
    kept: Option<Reservation<'f, T>>,
}

/// The descriptor at which a file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a file at the spare descriptor is to be closed soon"]
pub enum Opened {
    /// A free descriptor.
    Free(Fd),
    /// The spare descriptor: no other was free.
    Spare(Fd),
}

/// # A spare descriptor
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Reserves a spare descriptor with these flags. May wait for the lock, and allocates when the
    /// table grows.
    ///
    /// # Errors
    /// EINVAL, EMFILE and ENOMEM as for [`reserve`](Self::reserve).
    pub fn spare(&self, flags: FdFlags) -> Result<Spare<'_, T>, Error> {
        Ok(Spare {
            files: self,
            flags,
            kept: Some(self.reserve(flags)?),
        })
    }
}

impl<T: ?Sized + Send + Sync> Spare<'_, T> {
    /// Opens `file` at the lowest free descriptor, or else at the spare one. If the spare one was
    /// used, it first reserves a new one. May wait for the lock, and allocates when the table
    /// grows.
    ///
    /// Once the spare descriptor is used and closed, it is free like others until the next call:
    /// another thread may take it, or find it by [`poll_until_free`](Files::poll_until_free). To
    /// reserve it again at once, make another [`spare`](Files::spare) after the close.
    ///
    /// # Errors
    /// - [`Error::TooManyFiles`] (EMFILE) if no descriptor is free, and the spare one is in use.
    ///   The file is dropped.
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
