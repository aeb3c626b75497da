//! `concurrent-slotmap`: a lock-free slab with generations.
//!
//! A guard is pinned for each change, and for a batch of lookups, as in its examples.

use concurrent_slotmap::{SlotId, SlotMap};

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
    fn borrowed(&self, key: SlotId) -> Option<u64> {
        self.get(key, &self.pin()).map(|object| object.value)
    }

    #[inline]
    fn owned(&self, key: SlotId) -> Option<u64> {
        let object = self.get(key, &self.pin()).cloned()?;
        Some(object.value)
    }

    #[inline]
    fn sum_borrowed(&self, (): &mut (), keys: &[SlotId]) -> u64 {
        let guard = self.pin();
        sum(keys, |key| self.get(key, &guard).map(|object| object.value))
    }
}
