//! Quarantine: a closed descriptor waits for a number of opens before an open returns it again.

use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Waker};

use fdtable::{Error, FdFlags, FileRef, Files, RawFd};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm};

use crate::rounds::rounds;

const NONE: FdFlags = FdFlags::empty();

fn open(files: &Files<u32>) -> Result<RawFd, Error> {
    files.open(FileRef::new(0), NONE).map(RawFd::from)
}

/// A table with the mode on and that many descriptors.
fn with(opens: u32, limit: u32, count: RawFd) -> Files<u32> {
    let files = Files::with_limit(limit);
    files.set_quarantine(opens).expect("there is memory");
    for fd in 0..count {
        assert_eq!(open(&files), Ok(fd));
    }
    files
}

#[test]
fn it_is_off_at_first_and_is_set_anew_at_any_time() {
    let files = Files::with_limit(1024);
    assert_eq!(open(&files), Ok(0));
    drop(files.close(0).expect("it is open"));
    assert_eq!(open(&files), Ok(0), "it is off");
    for opens in [1, 7, 3, 0, 0, 2] {
        files.set_quarantine(opens).expect("there is memory");
        drop(files.close(0).expect("it is open"));
        for _ in 0..opens {
            assert_ne!(open(&files), Ok(0), "it waits for {opens} opens");
        }
        assert_eq!(open(&files), Ok(0));
    }
}

#[test]
fn a_number_waits_for_exactly_so_many_opens() {
    for opens in [1, 2, 63, 64, 65, 200] {
        let files = with(opens, 1024, 3);
        drop(files.close(1).expect("it is open"));
        for next in 3..3 + opens.cast_signed() {
            assert_eq!(open(&files), Ok(next), "1 waits for {opens} opens");
        }
        assert_eq!(open(&files), Ok(1));
    }
}

#[test]
fn at_most_1024_numbers_wait_and_the_oldest_goes_for_the_next() {
    const WAITING: RawFd = 1024;
    let files = with(u32::MAX, 4096, 2000);
    // From above, so that the oldest are not the lowest.
    for fd in (0..WAITING + 3).rev() {
        drop(files.close(fd).expect("it is open"));
    }
    let freed = [1024, 1025, 1026];
    assert_eq!(freed.map(|_| open(&files)), freed.map(Ok));
    assert_eq!(open(&files), Ok(2000));
    // Close-range fills it in one step.
    files
        .close_range(1100, 1199, drop)
        .expect("there is memory");
    let freed: Vec<_> = (924..1024).map(Ok).collect();
    let opened: Vec<_> = freed.iter().map(|_| open(&files)).collect();
    assert_eq!(opened, freed);
}

#[test]
fn many_at_once_free_no_more_numbers_than_they_need_and_none_if_they_fail() {
    let files = with(1000, 300, 300);
    for fd in [7, 100, 200, 250] {
        drop(files.close(fd).expect("it is open"));
    }
    let refused = files.reserve_many(5, NONE).map(drop);
    assert_eq!(refused, Err(Error::TooManyFiles));
    let three = files.reserve_many(3, NONE).expect("four can be freed");
    let numbers: Vec<_> = three.fds().iter().map(|fd| fd.raw()).collect();
    assert_eq!(numbers, [7, 100, 200], "the ones that have waited longest");
    assert_eq!(files.dup3(0, 250, NONE).map(drop), Ok(()));
}

#[test]
fn a_pair_is_in_ascending_order_though_the_lower_number_comes_from_quarantine() {
    let files = with(1000, 128, 128);
    drop(files.close(70).expect("it is open"));
    let kept = files.open_any(FileRef::new(0), NONE);
    assert_eq!(kept.map(RawFd::from), Ok(70), "nothing else is free");
    files.set_quarantine(0).expect("there is memory");
    drop(files.close(100).expect("it is open"));
    files.set_quarantine(1000).expect("there is memory");
    drop(files.close(70).expect("it is open"));
    let pair = (FileRef::new(1), FileRef::new(2));
    let (one, two) = files
        .open_pair(pair, NONE)
        .expect("one is free, and one can be");
    assert_eq!((one.raw(), two.raw()), (70, 100));
    assert_eq!((*files.get(70).unwrap(), *files.get(100).unwrap()), (1, 2));
}

#[test]
fn every_kind_of_open_counts() {
    let files = with(4, 1024, 3);
    drop(files.close(1).expect("it is open"));
    files.dup(0).expect("there is room");
    files.dup_min(0, 10, NONE).expect("there is room");
    files
        .open_any(FileRef::new(0), NONE)
        .expect("there is room");
    drop(files.reserve(NONE).expect("there is room"));
    assert_eq!(open(&files), Ok(1));
}

