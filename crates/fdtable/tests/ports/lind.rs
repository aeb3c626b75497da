//! Lind's `fdtables`: a table of virtual descriptors for each cage.
//!
//! A virtual descriptor refers to an underlying descriptor of a kind, such as a host file or an
//! in-memory pipe. Several may refer to the same one, also in several cages. Each close calls a
//! handler of the kind: the last one, or an intermediate one with the number of entries left.
//!
//! Cages are files of a table, and a cage is a table itself. The underlying descriptors of a kind
//! are a table too, which maps their numbers to counts.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use fdtable::{ClosedFile, ClosedFiles, Error, Fd, FdData, FdFlags, FileRef, Files};

type Result<T = ()> = std::result::Result<T, Error>;

/// Target of a virtual descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) fdkind: i32,
    pub(crate) underfd: i32,
    pub(crate) should_cloexec: bool,
    pub(crate) perfdinfo: u64,
}

/// Gets the entry that was closed and the number of entries left with its underlying descriptor.
type CloseHandler = Box<dyn Fn(Entry, u64) + Send + Sync>;

#[derive(Default)]
pub(crate) struct FdTables {
    cages: Files<Files<Under>>,
    kinds: Files<Kind>,
}

/// A kind of underlying descriptors.
struct Kind {
    /// For an intermediate close, and for the last one.
    handlers: [CloseHandler; 2],
    unders: Files<Under>,
}

/// An underlying descriptor.
struct Under {
    kind: FileRef<Kind>,
    /// The first virtual descriptor.
    first: Entry,
    /// The number of virtual descriptors. After 0 it stays 0.
    entries: AtomicU64,
}

const NO_FLAGS: FdFlags = FdFlags::empty();

impl FdTables {
    /// Makes a kind, with the handlers for an intermediate and for the last close.
    pub(crate) fn register_close_handlers(&self, kind: i32, handlers: [CloseHandler; 2]) -> Result {
        let unders = Files::with_limit(1 << 31);
        let new = FileRef::new(Kind { handlers, unders });
        self.kinds.open_at(kind, new, NO_FLAGS)
    }

    pub(crate) fn init_empty_cage(&self, cage: i32) -> Result {
        self.add_cage(cage, Files::new())
    }

    /// Opens an entry at the lowest free descriptor. If there is no memory, the entry is closed.
    pub(crate) fn get_unused_virtual_fd(&self, cage: i32, entry: Entry) -> Result<Fd> {
        let cage = self.cages.get(cage)?;
        // First, so that a cage without a free descriptor leaves the counts as they are.
        let reserved = cage.reserve(NO_FLAGS)?;
        let under = self.count(entry)?;
        let installed = reserved.install_with(under.clone(), data(entry));
        installed.inspect_err(|_| close(&under, data(entry)))
    }

    /// Opens an entry at a descriptor, and closes the one that was there. If there is no memory,
    /// the entry is closed.
    pub(crate) fn get_specific_virtual_fd(&self, cage: i32, fd: i32, entry: Entry) -> Result {
        let cage = self.cages.get(cage)?;
        if Fd::new(fd)?.index() >= cage.limit() as usize {
            return Err(Error::BadFd);
        }
        let under = self.count(entry)?;
        let replaced = loop {
            let replaced = cage.replace(fd, under.clone(), data(entry));
            let Err(Error::Busy) = replaced else {
                break replaced;
            };
            // Another call installs its file there soon, or frees the descriptor.
            std::thread::yield_now();
        };
        let replaced = replaced.inspect_err(|_| close(&under, data(entry)));
        replaced.map(|displaced| displaced.into_iter().for_each(close_one))
    }

    pub(crate) fn translate_virtual_fd(&self, cage: i32, fd: i32) -> Result<Entry> {
        let (under, data) = self.cages.get(cage)?.get_with_data(fd)?;
        Ok(under.entry(data))
    }

    pub(crate) fn set_cloexec(&self, cage: i32, fd: i32, cloexec: bool) -> Result {
        self.cages.get(cage)?.set_fd_flags(fd, flags(cloexec))
    }

    pub(crate) fn set_perfdinfo(&self, cage: i32, fd: i32, info: u64) -> Result {
        self.cages.get(cage)?.set_word(fd, info).map(drop)
    }

    pub(crate) fn close_virtualfd(&self, cage: i32, fd: i32) -> Result {
        self.cages.get(cage)?.close_if(fd, None).map(close_one)
    }

    pub(crate) fn copy_fdtable_for_cage(&self, source: i32, new: i32) -> Result {
        let mut kept = Vec::new();
        let copy = self.cages.get(source)?.fork_keeping(|_, under, data| {
            // Another thread may have closed the last entry since the fork began.
            let is_kept = under.add_entry();
            kept.extend(is_kept.then(|| (under.clone(), data)));
            is_kept
        });
        let close_kept = |_: &_| kept.iter().for_each(|(under, data)| close(under, *data));
        self.add_cage(new, copy.inspect_err(close_kept)?)
    }

