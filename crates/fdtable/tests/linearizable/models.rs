//! Histories of a few calls, in every order of their steps.
//!
//! A leaf has 4 numbers here, so that a search for the lowest one among nine looks at three leaves,
//! and other threads may change the first while it looks at the last. The clock is part of the
//! model: an operation that ended before another began is ordered before it, as by any other
//! communication between threads.

use std::sync::{Arc, Mutex};

use fdtable::{Error, Fd, FdFlags, FileRef, Files, RawFd};
use loom::thread;

use crate::recorder::{self, Clock, Open, Recorder};
use crate::search::check;
use crate::specification::{File, State};

const ROOM: RawFd = 1000;
const NONE: FdFlags = FdFlags::empty();

/// Calls of a thread.
type Program = fn(&mut Recorder<'_>);

/// How a table came to have its files.
#[derive(Clone, Copy)]
enum Filled {
    /// By opens of the lowest descriptor: searches have marked the leaves that are full.
    Lowest,
    /// By name: no search has marked a leaf.
    ByName,
    /// By name, in a parent that is gone: the leaves must be copied, too.
    Forked,
}

/// A table, and the threads that use it.
#[derive(Clone, Copy)]
struct Model {
    filled: Filled,
    limit: RawFd,
    taken: RawFd,
    holes: &'static [RawFd],
    open: Open,
    programs: &'static [Program],
}

/// A table with that many open descriptors, and room.
const fn model(taken: RawFd, programs: &'static [Program]) -> Model {
    Model {
        filled: Filled::Lowest,
        limit: ROOM,
        taken,
        holes: &[],
        open: recorder::open,
        programs,
    }
}

impl Model {
    fn files(&self) -> Files<File> {
        let files = Files::with_limit(self.limit.unsigned_abs());
        let file = FileRef::new(State::COMMON);
        for fd in 0..self.taken {
            let opened = match self.filled {
                Filled::ByName | Filled::Forked if fd > 0 => files.dup3(0, fd, NONE).map(drop),
                _ => files.open(file.clone(), NONE).map(drop),
            };
            opened.expect("there is room");
        }
        for &hole in self.holes {
            drop(files.close(hole).expect("it is open"));
        }
        match self.filled {
            Filled::Forked => files.fork().expect("there is memory"),
            Filled::Lowest | Filled::ByName => files,
        }
    }

    /// One execution: all programs at once, and the verdict.
    fn execute(&self) -> Result<(), String> {
        let (files, clock) = (Arc::new(self.files()), Arc::new(Clock::new()));
        let open = self.open;
        let spawn = |(thread, &program): (usize, &Program)| {
            let (files, clock) = (files.clone(), clock.clone());
            thread::spawn(move || {
                let file = (thread as File + 1) * 1000;
                let mut recorder = Recorder::new(&files, open, &clock, file);
                program(&mut recorder);
                recorder.finish()
            })
        };
        let (first, others) = self.programs.split_first().expect("there is one");
        let others: Vec<_> = (1..).zip(others).map(spawn).collect();
        let mut recorder = Recorder::new(&files, open, &clock, 1000);
        first(&mut recorder);
        let mut history = vec![recorder.finish()];
        history.extend(
            others
                .into_iter()
                .map(|thread| thread.join().expect("no panic")),
        );
        check(&State::new(self.limit, self.taken, self.holes), &history)
    }

    /// Explores the executions in which threads are interrupted, while they could go on, so often
    /// in all (unless `LOOM_MAX_PREEMPTIONS` is set), and returns the refusals.
    fn explore(self, preemptions: usize) -> Vec<String> {
        let mut builder = loom::model::Builder::new();
        builder.max_branches = builder.max_branches.max(50_000);
        builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
        let refusals = Arc::new(Mutex::new((0_u64, Vec::new())));
        let noted = refusals.clone();
        builder.check(move || {
            let verdict = self.execute();
            let mut noted = noted.lock().expect("no panic");
            noted.0 += 1;
            noted.1.extend(verdict.err());
        });
        let mut refusals = refusals.lock().expect("no panic");
        println!("{} executions", refusals.0);
        std::mem::take(&mut refusals.1)
    }

    #[track_caller]
    fn is_linearizable(self, preemptions: usize) {
        if let Some(refusal) = self.explore(preemptions).first() {
            panic!("{refusal}");
        }
    }
}

/// An open of any number, and one of the lowest beside a close.
#[test]
fn any_number_is_opened_beside_the_lowest() {
    model(
        6,
        &[
            |it| it.open_any(),
            |it| {
                it.close(1);
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// A search that passes 1 while it is open, and finds 5, which is closed after it.
#[test]
fn a_search_meets_two_closes() {
    model(
        6,
        &[
            |it| it.open(),
            |it| {
                it.close(1);
                it.close(5);
            },
        ],
    )
    .is_linearizable(2);
}

/// Two leaves that opens look at without a search: one that finds the first full, and 5, which is
/// closed after 2 is.
#[test]
fn an_open_in_the_second_leaf_meets_two_closes() {
    model(
        6,
        &[
            |it| {
                it.close(2);
                it.close(5);
            },
            |it| {
                it.close(1);
                it.open();
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// The same with 2 that is taken again, by name, when 5 is free, in a leaf between the two.
#[test]
fn an_open_in_the_second_leaf_meets_a_close_and_a_dup_to() {
    let subject = Model {
        holes: &[2],
        ..model(
            9,
            &[
                |it| {
                    it.open();
                    it.open();
                },
                |it| {
                    it.close(2);
                    it.close(5);
                    it.dup3(0, 2);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// A search that passes 1 while it is open, and 5 when it is taken, and finds 9.
#[test]
fn a_search_meets_a_close_and_a_dup_to() {
    let subject = Model {
        holes: &[5],
        ..model(
            9,
            &[
                |it| it.open(),
                |it| {
                    it.close(1);
                    it.dup3(0, 5);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// EMFILE, though at every moment a descriptor below the limit was free.
#[test]
fn a_search_that_finds_nothing_meets_a_close_and_a_dup_to() {
    let subject = Model {
        limit: 6,
        holes: &[5],
        ..model(
            6,
            &[
                |it| it.open(),
                |it| {
                    it.close(1);
                    it.dup3(0, 5);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// A descriptor that two opens both take, or one that neither takes.
#[test]
fn two_opens_meet_in_two_leaves() {
    let subject = Model {
        holes: &[3],
        ..model(
            4,
            &[
                |it| it.open(),
                |it| {
                    it.open();
                    it.close(3);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// A descriptor at the end of a leaf, freed and taken again.
#[test]
fn opens_and_closes_meet_at_the_border_of_a_leaf() {
    const PROGRAM: Program = |it| {
        it.close(3);
        it.open();
    };
    model(5, &[PROGRAM, PROGRAM]).is_linearizable(2);
}

/// A descriptor that is found closed before its close has reported it free, in a leaf that opens do
/// not look at.
#[test]
fn a_close_of_what_is_not_open_meets_a_close() {
    model(
        6,
        &[
            |it| it.close(1),
            |it| {
                it.close(1);
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// The same found by a lookup.
#[test]
fn a_get_and_an_open_meet_a_close() {
    model(
        6,
        &[
            |it| it.close(1),
            |it| {
                it.get(1);
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// The same in the first of two leaves that opens look at, whose bits they read before they lock
/// it.
#[test]
fn a_dup_and_an_open_meet_a_close_in_the_first_leaf() {
    let subject = Model {
        holes: &[2, 5],
        ..model(
            6,
            &[
                |it| {
                    it.open();
                    it.close(1);
                },
                |it| {
                    it.dup(1);
                    it.open();
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// A search that releases the lock in leaves that no search has marked, beside closes in those that
/// it has passed and in those to come.
#[test]
fn an_interrupted_open_meets_two_closes() {
    let subject = Model {
        filled: Filled::ByName,
        holes: &[9],
        ..model(
            13,
            &[
                |it| it.open(),
                |it| {
                    it.close(1);
                    it.close(5);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// The same in leaves that are copied, too.
#[test]
fn an_interrupted_open_in_a_child_meets_a_close_and_an_open() {
    let subject = Model {
        filled: Filled::Forked,
        holes: &[9],
        ..model(
            13,
            &[
                |it| it.open(),
                |it| {
                    it.close(1);
                    it.open();
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// EMFILE of a search that has released the lock, though at every moment one was free.
#[test]
fn an_interrupted_open_that_finds_nothing_meets_two_closes_and_a_dup_to() {
    let subject = Model {
        filled: Filled::ByName,
        limit: 12,
        ..model(
            12,
            &[
                |it| it.open(),
                |it| {
                    it.close(5);
                    it.dup3(0, 5);
                    it.close(1);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

#[test]
fn an_interrupted_open_of_any_meets_a_close_and_an_open() {
    let subject = Model {
        filled: Filled::ByName,
        limit: 12,
        holes: &[9],
        ..model(
            12,
            &[
                |it| it.open_any(),
                |it| {
                    it.close(1);
                    it.open();
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// A pair whose leaves are copied while it is surveyed, beside closes around it.
#[test]
fn an_interrupted_pair_in_a_child_meets_two_closes_and_an_open() {
    let subject = Model {
        filled: Filled::Forked,
        holes: &[5],
        ..model(
            13,
            &[
                |it| it.open_pair(),
                |it| {
                    it.close(9);
                    it.close(1);
                    it.open();
                },
            ],
        )
    };
    // Two take minutes.
    subject.is_linearizable(1);
}

#[test]
fn an_interrupted_pair_that_fails_meets_an_open_and_a_close() {
    let subject = Model {
        filled: Filled::ByName,
        limit: 12,
        holes: &[5],
        ..model(
            12,
            &[
                |it| it.open_pair(),
                |it| {
                    it.open();
                    it.close(9);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// Two descriptors in two leaves, and one between them that an open gets.
#[test]
fn a_pair_in_two_leaves_meets_an_open() {
    let subject = Model {
        holes: &[2, 5, 9],
        ..model(10, &[|it| it.open_pair(), |it| it.open()])
    };
    subject.is_linearizable(2);
}

/// The same beside closes of the lowest, then of one between.
#[test]
fn a_pair_in_two_leaves_meets_two_closes() {
    let subject = Model {
        holes: &[2],
        ..model(
            9,
            &[
                |it| it.open_pair(),
                |it| {
                    it.close(1);
                    it.close(5);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// Two in one leaf, found without a search, and a close in a leaf below.
#[test]
fn a_pair_in_one_leaf_meets_two_closes() {
    let subject = Model {
        holes: &[5],
        ..model(
            7,
            &[
                |it| it.open_pair(),
                |it| {
                    it.close(1);
                    it.close(4);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// A pair that fails where one descriptor is free, and an open that gets it.
#[test]
fn a_pair_that_fails_meets_a_close_and_an_open() {
    let subject = Model {
        limit: 6,
        holes: &[2],
        ..model(
            6,
            &[
                |it| it.open_pair(),
                |it| {
                    it.open();
                    it.close(5);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// Three that fail where two are free, in two leaves, and an open that gets the lower one.
#[test]
fn many_that_fail_meet_an_open_and_a_close() {
    let subject = Model {
        limit: 9,
        holes: &[2, 5],
        ..model(
            9,
            &[
                |it| it.reserve_many(3),
                |it| {
                    it.open();
                    it.close(1);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// Three in three leaves, and an open and a close of others.
#[test]
fn many_in_three_leaves_meet_a_close_and_an_open() {
    let subject = Model {
        holes: &[2, 5, 9],
        ..model(
            10,
            &[
                |it| it.reserve_many(3),
                |it| {
                    it.close(1);
                    it.open();
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// The last descriptor below the limit.
#[test]
fn two_opens_meet_at_the_limit() {
    let subject = Model {
        limit: 4,
        ..model(
            3,
            &[
                |it| it.open(),
                |it| {
                    it.open();
                    it.close(3);
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// A search from a minimum, which is not that for the lowest of all.
#[test]
fn a_dup_from_meets_a_close_and_an_open() {
    let subject = Model {
        holes: &[1],
        ..model(
            6,
            &[
                |it| it.dup_min(0, 4),
                |it| {
                    it.close(4);
                    it.open();
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

/// A descriptor that is lost when its reservation is dropped, or taken before that.
#[test]
fn a_reservation_meets_an_open_and_a_dup_to() {
    model(
        3,
        &[
            |it| {
                it.reserve();
                it.cancel();
            },
            |it| {
                it.open();
                it.dup3(0, 3);
            },
        ],
    )
    .is_linearizable(2);
}

/// A reservation that other threads see installed too early or too late, or take over.
#[test]
fn an_install_meets_a_dup_to_and_a_get() {
    model(
        2,
        &[
            |it| {
                it.reserve_from(4);
                it.install();
            },
            |it| {
                it.dup3(0, 4);
                it.get(4);
            },
        ],
    )
    .is_linearizable(2);
}

/// A lookup that finds a state older than the last change that it can know of.
#[test]
fn a_get_meets_an_open_and_a_take() {
    model(
        3,
        &[
            |it| {
                it.open();
                it.take(3);
            },
            |it| {
                it.get(3);
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// A target that is closed while its file is replaced, and is then free and open at once.
#[test]
fn a_dup_to_meets_a_close_of_its_target_and_an_open() {
    model(
        3,
        &[
            |it| {
                it.dup3(0, 1);
                it.get(1);
            },
            |it| {
                it.close(1);
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// The source of a dup, which is closed after it was found.
#[test]
fn a_dup_meets_the_close_of_its_source() {
    model(
        4,
        &[
            |it| it.dup(3),
            |it| {
                it.close(3);
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// A file that moves from one leaf to another, and is in neither, or a copy with one of two
/// closes, the second.
#[test]
fn a_fork_meets_a_move_between_leaves() {
    model(
        5,
        &[
            |it| it.fork(),
            |it| {
                it.open();
                it.dup3(5, 1);
                it.close(5);
            },
        ],
    )
    .is_linearizable(2);
}

/// Lookups at both numbers of a rename, in two leaves and in both orders.
#[test]
fn a_rename_between_leaves_meets_two_gets() {
    model(
        6,
        &[
            |it| it.rename(1, 6),
            |it| {
                it.get(1);
                it.get(6);
            },
            |it| it.get(1),
        ],
    )
    .is_linearizable(2);
    model(
        6,
        &[
            |it| it.rename(5, 1),
            |it| {
                it.get(1);
                it.get(5);
            },
        ],
    )
    .is_linearizable(2);
}

#[test]
fn a_rename_in_one_leaf_meets_two_gets() {
    model(
        3,
        &[
            |it| it.rename(1, 3),
            |it| {
                it.get(1);
                it.get(3);
            },
        ],
    )
    .is_linearizable(2);
}

/// The old number, which is free when a lookup does not find it.
#[test]
fn a_rename_meets_a_get_and_an_open() {
    model(
        6,
        &[
            |it| it.rename(1, 9),
            |it| {
                it.get(1);
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// Locks of two leaves, which both take in the same order.
#[test]
fn a_rename_meets_one_the_other_way_round() {
    model(6, &[|it| it.rename(1, 5), |it| it.rename(5, 1)]).is_linearizable(2);
}

#[test]
fn a_rename_meets_a_close_of_its_target_and_a_fork() {
    model(
        6,
        &[
            |it| it.rename(1, 5),
            |it| {
                it.close(5);
                it.fork();
            },
        ],
    )
    .is_linearizable(2);
}

#[test]
fn a_rename_in_a_child_meets_a_close_and_an_open() {
    let subject = Model {
        filled: Filled::Forked,
        ..model(
            6,
            &[
                |it| it.rename(4, 1),
                |it| {
                    it.close(4);
                    it.open();
                },
            ],
        )
    };
    subject.is_linearizable(2);
}

#[test]
fn a_replace_meets_a_close_and_an_open() {
    model(
        3,
        &[
            |it| {
                it.replace(1);
                it.get(1);
            },
            |it| {
                it.close(1);
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// A number that an open may take first, or that is reserved then.
#[test]
fn an_open_at_a_number_meets_an_open_and_a_reservation() {
    model(
        3,
        &[
            |it| it.open_at(3),
            |it| {
                it.open();
                it.reserve();
            },
        ],
    )
    .is_linearizable(2);
}

/// Two that expect the same file: one succeeds.
#[test]
fn a_conditional_replace_meets_a_conditional_close() {
    model(
        2,
        &[
            |it| {
                it.replace_if(1, 0);
                it.open();
            },
            |it| it.close_if(1, 0),
        ],
    )
    .is_linearizable(2);
}

#[test]
fn three_threads_meet_in_three_leaves() {
    model(
        9,
        &[
            |it| it.open(),
            |it| it.close(8),
            |it| {
                it.close(2);
                it.open();
            },
        ],
    )
    .is_linearizable(1);
}

/// EBUSY, where nothing is reserved.
#[test]
fn calls_at_a_given_descriptor_meet_the_end_of_its_quarantine() {
    const END: Program = |it| {
        it.set_quarantine(u32::MAX);
        it.close(1);
        it.set_quarantine(0);
    };
    model(3, &[END, |it| it.dup3(0, 1)]).is_linearizable(2);
    model(3, &[END, |it| it.rename(0, 1)]).is_linearizable(2);
    model(3, &[END, |it| it.replace(1)]).is_linearizable(2);
    model(3, &[END, |it| it.open_at(1)]).is_linearizable(2);
}

/// EMFILE, though a descriptor was in quarantine, and then free.
#[test]
fn an_open_of_a_full_table_meets_the_end_of_a_quarantine() {
    let subject = Model {
        limit: 4,
        ..model(
            4,
            &[
                |it| {
                    it.open();
                    it.set_quarantine(u32::MAX);
                    it.close(2);
                    it.set_quarantine(0);
                },
                |it| it.open(),
            ],
        )
    };
    subject.is_linearizable(2);
}

/// A higher descriptor that left the quarantine before a lower one.
#[test]
fn two_opens_meet_the_end_of_a_quarantine() {
    model(
        8,
        &[
            |it| {
                it.set_quarantine(u32::MAX);
                it.close(5);
                it.close(2);
                it.set_quarantine(0);
            },
            |it| {
                it.open();
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// A descriptor that waits no longer, beside one that does.
#[test]
fn two_opens_meet_a_shorter_quarantine() {
    model(
        8,
        &[
            |it| {
                it.set_quarantine(u32::MAX);
                it.close(5);
                it.close(2);
                it.set_quarantine(1);
            },
            |it| {
                it.open();
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// A descriptor that is closed when the quarantine starts, and is then neither free nor in it.
#[test]
fn a_close_and_an_open_meet_the_start_of_a_quarantine() {
    model(
        6,
        &[
            |it| {
                it.set_quarantine(1);
                it.close(5);
                it.open();
            },
            |it| {
                it.close(2);
                it.open();
            },
        ],
    )
    .is_linearizable(2);
}

/// Looks for a descriptor without the lock, and then takes it if it is still free.
fn open_by_scanning(files: &Files<File>, file: FileRef<File>) -> Result<Fd, Error> {
    let mut number = 0;
    loop {
        while files.get(number).is_ok() {
            number += 1;
        }
        let reservation = files.reserve_from(number, NONE)?;
        if reservation.fd().raw() == number {
            return Ok(reservation.install(file));
        }
        number = 0;
    }
}

/// The models detect the faults that they exist for.
#[test]
fn a_scan_without_a_lock_is_caught() {
    let scans = Model {
        open: open_by_scanning,
        ..model(
            6,
            &[
                |it| it.open(),
                |it| {
                    it.close(1);
                    it.close(5);
                },
            ],
        )
    };
    assert!(!scans.explore(2).is_empty());
}
