//! The data of a descriptor besides its file: flags, and a word of the caller's.
//!
//! They belong to the descriptor, as close-on-exec does. A kernel with more than 64 bits for each
//! descriptor stores an index into a table of its own. The word is an integer and not a type of the
//! caller's: a lookup reads it without a lock, while another thread changes it.
//!
//! A leaf of 64 descriptors gets a table of them with the first descriptor that has a word, or at
//! the first lookup that asks for one. [`fdtable_objects::radix::leaf`] has the protocol of
//! lookups.

use fdtable_objects::object::Borrowed;
use fdtable_objects::radix::leaf::{NeedsLock, NewTable, SlotData};
use fdtable_sync::hint::cold_path;

use crate::fd::{index_of, place_of};
use crate::rcu::{self, Guard};
use crate::table::{LeafGuard, LeafRef};
use crate::{BorrowedFile, Error, FdArg, FdData, FileRef, Files, RawFd, Rcu};

/// # Words of the caller's
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Finds the file of a descriptor and takes a reference, as [`get`](Self::get) does, together
    /// with the data of the descriptor. Both are read atomically.
    ///
    /// Takes no lock and neither blocks nor allocates, except for the first such lookup among 64
    /// descriptors, and where the descriptor itself is being changed: then it may wait for the lock
    /// of the 64. Such a lookup takes the lock every time in a part of the table that is shared
    /// since a fork and had no word then, while a [quarantine](Self::set_quarantine) is on, and
    /// while there is no memory. May be called inside a read-side section.
    ///
    /// # Errors
    /// EBADF and EIO as for [`get`](Self::get).
    #[inline]
    pub fn get_with_data(&self, fd: impl FdArg) -> Result<(FileRef<T>, FdData), Error> {
        let fd = fd.to_raw();
        let section = rcu::read_lock();
        loop {
            let (file, data) = self.find_with_data(fd, &section)?;
            // Its last reference may have gone: then the descriptor was closed.
            if let Some(file) = file.upgrade() {
                return Ok((FileRef(file).unless_revoked()?, data));
            }
        }
    }

    /// Sets the word of a descriptor, and returns the one that it had. May wait for the lock, and
    /// allocates at the first word among 64 descriptors, or where a part of the table is shared
    /// since a fork.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new("log"), FdFlags::empty())?;
    /// assert_eq!(files.set_word(fd, 7)?, 0);
    /// assert_eq!(files.set_word(fd, 8)?, 7);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::BadFd`] (EBADF) if the descriptor is not open.
    /// - [`Error::NoMemory`] (ENOMEM) if there is no memory for the word, or for a copy of a part
    ///   of the table that is shared since a fork.
    #[inline]
    pub fn set_word(&self, fd: impl FdArg, word: u64) -> Result<u64, Error> {
        let fd = fd.to_raw();
        if let Some(before) = self.try_set_word(fd, word) {
            return Ok(before);
        }
        cold_path();
        self.change_word(fd, |_| Some(word))
    }

    /// Sets the word of a descriptor to `new` if it is `expected`. Returns the word that it had:
    /// `expected` if the word was set. Waits and allocates as [`set_word`](Self::set_word) does.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// let fd = files.open(FileRef::new("log"), (FdFlags::empty(), 0b11))?;
    /// // Gives up a right, whatever other threads do at the same time.
    /// let mut rights = 0b11;
    /// loop {
    ///     match files.exchange_word(fd, rights, rights & !0b10)? {
    ///         before if before == rights => break,
    ///         other => rights = other,
    ///     }
    /// }
    /// assert_eq!(files.get_with_data(fd)?.1.word, 0b01);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// EBADF and ENOMEM as for [`set_word`](Self::set_word).
    pub fn exchange_word(&self, fd: impl FdArg, expected: u64, new: u64) -> Result<u64, Error> {
        self.change_word(fd.to_raw(), |word| (word == expected).then_some(new))
    }
}

