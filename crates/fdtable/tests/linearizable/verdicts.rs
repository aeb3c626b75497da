//! Histories with a known verdict.

use fastrand::Rng;
use fdtable::{Error, RawFd};

use crate::search::{Event, History, check};
use crate::specification::{File, Operation, State};

/// A file that is not there from the beginning.
const NEW: File = 7;
const COMMON: File = State::COMMON;
const ROOM: RawFd = 1 << 20;

fn at(began: u64, ended: u64, operation: Operation) -> Event {
    Event {
        operation,
        began,
        ended,
    }
}

fn close(number: RawFd) -> Operation {
    Operation::Close(number, Ok(()))
}

fn open(number: RawFd) -> Operation {
    Operation::Open(NEW, Ok(number))
}

fn dup3(old: RawFd, new: RawFd) -> Operation {
    Operation::DupTo(old, new, Ok(new))
}

#[track_caller]
fn legal(start: &State, history: &History) {
    check(start, history).expect("there is an order");
}

#[track_caller]
fn illegal(start: &State, history: &History) {
    check(start, history).expect_err("there is no order");
}

/// A state with that many open descriptors, and room.
fn taken(count: RawFd) -> State {
    State::new(ROOM, count, &[])
}

#[test]
fn what_one_thread_does_alone_has_one_order() {
    let start = taken(0);
    legal(
        &start,
        &vec![vec![
            at(0, 1, open(0)),
            at(2, 3, open(1)),
            at(4, 5, close(0)),
        ]],
    );
    illegal(&start, &vec![vec![at(0, 1, open(1))]]);
    illegal(&start, &vec![vec![at(0, 1, open(0)), at(2, 3, open(0))]]);
    illegal(&start, &vec![vec![at(0, 1, close(0)), at(2, 3, open(0))]]);
}

#[test]
fn what_overlaps_may_come_in_any_order() {
    let (first, second) = (at(0, 3, open(1)), at(1, 2, open(0)));
    legal(&taken(0), &vec![vec![first], vec![second]]);
    let (before, after) = (at(0, 1, open(1)), at(2, 3, open(0)));
    illegal(&taken(0), &vec![vec![before], vec![after]]);
}

/// The scan looks at 5 before it is closed, and at 9 after.
#[test]
fn a_scan_may_not_pass_a_number_that_is_freed_behind_it_and_find_a_later_one() {
    let closer = vec![at(1, 2, close(5)), at(3, 4, close(9))];
    let found = |number| vec![closer.clone(), vec![at(0, 5, open(number))]];
    illegal(&taken(130), &found(9));
    legal(&taken(130), &found(5));
    legal(&taken(130), &found(130));
    // In the other order there is a moment at which 9 is the lowest.
    let closer = vec![at(1, 2, close(9)), at(3, 4, close(5))];
    legal(&taken(130), &vec![closer, vec![at(0, 5, open(9))]]);
}

/// The scan looks at 5 before it is closed, and at 100 after it is taken.
#[test]
fn a_scan_may_not_miss_one_number_before_it_is_free_and_another_after_it_is_taken() {
    let start = State::new(ROOM, 130, &[100]);
    let writer = vec![at(1, 2, close(5)), at(3, 4, dup3(0, 100))];
    let found = |number| vec![writer.clone(), vec![at(0, 5, open(number))]];
    illegal(&start, &found(130));
    legal(&start, &found(100));
    legal(&start, &found(5));
}

/// As above, where there is no room past the two.
#[test]
fn emfile_needs_a_moment_at_which_all_is_taken() {
    let start = State::new(130, 130, &[100]);
    let full = Operation::Open(NEW, Err(Error::TooManyFiles));
    let writer = vec![at(1, 2, close(5)), at(3, 4, dup3(0, 100))];
    illegal(&start, &vec![writer, vec![at(0, 5, full.clone())]]);
    let writer = vec![at(1, 2, dup3(0, 100)), at(3, 4, close(5))];
    legal(&start, &vec![writer, vec![at(0, 5, full)]]);
}

