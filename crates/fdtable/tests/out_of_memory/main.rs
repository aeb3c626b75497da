//! The first allocation of a call fails, then the second, and so on: each call returns ENOMEM and
//! leaves no trace.
//!
//! A scenario is a list of calls on one table. For each call, the scenario is played up to it, and
//! then an allocation of the call fails. The table must be as if the call had not been made: the
//! oracle, which did not get the call, agrees about every descriptor. The same call then succeeds
//! with memory, the rest of the scenario agrees with the oracle, and at the end every file is
//! released once and dropped.
//!
//! Calls that are documented not to allocate succeed without any memory: a process that has run out
//! of memory can close its files.
//!
//! A new operation needs a line in [`SCENARIO`].

#![cfg(not(loom))]

mod allocator;
#[path = "../oracle/mod.rs"]
#[expect(dead_code, reason = "other tests ask the oracle more")]
mod oracle;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator::{Plan, under};
use fdtable::{Access, Error, Fd, FdData, FdFlags, FileRef, Files, RawFd, Rcu, SuperBlock, rcu};
use fdtable_listing::{Describe, Description, List};
use oracle::{Oracle, Table};

const NONE: FdFlags = FdFlags::empty();
const CLOEXEC: FdFlags = FdFlags::CLOEXEC;
const CLOFORK: FdFlags = FdFlags::CLOFORK;
const WORD: FdData = FdData::new(CLOEXEC, 7);

/// Permission of a call to allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    MayGrow,
    NeverNeeded,
    /// It asks for memory, and does the same without.
    NotNeeded,
    /// It may run out after a part of the work: it can be called again.
    MayStop,
}
use Memory::{MayGrow, MayStop, NeverNeeded, NotNeeded};

/// A file, with counts of the files that were released and dropped.
struct Object {
    number: i32,
    ends: Arc<Ends>,
}

impl Describe for Object {
    fn describe(&self) -> Description {
        Description::new("REG", "object")
    }
}

struct Pipe;

impl Describe for Pipe {
    fn describe(&self) -> Description {
        Description::new("FIFO", "pipe")
    }
}

/// Counts, since a list would need memory.
#[derive(Default)]
struct Ends {
    released: AtomicUsize,
    dropped: AtomicUsize,
}

impl Drop for Object {
    fn drop(&mut self) {
        self.ends.dropped.fetch_add(1, Relaxed);
    }
}

type Answer<E> = Result<i32, E>;
/// A call on the table. It is given a file that it may open.
type OnTable = fn(&Files<Rcu<Object>>, FileRef<Rcu<Object>>) -> Answer<Error>;
/// The same call on the oracle, where a file is its number.
type OnOracle = fn(&mut Table<i32>, i32) -> Answer<i32>;

fn number(fd: Result<Fd, Error>) -> Answer<Error> {
    fd.map(RawFd::from)
}

/// Reserves a descriptor and installs a file in it.
fn install(files: &Files<Rcu<Object>>, min: RawFd, file: FileRef<Rcu<Object>>) -> Answer<Error> {
    let reservation = files.reserve_from(min, NONE)?;
    Ok(reservation.install(file).raw())
}

fn install_there(table: &mut Table<i32>, min: i32, file: i32) -> Answer<i32> {
    let number = table.reserve_from(min, NONE)?;
    table.install(number, file);
    Ok(number)
}

/// Reserves a descriptor and drops the reservation.
fn cancel_there(table: &mut Table<i32>, number: Answer<i32>) -> Answer<i32> {
    table.cancel(number?);
    number
}

