//! Containers of the standard library and of other crates, used as their authors do.
//!
//! Maps are keyed by a counter, which is how they are commonly used: the keys are never the lowest,
//! and are mostly never reused.

use std::sync::{Arc, Mutex, RwLock};

use super::player::Player;
use super::rival::{Feature, Features, Rival, Side};
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

/// Features of a plain container under a lock.
const UNDER_A_LOCK: Features = Features {
    lowest_free: Feature::No,
    any_free: Feature::With("lock"),
    dup: Feature::No,
    fork: Feature::No,
    enumeration: Feature::With("lock"),
    stale_refused: Feature::No,
    borrowed: Feature::With("lock"),
    owned: Feature::Yes,
    shared: Feature::With("lock"),
    grows_without_stall: Feature::No,
};

/// Features of a vector with a heap of free descriptors.
const VECTOR: Features = Features {
    lowest_free: Feature::Yes,
    dup: Feature::With("linear"),
    fork: Feature::With("copy"),
    ..UNDER_A_LOCK
};

/// Features of a map under a lock: its keys are the caller's choice.
const MAP: Features = Features {
    dup: Feature::Yes,
    fork: Feature::With("copy"),
    ..UNDER_A_LOCK
};

/// Features of a tree under a lock.
const TREE: Features = Features {
    stale_refused: Feature::With("64 bits"),
    grows_without_stall: Feature::Yes,
    ..MAP
};

/// Lists all of them.
pub(super) fn all() -> Vec<Box<dyn Rival>> {
    let mut all = vec![
        theirs::<RwLockVec<Padded>>("RwLock<Vec<Option<Arc>>>, parking_lot", VECTOR),
        theirs::<Locked<RwLock<Numbered>>>("RwLock<Vec<Option<Arc>>>, std", VECTOR),
        theirs::<Locked<parking_lot::RwLock<Handles>>>("RwLock<BTreeMap>, parking_lot", TREE),
        theirs::<Locked<RwLock<Handles>>>("RwLock<BTreeMap>, std", TREE),
        theirs::<Locked<parking_lot::RwLock<Slots>>>("RwLock<Slab>, parking_lot", UNDER_A_LOCK),
        theirs::<Locked<parking_lot::Mutex<Slots>>>("Mutex<Slab>, parking_lot", UNDER_A_LOCK),
        theirs::<Locked<Mutex<Slots>>>("Mutex<Slab>, std", UNDER_A_LOCK),
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

fn theirs<S: super::subject::Subject>(name: &'static str, features: Features) -> Box<dyn Rival> {
    Player::<S>::boxed(name, Side::Theirs, features)
}
