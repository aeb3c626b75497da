//! Tables that make the lowest descriptor hard to find, and the operations of threads.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, PoisonError};
use std::thread;

use fastrand::Rng;
use fdtable::{FdFlags, FileRef, Files};

use crate::clock::Clock;
use crate::journal::{Journal, Number};
use crate::judge::{Start, Verdict, judge};
use crate::worker::{File, Open, Worker};

pub(crate) const NONE: FdFlags = FdFlags::empty();

/// Descriptors of a leaf.
pub(crate) const LEAF: Number = 64;

/// How a descriptor is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    Open,
    Dup,
    DupFrom,
    DupTo,
    Any,
    Reserve,
    Pair,
    Many,
}

/// How descriptors are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Close,
    Take,
    Range,
}

/// Other operations between closes and opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    Pause,
    /// Looks for a closed descriptor, to open it.
    Get,
    Fork,
    SetLimit,
}

/// How a thread yields to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    Yield,
    /// Sleeps for a moment. A thread that wakes up preempts another, anywhere in a call.
    Nap,
}

/// The operations of threads. Each call is as likely as its share of its list.
#[derive(Clone, Copy)]
pub(crate) struct Habits {
    pub(crate) open: Open,
    pub(crate) openings: &'static [Opening],
    pub(crate) closings: &'static [Closing],
    pub(crate) asides: &'static [Aside],
    /// How many descriptors are closed before others are opened, at most.
    pub(crate) closes: usize,
    /// How many descriptors a thread may have beyond its first ones.
    pub(crate) more: usize,
}

/// A table that is full up to a descriptor; the tables of rounds are forked from it.
pub(crate) struct Template {
    pub(crate) open: Number,
    files: Files<File>,
}

impl Template {
    /// Returns the table of a size. It is made once: a million opens take a while.
    pub(crate) fn of(open: Number) -> &'static Self {
        static ALL: Mutex<Vec<&Template>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.iter().copied().find(|template| template.open == open) {
            return found;
        }
        let made = Box::leak(Box::new(Self::new(open)));
        all.push(made);
        made
    }

    fn new(open: Number) -> Self {
        let files = Files::with_limit(u32::MAX);
        let file = FileRef::new(0);
        for _ in 0..open {
            files.open(file.clone(), NONE).expect("there is room");
        }
        Self { open, files }
    }

    /// Makes a table of a round, with a limit.
    fn files(&self, limit: Number) -> Files<File> {
        let files = self.files.fork().expect("there is memory");
        files.set_limit(limit);
        files
    }
}

/// Counts a thread as running until it is dropped, also by a panic.
struct Running<'r>(&'r AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// One round of threads that close and open descriptors of a few leaves.
pub(crate) struct Scene<'t> {
    pub(crate) template: &'t Template,
    pub(crate) limit: Number,
    /// The leaves in which descriptors are closed.
    pub(crate) leaves: Vec<Number>,
    pub(crate) habits: Habits,
    pub(crate) threads: usize,
    /// How many other threads look for closed descriptors, and open them, while these run.
    pub(crate) watchers: usize,
    pub(crate) pause: Pause,
    /// How often each thread closes some descriptors and opens others.
    pub(crate) turns: usize,
}

impl Scene<'_> {
    /// Runs the threads and judges what they did.
    pub(crate) fn judge(&self, rng: &mut Rng) -> Verdict {
        let files = self.template.files(self.limit);
        let mut leaves = self.leaves.clone();
        leaves.sort_unstable();
        leaves.dedup();
        let mut numbers: Vec<Number> = leaves
            .iter()
            .flat_map(|leaf| leaf * LEAF..(leaf + 1) * LEAF)
            .filter(|&number| number < self.template.open)
            .collect();
        // One stays open, for `dup`.
        let kept = numbers.pop().expect("there is a leaf");
        let mut mins: Vec<Number> = numbers.iter().step_by(40).copied().collect();
        mins.extend([0, self.template.open - 1, self.template.open + 3]);
        let start = Start {
            open: self.template.open,
            limit: self.limit,
            mins,
        };
        judge(&start, &self.run(&files, &start, &numbers, kept, rng))
    }

    fn run(
        &self,
        files: &Files<File>,
        start: &Start,
        numbers: &[Number],
        kept: Number,
        rng: &mut Rng,
    ) -> Vec<Journal> {
        let clock = Clock::new();
        let (waiting, running) = (AtomicUsize::new(0), AtomicUsize::new(self.threads));
        let mut shuffled = numbers.to_vec();
        rng.shuffle(&mut shuffled);
        let mut own = vec![Vec::new(); self.threads + self.watchers];
        for (place, &number) in shuffled.iter().enumerate() {
            own[place % self.threads].push(number);
        }
        thread::scope(|scope| {
            let spawn = |(thread, own): (usize, Vec<Number>)| {
                let mut worker = Worker {
                    files,
                    clock,
                    habits: self.habits,
                    pause: self.pause,
                    start,
                    numbers,
                    kept,
                    sets_limit: thread == 0,
                    quota: own.len(),
                    own,
                    rng: Rng::with_seed(rng.u64(..)),
                    journal: Journal::default(),
                };
                let (waiting, running) = (&waiting, &running);
                scope.spawn(move || {
                    waiting.fetch_add(1, SeqCst);
                    while waiting.load(SeqCst) < self.threads + self.watchers {
                        thread::yield_now();
                    }
                    if thread < self.threads {
                        let _running = Running(running);
                        (0..self.turns).for_each(|_| worker.take_turn());
                    } else {
                        while running.load(SeqCst) > 0 {
                            worker.watch();
                        }
                    }
                    worker.journal
                })
            };
            let threads: Vec<_> = own.into_iter().enumerate().map(spawn).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
            threads.into_iter().map(join).collect()
        })
    }
}
