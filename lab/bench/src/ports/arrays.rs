//! Cages as arrays of a fixed size in a map with a lock for each shard: the usual choice where
//! lookups have to be fast.

use dashmap::DashMap;

use super::cages::{Cages, Entry};

/// As many descriptors as a cage may have.
const SLOTS: usize = 1024;

pub(super) struct Arrays {
    cages: DashMap<u32, Box<[Option<Entry>; SLOTS]>>,
    /// How many descriptors stand for each thing below.
    counts: DashMap<(u32, u64), usize>,
}

impl Arrays {
    fn count(&self, entry: Entry) {
        *self.counts.entry((entry.kind, entry.under)).or_insert(0) += 1;
    }

    fn uncount(&self, entry: Entry) {
        let key = (entry.kind, entry.under);
        let is_last = self.counts.get_mut(&key).is_some_and(|mut count| {
            *count -= 1;
            *count == 0
        });
        if is_last {
            // Here the sandbox closes it.
            self.counts.remove_if(&key, |_, &count| count == 0);
        }
    }
}

impl Cages for Arrays {
    fn new() -> Self {
        let cages = DashMap::new();
        cages.insert(0, Box::new([None; SLOTS]));
        Arrays {
            cages,
            counts: DashMap::new(),
        }
    }

    #[inline]
    fn open(&self, cage: u32, entry: Entry) -> Option<i32> {
        self.count(entry);
        let mut table = self.cages.get_mut(&cage)?;
        let free = table.iter().position(Option::is_none)?;
        table[free] = Some(entry);
        Some(free as i32)
    }

    #[inline]
    fn open_at(&self, cage: u32, fd: i32, entry: Entry) -> Option<()> {
        self.count(entry);
        let before = self
            .cages
            .get_mut(&cage)?
            .get_mut(usize::try_from(fd).ok()?)?
            .replace(entry);
        if let Some(before) = before {
            self.uncount(before);
        }
        Some(())
    }

    #[inline]
    fn find(&self, cage: u32, fd: i32) -> Option<Entry> {
        let table = self.cages.get(&cage)?;
        *table.get(usize::try_from(fd).ok()?)?
    }

    #[inline]
    fn set_word(&self, cage: u32, fd: i32, word: u64) -> Option<()> {
        let mut table = self.cages.get_mut(&cage)?;
        let entry = table.get_mut(usize::try_from(fd).ok()?)?.as_mut()?;
        entry.word = word;
        Some(())
    }

    #[inline]
    fn close(&self, cage: u32, fd: i32) -> Option<()> {
        let before = self
            .cages
            .get_mut(&cage)?
            .get_mut(usize::try_from(fd).ok()?)?
            .take()?;
        self.uncount(before);
        Some(())
    }

    fn fork(&self, from: u32, to: u32) -> Option<()> {
        let table = self.cages.get(&from)?.clone();
        table.iter().flatten().for_each(|&entry| self.count(entry));
        self.cages.insert(to, table);
        Some(())
    }

    fn remove(&self, cage: u32) -> Option<()> {
        let (_, table) = self.cages.remove(&cage)?;
        table
            .iter()
            .flatten()
            .for_each(|&entry| self.uncount(entry));
        Some(())
    }
}
