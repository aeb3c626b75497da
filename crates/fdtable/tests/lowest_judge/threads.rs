//! Rounds of real threads.

use std::time::{Duration, Instant};

use fastrand::Rng;
use fdtable::{Error, Fd, FileRef, Files};

use crate::journal::Number;
use crate::judge::Verdict;
use crate::scene::{Aside, Closing, Habits, NONE, Opening, Pause, Scene, Template};
use crate::worker::{File, open};

/// Opens and closes alone: nearly always on the fast path.
const PLAIN: Habits = Habits {
    open,
    openings: &[Opening::Open, Opening::Open, Opening::Open, Opening::Dup],
    closings: &[Closing::Close],
    asides: &[Aside::Pause, Aside::Pause, Aside::Pause, Aside::Get],
    closes: 3,
    more: 0,
};

/// All calls that take or free one descriptor.
const MIXED: Habits = Habits {
    openings: &[
        Opening::Open,
        Opening::Open,
        Opening::Open,
        Opening::Dup,
        Opening::DupFrom,
        Opening::DupTo,
        Opening::Any,
        Opening::Reserve,
    ],
    closings: &[
        Closing::Close,
        Closing::Close,
        Closing::Take,
        Closing::Range,
    ],
    asides: &[
        Aside::Pause,
        Aside::Pause,
        Aside::Get,
        Aside::Fork,
        Aside::SetLimit,
    ],
    ..PLAIN
};

/// Two descriptors of one moment.
const PAIRS: Habits = Habits {
    openings: &[Opening::Open, Opening::Open, Opening::Pair],
    ..PLAIN
};

/// A few descriptors of one moment, and now and then many.
const MANY: Habits = Habits {
    openings: &[Opening::Open, Opening::Open, Opening::Many],
    ..PLAIN
};

/// How long a test judges.
#[derive(Clone, Copy)]
enum Length {
    Rounds(usize),
    Until(Instant),
}

impl Length {
    /// That many rounds, or as many seconds as are requested.
    fn rounds(rounds: usize) -> Self {
        match std::env::var("FDTABLE_STRESS_SECONDS") {
            Err(_) => Self::Rounds(rounds),
            Ok(seconds) => {
                let seconds = seconds.parse().expect("a number of seconds");
                Self::Until(Instant::now() + Duration::from_secs(seconds))
            }
        }
    }

    fn is_over(self, done: usize) -> bool {
        match self {
            Self::Rounds(rounds) => done >= rounds,
            Self::Until(deadline) => Instant::now() >= deadline,
        }
    }
}

