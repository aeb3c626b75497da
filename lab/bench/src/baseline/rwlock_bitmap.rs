//! The table that RCU replaced in Linux: `files_struct` of 2.4, under a reader-writer lock.
//!
//! As there: an array of files, a bitmap of open descriptors, a bitmap of those that close on exec,
//! and `next_fd`, below which every descriptor is open. Lookup (`fget`) takes the read lock and
//! takes its reference under it. A full array is replaced by one of twice the size, copied under
//! the write lock. Two things are better than there: `open` takes the lock once and not twice
//! (`get_unused_fd`, `fd_install`), and the lock sleeps instead of spinning.

use std::ops::Deref;
use std::os::fd::RawFd;
use std::sync::Arc;

use fdtable::{Error, FdFlags};
use parking_lot::{RwLock, RwLockReadGuard};

/// Descriptors for which a new table has room (`NR_OPEN_DEFAULT`).
const FIRST_CAPACITY: usize = 64;

/// Bits of a word of a bitmap.
const WORD: usize = u64::BITS as usize;

/// Linux 2.4's `files_struct` with `parking_lot`'s reader-writer lock, for `Arc` references.
pub type RwLockBitmap<T> = FilesStruct<Arc<T>>;

/// The table for references of any kind.
#[derive(Debug)]
pub struct FilesStruct<R> {
    state: RwLock<State<R>>,
    limit: u32,
}

/// Read lock of a [`FilesStruct`], for several lookups.
#[derive(Debug)]
pub struct HeldFilesStruct<'t, R>(RwLockReadGuard<'t, State<R>>);

#[derive(Debug)]
struct State<R> {
    /// Its length is the number of bits of a bitmap: a power of two.
    files: Box<[Option<R>]>,
    open: Box<[u64]>,
    close_on_exec: Box<[u64]>,
    /// Every descriptor below is open.
    next_fd: usize,
}

impl<R: Deref + Clone> FilesStruct<R> {
    /// Creates an empty table for descriptors below `limit`.
    pub fn with_limit(limit: u32) -> Self {
        FilesStruct {
            state: RwLock::new(State::new()),
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

    /// Duplicates `fd` to the lowest free descriptor. One lock, where Linux took two.
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
    pub fn hold(&self) -> HeldFilesStruct<'_, R> {
        HeldFilesStruct(self.state.read())
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

    /// Copies the table, with a reference to each open file, under the read lock (`copy_files`).
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.state.read();
        FilesStruct {
            state: RwLock::new(State {
                files: state.files.clone(),
                open: state.open.clone(),
                close_on_exec: state.close_on_exec.clone(),
                next_fd: state.next_fd,
            }),
            limit: self.limit,
        }
    }

    /// Installs `file` at `fd`, and drops the old file after it has released the lock (`dup2`).
    ///
    /// # Errors
    /// `EBADF` if `fd` is at or past the limit.
    pub fn dup_to(&self, file: R, fd: RawFd) -> Result<(), Error> {
        let number = usize::try_from(fd).map_err(|_| Error::BadFd)?;
        if number >= self.limit as usize {
            return Err(Error::BadFd);
        }
        let mut state = self.state.write();
        if number >= state.files.len() {
            state.expand_to((number + 1).next_power_of_two());
        }
        let before = state.replace(number, file);
        drop(state);
        drop(before);
        Ok(())
    }

    /// Returns the flags of a descriptor (`F_GETFD`).
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn flags(&self, fd: RawFd) -> Result<FdFlags, Error> {
        let state = self.state.read();
        state.file(fd)?;
        let (word, bit) = place(fd as usize);
        let is_set = state.close_on_exec[word] & bit != 0;
        Ok(if is_set {
            FdFlags::CLOEXEC
        } else {
            FdFlags::empty()
        })
    }

    /// Sets the flags of a descriptor (`F_SETFD`).
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn set_flags(&self, fd: RawFd, flags: FdFlags) -> Result<(), Error> {
        let mut state = self.state.write();
        state.file(fd)?;
        let (word, bit) = place(fd as usize);
        if flags.contains(FdFlags::CLOEXEC) {
            state.close_on_exec[word] |= bit;
        } else {
            state.close_on_exec[word] &= !bit;
        }
        Ok(())
    }

    /// Closes the descriptors that close on exec (`flush_old_files`). Drops the references after it
    /// has released the lock.
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
}

impl<R: Deref> HeldFilesStruct<'_, R> {
    /// Finds the file of a descriptor.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    #[inline]
    pub fn file(&self, fd: RawFd) -> Result<&R::Target, Error> {
        self.0.file(fd).map(Deref::deref)
    }
}

impl<R> State<R> {
    fn new() -> Self {
        State {
            files: empty_slots(FIRST_CAPACITY),
            open: vec![0; FIRST_CAPACITY / WORD].into(),
            close_on_exec: vec![0; FIRST_CAPACITY / WORD].into(),
            next_fd: 0,
        }
    }

    #[inline]
    fn open(&mut self, file: R, limit: u32) -> Result<RawFd, Error> {
        let number = self.lowest_free();
        if number >= limit as usize {
            return Err(Error::TooManyFiles);
        }
        if number == self.files.len() {
            self.expand_to(number * 2);
        }
        self.install(number, file);
        Ok(number as RawFd)
    }

