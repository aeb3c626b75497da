//! Histories of real threads, in many short rounds.
//!
//! The tables make the lowest descriptor hard to find: full up to the border of a leaf or of a
//! node, with a few holes in several leaves, and sometimes with no room above. The threads use
//! descriptors near the holes and near the border, so that they meet.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use fdtable::{Error, Fd, FdFlags, FileRef, Files, RawFd};

use crate::recorder::{Clock, Open, Recorder, open};
use crate::search::{History, check};
use crate::specification::{File, State};

const NONE: FdFlags = FdFlags::empty();

/// How many descriptors are open from 0 on, before the holes: both sides of a leaf and of a node.
const TAKEN: &[RawFd] = &[1, 3, 63, 64, 65, 127, 128, 130, 4095, 4096, 4097];

/// Returns the deadline of a test.
fn deadline() -> Instant {
    let asked = std::env::var("FDTABLE_STRESS_SECONDS").ok();
    let seconds = asked.map_or(1, |seconds| seconds.parse().expect("a number of seconds"));
    Instant::now() + Duration::from_secs(seconds)
}

/// A table that is full up to a descriptor; the tables of the rounds are forked from it.
struct Template {
    taken: RawFd,
    files: Files<File>,
}

impl Template {
    fn new(taken: RawFd) -> Self {
        let files = Files::with_limit(u32::MAX);
        let file = FileRef::new(State::COMMON);
        for _ in 0..taken {
            files.open(file.clone(), NONE).expect("there is room");
        }
        Self { taken, files }
    }
}

/// One round: a table, and the bounds of its threads.
struct Round {
    files: Files<File>,
    start: State,
    /// The descriptors that the threads use.
    numbers: Vec<RawFd>,
    /// True if a copy of the table is small enough to be compared.
    small: bool,
    /// True if few descriptors are free below the limit.
    tight: bool,
    /// Set if threads turn a quarantine on and off.
    quarantine: bool,
}

impl Round {
    fn new(template: &Template, rng: &mut Rng) -> Self {
        let taken = template.taken;
        let files = template.files.fork().expect("there is memory");
        let mut holes: Vec<RawFd> = (0..rng.usize(0..4)).map(|_| rng.i32(0..taken)).collect();
        holes.sort_unstable();
        holes.dedup();
        for &hole in &holes {
            drop(files.close(hole).expect("it is open"));
        }
        // Room for a few more, or for all.
        let tight = rng.bool();
        let limit = taken + if tight { rng.i32(0..3) } else { 1 << 20 };
        files.set_limit(limit.unsigned_abs());
        let mut numbers = vec![0, taken - 1, taken, taken + 1];
        numbers.extend((0..3).map(|_| rng.i32(0..taken)));
        numbers.extend(&holes);
        Self {
            files,
            start: State::new(limit, taken, &holes),
            numbers,
            small: taken <= 130,
            tight,
            quarantine: rng.u8(0..4) == 0,
        }
    }

    /// Runs random operations in concurrent threads, and returns their history.
    fn run(&self, open: Open, rng: &mut Rng) -> History {
        let (clock, waiting) = (Clock::new(), AtomicUsize::new(0));
        let seeds: Vec<u64> = (0..rng.usize(2..5)).map(|_| rng.u64(..)).collect();
        let threads = seeds.len();
        thread::scope(|scope| {
            let spawn = |(thread, &seed): (usize, &u64)| {
                let file = (thread as File + 1) * 1000;
                let mut recorder = Recorder::new(&self.files, open, &clock, file);
                let (waiting, mut rng) = (&waiting, Rng::with_seed(seed));
                scope.spawn(move || {
                    waiting.fetch_add(1, SeqCst);
                    // All start together, or they would not meet; a yield only where CPUs are few.
                    for attempt in 0_u32.. {
                        if waiting.load(SeqCst) == threads {
                            break;
                        }
                        if attempt % 1000 == 999 {
                            thread::yield_now();
                        }
                    }
                    let calls = rng.usize(8..40);
                    (0..calls).for_each(|_| self.act(&mut recorder, &mut rng));
                    recorder.finish()
                })
            };
            let threads: Vec<_> = seeds.iter().enumerate().map(spawn).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
            threads.into_iter().map(join).collect()
        })
    }

