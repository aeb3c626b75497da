//! Cages on our table: a table of tables, since cages have numbers as descriptors have. Lookups
//! borrow; what is below is closed by the release hook.

use std::hint::black_box;

use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};

use super::cages::{Cages, Entry};

/// Target of a descriptor.
struct Below {
    kind: u32,
    under: u64,
}

type Table = Files<Rcu<Below>>;

pub(super) struct Ours(Files<Rcu<Table>>);

impl Ours {
    /// Calls `act` with the table of a cage.
    #[inline]
    fn with<R>(&self, cage: u32, act: impl FnOnce(&Table) -> Option<R>) -> Option<R> {
        let section = rcu::read_lock();
        let table = self.0.get_rcu(cage, &section).ok()?;
        act(&table)
    }
}

fn data(entry: Entry) -> (FdFlags, u64) {
    let flags = match entry.cloexec {
        true => FdFlags::CLOEXEC,
        false => FdFlags::empty(),
    };
    (flags, entry.word)
}

fn file(entry: Entry) -> FileRef<Rcu<Below>> {
    let below = FileRef::builder(Below {
        kind: entry.kind,
        under: entry.under,
    });
    // Here the sandbox closes it.
    let close = |below: &Below, _| {
        black_box(below.under);
    };
    below.on_release(close).rcu().build()
}

impl Cages for Ours {
    fn new() -> Self {
        let cages = Files::new();
        let opened = cages.open(FileRef::new_rcu(Files::new()), FdFlags::empty());
        opened.expect("it is empty");
        Ours(cages)
    }

    #[inline]
    fn open(&self, cage: u32, entry: Entry) -> Option<i32> {
        self.with(cage, |table| {
            Some(table.open(file(entry), data(entry)).ok()?.raw())
        })
    }

    #[inline]
    fn open_at(&self, cage: u32, fd: i32, entry: Entry) -> Option<()> {
        self.with(cage, |table| {
            table.replace(fd, file(entry), data(entry)).ok().map(drop)
        })
    }

    #[inline]
    fn find(&self, cage: u32, fd: i32) -> Option<Entry> {
        let section = rcu::read_lock();
        let table = self.0.get_rcu(cage, &section).ok()?;
        let (below, data) = table.get_rcu_with_data(fd, &section).ok()?;
        Some(Entry {
            kind: below.kind,
            under: below.under,
            cloexec: data.flags.contains(FdFlags::CLOEXEC),
            word: data.word,
        })
    }

    #[inline]
    fn set_word(&self, cage: u32, fd: i32, word: u64) -> Option<()> {
        self.with(cage, |table| table.set_word(fd, word).ok().map(drop))
    }

    #[inline]
    fn close(&self, cage: u32, fd: i32) -> Option<()> {
        self.with(cage, |table| table.close(fd).ok().map(drop))
    }

    fn fork(&self, from: u32, to: u32) -> Option<()> {
        let child = self.with(from, |table| table.fork().ok())?;
        self.0
            .open_at(to, FileRef::new_rcu(child), FdFlags::empty())
            .ok()
    }

    fn remove(&self, cage: u32) -> Option<()> {
        let table = self.0.close(cage).ok()?;
        // Now, and not when the table is dropped: readers may have borrowed it.
        table.close_range(0, -1, drop).ok()
    }
}
