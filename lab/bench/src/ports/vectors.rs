//! Cages as vectors behind one lock: the usual choice where the code has to be simple.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::cages::{Cages, Entry};

pub(super) struct Vectors(Mutex<State>);

#[derive(Default)]
struct State {
    cages: HashMap<u32, Vec<Option<Entry>>>,
    /// How many descriptors stand for each thing below.
    counts: HashMap<(u32, u64), usize>,
}

impl State {
    fn count(&mut self, entry: Entry) {
        *self.counts.entry((entry.kind, entry.under)).or_insert(0) += 1;
    }

    fn uncount(&mut self, entry: Entry) {
        let key = (entry.kind, entry.under);
        if let Some(count) = self.counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                // Here the sandbox closes it.
                self.counts.remove(&key);
            }
        }
    }
}

impl Cages for Vectors {
    fn new() -> Self {
        let mut state = State::default();
        state.cages.insert(0, Vec::new());
        Vectors(Mutex::new(state))
    }

    #[inline]
    fn open(&self, cage: u32, entry: Entry) -> Option<i32> {
        let mut state = self.0.lock();
        state.count(entry);
        let table = state.cages.get_mut(&cage)?;
        let free = table.iter().position(Option::is_none);
        let free = free.unwrap_or_else(|| {
            table.push(None);
            table.len() - 1
        });
        table[free] = Some(entry);
        Some(free as i32)
    }

    #[inline]
    fn open_at(&self, cage: u32, fd: i32, entry: Entry) -> Option<()> {
        let fd = usize::try_from(fd).ok()?;
        let mut state = self.0.lock();
        state.count(entry);
        let table = state.cages.get_mut(&cage)?;
        if table.len() <= fd {
            table.resize(fd + 1, None);
        }
        if let Some(before) = table[fd].replace(entry) {
            state.uncount(before);
        }
        Some(())
    }

    #[inline]
    fn find(&self, cage: u32, fd: i32) -> Option<Entry> {
        let state = self.0.lock();
        *state.cages.get(&cage)?.get(usize::try_from(fd).ok()?)?
    }

    #[inline]
    fn set_word(&self, cage: u32, fd: i32, word: u64) -> Option<()> {
        let mut state = self.0.lock();
        let table = state.cages.get_mut(&cage)?;
        let entry = table.get_mut(usize::try_from(fd).ok()?)?.as_mut()?;
        entry.word = word;
        Some(())
    }

    #[inline]
    fn close(&self, cage: u32, fd: i32) -> Option<()> {
        let mut state = self.0.lock();
        let table = state.cages.get_mut(&cage)?;
        let before = table.get_mut(usize::try_from(fd).ok()?)?.take()?;
        state.uncount(before);
        Some(())
    }

    fn fork(&self, from: u32, to: u32) -> Option<()> {
        let mut state = self.0.lock();
        let table = state.cages.get(&from)?.clone();
        table.iter().flatten().for_each(|&entry| state.count(entry));
        state.cages.insert(to, table);
        Some(())
    }

    fn remove(&self, cage: u32) -> Option<()> {
        let mut state = self.0.lock();
        let table = state.cages.remove(&cage)?;
        table
            .iter()
            .flatten()
            .for_each(|&entry| state.uncount(entry));
        Some(())
    }
}