    fn act(&self, recorder: &mut Recorder<'_>, rng: &mut Rng) {
        let (one, other) = (self.number(rng), self.number(rng));
        match rng.u8(0..if self.quarantine { 57 } else { 51 }) {
            32..34 => recorder.open_pair(),
            34..36 => recorder.reserve_many(rng.usize(2..5)),
            // Most often refused, or else the history would be a long one.
            36 if self.tight => recorder.reserve_many(rng.usize(4..9)),
            37..40 => recorder.replace(one),
            40..42 => recorder.open_at(one),
            42 => recorder.replace_if(one, other),
            43 => recorder.replace_if(one, one),
            44 => recorder.close_if(one, other),
            45 => recorder.close_if(one, one),
            46..49 => recorder.rename(one, other),
            49..51 => recorder.get(one),
            51..54 => recorder.set_quarantine(0),
            54..57 => recorder.set_quarantine([1, 3, u32::MAX][rng.usize(0..3)]),
            0..8 => recorder.open(),
            8..10 => recorder.open_any(),
            10..18 => recorder.close(one),
            18..20 => recorder.reserve(),
            20 => recorder.reserve_from(one),
            21 => recorder.install(),
            22 => _ = recorder.cancel(),
            23 => recorder.get(one),
            24 => recorder.take(one),
            25..27 => recorder.dup(one),
            27 => recorder.dup_min(one, other),
            28..31 => recorder.dup3(one, other),
            31 if self.small => recorder.fork(),
            _ => recorder.open(),
        }
    }

    fn number(&self, rng: &mut Rng) -> RawFd {
        self.numbers[rng.usize(..self.numbers.len())]
    }
}

/// Judges rounds until one is refused or the time is over. Returns how many threads had operations
/// that overlapped others.
fn judge(open: Open, deadline: Instant) -> Result<usize, String> {
    let templates: Vec<Template> = TAKEN.iter().map(|&taken| Template::new(taken)).collect();
    let (mut rng, mut overlaps) = (Rng::with_seed(1), 0);
    // On a machine with much else to do the threads may not meet for a while.
    let meet_by = deadline + Duration::from_secs(60);
    while Instant::now() < deadline || overlaps == 0 && Instant::now() < meet_by {
        let template = &templates[rng.usize(..templates.len())];
        let round = Round::new(template, &mut rng);
        let history = round.run(open, &mut rng);
        check(&round.start, &history)?;
        overlaps += overlapping(&history);
    }
    Ok(overlaps)
}

/// How many operations began while one of another thread was under way.
fn overlapping(history: &History) -> usize {
    let during = |began: u64, other: usize| {
        let mut events = history[other].iter();
        events.any(|event| event.began < began && began < event.ended)
    };
    let overlaps = |thread: usize| {
        let others = move |other: &usize| *other != thread;
        let meets = move |began| {
            (0..history.len())
                .filter(others)
                .any(|other| during(began, other))
        };
        history[thread]
            .iter()
            .filter(|event| meets(event.began))
            .count()
    };
    (0..history.len()).map(overlaps).sum()
}

#[test]
fn every_history_of_threads_has_a_legal_order() {
    let overlaps = judge(open, deadline()).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert!(overlaps > 0, "the threads have met");
}

/// Takes the second-lowest descriptor now and then.
fn open_second_lowest(files: &Files<File>, file: FileRef<File>) -> Result<Fd, Error> {
    let lowest = files.reserve(NONE)?;
    match files.reserve(NONE) {
        Ok(second) if *file % 16 == 1 => Ok(second.install(file)),
        _ => Ok(lowest.install(file)),
    }
}

/// Fails with EMFILE at the last descriptor below the limit.
fn open_too_few(files: &Files<File>, file: FileRef<File>) -> Result<Fd, Error> {
    let lowest = files.reserve(NONE)?;
    let last = lowest.fd().index() + 1 == files.limit() as usize;
    if last {
        return Err(Error::TooManyFiles);
    }
    Ok(lowest.install(file))
}

#[test]
fn a_table_that_does_not_give_the_lowest_number_is_caught() {
    let patience = Instant::now() + Duration::from_secs(60);
    judge(open_second_lowest, patience).expect_err("it is not the lowest");
    let patience = Instant::now() + Duration::from_secs(60);
    judge(open_too_few, patience).expect_err("there is one more");
}