/// A table of that many open descriptors, and the leaves in which they are closed.
type Place = (Number, &'static [Number]);

/// Leaves below, at and above the borders of nodes: one has 512 leaves.
const TWO_LEAVES: &[Place] = &[
    (128, &[0, 1]),
    (256, &[0, 3]),
    (256, &[1, 2]),
    (5000, &[2, 70]),
    (40_000, &[1, 513]),
    (40_000, &[511, 512]),
    (1_000_000, &[300, 15_000]),
];

const MANY_LEAVES: &[Place] = &[
    (256, &[0, 1, 2, 3]),
    (4096, &[0, 1, 7, 8, 9, 62, 63]),
    (40_000, &[0, 1, 63, 64, 510, 511, 512, 513, 600]),
    (
        1_000_000,
        &[0, 2, 511, 512, 1023, 1024, 8000, 15_000, 15_623],
    ),
];

/// One leaf that is full but for the closed descriptors, below one that has room.
const ONE_LEAF: &[Place] = &[(96, &[0]), (256 + 32, &[2]), (40_000 + 32, &[512])];

/// The parameters of each round of a test.
struct Plan {
    places: &'static [Place],
    habits: Habits,
    crowd: Crowd,
    /// How many descriptors are free above, in some of the rounds.
    room: &'static [Number],
}

/// The threads of a round.
#[derive(Clone, Copy)]
enum Crowd {
    /// Two and more that close and open, more than most machines have CPUs.
    Changers,
    /// One or two of these beside some that look for the descriptors that they close. The latter
    /// are not held up when one of the former is preempted while it closes a descriptor.
    Watched,
}

impl Crowd {
    fn threads(self, rng: &mut Rng) -> (usize, usize) {
        match self {
            Self::Changers => (rng.usize(2..13), 0),
            Self::Watched => (rng.usize(1..3), rng.usize(2..5)),
        }
    }

    /// How often each thread closes some descriptors and opens others.
    fn turns(self) -> usize {
        match self {
            Self::Changers => 400,
            // They are few, and each turn is short.
            Self::Watched => 4000,
        }
    }
}

/// Judges rounds until the length is over, or `enough` violations are found.
fn judge(plan: &Plan, length: Length, enough: u64) -> Verdict {
    let (mut rng, mut verdict, mut rounds) = (Rng::with_seed(1), Verdict::default(), 0);
    while !length.is_over(rounds) && verdict.violations < enough {
        let (open, leaves) = plan.places[rounds % plan.places.len()];
        let (threads, watchers) = plan.crowd.threads(&mut rng);
        let scene = Scene {
            template: Template::of(open),
            limit: open + plan.room[rng.usize(..plan.room.len())],
            leaves: leaves.to_vec(),
            habits: plan.habits,
            threads,
            watchers,
            pause: if rng.bool() { Pause::Yield } else { Pause::Nap },
            turns: plan.crowd.turns(),
        };
        verdict.add(scene.judge(&mut rng));
        rounds += 1;
    }
    let Verdict {
        judged, violations, ..
    } = verdict;
    println!("{violations} violations in {judged} calls of {rounds} rounds");
    verdict
}

#[track_caller]
fn expect_none(plan: &Plan, rounds: usize) {
    let verdict = judge(plan, Length::rounds(rounds), u64::MAX);
    let examples = verdict.examples.join("\n");
    assert_eq!(
        verdict.violations, 0,
        "in {} calls:\n{examples}",
        verdict.judged
    );
}

const FAR: Number = 1 << 20;

#[test]
fn an_open_beside_closes_in_two_leaves_takes_the_lowest_number() {
    let plan = Plan {
        places: TWO_LEAVES,
        habits: PLAIN,
        crowd: Crowd::Changers,
        room: &[FAR],
    };
    expect_none(&plan, 14);
}

#[test]
fn an_open_beside_closes_in_many_leaves_takes_the_lowest_number() {
    let plan = Plan {
        places: MANY_LEAVES,
        habits: PLAIN,
        crowd: Crowd::Changers,
        room: &[FAR],
    };
    expect_none(&plan, 8);
}

#[test]
fn an_open_takes_the_lowest_number_that_was_found_closed() {
    let habits = Habits {
        asides: &[],
        closes: 1,
        ..PLAIN
    };
    let plan = Plan {
        places: ONE_LEAF,
        habits,
        crowd: Crowd::Watched,
        room: &[FAR],
    };
    expect_none(&plan, 8);
}

#[test]
fn no_open_is_refused_while_a_number_is_free() {
    let habits = Habits { more: 2, ..PLAIN };
    let plan = Plan {
        places: MANY_LEAVES,
        habits,
        crowd: Crowd::Changers,
        room: &[0, 1, 2, 5],
    };
    expect_none(&plan, 8);
}

#[test]
fn every_call_for_the_lowest_number_takes_it_beside_all_others() {
    let plan = Plan {
        places: MANY_LEAVES,
        habits: MIXED,
        crowd: Crowd::Changers,
        room: &[FAR, 100],
    };
    expect_none(&plan, 8);
    let habits = Habits { more: 2, ..MIXED };
    let plan = Plan {
        places: TWO_LEAVES,
        habits,
        crowd: Crowd::Changers,
        room: &[45],
    };
    expect_none(&plan, 8);
}

#[test]
fn a_pair_takes_the_two_lowest_numbers_of_one_moment() {
    let plan = Plan {
        places: MANY_LEAVES,
        habits: PAIRS,
        crowd: Crowd::Changers,
        room: &[FAR],
    };
    expect_none(&plan, 8);
}

#[test]
fn a_reservation_of_many_takes_the_lowest_numbers_of_one_moment() {
    let plan = Plan {
        places: MANY_LEAVES,
        habits: MANY,
        crowd: Crowd::Changers,
        room: &[FAR],
    };
    expect_none(&plan, 8);
}

#[test]
fn several_numbers_are_refused_only_if_there_are_not_so_many() {
    for habits in [PAIRS, MANY] {
        let plan = Plan {
            places: TWO_LEAVES,
            habits: Habits { more: 3, ..habits },
            crowd: Crowd::Changers,
            room: &[0, 1, 2, 5],
        };
        expect_none(&plan, 14);
    }
}

/// Takes the second-lowest descriptor now and then.
fn open_second_lowest(files: &Files<File>, file: FileRef<File>) -> Result<Fd, Error> {
    let lowest = files.reserve(NONE)?;
    match files.reserve(NONE) {
        Ok(second) if second.fd().raw() % 64 == 63 => Ok(second.install(file)),
        _ => Ok(lowest.install(file)),
    }
}

/// Fails with EMFILE at the last descriptor below the limit.
fn open_too_few(files: &Files<File>, file: FileRef<File>) -> Result<Fd, Error> {
    let lowest = files.reserve(NONE)?;
    if lowest.fd().index() + 1 == files.limit() as usize {
        return Err(Error::TooManyFiles);
    }
    Ok(lowest.install(file))
}

#[test]
fn a_table_that_does_not_give_the_lowest_number_is_caught() {
    let plan = |open| Plan {
        places: MANY_LEAVES,
        habits: Habits {
            open,
            more: 1,
            ..PLAIN
        },
        crowd: Crowd::Changers,
        room: &[2],
    };
    for open in [open_second_lowest, open_too_few] {
        let verdict = judge(&plan(open), Length::Rounds(100), 1);
        assert!(verdict.violations > 0, "in {} calls", verdict.judged);
    }
}
