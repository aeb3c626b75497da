//! Stand-in.

use alloc::boxed::Box;
use core::ptr::NonNull;

use crate::fallible::{OutOfMemory, try_box};

pub(super) const ROUNDS: usize = if cfg!(loom) { 2 } else { 64 };

struct Body {
    next: Option<Magazine>,
    len: usize,
    rounds: [Option<NonNull<u8>>; ROUNDS],
}

pub(super) struct Magazine(Box<Body>);

// SAFETY: stand-in.
unsafe impl Send for Magazine {}

impl Magazine {
    pub(super) fn try_new() -> Result<Self, OutOfMemory> {
        Ok(Self(try_box(Body {
            next: None,
            len: 0,
            rounds: [None; ROUNDS],
        })?))
    }
    pub(super) fn is_empty(&self) -> bool {
        self.0.len == 0
    }
    pub(super) fn is_full(&self) -> bool {
        self.0.len == ROUNDS
    }
    pub(super) fn len(&self) -> usize {
        self.0.len
    }
    pub(super) fn push(&mut self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        if self.is_full() {
            return Err(object);
        }
        self.0.rounds[self.0.len] = Some(object);
        self.0.len += 1;
        Ok(())
    }
    pub(super) fn pop(&mut self) -> Option<NonNull<u8>> {
        self.0.len = self.0.len.checked_sub(1)?;
        self.0.rounds[self.0.len]
    }
}

#[derive(Default)]
pub(super) struct MagazineList {
    first: Option<Magazine>,
    len: usize,
}

impl MagazineList {
    pub(super) const fn new() -> Self {
        Self {
            first: None,
            len: 0,
        }
    }
    pub(super) fn push(&mut self, mut magazine: Magazine) {
        magazine.0.next = self.first.take();
        self.first = Some(magazine);
        self.len += 1;
    }
    pub(super) fn pop(&mut self) -> Option<Magazine> {
        let mut first = self.first.take()?;
        self.first = first.0.next.take();
        self.len -= 1;
        Some(first)
    }
    pub(super) fn len(&self) -> usize {
        self.len
    }
}
