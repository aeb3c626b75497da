//! Pages of 4 KiB: a bit for each, set while it is free.

use core::ptr::{self, NonNull};

use crate::lock::Lock;

const PAGE: usize = 4096;

/// How many words of bits there are: for 4 GiB, which is what the page tables of the boot map.
const WORDS: usize = (1 << 32) / PAGE / 64;

struct Bitmap {
    words: [u64; WORDS],
    /// Start of the next search.
    next: usize,
}

static BITMAP: Lock<Bitmap> = Lock::new(Bitmap {
    words: [0; WORDS],
    next: 0,
});

/// Adds memory.
///
/// # Safety
/// The memory is there, and nothing uses it.
pub unsafe fn add(start: usize, end: usize) {
    let mut bitmap = BITMAP.lock();
    let (first, last) = (start.div_ceil(PAGE), end / PAGE);
    for page in first..last.min(WORDS * 64) {
        bitmap.words[page / 64] |= 1 << (page % 64);
    }
}

/// Allocates a page.
pub fn allocate() -> Option<NonNull<u8>> {
    let mut bitmap = BITMAP.lock();
    let mut words = (bitmap.next..WORDS).chain(0..bitmap.next);
    let word = words.find(|&word| bitmap.words[word] != 0)?;
    let bit = bitmap.words[word].trailing_zeros();
    bitmap.words[word] &= !(1 << bit);
    bitmap.next = word;
    NonNull::new(ptr::with_exposed_provenance_mut(
        (word * 64 + bit as usize) * PAGE,
    ))
}

/// Frees a page.
///
/// # Safety
/// It was allocated, and is no longer used.
pub unsafe fn free(page: NonNull<u8>) {
    let page = page.addr().get() / PAGE;
    let (word, bit) = (page / 64, 1 << (page % 64));
    let mut bitmap = BITMAP.lock();
    assert!(bitmap.words[word] & bit == 0, "a page is freed once");
    bitmap.words[word] |= bit;
}