#[test]
fn a_second_close_answers_ebadf() {
    let files = with(2, 1024, 3);
    drop(files.close(1).expect("it is open"));
    for _ in 0..2 {
        open(&files).expect("there is room");
        assert_eq!(files.close(1).map(drop), Err(Error::BadFd));
    }
    assert!(files.get(1).is_err() && files.fd_flags(1).is_err());
}

#[test]
fn numbers_in_quarantine_count_as_taken() {
    let files = with(5, 1024, 3);
    drop(files.close(1).expect("it is open"));
    assert_eq!(files.open_count(), 3);
}

#[test]
fn no_open_fails_while_a_number_is_in_quarantine_and_the_oldest_comes_first() {
    for limit in [4, 64, 130] {
        let files = with(u32::MAX, limit, limit.cast_signed());
        assert_eq!(open(&files), Err(Error::TooManyFiles));
        let order: Vec<RawFd> = (0..limit.cast_signed()).rev().step_by(3).collect();
        for &fd in &order {
            drop(files.close(fd).expect("it is open"));
        }
        for &fd in &order {
            assert_eq!(open(&files), Ok(fd), "the one that has waited longest");
        }
        assert_eq!(open(&files), Err(Error::TooManyFiles));
    }
}

#[test]
fn dup3_gets_a_descriptor_in_quarantine() {
    let files = with(5, 1024, 70);
    drop(files.close(1).expect("it is open"));
    drop(files.close(65).expect("it is open"));
    assert_eq!(files.dup3(0, 1, NONE).map(drop), Ok(()));
    assert_eq!(files.dup2(0, 65).map(drop), Ok(()));
    assert_eq!(files.close(1).map(drop), Ok(()));
    // It waits anew, and the opens before do not count.
    for next in 70..75 {
        assert_eq!(open(&files), Ok(next));
    }
    assert_eq!(open(&files), Ok(1));
}

#[test]
fn close_range_and_exec_go_through_quarantine() {
    let ends: [fn(&Files<u32>); 3] = [
        |files| files.close_range(10, 199, drop).expect("in order"),
        |files| files.close_range(10, u32::MAX, drop).expect("in order"),
        |files| {
            files.set_cloexec_range(10, u32::MAX).expect("in order");
            files.close_on_exec(drop).expect("there is memory");
        },
    ];
    for end in ends {
        let files = with(3, 1024, 200);
        end(&files);
        assert_eq!(files.open_count(), 200, "they count as taken");
        for fd in [10, 64, 199] {
            assert_eq!(files.close(fd).map(drop), Err(Error::BadFd));
        }
        for next in 200..203 {
            assert_eq!(open(&files), Ok(next));
        }
        assert_eq!(open(&files), Ok(10));
    }
}

#[test]
fn a_child_inherits_the_mode_and_none_of_the_numbers() {
    let parent = with(2, 1024, 200);
    for fd in [1, 100] {
        drop(parent.close(fd).expect("it is open"));
    }
    let child = parent.fork().expect("there is memory");
    assert_eq!(child.open_count(), 198);
    assert_eq!(open(&child), Ok(1));
    assert_eq!(open(&child), Ok(100));
    drop(child.close(0).expect("it is open"));
    assert_eq!(open(&child), Ok(200), "the mode is on");
    assert_eq!(open(&child), Ok(201));
    assert_eq!(open(&child), Ok(0), "after two opens");
    assert_eq!(open(&parent), Ok(200), "the parent's own still wait");
    child.set_quarantine(0).expect("there is memory");
    assert_eq!(open(&parent), Ok(201), "the parent's mode stays");
    assert_eq!(open(&parent), Ok(1));
}

#[test]
fn the_end_of_the_mode_frees_all_numbers() {
    let files = with(100, 1024, 200);
    for fd in [150, 1, 64] {
        drop(files.close(fd).expect("it is open"));
    }
    files.set_quarantine(0).expect("there is memory");
    assert_eq!(files.open_count(), 197);
    for fd in [1, 64, 150, 200] {
        assert_eq!(open(&files), Ok(fd));
    }
    drop(files.close(1).expect("it is open"));
    assert_eq!(open(&files), Ok(1), "it is off");
}

#[test]
fn a_shorter_time_holds_for_numbers_that_wait_already() {
    let files = with(100, 1024, 10);
    drop(files.close(1).expect("it is open"));
    for _ in 0..5 {
        open(&files).expect("there is room");
    }
    drop(files.close(2).expect("it is open"));
    files.set_quarantine(5).expect("there is memory");
    assert_eq!(open(&files), Ok(1));
    files.set_quarantine(1).expect("there is memory");
    assert_eq!(open(&files), Ok(2));
}

