//! A panic of a caller's code ends only that code. Every other file of the same call is released
//! once, its memory is freed, and no count is left over.
//!
//! One panic propagates out of the call, and each other one is counted.

use std::any::Any;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fdtable::{
    Access, FdFlags, FileRef, Files, PrivateFiles, ReleaseReason, SuperBlock, contained_panics, rcu,
};

const NONE: FdFlags = FdFlags::empty();

/// Four leaves.
const MANY: usize = 256;

/// The releases and drops of files, numbered from 0.
struct Ledger {
    released: Vec<AtomicUsize>,
    dropped: AtomicUsize,
    contained_before: u64,
}

/// A ledger, and the turn of one test: the count of contained panics is one of the process.
struct Turn {
    ledger: Arc<Ledger>,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Turn {
    type Target = Arc<Ledger>;

    fn deref(&self) -> &Arc<Ledger> {
        &self.ledger
    }
}

struct Probe {
    number: usize,
    ledger: Arc<Ledger>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.ledger.dropped.fetch_add(1, SeqCst);
    }
}

impl Probe {
    fn release(&self) {
        self.ledger.released[self.number].fetch_add(1, SeqCst);
    }
}

impl Ledger {
    fn take_turn(count: usize) -> Turn {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let ledger = Self {
            released: (0..count).map(|_| AtomicUsize::new(0)).collect(),
            dropped: AtomicUsize::new(0),
            contained_before: contained_panics(),
        };
        Turn {
            ledger: Arc::new(ledger),
            _turn: turn,
        }
    }

    fn probe(self: &Arc<Self>, number: usize) -> Probe {
        Probe {
            number,
            ledger: Arc::clone(self),
        }
    }

    fn contained(&self) -> u64 {
        contained_panics() - self.contained_before
    }

    /// Checks that every file was released once, and its object dropped.
    fn assert_all_ended(&self) {
        let wrong: Vec<_> = (0..)
            .zip(&self.released)
            .map(|(number, count)| (number, count.load(SeqCst)))
            .filter(|&(_, count)| count != 1)
            .collect();
        assert_eq!(wrong, [], "of {}", self.released.len());
        assert_eq!(self.dropped.load(SeqCst), self.released.len());
        rcu::barrier().expect("outside of sections");
    }
}

/// A release hook that panics with the number of its file if `panics` says so.
fn hook(panics: fn(usize) -> bool) -> impl Fn(&Probe) + Send + Sync + 'static {
    move |probe| {
        probe.release();
        if panics(probe.number) {
            std::panic::panic_any(probe.number);
        }
    }
}

fn file(ledger: &Arc<Ledger>, number: usize, panics: fn(usize) -> bool) -> FileRef<Probe> {
    let hook = hook(panics);
    FileRef::builder(ledger.probe(number))
        .on_release(move |probe, _| hook(probe))
        .build()
}

fn table(ledger: &Arc<Ledger>, panics: fn(usize) -> bool) -> Files<Probe> {
    let files = Files::new();
    for number in 0..ledger.released.len() {
        let opened = files.open(file(ledger, number, panics), FdFlags::CLOEXEC);
        assert_eq!(
            usize::try_from(opened.expect("there is room").raw()),
            Ok(number)
        );
    }
    files
}

/// Runs `work`, and returns the payload of its panic, if it panics.
fn panic_of<R>(work: impl FnOnce() -> R) -> Option<Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(work)).err()
}

/// Runs `work`, which panics with a number.
fn number_of_panic<R>(work: impl FnOnce() -> R) -> usize {
    let panic = panic_of(work).expect("it panics");
    *panic.downcast().expect("a number")
}

fn only_70(number: usize) -> bool {
    number == 70
}

fn on_superblock(
    ledger: &Arc<Ledger>,
    superblock: &SuperBlock<Probe>,
    panics: fn(usize) -> bool,
) -> Files<Probe> {
    let files = Files::new();
    for number in 0..ledger.released.len() {
        let hook = hook(panics);
        let file = FileRef::builder(ledger.probe(number))
            .on(superblock, Access::Write)
            .on_release(move |probe, _| {
                hook(probe);
            })
            .try_build();
        files
            .open(file.expect("there is memory"), NONE)
            .expect("there is room");
    }
    files
}

