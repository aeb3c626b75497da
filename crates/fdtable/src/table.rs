//! The table: which numbers are taken, and which file is behind each.
//!
//! Numbers are in leaves of 64, and a leaf has for its numbers
//! - a word of *open* bits: the number is taken, by an open descriptor or by a reservation;
//! - a word of *close-on-exec* bits;
//! - 64 slots: the file of each. A number that is taken and has an empty slot is reserved.
//!
//! The first leaf is part of the table. The others are in a radix tree (see
//! [`fdtable_base::radix`]) and never move.
//!
//! # Who may do what
//!
//! | field | written | read |
//! |---|---|---|
//! | open bits, close-on-exec bits, `Numbers` | under the lock | under the lock, or as a hint |
//! | a slot, of a number that is open | under the lock | by anybody |
//! | a slot, of a number that is reserved | by the holder of the reservation | by anybody |
//!
//! So a reservation is installed without the lock, and every other change is one step for
//! everybody who changes something. A lookup sees each change at the moment at which the slot
//! is written.
//!
//! # The lowest free number
//!
//! Most opens know it without a search: see [`Lowest`]. A search looks at one word of a leaf, and
//! passes over runs of full leaves by the tree's summary, which it keeps as it goes: a leaf is
//! noted as full when a search finds it so, and noted as free by the close that frees a number in
//! it. An open that takes the last number of a leaf writes to no other node.

use fdtable_base::bitmap::{BITS, Word};
use fdtable_base::counted::Ref;
use fdtable_base::fallible::OutOfMemory;
use fdtable_base::radix::Tree;
use fdtable_base::rcu;
use fdtable_base::slot::Slot;
use fdtable_base::sync::{Mutex, MutexGuard};

use crate::lowest::Lowest;
use crate::{Error, Fd, FdFlags, RawFd};

/// The numbers of one word, their flags and their files.
#[repr(C)]
pub(crate) struct Leaf<T: ?Sized> {
    open: Word,
    cloexec: Word,
    slots: Slots<T>,
}

/// The slots have cache lines of their own, so that a lookup is not disturbed by opens and
/// closes of other numbers, which write the words.
#[repr(align(64))]
struct Slots<T: ?Sized>([Slot<T>; BITS]);

/// What the lock of the table guards, beside the bits in the leaves.
pub(crate) struct Numbers {
    lowest: Lowest,
    /// New numbers are below this one.
    limit: usize,
    /// How many numbers are taken.
    taken: usize,
}

/// The leaves and the lock of those who change them.
pub(crate) struct FdTable<T: ?Sized> {
    leaves: Leaves<T>,
    numbers: Mutex<Numbers>,
}

/// The leaves by their index. The first one is part of the table: most processes have no more
/// than 64 descriptors, and need no further memory, nor a walk.
struct Leaves<T: ?Sized> {
    first: Leaf<T>,
    others: Tree<Leaf<T>>,
}

impl<T: ?Sized + Send + Sync> Leaves<T> {
    #[inline(always)]
    fn get(&self, index: usize) -> Option<&Leaf<T>> {
        if index == 0 {
            Some(&self.first)
        } else {
            self.others.get(index)
        }
    }

    /// As [`get`](Self::get), for writers: saves the walk when it is the same leaf again.
    #[inline]
    fn get_recent(&self, index: usize) -> Option<&Leaf<T>> {
        if index == 0 {
            Some(&self.first)
        } else {
            self.others.get_recent(index)
        }
    }

    #[inline]
    fn get_or_make(&self, index: usize) -> Result<&Leaf<T>, OutOfMemory> {
        if index == 0 {
            Ok(&self.first)
        } else {
            self.others.get_or_insert_with(index, Leaf::new)
        }
    }

    /// Finds the first leaf whose index is `from` or more.
    fn next(&self, from: usize) -> Option<(usize, &Leaf<T>)> {
        if from == 0 {
            Some((0, &self.first))
        } else {
            self.others.next(from)
        }
    }
}