#[test]
fn what_was_closed_before_the_mode_began_does_not_wait() {
    let files = with(0, 1024, 10);
    drop(files.close(1).expect("it is open"));
    files.set_quarantine(5).expect("there is memory");
    assert_eq!(open(&files), Ok(1));
}

#[test]
fn a_waiter_gets_a_descriptor_that_is_in_quarantine() {
    let files = with(5, 1, 1);
    let mut context = Context::from_waker(Waker::noop());
    assert!(files.poll_until_free(&mut context).is_pending());
    drop(files.close(0).expect("it is open"));
    assert!(
        files.poll_until_free(&mut context).is_ready(),
        "an open succeeds"
    );
    assert_eq!(open(&files), Ok(0));
}

#[test]
fn what_a_child_does_not_keep_is_free_in_it() {
    let parent = with(5, 1024, 3);
    let child = parent.fork_keeping(|fd, _, _| fd.raw() != 1);
    let child = child.expect("there is memory");
    assert_eq!(child.open_count(), 2);
    assert_eq!(open(&child), Ok(1));
}

#[test]
fn a_search_from_a_number_leaves_those_below_in_quarantine() {
    let files = with(100, 6, 6);
    drop(files.close(0).expect("it is open"));
    drop(files.close(5).expect("it is open"));
    assert_eq!(files.dup_min(1, 3, NONE).map(RawFd::from), Ok(5));
    assert_eq!(files.open_count(), 6, "0 still waits");
}

/// In [`beside_the_end`], all descriptors below it but 0 are in quarantine, the highest longest.
const WAITING: RawFd = 1000;

/// Runs `act` while another thread ends the mode.
fn beside_the_end(limit: u32, act: impl FnOnce(&Files<u32>)) {
    let files = with(u32::MAX, limit, WAITING);
    for fd in (1..WAITING).rev() {
        drop(files.close(fd).expect("it is open"));
    }
    std::thread::scope(|scope| {
        scope.spawn(|| files.set_quarantine(0).expect("there is memory"));
        act(&files);
    });
}

#[test]
fn the_mode_ends_at_one_moment_for_opens_beside_it() {
    let full = WAITING.unsigned_abs();
    for round in rounds(200) {
        let is_full = round % 2 == 0;
        beside_the_end(if is_full { full } else { 2 * full }, |files| {
            let (mut closed, mut above) = ((1..WAITING).collect::<VecDeque<_>>(), WAITING..);
            let mut ended = false;
            for _ in 1..WAITING {
                let fd = open(files);
                ended |= fd == Ok(closed[0]);
                let expected = match ended {
                    true => closed.pop_front(),
                    false if is_full => closed.pop_back(),
                    false => above.next(),
                };
                assert_eq!(fd.ok(), expected, "the mode has ended: {ended}");
            }
        });
    }
}

#[test]
fn no_descriptor_in_quarantine_is_busy_beside_the_end_of_the_mode() {
    for _ in rounds(100) {
        beside_the_end(4096, |files| {
            for fd in 1..WAITING {
                let file = FileRef::new(0);
                let done = match fd % 4 {
                    0 => files.dup2(0, fd).map(drop),
                    1 => files.replace(fd, file, NONE).map(drop),
                    2 => files.open_at(fd, file, NONE),
                    _ => files.rename(fd - 1, fd).map(drop),
                };
                assert_eq!(done, Ok(()), "{fd}");
            }
        });
    }
}

/// A table with the mode, in the plainest way.
#[derive(Default)]
struct Model {
    limit: RawFd,
    opens: u64,
    now: u64,
    open: BTreeMap<RawFd, bool>,
    waiting: VecDeque<(RawFd, u64)>,
}

impl Model {
    fn open(&mut self) -> Result<RawFd, Error> {
        self.end_due();
        let taken = |fd: &RawFd| self.open.contains_key(fd) || self.waits(*fd);
        let lowest = (0..self.limit).find(|fd| !taken(fd));
        let oldest = || self.waiting.front().map(|&(fd, _)| fd);
        let fd = lowest.or_else(oldest).ok_or(Error::TooManyFiles)?;
        self.waiting.retain(|&(waiting, _)| waiting != fd);
        self.now += 1;
        self.open.insert(fd, fd % 2 == 0);
        Ok(fd)
    }

    fn waits(&self, fd: RawFd) -> bool {
        self.waiting.iter().any(|&(waiting, _)| waiting == fd)
    }

    fn end_due(&mut self) {
        let (now, opens) = (self.now, self.opens);
        self.waiting.retain(|&(_, since)| now - since < opens);
    }