#[test]
fn a_table_that_is_dropped_releases_every_file_though_one_hook_panics() {
    let ledger = Ledger::take_turn(MANY);
    let files = table(&ledger, only_70);
    assert_eq!(number_of_panic(|| drop(files)), 70);
    ledger.assert_all_ended();
    assert_eq!(ledger.contained(), 0);
}

#[test]
fn close_range_closes_and_releases_every_file_though_one_hook_panics() {
    let ledger = Ledger::take_turn(MANY);
    let files = table(&ledger, only_70);
    assert_eq!(
        number_of_panic(|| files.close_range(0, u32::MAX, drop).expect("in order")),
        70
    );
    assert_eq!(files.open_count(), 0);
    ledger.assert_all_ended();
    assert_eq!(ledger.contained(), 0);
}

#[test]
fn dup3_opens_the_new_descriptor_though_the_hook_of_the_old_file_panics() {
    let ledger = Ledger::take_turn(2);
    let files = table(&ledger, |number| number == 1);
    assert_eq!(number_of_panic(|| drop(files.dup3(0, 1, NONE))), 1);
    assert_eq!(files.get(1).expect("open").number, 0);
    drop(files);
    ledger.assert_all_ended();
}

#[test]
fn unmount_succeeds_when_a_range_was_closed_though_a_hook_panicked() {
    let ledger = Ledger::take_turn(MANY);
    let superblock = SuperBlock::new().expect("there is memory");
    let files = on_superblock(&ledger, &superblock, only_70);
    assert_eq!(
        number_of_panic(|| files.close_range(0, u32::MAX, drop).expect("in order")),
        70
    );
    assert_eq!(superblock.unmount(), Ok(()));
    ledger.assert_all_ended();
}

#[test]
fn a_revocation_goes_on_though_it_drops_a_last_reference_whose_hook_panics() {
    let ledger = Ledger::take_turn(3);
    let superblock = SuperBlock::new().expect("there is memory");
    let open: Mutex<Vec<_>> = Mutex::default();
    for number in 0..3 {
        let file = FileRef::builder(ledger.probe(number))
            .on(&superblock, Access::Read)
            .on_release(|probe, end| {
                probe.release();
                assert_eq!(end, ReleaseReason::Revoked, "the last reference has gone");
            })
            .try_build();
        open.lock()
            .expect("no panic")
            .push(file.expect("there is memory"));
    }
    // The first file that is looked at loses all other references meanwhile, and is not chosen.
    let mut first = true;
    let revoke = || {
        superblock.revoke_where(|probe| {
            if std::mem::take(&mut first) {
                let mut open = open.lock().expect("no panic");
                open.retain(|file| file.number != probe.number);
                return false;
            }
            true
        })
    };
    panic_of(revoke).expect("the last reference has gone");
    assert_eq!(superblock.open_files(), 0);
    open.lock().expect("no panic").clear();
    ledger.assert_all_ended();
}

#[test]
fn a_fork_whose_filter_panics_leaves_no_reference_behind() {
    let ledger = Ledger::take_turn(MANY);
    let files = table(&ledger, |_| false);
    let fork = || files.fork_keeping(|fd, _, _| if fd.raw() == 70 { panic!("no") } else { true });
    panic_of(fork).expect("it panics");
    assert!((0..256).all(|fd| FileRef::strong_count(&files.get(fd).expect("open")) == 2));
    drop(files);
    ledger.assert_all_ended();
}

#[test]
fn unmount_succeeds_when_a_table_was_dropped_though_one_hook_panicked() {
    let ledger = Ledger::take_turn(MANY);
    let superblock = SuperBlock::new().expect("there is memory");
    let files = on_superblock(&ledger, &superblock, only_70);
    assert_eq!(number_of_panic(|| drop(files)), 70);
    assert_eq!(superblock.unmount(), Ok(()));
    ledger.assert_all_ended();
}

#[test]
fn private_files_that_are_dropped_release_every_file_though_one_hook_panics() {
    let ledger = Ledger::take_turn(MANY);
    let files = PrivateFiles::new();
    for number in 0..MANY {
        let opened = files.open(file(&ledger, number, only_70));
        opened.expect("there is room");
    }
    assert_eq!(number_of_panic(|| drop(files)), 70);
    ledger.assert_all_ended();
}

