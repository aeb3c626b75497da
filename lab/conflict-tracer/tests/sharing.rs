//! Verdicts that are well known: two counters on a line and on two, locks, reference counts.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use conflict_tracer::{
    Cpus, Directory, Error, LineSize, MAX_CPUS, Report, Sharing, Transfers, conflicts,
};

/// Alone on its lines, also on pairs of them.
#[repr(align(128))]
struct Alone<T>(T);

/// Runs `work` with simulated CPUs, one test at a time: there are not enough for all.
fn with_cpus<A>(count: usize, work: impl FnOnce(&mut Cpus) -> A) -> A {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: nothing here has restartable sequences.
    work(&mut unsafe { Cpus::new(count) }.unwrap())
}

/// Compares two operations in both orders, warmed up, and expects the same verdict of both.
fn verdict<S: Sync, A: Send, B: Send>(
    state: impl Fn() -> S,
    first: impl Fn(&S) -> A + Sync,
    second: impl Fn(&S) -> B + Sync,
) -> Report {
    let setup = |cpus: &mut Cpus| {
        let state = state();
        cpus.run(0, || drop(first(&state)))?;
        cpus.run(1, || drop(second(&state)))?;
        Ok(state)
    };
    let [forth, back] = with_cpus(2, |cpus| in_both_orders(cpus, setup, &first, &second)).unwrap();
    let found = |report: &Report| {
        let conflicts = report.conflicts().iter();
        conflicts
            .map(|conflict| conflict.sharing())
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&forth), found(&back));
    forth
}

/// Traces `first` on CPU 0 and `second` on CPU 1, in this order, then in the other, each time from
/// a state of its own.
fn in_both_orders<S: Sync, A: Send, B: Send>(
    cpus: &mut Cpus,
    setup: impl Fn(&mut Cpus) -> Result<S, Error>,
    first: impl Fn(&S) -> A + Sync,
    second: impl Fn(&S) -> B + Sync,
) -> Result<[Report; 2], Error> {
    let state = setup(cpus)?;
    let (_, left) = cpus.trace(0, || first(&state))?;
    let (_, right) = cpus.trace(1, || second(&state))?;
    let forth = conflicts(&left, &right, LineSize::Bytes64)?;
    let state = setup(cpus)?;
    let (_, right) = cpus.trace(1, || second(&state))?;
    let (_, left) = cpus.trace(0, || first(&state))?;
    Ok([forth, conflicts(&left, &right, LineSize::Bytes64)?])
}

fn kinds(report: &Report) -> Vec<Sharing> {
    report
        .conflicts()
        .iter()
        .map(|conflict| conflict.sharing())
        .collect()
}

#[test]
fn two_counters_on_one_line_are_false_sharing_and_on_two_are_none() {
    let counters = || Alone::<[AtomicU64; 16]>(Default::default());
    let add =
        |at: usize| move |counters: &Alone<[AtomicU64; 16]>| counters.0[at].fetch_add(1, Relaxed);
    assert_eq!(kinds(&verdict(counters, add(0), add(0))), [Sharing::True]);
    assert_eq!(kinds(&verdict(counters, add(0), add(7))), [Sharing::False]);
    assert!(verdict(counters, add(0), add(8)).is_free());
}

#[test]
fn a_report_names_both_places_in_the_source() {
    #[inline(never)]
    fn open(counter: &Alone<AtomicU64>) -> u64 {
        counter.0.fetch_add(1, Relaxed)
    }
    #[inline(never)]
    fn count(counter: &Alone<AtomicU64>) -> u64 {
        counter.0.load(Relaxed)
    }
    let report = verdict(|| Alone(AtomicU64::new(0)), open, count);
    let [conflict] = report.conflicts() else {
        panic!("{report}");
    };
    let functions = conflict.sides().each_ref().map(|side| {
        let location = side.location();
        let frames = location.frames().iter();
        (
            side.writes(),
            frames
                .map(|frame| frame.function.clone())
                .collect::<String>(),
        )
    });
    assert!(
        functions[0].0 && functions[0].1.contains("open"),
        "{functions:?}"
    );
    assert!(
        !functions[1].0 && functions[1].1.contains("count"),
        "{functions:?}"
    );
    let shown = report.to_string();
    assert!(
        shown.contains("sharing.rs:") && !shown.contains("catch_unwind"),
        "{shown}"
    );
}

/// Shared data under a lock, as usual: each object on lines of its own.
struct Guarded {
    list: Alone<RwLock<Vec<Arc<Alone<u64>>>>>,
}

fn guarded() -> Guarded {
    Guarded {
        list: Alone(RwLock::new(vec![Arc::new(Alone(1)), Arc::new(Alone(2))])),
    }
}

