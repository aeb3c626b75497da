//! The options of a cache.

/// How a [cache](super::Cache) lays its objects out, and how much it checks.
///
/// ```
/// use fdtable_slab::{Alignment, Cache, Checks, Options};
///
/// let options = Options::new().alignment(Alignment::Line).checks(Checks::Full);
/// let cache = Cache::with("counters", options)?;
/// let counter = cache.insert(7_u32)?;
/// assert!(core::ptr::from_ref(&*counter).addr().is_multiple_of(64));
/// # Ok::<(), fdtable_sync::fallible::OutOfMemory>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub(super) colouring: Colouring,
    pub(super) alignment: Alignment,
    pub(super) checks: Checks,
}

/// Distances of the first objects from the beginnings of a cache's slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colouring {
    /// They do, so that objects of the same index do not compete for the same lines of a CPU's
    /// cache. Costs up to 1/32 of the memory.
    On,
    /// They do not.
    Off,
}

/// Places at which objects may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Wherever their type allows. Dense.
    Natural,
    /// At a multiple of 64 bytes, so that no two objects are on one cache line.
    #[doc(alias = "SLAB_HWCACHE_ALIGN")]
    Line,
}

/// Checks of the use of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// No.
    None,
    /// Detects writes to free objects, writes past an object's ends, and objects that are freed
    /// twice or to a cache that they are not from. Each operation takes the lock of the cache, and
    /// reads all bytes of the object. An error panics, with a report.
    #[doc(alias = "slub_debug")]
    Full,
}

impl Options {
    /// Makes the usual options: coloured, naturally aligned, without checks.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            colouring: Colouring::On,
            alignment: Alignment::Natural,
            checks: Checks::None,
        }
    }

    /// Chooses whether slabs are coloured.
    #[must_use]
    pub const fn colouring(self, colouring: Colouring) -> Self {
        Self { colouring, ..self }
    }

    /// Chooses where objects may begin.
    #[must_use]
    pub const fn alignment(self, alignment: Alignment) -> Self {
        Self { alignment, ..self }
    }

    /// Chooses whether the use of objects is checked for errors.
    #[must_use]
    pub const fn checks(self, checks: Checks) -> Self {
        Self { checks, ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
