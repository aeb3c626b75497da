//! Counted files, and a record of the end of each.

use std::sync::{Arc, Mutex};

use fdtable::{FileRef, Rcu};

/// Which files have been released and dropped, in the order in which it happened.
#[derive(Default)]
pub(crate) struct Ledger {
    released: Mutex<Vec<i32>>,
    dropped: Mutex<Vec<i32>>,
}

impl Ledger {
    pub(crate) fn note_release(&self, number: i32) {
        self.released.lock().expect("no panic").push(number);
    }

    /// Takes the files that were released since the last call, in order of their numbers.
    pub(crate) fn take_released(&self) -> Vec<i32> {
        sorted(&self.released)
    }

    /// Takes the files that were dropped since the last call, in order of their numbers.
    pub(crate) fn take_dropped(&self) -> Vec<i32> {
        sorted(&self.dropped)
    }
}

fn sorted(list: &Mutex<Vec<i32>>) -> Vec<i32> {
    let mut numbers = std::mem::take(&mut *list.lock().expect("no panic"));
    numbers.sort_unstable();
    numbers
}

/// A file of the table.
pub(crate) struct Object {
    pub(crate) number: i32,
    ledger: Arc<Ledger>,
}

impl Drop for Object {
    fn drop(&mut self) {
        self.ledger
            .dropped
            .lock()
            .expect("no panic")
            .push(self.number);
    }
}

/// A file of the oracle, which is released when its last reference goes.
pub(crate) struct Token {
    pub(crate) number: i32,
    ledger: Arc<Ledger>,
}

impl Drop for Token {
    fn drop(&mut self) {
        self.ledger.note_release(self.number);
    }
}

/// Makes files, and counts them from 0.
#[derive(Default)]
pub(crate) struct Maker {
    pub(crate) made: i32,
    pub(crate) ledger: Arc<Ledger>,
}

impl Maker {
    pub(crate) fn object(&mut self) -> FileRef<Rcu<Object>> {
        let (number, ledger) = self.next();
        let object = Object { number, ledger };
        FileRef::builder(object)
            .on_release(|object, _| object.ledger.note_release(object.number))
            .rcu()
            .build()
    }

    pub(crate) fn token(&mut self) -> Arc<Token> {
        let (number, ledger) = self.next();
        Arc::new(Token { number, ledger })
    }

    fn next(&mut self) -> (i32, Arc<Ledger>) {
        self.made += 1;
        (self.made - 1, self.ledger.clone())
    }
}
