//! A process dies at each step that it announces, and its burial at each of its own.

use std::collections::HashSet;

use super::world::{Child, End, SLOTS, World};
use crate::death::die_after;
use crate::lock::NO_REPAIR;
use crate::{Burial, Thread};

/// How many objects the first process has, in its first slots.
const THEIRS: usize = 2;

/// More steps than there are.
const NO_DEATH: u32 = u32::MAX;

/// The point between the two looks of a pin.
const BETWEEN_LOOKS: u64 = 32;

/// Everything that a thread can do, once or twice.
fn do_everything(world: &World, thread: &Thread<'static>) {
    let [a, b, c, d] = [0, 1, 2, 3].map(|slot| world.slot(thread.index(), slot));
    let [theirs, other] = [0, 1].map(|slot| world.slot(0, slot));
    assert!(world.open(thread, a));
    world.dup(thread, a, b);
    assert!(world.take(thread, theirs, world.child_of(a)));
    assert!(world.take(thread, other, c));
    world.transfer(thread);
    world.rotate(thread);
    world.make_once(thread);
    world.close(thread, b);
    world.close(thread, c);
    assert!(world.open(thread, d));
    assert!(world.open(thread, b));
    world.replace(thread, d, c);
    // The object that the slot had is released.
    world.replace(thread, b, c);
    world.close(thread, c);
    world.dup(thread, d, world.child_of(b));
    world.close(thread, d);
    // Its last reference goes while it is pinned.
    // SAFETY: slots are references.
    let pin = unsafe { thread.pin(a) }.unwrap();
    world.close(thread, a);
    pin.unpin();
    // Two more are to be released behind it. Another object hangs on one of them.
    world.close(thread, b);
    assert!(world.open(thread, c));
    world.close(thread, c);
    thread.release_all(world);
    assert!(thread.claim_thread().is_some());
}

/// Changes the count of an object of the first process, so that another name is in it.
fn take_and_close(slot: usize, world: &World, thread: &Thread<'_>) {
    let spare = world.slot(thread.index(), SLOTS - 1);
    world.take(thread, world.slot(0, slot), spare);
    world.close(thread, spare);
    thread.release_all(world);
}

fn overwrite(world: &World, thread: &Thread<'_>) {
    for slot in 0..THEIRS {
        take_and_close(slot, world, thread);
    }
}

/// A world whose first process has the objects that the others take.
fn world_with_objects() -> (World, Thread<'static>) {
    let (world, thread) = World::new();
    for slot in 0..THEIRS {
        assert!(world.open(&thread, world.slot(0, slot)));
    }
    (world, thread)
}

