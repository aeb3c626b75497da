//! Listings of open files, as `lsof(8)` prints them: what is open, since when, and its owner.
//!
//! A table knows descriptors and counts. Only the object knows what a file *is*, so objects provide
//! a [`Description`] ([`Describe`]). The table does not know its process either: the caller adds a
//! [label](Listing::labelled) to the rows. So the listing of a whole kernel is the listings of its
//! processes, each with its label, one after another.
//!
//! A listing is a plain value: it holds no reference to a file and no lock. It is taken in steps,
//! while other threads open and close. A file that is open from start to end is listed; a file that
//! is opened or closed meanwhile may be listed or not.
//!
//! Reading order: `description` and `timestamp`, the data from the object; `row`; this file, all
//! rows together; `list`, which takes them from a table or a superblock; `columns`, which prints
//! them; `serialize`, for programs.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::{self, Vec};
use core::slice;

use fdtable::Error;

mod columns;
mod description;
mod list;
mod row;
#[cfg(feature = "serde")]
mod serialize;
mod timestamp;

pub use description::{Describe, Description};
pub use list::List;
pub use row::{Descriptor, Row};
pub use timestamp::Timestamp;

/// Rows that describe open files, from [`List::list`] of a table or a superblock.
///
/// `Display` prints a table for people: a header, and a line for each row; without rows only the
/// header. Unprintable characters are escaped, and nothing is wrapped. Programs read the
/// [rows](Self::rows), or serialize them with the feature `serde`.
///
/// | column | content |
/// |---|---|
/// | OWNER | the label, or else the owner of the description |
/// | FD | the descriptor; for a private one its index and generation |
/// | TYPE | the kind |
/// | MODE | `r` or `w`, the access; `e` for close-on-exec, as in a mode of `fopen(3)` |
/// | REFS | the references |
/// | SINCE | when it was opened, in whole seconds |
/// | SIZE, OFFSET, NODE | size, position and inode, where a row has one |
/// | NAME | the name, and `(revoked)` behind it |
///
/// ```
/// use fdtable_listing::{Describe, Description, List, Listing};
/// use fdtable::{Access, FdFlags, FileRef, Files};
///
/// struct Log;
/// impl Describe for Log {
///     fn describe(&self) -> Description {
///         Description::new("REG", "/var/log/messages").access(Access::Write)
///     }
/// }
///
/// let parent = Files::new();
/// parent.open(FileRef::new(Log), FdFlags::CLOEXEC)?;
/// let child = parent.fork()?;
/// child.close_on_exec(drop)?;
///
/// let mut all = parent.list()?.labelled("pid 7 (syslogd)");
/// all.extend(child.list()?.labelled("pid 8 (cat)"));
/// assert_eq!(
///     all.to_string(),
///     "OWNER            FD  TYPE  MODE  REFS  SINCE  NAME\n\
///      pid 7 (syslogd)   0  REG   we       1  -      /var/log/messages"
/// );
/// # Ok::<(), fdtable::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "lsof")]
pub struct Listing {
    rows: Vec<Row>,
}

impl Listing {
    /// Makes a listing without rows. Does not allocate.
    #[must_use]
    pub const fn new() -> Self {
        Self { rows: Vec::new() }
    }

    /// Returns the rows.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns true if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Labels the rows that have no label yet with their owner. All share one copy of the label.
    /// The conversion may allocate, and then ends the process if there is no memory; an existing
    /// `Arc` does not allocate.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<Arc<str>>) -> Self {
        let label = label.into();
        for row in &mut self.rows {
            row.label.get_or_insert_with(|| Arc::clone(&label));
        }
        self
    }

    /// Appends all rows of another listing, and empties it. Allocates. [`extend`](Self::extend)
    /// takes a listing or any rows, and ends the process if there is no memory.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM); both listings are unchanged.
    pub fn append(&mut self, other: &mut Self) -> Result<(), Error> {
        self.make_room(other.rows.len())?;
        self.rows.append(&mut other.rows);
        Ok(())
    }

    fn push(&mut self, row: Row) -> Result<(), Error> {
        self.make_room(1)?;
        self.rows.push(row);
        Ok(())
    }

    fn make_room(&mut self, rows: usize) -> Result<(), Error> {
        self.rows.try_reserve(rows).map_err(|_| Error::NoMemory)
    }
}

impl IntoIterator for Listing {
    type Item = Row;
    type IntoIter = vec::IntoIter<Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

impl<'l> IntoIterator for &'l Listing {
    type Item = &'l Row;
    type IntoIter = slice::Iter<'l, Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

/// Appends rows. Ends the process if there is no memory; [`Listing::append`] returns an error.
impl Extend<Row> for Listing {
    fn extend<I: IntoIterator<Item = Row>>(&mut self, rows: I) {
        self.rows.extend(rows);
    }
}

/// Makes a listing of rows, such as selected rows of another one. Ends the process if there is no
/// memory.
impl FromIterator<Row> for Listing {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> Self {
        Self {
            rows: rows.into_iter().collect(),
        }
    }
}
