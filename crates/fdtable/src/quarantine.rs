//! Quarantine: closed descriptors are not reused for a while.
//!
//! A second close of a descriptor then returns EBADF. Without quarantine it would close a file that
//! another part of the program has opened there meanwhile. Quarantine is for debugging: while it is
//! on, the fast path is closed, so opens and closes wait for the lock of the table, and the slow
//! path counts opens. An open takes the lowest descriptor that is not in quarantine. While it is
//! off, it costs nothing: the fast path has no code for it. So the fast path is closed before a
//! descriptor enters quarantine, and is opened after the last one has left.
//!
//! A descriptor in quarantine is taken and has no file, like a reserved one, and is kept out of the
//! tables of children in the same way.

use alloc::collections::VecDeque;

use fdtable_objects::free_hint::Reports;
use fdtable_sync::bitmap::BITS;

use crate::fd::place_of;
use crate::table::WriteGuard;
use crate::{Error, Fd, Files};

/// # Quarantine
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Delays the reuse of each closed descriptor until `opens` more opens; 0 turns the mode off.
    /// Descriptors in quarantine count as taken; but when no other is free, the one that has waited
    /// longest is reused. At most 1,024 descriptors wait at once: when another is closed, the one
    /// that has waited longest is freed, so no call searches more than that.
    /// [`dup3`](Self::dup3) may still target a descriptor in quarantine. Children inherit the
    /// mode, and none of the descriptors. May wait for the lock.
    ///
    /// The change is atomic for all threads that change the table: an open beside it finds all
    /// descriptors that it frees in quarantine, or all free. Lookups find no file in either case;
    /// [`open_count`](Self::open_count) may count some of the descriptors.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// files.set_quarantine(1);
    /// let fd = files.open(FileRef::new("a"), FdFlags::empty())?;
    /// drop(files.close(fd)?);
    /// let other = files.open(FileRef::new("b"), FdFlags::empty())?;
    /// assert_eq!(files.close(fd).unwrap_err(), Error::BadFd, "not the other one's file");
    /// assert_eq!((fd.raw(), other.raw()), (0, 1));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_quarantine(&self, opens: u32) {
        let mut writer = self.tree.write();
        let was_on = writer.quarantine.is_on();
        writer.quarantine.opens = u64::from(opens);
        if !was_on && opens > 0 {
            writer.exclude_readers();
        }
        self.free_due(&mut writer);
        if opens == 0 {
            writer.quarantine.waiting = VecDeque::new();
            self.drain_and_hint(&mut writer);
            if was_on {
                // Last: to the fast path, a descriptor in quarantine is a reserved one.
                writer.admit_readers();
            }
        }
        let woken = Self::take_waiters(&mut writer);
        drop(writer);
        drop(woken);
    }

    /// Returns the number of opens that closed descriptors wait for; 0 if the mode is off. May wait
    /// for the lock.
    pub fn quarantine(&self) -> u32 {
        self.tree.write().quarantine.opens()
    }
}

/// The maximum number of descriptors in quarantine. It bounds the work to free them all, to find
/// one of them, or to keep them out of a child.
const MAX_WAITING: usize = 1024;

/// The descriptors in quarantine.
pub(crate) struct Quarantine {
    /// How many opens a descriptor waits for; 0 if the mode is off.
    opens: u64,
    /// The number of opens so far.
    now: u64,
    /// The descriptors, and the number of opens before each was closed.
    waiting: VecDeque<(usize, u64)>,
}

impl Quarantine {
    /// Returns true if it is off, and no descriptor is in it.
    pub(crate) fn is_new(&self) -> bool {
        !self.is_on() && self.waiting.is_empty()
    }

