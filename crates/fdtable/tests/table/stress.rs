//! Threads that do everything at once to one table.
//!
//! These must hold, whatever the threads do:
//! - no holder of a reference sees a file after its release, and no borrower sees it after its
//!   drop; it is released once, dropped once, in this order, and none is left at the end
//!   ([`canary`]);
//! - no two threads get the same descriptor at once;
//! - a descriptor that `dup3` replaces is open all the time, and each file that it closes is
//!   released once;
//! - a fork is a copy of one moment;
//! - when the threads are done, the table is consistent: its count is that of its descriptors, and
//!   opens get the lowest descriptors.
//!
//! Each test takes a second. `FDTABLE_STRESS_SECONDS=600 cargo test -p fdtable --release --test
//! stress` gives each of them ten minutes.

use crate::canary;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use canary::{Bird, Canary, Flock, look_at_borrowed, look_at_owned};
use fastrand::Rng;
use fdtable::{Error, Fd, FdFlags, FileRef, Files, RawFd, Rcu, rcu};

const THREADS: u64 = 6;
const NONE: FdFlags = FdFlags::empty();

/// Returns the deadline of a test.
fn deadline() -> Instant {
    let asked = std::env::var("FDTABLE_STRESS_SECONDS").ok();
    let seconds = asked.map_or(1, |seconds| seconds.parse().expect("a number of seconds"));
    Instant::now() + Duration::from_secs(seconds)
}

/// Runs `step` in every thread until the deadline; each thread has its own state and numbers.
fn in_threads<S: Default>(step: impl Fn(&mut S, &mut Rng) + Sync) {
    let deadline = deadline();
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let step = &step;
            scope.spawn(move || {
                let (mut state, mut rng) = (S::default(), Rng::with_seed(seed));
                while Instant::now() < deadline {
                    (0..100).for_each(|_| step(&mut state, &mut rng));
                }
            });
        }
    });
}

/// A descriptor, most often of the few that all threads contend for.
fn number(rng: &mut Rng) -> RawFd {
    match rng.u8(..) {
        0..200 => rng.i32(0..100),
        200..240 => rng.i32(0..5000),
        240..250 => rng.i32(32_700..32_900),
        _ => rng.i32(..),
    }
}

fn flags(rng: &mut Rng) -> FdFlags {
    if rng.bool() { FdFlags::CLOEXEC } else { NONE }
}

/// Fails on an answer that the call may not give.
fn allow<A>(answer: Result<A, Error>, errors: &[Error]) -> Option<A> {
    answer
        .map_err(|error| assert!(errors.contains(&error), "{error}"))
        .ok()
}

/// The files that a thread keeps for a while.
struct Kept<B>(Vec<FileRef<B>>);

impl<B> Default for Kept<B> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<B: Bird> Kept<B> {
    fn keep(&mut self, file: FileRef<B>) {
        look_at_owned(&file);
        if self.0.len() == 16 {
            self.0.clear();
        }
        self.0.push(file);
        self.0.iter().for_each(look_at_owned);
    }
}

/// Looks at a file inside a section.
type Look<B> = fn(&Files<B>, &mut Kept<B>, &mut Rng);

/// One random call.
fn anything<B: Bird>(
    files: &Files<B>,
    flock: &Arc<Flock>,
    look: Look<B>,
    kept: &mut Kept<B>,
    rng: &mut Rng,
) {
    use Error::{BadFd, Busy, InvalidArgument, TooManyFiles};
    match rng.u8(0..100) {
        0..14 => _ = allow(files.open(flock.hatch(), flags(rng)), &[TooManyFiles]),
        14..20 => _ = allow(files.open_any(flock.hatch(), flags(rng)), &[TooManyFiles]),
        20..36 => _ = allow(files.close(number(rng)), &[BadFd]),
        36..52 => {
            if let Some(file) = allow(files.get(number(rng)), &[BadFd]) {
                kept.keep(file);
            }
        }
        52..68 => look(files, kept, rng),
        68..73 => _ = allow(files.dup(number(rng)), &[BadFd, TooManyFiles]),
        73..77 => {
            let new = files.dup_min(number(rng), number(rng), flags(rng));
            allow(new, &[BadFd, InvalidArgument, TooManyFiles]);
        }
        77..84 => {
            let new = files.dup3(number(rng), number(rng), flags(rng));
            allow(new, &[BadFd, Busy, InvalidArgument]);
        }
        84..86 => _ = allow(files.dup2(number(rng), number(rng)), &[BadFd, Busy]),
        86..91 => reserve(files, flock, rng),
        91..93 => {
            let first = number(rng).cast_unsigned();
            let last = first.saturating_add(rng.u32(0..80));
            files.close_range(first, last, drop).expect("in order");
        }
        93..95 => {
            let first = number(rng).cast_unsigned();
            files.set_cloexec_range(first, u32::MAX).expect("in order");
        }
        95..97 => _ = allow(files.set_fd_flags(number(rng), flags(rng)), &[BadFd]),
        97 => _ = allow(files.fd_flags(number(rng)), &[BadFd]),
        98 => {
            files.set_limit([64, 1000, 40_000, u32::MAX][rng.usize(0..4)]);
        }
        _ => fork(files, kept, rng),
    }
}