/// A child that does something, and dies at one of its steps.
fn die_at(step: u32, world: &World, run: impl FnOnce(&Thread<'static>)) -> (Child, End) {
    let child = world.fork(|thread| {
        die_after(step);
        run(thread);
        die_after(NO_DEATH);
    });
    let end = world.wait(&child);
    world.judge_death();
    if end == End::Killed && world.last_death(child.process).0 == BETWEEN_LOOKS {
        assert!(world.records.is_in_section(child.process));
    }
    (child, end)
}

fn do_everything_until(step: u32, world: &World) -> (Child, End) {
    world.forget_once();
    die_at(step, world, |thread| do_everything(world, thread))
}

/// Each death of a process, buried by the first one. Between the two, `meanwhile` happens.
fn bury_each_death(world: &World, thread: &Thread<'static>, meanwhile: impl Fn(&Child)) {
    for step in 0.. {
        let (child, end) = do_everything_until(step, world);
        meanwhile(&child);
        world.bury(thread, &child);
        world.make_once(thread);
        world.judge(1);
        if end == End::Exited {
            assert!(step > 100, "only {step} steps");
            return;
        }
    }
}

/// The objects of a dead process are pinned while it is buried, so they lose their last reference
/// then.
fn bury_each_death_while_objects_are_pinned(world: &World, thread: &Thread<'static>) {
    for step in 0.. {
        let (child, end) = do_everything_until(step, world);
        let slots = &world.shared.tables[child.process as usize];
        // SAFETY: slots are references.
        let pins = slots.iter().filter_map(|slot| unsafe { thread.pin(slot) });
        let pins: Vec<_> = pins.collect();
        world.bury(thread, &child);
        for pin in pins {
            pin.unpin();
            thread.release_all(world);
        }
        world.judge(1);
        if end == End::Exited {
            return;
        }
    }
}

/// The burials that an ordinary run tries for a death like an earlier one: one of so many. For the
/// first death of its kind it is all of them.
fn stride() -> u32 {
    match std::env::var("FDTABLE_RECOVER_STRIDE") {
        Ok(stride) => stride.parse().expect("a number"),
        Err(_) => 40,
    }
}

/// Each death of a burial, which another burial completes.
fn bury_each_burier(world: &World, thread: &Thread<'static>) {
    let mut seen = HashSet::new();
    for step in 0.. {
        let (mut step_of_burial, mut stride) = (step * 7 % stride(), stride());
        let last = loop {
            let (child, end) = do_everything_until(step, world);
            if seen.insert((world.last_death(child.process), end == End::Exited)) {
                (step_of_burial, stride) = (0, 1);
            }
            let (burier, end_of_burial) = die_at(step_of_burial, world, |burier| {
                assert_eq!(burier.bury(child.process, world), Burial::Done);
            });
            if step_of_burial % 2 == 0 {
                overwrite(world, thread);
                // As a waiter does, which then goes on.
                thread.recover(child.process, world);
            }
            let [one, other] = if step_of_burial % 4 < 2 {
                [burier, child]
            } else {
                [child, burier]
            };
            world.bury(thread, &one);
            world.bury(thread, &other);
            world.judge(1);
            if end_of_burial == End::Exited {
                break end;
            }
            step_of_burial += stride;
        };
        if last == End::Exited {
            return;
        }
    }
}

/// A burier dies, and another one at each of its steps.
fn bury_each_burier_of_a_burier(world: &World, thread: &Thread<'static>) {
    for step_of_first in [0, 4, 10] {
        for step in 0.. {
            let (child, _) = do_everything_until(30, world);
            let (first, end) = die_at(step_of_first, world, |burier| {
                burier.bury(child.process, world);
            });
            assert_eq!(end, End::Killed);
            let (second, end) = die_at(step, world, |burier| {
                assert!(burier.recover(child.process, world));
            });
            let mut dead = [child, first, second];
            dead.rotate_left(step as usize % 3);
            for dead in dead {
                world.bury(thread, &dead);
            }
            world.judge(1);
            if end == End::Exited {
                break;
            }
        }
    }
}

/// Each death of an operation on an object, and each of the operation that follows, buried in both
/// orders.
fn bury_each_overwriter(world: &World, thread: &Thread<'static>) {
    for step in 0.. {
        let mut step_of_other = 0;
        let last = loop {
            let (first, end) = die_at(step, world, |thread| {
                take_and_close(0, world, thread);
            });
            let (second, end_of_other) = die_at(step_of_other, world, |thread| {
                take_and_close(0, world, thread);
            });
            let [one, other] = if step_of_other % 2 == 0 {
                [first, second]
            } else {
                [second, first]
            };
            world.bury(thread, &one);
            world.bury(thread, &other);
            world.judge(1);
            if end_of_other == End::Exited {
                break end;
            }
            step_of_other += 1;
        };
        if last == End::Exited {
            return;
        }
    }
}

/// A process dies while it waits for a lock.
fn bury_a_waiter(world: &World, thread: &Thread<'static>) {
    for step in 0..20 {
        let lock = world.lock(thread, &world.shared.words_lock, NO_REPAIR);
        // It waits until it dies: each look at the lock is some steps.
        let (child, end) = die_at(step, world, |thread| {
            let _lock = world.lock(thread, &world.shared.words_lock, NO_REPAIR);
        });
        assert_eq!(end, End::Killed);
        drop(lock);
        world.bury(thread, &child);
        world.judge(1);
    }
}

#[test]
fn every_death_is_buried() {
    let (world, thread) = world_with_objects();
    world.note_deaths();
    bury_each_death(&world, &thread, |_| {});
    bury_each_death(&world, &thread, |_| overwrite(&world, &thread));
    bury_each_death_while_objects_are_pinned(&world, &thread);
    bury_a_waiter(&world, &thread);
    bury_each_overwriter(&world, &thread);
    bury_each_burier(&world, &thread);
    bury_each_burier_of_a_burier(&world, &thread);
    assert!(
        world.missed().is_empty(),
        "no process died at {:?}",
        world.missed()
    );
}
