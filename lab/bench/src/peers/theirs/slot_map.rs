//! `concurrent-slotmap`: a lock-free slab with generations.
//!
//! A guard is pinned for each change, and for a batch of lookups, as in its examples.

use concurrent_slotmap::{SlotId, SlotMap};

use crate::lookup::Padded;
use crate::subject::{Memory, Object, Subject, sum};

/// Limit of removed slots that are not freed yet. They wait for a thread that was preempted under
/// its guard, or that ended with some of them. Only addresses are reserved.
const SURPLUS: u32 = 1 << 24;

pub(super) type Map = SlotMap<SlotId, Object>;

impl Subject for Map {
    type File = Object;
    type Key = SlotId;
    type Reader = ();
    const MEMORY: Memory = Memory::Mapped;

    fn with_room(most: u32) -> Self {
        SlotMap::new(most.saturating_add(SURPLUS))
    }

    fn reader() {}

    #[inline]
    fn open(&self, file: Object) -> Option<SlotId> {
        Some(self.insert(file, &self.pin()))
    }

    #[inline]
    fn take(&self, key: SlotId) -> Option<Object> {
        self.remove(key, &self.pin()).cloned()
    }

    #[inline]
    fn close(&self, key: SlotId) -> Option<()> {
        self.remove(key, &self.pin()).map(|_| ())
    }

    #[inline]
    fn with<R>(&self, key: SlotId, read: impl FnOnce(&Padded) -> R) -> Option<R> {
        self.get(key, &self.pin()).map(|object| read(object))
    }

    #[inline]
    fn get(&self, key: SlotId) -> Option<Object> {
        self.get(key, &self.pin()).cloned()
    }

    #[inline]
    fn sum_borrowed(&self, (): &mut (), keys: &[SlotId]) -> u64 {
        let guard = self.pin();
        sum(keys, |key| self.get(key, &guard).map(|object| object.value))
    }
}
