//! Containers of the standard library and of other crates, used as their authors do.
//!
//! Maps are keyed by a counter, which is how they are commonly used: the keys are never the lowest,
//! and are mostly never reused.

use std::sync::{Arc, Mutex, RwLock};

use super::player::Player;
use super::rival::{Rival, Side};
use crate::baseline::RwLockVec;
use crate::lookup::Padded;

#[cfg(feature = "rivals")]
mod arc_swap_array;
mod locked;
#[cfg(feature = "rivals")]
mod maps;
mod sharded;
#[cfg(feature = "rivals")]
mod slot_map;

use locked::{Handles, Locked, Numbered, Slots};

type Object = Arc<Padded>;

/// Lists all of them.
pub(super) fn all() -> Vec<Box<dyn Rival>> {
    let mut all = vec![
        theirs::<RwLockVec<Padded>>("RwLock<Vec<Option<Arc>>>, parking_lot"),
        theirs::<Locked<RwLock<Numbered>>>("RwLock<Vec<Option<Arc>>>, std"),
        theirs::<Locked<parking_lot::RwLock<Handles>>>("RwLock<BTreeMap>, parking_lot"),
        theirs::<Locked<RwLock<Handles>>>("RwLock<BTreeMap>, std"),
        theirs::<Locked<parking_lot::RwLock<Slots>>>("RwLock<Slab>, parking_lot"),
        theirs::<Locked<parking_lot::Mutex<Slots>>>("Mutex<Slab>, parking_lot"),
        theirs::<Locked<Mutex<Slots>>>("Mutex<Slab>, std"),
    ];
    all.extend(sharded::all());
    #[cfg(feature = "rivals")]
    {
        all.extend(maps::all());
        all.extend(slot_map::all());
        all.extend(arc_swap_array::all());
    }
    all
}

fn theirs<S: super::subject::Subject>(name: &'static str) -> Box<dyn Rival> {
    Player::<S>::boxed(name, Side::Theirs)
}