/// A file is open under 0 to 62 when it begins, and there is no limit.
#[rustfmt::skip]
const SCENARIO: &[(&str, Memory, OnTable, OnOracle)] = &[
    ("the last number of a leaf", MayGrow, |t, f| number(t.open(f, NONE)), |t, f| t.open(Some(f), NONE)),
    ("the first of the next leaf", MayGrow, |t, f| number(t.open(f, CLOEXEC)), |t, f| t.open(Some(f), CLOEXEC)),
    ("in the same leaf", MayGrow, |t, _| number(t.dup(63)), |t, _| t.dup(63)),
    ("dup_min, a leaf further", MayGrow, |t, _| number(t.dup_min(64, 128, CLOEXEC)), |t, _| t.dup_min(64, 128, CLOEXEC)),
    ("dup_min, the end of a node", MayGrow, |t, _| number(t.dup_min(0, 4095, NONE)), |t, _| t.dup_min(0, 4095, NONE)),
    ("dup_min, another node", MayGrow, |t, _| number(t.dup_min(0, 4096, NONE)), |t, _| t.dup_min(0, 4096, NONE)),
    ("dup3, a level further", MayGrow, |t, _| t.dup3(0, 40_000, NONE).map(|_| 40_000), |t, _| t.dup3(0, 40_000, NONE)),
    ("dup3, far", MayGrow, |t, _| t.dup3(0, 20_000_000, NONE).map(|_| 20_000_000), |t, _| t.dup3(0, 20_000_000, NONE)),
    ("dup3, the end", MayGrow, |t, _| t.dup3(64, RawFd::MAX, CLOEXEC).map(|_| RawFd::MAX), |t, _| t.dup3(64, RawFd::MAX, CLOEXEC)),
    ("dup3, over an open number", MayGrow, |t, _| t.dup3(63, 40_000, CLOEXEC).map(|_| 40_000), |t, _| t.dup3(63, 40_000, CLOEXEC)),
    ("dup2", MayGrow, |t, _| t.dup2(0, 300).map(|_| 300), |t, _| t.dup2(0, 300)),
    ("reserve and install", MayGrow, |t, f| install(t, 500, f), |t, f| install_there(t, 500, f)),
    ("reserve_from and drop", MayGrow, |t, _| number(t.reserve_from(100_000, NONE).map(|r| r.fd())), |t, _| { let n = t.reserve_from(100_000, NONE); cancel_there(t, n) }),
    ("reserve and drop", MayGrow, |t, _| number(t.reserve(NONE).map(|r| r.fd())), |t, _| { let n = t.open(None, NONE); cancel_there(t, n) }),

    ("get", NeverNeeded, |t, _| t.get(500).map(|file| file.number), |t, _| t.get(500)),
    ("borrow", NeverNeeded, borrow, |t, _| t.get(40_000)),
    ("iter_from", NeverNeeded, |t, _| t.iter_from(64).next().map(|(fd, ..)| fd).map_or(Err(Error::BadFd), |fd| Ok(fd.raw())), |t, _| Ok(t.next_open(64).expect("64 is open"))),
    ("flags", NeverNeeded, |t, _| t.fd_flags(64).map(|flags| flags.bits().cast_signed()), |t, _| t.flags(64).map(|flags| flags.bits().cast_signed())),
    ("list", MayGrow, |t, _| t.list().map(rows), |t, _| Ok(rows(0..t.open_count()))),
    ("set_flags", NeverNeeded, |t, _| t.set_fd_flags(3, CLOEXEC).map(|()| 0), |t, _| t.set_flags(3, CLOEXEC).map(|()| 0)),
    ("set_cloexec_range", NeverNeeded, |t, _| t.set_cloexec_range(5, 7).map(|()| 0), |t, _| t.set_cloexec_range(5, 7).map(|()| 0)),
    ("close", NeverNeeded, |t, _| t.close(8).map(|_| 0), |t, _| t.take(8).map(|_| 0)),
    ("close, where a leaf becomes empty", NeverNeeded, |t, _| t.close(20_000_000).map(|_| 0), |t, _| t.take(20_000_000).map(|_| 0)),
    ("take", NeverNeeded, |t, _| t.close(500).map(|file| file.number), |t, _| t.take(500)),
    ("exec", NeverNeeded, |t, _| t.close_on_exec(drop).map(|()| 0), |t, _| { t.exec(); Ok(0) }),
    ("close_range", NeverNeeded, |t, _| t.close_range(60, 4095, drop).map(|()| 0), |t, _| t.close_range(60, 4095).map(|()| 0)),
    ("a closed number", NeverNeeded, |t, _| t.close(8).map(|_| 0), |t, _| t.take(8).map(|_| 0)),
    ("a bad minimum", NeverNeeded, |t, _| number(t.dup_min(0, -1, NONE)), |t, _| t.dup_min(0, -1, NONE)),
    ("equal numbers", NeverNeeded, |t, _| t.dup3(0, 0, NONE).map(|_| 0), |t, _| t.dup3(0, 0, NONE)),

    ("get_with_data", NotNeeded, |t, _| t.get_with_data(0).map(|(file, _)| file.number), |t, _| t.get(0)),
    ("no word", NeverNeeded, |t, _| t.set_word(0, 0).map(word), |t, _| set_word(t, 0, 0)),
    ("the first word of a leaf", MayGrow, |t, _| t.set_word(0, 7).map(word), |t, _| set_word(t, 0, 7)),
    ("another word", NeverNeeded, |t, _| t.set_word(1, 8).map(word), |t, _| set_word(t, 1, 8)),
    ("a word that is exchanged", NeverNeeded, |t, _| t.exchange_word(1, 8, 9).map(word), |t, _| set_word(t, 1, 9)),
    ("replace, with a word, far", MayGrow, |t, f| t.replace(5_000_000, f, WORD).map(|_| 0), |t, f| t.replace(5_000_000, f, WORD).map(|_| 0)),
    ("replace, over an open number", NeverNeeded, |t, f| t.replace(5_000_000, f, WORD).map(|_| 0), |t, f| t.replace(5_000_000, f, WORD).map(|_| 0)),
    ("open_at, plain", MayGrow, |t, f| t.open_at(6_000_000, f, NONE).map(|()| 0), |t, f| t.open_at(6_000_000, f, NONE.into()).map(|_| 0)),
    ("replace, the first word of a leaf", MayGrow, |t, f| t.replace(6_000_000, f, WORD).map(|_| 0), |t, f| t.replace(6_000_000, f, WORD).map(|_| 0)),
    ("open_at, with a word, a new leaf", MayGrow, |t, f| t.open_at(7_000_000, f, WORD).map(|()| 0), |t, f| t.open_at(7_000_000, f, WORD).map(|_| 0)),
    ("open_at, an open number", NeverNeeded, |t, f| t.open_at(7_000_000, f, NONE).map(|()| 0), |t, f| t.open_at(7_000_000, f, NONE.into()).map(|_| 0)),
    ("rename, with a word, to a new leaf", MayGrow, |t, _| t.rename(7_000_000, 8_000_000).map(|_| 0), |t, _| t.rename(7_000_000, 8_000_000).map(|_| 0)),
    ("rename, to a leaf without words", MayGrow, |t, f| { t.open_at(9_000_000, f, NONE)?; t.rename(8_000_000, 9_000_001).map(|_| 0).inspect_err(|_| drop(t.close(9_000_000))) }, |t, f| { t.open_at(9_000_000, f, NONE.into())?; t.rename(8_000_000, 9_000_001).map(|_| 0) }),
    ("rename, in the leaf", NeverNeeded, |t, _| t.rename(9_000_001, 9_000_000).map(|_| 0), |t, _| t.rename(9_000_001, 9_000_000).map(|_| 0)),
    ("replace_if, with a word", NeverNeeded, |t, f| t.replace_if(9_000_000, &t.get(9_000_000)?, f, WORD).map(|_| 0), |t, f| t.replace_if(9_000_000, |_| true, f, WORD).map(|_| 0)),
    ("close_if", NeverNeeded, |t, _| t.close_if(9_000_000, Some(&t.get(9_000_000)?)).map(|_| 0), |t, _| t.close_if(9_000_000, |_| true).map(|_| 0)),
    ("close_with_data", NeverNeeded, |t, _| t.close_if(6_000_000, None).map(|_| 0), |t, _| t.close(6_000_000).map(|_| 0)),
    ("dup_min with a word, a new leaf", MayGrow, |t, _| number(t.dup_min(0, 10_000_000, WORD)), |t, _| t.dup_min(0, 10_000_000, WORD)),
    ("dup3 with a word, a new leaf", MayGrow, |t, _| t.dup3(0, 11_000_000, WORD).map(|_| 0), |t, _| t.dup3(0, 11_000_000, WORD).map(|_| 0)),
    ("install with a word, a new leaf", MayGrow, |t, f| number(t.reserve_from(12_000_000, NONE)?.install_with(f, WORD)), |t, f| { let n = t.reserve_from(12_000_000, NONE)?; t.install_with(n, f, WORD) }),

    ("set_quarantine", MayGrow, |t, _| t.set_quarantine(5).map(|()| 0), |_, _| Ok(0)),
    ("set_quarantine, off", NeverNeeded, |t, _| t.set_quarantine(0).map(|()| 0), |_, _| Ok(0)),

    ("open a number that was closed", MayGrow, |t, f| number(t.open(f, NONE)), |t, f| t.open(Some(f), NONE)),
    ("where a leaf has become empty", MayGrow, |t, _| number(t.dup_min(0, 20_000_000, NONE)), |t, _| t.dup_min(0, 20_000_000, NONE)),
    ("fork of nodes that are far apart", MayGrow, |t, _| t.fork().map(|_child| 0), |t, _| { t.fork(); Ok(0) }),
    ("what is shared since: a word", MayGrow, |t, _| t.set_word(5_000_000, 1).map(word), |t, _| set_word(t, 5_000_000, 1)),
    ("what is shared since: get_with_data", NotNeeded, |t, _| t.get_with_data(10_000_000).map(|(file, _)| file.number), |t, _| t.get(10_000_000)),
    ("what is shared since: rename", MayGrow, |t, _| t.rename(10_000_000, 11_000_000).map(|_| 0), |t, _| t.rename(10_000_000, 11_000_000).map(|_| 0)),
    ("what is shared since: close", MayGrow, |t, _| t.close(64).map(|_| 0), |t, _| t.take(64).map(|_| 0)),
    ("another fork", MayGrow, |t, _| t.fork().map(|_child| 0), |t, _| { t.fork(); Ok(0) }),
    ("what is shared since: flags", MayGrow, |t, _| t.set_fd_flags(RawFd::MAX, NONE).map(|()| 0), |t, _| t.set_flags(RawFd::MAX, NONE).map(|()| 0)),
    ("a third fork", MayGrow, |t, _| t.fork().map(|_child| 0), |t, _| { t.fork(); Ok(0) }),
    ("what is shared since: open", MayGrow, |t, f| number(t.open(f, NONE)), |t, f| t.open(Some(f), NONE)),
    ("what is shared since: dup3", MayGrow, |t, _| t.dup3(0, 20_000_000, CLOEXEC).map(|_| 20_000_000), |t, _| t.dup3(0, 20_000_000, CLOEXEC)),
    ("close-on-fork: open", MayGrow, |t, f| number(t.open(f, CLOFORK)), |t, f| t.open(Some(f), CLOFORK)),
    ("close-on-fork: flags", MayGrow, |t, _| t.set_fd_flags(20_000_000, CLOFORK).map(|()| 0), |t, _| t.set_flags(20_000_000, CLOFORK).map(|()| 0)),
    ("close-on-fork: what it is", NeverNeeded, |t, _| t.fd_flags(20_000_000).map(|flags| flags.bits().cast_signed()), |_, _| Ok(2)),
    ("close-on-fork: a pair", MayGrow, |t, f| t.open_pair((f.clone(), f), CLOFORK).map(|two| two.0.raw()), |t, f| t.open_pair([f, f], CLOFORK).map(|two| two[0])),
    ("close-on-fork: many", MayGrow, |t, _| t.reserve_many(200, CLOFORK).map(|many| many.fds()[0].raw()), |t, _| { let n = t.open(None, NONE); cancel_there(t, n) }),
    ("close-on-fork: dup3", MayGrow, |t, _| t.dup3(0, 600_000, CLOFORK).map(|_| 600_000), |t, _| t.dup3(0, 600_000, CLOFORK)),
    ("close-on-fork: rename", MayGrow, |t, _| t.rename(600_000, 700_000).map(|_| 0), |t, _| t.rename(600_000, 700_000).map(|_| 0)),
    ("close-on-fork: fork", MayGrow, |t, _| t.fork().map(|child| child.get(700_000).map_or(0, |_| 1)), |t, _| { t.fork(); Ok(0) }),
    ("close-on-fork: fork of a part", MayGrow, |t, _| t.fork_keeping(|fd, _, _| fd.raw() > 64).map(|child| child.get(700_000).map_or(0, |_| 1)), |_, _| Ok(1)),
    ("a range of several leaves", MayStop, |t, _| t.close_range(0, 40_000, drop).map(|()| 0), |t, _| t.close_range(0, 40_000).map(|()| 0)),
    ("exec", MayStop, |t, _| t.close_on_exec(drop).map(|()| 0), |t, _| { t.exec(); Ok(0) }),
    ("the rest", MayStop, |t, _| t.close_range(0, u32::MAX, drop).map(|()| 0), |t, _| t.close_range(0, u32::MAX).map(|()| 0)),
];