/// Takes a reference inside a section, and puts it there: it may be the last one.
fn own(files: &Files<Canary>, kept: &mut Kept<Canary>, rng: &mut Rng) {
    let _section = rcu::read_lock();
    let Some(file) = allow(files.get(number(rng)), &[Error::BadFd]) else {
        return;
    };
    look_at_owned(&file);
    if rng.u8(..) < 8 {
        thread::yield_now();
    }
    look_at_owned(&file);
    if rng.bool() {
        kept.keep(file);
    }
}

fn borrow(files: &Files<Rcu<Canary>>, kept: &mut Kept<Rcu<Canary>>, rng: &mut Rng) {
    let section = rcu::read_lock();
    let Some(file) = allow(files.get_rcu(number(rng), &section), &[Error::BadFd]) else {
        return;
    };
    look_at_borrowed(file);
    if rng.u8(..) < 8 {
        thread::yield_now();
    }
    look_at_borrowed(file);
    if rng.bool()
        && let Some(file) = file.upgrade()
    {
        kept.keep(file);
    }
    look_at_borrowed(file);
}

fn reserve<B: Bird>(files: &Files<B>, flock: &Arc<Flock>, rng: &mut Rng) {
    let Some(reservation) = allow(files.reserve(flags(rng)), &[Error::TooManyFiles]) else {
        return;
    };
    // No thread can close it, nor take it over.
    let number = reservation.fd();
    assert_eq!(files.close(number).map(drop), Err(Error::BadFd));
    assert!(files.get(number).is_err());
    if rng.bool() {
        assert_eq!(reservation.install(flock.hatch()), number);
    }
}

/// A child that looks up its descriptors, executes a program and exits.
fn fork<B: Bird>(files: &Files<B>, kept: &mut Kept<B>, rng: &mut Rng) {
    let child = files.fork().expect("there is memory");
    if let Some(fd) = child.iter_from(number(rng)).next().map(|(fd, ..)| fd) {
        kept.keep(child.get(fd).expect("only this thread has the child"));
    }
    child.close_on_exec(drop).expect("there is memory");
    assert_eq!(child.open_count(), listed(&child).len());
    if rng.u8(..) < 16 {
        files.close_on_exec(drop).expect("there is memory");
    }
}

/// The open descriptors of a table that no thread changes.
fn listed<T: Send + Sync>(files: &Files<T>) -> Vec<RawFd> {
    let open = files.iter().map(|(fd, ..)| fd);
    open.map(Fd::raw).collect()
}

fn none_is_seen_too_late<B: Bird>(look: Look<B>) -> Arc<Flock> {
    let flock = Arc::new(Flock::default());
    let files: Files<B> = Files::new();
    in_threads(|kept: &mut Kept<B>, rng| anything(&files, &flock, look, kept, rng));
    check_whole(&files, &flock);
    flock
}

#[test]
fn no_file_is_seen_too_late_and_none_is_left() {
    none_is_seen_too_late(own).check_gone();
}

#[test]
fn no_file_that_is_borrowed_is_seen_too_late_and_none_is_left() {
    let flock = none_is_seen_too_late(borrow);
    rcu::barrier().expect("outside of sections");
    flock.check_gone();
}

