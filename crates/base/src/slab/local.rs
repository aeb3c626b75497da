//! Stand-in.

use core::cell::UnsafeCell;
use core::mem::swap;
use core::ptr::NonNull;

use super::magazine::Magazine;
use crate::fallible::OutOfMemory;
use crate::lock::{Name, RawLock};
use crate::percpu::PerCpu;

const NAME: Name = Name::of(0);

#[derive(Default)]
struct Pair {
    loaded: Option<Magazine>,
    previous: Option<Magazine>,
}

struct Copy {
    lock: RawLock,
    pair: UnsafeCell<Pair>,
}
// SAFETY: stand-in.
unsafe impl Sync for Copy {}
// SAFETY: stand-in.
unsafe impl Send for Copy {}

impl Copy {
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut Pair) -> R) -> R {
        self.lock.lock(NAME);
        // SAFETY: stand-in.
        let result = f(unsafe { &mut *self.pair.get() });
        self.lock.unlock(NAME);
        result
    }
}

pub(super) struct Local(PerCpu<Copy>);

impl Local {
    pub(super) fn try_new() -> Result<Self, OutOfMemory> {
        Ok(Self(PerCpu::try_new(|_| Copy {
            lock: RawLock::new(NAME),
            pair: UnsafeCell::default(),
        })?))
    }
    #[inline]
    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        self.0.this().with(|pair| {
            if let Some(object) = pair.loaded.as_mut().and_then(Magazine::pop) {
                return Some(object);
            }
            swap(&mut pair.loaded, &mut pair.previous);
            pair.loaded.as_mut().and_then(Magazine::pop)
        })
    }
    #[inline]
    pub(super) fn push(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        self.0.this().with(|pair| {
            let push = |pair: &mut Pair| match pair.loaded.as_mut() {
                None => Err(object),
                Some(magazine) => magazine.push(object),
            };
            if push(pair).is_ok() {
                return Ok(());
            }
            swap(&mut pair.loaded, &mut pair.previous);
            push(pair)
        })
    }
    pub(super) fn supply(&self, full: Magazine) -> Option<Magazine> {
        self.0.this().with(|pair| {
            if pair.loaded.as_ref().is_some_and(|m| !m.is_empty()) {
                return Some(full);
            }
            let displaced = pair.previous.take();
            pair.previous = pair.loaded.replace(full);
            displaced
        })
    }
    pub(super) fn relieve(&self, empty: Magazine) -> Option<Magazine> {
        self.0.this().with(|pair| {
            if pair.loaded.as_ref().is_some_and(|m| !m.is_full()) {
                return Some(empty);
            }
            let displaced = pair.previous.take();
            pair.previous = pair.loaded.replace(empty);
            displaced
        })
    }
    pub(super) fn drain(&self, take: &mut dyn FnMut(Magazine)) {
        for copy in self.0.iter() {
            let pair = copy.with(core::mem::take);
            pair.loaded.into_iter().for_each(&mut *take);
            pair.previous.into_iter().for_each(&mut *take);
        }
    }
    pub(super) fn drain_mut(&mut self, take: &mut dyn FnMut(Magazine)) {
        self.drain(take);
    }
    pub(super) fn held(&self) -> usize {
        let len = |m: &Option<Magazine>| m.as_ref().map_or(0, Magazine::len);
        self.0
            .iter()
            .map(|copy| copy.with(|pair| len(&pair.loaded) + len(&pair.previous)))
            .sum()
    }
}