    #[inline]
    fn file(&self, fd: RawFd) -> Result<&R, Error> {
        // A negative descriptor becomes one that is past the end.
        self.files
            .get(fd as usize)
            .and_then(Option::as_ref)
            .ok_or(Error::BadFd)
    }

    /// Searches the bitmap from `next_fd` on; returns its length if it is full
    /// (`find_next_zero_bit`).
    #[inline]
    fn lowest_free(&self) -> usize {
        let first = self.next_fd / WORD;
        self.open[first.min(self.open.len())..]
            .iter()
            .position(|&word| word != u64::MAX)
            .map_or(self.files.len(), |skipped| {
                let word = first + skipped;
                word * WORD + self.open[word].trailing_ones() as usize
            })
    }

    #[inline]
    fn install(&mut self, number: usize, file: R) {
        let (word, bit) = place(number);
        self.open[word] |= bit;
        self.close_on_exec[word] &= !bit;
        self.next_fd = number + 1;
        self.files[number] = Some(file);
    }

    #[inline]
    fn take(&mut self, fd: RawFd) -> Result<R, Error> {
        let number = fd as usize;
        let slot = self.files.get_mut(number).ok_or(Error::BadFd)?;
        let file = slot.take().ok_or(Error::BadFd)?;
        let (word, bit) = place(number);
        self.open[word] &= !bit;
        self.close_on_exec[word] &= !bit;
        self.next_fd = self.next_fd.min(number);
        Ok(file)
    }

    /// Installs the file and returns the one that was open there.
    fn replace(&mut self, number: usize, file: R) -> Option<R> {
        let (word, bit) = place(number);
        self.open[word] |= bit;
        self.close_on_exec[word] &= !bit;
        self.files[number].replace(file)
    }

    /// Copies everything to an array of the larger `capacity`, a power of two (`expand_files`).
    #[cold]
    fn expand_to(&mut self, capacity: usize) {
        let mut files = empty_slots(capacity);
        for (new, old) in files.iter_mut().zip(&mut self.files) {
            *new = old.take();
        }
        self.files = files;
        self.open = widened(&self.open, capacity / WORD);
        self.close_on_exec = widened(&self.close_on_exec, capacity / WORD);
    }
}

/// Returns the word and the bit of a descriptor.
#[inline]
fn place(number: usize) -> (usize, u64) {
    (number / WORD, 1 << (number % WORD))
}

fn empty_slots<R>(capacity: usize) -> Box<[Option<R>]> {
    (0..capacity).map(|_| None).collect()
}

fn widened(bitmap: &[u64], words: usize) -> Box<[u64]> {
    let mut wide = vec![0; words];
    wide[..bitmap.len()].copy_from_slice(bitmap);
    wide.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: u64) -> RwLockBitmap<u64> {
        let table = RwLockBitmap::with_limit(1 << 20);
        for value in 0..count {
            table.open(Arc::new(value)).unwrap();
        }
        table
    }

    #[test]
    fn growing_doubles_and_keeps_every_file() {
        let table = filled(65);
        assert_eq!(table.state.read().files.len(), 128);
        for fd in 0..65 {
            assert_eq!(*table.get(fd).unwrap(), fd as u64);
        }
        assert_eq!(*table.state.read().open, [u64::MAX, 1]);
    }

    #[test]
    fn next_fd_follows_the_lowest_close() {
        let table = filled(300);
        table.close(200).unwrap();
        table.close(100).unwrap();
        assert_eq!(table.state.read().next_fd, 100);
        assert_eq!(table.open(Arc::new(0)), Ok(100));
        assert_eq!(table.state.read().next_fd, 101);
        assert_eq!(table.open(Arc::new(0)), Ok(200));
    }

    #[test]
    fn a_full_array_is_not_searched_past_its_end() {
        let table = filled(128);
        assert_eq!(table.state.read().next_fd, 128);
        assert_eq!(table.open(Arc::new(0)), Ok(128));
    }

    #[test]
    fn a_pair_gets_two_descriptors_or_none() {
        let table = RwLockBitmap::with_limit(3);
        let file = Arc::new(());
        let again = || Arc::clone(&file);
        assert_eq!(table.open_pair(again(), again()), Ok((0, 1)));
        assert_eq!(table.open_pair(again(), again()), Err(Error::TooManyFiles));
        assert_eq!(Arc::strong_count(&file), 3);
        assert_eq!(table.dup(1), Ok(2));
        assert_eq!(table.dup(7), Err(Error::BadFd));
    }

    #[test]
    fn exec_closes_descriptors_with_the_flag() {
        let table = filled(200);
        for fd in [0, 63, 150] {
            table.set_flags(fd, FdFlags::CLOEXEC).unwrap();
        }
        table.set_flags(63, FdFlags::empty()).unwrap();
        assert_eq!(table.flags(150), Ok(FdFlags::CLOEXEC));
        table.exec();
        assert_eq!(table.flags(150), Err(Error::BadFd));
        assert_eq!(table.flags(63), Ok(FdFlags::empty()));
        assert_eq!(table.open(Arc::new(0)), Ok(0));
    }

    #[test]
    fn a_closed_file_is_dropped() {
        let table = RwLockBitmap::with_limit(10);
        let file = Arc::new(());
        let fd = table.open(Arc::clone(&file)).unwrap();
        table.close(fd).unwrap();
        assert_eq!(Arc::strong_count(&file), 1);
    }
}
