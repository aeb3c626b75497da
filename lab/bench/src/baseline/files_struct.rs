//! The table that RCU replaced in Linux: `files_struct` of 2.4, under a reader-writer lock.
//!
//! As there: an array of files, a bitmap of open descriptors, a bitmap of those that close on exec,
//! and `next_fd`, below which every descriptor is open. Lookup (`fget`) takes the read lock and
//! takes its reference under it. A full array is replaced by one of twice the size, copied under
//! the write lock. Two things are better than there: `open` takes the lock once and not twice
//! (`get_unused_fd`, `fd_install`), and the lock sleeps instead of spinning.

use std::os::fd::RawFd;

use fdtable::Error;

use super::{Reference, WORD, file_of, place, take_of};

/// Descriptors for which a new table has room (`NR_OPEN_DEFAULT`).
const FIRST_CAPACITY: usize = 64;

/// Content of the table.
#[derive(Clone, Debug)]
pub struct State<R> {
    /// Its length is the number of bits of a bitmap: a power of two.
    files: Box<[Option<R>]>,
    open: Box<[u64]>,
    close_on_exec: Box<[u64]>,
    /// Every descriptor below is open.
    next_fd: usize,
}

impl<R: Reference> super::State for State<R> {
    type Ref = R;
    const NAME: &'static str = "files_struct under a rwlock";

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
        self.next_fd = number + 1;
        self.replace(number, file);
        Ok(number as RawFd)
    }

    #[inline]
    fn file(&self, fd: RawFd) -> Result<&R, Error> {
        file_of(&self.files, fd)
    }

    #[inline]
    fn take(&mut self, fd: RawFd) -> Result<R, Error> {
        let file = take_of(&mut self.files, fd)?;
        let (word, bit) = place(fd as usize);
        self.open[word] &= !bit;
        self.close_on_exec[word] &= !bit;
        self.next_fd = self.next_fd.min(fd as usize);
        Ok(file)
    }

    #[inline]
    fn close_on_exec(&self) -> &[u64] {
        &self.close_on_exec
    }

    #[inline]
    fn close_on_exec_mut(&mut self, word: usize) -> &mut u64 {
        &mut self.close_on_exec[word]
    }
}

impl<R> State<R> {
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

    /// Installs the file and returns the one that was open there.
    #[inline]
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
    use std::sync::Arc;

    use super::super::RwLockBitmap;
    use crate::table::Table;

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
}
