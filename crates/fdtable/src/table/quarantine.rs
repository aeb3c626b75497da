//! Numbers that were closed and are not given out again for a while.
//!
//! A program that closes a descriptor twice closes somebody else's, if the number has been given
//! out in between. In quarantine it has not, and the second close answers EBADF.
//!
//! While the mode is on, the tree's gate is shut: every open and close takes the long way, where
//! the numbers are counted. When it is off, nothing of it is on the short way.
//!
//! A number in quarantine is taken and has no file, as one that is reserved, and is kept out of
//! the tables of children in the same way.

use alloc::collections::VecDeque;

use fdtable_base::bitmap::BITS;

use fdtable_base::room::Notices;

use super::{FdTable, Structure, place_of};
use crate::{Error, Fd};

/// How many numbers wait at the most: so much work it is to end them all, to look for one of them,
/// or to keep them out of a child.
pub(crate) const MOST: usize = 1024;

/// The numbers in quarantine.
pub(super) struct Quarantine {
    /// How many opens a number waits for; 0 if the mode is off.
    opens: u64,
    /// How many opens there were.
    now: u64,
    /// The numbers, and how many opens there had been when each was closed.
    numbers: VecDeque<(usize, u64)>,
}

impl Quarantine {
    pub(super) const fn new() -> Self {
        Self {
            opens: 0,
            now: 0,
            numbers: VecDeque::new(),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.opens > 0
    }

    /// Returns how many opens a number waits for.
    pub(super) fn opens(&self) -> u32 {
        // It came as one.
        self.opens as u32
    }

    /// Takes out the oldest number if it has waited for long enough.
    fn pop_due(&mut self) -> Option<usize> {
        let &(number, since) = self.numbers.front()?;
        (self.now - since >= self.opens).then(|| {
            self.numbers.pop_front();
            number
        })
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Has numbers that are closed wait for so many opens; 0 ends the mode.
    pub(crate) fn set_quarantine(&self, opens: u32) {
        let mut structure = self.tree.lock();
        let was_on = structure.quarantine.is_on();
        structure.quarantine.opens = u64::from(opens);
        match (was_on, opens > 0) {
            (false, true) => structure.shut_gate(),
            (true, false) => structure.open_gate(),
            _ => {}
        }
        self.end_due(&mut structure);
        if opens == 0 {
            structure.quarantine.numbers = VecDeque::new();
            self.settle(&mut structure);
        }
        let woken = Self::take_waiters(&mut structure);
        drop(structure);
        drop(woken);
    }

    pub(crate) fn quarantine(&self) -> u32 {
        self.tree.lock().quarantine.opens()
    }

    /// Makes room for as many numbers as a leaf has, if the mode is on.
    pub(super) fn prepare_quarantine(structure: &mut Structure<'_, T>) -> Result<(), Error> {
        if structure.quarantine.is_on() {
            structure.reserved.prepare(1)?;
            let numbers = &mut structure.quarantine.numbers;
            numbers.try_reserve(BITS).map_err(|_| Error::NoMemory)?;
        }
        Ok(())
    }

    /// Puts a number in quarantine that is taken and has no file any more; if it is full, frees the
    /// number that has waited longest. After [`prepare_quarantine`](Self::prepare_quarantine).
    pub(super) fn enter_quarantine(
        &self,
        structure: &mut Structure<'_, T>,
        number: usize,
    ) -> Notices {
        let mut notices = Notices::Few;
        if structure.quarantine.numbers.len() >= MOST
            && let Some((oldest, _)) = structure.quarantine.numbers.pop_front()
        {
            notices = self.end_quarantine(structure, oldest);
        }
        let now = structure.quarantine.now;
        structure.quarantine.numbers.push_back((number, now));
        structure.reserved.add(place_of(number).0);
        notices
    }

    /// Frees a number that somebody asks for by its name, if it is in quarantine.
    pub(super) fn free_from_quarantine(
        &self,
        structure: &mut Structure<'_, T>,
        (index, bit): (usize, usize),
    ) {
        let wanted = index * BITS + bit;
        let numbers = &mut structure.quarantine.numbers;
        let found = numbers.iter().position(|&(number, _)| number == wanted);
        if let Some((number, _)) = found.and_then(|at| numbers.remove(at)) {
            // The search that follows takes the notices.
            let _ = self.end_quarantine(structure, number);
        }
    }

    /// Has `search` take a descriptor, after those that have waited for long enough were freed, and
    /// counts the open. Rather than find none, it frees one that has not. While `search` finds
    /// nothing and no error, other threads get the lock in between.
    pub(super) fn count_search(
        &self,
        structure: &mut Structure<'_, T>,
        min: usize,
        mut search: impl FnMut(&mut Structure<'_, T>) -> Result<Option<Fd>, Error>,
    ) -> Result<Fd, Error> {
        loop {
            self.end_due(structure);
            match search(structure) {
                Ok(Some(fd)) => {
                    Self::count_opens(structure, 1);
                    return Ok(fd);
                }
                Ok(None) => structure.let_others(),
                Err(Error::TooManyFiles) if self.end_oldest(structure, min) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Counts opens, for the numbers that wait for them.
    pub(super) fn count_opens(structure: &mut Structure<'_, T>, opens: usize) {
        structure.quarantine.now += opens as u64;
    }

    /// Frees the numbers that have waited for long enough.
    pub(super) fn end_due(&self, structure: &mut Structure<'_, T>) {
        while let Some(number) = structure.quarantine.pop_due() {
            // The search that follows takes the notices.
            let _ = self.end_quarantine(structure, number);
        }
    }

    /// Finds the oldest number from `min` to the limit.
    fn oldest(&self, structure: &Structure<'_, T>, min: usize) -> Option<usize> {
        let limit = self.room.limit();
        let mut numbers = structure.quarantine.numbers.iter();
        numbers.position(|&(number, _)| (min..limit).contains(&number))
    }

    /// Frees the oldest number from `min` to the limit, since no other is left. Returns true if
    /// there was one.
    fn end_oldest(&self, structure: &mut Structure<'_, T>, min: usize) -> bool {
        let found = self.oldest(structure, min);
        let oldest = found.and_then(|at| structure.quarantine.numbers.remove(at));
        if let Some((number, _)) = oldest {
            // The search that follows takes the notices.
            let _ = self.end_quarantine(structure, number);
        }
        oldest.is_some()
    }

    /// Frees the `count` oldest numbers below the limit, or none if there are fewer. Returns true
    /// if it freed them.
    pub(super) fn end_several(&self, structure: &mut Structure<'_, T>, count: usize) -> bool {
        let limit = self.room.limit();
        let numbers = structure.quarantine.numbers.iter();
        let waiting = numbers.filter(|&&(number, _)| number < limit).count();
        waiting >= count && (0..count).all(|_| self.end_oldest(structure, 0))
    }

    /// Returns true if a search that finds nothing free would free a number.
    pub(super) fn would_end_one(&self, structure: &Structure<'_, T>) -> bool {
        self.oldest(structure, 0).is_some()
    }

    /// Frees a number that has left the list.
    fn end_quarantine(&self, structure: &mut Structure<'_, T>, number: usize) -> Notices {
        let (index, bit) = place_of(number);
        structure.reserved.remove(index);
        let leaf = structure.lock_leaf(index);
        leaf.map_or(Notices::Few, |mut leaf| self.free_in(&mut leaf, index, bit))
    }
}
