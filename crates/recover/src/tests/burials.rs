//! Buriers meet each other and waiters.

use super::world::{ACCOUNTS, Child, End, World};
use crate::death::die_after;
use crate::lock::NO_REPAIR;
use crate::{Burial, Thread};

/// Takes an object and two locks, with which the thread is to die.
fn begin_a_call(world: &World, thread: &Thread<'static>) {
    assert!(world.open(thread, world.slot(thread.index(), 0)));
    let locks = [&world.shared.accounts, &world.shared.words_lock];
    for (lock, kind) in locks.into_iter().zip([ACCOUNTS, NO_REPAIR]) {
        core::mem::forget(world.lock(thread, lock, kind));
    }
}

fn die_in_a_call(world: &World) -> Child {
    let child = world.fork(|thread| begin_a_call(world, thread));
    assert_eq!(world.wait(&child), End::Exited);
    child
}

/// A child that buries a process, and dies after so many steps.
fn die_in_a_burial(step: u32, world: &World, dead: &Child) -> Child {
    let burier = world.fork(|thread| {
        die_after(step);
        let _ = thread.bury(dead.process, world);
    });
    assert_eq!(world.wait(&burier), End::Killed);
    burier
}

fn bury(world: &World, thread: &Thread<'_>, dead: &Child) {
    assert_eq!(thread.bury(dead.process, world), Burial::Done);
}

/// The first thread of a process has a lock without a repair, and the second one has the other.
#[test]
fn a_repair_finds_all_locks_of_the_process_held() {
    let (world, thread) = World::new();
    let dead = world.fork(|first| {
        core::mem::forget(world.lock(first, &world.shared.words_lock, NO_REPAIR));
        let claim = first.claim_thread().unwrap();
        // SAFETY: it was claimed for this thread, which uses one at a time.
        let second = unsafe { world.records.adopt(claim) }.unwrap();
        core::mem::forget(world.lock(&second, &world.shared.accounts, ACCOUNTS));
    });
    assert_eq!(world.wait(&dead), End::Exited);
    let burier = World {
        on_repair: |world| assert!(!world.shared.words_lock.is_free()),
        ..world
    };
    assert_eq!(thread.bury(dead.process, &burier), Burial::Done);
    world.judge(1);
}

/// The waiter holds a lock that the burier needs for a release. It waits for one that the dead
/// process holds, and finds the burier before that has freed it.
#[test]
fn a_waiter_with_a_lock_does_not_wait_for_a_burier() {
    let (world, thread) = World::new();
    let dead = die_in_a_call(&world);
    let waiter = World {
        on_question: |world| world.reach(3),
        ..world
    };
    let waiter = waiter.fork(|thread| {
        let _pool = waiter.lock(thread, &waiter.shared.pool, NO_REPAIR);
        waiter.reach(1);
        waiter.wait_for(2);
        drop(waiter.lock(thread, &waiter.shared.words_lock, NO_REPAIR));
    });
    world.wait_for(1);
    let burier = World {
        on_repair: |world| {
            world.reach(2);
            world.wait_for(3);
        },
        ..world
    };
    let burier = burier.fork(|thread| bury(&burier, thread, &dead));
    for child in [waiter, burier] {
        assert_eq!(world.wait(&child), End::Exited);
        bury(&world, &thread, &child);
    }
    world.judge(1);
}

/// A burial is tried while the process lives, and the thread that tries it dies meanwhile. The
/// process then dies as the burier of that one.
#[test]
fn processes_that_bury_each_other_are_buried() {
    let (world, thread) = World::new();
    for step in 0..8 {
        world.reach(0);
        let burier = world.fork(|burier| {
            world.wait_for(1);
            die_after(step + 3);
            let _ = burier.bury(burier.index() + 1, &world);
        });
        let dead = world.fork(|thread| {
            begin_a_call(&world, thread);
            die_after(step);
            let _ = thread.bury(burier.process, &world);
        });
        world.wait(&dead);
        assert_eq!(dead.process, burier.process + 1);
        world.reach(1);
        assert_eq!(world.wait(&burier), End::Killed);
        let last = world.fork(|thread| {
            bury(&world, thread, &dead);
            bury(&world, thread, &burier);
        });
        assert_eq!(world.wait(&last), End::Exited);
        bury(&world, &thread, &last);
        world.judge(1);
    }
}

/// The record of a burier has its next life while the burial is not complete.
#[test]
fn a_burial_ends_with_the_life_of_the_burier() {
    let (world, thread) = World::new();
    for step in 0..20 {
        let dead = die_in_a_call(&world);
        let burier = die_in_a_burial(step, &world, &dead);
        bury(&world, &thread, &burier);
        let claim = world.records.claim_process().unwrap();
        assert_eq!(claim.index(), burier.process);
        bury(&world, &thread, &dead);
        assert!(world.records.abort(claim));
        assert_eq!(thread.bury(claim.index(), &world), Burial::Done);
        world.judge(1);
    }
}

#[test]
fn a_burial_by_a_living_thread_is_left_to_it() {
    let (world, thread) = World::new();
    let dead = die_in_a_call(&world);
    let burier = World {
        on_repair: |world| {
            world.reach(1);
            world.wait_for(2);
        },
        ..world
    };
    let burier = burier.fork(|thread| bury(&burier, thread, &dead));
    world.wait_for(1);
    assert_eq!(thread.bury(dead.process, &world), Burial::Underway);
    assert!(!thread.recover(dead.process, &world));
    assert!(!world.shared.words_lock.is_free());
    world.reach(2);
    assert_eq!(world.wait(&burier), End::Exited);
    assert_eq!(thread.bury(dead.process, &world), Burial::NotDead);
    bury(&world, &thread, &burier);
    world.judge(1);
}