fn word(word: u64) -> i32 {
    i32::try_from(word).expect("words are small")
}

fn set_word(table: &mut Table<i32>, number: i32, new: u64) -> Answer<i32> {
    let before = table.change_data(number, |data| FdData::new(data.flags, new));
    before.map(|data| word(data.word))
}

fn borrow(files: &Files<Rcu<Object>>, _: FileRef<Rcu<Object>>) -> Answer<Error> {
    let section = rcu::read_lock();
    let file = files.get_rcu(40_000, &section)?;
    let owned = file.upgrade().ok_or(Error::BadFd)?;
    Ok(FileRef::clone(&owned).number)
}

fn rows<R>(listing: impl IntoIterator<Item = R>) -> i32 {
    listing.into_iter().map(|_| 1).sum()
}

/// Makes RCU allocate its one-time state: the record of a thread at its first section, and the
/// queues of the process at the first release. No call could answer for these: they abort without
/// memory. The thread stays on its CPU, since another CPU would allocate queues of its own.
fn begin_rcu() {
    #[cfg(target_os = "linux")]
    stay_on_this_processor();
    drop(rcu::read_lock());
    drop(FileRef::new(()));
}

#[cfg(target_os = "linux")]
fn stay_on_this_processor() {
    use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
    use nix::unistd::Pid;

    let mut here = CpuSet::new();
    here.set(sched_getcpu().expect("Linux has the call"))
        .expect("it is the number of a CPU");
    sched_setaffinity(Pid::from_raw(0), &here).expect("the thread is there already");
}

