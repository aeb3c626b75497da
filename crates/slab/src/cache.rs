//! The raw cache: places for objects of one layout, without a type.
//!
//! The path of an allocation, from the cheapest step to the most expensive:
//!
//! 1. the magazines of the CPU ([`local`](super::local)): no lock, no shared line;
//! 2. the [depot](super::depot): a magazine is exchanged, one lock for all its objects;
//! 3. the [slabs](super::slabs): a magazine is filled, or emptied, one lock for all its objects;
//! 4. the [region](super::region): a slab is made.
//!
//! Steps 2 to 4 are out of line. Freeing never fails and never needs memory: without an empty
//! magazine the object goes to its slab.
//!
//! # Locks
//!
//! The lock of the depot and the lock of the slabs are never held together. Only the holder of the
//! lock `draining` frees magazines, so that the magazines of CPUs can be read under it.
//!
//! # Freeing slabs
//!
//! A slab that is permanently removed is freed after the locks are released. No reader waits for
//! it: a caller whose objects have readers under RCU frees an object only after a grace period.

use core::ops::Deref;
use core::ptr::NonNull;

use crossbeam_utils::CachePadded;

use super::check::Checks;
use super::chunk::CHUNK;
use super::depot::Depot;
use super::header::{Header, Slab};
use super::info::Info;
use super::list::{Element, Links, List};
use super::local::Local;
use super::magazine::{Lack, Magazine, MagazineList, ROUNDS};
use super::region::Chunk;
use super::shape::{Plan, Shape};
use super::slabs::Slabs;
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::platform::Mutex;

/// How often freeing tries to make room in the magazines. A thread that is moved each time to a CPU
/// without room puts the object into its slab.
const ATTEMPTS: usize = 3;

/// How many bytes of objects a magazine is filled with at once.
const FILLING: usize = CHUNK / 4;

/// A cache of places. It does not move once it is used: slabs and the registry point to it.
pub(super) struct RawCache {
    local: Local,
    pub(super) shape: Shape,
    pub(super) plan: Plan,
    depot: CachePadded<Mutex<Depot>>,
    slabs: CachePadded<Mutex<Slabs>>,
    /// Held by a thread that frees magazines.
    draining: Mutex<()>,
    /// The place on the list of all caches. Guarded by the lock of the registry.
    pub(super) links: Links<Listed>,
}

// SAFETY: everything but the links has a lock of its own or never changes; only the holder of the
// registry's lock accesses the links.
unsafe impl Sync for RawCache {}
// SAFETY: a cache belongs to no thread.
unsafe impl Send for RawCache {}

/// A cache on the list, for the holder of its lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed(NonNull<RawCache>);

// SAFETY: caches belong to no thread.
unsafe impl Send for Listed {}

impl Listed {
    pub(super) fn new(cache: &RawCache) -> Self {
        Self(NonNull::from(cache))
    }
}

impl Deref for Listed {
    type Target = RawCache;

    fn deref(&self) -> &RawCache {
        // SAFETY: a cache removes itself from the list before it is freed, and the list is locked.
        unsafe { self.0.as_ref() }
    }
}

impl Element for Listed {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl RawCache {
    /// Makes a cache without slabs. Allocates. The caller [registers](super::registry::add) it at
    /// its final address.
    pub(super) fn try_new(plan: Plan) -> Result<Self, OutOfMemory> {
        let shape = Shape::new(&plan, size_of::<Header>());
        Ok(Self {
            local: Local::try_new()?,
            depot: CachePadded::new(Mutex::new(Depot::new(shape.stride))),
            slabs: CachePadded::new(Mutex::new(Slabs::default())),
            draining: Mutex::new(()),
            links: Links::new(),
            shape,
            plan,
        })
    }

    /// Takes a place.
    #[inline]
    pub(super) fn alloc(&self) -> Option<NonNull<u8>> {
        match self.local.pop() {
            Some(object) => Some(object),
            None => self.alloc_slow(),
        }
    }

    /// Frees a place. Does not fail, and needs no memory.
    ///
    /// # Safety
    /// It was taken from this cache, and not freed since. It is no longer used.
    #[inline]
    pub(super) unsafe fn free(&self, object: NonNull<u8>) {
        if let Err(object) = self.local.push(object) {
            // SAFETY: as the caller promises.
            unsafe { self.free_slow(object) };
        }
    }