/// # Words of the caller's
impl<T: ?Sized + Send + Sync> Files<Rcu<T>> {
    /// Finds the file of a descriptor for use inside a read-side section, as
    /// [`get_rcu`](Self::get_rcu) does, together with the data of the descriptor at that moment.
    /// Waits and allocates as [`get_with_data`](Self::get_with_data) does.
    ///
    /// # Errors
    /// EBADF and EIO as for [`get_rcu`](Self::get_rcu).
    #[inline]
    pub fn get_rcu_with_data<'g>(
        &'g self,
        fd: impl FdArg,
        section: &'g Guard<'_>,
    ) -> Result<(BorrowedFile<'g, T>, FdData), Error> {
        let (file, data) = self.find_with_data(fd.to_raw(), section)?;
        Ok((BorrowedFile(file).unless_revoked()?, data))
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Finds a file with the data of the descriptor.
    #[inline(always)]
    fn find_with_data<'g>(
        &'g self,
        fd: RawFd,
        section: &'g Guard<'_>,
    ) -> Result<(Borrowed<'g, T>, FdData), Error> {
        let (index, bit) = place_of(index_of(fd));
        let Some(leaf) = self.tree.leaf(index, section) else {
            cold_path();
            return Err(Error::BadFd);
        };
        let found = match leaf.borrow_with_data(bit) {
            Ok(found) => found,
            Err(NeedsLock) => {
                if !leaf.has_table() {
                    self.add_table(index);
                }
                self.tree.borrow_with_data_locked(&leaf, index, bit)
            }
        };
        let Some((file, data)) = found else {
            cold_path();
            return Err(Error::BadFd);
        };
        Ok((file, FdData::from_slot(data)))
    }

    /// Finds a file, revoked or not, with the data of the descriptor. Makes no table: for callers
    /// that do not ask again. May wait for the lock of the leaf.
    pub(crate) fn peek(&self, number: usize) -> Option<(FileRef<T>, FdData)> {
        let (index, bit) = place_of(number);
        loop {
            let section = rcu::read_lock();
            let leaf = self.tree.leaf(index, &section)?;
            let (file, data) = self.find_in(&leaf, index, bit)?;
            // Its last reference may have gone: then the descriptor was closed.
            if let Some(file) = file.upgrade() {
                return Some((FileRef(file), FdData::from_slot(data)));
            }
        }
    }

    /// Finds a file with the data of the descriptor in a leaf. Makes no table.
    pub(crate) fn find_in<'s>(
        &self,
        leaf: &LeafRef<'s, T>,
        index: usize,
        bit: usize,
    ) -> Option<(Borrowed<'s, T>, SlotData)> {
        let found = leaf.borrow_with_data(bit);
        found.unwrap_or_else(|NeedsLock| self.tree.borrow_with_data_locked(leaf, index, bit))
    }

    /// Gives a leaf a table of data, if there is memory and the leaf is not shared. Without one,
    /// lookups take the lock.
    #[cold]
    fn add_table(&self, index: usize) {
        let with_leaf = |add: &mut dyn FnMut(LeafGuard<'_, T>)| {
            if let Some(reader) = self.tree.read()
                && let Some(leaf) = reader.lock_leaf(index)
            {
                add(leaf);
            }
        };
        let mut is_own = false;
        with_leaf(&mut |_| is_own = true);
        if is_own {
            let mut table = NewTable::try_new().ok();
            with_leaf(&mut |mut leaf| leaf.add_table(&mut table));
        }
    }

    /// Sets the word of an open descriptor whose leaf has a table of data, on the fast path, if
    /// that is open and the lock of the leaf is free.
    #[inline(always)]
    fn try_set_word(&self, fd: RawFd, word: u64) -> Option<u64> {
        let (index, bit) = place_of(index_of(fd));
        let exchange = |leaf: &mut LeafGuard<'_, T>| {
            let word = leaf.has(bit).then(|| leaf.exchange_word(bit, word));
            word.flatten()
        };
        if let Some(place) = self.tree.place_of(index)
            && let Some(mut near) = self.tree.try_lock_near(place, index)
        {
            return exchange(&mut near.leaf);
        }
        let reader = self.tree.try_read()?;
        exchange(&mut reader.try_lock_by_walk(index, |_| true)?)
    }

    /// Changes the word of an open descriptor to what `change` returns, if anything. Returns the
    /// word before. `change` is called with the leaf locked, and maybe twice.
    fn change_word(&self, fd: RawFd, change: impl Fn(u64) -> Option<u64>) -> Result<u64, Error> {
        let (_, bit) = place_of(index_of(fd));
        let mut table = None;
        loop {
            let changed = self.with_leaf(fd, |leaf| {
                if !leaf.has(bit) {
                    return Err(Error::BadFd);
                }
                leaf.add_table(&mut table);
                let before = leaf.data(bit).word;
                if let Some(new) = change(before).filter(|&new| new != before) {
                    return Ok(leaf.exchange_word(bit, new));
                }
                Ok(Some(before))
            })?;
            match changed? {
                Some(before) => return Ok(before),
                None => table = Some(NewTable::try_new()?),
            }
        }
    }
}