    /// Removes a cage. Its descriptors are closed when no call uses it any more.
    pub(crate) fn remove_cage_from_fdtable(&self, cage: i32) -> Result {
        self.cages.close(cage).map(drop)
    }

    pub(crate) fn empty_fds_for_exec(&self, cage: i32) -> Result {
        self.cages.get(cage)?.close_on_exec(close_all)
    }

    pub(crate) fn return_fdtable_copy(&self, cage: i32) -> Result<Vec<(i32, Entry)>> {
        let entry = |(fd, under, data): (Fd, FileRef<Under>, _)| (fd.raw(), under.entry(data));
        Ok(self.cages.get(cage)?.iter().map(entry).collect())
    }

    fn add_cage(&self, cage: i32, table: Files<Under>) -> Result {
        let end = |table: &Files<_>| table.close_range(0, u32::MAX, close_all);
        let table = FileRef::builder(table).on_release(move |table, _| end(table).unwrap());
        self.cages.open_at(cage, table.try_build()?, NO_FLAGS)
    }

    /// Finds an underlying descriptor, and counts one more entry of it.
    fn count(&self, first: Entry) -> Result<FileRef<Under>> {
        let kind = self.kinds.get(first.fdkind)?;
        let number = Fd::new(first.underfd)?;
        loop {
            let there = kind.unders.get(number);
            if there.as_ref().is_ok_and(|under| under.add_entry()) {
                return there;
            }
            let new = FileRef::new(Under {
                kind: kind.clone(),
                first,
                entries: AtomicU64::new(1),
            });
            let (unders, under) = (&kind.unders, new.clone());
            let put = match there {
                Ok(ended) => unders.replace_if(number, &ended, under, NO_FLAGS).map(drop),
                Err(_) => unders.open_at(number, under, NO_FLAGS),
            };
            // Unless another thread was first.
            if !matches!(put, Err(Error::Exists | Error::Stale | Error::BadFd)) {
                return put.map(|()| new);
            }
        }
    }
}

impl Under {
    /// Counts one more entry, if there is one.
    fn add_entry(&self) -> bool {
        let more = |entries| (entries > 0).then_some(entries + 1);
        self.entries.fetch_update(SeqCst, SeqCst, more).is_ok()
    }

    fn entry(&self, data: FdData) -> Entry {
        Entry {
            should_cloexec: data.flags.contains(FdFlags::CLOEXEC),
            perfdinfo: data.word,
            ..self.first
        }
    }
}

fn data(entry: Entry) -> FdData {
    (flags(entry.should_cloexec), entry.perfdinfo).into()
}

fn flags(cloexec: bool) -> FdFlags {
    FdFlags::from_bits_truncate(u32::from(cloexec))
}

/// Calls the handler for an entry that was closed.
fn close(under: &FileRef<Under>, data: FdData) {
    let left = under.entries.fetch_sub(1, SeqCst) - 1;
    if left == 0 {
        // Unless another thread has replaced it.
        drop(under.kind.unders.close_if(under.first.underfd, Some(under)));
    }
    under.kind.handlers[usize::from(left == 0)](under.entry(data), left);
}

fn close_one((closed, data): (ClosedFile<Under>, FdData)) {
    close(&closed.into_file(), data);
}

fn close_all(closed: ClosedFiles<Under>) {
    for (_, under, data) in closed.descriptors() {
        close(&under, data);
    }
    drop(closed);
}

