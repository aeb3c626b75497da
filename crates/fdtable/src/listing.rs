//! Listings of open files, as `lsof(8)` prints them: what is open, by whom, since when.
//!
//! A table knows numbers and counts. What a file *is* only its object can tell, so objects that are
//! to be listed are asked for a [`Description`] ([`Describe`]). Whose table it is the table does
//! not know either: who lists it puts a [label](Listing::labelled) on the rows. So the listing of a
//! whole kernel is the listings of its processes, each with its label, one after another.
//!
//! A listing is a value of its own: it holds no reference to a file and no lock. It is taken in
//! steps, while others open and close. What is open before and after is listed; what is opened or
//! closed meanwhile may be or not.
//!
//! Reading order: `description` and `timestamp`, what an object tells; `row`; this file, the rows
//! together; `list`, how they are taken from a table or a superblock; `columns`, how they are
//! printed; `serialize`, for programs.

use alloc::sync::Arc;
use alloc::vec::{self, Vec};
use core::slice;

use crate::Error;

mod columns;
mod description;
mod list;
mod row;
#[cfg(feature = "serde")]
mod serialize;
mod timestamp;

pub use description::{Describe, Description};
pub use row::{Descriptor, Row};
pub use timestamp::Timestamp;

/// Rows about open files, from [`Files::list`](crate::Files::list),
/// [`PrivateFiles::list`](crate::PrivateFiles::list) and
/// [`SuperBlock::list`](crate::SuperBlock::list).
///
/// It is printed as a table, for people: a header, and a line for each row; without rows the header
/// alone. Characters that do not print are escaped, and nothing is wrapped. Programs look at the
/// [rows](Self::rows), or serialize them with the feature `serde`.
///
/// | column | what it says |
/// |---|---|
/// | OWNER | the label, or else the owner of the description |
/// | FD | the number; of a private descriptor also the generation |
/// | TYPE | the kind |
/// | MODE | `r` or `w`, the access; `e` for close-on-exec, as in a mode of `fopen(3)` |
/// | REFS | the references |
/// | SINCE | when it was opened, in whole seconds |
/// | SIZE, OFFSET, NODE | size, position and inode, where a row has one |
/// | NAME | the name, and `(revoked)` behind it |
///
/// ```
/// use fdtable::listing::{Describe, Description, Listing};
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
/// child.exec()?;
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

    /// Tells whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Labels the rows that have no label yet: whose these are. All share one copy of it. The
    /// conversion may allocate, and then ends the process if there is no memory; an `Arc` that
    /// exists already does not.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<Arc<str>>) -> Self {
        let label = label.into();
        for row in &mut self.rows {
            row.label.get_or_insert_with(|| Arc::clone(&label));
        }
        self
    }

    /// Moves all rows of another listing behind these. Allocates. [`extend`](Self::extend) does the
    /// same with a listing or with any rows, and ends the process where this has an error.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM); both are as they were.
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

/// Puts rows behind these. Ends the process if there is no memory; [`Listing::append`] has an
/// error.
impl Extend<Row> for Listing {
    fn extend<I: IntoIterator<Item = Row>>(&mut self, rows: I) {
        self.rows.extend(rows);
    }
}

/// Makes a listing of rows, such as those of another that were chosen. Ends the process if there is
/// no memory.
impl FromIterator<Row> for Listing {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> Self {
        Self {
            rows: rows.into_iter().collect(),
        }
    }
}