/// The table and the oracle, and the files that were made.
struct Play {
    files: Files<Rcu<Object>>,
    oracle: Oracle<i32>,
    ends: Arc<Ends>,
    made: usize,
}

impl Play {
    /// Begins a scenario: 0 to 62 are open.
    fn begin() -> Self {
        begin_rcu();
        let mut play = Self {
            files: Files::with_limit(u32::MAX),
            oracle: Oracle::new(Table::with_limit(u32::MAX)),
            ends: Arc::default(),
            made: 0,
        };
        let (file, name) = play.make();
        for _ in 0..63 {
            play.files.open(file.clone(), NONE).expect("there is room");
            play.oracle().open(Some(name), NONE).expect("there is room");
        }
        play
    }

    /// Makes a file, with memory.
    fn make(&mut self) -> (FileRef<Rcu<Object>>, i32) {
        let number = i32::try_from(self.made).expect("there are few");
        let object = Object {
            number,
            ends: self.ends.clone(),
        };
        self.made += 1;
        let release = |object: &Object| _ = object.ends.released.fetch_add(1, Relaxed);
        (
            FileRef::builder(object)
                .on_release(move |object, _| release(object))
                .rcu()
                .build(),
            number,
        )
    }

    /// Makes calls with memory.
    fn go_on(&mut self, calls: &[(&str, Memory, OnTable, OnOracle)]) {
        for (what, _, on_table, on_oracle) in calls {
            let (file, name) = self.make();
            let expected = on_oracle(&mut self.oracle(), name);
            assert_eq!(errno(on_table(&self.files, file)), expected, "{what}");
        }
    }

