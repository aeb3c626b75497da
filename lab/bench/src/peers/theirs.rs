//! Containers of the standard library and of other crates, used as their authors do.
//!
//! Maps are keyed by a counter, which is how they are commonly used: the keys are never the lowest,
//! and are mostly never reused.

use std::sync::{Mutex, RwLock};

use sharded_slab::Slab;

use super::player::Player;
use super::rival::{Rival, Side};
use crate::baseline::RwLockVec;
use crate::lookup::Padded;
use crate::subject::locked::{Handles, Locked, Numbered, Slots};
use crate::subject::{Object, Subject};

mod arc_swap_array;
mod maps;
mod slot_map;

pub(crate) use arc_swap_array::Swapped;
pub(crate) use maps::{Counted, Dash};

pub(super) const MUTEX_SLAB: &str = "Mutex<Slab>, parking_lot";
pub(super) const SHARDED_SLAB: &str = "sharded-slab of Arcs";

/// Lists all of them.
pub(super) fn all() -> Vec<Box<dyn Rival>> {
    use maps::{Hashed, Index, Papaya, Scc};
    vec![
        theirs::<RwLockVec<Padded>>("RwLock<Vec<Option<Arc>>>, parking_lot"),
        theirs::<Locked<RwLock<Numbered>>>("RwLock<Vec<Option<Arc>>>, std"),
        theirs::<Locked<parking_lot::RwLock<Handles>>>("RwLock<BTreeMap>, parking_lot"),
        theirs::<Locked<RwLock<Handles>>>("RwLock<BTreeMap>, std"),
        theirs::<Locked<parking_lot::RwLock<Slots>>>("RwLock<Slab>, parking_lot"),
        theirs::<Locked<parking_lot::Mutex<Slots>>>(MUTEX_SLAB),
        theirs::<Locked<Mutex<Slots>>>("Mutex<Slab>, std"),
        theirs::<Slab<Object>>(SHARDED_SLAB),
        theirs::<Slab<Padded>>("sharded-slab in place"),
        theirs::<Locked<parking_lot::RwLock<Hashed>>>("RwLock<HashMap>, parking_lot"),
        theirs::<Locked<RwLock<Hashed>>>("RwLock<HashMap>, std"),
        theirs::<Counted<Dash>>("dashmap"),
        theirs::<Counted<Papaya>>("papaya"),
        theirs::<Counted<Scc>>("scc::HashMap"),
        theirs::<Counted<Index>>("scc::HashIndex"),
        theirs::<slot_map::Map>("concurrent-slotmap"),
        theirs::<Swapped>("array of ArcSwapOption"),
    ]
}

fn theirs<S: Subject>(name: &'static str) -> Box<dyn Rival> {
    Player::<S>::boxed(name, Side::Theirs)
}
