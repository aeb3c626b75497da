//! Each part by itself, without a death.

use core::sync::atomic::Ordering::Relaxed;

use super::world::{End, World};
use crate::Burial;
use crate::lock::NO_REPAIR;
use crate::records::State;

#[test]
fn the_last_close_releases_an_object_and_its_child() {
    let (world, thread) = World::new();
    let [parent, child] = [0, 1].map(|slot| world.slot(0, slot));
    assert!(world.open(&thread, parent) && world.open(&thread, child));
    world.dup(&thread, child, world.child_of(parent));
    world.close(&thread, child);
    world.judge(1);
    world.close(&thread, parent);
    thread.release_all(&world);
    world.judge(1);
}

#[test]
fn objects_that_die_in_one_call_are_all_released() {
    let (world, thread) = World::new();
    let slots = [0, 1, 2, 3].map(|slot| world.slot(0, slot));
    for slot in slots {
        assert!(world.open(&thread, slot));
    }
    for slot in slots {
        world.close(&thread, slot);
    }
    thread.release_all(&world);
    world.judge(1);
}

#[test]
fn a_pinned_object_is_released_by_the_unpin() {
    let (world, thread) = World::new();
    let slot = world.slot(0, 0);
    assert!(world.open(&thread, slot));
    // SAFETY: slots are references.
    let pins = [(); 2].map(|()| unsafe { thread.pin(slot) }.unwrap());
    world.close(&thread, slot);
    for pin in pins {
        thread.release_all(&world);
        assert!(!pin.count().is_live());
        assert!(
            thread.record.releases.load(Relaxed) == 0,
            "it is released early"
        );
        pin.unpin();
    }
    thread.release_all(&world);
    world.judge(1);
}

#[test]
fn a_dead_object_is_not_counted_again() {
    let (world, thread) = World::new();
    let [slot, other] = [0, 1].map(|slot| world.slot(0, slot));
    assert!(world.open(&thread, slot));
    // SAFETY: slots are references.
    let pin = unsafe { thread.pin(slot) }.unwrap();
    world.close(&thread, slot);
    // SAFETY: it is pinned, and the place is one of this thread.
    assert!(!unsafe { pin.count().get(&thread, other, 1) });
    assert_eq!(other.load(Relaxed), 0);
    pin.unpin();
    thread.release_all(&world);
    world.judge(1);
}

#[test]
fn a_record_of_a_process_that_retires_is_free_after_the_end_of_the_process() {
    let (world, thread) = World::new();
    let child = world.fork(|child| {
        let other = child.claim_thread().unwrap();
        std::thread::spawn(move || {
            // SAFETY: it was claimed for this thread.
            let other = unsafe { world.records.adopt(other) }.unwrap();
            world.transfer(&other);
            other.retire();
        })
        .join()
        .unwrap();
        world.transfer(child);
        // SAFETY: the process ends without another use of the record.
        unsafe { core::ptr::from_ref(child).read() }.retire();
        world.reach(1);
        world.wait_for(2);
    });
    world.wait_for(1);
    world.judge(2);
    assert_eq!(thread.bury(child.process, &world), Burial::NotDead);
    world.reach(2);
    assert_eq!(world.wait(&child), End::Exited);
    assert_eq!(thread.bury(child.process, &world), Burial::Done);
    world.judge(1);
}

/// An aborted child has given its life sign.
#[test]
fn a_record_of_an_aborted_child_is_free_after_the_end_of_the_child() {
    let (world, thread) = World::new();
    let late = World {
        on_birth: [
            |_| {},
            |world| {
                world.reach(1);
                world.wait_for(2);
            },
        ],
        ..world
    };
    let child = late.fork(|_| panic!("it was aborted"));
    world.wait_for(1);
    assert!(world.records.abort(child.claim));
    assert_eq!(thread.bury(child.process, &world), Burial::NotDead);
    world.reach(2);
    assert_eq!(world.wait(&child), End::Exited);
    assert_eq!(thread.bury(child.process, &world), Burial::Done);
    world.judge(1);
}

/// An aborted child has not given its life sign when its record is used again.
#[test]
fn an_aborted_child_that_wakes_late_disturbs_no_other() {
    let (world, thread) = World::new();
    let late = World {
        on_birth: [|world| world.wait_for(1), |_| {}],
        ..world
    };
    let aborted = late.fork(|_| panic!("it was aborted"));
    assert!(world.records.abort(aborted.claim));
    assert_eq!(thread.bury(aborted.process, &world), Burial::Done);
    let child = world.fork(|_| {
        world.reach(1);
        world.wait_for(2);
    });
    assert_eq!(child.process, aborted.process);
    assert_eq!(world.wait(&aborted), End::Exited);
    assert_eq!(thread.bury(child.process, &world), Burial::NotDead);
    world.reach(2);
    assert_eq!(world.wait(&child), End::Exited);
    assert_eq!(thread.bury(child.process, &world), Burial::Done);
    world.judge(1);
}

#[test]
fn a_claim_is_adopted_or_aborted() {
    let (world, thread) = World::new();
    let claim = world.records.claim_process().unwrap();
    assert_eq!(thread.bury(claim.index(), &world), Burial::NotDead);
    assert!(world.records.abort(claim));
    // SAFETY: it is refused.
    assert!(unsafe { world.records.adopt(claim) }.is_none());
    assert_eq!(thread.bury(claim.index(), &world), Burial::Done);
    // SAFETY: as above: the record was freed, and has another generation.
    assert!(unsafe { world.records.adopt(claim) }.is_none());
    assert!(!world.records.abort(claim));
    world.judge(1);
}

