//! The common table of today's programs: a lock around a vector of `Arc`s, and a heap of free
//! descriptors.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::RawFd;

use fdtable::Error;

use super::{Reference, file_of, place, take_of};

/// Content of the table.
///
/// The free descriptors are in a heap, so that the lowest is found in logarithmic time: better than
/// the linear search of most programs.
#[derive(Clone, Debug)]
pub struct State<R> {
    slots: Vec<Option<R>>,
    /// Descriptors below `slots.len()` whose slot is empty.
    free: BinaryHeap<Reverse<u32>>,
    /// Bits of the descriptors that close on exec. As long as it ever had to be; the bits of free
    /// descriptors are clear.
    close_on_exec: Vec<u64>,
}

impl<R: Reference> super::State for State<R> {
    type Ref = R;
    const NAME: &'static str = R::VECTOR;

    fn new() -> Self {
        State {
            slots: Vec::new(),
            free: BinaryHeap::new(),
            close_on_exec: Vec::new(),
        }
    }

    #[inline]
    fn open(&mut self, file: R, limit: u32) -> Result<RawFd, Error> {
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
    fn file(&self, fd: RawFd) -> Result<&R, Error> {
        file_of(&self.slots, fd)
    }

    #[inline]
    fn take(&mut self, fd: RawFd) -> Result<R, Error> {
        let file = take_of(&mut self.slots, fd)?;
        self.free.push(Reverse(fd as u32));
        let (word, bit) = place(fd as usize);
        if let Some(word) = self.close_on_exec.get_mut(word) {
            *word &= !bit;
        }
        Ok(file)
    }

    #[inline]
    fn close_on_exec(&self) -> &[u64] {
        &self.close_on_exec
    }

    #[inline]
    fn close_on_exec_mut(&mut self, word: usize) -> &mut u64 {
        if word >= self.close_on_exec.len() {
            self.close_on_exec.resize(word + 1, 0);
        }
        &mut self.close_on_exec[word]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::RwLockVec;
    use super::*;
    use crate::table::Table;

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
}