/// Descriptors 5, 70 and 200 are free; a pair gets the first and the last, and an open that
/// overlaps it the one between.
#[test]
fn a_pair_has_one_moment() {
    let start = State::new(ROOM, 300, &[5, 70, 200]);
    let pair = |numbers| Operation::OpenPair([NEW, NEW], Ok(numbers));
    let beside = |numbers| vec![vec![at(0, 3, pair(numbers))], vec![at(1, 2, open(70))]];
    illegal(&start, &beside([5, 200]));
    let start = State::new(ROOM, 300, &[70, 5, 6]);
    legal(&start, &beside([5, 6]));
    // Two opens in a row may get them.
    let two = vec![at(0, 1, open(5)), at(4, 5, open(200))];
    let start = State::new(ROOM, 300, &[5, 70, 200]);
    legal(&start, &vec![two, vec![at(2, 3, open(70))]]);
}

#[test]
fn a_pair_has_the_two_lowest_or_fails_where_one_is_free() {
    let pair = |answer| vec![vec![at(0, 1, Operation::OpenPair([NEW, NEW], answer))]];
    let start = State::new(300, 300, &[5, 70, 200]);
    legal(&start, &pair(Ok([5, 70])));
    illegal(&start, &pair(Ok([5, 200])));
    illegal(&start, &pair(Ok([70, 5])));
    illegal(&start, &pair(Err(Error::TooManyFiles)));
    legal(&State::new(300, 300, &[5]), &pair(Err(Error::TooManyFiles)));
}

/// Four do not fit, and an open that overlaps the call may not see the three lower ones taken.
#[test]
fn many_that_fail_leave_no_trace() {
    let start = State::new(300, 300, &[5, 70, 200]);
    let many = |answer| Operation::ReserveMany(4, answer);
    let fails = |opened| {
        let refused = many(Err(Error::TooManyFiles));
        vec![vec![at(0, 3, refused)], vec![at(1, 2, open(opened))]]
    };
    illegal(&start, &fails(200));
    legal(&start, &fails(5));
    let four = vec![vec![at(0, 1, many(Ok(vec![5, 70, 200, 250])))]];
    legal(&State::new(300, 300, &[5, 70, 200, 250]), &four);
    illegal(&State::new(300, 300, &[5, 70, 200, 210, 250]), &four);
}

#[test]
fn a_minimum_is_searched_from_there() {
    let from = |number| vec![vec![at(0, 1, Operation::DupFrom(0, 63, Ok(number)))]];
    let start = State::new(ROOM, 130, &[5, 70]);
    legal(&start, &from(70));
    illegal(&start, &from(5));
    illegal(&start, &from(130));
    let all = Operation::DupFrom(0, 64, Err(Error::TooManyFiles));
    legal(
        &State::new(130, 130, &[5]),
        &vec![vec![at(0, 1, all.clone())]],
    );
    illegal(&State::new(130, 130, &[70]), &vec![vec![at(0, 1, all)]]);
    let past = Operation::ReserveFrom(130, Err(Error::InvalidArgument));
    legal(
        &State::new(130, 130, &[]),
        &vec![vec![at(0, 1, past.clone())]],
    );
    illegal(&State::new(131, 130, &[]), &vec![vec![at(0, 1, past)]]);
}

/// Between its two moments, the descriptor of an open is taken, and not open.
#[test]
fn an_open_reserves_before_it_installs() {
    let between = |operation| {
        vec![
            vec![at(0, 5, open(3))],
            vec![at(1, 2, open(4)), at(3, 4, operation)],
        ]
    };
    legal(&taken(3), &between(Operation::Close(3, Err(Error::BadFd))));
    legal(
        &taken(3),
        &between(Operation::DupTo(0, 3, Err(Error::Busy))),
    );
    legal(&taken(3), &between(close(3)));
    let after = |operation| vec![vec![at(0, 1, open(3))], vec![at(2, 3, operation)]];
    illegal(&taken(3), &after(Operation::Close(3, Err(Error::BadFd))));
    illegal(&taken(3), &after(Operation::DupTo(0, 3, Err(Error::Busy))));
}

#[test]
fn a_reservation_is_nobodys() {
    let held = |operation| {
        let holder = vec![
            at(0, 1, Operation::Reserve(Ok(3))),
            at(8, 9, Operation::Install(3, NEW)),
        ];
        vec![holder, vec![at(2, 3, operation)]]
    };
    let start = taken(3);
    legal(&start, &held(Operation::DupTo(0, 3, Err(Error::Busy))));
    legal(&start, &held(Operation::Take(3, Err(Error::BadFd))));
    illegal(&start, &held(dup3(0, 3)));
    illegal(&start, &held(close(3)));
    illegal(&start, &held(open(3)));
    let canceled = vec![
        at(0, 1, Operation::Reserve(Ok(3))),
        at(2, 3, Operation::Cancel(3)),
    ];
    legal(&start, &vec![canceled.clone(), vec![at(4, 5, open(3))]]);
    illegal(&start, &vec![canceled, vec![at(4, 5, open(4))]]);
}

