//! General caches: memory by size, for callers without a cache of their own.
//!
//! Sizes are rounded up to a *class*: by 8 bytes up to 128, by 16 up to 256, by 64 up to 1024, and
//! then by a quarter of the power of two below. A class is aligned to the largest power of two that
//! divides its size, at most 64. Larger sizes and alignments go to the global allocator.
//!
//! The layout is a constant wherever memory is allocated, so the compiler finds the class. The
//! cache of a class is made when it is first needed. If the global allocator was
//! [chosen](super::backing), it is never made, and every class is then like a size that has none.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::backing::{self, Backing};
use super::cache::RawCache;
use super::chunk::CHUNK;
use super::heap;
use super::registry;
use super::shape::{Colouring, Plan};
use fdtable_sync::fallible::OnceBox;
use fdtable_sync::platform::global;

/// The largest alignment of a class.
const MAX_ALIGN: usize = 64;

/// The largest size of a class that is used: two fit into a page with the header of a slab, or a
/// dozen into a larger chunk.
const MAX_SIZE: usize = if CHUNK <= 4096 { 1792 } else { 4096 };

/// The sizes of the classes, in bytes, and their names.
macro_rules! classes {
    ($($size:literal)*) => {
        const SIZES: &[usize] = &[$($size),*];
        const NAMES: [&str; SIZES.len()] = [$(concat!("general-", $size)),*];
    };
}
classes! {
    8 16 24 32 40 48 56 64 72 80 88 96 104 112 120 128
    144 160 176 192 208 224 240 256
    320 384 448 512 576 640 704 768 832 896 960 1024
    1280 1536 1792 2048 2560 3072 3584 4096
}

global! {
    /// One cache for each class.
    pub(super) static CACHES: [OnceBox<RawCache>; SIZES.len()] =
        [const { OnceBox::new() }; SIZES.len()];
}

/// Returns the class of a layout, if it has one.
#[inline(always)]
const fn class_of(layout: Layout) -> Option<usize> {
    if layout.align() > MAX_ALIGN {
        return None;
    }
    // At least one byte, since a place has an address; and a multiple of the alignment, as the
    // class then is.
    let least = if layout.size() == 0 { 1 } else { layout.size() };
    let size = least.next_multiple_of(layout.align());
    match size {
        _ if size > MAX_SIZE => None,
        0..=128 => Some(size.div_ceil(8) - 1),
        129..=256 => Some(16 + (size - 128).div_ceil(16) - 1),
        257..=1024 => Some(24 + (size - 256).div_ceil(64) - 1),
        1025..=2048 => Some(36 + (size - 1024).div_ceil(256) - 1),
        2049..=4096 => Some(40 + (size - 2048).div_ceil(512) - 1),
        _ => None,
    }
}

/// Takes memory for a layout. `None` if there is none. Does not run callbacks, and may be called
/// under a lock.
#[inline(always)]
pub fn alloc(layout: Layout) -> Option<NonNull<u8>> {
    if let Some(class) = class_of(layout) {
        return match CACHES[class].get() {
            Some(cache) => cache.alloc(),
            None => alloc_without_cache(class, layout),
        };
    }
    heap::alloc(layout)
}

/// Frees memory. Does not fail, needs no memory, runs no callbacks, and may be called under a lock.
///
/// # Safety
/// It was allocated by [`alloc`](fn@alloc) with the same layout, and not freed since; it is no
/// longer used.
#[inline(always)]
pub unsafe fn free(place: NonNull<u8>, layout: Layout) {
    // If memory was taken from a class, the class has a cache, and the holder of the memory sees
    // it; else there will never be one.
    if let Some(class) = class_of(layout)
        && let Some(cache) = CACHES[class].get()
    {
        // SAFETY: as the caller promises.
        return unsafe { cache.free(place) };
    }
    // SAFETY: as the caller promises; without a cache, `alloc` took it there.
    unsafe { heap::free(place, layout) };
}

/// Takes memory of a class that has no cache yet, or never will have.
#[cold]
#[inline(never)]
fn alloc_without_cache(class: usize, layout: Layout) -> Option<NonNull<u8>> {
    let colouring = match backing::settled() {
        Backing::GlobalHeap => return heap::alloc(layout),
        Backing::Uncoloured => Colouring::Off,
        Backing::Coloured => Colouring::On,
    };
    make(class, colouring)?.alloc()
}

/// Makes the cache of a class.
fn make(class: usize, colouring: Colouring) -> Option<&'static RawCache> {
    let size = SIZES[class];
    let align = 1 << size.trailing_zeros().min(MAX_ALIGN.ilog2());
    let plan = Plan {
        name: NAMES[class],
        layout: Layout::from_size_align(size, align).ok()?,
        colouring,
        is_checked: cfg!(feature = "debug"),
    };
    let cache = CACHES[class].get_or_try_init(|| RawCache::try_new(plan));
    let cache = cache.ok()?;
    // SAFETY: in a static, which keeps it for the life of the process.
    unsafe { registry::add(cache) };
    Some(cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_has_the_smallest_class_that_fits_and_is_aligned() {
        for align in [1, 2, 4, 8, 16, 32, 64] {
            for size in 0..=4096 {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                let class = class_of(layout).expect("a class");
                assert!(SIZES[class] >= size);
                let fits = |class: &usize| *class >= size && class.is_multiple_of(align);
                let best = SIZES.iter().copied().find(fits).expect("one fits");
                assert_eq!(SIZES[class], best, "{layout:?}");
            }
        }
        let large = Layout::from_size_align(4097, 8).expect("a layout");
        let wide = Layout::from_size_align(128, 128).expect("a layout");
        assert_eq!((class_of(large), class_of(wide)), (None, None));
    }

    #[test]
    fn memory_of_all_sizes_is_ones_own_and_aligned() {
        let layouts = [
            (0, 1),
            (1, 1),
            (8, 8),
            (104, 8),
            (104, 64),
            (300, 4),
            (4096, 64),
        ];
        let large = [(5000, 8), (64, 4096)];
        let layouts: Vec<Layout> = layouts
            .into_iter()
            .chain(large)
            .map(|(size, align)| Layout::from_size_align(size, align).expect("a layout"))
            .collect();
        let mut taken = Vec::new();
        for round in 0..1000 {
            for &layout in &layouts {
                let place = alloc(layout).expect("there is memory");
                assert!(place.addr().get().is_multiple_of(layout.align()));
                // SAFETY: this test has the memory.
                unsafe { place.write_bytes(round as u8, layout.size()) };
                taken.push((place, layout, round as u8));
            }
        }
        for (place, layout, byte) in taken {
            // SAFETY: this test has the memory, and has written it.
            let bytes = unsafe { core::slice::from_raw_parts(place.as_ptr(), layout.size()) };
            assert!(bytes.iter().all(|&other| other == byte));
            // SAFETY: taken above.
            unsafe { free(place, layout) };
        }
    }

    #[test]
    fn a_choice_that_comes_too_late_says_what_there_is() {
        let layout = Layout::new::<u64>();
        let place = alloc(layout).expect("there is memory");
        let there = backing::settled();
        let other = [Backing::Uncoloured, Backing::GlobalHeap].map(backing::choose);
        assert!(other.contains(&Err(backing::AlreadyChosen(there))));
        assert_eq!(backing::choose(there), Ok(()));
        // SAFETY: taken above.
        unsafe { free(place, layout) };
    }
}
