//! Stand-in for systems without sequences. It can never be constructed.

use core::ptr::NonNull;

use super::Cpus;
use crate::magazine::{Lack, Rounds};

use fdtable_sync::fence::NotRestarted;
pub(super) use fdtable_sync::percpu::copies;

/// There is none.
#[derive(Clone, Copy)]
pub(super) enum Area {}

impl Area {
    pub(super) fn find() -> Option<Self> {
        None
    }
}

pub(super) fn restart(area: Area) -> Result<(), NotRestarted> {
    match area {}
}

pub(super) fn pop(cpus: &Cpus) -> *mut u8 {
    match cpus.area {}
}

pub(super) fn push(cpus: &Cpus, _: NonNull<u8>) -> bool {
    match cpus.area {}
}

pub(super) fn exchange(cpus: &Cpus, _: Lack) -> bool {
    match cpus.area {}
}

pub(super) fn load(cpus: &Cpus, _: *mut Rounds, _: Lack) -> *mut Rounds {
    match cpus.area {}
}
