//! The heap memory of a table.

use anyhow::Context;
use fdtable::{Files, Rcu};
use serde::Serialize;

use super::allocators::{Allocator, Apart, MutexSlab, ShardedSlab};
use crate::any_free::AnyFree;
use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::memory::bytes_in_use;

/// Memory of one table.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Footprint {
    /// Descriptors that were allocated.
    pub(super) slots: u32,
    /// Bytes per descriptor when all were allocated.
    pub(super) bytes_per_slot: f64,
    /// Descriptors that remained open.
    pub(super) remaining: u32,
    /// Bytes that are held then.
    pub(super) kept_bytes: f64,
}

/// Measures each subject with `slots` descriptors and with `remaining` of them. Returns none where
/// the C library does not report memory.
pub(super) fn all(slots: u32, remaining: u32) -> anyhow::Result<Vec<(&'static str, Footprint)>> {
    let measured = [
        measure::<Files<Rcu<Apart>>>(slots, remaining)?,
        measure::<AnyFree<Apart>>(slots, remaining)?,
        measure::<MutexSlab>(slots, remaining)?,
        measure::<ShardedSlab>(slots, remaining)?,
        measure::<RwLockVec<Apart>>(slots, remaining)?,
        measure::<RwLockBitmap<Apart>>(slots, remaining)?,
    ];
    Ok(measured.into_iter().flatten().collect())
}

fn measure<N: Allocator>(
    slots: u32,
    remaining: u32,
) -> anyhow::Result<Option<(&'static str, Footprint)>> {
    let object = N::object()?;
    let mut keys = Vec::with_capacity(slots as usize);
    let Some(before) = bytes_in_use()? else {
        return Ok(None);
    };
    let allocator = Box::new(N::with_room(slots));
    for _ in 0..slots {
        let key = allocator.open(object.clone());
        keys.push(key.with_context(|| format!("{}: {slots} open", N::NAME))?);
    }
    let full = bytes_in_use()?.unwrap_or(f64::NAN) - before;
    while keys.len() > remaining as usize {
        let taken = keys.pop().and_then(|key| allocator.take(key));
        drop(taken.with_context(|| format!("{}: a descriptor is not open", N::NAME))?);
    }
    let kept = bytes_in_use()?.unwrap_or(f64::NAN) - before;
    let footprint = Footprint {
        slots,
        bytes_per_slot: full / f64::from(slots),
        remaining,
        kept_bytes: kept,
    };
    Ok(Some((N::NAME, footprint)))
}
