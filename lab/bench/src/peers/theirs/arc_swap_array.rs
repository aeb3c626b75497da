//! An array of `ArcSwapOption`, whose readers take no lock.
//!
//! It is as long as the program allows descriptors, with the free ones on a stack under a lock.

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::lookup::Padded;
use crate::subject::{Object, Subject};

pub(crate) struct Swapped {
    slots: Box<[ArcSwapOption<Padded>]>,
    /// The descriptor that was closed last is allocated first.
    free: Mutex<Vec<u32>>,
}

impl Subject for Swapped {
    type File = Object;
    type Key = u32;
    type Reader = ();

    fn with_room(most: u32) -> Self {
        Swapped {
            slots: (0..most).map(|_| ArcSwapOption::empty()).collect(),
            free: Mutex::new((0..most).rev().collect()),
        }
    }

    fn reader() {}

    #[inline]
    fn open(&self, file: Object) -> Option<u32> {
        let number = self.free.lock().pop()?;
        self.slots.get(number as usize)?.store(Some(file));
        Some(number)
    }

    #[inline]
    fn take(&self, key: u32) -> Option<Object> {
        let file = self.slots.get(key as usize)?.swap(None)?;
        self.free.lock().push(key);
        Some(file)
    }

    #[inline]
    fn with<R>(&self, key: u32, read: impl FnOnce(&Padded) -> R) -> Option<R> {
        let slot = self.slots.get(key as usize)?.load();
        slot.as_ref().map(|object| read(object))
    }

    #[inline]
    fn get(&self, key: u32) -> Option<Object> {
        self.slots.get(key as usize)?.load_full()
    }
}