/// Checks the count of a table, and that opens get the lowest descriptors.
fn check_whole<B: Bird>(files: &Files<B>, flock: &Arc<Flock>) {
    let open = listed(files);
    assert_eq!(files.open_count(), open.len(), "no reservation is left");
    files.set_limit(u32::MAX);
    let free = (0..).filter(|number| open.binary_search(number).is_err());
    for lowest in free.take(5000) {
        let fd = files.open(flock.hatch(), NONE).expect("there is room");
        assert_eq!(fd.raw(), lowest, "the lowest free descriptor");
    }
}

#[test]
fn no_number_is_given_to_two_threads_at_once() {
    const NUMBERS: usize = 400;
    let files = Files::with_limit(NUMBERS as u32);
    let owners: Vec<AtomicUsize> = (0..NUMBERS).map(|_| AtomicUsize::new(0)).collect();
    let own = |fd: Fd| {
        let before = owners[fd.index()].swap(1, Relaxed);
        assert_eq!(before, 0, "{fd} has an owner already");
        fd
    };
    let disown = |fd: Fd| assert_eq!(owners[fd.index()].swap(0, Relaxed), 1);
    in_threads(|mine: &mut Vec<Fd>, rng: &mut Rng| {
        let old = mine.first().copied();
        let took = match (rng.u8(0..8), old) {
            (0..3, _) | (_, None) => files.open(FileRef::new(()), NONE).ok(),
            (3, Some(old)) => files.dup(old).ok(),
            (4, Some(old)) => files.dup_min(old, rng.i32(0..400), NONE).ok(),
            (5..7, _) => files.reserve(NONE).ok().and_then(|reservation| {
                disown(own(reservation.fd()));
                let wanted = rng.bool();
                wanted.then(|| reservation.install(FileRef::new(())))
            }),
            _ => None,
        };
        mine.extend(took.map(own));
        if (took.is_none() || mine.len() > 50) && !mine.is_empty() {
            let gone = mine.swap_remove(rng.usize(0..mine.len()));
            disown(gone);
            drop(files.close(gone).expect("it is this thread's own"));
        }
    });
    for (number, owner) in owners.iter().enumerate() {
        let open = files.get(number as RawFd).is_ok();
        assert_eq!(open, owner.load(Relaxed) == 1, "{number}");
    }
}

#[test]
fn a_number_that_dup_to_replaces_is_open_all_the_time() {
    const FOUGHT_FOR: RawFd = 70;
    let flock = Arc::new(Flock::default());
    let files: Files<Rcu<Canary>> = Files::new();
    let place = files.open(flock.hatch(), NONE).expect("there is room");
    files.dup3(place, FOUGHT_FOR, NONE).expect("it is free");
    in_threads(|kept: &mut Kept<_>, rng| match rng.u8(0..4) {
        0 => {
            let new = files.open(flock.hatch(), NONE).expect("there is room");
            files.dup3(new, FOUGHT_FOR, NONE).expect("both are open");
            drop(files.close(new).expect("it is this thread's own"));
        }
        1 => {
            let section = rcu::read_lock();
            look_at_borrowed(files.get_rcu(FOUGHT_FOR, &section).expect("it is open"));
        }
        _ => kept.keep(files.get(FOUGHT_FOR).expect("it is open")),
    });
    assert_eq!(listed(&files), [0, FOUGHT_FOR]);
    drop(files);
    rcu::barrier().expect("outside of sections");
    flock.check_gone();
}

/// One thread changes two descriptors that are far apart, always the first one first, and each
/// time to a file with a higher number. At any one moment the first is as far as the second, or
/// one ahead. So it must be in every copy.
#[test]
fn a_fork_is_a_copy_of_one_moment() {
    const FIRST: RawFd = 10;
    const SECOND: RawFd = 40_000;
    let files = Files::with_limit(u32::MAX);
    let advance = |round: u64| {
        let new = files
            .open(FileRef::new(round), NONE)
            .expect("there is room");
        files.dup3(new, FIRST, NONE).expect("it is open");
        files.dup3(new, SECOND, NONE).expect("it is open");
        drop(files.close(new).expect("it is open"));
    };
    advance(0);
    let deadline = deadline();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut rounds = 1..;
            while Instant::now() < deadline {
                rounds.by_ref().take(100).for_each(advance);
            }
        });
        scope.spawn(|| {
            while Instant::now() < deadline {
                let child = files.fork().expect("there is memory");
                let first = *child.get(FIRST).expect("it is open");
                let second = *child.get(SECOND).expect("it is open");
                assert!(first == second || first == second + 1, "{first}, {second}");
            }
        });
    });
}