    fn oracle(&self) -> MutexGuard<'_, Table<i32>> {
        self.oracle.lock().expect("no operation panics")
    }

    /// Compares the whole visible state of the table.
    fn compare(&self, what: &str) {
        let oracle = self.oracle();
        assert_eq!(self.files.open_count(), oracle.open_count(), "{what}");
        let open = self.files.iter();
        let open = open.map(|(fd, file, data)| (fd.raw(), file.number, data));
        let expected = oracle.all().map(|(fd, &file, data)| (fd, file, data));
        assert_eq!(
            open.collect::<Vec<_>>(),
            expected.collect::<Vec<_>>(),
            "{what}"
        );
        let mut next = Some(0);
        while let Some(from) = next {
            let found = oracle.next_open(from);
            assert_eq!(
                self.files
                    .iter_from(from)
                    .next()
                    .map(|(fd, ..)| fd)
                    .map(RawFd::from),
                found,
                "{what}"
            );
            if let Some(fd) = found {
                let file = self.files.get(fd).map(|file| file.number);
                assert_eq!(errno(file), oracle.get(fd), "{what}: {fd}");
                assert_eq!(self.files.fd_flags(fd).ok(), oracle.flags(fd).ok());
            }
            next = found.and_then(|fd| fd.checked_add(1));
        }
    }

    /// Ends the table without memory. All files that were made have come to both ends.
    fn end(self, what: &str) {
        let files = self.files;
        // Inside a section it runs no callbacks: those free objects, which may ask for a magazine
        // and do without.
        let section = rcu::read_lock();
        let ((), failed) = under(Plan::AllFail(0), || drop(files));
        drop(section);
        assert_eq!(failed, 0, "the end of a table needs no memory");
        assert_eq!(self.ends.released.load(Relaxed), self.made, "{what}");
        let (ended, _) = under(Plan::AllFail(0), rcu::barrier);
        ended.expect("outside of sections");
        assert_eq!(self.ends.dropped.load(Relaxed), self.made, "{what}");
    }
}

