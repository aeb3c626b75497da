//! The tables that anyone writes in ten lines, which ours are measured beside.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use slab::Slab;

use crate::operation::Object;

/// The rivals, with as many open descriptors as our table.
pub(crate) struct Rivals {
    vector: RwLock<Vec<Option<Arc<Object>>>>,
    slab: Mutex<Slab<Arc<Object>>>,
}

impl Rivals {
    pub(crate) fn new(live: usize) -> Self {
        let object = |nth: usize| Arc::new([nth as u64; 8]);
        Rivals {
            vector: RwLock::new((0..live).map(|nth| Some(object(nth))).collect()),
            slab: Mutex::new((0..live).map(|nth| (nth, object(nth))).collect()),
        }
    }

    /// Takes a reference to the file at `fd`.
    pub(crate) fn get(&self, fd: usize) -> Option<Arc<Object>> {
        let vector = self.vector.read().unwrap_or_else(PoisonError::into_inner);
        vector.get(fd)?.clone()
    }

    pub(crate) fn open(&self, file: Arc<Object>) -> usize {
        let mut slab = self.slab.lock().unwrap_or_else(PoisonError::into_inner);
        slab.insert(file)
    }

    pub(crate) fn close(&self, key: usize) -> Option<Arc<Object>> {
        let mut slab = self.slab.lock().unwrap_or_else(PoisonError::into_inner);
        slab.try_remove(key)
    }
}
