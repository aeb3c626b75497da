//! The oracle: an obviously correct descriptor table, with one mutex and one array.
//!
//! Written from the man pages `open(2)`, `dup(2)`, `close(2)`, `close_range(2)`, `fcntl(2)`,
//! `fork(2)`, `execve(2)` and `getrlimit(2)` in the plainest way. The array has an entry for each
//! taken descriptor, in order. `F` is a counted reference to a file: the file is released when its
//! last entry and its last other holder are gone. The calls that have no man page, with words or at
//! a given descriptor, are written from their documentation.

use std::sync::Mutex;

use fdtable::{FdData, FdFlags};

/// The numbers of `errno(3)`.
const EBADF: i32 = 9;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const EMFILE: i32 = 24;
const ESTALE: i32 = 116;

/// Every operation is done under the mutex, from beginning to end.
pub(crate) type Oracle<F> = Mutex<Table<F>>;

pub(crate) struct Table<F> {
    /// `RLIMIT_NOFILE`: one more than the highest descriptor that an open returns.
    pub(crate) limit: u32,
    entries: Vec<Entry<F>>,
}

#[derive(Clone)]
struct Entry<F> {
    number: i32,
    data: FdData,
    /// Nothing: the descriptor is reserved, and its file is not installed yet.
    file: Option<F>,
}

impl<F: Clone> Table<F> {
    pub(crate) fn with_limit(limit: u32) -> Self {
        let entries = Vec::new();
        Self { limit, entries }
    }

    /// open(2): "the lowest-numbered file descriptor not currently open". No file: reserves it.
    pub(crate) fn open(&mut self, file: Option<F>, data: impl Into<FdData>) -> Result<i32, i32> {
        let data = check(data)?;
        self.take_lowest(0, file, data)
    }

    /// Opens `file` under a free descriptor that the table has chosen.
    pub(crate) fn open_chosen(&mut self, number: i32, file: F, data: FdData) {
        assert!(self.allows(number), "{number} is past the limit");
        let place = self.find(number).expect_err("the number is free");
        let file = Some(file);
        #[rustfmt::skip]
        self.entries.insert(place, Entry { number, data, file });
    }

    /// Takes that many of the lowest descriptors for later files, or none.
    pub(crate) fn reserve_many(&mut self, count: u32, flags: FdFlags) -> Result<Vec<i32>, i32> {
        check(flags)?;
        let before = self.entries.clone();
        let taken: Result<Vec<i32>, i32> = (0..count).map(|_| self.open(None, flags)).collect();
        if taken.is_err() {
            self.entries = before;
        }
        taken
    }

    /// pipe(2), socketpair(2): two of the lowest descriptors, or none.
    pub(crate) fn open_pair(&mut self, files: [F; 2], flags: FdFlags) -> Result<Vec<i32>, i32> {
        let before = self.entries.clone();
        let open = |file| self.open(Some(file), flags);
        let opened: Result<Vec<i32>, i32> = files.into_iter().map(open).collect();
        if opened.is_err() {
            self.entries = before;
        }
        opened
    }

    pub(crate) fn reserve_from(&mut self, min: i32, flags: FdFlags) -> Result<i32, i32> {
        let data = check(flags)?;
        self.check_min(min)?;
        self.take_lowest(min, None, data)
    }

    pub(crate) fn install(&mut self, reserved: i32, file: F) {
        let place = self.find(reserved).expect("it is reserved");
        self.entries[place].file = Some(file);
    }

    /// As [`install`](Self::install), or [`cancel`](Self::cancel) if it is refused.
    pub(crate) fn install_with(
        &mut self,
        reserved: i32,
        file: F,
        data: FdData,
    ) -> Result<i32, i32> {
        let place = self.find(reserved).expect("it is reserved");
        let Ok(data) = check(data) else {
            self.cancel(reserved);
            return Err(EINVAL);
        };
        self.entries[place].data = data;
        self.install(reserved, file);
        Ok(reserved)
    }

    pub(crate) fn cancel(&mut self, reserved: i32) {
        let place = self.find(reserved).expect("it is reserved");
        self.entries.remove(place);
    }

    pub(crate) fn get(&self, number: i32) -> Result<F, i32> {
        self.find_open(number).map(|(_, file)| file)
    }

    /// close(2), and returns the closed file.
    pub(crate) fn take(&mut self, number: i32) -> Result<F, i32> {
        self.close(number).map(|(file, _)| file)
    }

    /// close(2), and returns the closed file with the data that the descriptor had.
    pub(crate) fn close(&mut self, number: i32) -> Result<(F, FdData), i32> {
        let (place, file) = self.find_open(number)?;
        let entry = self.entries.remove(place);
        Ok((file, entry.data))
    }