fn errno(answer: Answer<Error>) -> Answer<i32> {
    answer.map_err(Error::errno)
}

/// Plays the scenario, and makes the call at `place` run out of memory. Returns true if it did.
fn runs_out(place: usize, plan: Plan) -> bool {
    let (what, memory, on_table, on_oracle) = SCENARIO[place];
    let mut play = Play::begin();
    play.go_on(&SCENARIO[..place]);
    let (file, name) = play.make();
    let (answer, failed) = under(plan, || on_table(&play.files, file));
    if failed == 0 || memory == NotNeeded {
        let expected = on_oracle(&mut play.oracle(), name);
        assert_eq!(errno(answer), expected, "{what}");
    } else {
        assert_ne!(memory, NeverNeeded, "{what} needs no memory");
        assert_eq!(answer, Err(Error::NoMemory), "{what}, {plan:?}");
        if memory == MayGrow {
            play.compare(what);
        }
        play.go_on(&SCENARIO[place..=place]);
    }
    play.compare(what);
    play.go_on(&SCENARIO[place + 1..]);
    assert_eq!(play.files.open_count(), 0, "{what}");
    play.end(what);
    failed > 0
}

#[test]
fn a_call_that_runs_out_of_memory_leaves_no_trace() {
    let _alone = alone();
    let mut failures = 0;
    for place in 0..SCENARIO.len() {
        for plan in [Plan::OneFails, Plan::AllFail] {
            failures += (0..)
                .take_while(|&after| runs_out(place, plan(after)))
                .count();
        }
    }
    // Two for each leaf and each node on its path.
    assert!(failures > 40, "{failures}: calls did allocate");
}

/// Keeps the tests apart: they share the memory that slabs keep.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Uses up the memory for words that a slab keeps from earlier, so that the next leaf that gets a
/// first word needs new memory.
struct Hog {
    files: Files<u8>,
    /// How many leaves of the table have a word.
    used: RawFd,
}

impl Hog {
    fn new() -> Self {
        let files = Files::with_limit(u32::MAX);
        for leaf in 0..Self::LEAVES {
            let opened = files.open_at(leaf * 64, FileRef::new(0), NONE);
            opened.expect("there is memory");
        }
        Self { files, used: 0 }
    }

    const LEAVES: RawFd = 40_000;

    fn use_up(&mut self) {
        let set = |leaf| under(Plan::AllFail(0), || self.files.set_word(leaf * 64, 1)).0;
        while set(self.used).is_ok() {
            self.used += 1;
        }
        assert!(self.used < Self::LEAVES, "there is a leaf without a word");
    }
}

