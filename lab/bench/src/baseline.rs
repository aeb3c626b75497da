//! The tables that this project is measured against.
//!
//! Each is written as well as its design allows: one lock acquisition for each operation, nothing
//! done under the lock that can be done outside it, inlined into the same loops as `fdtable`. They
//! hold references of any kind: `Arc`, as programs usually do, or the same as `fdtable`.

mod rwlock_bitmap;
mod rwlock_vec;

pub use rwlock_bitmap::{FilesStruct, HeldFilesStruct, RwLockBitmap};
#[cfg(feature = "experiments")]
pub(crate) use rwlock_vec::State;
pub use rwlock_vec::{HeldVec, LockedVec, RwLockVec};
