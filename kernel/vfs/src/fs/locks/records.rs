//! Record locks of one file: which owner has which bytes.
//!
//! The locks of one owner are adjacent in the list and sorted by their bytes. They do not overlap,
//! and adjacent ranges of one kind are merged. So each byte has at most one lock of an owner, and a
//! new lock replaces, cuts or splits those it overlaps.

use smallvec::SmallVec;

use super::LockKind;
use crate::Errno;
use crate::event::FileId;

/// Bytes from `first` to `last`, both included. Both are at most `i64::MAX`, which means the end of
/// the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A table of descriptors, by the ID of its locks.
    Table(u64),
    File(FileId),
}

/// Lock that is held, or to be set or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) owner: Owner,
    pub(crate) range: Range,
    /// `Unlock` only for a lock to be released.
    pub(crate) kind: LockKind,
    /// Process that sets it.
    pub(crate) pid: i32,
    /// Open file through which it is set.
    pub(crate) file: FileId,
}

#[derive(Debug, Default)]
pub(crate) struct Records {
    list: Vec<Record>,
}

impl Record {
    fn is_write(&self) -> bool {
        self.kind == LockKind::Write
    }
}

impl Range {
    /// All bytes.
    pub(crate) const ALL: Self = Range {
        first: 0,
        last: i64::MAX as u64,
    };

    fn overlaps(self, other: Range) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Returns true if the ranges overlap or are adjacent.
    fn touches(self, other: Range) -> bool {
        self.first <= other.last + 1 && other.first <= self.last + 1
    }

    /// Returns the parts of this range before and after another.
    fn without(self, other: Range) -> [Option<Range>; 2] {
        let before = (self.first < other.first).then(|| Range {
            first: self.first,
            last: self.last.min(other.first - 1),
        });
        let behind = (self.last > other.last).then(|| Range {
            first: self.first.max(other.last + 1),
            last: self.last,
        });
        [before, behind]
    }
}

impl Records {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Record> {
        self.list.iter()
    }

    /// Returns the first conflicting lock of another owner.
    pub(crate) fn conflict(&self, wanted: &Record) -> Option<&Record> {
        self.list.iter().find(|record| {
            wanted.kind != LockKind::Unlock
                && record.owner != wanted.owner
                && (wanted.is_write() || record.is_write())
                && record.range.overlaps(wanted.range)
        })
    }

    /// Removes the locks that `which` selects. Returns true if there were any.
    pub(crate) fn remove(&mut self, which: impl Fn(&Record) -> bool) -> bool {
        let before = self.list.len();
        self.list.retain(|record| !which(record));
        self.list.len() < before
    }

    /// Sets the wanted lock, in place of the owner's locks on these bytes. There is no conflict.
    /// Returns true if a waiter may be able to go on.
    ///
    /// # Errors
    /// `ENOLCK` if memory runs out; nothing has changed.
    pub(crate) fn apply(&mut self, wanted: &Record) -> Result<bool, Errno> {
        // One for a lock that is split in two, and the new one.
        self.list.try_reserve(2).map_err(|_| Errno::ENOLCK)?;
        let own = self.own_that_touch(wanted);
        let mut merged = wanted.range;
        let (mut before, mut behind) = (None, None);
        let mut frees = false;
        for &old in &self.list[own.clone()] {
            if wanted.kind == old.kind {
                merged.first = merged.first.min(old.range.first);
                merged.last = merged.last.max(old.range.last);
                continue;
            }
            frees |= old.range.overlaps(wanted.range);
            let [left, right] = old.range.without(wanted.range);
            before = left.map(|range| Record { range, ..old }).or(before);
            behind = behind.or(right.map(|range| Record { range, ..old }));
        }
        let new = (wanted.kind != LockKind::Unlock).then_some(Record {
            range: merged,
            ..*wanted
        });
        let parts: SmallVec<[Record; 3]> = [before, new, behind].into_iter().flatten().collect();
        self.list.splice(own, parts);
        Ok(frees)
    }

    /// Returns the indices of the owner's locks that the wanted one overlaps or touches.
    fn own_that_touch(&self, wanted: &Record) -> std::ops::Range<usize> {
        let is_own = |record: &Record| record.owner == wanted.owner;
        let first = self.list.iter().position(is_own).unwrap_or(self.list.len());
        let own = self.list[first..]
            .iter()
            .take_while(|&record| is_own(record));
        let before = own
            .clone()
            .take_while(|record| record.range.last + 1 < wanted.range.first);
        let start = first + before.count();
        let touching = self.list[start..]
            .iter()
            .take_while(|&record| is_own(record) && record.range.touches(wanted.range));
        start..start + touching.count()
    }
}

#[cfg(test)]
mod tests;