/// The target of such a call counts as taken while it is in quarantine.
#[test]
fn a_call_that_finds_no_memory_for_a_word_leaves_its_target_in_quarantine() {
    let _alone = alone();
    let calls: [(&str, OnTable); 4] = [
        ("replace", |t, f| t.replace(130, f, WORD).map(|_| 0)),
        ("open_at", |t, f| t.open_at(130, f, WORD).map(|()| 0)),
        ("rename", |t, _| t.rename(1, 130).map(|_| 0)),
        ("rename to no leaf", |t, _| t.rename(70, 200).map(|_| 0)),
    ];
    let mut play = Play::begin();
    let mut hog = Hog::new();
    for (what, call) in calls {
        let files = Files::new();
        files.set_quarantine(1000).expect("there is memory");
        for (fd, data) in [(1, WORD), (70, WORD), (130, NONE.into())] {
            let opened = files.open_at(fd, play.make().0, data);
            opened.expect("there is memory");
        }
        drop(files.close(130).expect("it is open"));
        let open = files.open_count();
        hog.use_up();
        let (file, _) = play.make();
        let answer = under(Plan::AllFail(0), || call(&files, file));
        assert_eq!(
            (answer.0, answer.1 > 0),
            (Err(Error::NoMemory), true),
            "{what}"
        );
        assert_eq!(files.open_count(), open, "{what}");
        assert_eq!(call(&files, play.make().0), Ok(0), "{what}");
    }
}

/// The same for the tables that are not in quarantine, where the word needs the first memory.
#[test]
fn a_call_that_finds_no_memory_for_a_word_leaves_no_trace() {
    let _alone = alone();
    #[rustfmt::skip]
    let calls: [(&str, OnTable); 8] = [
        ("open", |t, f| number(t.open(f, WORD))),
        ("open_any", |t, f| number(t.open_any(f, WORD))),
        ("dup_min", |t, _| number(t.dup_min(1, 64, WORD))),
        ("dup3", |t, _| t.dup3(1, 64, WORD).map(|_| 0)),
        ("replace", |t, f| t.replace(64, f, WORD).map(|_| 0)),
        ("replace_if", |t, f| t.replace_if(1, &t.get(1)?, f, WORD).map(|_| 0)),
        ("install_with", |t, f| number(t.reserve(NONE)?.install_with(f, WORD))),
        ("set_word", |t, _| t.set_word(1, 7).map(word)),
    ];
    begin_rcu();
    for (what, call) in calls {
        for fork in [false, true] {
            // The memory of the hog before is free again.
            rcu::barrier().expect("outside of sections");
            let mut hog = Hog::new();
            let mut play = Play::begin();
            let (file, _) = play.make();
            let opened = play.files.open_at(100, file, NONE);
            opened.expect("there is memory");
            let child = fork.then(|| play.files.fork().expect("there is memory"));
            let files = child.as_ref().unwrap_or(&play.files);
            let before = play.files.iter().count();
            hog.use_up();
            let file = FileRef::clone(&play.files.get(1).expect("it is open"));
            let count = FileRef::strong_count(&file);
            let (answer, failed) = under(Plan::AllFail(0), || call(files, file.clone()));
            assert_eq!((answer, failed > 0), (Err(Error::NoMemory), true), "{what}");
            assert_eq!(FileRef::strong_count(&file), count, "{what}");
            assert_eq!(files.iter().count(), before, "{what}");
            assert!(files.iter().all(|(.., data)| data == NONE.into()), "{what}");
            assert_eq!(files.open_count(), before, "{what}");
            hog.use_up();
            // A lookup does without.
            let (found, _) = under(Plan::AllFail(0), || files.get_with_data(1).map(|it| it.1));
            assert_eq!(found, Ok(NONE.into()), "{what}");
            call(files, file).expect("there is memory");
        }
    }
}