/// A number in its leaf. The leaf outlives whoever uses this, since it borrows the table.
pub(crate) struct Place<'t, T: ?Sized> {
    leaf: &'t Leaf<T>,
    number: usize,
}

impl<T: ?Sized> Leaf<T> {
    fn new() -> Self {
        Self {
            open: Word::new(),
            cloexec: Word::new(),
            slots: Slots(core::array::from_fn(|_| Slot::new())),
        }
    }

    fn set_flags(&self, bit: usize, flags: FdFlags) {
        if flags.contains(FdFlags::CLOEXEC) {
            self.cloexec.set(bit);
        } else {
            self.cloexec.clear(bit);
        }
    }

    /// The numbers of this leaf that are open, not merely reserved.
    fn installed(&self) -> u64 {
        bits_of(self.open.bits())
            .filter(|&bit| !self.slots.0[bit].is_empty())
            .fold(0, |installed, bit| installed | 1 << bit)
    }
}

/// The numbers of the bits that are set, lowest first.
fn bits_of(mut bits: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(lowest)
    })
}

impl<'t, T: ?Sized> Place<'t, T> {
    #[inline(always)]
    pub(crate) fn slot(&self) -> &'t Slot<T> {
        &self.leaf.slots.0[self.number % BITS]
    }

    fn bit(&self) -> usize {
        self.number % BITS
    }

    pub(crate) fn fd(&self) -> Fd {
        Fd::from_index(self.number)
    }

    /// Puts the file behind a number that was reserved by the caller.
    #[inline]
    pub(crate) fn install(&self, file: Ref<T>) {
        let before = self.slot().replace(Some(file));
        debug_assert!(before.is_none(), "only its holder installs a reservation");
    }

    pub(crate) fn flags(&self) -> FdFlags {
        if self.leaf.cloexec.test(self.bit()) {
            FdFlags::CLOEXEC
        } else {
            FdFlags::empty()
        }
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    pub(crate) fn new(limit: u32) -> Self {
        let numbers = Numbers {
            lowest: Lowest::new(),
            limit: clamp_limit(limit),
            taken: 0,
        };
        Self {
            leaves: Leaves {
                first: Leaf::new(),
                others: Tree::new(),
            },
            numbers: Mutex::new(numbers),
        }
    }

    /// Finds the slot of a number. A negative number becomes one past all leaves.
    #[inline(always)]
    pub(crate) fn slot(&self, fd: RawFd) -> Option<&Slot<T>> {
        let number = fd.cast_unsigned() as usize;
        Some(&self.leaves.get(number / BITS)?.slots.0[number % BITS])
    }

    /// Finds the place of a number that is open.
    pub(crate) fn open_place(&self, fd: RawFd) -> Result<Place<'_, T>, Error> {
        let number = fd.cast_unsigned() as usize;
        let leaf = self.leaves.get(number / BITS).ok_or(Error::BadFd)?;
        let place = Place { leaf, number };
        if place.slot().is_empty() {
            Err(Error::BadFd)
        } else {
            Ok(place)
        }
    }

    pub(crate) fn lock(&self) -> Locked<'_, T> {
        self.leaves.others.prefetch_recent();
        Locked {
            leaves: &self.leaves,
            numbers: self.numbers.lock(),
        }
    }

    /// Finds the first open number that is `from` or more.
    pub(crate) fn next_open(&self, from: usize) -> Option<Fd> {
        let mut first = from;
        loop {
            let (index, leaf) = self.leaves.next(first / BITS)?;
            first = first.max(index * BITS);
            let found = bits_of(leaf.installed() & mask(first % BITS, BITS - 1)).next();
            if let Some(bit) = found {
                return Some(Fd::from_index(index * BITS + bit));
            }
            first = (index + 1) * BITS;
        }
    }
}

/// The table, locked by who changes it.
pub(crate) struct Locked<'t, T: ?Sized> {
    leaves: &'t Leaves<T>,
    numbers: MutexGuard<'t, Numbers>,
}

