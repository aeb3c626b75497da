//! The heap memory of a table.

use anyhow::Context;
use serde::Serialize;

use super::allocators::with_room;
use crate::memory::bytes_in_use;
use crate::subject::{File, Subject};

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

/// Measures an allocator with `slots` descriptors and with `remaining` of them. Returns none where
/// the C library does not report memory.
pub(super) fn measure<S: Subject>(slots: u32, remaining: u32) -> anyhow::Result<Option<Footprint>> {
    let object = S::File::new(0);
    let mut keys = Vec::with_capacity(slots as usize);
    let Some(before) = bytes_in_use()? else {
        return Ok(None);
    };
    let allocator = Box::new(with_room::<S>(slots));
    for _ in 0..slots {
        let key = allocator.open(object.another());
        keys.push(key.with_context(|| format!("{slots} open"))?);
    }
    let full = bytes_in_use()?.unwrap_or(f64::NAN) - before;
    while keys.len() > remaining as usize {
        let taken = keys.pop().and_then(|key| allocator.take(key));
        drop(taken.context("a descriptor is not open")?);
    }
    let kept = bytes_in_use()?.unwrap_or(f64::NAN) - before;
    Ok(Some(Footprint {
        slots,
        bytes_per_slot: full / f64::from(slots),
        remaining,
        kept_bytes: kept,
    }))
}
