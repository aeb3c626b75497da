//! Stand-in for systems without sequences: a cache does not look for their area.

use core::ptr::{self, NonNull};

use crate::local::Local;
use crate::magazine::{Lack, Rounds};

pub(in crate::local) use fdtable_sync::percpu::copies;
use fdtable_sync::sequence::Area;

/// Returns nothing, also where `fdtable-sync` has areas that this crate has no sequences for.
pub(in crate::local) fn find() -> Option<Area> {
    None
}

pub(super) fn pop(_: &Local, _: Area) -> *mut u8 {
    ptr::null_mut()
}

pub(super) fn push(_: &Local, _: Area, _: NonNull<u8>) -> bool {
    false
}

pub(super) fn exchange(_: &Local, _: Area, _: Lack) -> bool {
    false
}

pub(super) fn load(_: &Local, _: Area, magazine: *mut Rounds, _: Lack) -> *mut Rounds {
    magazine
}