mod tests {
    use std::sync::atomic::{AtomicU32, AtomicUsize};
    use std::sync::{Arc, Barrier, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    const HOST: i32 = 1;
    const PIPE: i32 = 2;

    fn entry(underfd: i32, perfdinfo: u64) -> Entry {
        Entry {
            fdkind: HOST,
            underfd,
            should_cloexec: false,
            perfdinfo,
        }
    }

    fn register(
        tables: &FdTables,
        fdkind: i32,
        intermediate: impl Fn(Entry, u64) + Send + Sync + 'static,
        last: impl Fn(Entry, u64) + Send + Sync + 'static,
    ) {
        let both: [CloseHandler; 2] = [Box::new(intermediate), Box::new(last)];
        tables.register_close_handlers(fdkind, both).unwrap();
    }

    /// Call of a handler: whether it was the last one, and the arguments.
    type Call = (bool, Entry, u64);

    /// Makes tables with one cage, whose handlers send their calls, while there is a receiver.
    fn tables() -> (Arc<FdTables>, mpsc::Receiver<Call>) {
        let tables = Arc::new(FdTables::default());
        let (calls, received) = mpsc::channel();
        let also = calls.clone();
        let intermediate = move |entry, left| _ = calls.send((false, entry, left));
        let last = move |entry, left| _ = also.send((true, entry, left));
        register(&tables, HOST, intermediate, last);
        register(&tables, PIPE, |_, _| (), |_, _| ());
        tables.init_empty_cage(1).unwrap();
        (tables, received)
    }

    #[test]
    fn a_descriptor_has_its_entry() {
        let (tables, _calls) = tables();
        let pipe = Entry {
            fdkind: PIPE,
            underfd: 7,
            should_cloexec: true,
            perfdinfo: 100,
        };
        let fd = tables.get_unused_virtual_fd(1, pipe).unwrap().raw();
        assert_eq!((fd, tables.translate_virtual_fd(1, fd)), (0, Ok(pipe)));
        tables.set_cloexec(1, fd, false).unwrap();
        tables.set_perfdinfo(1, fd, 200).unwrap();
        let changed = Entry {
            should_cloexec: false,
            perfdinfo: 200,
            ..pipe
        };
        assert_eq!(tables.return_fdtable_copy(1).unwrap(), [(fd, changed)]);
        assert_eq!(tables.translate_virtual_fd(1, 1), Err(Error::BadFd));
        assert_eq!(tables.translate_virtual_fd(2, fd), Err(Error::BadFd));
    }

    #[test]
    fn a_cage_has_1024_descriptors_and_the_next_one_counts_nothing() {
        let (tables, calls) = tables();
        for fd in 0..1024 {
            let opened = tables.get_unused_virtual_fd(1, entry(5, 0)).unwrap();
            assert_eq!(opened.raw(), fd);
        }
        let full = tables.get_unused_virtual_fd(1, entry(5, 0));
        assert_eq!(full, Err(Error::TooManyFiles));
        let above = tables.get_specific_virtual_fd(1, 1024, entry(5, 0));
        assert_eq!(above, Err(Error::BadFd));
        tables.close_virtualfd(1, 9).unwrap();
        assert_eq!(calls.try_recv(), Ok((false, entry(5, 0), 1023)));
    }

    #[test]
    fn the_last_handler_is_called_for_the_last_entry_of_all_cages() {
        let (tables, calls) = tables();
        tables.get_unused_virtual_fd(1, entry(5, 10)).unwrap();
        tables.get_unused_virtual_fd(1, entry(5, 11)).unwrap();
        tables.copy_fdtable_for_cage(1, 2).unwrap();
        tables.close_virtualfd(1, 0).unwrap();
        tables.get_specific_virtual_fd(1, 1, entry(6, 0)).unwrap();
        tables.remove_cage_from_fdtable(2).unwrap();
        let said: Vec<_> = calls.try_iter().collect();
        let expected = [
            (false, entry(5, 10), 3),
            (false, entry(5, 11), 2),
            (false, entry(5, 10), 1),
            (true, entry(5, 11), 0),
        ];
        assert_eq!(said, expected);
        // The same underlying descriptor begins anew.
        tables.get_unused_virtual_fd(1, entry(5, 12)).unwrap();
        tables.close_virtualfd(1, 0).unwrap();
        assert_eq!(calls.try_recv(), Ok((true, entry(5, 12), 0)));
    }

    #[test]
    fn exec_closes_what_has_the_flag() {
        let (tables, calls) = tables();
        for (underfd, should_cloexec) in [(5, true), (6, false), (7, true)] {
            let entry = Entry {
                should_cloexec,
                ..entry(underfd, 0)
            };
            tables.get_unused_virtual_fd(1, entry).unwrap();
        }
        tables.empty_fds_for_exec(1).unwrap();
        let closed: Vec<_> = calls
            .try_iter()
            .map(|(_, entry, _)| entry.underfd)
            .collect();
        assert_eq!(closed, [5, 7]);
        assert_eq!(tables.return_fdtable_copy(1).unwrap(), [(1, entry(6, 0))]);
    }

    #[test]
    fn a_cage_cannot_be_made_twice() {
        let (tables, calls) = tables();
        tables.get_unused_virtual_fd(1, entry(5, 0)).unwrap();
        assert_eq!(tables.init_empty_cage(1), Err(Error::Exists));
        tables.init_empty_cage(2).unwrap();
        assert_eq!(tables.copy_fdtable_for_cage(1, 2), Err(Error::Exists));
        // The copy was made, and closed.
        assert_eq!(calls.try_recv(), Ok((false, entry(5, 0), 1)));
        assert_eq!(tables.return_fdtable_copy(2), Ok(vec![]));
    }

    #[test]
    fn a_handler_may_use_the_tables() {
        let tables = Arc::new(FdTables::default());
        let weak = Arc::downgrade(&tables);
        let last = move |closed, _| {
            let tables = weak.upgrade().unwrap();
            let next = Entry {
                fdkind: PIPE,
                ..closed
            };
            tables.get_specific_virtual_fd(1, 9, next).unwrap();
        };
        register(&tables, HOST, |_, _| (), last);
        register(&tables, PIPE, |_, _| (), |_, _| ());
        tables.init_empty_cage(1).unwrap();
        tables.get_specific_virtual_fd(1, 9, entry(5, 0)).unwrap();
        tables.close_virtualfd(1, 9).unwrap();
        assert_eq!(tables.translate_virtual_fd(1, 9).unwrap().fdkind, PIPE);
    }

    /// Counts the calls of handlers for each entry, by its word.
    struct Calls {
        of_entry: Vec<AtomicU32>,
        last: AtomicUsize,
    }

    const ROUNDS: usize = 200_000;

    fn counting() -> (FdTables, Arc<Calls>) {
        let calls = Arc::new(Calls {
            of_entry: (0..ROUNDS).map(|_| AtomicU32::new(0)).collect(),
            last: AtomicUsize::new(0),
        });
        let (one, other) = (Arc::clone(&calls), Arc::clone(&calls));
        let count = |calls: &Calls, entry: Entry| {
            calls.of_entry[entry.perfdinfo as usize].fetch_add(1, SeqCst);
        };
        let intermediate = move |entry, left| {
            assert!(left > 0);
            count(&one, entry);
        };
        let last = move |entry, left| {
            assert_eq!(left, 0);
            other.last.fetch_add(1, SeqCst);
            count(&other, entry);
        };
        let tables = FdTables::default();
        register(&tables, HOST, intermediate, last);
        tables.init_empty_cage(1).unwrap();
        (tables, calls)
    }

    /// Calls `step` in two threads at once with numbers of their own, in up to `ROUNDS` rounds in a
    /// second. Returns the numbers that were used.
    fn race(step: impl Fn(u64) + Sync) -> Vec<usize> {
        let deadline = Instant::now() + Duration::from_secs(1);
        let start = Barrier::new(2);
        let run = |thread: usize| {
            start.wait();
            let mine = (thread..ROUNDS).step_by(2);
            let until_then = mine.take_while(|_| Instant::now() < deadline);
            until_then.inspect(|&round| step(round as u64)).collect()
        };
        let (mut used, other): (Vec<usize>, Vec<usize>) = thread::scope(|scope| {
            let other = scope.spawn(|| run(1));
            (run(0), other.join().unwrap())
        });
        used.extend(other);
        used
    }

    fn assert_each_was_called_once(calls: &Calls, used: &[usize]) {
        let called = |entry: usize| calls.of_entry[entry].load(SeqCst);
        assert!(used.iter().all(|&entry| called(entry) == 1));
        let all: usize = (0..ROUNDS).map(|entry| called(entry) as usize).sum();
        assert_eq!(all, used.len());
    }

    #[test]
    fn each_displaced_entry_is_handled_once() {
        let (tables, calls) = counting();
        // Two threads replace one descriptor, and each underlying descriptor ends many times.
        let used = race(|round| {
            let entry = entry((round % 3) as i32, round);
            tables.get_specific_virtual_fd(1, 4, entry).unwrap();
        });
        assert!(used.len() > 1000, "{}", used.len());
        tables.remove_cage_from_fdtable(1).unwrap();
        assert_each_was_called_once(&calls, &used);
        assert!(calls.last.load(SeqCst) > 0);
    }

    #[test]
    fn closes_of_a_parent_and_copies_agree_which_was_the_last() {
        let (tables, calls) = counting();
        // Each round has an underlying descriptor of its own, so it ends once.
        let closed = AtomicUsize::new(0);
        let used = race(|round| {
            if round % 2 == 0 {
                tables
                    .get_specific_virtual_fd(1, 4, entry(round as i32, round))
                    .unwrap();
            } else {
                tables.copy_fdtable_for_cage(1, 2).unwrap();
                let copied = tables.return_fdtable_copy(2).unwrap();
                closed.fetch_add(copied.len(), SeqCst);
                tables.remove_cage_from_fdtable(2).unwrap();
            }
        });
        tables.remove_cage_from_fdtable(1).unwrap();
        let opened = used.iter().filter(|&round| round % 2 == 0).count();
        assert_eq!(calls.last.load(SeqCst), opened);
        let all = calls.of_entry.iter().map(|called| called.load(SeqCst));
        let all: usize = all.map(|calls| calls as usize).sum();
        assert_eq!(all, opened + closed.load(SeqCst));
    }
}