#[test]
fn one_of_two_closes_closes() {
    let both = |other| vec![vec![at(0, 2, close(1))], vec![at(1, 3, other)]];
    legal(&taken(3), &both(Operation::Close(1, Err(Error::BadFd))));
    illegal(&taken(3), &both(close(1)));
}

#[test]
fn files_stay_behind_their_numbers() {
    let history = |file| {
        let writer = vec![at(0, 1, open(3)), at(2, 5, dup3(3, 1))];
        vec![writer, vec![at(3, 4, Operation::Get(1, Ok(file)))]]
    };
    legal(&taken(3), &history(NEW));
    legal(&taken(3), &history(COMMON));
    illegal(&taken(3), &history(8));
    let closed_between = Operation::Get(1, Err(Error::BadFd));
    let writer = vec![at(0, 3, dup3(0, 1))];
    illegal(&taken(3), &vec![writer, vec![at(1, 2, closed_between)]]);
    let copied = vec![at(0, 1, open(3)), at(2, 3, Operation::Dup(3, Ok(4)))];
    let taken_out = |file| vec![at(4, 5, Operation::Take(4, Ok(file)))];
    legal(&taken(3), &vec![copied.clone(), taken_out(NEW)]);
    illegal(&taken(3), &vec![copied, taken_out(COMMON)]);
}

#[test]
fn a_fork_is_a_copy_of_one_moment() {
    let history = |copy: &[RawFd]| {
        let copy = copy.iter().map(|&number| (number, COMMON)).collect();
        let closer = vec![at(1, 2, close(0)), at(3, 4, close(2))];
        vec![closer, vec![at(0, 5, Operation::Fork(copy))]]
    };
    legal(&taken(3), &history(&[0, 1, 2]));
    legal(&taken(3), &history(&[1, 2]));
    legal(&taken(3), &history(&[1]));
    illegal(&taken(3), &history(&[0, 1]));
}

#[test]
fn no_errno_is_legal_where_it_has_no_reason() {
    let answers = [
        Operation::Open(NEW, Err(Error::BadFd)),
        Operation::Open(NEW, Err(Error::NoMemory)),
        Operation::Reserve(Err(Error::InvalidArgument)),
        Operation::Close(0, Err(Error::Busy)),
        Operation::DupTo(0, 1, Ok(2)),
        Operation::DupTo(0, 1, Err(Error::InvalidArgument)),
        Operation::DupTo(0, 1, Err(Error::BadFd)),
    ];
    for answer in answers {
        illegal(&taken(3), &vec![vec![at(0, 1, answer)]]);
    }
    let equal = Operation::DupTo(1, 1, Err(Error::InvalidArgument));
    legal(&taken(3), &vec![vec![at(0, 1, equal)]]);
    let past = Operation::DupTo(0, ROOM, Err(Error::BadFd));
    legal(&taken(3), &vec![vec![at(0, 1, past)]]);
}

/// Random answers, most of them wrong: the search agrees with trying every order there is.
#[test]
fn the_search_finds_an_order_exactly_if_there_is_one() {
    let mut rng = Rng::with_seed(1);
    let mut verdicts = [0; 2];
    for _ in 0..2000 {
        let start = State::new(5, 3, &[rng.i32(0..3)]);
        let history = anything(&mut rng);
        let expected = some_order_is_legal(&start, &history);
        let found = check(&start, &history).is_ok();
        assert_eq!(found, expected, "{start:?}, {history:?}");
        verdicts[usize::from(found)] += 1;
    }
    assert!(verdicts.iter().all(|&count| count > 100), "{verdicts:?}");
}