fn look_up(at: usize) -> impl Fn(&Guarded) -> u64 + Sync {
    move |guarded| {
        let list = guarded.list.0.read().unwrap();
        let object = Arc::clone(&list[at]);
        drop(list);
        black_box(object.0)
    }
}

#[test]
fn readers_of_a_lock_conflict_in_its_line_and_on_one_object_in_its_count_too() {
    assert_eq!(
        kinds(&verdict(guarded, look_up(0), look_up(1))),
        [Sharing::True]
    );
    assert_eq!(
        kinds(&verdict(guarded, look_up(0), look_up(0))),
        [Sharing::True; 2]
    );
}

#[test]
fn clones_of_one_reference_conflict_in_the_count() {
    let clone = |object: &Arc<Alone<u64>>| drop(black_box(Arc::clone(object)));
    let report = verdict(|| Arc::new(Alone(3)), clone, clone);
    assert_eq!(kinds(&report), [Sharing::True]);
}

#[test]
fn reads_alone_never_conflict() {
    let read = |numbers: &Vec<u64>| numbers.iter().sum::<u64>();
    assert!(verdict(|| vec![1; 100], read, read).is_free());
}

#[test]
fn a_spinlock_conflicts_in_its_word_and_the_guarded_data() {
    struct Guarded(Alone<AtomicBool>, Alone<AtomicU64>);
    let add = |guarded: &Guarded| {
        while guarded.0.0.swap(true, Acquire) {
            spin_loop();
        }
        guarded.1.0.store(guarded.1.0.load(Relaxed) + 1, Relaxed);
        guarded.0.0.store(false, Release);
    };
    let state = || Guarded(Alone(AtomicBool::new(false)), Alone(AtomicU64::new(0)));
    assert_eq!(kinds(&verdict(state, add, add)), [Sharing::True; 2]);
}

#[test]
fn cpus_that_allocate_for_themselves_do_not_conflict() {
    let allocate = |_: &()| drop(black_box(Box::new([0_u8; 40])));
    let report = verdict(|| (), allocate, allocate);
    assert!(report.is_free(), "{report}");
}

#[test]
fn the_transfer_of_an_operation_and_its_result_is_not_traced() {
    let take = |_: &()| {
        let large = black_box([7_u64; 32]);
        move || large
    };
    let report = verdict(|| (), take, take);
    assert!(report.is_free(), "{report}");
}

#[test]
fn a_verdict_is_the_same_each_time() {
    let once = || {
        let report = verdict(guarded, look_up(0), look_up(1));
        let named = report.conflicts().iter().map(|conflict| {
            conflict
                .sides()
                .each_ref()
                .map(|side| (side.cpu(), side.access().instruction))
        });
        named.collect::<Vec<_>>()
    };
    assert_eq!(once(), once());
}

/// Runs the operation of each of `count` CPUs several times, and counts all rounds but the first.
fn transfers<A: Send>(count: usize, operation: impl Fn(usize) -> A + Sync) -> Transfers {
    let mut directory = Directory::new(LineSize::Bytes64);
    let mut steady = Transfers::default();
    with_cpus(count, |cpus| {
        for round in 0..3 {
            for cpu in 0..count {
                let (_, trace) = cpus.trace(cpu, || operation(cpu)).unwrap();
                let fed = directory.feed(&trace);
                if round > 0 {
                    steady += fed;
                }
            }
        }
    });
    steady
}

#[test]
fn transfers_do_not_grow_where_nothing_is_shared_and_are_one_where_a_counter_is() {
    for count in [2, 16] {
        let counters: Vec<_> = (0..count).map(|_| Alone(AtomicU64::new(0))).collect();
        let add = |at: usize| counters[at].0.fetch_add(1, Relaxed);
        assert_eq!(transfers(count, add).between_caches, 0);
        assert_eq!(transfers(count, |_| add(0)).per_operation(), 1.0);
    }
}

#[test]
fn two_hundred_and_fifty_six_cpus_can_be_started() {
    let counters: Vec<_> = (0..MAX_CPUS).map(|_| Alone(AtomicU64::new(0))).collect();
    let steady = transfers(MAX_CPUS, |cpu| counters[cpu].0.fetch_add(1, Relaxed));
    assert_eq!(
        (steady.operations, steady.between_caches),
        (2 * MAX_CPUS as u64, 0)
    );
}

#[test]
fn a_locked_list_transfers_its_lines_each_time() {
    let list = Alone(Mutex::new(Vec::with_capacity(1 << 10)));
    let steady = transfers(16, |cpu| list.0.lock().unwrap().push(cpu));
    // The line of the lock and the length, and that of the end, which is new every eighth time.
    assert!(steady.per_operation() >= 1.75, "{steady:?}");
}