    fn close(&mut self, fd: RawFd) -> Result<(), Error> {
        self.open.remove(&fd).ok_or(Error::BadFd)?;
        if self.opens > 0 {
            self.waiting.push_back((fd, self.now));
        }
        Ok(())
    }

    fn close_all(&mut self, chosen: impl Fn(RawFd, bool) -> bool) {
        let open = self.open.clone();
        for (fd, _) in open
            .into_iter()
            .filter(|&(fd, cloexec)| chosen(fd, cloexec))
        {
            self.close(fd).expect("it is open");
        }
    }

    fn dup3(&mut self, old: RawFd, new: RawFd) -> Result<RawFd, Error> {
        if old == new {
            return Err(Error::InvalidArgument);
        }
        if !self.open.contains_key(&old) || new >= self.limit {
            return Err(Error::BadFd);
        }
        self.waiting.retain(|&(waiting, _)| waiting != new);
        self.open.insert(new, false);
        Ok(new)
    }

    fn set(&mut self, opens: u32) {
        self.end_due();
        self.opens = opens.into();
        self.end_due();
    }

    fn fork(&self) -> Self {
        Self {
            limit: self.limit,
            opens: self.opens,
            open: self.open.clone(),
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open(u8),
    Close(RawFd),
    DupTo(RawFd, RawFd),
    CloseRange(RawFd, RawFd),
    Exec,
    Set(u32),
    Fork,
}

fn step(limit: RawFd) -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (1..5_u8).prop_map(Step::Open),
        14 => (0..limit).prop_map(Step::Close),
        3 => (0..limit, 0..limit + 1).prop_map(|(old, new)| Step::DupTo(old, new)),
        1 => (0..limit, 0..20).prop_map(|(first, more)| Step::CloseRange(first, first + more)),
        1 => Just(Step::Exec),
        1 => prop_oneof![Just(0), 1..8_u32, Just(u32::MAX)].prop_map(Step::Set),
        1 => Just(Step::Fork),
    ]
}

fn history() -> impl Strategy<Value = (RawFd, Vec<Step>)> {
    let limit = prop_oneof![1..8, 60..140];
    limit.prop_flat_map(|limit: RawFd| (Just(limit), vec(step(limit), 1..200)))
}

fn replay(limit: RawFd, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut files: Files<u32> = Files::with_limit(limit.unsigned_abs());
    let mut model = Model {
        limit,
        ..Model::default()
    };
    for step in steps {
        match *step {
            Step::Open(count) => {
                for _ in 0..count {
                    let expected = model.open();
                    let cloexec = expected.is_ok_and(|fd| fd % 2 == 0);
                    let flags = if cloexec { FdFlags::CLOEXEC } else { NONE };
                    let fd = files.open(FileRef::new(0), flags).map(RawFd::from);
                    prop_assert_eq!(fd, expected);
                }
            }
            Step::Close(fd) => {
                prop_assert_eq!(files.close(fd).map(drop), model.close(fd).map(drop));
            }
            Step::DupTo(old, new) => {
                let answer = files.dup3(old, new, NONE).map(|_| new);
                prop_assert_eq!(answer, model.dup3(old, new));
            }
            Step::CloseRange(first, last) => {
                let (from, to) = (first.unsigned_abs(), last.unsigned_abs());
                files.close_range(from, to, drop).expect("in order");
                model.close_all(|fd, _| (first..=last).contains(&fd));
            }
            Step::Exec => {
                files.close_on_exec(drop).expect("there is memory");
                model.close_all(|_, cloexec| cloexec);
            }
            Step::Set(opens) => {
                files.set_quarantine(opens).expect("there is memory");
                model.set(opens);
            }
            Step::Fork => {
                files = files.fork().expect("there is memory");
                model = model.fork();
            }
        }
        prop_assert_eq!(files.open_count(), model.open.len() + model.waiting.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config {
        cases: 600,
        rng_algorithm: RngAlgorithm::XorShift,
        failure_persistence: None,
        ..Config::default()
    })]
    #[test]
    fn the_table_and_the_model_agree((limit, steps) in history()) {
        replay(limit, &steps)?;
    }
}

/// Otherwise it depends on a call that fails in between whether the descriptor still waits.
#[test]
fn a_longer_quarantine_leaves_free_what_has_waited() {
    let files = Files::with_limit(8);
    let open = || files.open(FileRef::new(0), NONE).map(|fd| fd.raw());
    assert_eq!((open(), open()), (Ok(0), Ok(1)));
    files.set_quarantine(1).expect("there is memory");
    drop(files.close(0).expect("it is open"));
    assert_eq!(open(), Ok(2));
    files.set_quarantine(u32::MAX).expect("there is memory");
    assert_eq!(open(), Ok(0));
}