/// Two or three threads with one operation or two.
fn anything(rng: &mut Rng) -> History {
    let threads = rng.usize(2..4);
    let mut ticks: Vec<Vec<u64>> = vec![Vec::new(); threads];
    for tick in 0..6 {
        ticks[rng.usize(..threads)].push(tick);
    }
    let event = |pair: &[u64], rng: &mut Rng| at(pair[0], pair[1], any_operation(rng));
    let events = |ticks: &Vec<u64>| ticks.chunks_exact(2).map(|pair| event(pair, rng)).collect();
    ticks.iter().map(events).collect()
}

fn any_operation(rng: &mut Rng) -> Operation {
    let (a, b) = (rng.i32(0..4), rng.i32(0..4));
    match rng.u8(0..12) {
        0..4 => Operation::Open(NEW, Ok(rng.i32(1..5))),
        4..8 => close(a),
        8 => Operation::Close(a, Err(Error::BadFd)),
        9 => Operation::Dup(b, Ok(a)),
        10 => Operation::Open(NEW, Err(Error::TooManyFiles)),
        _ => dup3(a, b),
    }
}

/// Tries every order of all moments, and checks real time only when the order is complete.
fn some_order_is_legal(start: &State, history: &History) -> bool {
    let mut moments = Vec::new();
    for (thread, event) in history
        .iter()
        .enumerate()
        .flat_map(|(t, e)| e.iter().map(move |e| (t, e)))
    {
        let steps = event.operation.steps().into_iter();
        moments.extend(steps.map(|steps| (thread, event, steps)));
    }
    let mut order: Vec<usize> = (0..moments.len()).collect();
    any_permutation(&mut order, 0, &mut |order| {
        let in_time = order.iter().enumerate().all(|(place, &later)| {
            order[..place].iter().all(|&earlier| {
                let (e, l) = (&moments[earlier], &moments[later]);
                // Calls of one thread are in the list in their order.
                e.1.began <= l.1.ended && (e.0 != l.0 || earlier < later)
            })
        });
        let (mut state, mut found) = (start.clone(), vec![None; history.len()]);
        in_time
            && order.iter().all(|&moment| {
                let (thread, _, steps) = &moments[moment];
                steps
                    .iter()
                    .all(|step| state.make(step, &mut found[*thread]))
            })
    })
}

fn any_permutation(
    order: &mut [usize],
    from: usize,
    fits: &mut dyn FnMut(&[usize]) -> bool,
) -> bool {
    if from == order.len() {
        return fits(order);
    }
    (from..order.len()).any(|other| {
        order.swap(from, other);
        let found = any_permutation(order, from + 1, fits);
        order.swap(from, other);
        found
    })
}

fn get(number: RawFd, found: Result<File, Error>) -> Operation {
    Operation::Get(number, found)
}

fn rename(from: RawFd, to: RawFd, before: Option<File>) -> Operation {
    Operation::Rename(from, to, Ok(before))
}

#[test]
fn a_rename_is_seen_at_both_numbers_and_never_at_neither() {
    let start = State::new(ROOM, 2, &[1]);
    let other = |seen: [Operation; 2]| {
        let [one, two] = seen;
        vec![
            vec![at(0, 9, rename(0, 1, None))],
            vec![at(1, 2, one), at(3, 4, two)],
        ]
    };
    let (found, not) = (Ok(COMMON), Err(Error::BadFd));
    legal(&start, &other([get(1, found), get(0, found)]));
    legal(&start, &other([get(0, found), get(1, found)]));
    legal(&start, &other([get(0, not), get(1, found)]));
    // Two lookups are two moments.
    legal(&start, &other([get(1, not), get(0, not)]));
    illegal(&start, &other([get(0, not), get(1, not)]));
    illegal(&start, &other([get(0, not), get(0, found)]));
    illegal(&start, &other([get(1, found), get(1, not)]));
    illegal(&start, &other([get(0, Ok(NEW)), get(1, found)]));
}

#[test]
fn only_lookups_see_a_rename_under_way() {
    let start = State::new(ROOM, 2, &[1]);
    let beside = |seen: Vec<Operation>| {
        let at = |(when, operation): (u64, _)| at(2 * when + 1, 2 * when + 2, operation);
        vec![
            vec![self::at(0, 20, rename(0, 1, None))],
            (0..).zip(seen).map(at).collect(),
        ]
    };
    let both = vec![(0, COMMON), (1, COMMON)];
    illegal(&start, &beside(vec![Operation::Fork(both)]));
    legal(&start, &beside(vec![Operation::Fork(vec![(0, COMMON)])]));
    legal(&start, &beside(vec![Operation::Fork(vec![(1, COMMON)])]));
    // After it is closed there, it is not open where it was.
    let found = get(0, Ok(COMMON));
    illegal(&start, &beside(vec![close(1), found.clone()]));
    illegal(&start, &beside(vec![close(0), found.clone()]));
    legal(&start, &beside(vec![close(1), get(0, Err(Error::BadFd))]));
    // Its old number is free at the end alone.
    legal(&start, &beside(vec![open(0), get(1, Ok(COMMON))]));
    illegal(&start, &beside(vec![open(0), found]));
}

