//! The heaps of rivals, written in C.

use std::alloc::GlobalAlloc;
use std::marker::PhantomData;

use fdtable_heap::{Heap, HeapBox};
pub(super) use mimalloc::MiMalloc;
#[cfg(feature = "jemalloc")]
pub(super) use tikv_jemallocator::Jemalloc;

#[cfg(feature = "jemalloc")]
use super::objects::JEMALLOC;
use super::objects::{MIMALLOC, Objects};

/// A heap that is measured.
pub(super) trait Rival: GlobalAlloc + Sync + 'static {
    const NAME: &'static str;
    const ALLOCATOR: &'static Self;
}

impl Rival for MiMalloc {
    const NAME: &'static str = MIMALLOC;
    const ALLOCATOR: &'static MiMalloc = &MiMalloc;
}

#[cfg(feature = "jemalloc")]
impl Rival for Jemalloc {
    const NAME: &'static str = JEMALLOC;
    const ALLOCATOR: &'static Jemalloc = &Jemalloc;
}

/// Boxes in the heap of a rival.
pub(super) struct InHeap<R>(PhantomData<R>);

impl<R: Rival> Heap for InHeap<R> {
    type Allocator = R;
    const ALLOCATOR: &'static R = R::ALLOCATOR;
}

impl<T: Send + 'static, R: Rival> Objects<T> for InHeap<R> {
    type Held<'a> = HeapBox<T, InHeap<R>>;
    const NAME: &'static str = R::NAME;

    fn new() -> anyhow::Result<Self> {
        Ok(InHeap(PhantomData))
    }

    #[inline]
    fn insert(&self, value: T) -> Option<Self::Held<'_>> {
        HeapBox::try_new(value).ok()
    }

    #[inline]
    fn remove<'a>(&'a self, held: Self::Held<'a>) {
        drop(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_holds_the_inserted_value() {
        fn holds<R: Rival>() {
            let heap = InHeap::<R>(PhantomData);
            let (one, two) = (heap.insert([7_u64; 13]), heap.insert([8_u64; 13]));
            assert_eq!(one.as_deref(), Some(&[7; 13]));
            assert_eq!(two.as_deref(), Some(&[8; 13]));
        }
        holds::<MiMalloc>();
        #[cfg(feature = "jemalloc")]
        holds::<Jemalloc>();
    }
}