    pub(crate) fn dup(&mut self, old: i32) -> Result<i32, i32> {
        let file = self.get(old)?;
        self.take_lowest(0, Some(file), FdData::default())
    }

    /// fcntl(2), `F_DUPFD` and `F_DUPFD_CLOEXEC`.
    pub(crate) fn dup_min(
        &mut self,
        old: i32,
        min: i32,
        data: impl Into<FdData>,
    ) -> Result<i32, i32> {
        let data = check(data)?;
        let file = self.get(old)?;
        self.check_min(min)?;
        self.take_lowest(min, Some(file), data)
    }

    /// dup(2): "If oldfd equals newfd, then dup3() fails with the error EINVAL."
    pub(crate) fn dup3(&mut self, old: i32, new: i32, data: impl Into<FdData>) -> Result<i32, i32> {
        let data = check(data)?;
        if old == new {
            return Err(EINVAL);
        }
        let file = self.get(old)?;
        if !self.allows(new) {
            return Err(EBADF);
        }
        self.put(new, file, data).map(|_| new)
    }

    /// Puts a file at a descriptor, and returns what was open there.
    fn put(&mut self, number: i32, file: F, data: FdData) -> Result<Option<(F, FdData)>, i32> {
        let before = match self.close(number) {
            Err(_) if self.find(number).is_ok() => return Err(EBUSY),
            before => before.ok(),
        };
        self.take_lowest(number, Some(file), data)?;
        Ok(before)
    }

    /// Puts a file at a descriptor below the limit, and returns what was open there.
    pub(crate) fn replace(
        &mut self,
        number: i32,
        file: F,
        data: FdData,
    ) -> Result<Option<(F, FdData)>, i32> {
        let data = check(data)?;
        if !self.allows(number) {
            return Err(EBADF);
        }
        self.put(number, file, data)
    }

    /// Puts a file at a free descriptor below the limit.
    pub(crate) fn open_at(&mut self, number: i32, file: F, data: FdData) -> Result<i32, i32> {
        let data = check(data)?;
        if !self.allows(number) {
            return Err(EBADF);
        }
        if self.get(number).is_ok() {
            return Err(EEXIST);
        }
        self.put(number, file, data).map(|_| number)
    }

    /// Puts a file at a descriptor below the limit whose file is the expected one.
    pub(crate) fn replace_if(
        &mut self,
        number: i32,
        is_expected: impl Fn(&F) -> bool,
        file: F,
        data: FdData,
    ) -> Result<Option<(F, FdData)>, i32> {
        let data = check(data)?;
        if !self.allows(number) {
            return Err(EBADF);
        }
        if !is_expected(&self.get(number)?) {
            return Err(ESTALE);
        }
        self.put(number, file, data)
    }

    /// Closes a descriptor whose file is the expected one, and returns what was open there.
    pub(crate) fn close_if(
        &mut self,
        number: i32,
        is_expected: impl Fn(&F) -> bool,
    ) -> Result<Option<(F, FdData)>, i32> {
        if !is_expected(&self.get(number)?) {
            return Err(ESTALE);
        }
        self.close(number).map(Some)
    }

    /// Moves a file with its data, and returns what was open there.
    pub(crate) fn rename(&mut self, from: i32, to: i32) -> Result<Option<(F, FdData)>, i32> {
        let (file, data) = self.open_with_data(from)?;
        if from == to {
            return Ok(None);
        }
        if !self.allows(to) {
            return Err(EBADF);
        }
        let before = self.put(to, file, data)?;
        self.close(from).map(|_| before)
    }

    /// The file of a descriptor, and its data.
    pub(crate) fn open_with_data(&self, number: i32) -> Result<(F, FdData), i32> {
        let (place, file) = self.find_open(number)?;
        Ok((file, self.entries[place].data))
    }

    /// Changes the data of a descriptor, and returns the data before.
    pub(crate) fn change_data(
        &mut self,
        number: i32,
        change: impl FnOnce(FdData) -> FdData,
    ) -> Result<FdData, i32> {
        let (place, _) = self.find_open(number)?;
        let before = self.entries[place].data;
        self.entries[place].data = change(before);
        Ok(before)
    }

