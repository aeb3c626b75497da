//! The common table of today's programs: a lock around a vector of `Arc`s, and a heap of free
//! descriptors.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Deref;
use std::os::fd::RawFd;
use std::sync::Arc;

use fdtable::{Error, FdFlags};
use parking_lot::{RwLock, RwLockReadGuard};

/// Bits of a word of a bitmap.
const WORD: usize = u64::BITS as usize;

/// Table of `Arc`s in a `Vec` under a reader-writer lock.
pub type RwLockVec<T> = LockedVec<Arc<T>>;

/// Table of references of any kind in a `Vec` under a reader-writer lock.
///
/// The free descriptors are in a heap, so that the lowest is found in logarithmic time: better than
/// the linear search of most programs.
#[derive(Debug)]
pub struct LockedVec<R> {
    state: RwLock<State<R>>,
    limit: u32,
}

/// Read lock of a [`LockedVec`], for several lookups.
#[derive(Debug)]
pub struct HeldVec<'t, R>(RwLockReadGuard<'t, State<R>>);

/// State of a table, for either lock.
#[derive(Debug)]
pub(crate) struct State<R> {
    slots: Vec<Option<R>>,
    /// Descriptors below `slots.len()` whose slot is empty.
    free: BinaryHeap<Reverse<u32>>,
    /// Bits of the descriptors that close on exec. As long as it ever had to be; the bits of free
    /// descriptors are clear.
    close_on_exec: Vec<u64>,
}

impl<R: Deref + Clone> LockedVec<R> {
    /// Creates an empty table for descriptors below `limit`.
    pub fn with_limit(limit: u32) -> Self {
        LockedVec {
            state: RwLock::default(),
            limit,
        }
    }

    /// Installs `file` at the lowest free descriptor.
    ///
    /// # Errors
    /// `EMFILE` if every descriptor below the limit is open.
    #[inline]
    pub fn open(&self, file: R) -> Result<RawFd, Error> {
        self.state.write().open(file, self.limit)
    }

    /// Installs two files at the two lowest free descriptors, or none of them.
    ///
    /// # Errors
    /// `EMFILE` if there are not two below the limit.
    #[inline]
    pub fn open_pair(&self, one: R, other: R) -> Result<(RawFd, RawFd), Error> {
        let mut state = self.state.write();
        let first = state.open(one, self.limit)?;
        match state.open(other, self.limit) {
            Ok(second) => Ok((first, second)),
            Err(error) => {
                let one = state.take(first);
                drop(state);
                drop(one);
                Err(error)
            }
        }
    }

    /// Duplicates `fd` to the lowest free descriptor, under one lock.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open; `EMFILE` if every descriptor below the limit is open.
    #[inline]
    pub fn dup(&self, fd: RawFd) -> Result<RawFd, Error> {
        let mut state = self.state.write();
        let file = state.file(fd)?.clone();
        state.open(file, self.limit)
    }

    /// Returns a reference of the caller's own, taken under the read lock.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn get(&self, fd: RawFd) -> Result<R, Error> {
        self.state.read().file(fd).cloned()
    }

    /// Calls `f` with the file under the read lock.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn with<A>(&self, fd: RawFd, f: impl FnOnce(&R::Target) -> A) -> Result<A, Error> {
        self.state.read().file(fd).map(|file| f(file))
    }

    /// Takes the read lock for several lookups.
    #[inline]
    pub fn hold(&self) -> HeldVec<'_, R> {
        HeldVec(self.state.read())
    }

    /// Empties the slot, and drops its reference after it has released the lock.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn close(&self, fd: RawFd) -> Result<(), Error> {
        let file = self.state.write().take(fd)?;
        drop(file);
        Ok(())
    }

    /// Empties the slot and returns its reference.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn take(&self, fd: RawFd) -> Result<R, Error> {
        self.state.write().take(fd)
    }

    /// Copies the table, with a reference to each open file, under the read lock.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.state.read();
        LockedVec {
            state: RwLock::new(State {
                slots: state.slots.clone(),
                free: state.free.clone(),
                close_on_exec: state.close_on_exec.clone(),
            }),
            limit: self.limit,
        }
    }

    /// Returns the flags of a descriptor.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn flags(&self, fd: RawFd) -> Result<FdFlags, Error> {
        let state = self.state.read();
        state.file(fd)?;
        let (word, bit) = place(fd);
        let is_set = (state.close_on_exec.get(word)).is_some_and(|word| word & bit != 0);
        Ok(if is_set {
            FdFlags::CLOEXEC
        } else {
            FdFlags::empty()
        })
    }

    /// Sets the flags of a descriptor.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn set_flags(&self, fd: RawFd, flags: FdFlags) -> Result<(), Error> {
        let mut state = self.state.write();
        state.file(fd)?;
        let (word, bit) = place(fd);
        if flags.contains(FdFlags::CLOEXEC) {
            if word >= state.close_on_exec.len() {
                state.close_on_exec.resize(word + 1, 0);
            }
            state.close_on_exec[word] |= bit;
        } else if let Some(word) = state.close_on_exec.get_mut(word) {
            *word &= !bit;
        }
        Ok(())
    }

    /// Closes the descriptors that close on exec. Drops the references after it has released the
    /// lock.
    pub fn exec(&self) {
        let mut closed = Vec::new();
        let mut state = self.state.write();
        for word in 0..state.close_on_exec.len() {
            while state.close_on_exec[word] != 0 {
                let bit = state.close_on_exec[word].trailing_zeros() as usize;
                closed.extend(state.take((word * WORD + bit) as RawFd));
            }
        }
        drop(state);
        drop(closed);
    }

    /// Installs `file` at the free descriptor `fd` and extends the vector for it (`dup2`).
    ///
    /// # Errors
    /// `EBADF` if `fd` is at or past the limit, `EBUSY` if it is below the end of the vector: there
    /// the heap would have to be searched for it.
    pub fn open_past_the_end(&self, file: R, fd: RawFd) -> Result<(), Error> {
        let number = u32::try_from(fd).map_err(|_| Error::BadFd)?;
        if number >= self.limit {
            return Err(Error::BadFd);
        }
        let mut state = self.state.write();
        let end = state.slots.len();
        if end > number as usize {
            return Err(Error::Busy);
        }
        state.slots.resize(number as usize, None);
        state.slots.push(Some(file));
        // In bulk, in time proportional to the number of descriptors.
        state.free.extend((end as u32..number).map(Reverse));
        Ok(())
    }
}