/// More than one panic, and those that no call can propagate: these are contained, which needs
/// `std`.
#[cfg(feature = "std")]
mod contained {
    use super::*;
    use std::task::{Context, Wake, Waker};

    use fdtable::Error;

    fn every_tenth(number: usize) -> bool {
        number.is_multiple_of(10)
    }

    #[test]
    fn a_table_that_is_dropped_releases_every_file_though_many_hooks_panic() {
        let ledger = Ledger::take_turn(MANY);
        let files = table(&ledger, every_tenth);
        assert!(every_tenth(number_of_panic(|| drop(files))));
        ledger.assert_all_ended();
        assert_eq!(ledger.contained(), 25);
    }

    #[test]
    fn the_last_of_two_tables_that_share_leaves_releases_every_file_though_hooks_panic() {
        let ledger = Ledger::take_turn(MANY);
        let parent = table(&ledger, every_tenth);
        let child = parent.fork().expect("there is memory");
        drop(parent);
        assert!(every_tenth(number_of_panic(|| drop(child))));
        ledger.assert_all_ended();
    }

    #[test]
    fn a_table_that_is_dropped_because_of_a_panic_releases_every_file_though_hooks_panic() {
        let ledger = Ledger::take_turn(MANY);
        let files = table(&ledger, every_tenth);
        let panic = panic_of(|| {
            let _files = files;
            panic!("for another reason");
        });
        let panic = panic.expect("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"for another reason"));
        ledger.assert_all_ended();
        assert_eq!(ledger.contained(), 26);
    }

    #[test]
    fn close_range_closes_and_releases_every_file_of_parts_of_leaves_though_hooks_panic() {
        let ledger = Ledger::take_turn(MANY);
        let files = table(&ledger, every_tenth);
        for (first, last) in [(5_u32, 130), (140, 150), (160, 199)] {
            let close = || files.close_range(first, last, drop).expect("in order");
            assert_eq!(
                number_of_panic(close),
                (first as usize).next_multiple_of(10)
            );
        }
        let left: Vec<_> = (0..5)
            .chain(131..140)
            .chain(151..160)
            .chain(200..256)
            .collect();
        assert_eq!(files.open_count(), left.len());
        assert!(left.iter().all(|&fd| files.get(fd).is_ok()));
        assert_eq!(
            number_of_panic(|| files.close_range(0, u32::MAX, drop).expect("in order")),
            0
        );
        ledger.assert_all_ended();
        assert_eq!(ledger.contained(), 26 - 4);
    }

    #[test]
    fn close_range_closes_every_descriptor_of_leaves_that_are_shared_though_hooks_panic() {
        let ledger = Ledger::take_turn(MANY);
        let parent = table(&ledger, every_tenth);
        let child = parent.fork().expect("there is memory");
        child.close_range(0, u32::MAX, drop).expect("in order");
        assert_eq!(child.open_count(), 0);
        assert!(every_tenth(number_of_panic(|| parent
            .close_range(0, u32::MAX, drop)
            .expect("in order"))));
        assert_eq!(parent.open_count(), 0);
        ledger.assert_all_ended();
    }

    #[test]
    fn exec_closes_and_releases_every_file_though_hooks_panic() {
        let ledger = Ledger::take_turn(MANY);
        let files = table(&ledger, every_tenth);
        assert_eq!(
            number_of_panic(|| files.close_on_exec(drop).expect("there is memory")),
            0
        );
        assert_eq!(files.open_count(), 0);
        ledger.assert_all_ended();
        assert_eq!(ledger.contained(), 25);
    }

    #[test]
    fn a_flush_that_panics_stops_no_close_and_no_release() {
        let ledger = Ledger::take_turn(MANY);
        let files = table(&ledger, every_tenth);
        let mut shown = 0;
        let panic = panic_of(|| {
            let closed = files.close_range(0, u32::MAX, |closed| {
                shown += closed.files().count();
                if shown == 64 {
                    panic!("in the flush");
                }
            });
            closed.expect("in order");
        });
        assert_eq!(
            panic.expect("it panics").downcast_ref(),
            Some(&"in the flush")
        );
        assert_eq!((shown, files.open_count()), (MANY, 0));
        ledger.assert_all_ended();
        assert_eq!(ledger.contained(), 26);
    }

    #[test]
    fn a_flush_and_a_hook_that_both_panic_end_one_close() {
        let ledger = Ledger::take_turn(2);
        let files = table(&ledger, |number| number == 0);
        let close = || {
            let closed = files.close(0);
            closed.map(|_closed| panic!("in the flush"))
        };
        assert_eq!(
            panic_of(|| close().expect("open"))
                .expect("it panics")
                .downcast_ref(),
            Some(&"in the flush")
        );
        assert_eq!(ledger.contained(), 1);
        drop(files);
        ledger.assert_all_ended();
    }

    #[test]
    fn private_files_that_are_dropped_release_every_file_though_hooks_panic() {
        let ledger = Ledger::take_turn(MANY);
        let files = PrivateFiles::new();
        for number in 0..MANY {
            files
                .open(file(&ledger, number, every_tenth))
                .expect("there is room");
        }
        assert!(every_tenth(number_of_panic(|| drop(files))));
        ledger.assert_all_ended();
        assert_eq!(ledger.contained(), 25);
    }

    #[test]
    fn references_that_are_dropped_because_a_hook_panics_may_panic_too() {
        let ledger = Ledger::take_turn(3);
        let files: Vec<_> = (0..3)
            .map(|number| file(&ledger, number, |_| true))
            .collect();
        assert_eq!(number_of_panic(|| drop(files)), 0);
        ledger.assert_all_ended();
        assert_eq!(ledger.contained(), 2);
    }

    #[test]
    fn unmount_succeeds_when_a_table_was_dropped_though_hooks_panicked() {
        let ledger = Ledger::take_turn(MANY);
        let superblock = SuperBlock::new().expect("there is memory");
        let files = on_superblock(&ledger, &superblock, every_tenth);
        assert!(every_tenth(number_of_panic(|| drop(files))));
        assert_eq!((superblock.open_files(), superblock.writers()), (0, 0));
        let statistics = superblock.statistics();
        assert_eq!((statistics.joined, statistics.left), (256, 256));
        assert_eq!(superblock.unmount(), Ok(()));
        ledger.assert_all_ended();
    }

    #[test]
    fn unmount_by_force_revokes_every_file_though_many_hooks_panic() {
        let ledger = Ledger::take_turn(MANY);
        let superblock = SuperBlock::new().expect("there is memory");
        let files = on_superblock(&ledger, &superblock, every_tenth);
        let force = || superblock.unmount_by_force();
        assert!(every_tenth(number_of_panic(force)));
        assert_eq!((superblock.open_files(), ledger.contained()), (0, 25));
        assert!((0..256).all(|fd| files.get(fd).err() == Some(Error::Revoked)));
        drop(files);
        ledger.assert_all_ended();
    }

    #[test]
    fn a_lazy_unmount_ends_though_the_last_hook_and_its_own_end_panic() {
        let ledger = Ledger::take_turn(1);
        let superblock = SuperBlock::new().expect("there is memory");
        let files = on_superblock(&ledger, &superblock, |_| true);
        superblock.unmount_lazily(|| panic!("gone")).expect("once");
        assert_eq!(number_of_panic(|| drop(files.close(0).expect("open"))), 0);
        assert_eq!((superblock.open_files(), ledger.contained()), (0, 1));
        ledger.assert_all_ended();
    }

    struct PanickingWaker(AtomicUsize);

    impl Wake for PanickingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
            panic!("in the waker");
        }
    }

    /// Fills a table of one descriptor, and makes three tasks with panicking wakers wait.
    fn awaited(ledger: &Arc<Ledger>) -> (Files<Probe>, Vec<Arc<PanickingWaker>>) {
        let files = Files::with_limit(1);
        files
            .open(file(ledger, 0, |_| false), NONE)
            .expect("there is room");
        let wakers: Vec<_> = (0..3)
            .map(|_| Arc::new(PanickingWaker(AtomicUsize::new(0))))
            .collect();
        for waker in &wakers {
            let waker = Waker::from(Arc::clone(waker));
            assert!(
                files
                    .poll_until_free(&mut Context::from_waker(&waker))
                    .is_pending()
            );
        }
        (files, wakers)
    }

    #[test]
    fn a_close_wakes_every_task_though_wakers_panic_and_flushes_and_releases() {
        let ledger = Ledger::take_turn(1);
        let (files, wakers) = awaited(&ledger);
        let mut flushed = false;
        assert_eq!(files.close(0).map(|_closed| flushed = true), Ok(()));
        assert!(flushed && wakers.iter().all(|waker| waker.0.load(SeqCst) == 1));
        assert_eq!(ledger.contained(), 3);
        ledger.assert_all_ended();
    }

    #[test]
    fn a_range_is_flushed_and_released_though_wakers_panic() {
        let ledger = Ledger::take_turn(1);
        let (files, wakers) = awaited(&ledger);
        let mut flushed = 0;
        let closed = files.close_range(0, 9, |closed| flushed += closed.files().count());
        assert_eq!((closed, flushed), (Ok(()), 1));
        assert!(wakers.iter().all(|waker| waker.0.load(SeqCst) == 1));
        ledger.assert_all_ended();
    }

    #[test]
    fn a_reservation_is_installed_though_a_waker_panics() {
        let ledger = Ledger::take_turn(1);
        let files = Files::with_limit(1);
        let reserved = files.reserve(NONE).expect("there is room");
        let waker = Waker::from(Arc::new(PanickingWaker(AtomicUsize::new(0))));
        assert!(
            files
                .poll_until_free(&mut Context::from_waker(&waker))
                .is_pending()
        );
        let installed = panic_of(|| reserved.install(file(&ledger, 0, |_| false)));
        assert!(installed.is_none() && files.get(0).is_ok());
        assert_eq!(files.open_count(), 1);
        assert_eq!(files.reserve(NONE).err(), Some(Error::TooManyFiles));
        drop(files.close(0).expect("open"));
        ledger.assert_all_ended();
    }

    struct Loud(Probe);
    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("in the drop of {}", self.0.number);
        }
    }

    struct Louder;
    impl Drop for Louder {
        fn drop(&mut self) {
            panic!("in the drop of a hook");
        }
    }

    /// A hook that owns an object that panics too, for every other file.
    fn loud_hook(number: usize) -> impl Fn(&Loud, ReleaseReason) + Send + Sync + 'static {
        // Not made for the others: it panics wherever it is dropped.
        let owned = number.is_multiple_of(2).then(|| Louder);
        move |loud, _| {
            let _ = &owned;
            loud.0.release();
        }
    }

    #[test]
    fn objects_whose_drop_panics_keep_no_other_from_being_dropped() {
        let ledger = Ledger::take_turn(MANY);
        let files = Files::new();
        for number in 0..MANY {
            let file = FileRef::builder(Loud(ledger.probe(number)));
            let file = file.on_release(loud_hook(number)).build();
            files.open(file, NONE).expect("there is room");
        }
        let panic = panic_of(|| drop(files)).expect("it panics");
        let panic: &String = panic.downcast_ref().expect("that of an object");
        assert!(panic.starts_with("in the drop of "), "{panic}");
        ledger.assert_all_ended();
        assert_eq!(ledger.contained(), 256 + 128 - 1);
    }

    #[test]
    fn rcu_objects_whose_drop_panics_keep_no_other_from_being_dropped() {
        let ledger = Ledger::take_turn(MANY);
        let files = Files::new();
        for number in 0..MANY {
            let file = FileRef::builder(Loud(ledger.probe(number))).rcu();
            let file = file.on_release(loud_hook(number)).build();
            files.open(file, NONE).expect("there is room");
        }
        drop(files);
        rcu::barrier().expect("outside of sections");
        ledger.assert_all_ended();
        assert_eq!(ledger.contained(), 256 + 128);
    }

    #[test]
    fn a_drop_that_panics_because_of_a_close_while_the_thread_unwinds_is_contained() {
        let ledger = Ledger::take_turn(1);
        let files = Files::new();
        let file = FileRef::builder(Loud(ledger.probe(0)));
        let file = file.on_release(|loud, _| loud.0.release()).build();
        files.open(file, NONE).expect("there is room");
        let panic = panic_of(|| {
            let _closed = files.close(0).expect("open");
            panic!("for another reason");
        });
        let panic = panic.expect("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"for another reason"));
        ledger.assert_all_ended();
        assert_eq!(ledger.contained(), 1);
    }
}
