//! Threads that do everything at once to one table of private descriptors.
//!
//! These must hold, whatever the threads do:
//! - no holder of a reference sees a file after its release, no borrower sees it after its drop,
//!   and no file is left at the end ([`canary`]);
//! - a descriptor leads to its own file or to none, even if another thread closes it meanwhile, and
//!   of several closes one succeeds;
//! - a thread that closes before it opens is never refused, at any limit.
//!
//! Each test takes a second. `FDTABLE_STRESS_SECONDS=600 cargo test -p fdtable --release --test
//! private_stress` gives each of them ten minutes.

use crate::canary;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use canary::{Bird, Canary, Flock, look_at_borrowed, look_at_owned};
use fastrand::Rng;
use fdtable::{Error, FileRef, PrivateFd, PrivateFiles, Rcu, rcu};

const THREADS: u64 = 6;

/// Descriptors that all threads use. Bits that no thread has stored yet name nothing.
struct Board([AtomicU64; 32]);

impl Board {
    fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 32])
    }

    /// Publishes a descriptor, and returns the one that was in its place.
    fn show(&self, fd: PrivateFd, rng: &mut Rng) -> PrivateFd {
        PrivateFd::from_bits(self.0[rng.usize(0..32)].swap(fd.to_bits(), Relaxed))
    }

    fn any(&self, rng: &mut Rng) -> PrivateFd {
        PrivateFd::from_bits(self.0[rng.usize(0..32)].load(Relaxed))
    }
}

/// Runs `step` in every thread until the time is up; each thread has its own state and numbers.
fn in_threads<S: Default>(step: impl Fn(&mut S, &mut Rng) + Sync) {
    let asked = std::env::var("FDTABLE_STRESS_SECONDS").ok();
    let seconds = asked.map_or(1, |seconds| seconds.parse().expect("a number of seconds"));
    let deadline = Instant::now() + Duration::from_secs(seconds);
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

#[test]
fn no_file_is_seen_too_late_and_none_is_left() {
    let flock = none_is_seen_too_late(|files: &PrivateFiles<Canary>, fd, rng| {
        let _section = rcu::read_lock();
        if let Ok(file) = files.get(fd) {
            look_at_owned(&file);
            if rng.u8(..) < 8 {
                thread::yield_now();
            }
            look_at_owned(&file);
        }
    });
    flock.check_gone();
}

#[test]
fn no_file_that_is_borrowed_is_seen_too_late_and_none_is_left() {
    let flock = none_is_seen_too_late(|files: &PrivateFiles<Rcu<Canary>>, fd, rng| {
        let section = rcu::read_lock();
        if let Ok(file) = files.get_rcu(fd, &section) {
            look_at_borrowed(file);
            if rng.u8(..) < 8 {
                thread::yield_now();
            }
            look_at_borrowed(file);
        }
    });
    rcu::barrier().expect("outside of sections");
    flock.check_gone();
}

fn none_is_seen_too_late<B: Bird>(
    look: impl Fn(&PrivateFiles<B>, PrivateFd, &mut Rng) + Sync,
) -> Arc<Flock> {
    let flock = Arc::new(Flock::default());
    let files: PrivateFiles<B> = PrivateFiles::with_limit(100);
    let board = Board::new();
    in_threads(|kept: &mut Vec<FileRef<B>>, rng| {
        match rng.u8(0..8) {
            0..3 => match files.open(flock.hatch()) {
                // The previous descriptor may stay open, forever or until it is found in another
                // place.
                Ok(fd) => _ = files.close(board.show(fd, rng)),
                Err(error) => assert_eq!(error, Error::TooManyFiles),
            },
            3 => _ = files.close(board.any(rng)),
            4 => kept.extend(
                files
                    .close(board.any(rng))
                    .map(fdtable::ClosedFile::into_file),
            ),
            5 => kept.extend(files.get(board.any(rng))),
            _ => look(&files, board.any(rng), rng),
        }
        kept.iter().for_each(look_at_owned);
        kept.truncate(8);
    });
    flock
}

#[test]
fn a_descriptor_leads_to_its_own_file_or_to_none() {
    let files: PrivateFiles<Rcu<AtomicU64>> = PrivateFiles::new();
    let (opened, closed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let board = Board::new();
    let close = |fd| {
        if files.close(fd).is_ok() {
            closed.fetch_add(1, Relaxed);
        }
    };
    let check = |fd: PrivateFd, file: &AtomicU64| {
        let own = file.load(Relaxed);
        // Its opener has not stored it in the file yet, or this thread does not see the store.
        assert!(
            own == fd.to_bits() || own == 0,
            "the file of another descriptor"
        );
    };
    in_threads(|(): &mut (), rng| match rng.u8(0..4) {
        0 => {
            let file = FileRef::new_rcu(AtomicU64::new(0));
            let fd = files.open(file.clone()).expect("few are open");
            file.store(fd.to_bits(), Relaxed);
            opened.fetch_add(1, Relaxed);
            close(board.show(fd, rng));
        }
        1 => close(board.any(rng)),
        2 => {
            let fd = board.any(rng);
            if let Ok(file) = files.get(fd) {
                check(fd, &file);
            }
        }
        _ => {
            let (fd, section) = (board.any(rng), rcu::read_lock());
            if let Ok(file) = files.get_rcu(fd, &section) {
                check(fd, &file);
            }
        }
    });
    let left = opened.load(Relaxed) - closed.load(Relaxed);
    assert_eq!(files.open_count(), left);
    assert_eq!(files.iter().count(), left);
    assert!(left <= 32, "those on the board, at most");
}

#[test]
fn a_thread_that_closes_before_it_opens_is_never_refused() {
    let files = PrivateFiles::with_limit(THREADS as u32);
    in_threads(|mine: &mut Option<PrivateFd>, rng| {
        if let Some(fd) = mine.take() {
            drop(files.close(fd).expect("it is this thread's own"));
        }
        if rng.bool() {
            *mine = Some(files.open(FileRef::new(())).expect("one is free"));
        }
    });
}
