//! What people write today: a lock around a vector of `Arc`s, and a heap of free numbers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::RawFd;
use std::sync::Arc;

use fdtable::Error;
use parking_lot::RwLock;

/// Table of `Arc`s in a `Vec` under a reader-writer lock.
///
/// The free numbers are in a heap, so that the lowest is found in logarithmic time: better than
/// the linear search that most programs have.
#[derive(Debug)]
pub struct RwLockVec<T: ?Sized> {
    state: RwLock<State<T>>,
    limit: u32,
}

#[derive(Debug)]
struct State<T: ?Sized> {
    slots: Vec<Option<Arc<T>>>,
    /// Numbers below `slots.len()` whose slot is empty.
    free: BinaryHeap<Reverse<u32>>,
}

impl<T: ?Sized> RwLockVec<T> {
    /// Makes an empty table for the numbers below `limit`.
    pub fn with_limit(limit: u32) -> Self {
        let state = State {
            slots: Vec::new(),
            free: BinaryHeap::new(),
        };
        RwLockVec {
            state: RwLock::new(state),
            limit,
        }
    }

    /// Puts `file` on the lowest free number.
    ///
    /// # Errors
    /// `EMFILE` if every number below the limit is open.
    #[inline]
    pub fn open(&self, file: Arc<T>) -> Result<RawFd, Error> {
        let mut state = self.state.write();
        if let Some(Reverse(number)) = state.free.pop() {
            state.slots[number as usize] = Some(file);
            return Ok(number as RawFd);
        }
        let number = state.slots.len();
        if number >= self.limit as usize {
            return Err(Error::TooManyFiles);
        }
        state.slots.push(Some(file));
        Ok(number as RawFd)
    }

    /// Returns a reference of the caller's own, taken under the read lock.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn get(&self, fd: RawFd) -> Result<Arc<T>, Error> {
        self.state.read().file(fd).cloned()
    }

    /// Calls `f` with the file under the read lock.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn with<R>(&self, fd: RawFd, f: impl FnOnce(&T) -> R) -> Result<R, Error> {
        self.state.read().file(fd).map(|file| f(file))
    }

    /// Empties the slot and drops its reference, after the lock is gone.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn close(&self, fd: RawFd) -> Result<(), Error> {
        let file = self.state.write().take(fd)?;
        drop(file);
        Ok(())
    }

    /// Empties the slot and hands over its reference.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn take(&self, fd: RawFd) -> Result<Arc<T>, Error> {
        self.state.write().take(fd)
    }

    /// Copies the table, with a reference to each open file, under the read lock.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.state.read();
        RwLockVec {
            state: RwLock::new(State {
                slots: state.slots.clone(),
                free: state.free.clone(),
            }),
            limit: self.limit,
        }
    }

    /// Puts `file` on the free number `fd` and makes the vector long enough for it (`dup2`).
    ///
    /// # Errors
    /// `EBADF` if `fd` is at or past the limit, `EBUSY` if it is below the end of the vector:
    /// there the heap would have to be searched for it.
    pub fn open_past_the_end(&self, file: Arc<T>, fd: RawFd) -> Result<(), Error> {
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
        // As a bulk, which takes time in proportion to the numbers.
        state.free.extend((end as u32..number).map(Reverse));
        Ok(())
    }
}

impl<T: ?Sized> State<T> {
    #[inline]
    fn file(&self, fd: RawFd) -> Result<&Arc<T>, Error> {
        // A negative number becomes one that is past the end.
        self.slots
            .get(fd as usize)
            .and_then(Option::as_ref)
            .ok_or(Error::BadFd)
    }

    #[inline]
    fn take(&mut self, fd: RawFd) -> Result<Arc<T>, Error> {
        let slot = self.slots.get_mut(fd as usize).ok_or(Error::BadFd)?;
        let file = slot.take().ok_or(Error::BadFd)?;
        self.free.push(Reverse(fd as u32));
        Ok(file)
    }
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
    fn a_closed_file_is_dropped() {
        let table = RwLockVec::with_limit(10);
        let file = Arc::new(());
        let fd = table.open(Arc::clone(&file)).unwrap();
        table.close(fd).unwrap();
        assert_eq!(Arc::strong_count(&file), 1);
    }
}