#[test]
fn a_child_that_could_not_be_made_leaves_no_reference() {
    let _alone = alone();
    let mut play = Play::begin();
    let (file, _) = play.make();
    for fd in [100, 5000, 40_000, 20_000_000] {
        install(&play.files, fd, file.clone()).expect("there is memory");
    }
    let fork = |after| under(Plan::AllFail(after), || play.files.fork().map(drop));
    let failures = (0..).take_while(|&after| fork(after) == (Err(Error::NoMemory), 1));
    assert!(failures.count() >= 1, "a list of what is free");
    assert_eq!(FileRef::strong_count(&file), 5);
    assert_eq!(fork(usize::MAX), (Ok(()), 0));
    assert_eq!(FileRef::strong_count(&file), 5);
    let mut child = Files::new();
    install(&child, 3, file.clone()).expect("there is memory");
    let forked = under(Plan::AllFail(0), || play.files.fork_into(&mut child));
    assert_eq!(forked, (Err(Error::NoMemory), 1));
    assert_eq!(FileRef::strong_count(&file), 5);
    assert_eq!(child.iter().count(), 0);
    drop((child, file));
    play.end("fork");
}

#[test]
fn a_superblock_that_could_not_be_listed_is_as_it_was() {
    let _alone = alone();
    begin_rcu();
    let superblock = SuperBlock::new().expect("there is memory");
    let make = |_| {
        FileRef::builder(Pipe)
            .on(&superblock, Access::Write)
            .try_build()
    };
    let files: Vec<FileRef<Pipe>> = (0..100).map(make).collect::<Result<_, _>>().unwrap();
    let list = |after| under(Plan::AllFail(after), || superblock.list().map(rows));
    let failures = (0..).take_while(|&after| list(after) == (Err(Error::NoMemory), 1));
    assert!(failures.count() >= 2, "the snapshot, and the rows");
    assert_eq!(list(usize::MAX), (Ok(100), 0));
    assert!(files.iter().all(|file| FileRef::strong_count(file) == 1));
    assert_eq!(superblock.open_files(), 100);
}

#[test]
fn listings_that_could_not_be_merged_are_as_they_were() {
    let _alone = alone();
    let files = Files::new();
    for _ in 0..10 {
        files.open(FileRef::new(Pipe), NONE).expect("there is room");
    }
    let list = || files.list().expect("there is memory");
    let (mut one, mut other) = (list(), list());
    let mut append = |after| under(Plan::AllFail(after), || one.append(&mut other));
    assert_eq!(append(0), (Err(Error::NoMemory), 1));
    assert_eq!(append(usize::MAX), (Ok(()), 0));
    assert_eq!((rows(&one), rows(&other)), (20, 0));
}

/// Without slabs: those have memory that was mapped for earlier objects.
#[cfg(not(feature = "slab"))]
#[test]
fn a_conversion_that_could_not_be_made_leaves_the_file() {
    use std::any::Any;

    let _alone = alone();
    begin_rcu();
    let file = FileRef::new(7);
    let downgrade = |after| {
        let (weak, failed) = under(Plan::AllFail(after), || FileRef::try_downgrade(&file));
        (weak.map(|weak| weak.upgrade().is_some()), failed)
    };
    assert_eq!(downgrade(0), (Err(Error::NoMemory), 1));
    assert_eq!(FileRef::strong_count(&file), 1);
    assert_eq!(downgrade(usize::MAX), (Ok(true), 0));
    assert_eq!(downgrade(0), (Ok(true), 0), "the second needs no memory");

    let convert = |file, after| {
        under(Plan::AllFail(after), || {
            FileRef::<i32>::try_into_dyn::<dyn Any + Send + Sync>(file, |number| number)
        })
    };
    let (Err((error, file)), 1) = convert(file, 0) else {
        panic!("it needs memory");
    };
    assert_eq!((error, FileRef::strong_count(&file)), (Error::NoMemory, 1));
    let (Ok(file), 0) = convert(file, usize::MAX) else {
        panic!("there is memory");
    };
    assert!(file.is::<i32>());
}

/// RCU keeps its state of a thread, and of the process, for the case that there is no memory.
#[test]
fn a_new_thread_without_memory_finds_and_closes() {
    let _alone = alone();
    let files = Files::new();
    files.open(FileRef::new(7), NONE).expect("there is memory");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (found, _) = under(Plan::AllFail(0), || {
                let found = files.get(0).map(|file| *file);
                found.and_then(|file| files.close(0).map(|_| file))
            });
            assert_eq!(found, Ok(7));
        });
    });
}