#[test]
fn a_claim_aborts_no_later_life_of_its_record() {
    let (world, thread) = World::new();
    let old = world.records.claim_process().unwrap();
    let mut claim = old;
    for _ in 0..512 {
        assert!(world.records.abort(claim));
        assert_eq!(thread.bury(claim.index(), &world), Burial::Done);
        claim = world.records.claim_process().unwrap();
        assert_eq!(claim.index(), old.index());
        assert!(!world.records.abort(old));
    }
}

#[test]
fn a_claim_for_a_thread_is_free_when_it_is_aborted() {
    let (world, thread) = World::new();
    let claim = thread.claim_thread().unwrap();
    assert!(world.records.abort(claim));
    world.judge(1);
}

#[test]
fn a_claim_of_a_parent_that_dies_before_the_fork_is_found() {
    let (world, thread) = World::new();
    let child = world.fork(|_| assert!(world.records.claim_process().is_some()));
    assert_eq!(world.wait(&child), End::Exited);
    world.bury(&thread, &child);
    let claims: Vec<_> = world.records.claims().collect();
    assert_eq!(claims.len(), 1);
    assert!(world.records.abort(claims[0]));
    assert_eq!(thread.bury(claims[0].index(), &world), Burial::Done);
    world.judge(1);
}

#[test]
fn a_waiter_takes_the_lock_of_a_dead_process() {
    let (world, thread) = World::new();
    let child = world.fork(|child| {
        core::mem::forget(world.lock(child, &world.shared.words_lock, NO_REPAIR));
    });
    assert_eq!(world.wait(&child), End::Exited);
    world.rotate(&thread);
    world.bury(&thread, &child);
    world.judge(1);
}

#[test]
#[should_panic(expected = "a thread takes a lock that it holds")]
fn a_lock_is_not_taken_twice() {
    let (world, thread) = World::new();
    let lock = &world.shared.words_lock;
    let _lock = world.lock(&thread, lock, NO_REPAIR);
    // SAFETY: the lock is in shared memory forever.
    assert!(unsafe { lock.try_lock(&thread, NO_REPAIR) }.is_none());
    drop(world.lock(&thread, lock, NO_REPAIR));
}

#[test]
#[should_panic(expected = "a thread takes a lock that it holds")]
fn a_once_does_not_need_itself() {
    let (world, thread) = World::new();
    world.make_once_of(&thread, || {
        world.make_once(&thread);
        7
    });
}

#[test]
fn memory_is_kept_for_a_dead_process_until_it_is_buried() {
    let (world, thread) = World::new();
    let child = world.fork(|_| {});
    assert_eq!(world.wait(&child), End::Exited);
    assert!(!world.records.is_in_section(child.process));
    assert!(thread.recover(child.process, &world));
    assert!(world.records.is_in_section(child.process));
    world.bury(&thread, &child);
    world.judge(1);
}

#[test]
fn the_living_are_not_buried() {
    let (world, thread) = World::new();
    let child = world.fork(|_| {
        loop {
            core::hint::spin_loop();
        }
    });
    while world
        .members(child.process)
        .all(|(_, state)| state == State::Starting)
    {
        assert_eq!(thread.bury(child.process, &world), Burial::NotDead);
    }
    assert_eq!(thread.bury(child.process, &world), Burial::NotDead);
    assert!(!thread.recover(child.process, &world));
    world.kill(&child);
    assert_eq!(world.wait(&child), End::Killed);
    world.bury(&thread, &child);
    world.judge(1);
}

/// What a burial could not reach.
#[test]
#[cfg(debug_assertions)]
fn addresses_outside_of_shared_memory_are_refused() {
    use crate::platform::AtomicU64;
    use crate::{Count, Lock};
    let (world, thread) = World::new();
    let (lock, count, place) = (Lock::new(), Count::new(), AtomicU64::new(0));
    let shared = world.slot(0, 0);
    assert!(world.open(&thread, shared));
    // SAFETY: the slot is a reference.
    let pin = unsafe { thread.pin(shared) }.unwrap();
    let is_refused =
        |run: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
    assert!(is_refused(&|| {
        // SAFETY: it is refused.
        let _ = unsafe { lock.try_lock(&thread, NO_REPAIR) };
    }));
    assert!(is_refused(&|| {
        // SAFETY: as above.
        let _ = unsafe { count.get(&thread, world.slot(0, 1), 1) };
    }));
    assert!(is_refused(&|| {
        // SAFETY: as above.
        let _ = unsafe { pin.count().get(&thread, &place, 1) };
    }));
    assert!(is_refused(&|| {
        // SAFETY: as above.
        unsafe { thread.store_together(&[(&place, 1)]) };
    }));
    pin.unpin();
    assert!(thread.record.is_empty());
    assert_eq!(place.load(Relaxed), 0);
    world.judge(1);
}

#[test]
fn a_section_ends_if_it_panics() {
    let (world, thread) = World::new();
    let read = std::panic::AssertUnwindSafe(|| {
        thread.section(|| {
            assert!(world.records.is_in_section(thread.index));
            panic!("on purpose");
        })
    });
    assert!(std::panic::catch_unwind(read).is_err());
    assert!(!world.records.is_in_section(thread.index));
}
