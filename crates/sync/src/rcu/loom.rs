//! Models of RCU. Readers look at an object inside sections; updaters take it out of its place and
//! drop it when RCU allows it. A failure shows as a look that meets the drop.

use super::*;
use crate::fence::model::without_membarrier;
use crate::model::Preemptions::{Any, AtMost};
use crate::model::{Dropped, Ends, JoinHandle, explore, join, spawn};
use crate::platform::Arc;
use crate::platform::atomic::Ordering::{Acquire, Release};
use crate::platform::atomic::{AtomicBool, AtomicPtr};
use core::ptr::{self, NonNull};

/// Place in which readers find an object.
struct Place(AtomicPtr<Dropped>);

impl Place {
    fn new(drops: &Ends) -> Arc<Self> {
        let object = Box::into_raw(Box::new(Dropped::new(drops)));
        Arc::new(Self(AtomicPtr::new(object)))
    }

    /// Finds the object, if it is there.
    fn find<'g>(&self, _guard: &'g Guard<'_>) -> Option<&'g Dropped> {
        // SAFETY: the object is dropped a grace period after it left the place.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// Looks at the object, if it is there.
    fn look(&self, guard: &Guard<'_>) {
        if let Some(object) = self.find(guard) {
            object.look();
        }
    }

    /// Takes the object out.
    fn empty(&self) -> Box<Dropped> {
        // SAFETY: the pointer came from a box, and has left the place.
        unsafe { Box::from_raw(self.0.swap(ptr::null_mut(), Release)) }
    }
}

/// Runs `read` on a thread of its own.
fn reader(place: &Arc<Place>, read: impl FnOnce(&Place) + 'static) -> JoinHandle<()> {
    let place = place.clone();
    spawn(move || read(&place))
}

/// Takes the object out and drops it after a grace period.
fn drop_after_synchronize(place: &Place) {
    let object = place.empty();
    synchronize().expect("outside of sections");
    drop(object);
}

/// Takes the object out and has a callback drop it.
fn defer_drop(place: &Place) {
    let object = place.empty();
    defer(move || drop(object));
}

fn wait_for_callbacks() {
    barrier().expect("outside of sections");
}

/// An object is dropped while the section in which it was found still runs.
#[test]
fn a_grace_period_waits_for_a_section() {
    explore(Any, || {
        let place = Place::new(&Ends::default());
        let reader = reader(&place, |place| place.look(&read_lock()));
        drop_after_synchronize(&place);
        join(reader);
    });
}

/// The same where all readers take full fences.
#[test]
fn a_grace_period_waits_for_a_section_without_membarrier() {
    without_membarrier(a_grace_period_waits_for_a_section);
}

/// The same by a callback: it is invoked too early, twice, or never.
#[test]
fn a_callback_waits_for_a_section() {
    explore(Any, || {
        let drops = Ends::default();
        let place = Place::new(&drops);
        let reader = reader(&place, |place| place.look(&read_lock()));
        defer_drop(&place);
        wait_for_callbacks();
        assert_eq!(drops.count(), 1);
        join(reader);
    });
}

/// Drops its object, by a callback that may run inside sections.
#[repr(C)]
struct Freed {
    head: Head,
    object: Box<Dropped>,
}

/// Takes the object out, and has a callback free it as memory.
fn free_later(place: &Place) {
    unsafe fn free(head: NonNull<Head>) {
        // SAFETY: the box was leaked below, and the callback is invoked once.
        let freed = unsafe { Box::from_raw(head.cast::<Freed>().as_ptr()) };
        drop(freed.object);
    }
    let freed = Box::leak(Box::new(Freed {
        head: Head::new(free),
        object: place.empty(),
    }));
    // SAFETY: it stays until its callback takes it back, which any thread may do.
    unsafe { call(Effect::FreesMemory, NonNull::from(freed).cast()) };
}

/// A thread frees memory inside its sections: while it reads it itself, or another reader does.
#[test]
fn memory_that_is_freed_inside_a_section_waits_for_readers() {
    explore(AtMost(3), || {
        let drops = Ends::default();
        let (one, two) = (Place::new(&drops), Place::new(&drops));
        let reader = reader(&one, |one| one.look(&read_lock()));
        let section = read_lock();
        let object = one.find(&section);
        free_later(&one);
        object.inspect(|object| object.look());
        drop(section);
        // The grace period of the first may end here, and its memory is freed.
        let section = read_lock();
        free_later(&two);
        drop(section);
        wait_for_callbacks();
        assert_eq!(drops.count(), 2);
        join(reader);
    });
}

/// A thread that is alone frees memory at once, while another one becomes a reader or was one.
#[test]
fn memory_that_a_lone_thread_frees_has_no_reader() {
    explore(Any, || {
        let drops = Ends::default();
        let place = Place::new(&drops);
        drop(read_lock());
        let reader = reader(&place, |place| place.look(&read_lock()));
        free_later(&place);
        join(reader);
        wait_for_callbacks();
        assert_eq!(drops.count(), 1);
    });
}

/// The same where readers take full fences: then no thread knows that it is alone.
#[test]
fn memory_that_a_lone_thread_frees_has_no_reader_without_membarrier() {
    without_membarrier(memory_that_a_lone_thread_frees_has_no_reader);
}

/// A lone thread frees what it still reads itself, in a section that began inside of another one.
#[test]
fn memory_that_a_lone_thread_frees_waits_for_its_own_section() {
    explore(Any, || {
        let drops = Ends::default();
        let place = Place::new(&drops);
        let outer = read_lock();
        let inner = read_lock();
        drop(outer);
        let object = place.find(&inner);
        free_later(&place);
        object.inspect(|object| object.look());
        assert_eq!(drops.count(), 0);
        drop(inner);
        wait_for_callbacks();
        assert_eq!(drops.count(), 1);
    });
}

/// The end of a section shows only by the beginning of the next one. The grace period must see the
/// reads of the first done.
#[test]
fn the_next_section_tells_that_the_one_before_has_ended() {
    explore(AtMost(5), || {
        let place = Place::new(&Ends::default());
        let reader = reader(&place, |place| {
            place.look(&read_lock());
            place.look(&read_lock());
        });
        drop_after_synchronize(&place);
        join(reader);
    });
}

/// The same with counted sections, where the next one shows only in the depth.
#[test]
fn the_next_section_tells_so_at_every_depth() {
    explore(AtMost(4), || {
        let place = Place::new(&Ends::default());
        let reader = reader(&place, |place| {
            let outer = read_lock();
            let counted = read_lock();
            drop(outer);
            place.look(&counted);
            drop(counted);
            let _outer = read_lock();
            let _counted = read_lock();
            drop(read_lock());
        });
        drop_after_synchronize(&place);
        join(reader);
    });
}

/// The end of an inner section is mistaken for that of the outer one.
#[test]
fn an_inner_section_ends_nothing() {
    explore(AtMost(5), || {
        let place = Place::new(&Ends::default());
        let reader = reader(&place, |place| {
            let outer = read_lock();
            let object = place.find(&outer);
            drop(read_lock());
            object.inspect(|object| object.look());
        });
        drop_after_synchronize(&place);
        join(reader);
    });
}

/// Guards that drop in another order than they nest: the last one must keep the section.
#[test]
fn the_last_guard_keeps_the_section() {
    explore(AtMost(5), || {
        let place = Place::new(&Ends::default());
        let reader = reader(&place, |place| {
            let outer = read_lock();
            let inner = read_lock();
            let object = place.find(&inner);
            drop(outer);
            object.inspect(|object| object.look());
        });
        drop_after_synchronize(&place);
        join(reader);
    });
}

/// A section is mistaken as ended together with one that began before it.
#[test]
fn a_section_goes_on_when_the_one_around_it_ends() {
    explore(AtMost(5), || {
        let place = Place::new(&Ends::default());
        let reader = reader(&place, |place| {
            let outer = read_lock();
            let inner = read_lock();
            drop(outer);
            place.look(&inner);
        });
        drop_after_synchronize(&place);
        join(reader);
    });
}

/// A quiescent-state reader that is not waited for, or waited for past its quiescent state.
#[test]
fn a_grace_period_waits_for_a_quiescent_state() {
    explore(AtMost(5), || {
        let place = Place::new(&Ends::default());
        let reader = reader(&place, |place| {
            let mut reader = qsbr::Reader::online();
            place.look(&reader.guard());
            reader.quiescent();
            place.look(&reader.guard());
        });
        drop_after_synchronize(&place);
        join(reader);
    });
}

/// A reader that is gone when the updater searches for readers: its reads must be done.
#[test]
fn a_reader_that_retired_has_read() {
    explore(Any, || {
        let place = Place::new(&Ends::default());
        let reader = reader(&place, |place| {
            place.look(&qsbr::Reader::online().guard());
        });
        drop_after_synchronize(&place);
        join(reader);
    });
}

/// A record that a second reader claims: it must begin outside of sections, and be waited for.
#[test]
fn a_record_changes_hands() {
    explore(AtMost(3), || {
        let place = Place::new(&Ends::default());
        let read = |place: &Place| place.look(&qsbr::Reader::online().guard());
        let one = reader(&place, read);
        let two = reader(&place, read);
        drop_after_synchronize(&place);
        join(one);
        join(two);
    });
}

/// The record of a thread that ended, claimed by another thread.
#[test]
fn the_record_of_a_thread_that_ended_changes_hands() {
    explore(AtMost(3), || {
        let place = Place::new(&Ends::default());
        let read = |place: &Place| place.look(&read_lock());
        let one = reader(&place, read);
        let two = reader(&place, read);
        drop_after_synchronize(&place);
        join(one);
        join(two);
    });
}

/// Two updaters share a grace period that one of them runs. Readers that it does not wait for must
/// not see the object that the other updater unpublished. And steps that the one saw done must be
/// done for the other.
#[test]
fn updaters_share_a_grace_period() {
    explore(AtMost(4), || {
        let place = Place::new(&Ends::default());
        let other = reader(&place, |place| {
            place.look(&read_lock());
            synchronize().expect("outside of sections");
            place.look(&read_lock());
        });
        drop_after_synchronize(&place);
        join(other);
    });
}

/// The same with a reader on a third thread.
#[test]
fn updaters_share_the_wait_for_a_reader() {
    explore(AtMost(3), || {
        let drops = Ends::default();
        let places = [Place::new(&drops), Place::new(&drops)];
        let reader = {
            let places = places.clone();
            spawn(move || {
                let guard = read_lock();
                places[0].look(&guard);
                places[1].look(&guard);
            })
        };
        let other = {
            let place = places[1].clone();
            spawn(move || drop_after_synchronize(&place))
        };
        drop_after_synchronize(&places[0]);
        join(reader);
        join(other);
    });
}

/// A barrier that returns before the callback that another thread queued has run.
#[test]
fn a_barrier_waits_for_callbacks_of_others() {
    explore(Any, || {
        let drops = Ends::default();
        let place = Place::new(&drops);
        let queued = Arc::new(AtomicBool::new(false));
        let other = {
            let queued = queued.clone();
            reader(&place, move |place| {
                // Inside a section, so that this thread leaves the callback to others.
                let guard = read_lock();
                defer_drop(place);
                queued.store(true, Release);
                drop(guard);
            })
        };
        if queued.load(Acquire) {
            wait_for_callbacks();
            assert_eq!(drops.count(), 1);
        }
        join(other);
        wait_for_callbacks();
        assert_eq!(drops.count(), 1);
    });
}

/// A backlog is worked off while a reader is inside: callbacks must not be invoked too early to
/// make room.
#[test]
fn a_backlog_waits_for_a_section() {
    explore(AtMost(3), || {
        let drops = Ends::default();
        let places = [(); 3].map(|()| Place::new(&drops));
        let reader = reader(&places[2], |place| place.look(&read_lock()));
        for place in &places {
            defer_drop(place);
        }
        wait_for_callbacks();
        assert_eq!(drops.count(), 3);
        join(reader);
    });
}

/// A callback that is invoked in the section in which it was queued.
#[test]
fn a_section_may_queue_the_callback_of_what_it_looks_at() {
    explore(Any, || {
        let drops = Ends::default();
        let place = Place::new(&drops);
        let updater = reader(&place, |place| {
            let guard = read_lock();
            let object = place.find(&guard);
            defer_drop(place);
            object.inspect(|object| object.look());
        });
        wait_for_callbacks();
        join(updater);
        wait_for_callbacks();
        assert_eq!(drops.count(), 1);
    });
}

/// A list is invoked after the grace period of the list before it, which another thread invoked
/// meanwhile.
#[test]
fn every_list_waits_for_its_own_grace_period() {
    explore(AtMost(3), || {
        let drops = Ends::default();
        let places = [(); 2].map(|()| Place::new(&drops));
        let reader = reader(&places[1], |place| place.look(&read_lock()));
        let other = {
            let place = places[0].clone();
            spawn(move || defer_drop(&place))
        };
        defer_drop(&places[1]);
        wait_for_callbacks();
        join(reader);
        join(other);
        wait_for_callbacks();
        assert_eq!(drops.count(), 2);
    });
}

/// A barrier mistakes a later callback, which ran first, for the one that it waits for.
#[test]
fn a_barrier_is_not_misled_by_later_callbacks() {
    explore(AtMost(3), || {
        let ran = Arc::new(AtomicBool::new(false));
        // Inside a section, so that the callback is left to the threads below.
        let guard = read_lock();
        defer({
            let ran = ran.clone();
            move || ran.store(true, Release)
        });
        drop(guard);
        let invoker = spawn(wait_for_callbacks);
        let later = spawn(|| defer(|| ()));
        wait_for_callbacks();
        assert!(ran.load(Acquire), "the callback has run");
        join(invoker);
        join(later);
        wait_for_callbacks();
    });
}

/// A barrier mistakes a list of which a chunk has run for one of which all have.
#[test]
fn a_barrier_waits_for_what_a_chunk_has_left() {
    explore(AtMost(3), || {
        let drops = Ends::default();
        let places = [(); 2].map(|()| Place::new(&drops));
        // Inside a section, so that the callbacks are left to the threads below.
        let guard = read_lock();
        for place in &places {
            defer_drop(place);
        }
        drop(guard);
        let other = spawn(|| defer(|| ()));
        wait_for_callbacks();
        assert_eq!(drops.count(), 2);
        join(other);
        wait_for_callbacks();
    });
}

/// The end of a table or a thread: an object is dropped although a reader looks at it; or the
/// answer is that all callbacks have run, when one has not.
#[test]
fn what_an_end_runs_waits_for_a_section() {
    explore(AtMost(3), || {
        let drops = Ends::default();
        let place = Place::new(&drops);
        let reader = reader(&place, |place| place.look(&read_lock()));
        // Inside a section, so that the callback is left to the end.
        let guard = read_lock();
        defer_drop(&place);
        drop(guard);
        let all = try_barrier().expect("outside of sections");
        assert_eq!(drops.count(), usize::from(all));
        join(reader);
        wait_for_callbacks();
        assert_eq!(drops.count(), 1);
    });
}

/// A barrier that is polled again answers that all callbacks have run, when one has not.
#[test]
fn a_barrier_in_steps_waits_for_a_section() {
    explore(AtMost(3), || {
        let drops = Ends::default();
        let place = Place::new(&drops);
        let reader = reader(&place, |place| place.look(&read_lock()));
        let guard = read_lock();
        defer_drop(&place);
        drop(guard);
        let mut barrier = Barrier::new();
        let mut all = barrier.poll().expect("outside of sections");
        assert_eq!(drops.count(), usize::from(all));
        join(reader);
        while !all {
            all = barrier.poll().expect("outside of sections");
        }
        assert_eq!(drops.count(), 1);
    });
}

/// Two ends at once: both run a callback, or each leaves it to the other.
#[test]
fn two_ends_at_once_leave_nothing_in_the_way_of_each_other() {
    explore(AtMost(3), || {
        let drops = Ends::default();
        let place = Place::new(&drops);
        let other = reader(&place, |place| {
            let guard = read_lock();
            defer_drop(place);
            drop(guard);
            let _ = try_barrier();
        });
        let _ = try_barrier();
        join(other);
        wait_for_callbacks();
        assert_eq!(drops.count(), 1);
    });
}
