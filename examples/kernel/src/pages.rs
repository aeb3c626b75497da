//! Pages of 4 KiB: a bit for each, set while it is free.

use core::ptr::{self, NonNull};

use crate::lock::Lock;

const PAGE: usize = 4096;

/// How many words of bits there are: for 4 GiB, which is what the page tables of the boot map.
const WORDS: usize = (1 << 32) / PAGE / 64;

struct Bitmap {
    words: [u64; WORDS],
    /// Where the next search begins.
    next: usize,
    free: usize,
}

static BITMAP: Lock<Bitmap> = Lock::new(Bitmap {
    words: [0; WORDS],
    next: 0,
    free: 0,
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
        bitmap.free += 1;
    }
}

/// Allocates a run of pages.
pub fn allocate(count: usize) -> Option<NonNull<u8>> {
    let mut bitmap = BITMAP.lock();
    let first = if count == 1 {
        bitmap.find_one()?
    } else {
        bitmap.find_run(count)?
    };
    for page in first..first + count {
        bitmap.words[page / 64] &= !(1 << (page % 64));
    }
    bitmap.free -= count;
    bitmap.next = (first + count) / 64 % WORDS;
    NonNull::new(ptr::with_exposed_provenance_mut(first * PAGE))
}

/// Frees a run of pages.
///
/// # Safety
/// It was allocated with that count, and is no longer used.
pub unsafe fn free(start: NonNull<u8>, count: usize) {
    let mut bitmap = BITMAP.lock();
    let first = start.addr().get() / PAGE;
    for page in first..first + count {
        let bit = 1 << (page % 64);
        assert!(bitmap.words[page / 64] & bit == 0, "a page is freed once");
        bitmap.words[page / 64] |= bit;
    }
    bitmap.free += count;
}

impl Bitmap {
    fn find_one(&self) -> Option<usize> {
        let words = (self.next..WORDS).chain(0..self.next);
        let word = words.into_iter().find(|&word| self.words[word] != 0)?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    fn find_run(&self, count: usize) -> Option<usize> {
        let mut length = 0;
        for page in 0..WORDS * 64 {
            if page % 64 == 0 && self.words[page / 64] == 0 {
                length = 0;
                continue;
            }
            let is_free = self.words[page / 64] & 1 << (page % 64) != 0;
            length = if is_free { length + 1 } else { 0 };
            if length == count {
                return Some(page + 1 - count);
            }
        }
        None
    }
}