impl<R: Deref> HeldVec<'_, R> {
    /// Finds the file of a descriptor.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn file(&self, fd: RawFd) -> Result<&R::Target, Error> {
        self.0.file(fd).map(Deref::deref)
    }
}

impl<R> Default for State<R> {
    fn default() -> Self {
        State {
            slots: Vec::new(),
            free: BinaryHeap::new(),
            close_on_exec: Vec::new(),
        }
    }
}

impl<R> State<R> {
    #[inline]
    pub(crate) fn open(&mut self, file: R, limit: u32) -> Result<RawFd, Error> {
        if let Some(Reverse(number)) = self.free.pop() {
            self.slots[number as usize] = Some(file);
            return Ok(number as RawFd);
        }
        let number = self.slots.len();
        if number >= limit as usize {
            return Err(Error::TooManyFiles);
        }
        self.slots.push(Some(file));
        Ok(number as RawFd)
    }

    #[inline]
    pub(crate) fn file(&self, fd: RawFd) -> Result<&R, Error> {
        // A negative descriptor becomes one that is past the end.
        self.slots
            .get(fd as usize)
            .and_then(Option::as_ref)
            .ok_or(Error::BadFd)
    }

    #[inline]
    pub(crate) fn take(&mut self, fd: RawFd) -> Result<R, Error> {
        let slot = self.slots.get_mut(fd as usize).ok_or(Error::BadFd)?;
        let file = slot.take().ok_or(Error::BadFd)?;
        self.free.push(Reverse(fd as u32));
        let (word, bit) = place(fd);
        if let Some(word) = self.close_on_exec.get_mut(word) {
            *word &= !bit;
        }
        Ok(file)
    }
}

/// Returns the word and the bit of a descriptor.
#[inline]
fn place(fd: RawFd) -> (usize, u64) {
    let number = fd as usize;
    (number / WORD, 1 << (number % WORD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heap_holds_exactly_the_empty_slots() {
        let table = RwLockVec::with_limit(10);
        for value in 0..5 {
            table.open(Arc::new(value)).unwrap();
        }
        table.close(3).unwrap();
        table.close(1).unwrap();
        let free = table.state.read().free.clone().into_sorted_vec();
        assert_eq!(free, [Reverse(3), Reverse(1)]);
        assert_eq!(table.open(Arc::new(9)), Ok(1));
    }

    #[test]
    fn a_pair_gets_two_descriptors_or_none() {
        let table = RwLockVec::with_limit(3);
        let file = Arc::new(());
        let again = || Arc::clone(&file);
        assert_eq!(table.open_pair(again(), again()), Ok((0, 1)));
        assert_eq!(table.open_pair(again(), again()), Err(Error::TooManyFiles));
        assert_eq!(Arc::strong_count(&file), 3);
        assert_eq!(table.dup(1), Ok(2));
        assert_eq!(table.dup(7), Err(Error::BadFd));
    }

    #[test]
    fn exec_closes_descriptors_with_the_flag_and_a_new_file_has_none() {
        let table = RwLockVec::with_limit(100);
        for value in 0..80 {
            table.open(Arc::new(value)).unwrap();
        }
        for fd in [0, 5, 70] {
            table.set_flags(fd, FdFlags::CLOEXEC).unwrap();
        }
        table.set_flags(5, FdFlags::empty()).unwrap();
        assert_eq!(table.flags(70), Ok(FdFlags::CLOEXEC));
        table.exec();
        assert_eq!(table.flags(70), Err(Error::BadFd));
        assert_eq!(table.flags(5), Ok(FdFlags::empty()));
        assert_eq!(table.open(Arc::new(0)), Ok(0));
        assert_eq!(table.flags(0), Ok(FdFlags::empty()));
    }

    #[test]
    fn a_closed_file_is_dropped() {
        let table = RwLockVec::with_limit(10);
        let file = Arc::new(());
        let fd = table.open(Arc::clone(&file)).unwrap();
        table.close(fd).unwrap();
        assert_eq!(Arc::strong_count(&file), 1);
    }
}