    /// Frees the memory of all free objects: their magazines are emptied, and empty slabs are
    /// freed. Returns how many bytes that is.
    pub(super) fn shrink(&self) -> usize {
        let mut empty = List::new();
        self.shrink_to(&mut empty) + Self::free_slabs(empty)
    }

    /// As [`shrink`](Self::shrink), but moves the empty slabs to a list, for a caller that frees
    /// them without its lock.
    pub(super) fn shrink_to(&self, empty: &mut List<Slab>) -> usize {
        let draining = self.draining.lock();
        let mut magazines = MagazineList::new();
        // If threads elsewhere cannot be kept out, their magazines stay with them.
        let _ = self.local.drain(&mut magazines);
        self.depot.lock().move_to(&mut magazines);
        let mut bytes = 0;
        while let Some(magazine) = magazines.pop() {
            bytes += Magazine::BYTES;
            self.put_all_back(&magazine);
        }
        drop(draining);
        let mut taken = self.slabs.lock().take_empty(0);
        while let Some(slab) = taken.pop() {
            empty.push(slab);
        }
        bytes
    }

    /// Returns the figures of the cache. Takes its locks, each for a short time.
    pub(super) fn info(&self) -> Info {
        // weaken: magazine-that-goes-while-it-is-looked-at
        let _draining = self.draining.lock();
        // SAFETY: magazines are freed only under the lock that is held here.
        let held = unsafe { self.local.held() };
        let (stored, magazines, misses) = {
            let depot = self.depot.lock();
            (depot.objects(), depot.magazines(), depot.misses)
        };
        let (slabs, free) = {
            let slabs = self.slabs.lock();
            (slabs.len(), slabs.free())
        };
        let objects = slabs * self.shape.count;
        Info {
            name: self.plan.name,
            object_size: self.shape.size,
            in_use: objects.saturating_sub(free + stored + held.objects),
            objects,
            objects_per_slab: self.shape.count,
            slabs,
            colours: self.shape.colours,
            misses,
            bytes: slabs * CHUNK + (magazines + held.magazines) * Magazine::BYTES,
        }
    }
}

/// The private steps of allocation.
impl RawCache {
    #[cold]
    #[inline(never)]
    fn alloc_slow(&self) -> Option<NonNull<u8>> {
        if self.plan.is_checked {
            return self.alloc_checked();
        }
        self.take_from_depot().or_else(|| self.take_from_slabs())
    }

    /// Takes an object of a magazine of the depot, and loads the rest on the CPU.
    fn take_from_depot(&self) -> Option<NonNull<u8>> {
        let mut depot = self.depot.lock();
        depot.misses += 1;
        let magazine = depot.take_full()?;
        let object = magazine.pop();
        let displaced = if magazine.is_empty() {
            Some(magazine)
        } else {
            self.local.load(magazine, Lack::Objects)
        };
        // There is room: one was taken out.
        let surplus = depot.put(displaced);
        debug_assert!(surplus.is_none());
        object
    }

    /// Fills a magazine from the slabs, takes an object of it, and loads the rest on the CPU.
    fn take_from_slabs(&self) -> Option<NonNull<u8>> {
        let Some(magazine) = self.empty_magazine() else {
            return self.take_one();
        };
        let most = (FILLING / self.shape.stride).clamp(ROUNDS.min(4), ROUNDS);
        self.take(most, &mut |taken| {
            let pushed = magazine.push(taken);
            debug_assert_eq!(pushed, Ok(()));
        });
        let object = magazine.pop();
        let displaced = if magazine.is_empty() {
            Some(magazine)
        } else {
            self.local.load(magazine, Lack::Objects)
        };
        self.store(displaced);
        object
    }

    /// Takes an object from the slabs, without a magazine.
    fn take_one(&self) -> Option<NonNull<u8>> {
        let mut object = None;
        self.take(1, &mut |taken| object = Some(taken));
        object
    }

    /// Takes objects from the slabs, between one and `most`, or none if there is no memory.
    fn take(&self, most: usize, push: &mut dyn FnMut(NonNull<u8>)) {
        loop {
            let colour = {
                let mut slabs = self.slabs.lock();
                if slabs.take(&self.shape, most, &mut *push) > 0 {
                    return;
                }
                slabs.next_colour()
            };
            let Ok(chunk) = Chunk::take() else {
                return;
            };
            let slab = Slab::new(chunk, &self.shape, colour);
            if self.plan.is_checked {
                self.checks().prepare(slab);
            }
            self.slabs.lock().add(slab);
        }
    }