    pub(crate) const fn new() -> Self {
        Self {
            opens: 0,
            now: 0,
            waiting: VecDeque::new(),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.opens > 0
    }

    /// Returns how many opens a descriptor waits for.
    pub(crate) fn opens(&self) -> u32 {
        // It was set from a `u32`.
        self.opens as u32
    }

    /// Returns true if a descriptor is in quarantine.
    pub(crate) fn contains(&self, number: usize) -> bool {
        self.waiting.iter().any(|&(waiting, _)| waiting == number)
    }

    /// Removes the oldest descriptor if it has waited for long enough.
    fn pop_due(&mut self) -> Option<usize> {
        let &(number, since) = self.waiting.front()?;
        (self.now - since >= self.opens).then(|| {
            self.waiting.pop_front();
            number
        })
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Makes room for as many descriptors as a leaf has, if the mode is on.
    pub(crate) fn prepare_quarantine(writer: &mut WriteGuard<'_, T>) -> Result<(), Error> {
        if writer.quarantine.is_on() {
            writer.reserved.prepare(1)?;
            let waiting = &mut writer.quarantine.waiting;
            waiting.try_reserve(BITS).map_err(|_| Error::NoMemory)?;
        }
        Ok(())
    }

    /// Puts a descriptor in quarantine that is taken and has no file any more. If the quarantine is
    /// full, frees the descriptor that has waited longest. Call
    /// [`prepare_quarantine`](Self::prepare_quarantine) first.
    pub(crate) fn enter_quarantine(
        &self,
        writer: &mut WriteGuard<'_, T>,
        number: usize,
    ) -> Reports {
        let mut reports = Reports::Few;
        if writer.quarantine.waiting.len() >= MAX_WAITING
            && let Some((oldest, _)) = writer.quarantine.waiting.pop_front()
        {
            reports = self.free_quarantined(writer, oldest);
        }
        let now = writer.quarantine.now;
        writer.quarantine.waiting.push_back((number, now));
        writer.reserved.add(place_of(number).0);
        reports
    }

    /// Frees the descriptor that a call targets, if it is in quarantine.
    pub(crate) fn free_from_quarantine(
        &self,
        writer: &mut WriteGuard<'_, T>,
        (index, bit): (usize, usize),
    ) {
        let wanted = index * BITS + bit;
        let waiting = &mut writer.quarantine.waiting;
        let found = waiting.iter().position(|&(number, _)| number == wanted);
        if let Some((number, _)) = found.and_then(|at| waiting.remove(at)) {
            // The search that follows drains the lists.
            let _ = self.free_quarantined(writer, number);
        }
    }

    /// Calls `search` to take a descriptor, and counts the open. First it frees the descriptors
    /// that have waited for long enough. Rather than find none, it frees one that has not. While
    /// `search` finds nothing and no error, other threads get the lock in between.
    pub(crate) fn count_search(
        &self,
        writer: &mut WriteGuard<'_, T>,
        min: usize,
        mut search: impl FnMut(&mut WriteGuard<'_, T>) -> Result<Option<Fd>, Error>,
    ) -> Result<Fd, Error> {
        loop {
            self.free_due(writer);
            match search(writer) {
                Ok(Some(fd)) => {
                    Self::count_opens(writer, 1);
                    return Ok(fd);
                }
                Ok(None) => writer.let_others(),
                Err(Error::TooManyFiles) if self.free_oldest(writer, min) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Counts opens, for the waiting descriptors.
    pub(crate) fn count_opens(writer: &mut WriteGuard<'_, T>, opens: usize) {
        writer.quarantine.now += opens as u64;
    }

    /// Frees the descriptors that have waited for long enough.
    pub(crate) fn free_due(&self, writer: &mut WriteGuard<'_, T>) {
        while let Some(number) = writer.quarantine.pop_due() {
            // The search that follows drains the lists.
            let _ = self.free_quarantined(writer, number);
        }
    }

    /// Finds the oldest descriptor from `min` to the limit.
    fn oldest(&self, writer: &WriteGuard<'_, T>, min: usize) -> Option<usize> {
        let limit = self.free_hint.limit();
        let mut waiting = writer.quarantine.waiting.iter();
        waiting.position(|&(number, _)| (min..limit).contains(&number))
    }

    /// Frees the oldest descriptor from `min` to the limit, since no other is left. Returns true if
    /// there was one.
    fn free_oldest(&self, writer: &mut WriteGuard<'_, T>, min: usize) -> bool {
        let found = self.oldest(writer, min);
        let oldest = found.and_then(|at| writer.quarantine.waiting.remove(at));
        if let Some((number, _)) = oldest {
            // The search that follows drains the lists.
            let _ = self.free_quarantined(writer, number);
        }
        oldest.is_some()
    }

    /// Frees the `count` oldest descriptors below the limit, or none if there are fewer. Returns
    /// true if it freed them.
    pub(crate) fn free_several(&self, writer: &mut WriteGuard<'_, T>, count: usize) -> bool {
        let limit = self.free_hint.limit();
        let waiting = writer.quarantine.waiting.iter();
        let waiting = waiting.filter(|&&(number, _)| number < limit).count();
        waiting >= count && (0..count).all(|_| self.free_oldest(writer, 0))
    }

    /// Returns true if a search that finds nothing free would free a descriptor.
    pub(crate) fn can_free_one(&self, writer: &WriteGuard<'_, T>) -> bool {
        self.oldest(writer, 0).is_some()
    }

    /// Frees a descriptor that was removed from the list.
    fn free_quarantined(&self, writer: &mut WriteGuard<'_, T>, number: usize) -> Reports {
        let (index, bit) = place_of(number);
        writer.reserved.remove(index);
        let leaf = writer.lock_leaf(index);
        leaf.map_or(Reports::Few, |mut leaf| {
            self.free_without_file(&mut leaf, index, bit)
        })
    }
}
