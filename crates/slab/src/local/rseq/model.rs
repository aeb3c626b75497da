//! The sequences for the model checker, step by step as in the assembly.

use core::ptr::NonNull;

use crate::local::Local;
use crate::local::pair::Pair;
use crate::magazine::{Lack, Rounds};
use fdtable_sync::platform::atomic::Ordering::Relaxed;
use fdtable_sync::sequence::model::{CPUS, Interrupted, Sequence};

use fdtable_sync::sequence::Area;

pub(in crate::local) fn find() -> Option<Area> {
    Area::find()
}

pub(in crate::local) fn copies() -> usize {
    CPUS
}

/// A sequence, and the magazines of its CPU.
struct Own<'c> {
    sequence: &'c Sequence,
    pair: &'c Pair,
}

impl<'c> Own<'c> {
    fn step<A>(&self, act: impl FnOnce() -> A) -> Result<A, Interrupted> {
        self.sequence.step(act)
    }

    fn loaded(&self) -> Result<&'c Rounds, Interrupted> {
        self.step(|| Pair::rounds(&self.pair.loaded))
    }

    fn previous(&self) -> Result<&'c Rounds, Interrupted> {
        self.step(|| Pair::rounds(&self.pair.previous))
    }

    fn is_stopped(&self, local: &Local) -> Result<bool, Interrupted> {
        self.step(|| local.stopped.load(Relaxed))
    }
}

/// (A), (B), and the steps that follow.
fn run<A>(local: &Local, steps: impl Fn(&Own<'_>) -> Result<A, Interrupted>) -> A {
    fdtable_sync::sequence::model::run(|sequence| {
        let pair = local.pairs.of(sequence.cpu());
        steps(&Own { sequence, pair })
    })
}

pub(super) fn pop(local: &Local, _: Area) -> *mut u8 {
    run(local, |sequence| {
        let rounds = sequence.loaded()?;
        let count = sequence.step(|| rounds.len())?;
        let Some(last) = count.checked_sub(1) else {
            return Ok(core::ptr::null_mut());
        };
        // weaken: commit-before-the-object-is-taken
        let object = sequence.step(|| rounds.objects[last].load(Relaxed))?;
        sequence.step(|| rounds.count.store(last, Relaxed))?;
        Ok(object)
    })
}

pub(super) fn push(local: &Local, _: Area, object: NonNull<u8>) -> bool {
    run(local, |sequence| {
        let rounds = sequence.loaded()?;
        let count = sequence.step(|| rounds.len())?;
        if count >= rounds.ceiling {
            return Ok(false);
        }
        let place = &rounds.objects[count];
        // weaken: commit-before-the-object-is-stored
        sequence.step(|| place.store(object.as_ptr(), Relaxed))?;
        sequence.step(|| rounds.count.store(count + 1, Relaxed))?;
        Ok(true)
    })
}

pub(super) fn exchange(local: &Local, _: Area, lack: Lack) -> bool {
    run(local, |sequence| {
        let loaded = sequence.loaded()?;
        if !sequence.step(|| loaded.lacks(lack))? {
            return Ok(false);
        }
        let previous = sequence.previous()?;
        // weaken: exchange-that-is-not-stopped
        if sequence.step(|| previous.lacks(lack))? || sequence.is_stopped(local)? {
            return Ok(false);
        }
        sequence.step(|| sequence.pair.set(previous, loaded))?;
        Ok(true)
    })
}

pub(super) fn load(local: &Local, _: Area, magazine: *mut Rounds, lack: Lack) -> *mut Rounds {
    run(local, |sequence| {
        let loaded = sequence.loaded()?;
        if !sequence.step(|| loaded.lacks(lack))? {
            return Ok(magazine);
        }
        let previous = sequence.previous()?;
        // weaken: magazine-that-is-not-stopped
        if !sequence.step(|| previous.lacks(lack))? || sequence.is_stopped(local)? {
            return Ok(magazine);
        }
        sequence.step(|| sequence.pair.set(magazine, loaded))?;
        Ok(core::ptr::from_ref(previous).cast_mut())
    })
}