#[test]
fn what_was_displaced_was_there() {
    let start = State::new(ROOM, 2, &[]);
    let alone = |operation| vec![vec![at(0, 1, operation)]];
    legal(&start, &alone(rename(0, 1, Some(COMMON))));
    illegal(&start, &alone(rename(0, 1, None)));
    illegal(&start, &alone(rename(0, 2, Some(COMMON))));
    legal(&start, &alone(rename(0, 0, None)));
    legal(&start, &alone(Operation::Replace(1, NEW, Ok(Some(COMMON)))));
    illegal(&start, &alone(Operation::Replace(1, NEW, Ok(None))));
    legal(&start, &alone(Operation::OpenAt(2, NEW, Ok(()))));
    illegal(&start, &alone(Operation::OpenAt(1, NEW, Ok(()))));
    legal(
        &start,
        &alone(Operation::OpenAt(1, NEW, Err(Error::Exists))),
    );
    illegal(
        &start,
        &alone(Operation::OpenAt(2, NEW, Err(Error::Exists))),
    );
    illegal(&start, &alone(Operation::OpenAt(2, NEW, Err(Error::Busy))));
    legal(
        &start,
        &alone(Operation::OpenAt(ROOM, NEW, Err(Error::BadFd))),
    );
    legal(&start, &alone(Operation::CloseIf(1, COMMON, Ok(()))));
    illegal(&start, &alone(Operation::CloseIf(1, NEW, Ok(()))));
    legal(
        &start,
        &alone(Operation::CloseIf(1, NEW, Err(Error::Stale))),
    );
    illegal(
        &start,
        &alone(Operation::CloseIf(2, NEW, Err(Error::Stale))),
    );
    legal(&start, &alone(Operation::ReplaceIf(1, COMMON, NEW, Ok(()))));
    illegal(&start, &alone(Operation::ReplaceIf(2, COMMON, NEW, Ok(()))));
    illegal(
        &start,
        &alone(Operation::ReplaceIf(1, COMMON, NEW, Err(Error::Stale))),
    );
}

#[test]
fn what_is_in_quarantine_is_neither_free_nor_reserved() {
    let start = State::new(4, 3, &[]);
    let alone = |operations: Vec<Operation>| {
        let quarantine = vec![Operation::SetQuarantine(2), close(1)];
        let events = (0..).step_by(2).zip([quarantine, operations].concat());
        let history = events.map(|(began, operation)| at(began, began + 1, operation));
        check(&start, &vec![history.collect()])
    };
    let full = || Operation::Open(NEW, Err(Error::TooManyFiles));
    let pair = |numbers| Operation::OpenPair([NEW, NEW], Ok(numbers));
    let busy = Operation::DupTo(0, 1, Err(Error::Busy));
    let off = || Operation::SetQuarantine(0);
    // The lowest one is not it, and the table is not full while it waits.
    alone(vec![open(3), open(1), full()]).expect("no other is left");
    alone(vec![open(1)]).expect_err("3 is free");
    alone(vec![open(3), full()]).expect_err("1 waits");
    alone(vec![pair([1, 3])]).expect("no other is left");
    alone(vec![dup3(0, 1)]).expect("it may be the target");
    alone(vec![busy]).expect_err("it is not reserved");
    // It waits for two opens, or for the end.
    alone(vec![open(3), close(3), open(1), open(3)]).expect("the oldest");
    alone(vec![open(3), close(3), open(3)]).expect_err("1 is older");
    alone(vec![off(), open(1)]).expect("it is over");
    alone(vec![off(), open(3)]).expect_err("1 is free");
    let copy = vec![(0, COMMON), (2, COMMON)];
    alone(vec![Operation::Fork(copy)]).expect("a child has none");
}
