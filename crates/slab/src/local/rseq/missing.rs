//! Stand-in for systems without sequences, where there is no [`Area`].

use core::ptr::NonNull;

use crate::local::Local;
use crate::magazine::{Lack, Rounds};

pub(in crate::local) use fdtable_sync::percpu::copies;
use fdtable_sync::sequence::Area;

pub(super) fn pop(_: &Local, area: Area) -> *mut u8 {
    match area {}
}

pub(super) fn push(_: &Local, area: Area, _: NonNull<u8>) -> bool {
    match area {}
}

pub(super) fn exchange(_: &Local, area: Area, _: Lack) -> bool {
    match area {}
}

pub(super) fn load(_: &Local, area: Area, _: *mut Rounds, _: Lack) -> *mut Rounds {
    match area {}
}
