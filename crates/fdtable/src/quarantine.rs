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

use fdtable_objects::free_hint::Reports;
use fdtable_sync::bitmap::BITS;

use crate::fd::place_of;
use crate::rare::Quarantine;
use crate::table::WriteGuard;
use crate::{Error, Fd, Files};

/// # Quarantine
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Delays the reuse of each closed descriptor until `opens` more opens; 0 turns the mode off.
    /// Descriptors in quarantine count as taken; but when no other is free, the one that has waited
    /// longest is reused. At most 1,024 descriptors wait at once: when another is closed, the one
    /// that has waited longest is freed.
    /// [`dup3`](Self::dup3) may still target a descriptor in quarantine. Children inherit the
    /// mode, and none of the descriptors. May wait for the lock, and allocates when the mode
    /// begins.
    ///
    /// The change is atomic for all threads that change the table: an open beside it finds all
    /// descriptors that it frees in quarantine, or all free. Lookups find no file in either case;
    /// [`open_count`](Self::open_count) may count some of the descriptors.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// files.set_quarantine(1)?;
    /// let fd = files.open(FileRef::new("a"), FdFlags::empty())?;
    /// drop(files.close(fd)?);
    /// let other = files.open(FileRef::new("b"), FdFlags::empty())?;
    /// assert_eq!(files.close(fd).unwrap_err(), Error::BadFd, "not the other one's file");
    /// assert_eq!((fd.raw(), other.raw()), (0, 1));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) if there is no memory to begin the mode.
    pub fn set_quarantine(&self, opens: u32) -> Result<(), Error> {
        let mut writer = self.tree.write();
        let was_on = writer.is_quarantine_on();
        if !was_on && opens == 0 {
            return Ok(());
        }
        // A descriptor that has waited for long enough is free, whatever comes.
        self.free_due(&mut writer);
        writer.make_rare()?.quarantine.opens = opens;
        if !was_on && opens > 0 {
            writer.exclude_readers();
        }
        self.free_due(&mut writer);
        if opens == 0 {
            writer.make_rare()?.quarantine = Quarantine::default();
            self.drain_and_hint(&mut writer);
            // Last: to the fast path, a descriptor in quarantine is a reserved one.
            writer.admit_readers();
        }
        Self::release_and_wake(writer);
        Ok(())
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Makes room for as many descriptors as a leaf has, if the mode is on.
    pub(crate) fn prepare_quarantine(writer: &mut WriteGuard<'_, T>) -> Result<(), Error> {
        if writer.is_quarantine_on() {
            Self::prepare_reserved(writer, 1)?;
            writer.make_rare()?.quarantine.prepare()?;
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
        let oldest = (writer.rare.as_mut()).and_then(|it| it.quarantine.push(number));
        let reports = self.free_taken(writer, oldest);
        Self::list_reserved(writer, place_of(number).0);
        reports.unwrap_or(Reports::Few)
    }

    /// Frees the descriptor that a call targets, if it is in quarantine.
    pub(crate) fn free_from_quarantine(
        &self,
        writer: &mut WriteGuard<'_, T>,
        (index, bit): (usize, usize),
    ) {
        let wanted = index * BITS + bit;
        let rare = writer.rare.as_mut();
        let found = rare.and_then(|it| it.quarantine.take(|number| number == wanted));
        // The search that follows drains the lists.
        let _ = self.free_taken(writer, found);
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
        if let Some(rare) = &mut writer.rare {
            rare.quarantine.now += opens as u64;
        }
    }

    /// Frees the descriptors that have waited for long enough.
    pub(crate) fn free_due(&self, writer: &mut WriteGuard<'_, T>) {
        loop {
            let due = (writer.rare.as_mut()).and_then(|it| it.quarantine.pop_due());
            // The search that follows drains the lists.
            if self.free_taken(writer, due).is_none() {
                return;
            }
        }
    }

    /// Frees the oldest descriptor from `min` to the limit, since no other is left. Returns true if
    /// there was one.
    fn free_oldest(&self, writer: &mut WriteGuard<'_, T>, min: usize) -> bool {
        let allowed = min..self.free_hint.limit();
        let rare = writer.rare.as_mut();
        let oldest = rare.and_then(|it| it.quarantine.take(|number| allowed.contains(&number)));
        // The search that follows drains the lists.
        self.free_taken(writer, oldest).is_some()
    }

    /// Frees the `count` oldest descriptors below the limit, or none if there are fewer. Returns
    /// true if it freed them.
    pub(crate) fn free_several(&self, writer: &mut WriteGuard<'_, T>, count: usize) -> bool {
        self.count_waiting(writer) >= count && (0..count).all(|_| self.free_oldest(writer, 0))
    }

    /// Counts the descriptors in quarantine that are below the limit.
    fn count_waiting(&self, writer: &WriteGuard<'_, T>) -> usize {
        let limit = self.free_hint.limit();
        let rare = writer.rare.as_ref();
        rare.map_or(0, |it| it.quarantine.count(|number| number < limit))
    }

    /// Returns true if a search that finds nothing free would free a descriptor.
    pub(crate) fn can_free_one(&self, writer: &WriteGuard<'_, T>) -> bool {
        self.count_waiting(writer) > 0
    }

    /// Frees a descriptor that was taken out of the list, if there is one.
    fn free_taken(&self, writer: &mut WriteGuard<'_, T>, number: Option<usize>) -> Option<Reports> {
        Some(self.free_reserved(writer, number?))
    }
}