    /// Open descriptors, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (i32, &F, FdData)> {
        let entries = self.entries.iter();
        entries.filter_map(|entry| Some((entry.number, entry.file.as_ref()?, entry.data)))
    }

    /// dup(2): "If oldfd is a valid file descriptor, and newfd has the same value as oldfd, then
    /// dup2() does nothing, and returns newfd."
    pub(crate) fn dup2(&mut self, old: i32, new: i32) -> Result<i32, i32> {
        if old == new {
            return self.get(old).and(Ok(new));
        }
        self.dup3(old, new, FdFlags::empty())
    }

    /// close_range(2): "all open file descriptors from first to last (included)".
    pub(crate) fn close_range(&mut self, first: u32, last: u32) -> Result<(), i32> {
        let meant = Self::range(first, last)?;
        self.entries.retain(|entry| !meant(entry));
        Ok(())
    }

    /// close_range(2), `CLOSE_RANGE_CLOEXEC`.
    pub(crate) fn set_cloexec_range(&mut self, first: u32, last: u32) -> Result<(), i32> {
        let meant = Self::range(first, last)?;
        for entry in self.entries.iter_mut().filter(|e| meant(e)) {
            entry.data.flags |= FdFlags::CLOEXEC;
        }
        Ok(())
    }

    /// fcntl(2), `F_GETFD`.
    pub(crate) fn flags(&self, number: i32) -> Result<FdFlags, i32> {
        let (place, _) = self.find_open(number)?;
        Ok(self.entries[place].data.flags)
    }

    /// fcntl(2), `F_SETFD`: "only one such flag is defined". Others are refused, not ignored.
    pub(crate) fn set_flags(&mut self, number: i32, flags: FdFlags) -> Result<(), i32> {
        check(flags)?;
        let (place, _) = self.find_open(number)?;
        self.entries[place].data.flags = flags;
        Ok(())
    }

    /// fork(2): "The child inherits copies of the parent's set of open file descriptors", but for
    /// those with `FD_CLOFORK` of POSIX.1-2024.
    pub(crate) fn fork(&self) -> Self {
        let mut child = self.fork_keeping(|_| true);
        let is_kept = |entry: &Entry<F>| !entry.data.flags.contains(FdFlags::CLOFORK);
        child.entries.retain(is_kept);
        child
    }

    /// As [`fork`](Self::fork), with the kept descriptors alone, whatever flags they have.
    pub(crate) fn fork_keeping(&self, keep: impl Fn(i32) -> bool) -> Self {
        let (limit, mut entries) = (self.limit, self.entries.clone());
        entries.retain(|entry| entry.file.is_some() && keep(entry.number));
        Self { limit, entries }
    }

    /// execve(2): "file descriptors that are marked close-on-exec are closed". The others lose
    /// `FD_CLOFORK`.
    pub(crate) fn exec(&mut self) {
        let is_closed = |e: &Entry<F>| e.data.flags.contains(FdFlags::CLOEXEC);
        self.entries.retain(|e| e.file.is_none() || !is_closed(e));
        for entry in self.entries.iter_mut().filter(|e| e.file.is_some()) {
            entry.data.flags -= FdFlags::CLOFORK;
        }
    }

    pub(crate) fn next_open(&self, from: i32) -> Option<i32> {
        let rest = &self.entries[self.find(from).unwrap_or_else(|place| place)..];
        rest.iter().find(|e| e.file.is_some()).map(|e| e.number)
    }

    pub(crate) fn open_count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the index of a descriptor's entry, or the index for inserting it.
    fn find(&self, number: i32) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&number, |e| e.number)
    }

    fn find_open(&self, number: i32) -> Result<(usize, F), i32> {
        let place = self.find(number).map_err(|_| EBADF)?;
        let file = self.entries[place].file.clone().ok_or(EBADF)?;
        Ok((place, file))
    }

    fn allows(&self, number: i32) -> bool {
        number >= 0 && number.cast_unsigned() < self.limit
    }

    /// fcntl(2): "EINVAL op is F_DUPFD and arg is negative or is greater than the maximum".
    fn check_min(&self, min: i32) -> Result<(), i32> {
        self.allows(min).then_some(()).ok_or(EINVAL)
    }

    fn take_lowest(&mut self, min: i32, file: Option<F>, data: FdData) -> Result<i32, i32> {
        let (mut number, mut place) = (min, self.find(min).unwrap_or_else(|place| place));
        while self.entries.get(place).is_some_and(|e| e.number == number) {
            number = number.checked_add(1).ok_or(EMFILE)?;
            place += 1;
        }
        if !self.allows(number) {
            return Err(EMFILE);
        }
        #[rustfmt::skip]
        self.entries.insert(place, Entry { number, data, file });
        Ok(number)
    }

    /// close_range(2): "EINVAL first is greater than last".
    fn range(first: u32, last: u32) -> Result<impl Fn(&Entry<F>) -> bool, i32> {
        let holds = move |number: i32| (first..=last).contains(&number.cast_unsigned());
        let open_in = move |entry: &Entry<F>| entry.file.is_some() && holds(entry.number);
        (first <= last).then_some(open_in).ok_or(EINVAL)
    }
}

/// dup(2): "EINVAL (dup3()) flags contain an invalid value." So do all other calls.
fn check(data: impl Into<FdData>) -> Result<FdData, i32> {
    let data = data.into();
    match data.flags.bits() {
        0..=3 => Ok(data),
        _ => Err(EINVAL),
    }
}
