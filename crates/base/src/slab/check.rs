//! stub
use super::cache::RawCache;
use super::header::Slab;
use super::shape::Shape;
use super::slabs::Slabs;
use core::ptr::NonNull;

pub(super) struct Mistake;
impl Mistake {
    pub(super) fn report(self) -> ! {
        panic!()
    }
}
pub(super) fn prepare(_: &Shape, _: Slab, _: bool) {}
pub(super) fn taken(_: &RawCache, _: NonNull<u8>) {}
pub(super) fn given(_: &RawCache, _: &Slabs, _: NonNull<u8>) -> Result<(), Mistake> {
    Ok(())
}
