//! Taking a listing: the files are found one by one, and each is described through a reference.

use fdtable::{Error, Files, PrivateFiles, SuperBlock};

use crate::{Describe, Descriptor, Listing, Row};

/// A table or a superblock whose open files can be listed.
pub trait List {
    /// Lists the open files. Each implementation says in which order, which references it holds
    /// meanwhile, and which locks. Allocates.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM).
    fn list(&self) -> Result<Listing, Error>;
}

/// Lists the open descriptors in ascending order, also those of revoked files. Reserved descriptors
/// have no row. Waits and takes references as [`Files::iter`] does.
///
/// It holds a reference to one file at a time. If that becomes the last one, because the descriptor
/// is closed meanwhile, the release hook runs here.
impl<T: ?Sized + Send + Sync + Describe> List for Files<T> {
    fn list(&self) -> Result<Listing, Error> {
        let mut listing = Listing::new();
        for (fd, file, data) in self.iter() {
            let flags = data.flags;
            listing.push(Row::new(Some(Descriptor::Fd { fd, flags }), &file))?;
        }
        Ok(listing)
    }
}

/// Lists the open descriptors in the order of their indexes, also those of revoked files. May wait
/// for a lock at the start. It holds references like the list of [`Files`].
impl<T: ?Sized + Send + Sync + Describe> List for PrivateFiles<T> {
    fn list(&self) -> Result<Listing, Error> {
        let mut listing = Listing::new();
        for (fd, file) in self.iter() {
            listing.push(Row::new(Some(Descriptor::Private(fd)), &file))?;
        }
        Ok(listing)
    }
}

/// Lists the files that are open, as an atomic [`snapshot`](SuperBlock::snapshot), across all
/// tables. Before an unmount, or after a refused one, it shows which files prevent it. Files are
/// sorted by the time of their opening; those without a time come first. Holds the locks of all
/// CPUs' lists for a walk over all of them.
///
/// It holds references to all files at once, and drops them one by one. If one of them is the
/// last by then, the release hook runs here.
///
/// ```
/// use fdtable_listing::{Describe, Description, List};
/// use fdtable::{Access, Error, FdFlags, FileRef, Files, SuperBlock};
///
/// struct Log;
/// impl Describe for Log {
///     fn describe(&self) -> Description {
///         Description::new("REG", "log").owner("pid 7 (syslogd)")
///     }
/// }
///
/// let superblock = SuperBlock::new()?;
/// let files = Files::new();
/// let log = FileRef::builder(Log).on(&superblock, Access::Write).try_build()?;
/// files.open(log, FdFlags::empty())?;
/// assert_eq!(superblock.unmount(), Err(Error::Busy));
/// let leaked = superblock.list()?;
/// assert_eq!(leaked.rows()[0].owner(), Some("pid 7 (syslogd)"));
///
/// superblock.revoke()?;
/// assert!(superblock.list()?.is_empty());
/// superblock.unmount()?;
/// # Ok::<(), Error>(())
/// ```
impl<T: ?Sized + Describe> List for SuperBlock<T> {
    fn list(&self) -> Result<Listing, Error> {
        let mut listing = Listing::new();
        let files = self.snapshot()?;
        listing.make_room(files.len())?;
        for file in files {
            listing.push(Row::new(None, &file))?;
        }
        // The order of the CPUs' lists means nothing.
        listing.rows.sort_unstable_by(|a, b| {
            let (a, b) = (&a.description, &b.description);
            a.since.cmp(&b.since).then_with(|| a.name.cmp(&b.name))
        });
        Ok(listing)
    }
}
