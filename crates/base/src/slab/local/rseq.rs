//! The magazines of the processors by restartable sequences.

use core::ptr::NonNull;

use crossbeam_utils::CachePadded;

use super::Pair;
use crate::fallible::OutOfMemory;
use crate::percpu::PerCpu;
use crate::slab::magazine::{Lack, Magazine, MagazineList};
use crate::sync::Mutex;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::Relaxed;

use sequence::Area;

#[cfg(loom)]
#[path = "rseq/model.rs"]
mod sequence;
#[cfg(all(
    feature = "std",
    target_os = "linux",
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(loom)
))]
#[path = "rseq/x86_64.rs"]
mod sequence;
#[cfg(not(any(
    loom,
    all(
        feature = "std",
        target_os = "linux",
        target_arch = "x86_64",
        target_pointer_width = "64"
    )
)))]
#[path = "rseq/missing.rs"]
mod sequence;

/// The magazines of all processors. The first four fields are what the sequences use.
pub(super) struct Cpus {
    /// The first of `pairs`.
    base: *const CachePadded<Pair>,
    /// How many `pairs` there are. A processor of a higher number has none.
    limit: usize,
    area: Area,
    /// Set while somebody drains: no magazine is put in a place.
    stopped: AtomicBool,
    pairs: PerCpu<Pair>,
    /// Held by who drains.
    drains: Mutex<()>,
}

// SAFETY: `base` points into `pairs`, whose content is atomic.
unsafe impl Send for Cpus {}
// SAFETY: as above.
unsafe impl Sync for Cpus {}

impl Cpus {
    /// Makes the places, or nothing where the system cannot restart sequences.
    pub(super) fn try_new() -> Result<Option<Self>, OutOfMemory> {
        let Some(area) = Area::find() else {
            return Ok(None);
        };
        let pairs = PerCpu::try_with_copies(sequence::copies(), |_| Pair::new())?;
        Ok(Some(Self {
            base: pairs.as_slice().as_ptr(),
            limit: pairs.as_slice().len(),
            area,
            stopped: AtomicBool::new(false),
            pairs,
            drains: Mutex::new(()),
        }))
    }

    #[inline(always)]
    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        NonNull::new(sequence::pop(self)).or_else(|| self.pop_previous())
    }

    #[inline(always)]
    pub(super) fn push(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        if sequence::push(self, object) {
            return Ok(());
        }
        self.push_previous(object)
    }

    #[cold]
    #[inline(never)]
    fn pop_previous(&self) -> Option<NonNull<u8>> {
        // Again while others take what was there: then they have got on.
        while sequence::exchange(self, Lack::Objects) {
            if let Some(object) = NonNull::new(sequence::pop(self)) {
                return Some(object);
            }
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn push_previous(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        while sequence::exchange(self, Lack::Room) {
            if sequence::push(self, object) {
                return Ok(());
            }
        }
        Err(object)
    }

    pub(super) fn load(&self, magazine: Magazine, lack: Lack) -> Option<Magazine> {
        let displaced = sequence::load(self, magazine.into_raw(), lack);
        // SAFETY: it is in no place any more, and who displaced it has it; or it is the given one.
        unsafe { Magazine::from_raw(displaced) }
    }

    pub(super) fn drain(&self, drained: &mut MagazineList) {
        let _drains = self.drains.lock();
        // (S)
        self.stopped.store(true, Relaxed);
        // (T)
        sequence::restart(self.area);
        // (U)
        let taken = self.pairs.iter().flat_map(Pair::take).flatten();
        taken.for_each(|magazine| drained.push(magazine));
        // (V)
        sequence::restart(self.area);
        // (W)
        self.stopped.store(false, Relaxed);
    }

    /// Shows the magazines of each processor, while they are used.
    pub(super) fn look(&self, look: &mut dyn FnMut(&Pair)) {
        self.pairs.iter().for_each(look);
    }

    /// For who is alone.
    pub(super) fn pairs(&mut self) -> impl Iterator<Item = &Pair> {
        self.pairs.iter()
    }
}
