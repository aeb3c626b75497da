//! Files that record their stage, and detect a use that is too late.
//!
//! A file is alive until its release and there until its drop. A holder of a reference must find it
//! alive; a borrower in a read-side section must find it there. Each is released once and then
//! dropped once: at once, or if it is an `Rcu` after a grace period. Faults are recorded, since a
//! panic in `Drop` may be contained.
//!
//! Everything is `Relaxed`: the test must add no ordering of its own, because that could hide a
//! missing one in the table.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

use fdtable::{BorrowedFile, FileRef, Rcu};

/// Words that memory is unlikely to hold by chance.
const ALIVE: u64 = 0xA11C_E5E7_0F1A_3B5D;
const RELEASED: u64 = 0x5E1E_A5ED_2C4F_96B3;
const DROPPED: u64 = 0xDEAD_D09D_71E8_4CA6;

/// How many files there are at each stage.
#[derive(Default)]
pub(crate) struct Flock {
    made: AtomicUsize,
    released: AtomicUsize,
    dropped: AtomicUsize,
    faults: Mutex<Vec<&'static str>>,
}

pub(crate) struct Canary {
    stage: AtomicU64,
    flock: Arc<Flock>,
}

/// A canary of either kind.
pub(crate) trait Bird: Send + Sync + 'static {
    fn file(canary: Canary) -> FileRef<Self>;

    fn canary(&self) -> &Canary;
}

impl Bird for Canary {
    fn file(canary: Canary) -> FileRef<Self> {
        FileRef::builder(canary)
            .on_release(|object, _| Canary::release(object))
            .build()
    }

    fn canary(&self) -> &Canary {
        self
    }
}

impl Bird for Rcu<Canary> {
    fn file(canary: Canary) -> FileRef<Self> {
        FileRef::builder(canary)
            .on_release(|object, _| Canary::release(object))
            .rcu()
            .build()
    }

    fn canary(&self) -> &Canary {
        self
    }
}

impl Flock {
    pub(crate) fn hatch<B: Bird>(self: &Arc<Self>) -> FileRef<B> {
        self.made.fetch_add(1, Relaxed);
        B::file(Canary {
            stage: AtomicU64::new(ALIVE),
            flock: self.clone(),
        })
    }

    fn note(&self, fault: &'static str) {
        self.faults.lock().expect("no panic").push(fault);
    }

    /// Checks that there were no faults and that no file is left. Call it at the end, after the
    /// tables are gone and all callbacks have run.
    pub(crate) fn check_gone(&self) {
        let faults = self.faults.lock().expect("no panic");
        assert!(
            faults.is_empty(),
            "{} faults: {:?}",
            faults.len(),
            &faults[..faults.len().min(8)]
        );
        let made = self.made.load(Relaxed);
        assert!(made > 0, "there were files");
        assert_eq!(self.released.load(Relaxed), made, "every file was released");
        assert_eq!(self.dropped.load(Relaxed), made, "every file was dropped");
    }
}

impl Canary {
    /// The release hook.
    fn release(&self) {
        if self.stage.swap(RELEASED, Relaxed) != ALIVE {
            self.flock.note("released twice, or after its drop");
        }
        self.flock.released.fetch_add(1, Relaxed);
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        if self.stage.swap(DROPPED, Relaxed) != RELEASED {
            self.flock.note("dropped before its release, or twice");
        }
        self.flock.dropped.fetch_add(1, Relaxed);
    }
}

/// Checks a file through a reference.
pub(crate) fn look_at_owned<B: Bird>(file: &FileRef<B>) {
    let stage = file.canary().stage.load(Relaxed);
    assert_eq!(stage, ALIVE, "owned, and not alive: {stage:x}");
}

/// Checks a file inside a section.
pub(crate) fn look_at_borrowed(file: BorrowedFile<'_, Canary>) {
    let stage = file.stage.load(Relaxed);
    let there = stage == ALIVE || stage == RELEASED;
    assert!(there, "borrowed, and not there: {stage:x}");
}