/// The files of one leaf that were removed at once. They are released when this is dropped:
/// after the lock.
#[must_use = "dropping this runs release hooks; do it outside of the lock"]
pub(crate) struct Removed<T: ?Sized> {
    _files: [Option<Ref<T>>; BITS],
}

impl<'t, T: ?Sized + Send + Sync> Locked<'t, T> {
    pub(crate) fn limit(&self) -> usize {
        self.numbers.limit
    }

    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.numbers.limit = clamp_limit(limit);
    }

    pub(crate) fn taken(&self) -> usize {
        self.numbers.taken
    }

    /// Takes the lowest free number that is `min` or more; its slot is empty.
    pub(crate) fn take_lowest(
        &mut self,
        min: usize,
        flags: FdFlags,
    ) -> Result<Place<'t, T>, Error> {
        let place = self.find_lowest(min)?;
        place.leaf.open.set(place.bit());
        place.leaf.set_flags(place.bit(), flags);
        self.numbers.taken += 1;
        Ok(place)
    }

    /// Finds the lowest free number that is `min` or more, and notes it as taken.
    #[inline]
    fn find_lowest(&mut self, min: usize) -> Result<Place<'t, T>, Error> {
        if let Some(number) = self.numbers.lowest.known(min) {
            if number >= self.numbers.limit {
                return Err(Error::TooManyFiles);
            }
            let leaf = self.leaves.get_or_make(number / BITS)?;
            self.numbers.lowest.taken(number);
            return Ok(Place { leaf, number });
        }
        let place = self.search(self.numbers.lowest.search_from(min))?;
        self.numbers.lowest.found(min, place.number);
        Ok(place)
    }

    /// Searches for the lowest free number that is `from` or more.
    fn search(&self, mut from: usize) -> Result<Place<'t, T>, Error> {
        loop {
            if from >= self.numbers.limit {
                return Err(Error::TooManyFiles);
            }
            let index = from / BITS;
            let leaf = self.leaves.get_or_make(index)?;
            if let Some(bit) = leaf.open.lowest_clear(from % BITS) {
                let number = index * BITS + bit;
                let below = number < self.numbers.limit;
                return below
                    .then_some(Place { leaf, number })
                    .ok_or(Error::TooManyFiles);
            }
            if leaf.open.is_full() {
                self.leaves.others.mark_full(index);
            }
            from = self.leaves.others.next_not_full(index + 1) * BITS;
        }
    }

    /// Takes the number `fd`, or takes it over if it is open; a number that is reserved is
    /// busy. Returns its place, to be installed under this lock.
    pub(crate) fn take_exact(&mut self, fd: Fd, flags: FdFlags) -> Result<Place<'t, T>, Error> {
        let number = fd.index();
        let leaf = self.leaves.get_or_make(number / BITS)?;
        let place = Place { leaf, number };
        if !leaf.open.test(place.bit()) {
            leaf.open.set(place.bit());
            self.numbers.lowest.taken(number);
            self.numbers.taken += 1;
        } else if place.slot().is_empty() {
            return Err(Error::Busy);
        }
        leaf.set_flags(place.bit(), flags);
        Ok(place)
    }

    /// Takes the file out of an open number and frees the number. The caller drops the file
    /// after the lock.
    pub(crate) fn remove(&mut self, fd: RawFd) -> Result<Ref<T>, Error> {
        let number = fd.cast_unsigned() as usize;
        let leaf = self.leaves.get_recent(number / BITS).ok_or(Error::BadFd)?;
        let place = Place { leaf, number };
        // A look before the exchange: closing a closed number writes nothing.
        if place.slot().is_empty() {
            return Err(Error::BadFd);
        }
        let file = place.slot().replace(None).ok_or(Error::BadFd)?;
        self.free(&place);
        Ok(file)
    }

    /// Frees a taken number whose slot is empty.
    pub(crate) fn free(&mut self, place: &Place<'_, T>) {
        let leaf = place.leaf;
        if leaf.open.is_full() {
            self.leaves.others.mark_free(place.number / BITS);
        }
        leaf.open.clear(place.bit());
        self.numbers.taken -= 1;
        self.numbers.lowest.freed(place.number);
    }

    /// Removes what `choose` picks among the open numbers of a leaf.
    fn remove_in(
        &mut self,
        index: usize,
        leaf: &'t Leaf<T>,
        choose: impl FnOnce(&Leaf<T>) -> u64,
    ) -> Removed<T> {
        let mut files = [const { None }; BITS];
        for bit in bits_of(choose(leaf) & leaf.installed()) {
            let place = Place {
                leaf,
                number: index * BITS + bit,
            };
            files[bit] = place.slot().replace(None);
            self.free(&place);
        }
        Removed { _files: files }
    }

    pub(crate) fn set_flags(&mut self, place: &Place<'_, T>, flags: FdFlags) {
        place.leaf.set_flags(place.bit(), flags);
    }

    /// Puts a copy of every open number into `child`, which nobody else has yet. Numbers that
    /// are only reserved are left out.
    pub(crate) fn copy_into(&self, child: &FdTable<T>) -> Result<(), Error> {
        let mut to = child.lock();
        to.numbers.limit = self.numbers.limit;
        let guard = rcu::read_lock();
        let mut next = self.leaves.next(0);
        while let Some((index, from)) = next {
            next = self.leaves.next(index + 1);
            let installed = from.installed();
            if installed == 0 {
                continue;
            }
            let leaf = to.leaves.get_or_make(index)?;
            for bit in bits_of(installed) {
                drop(leaf.slots.0[bit].replace(from.slots.0[bit].get(&guard)));
            }
            leaf.open.replace(installed);
            leaf.cloexec.replace(from.cloexec.bits() & installed);
            to.numbers.taken += installed.count_ones() as usize;
        }
        Ok(())
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Visits the leaves that have numbers from `first` to `last`, each under the lock, and
    /// tells each which of its numbers are meant.
    fn for_each_leaf_in<R>(
        &self,
        first: usize,
        last: usize,
        mut visit: impl FnMut(&mut Locked<'_, T>, usize, u64) -> R,
    ) {
        let mut from = first / BITS;
        while let Some((index, _)) = self
            .leaves
            .next(from)
            .filter(|&(index, _)| index * BITS <= last)
        {
            let base = index * BITS;
            let meant = mask(first.saturating_sub(base), (last - base).min(BITS - 1));
            let mut locked = self.lock();
            let outcome = visit(&mut locked, index, meant);
            // Release hooks of what was removed run after the lock.
            drop(locked);
            drop(outcome);
            from = index + 1;
        }
    }

    /// Closes every open number from `first` to `last`.
    pub(crate) fn remove_range(&self, first: usize, last: usize) {
        self.for_each_leaf_in(first, last, |locked, index, meant| {
            let leaf = locked.leaves.get(index)?;
            Some(locked.remove_in(index, leaf, |_| meant))
        });
    }

    /// Closes every open number that is to be closed on exec.
    pub(crate) fn remove_cloexec(&self) {
        self.for_each_leaf_in(0, Fd::MAX.index(), |locked, index, _| {
            let leaf = locked.leaves.get(index)?;
            Some(locked.remove_in(index, leaf, |leaf| leaf.cloexec.bits()))
        });
    }

    /// Has every open number from `first` to `last` closed on exec.
    pub(crate) fn set_cloexec_range(&self, first: usize, last: usize) {
        self.for_each_leaf_in(first, last, |locked, index, meant| {
            let leaf = locked.leaves.get(index)?;
            leaf.cloexec
                .replace(leaf.cloexec.bits() | meant & leaf.installed());
            Some(())
        });
    }
}

/// The bits from `first` to `last`, both below 64.
fn mask(first: usize, last: usize) -> u64 {
    if first > last {
        0
    } else {
        (u64::MAX << first) & (u64::MAX >> (63 - last))
    }
}

/// A limit past the highest number is as good as none.
fn clamp_limit(limit: u32) -> usize {
    (limit as usize).min(Fd::MAX.index() + 1)
}