    fn empty_magazine(&self) -> Option<Magazine> {
        #[cfg(all(test, not(loom)))]
        if super::scarcity::refuses_magazine() {
            return None;
        }
        let magazine = self.depot.lock().take_empty();
        magazine.or_else(|| Magazine::try_new().ok())
    }
}

/// The private steps of freeing.
impl RawCache {
    /// # Safety
    /// As for [`free`](Self::free).
    #[cold]
    #[inline(never)]
    unsafe fn free_slow(&self, mut object: NonNull<u8>) {
        if self.plan.is_checked {
            // SAFETY: as the caller promises, or an error that the checks detect.
            return unsafe { self.free_checked(object) };
        }
        for _ in 0..ATTEMPTS {
            let Some(empty) = self.empty_magazine() else {
                break;
            };
            self.store(self.local.load(empty, Lack::Room));
            match self.local.push(object) {
                Ok(()) => return,
                Err(back) => object = back,
            }
        }
        // SAFETY: as the caller promises.
        unsafe { self.free_to_slab(object) };
    }

    /// Puts a magazine into the depot. If it is full and there are too many, its objects go back to
    /// their slabs.
    fn store(&self, magazine: Option<Magazine>) {
        let surplus = self.depot.lock().put(magazine);
        if let Some(magazine) = surplus {
            self.empty(&magazine);
            let surplus = self.depot.lock().put(Some(magazine));
            debug_assert!(surplus.is_none());
        }
    }

    /// Returns all objects of a magazine to their slabs, and frees surplus slabs.
    fn empty(&self, magazine: &Magazine) {
        self.put_all_back(magazine);
        let surplus = self.slabs.lock().take_surplus();
        Self::free_slabs(surplus);
    }

    /// Returns all objects of a magazine to their slabs, which stay.
    fn put_all_back(&self, magazine: &Magazine) {
        let mut slabs = self.slabs.lock();
        while let Some(object) = magazine.pop() {
            // SAFETY: objects in magazines of this cache were taken from its slabs.
            unsafe { slabs.put_back(&self.shape, object) };
        }
    }

    /// Returns one object to its slab.
    ///
    /// # Safety
    /// As for [`free`](Self::free).
    unsafe fn free_to_slab(&self, object: NonNull<u8>) {
        let surplus = {
            let mut slabs = self.slabs.lock();
            // SAFETY: as the caller promises.
            unsafe { slabs.put_back(&self.shape, object) };
            slabs.take_surplus()
        };
        Self::free_slabs(surplus);
    }

    /// Frees slabs that were permanently removed. Returns how many bytes they have.
    pub(super) fn free_slabs(mut slabs: List<Slab>) -> usize {
        let bytes = slabs.len() * CHUNK;
        while let Some(slab) = slabs.pop() {
            // SAFETY: the slab is off its lists, and its objects are all free.
            unsafe { slab.free_chunk() };
        }
        bytes
    }
}

/// The same for a cache with checks, which has no magazines.
impl RawCache {
    fn checks(&self) -> Checks<'_> {
        Checks {
            cache: self.plan.name,
            shape: &self.shape,
        }
    }

    fn alloc_checked(&self) -> Option<NonNull<u8>> {
        self.depot.lock().misses += 1;
        let object = self.take_one()?;
        self.checks().check_taken(object);
        Some(object)
    }

    /// # Safety
    /// As for [`free`](Self::free); this is checked.
    unsafe fn free_checked(&self, object: NonNull<u8>) {
        let mut slabs = self.slabs.lock();
        if let Err(mistake) = self.checks().check_freed(&slabs, object) {
            drop(slabs);
            mistake.report();
        }
        // SAFETY: checked above.
        unsafe { slabs.put_back(&self.shape, object) };
        let surplus = slabs.take_surplus();
        drop(slabs);
        Self::free_slabs(surplus);
    }
}

impl Drop for RawCache {
    fn drop(&mut self) {
        let mut magazines = MagazineList::new();
        self.local.take_all(&mut magazines);
        self.depot.get_mut().move_to(&mut magazines);
        while let Some(magazine) = magazines.pop() {
            self.empty(&magazine);
        }
        // Slabs with an object in use stay where they are, forever.
        let empty = self.slabs.get_mut().take_empty(0);
        Self::free_slabs(empty);
    }
}
