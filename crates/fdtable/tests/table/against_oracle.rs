//! Random histories, replayed on the table and on the oracle.
//!
//! After every step both have returned the same answer (descriptor, errno, flags, which file), and
//! the same files have been released, each once; and, unless very many are open, the same files are
//! open under the same descriptors with the same data. So they are at the end. The remaining files
//! are released when the tables are dropped, and every file is dropped once.
//!
//! `PROPTEST_CASES=100000 cargo test -p fdtable --release --test against_oracle` replays more
//! histories than the few seconds of an ordinary run.

use crate::history;
use crate::ledger;
use crate::oracle;
use crate::unshare::{CLOEXEC, UNSHARE, close_range_with};

use std::cell::{Cell, OnceCell};
use std::sync::{Arc, MutexGuard};

use fdtable::{ClosedFile, Error, FdData, FdFlags, FileRef, Files, RawFd, Rcu, Reservation, rcu};
use fdtable_sync::percpu;
use history::subject::{Subject, answer};
use history::{Answer, Call, Number, Table, call, flags_of, likely_open, number};
use ledger::{Maker, Object, Token};
use oracle::Oracle;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm};

/// Limits at which behaviour changes; the high ones are more frequent, since more happens there.
const LIMITS: &[u32] = &[
    0,
    1,
    64,
    65,
    1024,
    1024,
    1024,
    1_000_000,
    1_000_000,
    1_000_000,
    u32::MAX,
    u32::MAX,
    u32::MAX,
];

/// Close-on-fork is rarer, so that children have files.
const FLAGS: &[FdFlags] = &[
    FdFlags::empty(),
    FdFlags::empty(),
    FdFlags::CLOEXEC,
    FdFlags::CLOEXEC,
    FdFlags::CLOFORK,
    FdFlags::all(),
];

fn flags() -> impl Strategy<Value = FdFlags> {
    flags_of(FLAGS)
}

/// How many processes there may be at once that make reservations, and live to the end.
const PROCESSES: usize = 4;

/// How many children there may be besides, which end at any time.
const CHILDREN: usize = 4;

/// Operations of a process.
#[derive(Clone, Debug)]
enum Action {
    /// An operation of every table.
    Call(Call),
    WithData(WithData),
    Reserve(FdFlags),
    ReserveFrom(Number, FdFlags),
    Install(Index),
    InstallWith(Index, FdData),
    Cancel(Index),
    /// Takes a file out of the table, and keeps it.
    Take(Number),
    /// Gets a file, and keeps it.
    Hold(Number),
    /// Drops a file that was kept.
    LetGo(Index),
    /// Borrows a file, and closes its descriptor meanwhile.
    CloseBorrowed(Number),
    NextOpen(Number),
    /// Opens that many times, under any descriptor.
    OpenAny(u32, FdData),
    ReserveMany(u32, FdFlags),
    OpenPair(FdFlags),
    Fork,
    /// Keeps one descriptor of that many.
    ForkKeeping(i32),
    /// Closes a range of descriptors in an unshared view, or in this one.
    CloseRangeWith(Number, Number, u32),
    Exec,
    /// An operation of a child.
    InChild(Index, ChildAction),
}

/// Operations of a child that ends at any time.
#[derive(Clone, Debug)]
enum ChildAction {
    Call(Call),
    WithData(WithData),
    OpenAny(u32, FdData),
    Fork,
    Exec,
    Exit,
}

/// Operations at a given descriptor, or with data.
#[derive(Clone, Debug)]
enum WithData {
    Open(FdData),
    DupFrom(Number, Number, FdData),
    DupTo(Number, Number, FdData),
    Get(Number),
    CloseFd(Number),
    Replace(Number, FdData),
    OpenAt(Number, FdData),
    /// If the file is that of another descriptor.
    ReplaceIf(Number, Number, FdData),
    CloseIf(Number, Number),
    Rename(Number, Number),
    SetWord(Number, u64),
    ExchangeWord(Number, u64, u64),
}

/// Few words, so that they are met again.
fn word() -> impl Strategy<Value = u64> {
    select(vec![0, 0, 1, 2, u64::MAX])
}

fn data() -> impl Strategy<Value = FdData> {
    let flags_alone = flags().prop_map(FdData::from);
    let all = (flags(), word()).prop_map(FdData::from);
    prop_oneof![flags_alone, all]
}

fn with_data() -> impl Strategy<Value = WithData> {
    prop_oneof![
        3 => data().prop_map(WithData::Open),
        2 => (likely_open(), number(), data()).prop_map(|(a, b, d)| WithData::DupFrom(a, b, d)),
        2 => (likely_open(), number(), data()).prop_map(|(a, b, d)| WithData::DupTo(a, b, d)),
        3 => likely_open().prop_map(WithData::Get),
        2 => likely_open().prop_map(WithData::CloseFd),
        3 => (number(), data()).prop_map(|(fd, d)| WithData::Replace(fd, d)),
        2 => (number(), data()).prop_map(|(fd, d)| WithData::OpenAt(fd, d)),
        2 => (likely_open(), likely_open(), data())
            .prop_map(|(fd, of, d)| WithData::ReplaceIf(fd, of, d)),
        1 => likely_open().prop_flat_map(|fd| (Just(fd), data()))
            .prop_map(|(fd, d)| WithData::ReplaceIf(fd, fd, d)),
        1 => (likely_open(), likely_open()).prop_map(|(fd, of)| WithData::CloseIf(fd, of)),
        1 => likely_open().prop_map(|fd| WithData::CloseIf(fd, fd)),
        5 => (likely_open(), number()).prop_map(|(from, to)| WithData::Rename(from, to)),
        3 => (likely_open(), word()).prop_map(|(fd, word)| WithData::SetWord(fd, word)),
        2 => (likely_open(), word(), word())
            .prop_map(|(fd, expected, new)| WithData::ExchangeWord(fd, expected, new)),
    ]
}

fn child_action() -> impl Strategy<Value = ChildAction> {
    prop_oneof![
        12 => call(LIMITS.to_vec(), FLAGS).prop_map(ChildAction::Call),
        6 => with_data().prop_map(ChildAction::WithData),
        2 => (1..70_u32, data()).prop_map(|(count, data)| ChildAction::OpenAny(count, data)),
        1 => Just(ChildAction::Fork),
        1 => Just(ChildAction::Exec),
        1 => Just(ChildAction::Exit),
    ]
}

fn range_flags() -> impl Strategy<Value = u32> {
    (0..4_u32).prop_map(|bits| bits << 1)
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        50 => call(LIMITS.to_vec(), FLAGS).prop_map(Action::Call),
        30 => with_data().prop_map(Action::WithData),
        5 => flags().prop_map(Action::Reserve),
        3 => (number(), flags()).prop_map(|(min, flags)| Action::ReserveFrom(min, flags)),
        4 => any::<Index>().prop_map(Action::Install),
        2 => (any::<Index>(), data()).prop_map(|(which, data)| Action::InstallWith(which, data)),
        4 => any::<Index>().prop_map(Action::Cancel),
        3 => likely_open().prop_map(Action::Take),
        3 => likely_open().prop_map(Action::Hold),
        3 => any::<Index>().prop_map(Action::LetGo),
        2 => likely_open().prop_map(Action::CloseBorrowed),
        2 => number().prop_map(Action::NextOpen),
        2 => (1..70_u32, data()).prop_map(|(count, data)| Action::OpenAny(count, data)),
        1 => (0..140_u32, flags()).prop_map(|(count, flags)| Action::ReserveMany(count, flags)),
        4 => flags().prop_map(Action::OpenPair),
        2 => Just(Action::Fork),
        1 => (1..4).prop_map(Action::ForkKeeping),
        1 => (number(), number(), range_flags())
            .prop_map(|(first, last, flags)| Action::CloseRangeWith(first, last, flags)),
        1 => Just(Action::Exec),
        20 => (any::<Index>(), child_action()).prop_map(|(which, act)| Action::InChild(which, act)),
    ]
}

#[derive(Clone, Debug)]
struct History {
    limit: u32,
    /// How many descriptors the first process begins with.
    open: i32,
    /// The operations, each with its process.
    steps: Vec<(Index, Action)>,
}

fn history(open: impl Strategy<Value = i32>, steps: usize) -> impl Strategy<Value = History> {
    let steps = vec((any::<Index>(), action()), 1..steps);
    (select(LIMITS), open, steps).prop_map(|(limit, open, steps)| History { limit, open, steps })
}

/// The oracle, as a history sees it.
struct Judge<'t> {
    table: MutexGuard<'t, oracle::Table<Arc<Token>>>,
    maker: &'t mut Maker,
}

impl Table for Judge<'_> {
    fn open(&mut self, flags: FdFlags) -> Answer {
        self.table.open(Some(self.maker.token()), flags)
    }

    fn which(&mut self, fd: RawFd) -> Answer {
        self.table.get(fd).map(|token| token.number)
    }

    fn dup(&mut self, old: RawFd) -> Answer {
        self.table.dup(old)
    }

    fn dup_min(&mut self, old: RawFd, min: RawFd, flags: FdFlags) -> Answer {
        self.table.dup_min(old, min, flags)
    }

    fn dup3(&mut self, old: RawFd, new: RawFd, flags: FdFlags) -> Answer {
        self.table.dup3(old, new, flags)
    }

    fn dup2(&mut self, old: RawFd, new: RawFd) -> Answer {
        self.table.dup2(old, new)
    }

    fn close(&mut self, fd: RawFd) -> Answer {
        self.table.take(fd).map(|_| 0)
    }

    fn close_range(&mut self, first: u32, last: u32) -> Answer {
        self.table.close_range(first, last).map(|()| 0)
    }

    fn set_cloexec_range(&mut self, first: u32, last: u32) -> Answer {
        self.table.set_cloexec_range(first, last).map(|()| 0)
    }

    fn flags(&mut self, fd: RawFd) -> Answer {
        self.table.flags(fd).map(|flags| flags.bits().cast_signed())
    }

    fn set_flags(&mut self, fd: RawFd, flags: FdFlags) -> Answer {
        self.table.set_flags(fd, flags).map(|()| 0)
    }

    fn set_limit(&mut self, limit: u32) -> Answer {
        self.table.limit = limit;
        Ok(0)
    }
}

/// One process: its table, and the oracle's state of it.
struct Process {
    files: Arc<Files<Rcu<Object>>>,
    oracle: Oracle<Arc<Token>>,
    /// The most descriptors that were taken at once.
    most: Cell<usize>,
}

/// A history under way. Each file that a process keeps is kept twice, for the table and for the
/// oracle.
struct Replay<'p> {
    processes: &'p [OnceCell<Process>; PROCESSES],
    children: Vec<Process>,
    reserved: Vec<(&'p Process, Reservation<'p, Rcu<Object>>)>,
    held: Vec<(FileRef<Rcu<Object>>, Arc<Token>)>,
    objects: Maker,
    tokens: Maker,
}

type Verdict = Result<(), TestCaseError>;

impl<'p> Replay<'p> {
    /// Opens one file under the first descriptors, at most those below the limit.
    fn open_many(&mut self, of: &Process, count: i32) -> Verdict {
        let one = Call::Open(1, FdFlags::empty());
        if count > 0 {
            self.call(of, &one)?;
        }
        for number in 1..count.min(of.files.limit().try_into().unwrap_or(count)) {
            // The oracle gets a minimum, since it looks at every descriptor on its way.
            let expected = of.oracle().dup_min(0, number, FdFlags::empty());
            prop_assert_eq!(answer(of.files.dup(0)), expected);
        }
        Ok(())
    }

    fn act(&mut self, of: &'p Process, action: &Action) -> Verdict {
        match action {
            Action::Call(call) => self.call(of, call),
            Action::WithData(call) => self.with_data(of, call),
            Action::Reserve(flags) => {
                let expected = of.oracle().open(None, *flags);
                self.reserve(of, of.files.reserve(*flags), expected)
            }
            Action::ReserveFrom(min, flags) => {
                let min = min.find(&of.files);
                let expected = of.oracle().reserve_from(min, *flags);
                self.reserve(of, of.files.reserve_from(min, *flags), expected)
            }
            Action::Install(which) => self.install(which),
            Action::InstallWith(which, data) => self.install_with(which, *data),
            Action::Cancel(which) => self.cancel(which),
            Action::Take(fd) => {
                let fd = fd.find(&of.files);
                self.hold(
                    of.files.close(fd).map(ClosedFile::into_file),
                    of.oracle().take(fd),
                )
            }
            Action::Hold(fd) => {
                let fd = fd.find(&of.files);
                self.hold(of.files.get(fd), of.oracle().get(fd))
            }
            Action::LetGo(which) => {
                drop(pick(&mut self.held, which));
                Ok(())
            }
            Action::CloseBorrowed(fd) => close_borrowed(of, fd.find(&of.files)),
            Action::NextOpen(from) => next_open(of, from.find(&of.files)),
            Action::OpenAny(count, data) => self.open_any(of, *count, *data),
            Action::ReserveMany(count, flags) => self.reserve_many(of, *count, *flags),
            Action::OpenPair(flags) => self.open_pair(of, *flags),
            Action::Fork => self.fork(of),
            Action::ForkKeeping(one_of) => self.fork_keeping(of, *one_of),
            Action::CloseRangeWith(first, last, flags) => {
                let (first, last) = (first.find(&of.files), last.find(&of.files));
                self.close_range_with(of, (first.cast_unsigned(), last.cast_unsigned()), *flags)
            }
            Action::Exec => exec(of),
            Action::InChild(which, act) => self.act_in_child(which, act),
        }
    }

    fn call(&mut self, of: &Process, call: &Call) -> Verdict {
        let (objects, maker) = (&mut self.objects, &mut self.tokens);
        let table = of.oracle();
        let expected = call.make(&mut Judge { table, maker }, &of.files);
        let mut subject = Subject {
            files: &of.files,
            make: &mut || objects.object(),
            number: |object| object.number,
        };
        prop_assert_eq!(call.make(&mut subject, &of.files), expected);
        Ok(())
    }

    fn reserve(
        &mut self,
        of: &'p Process,
        reservation: Result<Reservation<'p, Rcu<Object>>, Error>,
        expected: Answer,
    ) -> Verdict {
        let number = reservation.as_ref().map(Reservation::fd);
        prop_assert_eq!(answer(number.map_err(|error| *error)), expected);
        self.reserved.extend(reservation.map(|made| (of, made)));
        Ok(())
    }

    fn install(&mut self, which: &Index) -> Verdict {
        let Some((of, reservation)) = pick(&mut self.reserved, which) else {
            return Ok(());
        };
        let number = reservation.fd();
        of.oracle().install(number.raw(), self.tokens.token());
        prop_assert_eq!(reservation.install(self.objects.object()), number);
        Ok(())
    }

    fn install_with(&mut self, which: &Index, data: FdData) -> Verdict {
        let Some((of, reservation)) = pick(&mut self.reserved, which) else {
            return Ok(());
        };
        let number = reservation.fd().raw();
        let token = self.tokens.token();
        let expected = of.oracle().install_with(number, token, data);
        let installed = reservation.install_with(self.objects.object(), data);
        prop_assert_eq!(answer(installed), expected);
        Ok(())
    }

    fn with_data(&mut self, of: &Process, call: &WithData) -> Verdict {
        let find = |number: &Number| number.find(&of.files);
        let (files, mut oracle) = (&*of.files, of.oracle());
        let (objects, tokens) = (&mut self.objects, &mut self.tokens);
        match call {
            WithData::Open(data) => {
                let expected = oracle.open(Some(tokens.token()), *data);
                prop_assert_eq!(answer(files.open(objects.object(), *data)), expected);
            }
            WithData::DupFrom(old, min, data) => {
                let (old, min) = (find(old), find(min));
                let expected = oracle.dup_min(old, min, *data);
                prop_assert_eq!(answer(files.dup_min(old, min, *data)), expected);
            }
            WithData::DupTo(old, new, data) => {
                let (old, new) = (find(old), find(new));
                let expected = oracle.dup3(old, new, *data);
                let copied = files.dup3(old, new, *data).map(|_| new);
                prop_assert_eq!(answer(copied), expected);
            }
            WithData::Get(fd) => {
                let fd = find(fd);
                let found = files.get_with_data(fd);
                let found = found.map(|(file, data)| (file.number, data));
                let expected = oracle.open_with_data(fd);
                let expected = expected.map(|(token, data)| (token.number, data));
                prop_assert_eq!(found.map_err(Error::errno), expected);
            }
            WithData::CloseFd(fd) => {
                let fd = find(fd);
                displaced(
                    files.close_if(fd, None).map(Some),
                    oracle.close(fd).map(Some),
                )?;
            }
            WithData::Replace(fd, data) => {
                let fd = find(fd);
                let expected = oracle.replace(fd, tokens.token(), *data);
                displaced(files.replace(fd, objects.object(), *data), expected)?;
            }
            WithData::OpenAt(fd, data) => {
                let fd = find(fd);
                let expected = oracle.open_at(fd, tokens.token(), *data);
                let opened = files.open_at(fd, objects.object(), *data);
                prop_assert_eq!(answer(opened.map(|()| fd)), expected);
            }
            WithData::ReplaceIf(fd, of, data) => {
                let (fd, of) = (find(fd), find(of));
                if let (Ok(file), Ok(token)) = (files.get(of), oracle.get(of)) {
                    let is_it = |there: &Arc<Token>| Arc::ptr_eq(there, &token);
                    let expected = oracle.replace_if(fd, is_it, tokens.token(), *data);
                    let replaced = files.replace_if(fd, &file, objects.object(), *data);
                    displaced(replaced.map(Some), expected)?;
                }
            }
            WithData::CloseIf(fd, of) => {
                let (fd, of) = (find(fd), find(of));
                if let (Ok(file), Ok(token)) = (files.get(of), oracle.get(of)) {
                    let is_it = |there: &Arc<Token>| Arc::ptr_eq(there, &token);
                    let closed = files.close_if(fd, Some(&file)).map(Some);
                    displaced(closed, oracle.close_if(fd, is_it))?;
                }
            }
            WithData::Rename(from, to) => {
                let (from, to) = (find(from), find(to));
                displaced(files.rename(from, to), oracle.rename(from, to))?;
            }
            &WithData::SetWord(ref fd, word) => {
                let fd = find(fd);
                let expected = oracle.change_data(fd, |data| FdData::new(data.flags, word));
                let before = files.set_word(fd, word).map_err(Error::errno);
                prop_assert_eq!(before, expected.map(|data| data.word));
            }
            &WithData::ExchangeWord(ref fd, old, new) => {
                let fd = find(fd);
                let expected = oracle.change_data(fd, |mut data| {
                    if data.word == old {
                        data.word = new;
                    }
                    data
                });
                let before = files.exchange_word(fd, old, new).map_err(Error::errno);
                prop_assert_eq!(before, expected.map(|data| data.word));
            }
        }
        Ok(())
    }

    fn cancel(&mut self, which: &Index) -> Verdict {
        if let Some((of, reservation)) = pick(&mut self.reserved, which) {
            of.oracle().cancel(reservation.fd().raw());
        }
        Ok(())
    }

    fn hold(
        &mut self,
        file: Result<FileRef<Rcu<Object>>, Error>,
        token: Result<Arc<Token>, i32>,
    ) -> Verdict {
        let number = file.as_ref().map(|file| file.number);
        let expected = token.as_ref().map(|token| token.number);
        prop_assert_eq!(
            number.map_err(|error| error.errno()),
            expected.map_err(|e| *e)
        );
        self.held.extend(file.ok().zip(token.ok()));
        Ok(())
    }

    /// The documented promise: the descriptor is free, below the limit and not far up.
    fn open_any(&mut self, of: &Process, count: u32, data: FdData) -> Verdict {
        for _ in 0..count {
            of.note_taken();
            let opened = answer(of.files.open_any(self.objects.object(), data));
            let token = self.tokens.token();
            match opened {
                Ok(number) => {
                    of.oracle().open_chosen(number, token, data);
                    of.note_taken();
                    let bound = of.most.get() + 64 * (processors() + 2);
                    prop_assert!((number.unsigned_abs() as usize) < bound, "{number}");
                }
                Err(_) => prop_assert_eq!(of.oracle().open(Some(token), data), opened),
            }
        }
        Ok(())
    }

    fn reserve_many(&mut self, of: &'p Process, count: u32, flags: FdFlags) -> Verdict {
        let expected = of.oracle().reserve_many(count, flags);
        let reservations = of.files.reserve_many(count as usize, flags);
        let numbers = reservations.as_ref().map(|all| {
            let numbers = all.fds().iter().map(|fd| fd.raw());
            numbers.collect::<Vec<_>>()
        });
        prop_assert_eq!(numbers.map_err(|error| error.errno()), expected);
        let each = reservations.into_iter().flatten();
        self.reserved.extend(each.map(|made| (of, made)));
        Ok(())
    }

    fn open_pair(&mut self, of: &Process, flags: FdFlags) -> Verdict {
        let tokens = [self.tokens.token(), self.tokens.token()];
        let expected = of.oracle().open_pair(tokens, flags);
        let pair = (self.objects.object(), self.objects.object());
        let opened = of.files.open_pair(pair, flags);
        let numbers = opened.map(|(one, other)| vec![one.raw(), other.raw()]);
        prop_assert_eq!(numbers.map_err(|error| error.errno()), expected);
        Ok(())
    }

    fn fork(&mut self, of: &Process) -> Verdict {
        let files = of.files.fork().expect("there is memory");
        let oracle = of.oracle().fork();
        self.join(Process::of(files, oracle))
    }

    fn fork_keeping(&mut self, of: &Process, one_of: i32) -> Verdict {
        let keep = |number: RawFd| number % one_of == 0;
        let files = of.files.fork_keeping(|fd, _, _| keep(fd.raw()));
        let oracle = of.oracle().fork_keeping(keep);
        self.join(Process::of(files.expect("there is memory"), oracle))
    }

    fn close_range_with(&mut self, of: &Process, (first, last): (u32, u32), flags: u32) -> Verdict {
        let mut files = Arc::clone(&of.files);
        let done = close_range_with(&mut files, first, last, flags);
        let range = |oracle: &mut oracle::Table<_>| {
            if flags & CLOEXEC != 0 {
                oracle.set_cloexec_range(first, last)
            } else {
                oracle.close_range(first, last)
            }
        };
        let own = flags & UNSHARE != 0;
        let mut child = of.oracle().fork();
        let expected = if own {
            range(&mut child)
        } else {
            range(&mut of.oracle())
        };
        prop_assert_eq!(done.map_err(Error::errno), expected);
        // The view of the process has two holders, so a view with one is new.
        match Arc::into_inner(files) {
            Some(files) => self.join(Process::of(files, child)),
            None => Ok(()),
        }
    }

    /// Adds a child to the processes if there is room. Else adds it to the children and ends the
    /// oldest child.
    fn join(&mut self, child: Process) -> Verdict {
        child.compare()?;
        let room = self.processes.iter().find(|place| place.get().is_none());
        if let Some(place) = room {
            let _joined = place.set(child);
            return Ok(());
        }
        if self.children.len() == CHILDREN {
            self.children.remove(0).compare()?;
        }
        self.children.push(child);
        Ok(())
    }

    fn act_in_child(&mut self, which: &Index, action: &ChildAction) -> Verdict {
        let Some(child) = pick(&mut self.children, which) else {
            return Ok(());
        };
        match action {
            ChildAction::Call(call) => self.call(&child, call)?,
            ChildAction::WithData(call) => self.with_data(&child, call)?,
            ChildAction::OpenAny(count, data) => self.open_any(&child, *count, *data)?,
            ChildAction::Fork => self.fork(&child)?,
            ChildAction::Exec => exec(&child)?,
            ChildAction::Exit => return child.compare(),
        }
        child.note_taken();
        child.compare_if_few()?;
        self.children.push(child);
        Ok(())
    }

    fn compare_released(&self) -> Verdict {
        compare_released(&self.objects, &self.tokens)
    }

    fn end(self) -> Rest {
        Rest {
            held: self.held,
            objects: self.objects,
            tokens: self.tokens,
        }
    }
}

/// A file that a close has taken out, and the data of its descriptor.
type Closed = (ClosedFile<Rcu<Object>>, FdData);

/// Compares what a call has displaced, and drops it.
fn displaced(
    closed: Result<Option<Closed>, Error>,
    expected: Result<Option<(Arc<Token>, FdData)>, i32>,
) -> Verdict {
    let number = |(closed, data): &(ClosedFile<Rcu<Object>>, FdData)| (closed.number, *data);
    let found = closed.as_ref().map(|closed| closed.as_ref().map(number));
    let number = |(token, data): &(Arc<Token>, FdData)| (token.number, *data);
    let expected_number = expected.as_ref().map(|open| open.as_ref().map(number));
    let found = found.map_err(|error| error.errno());
    prop_assert_eq!(found, expected_number.map_err(|errno| *errno));
    drop((closed, expected));
    Ok(())
}

/// Removes an element from a list and returns it, if there is any.
fn pick<I>(list: &mut Vec<I>, which: &Index) -> Option<I> {
    (!list.is_empty()).then(|| list.swap_remove(which.index(list.len())))
}

fn exec(of: &Process) -> Verdict {
    of.files.close_on_exec(drop).expect("there is memory");
    of.oracle().exec();
    Ok(())
}

/// How many CPUs claim descriptors of their own.
fn processors() -> usize {
    percpu::copies()
}

fn next_open(of: &Process, from: RawFd) -> Verdict {
    let expected = of.oracle().next_open(from);
    prop_assert_eq!(
        of.files
            .iter_from(from)
            .next()
            .map(|(fd, ..)| fd)
            .map(RawFd::from),
        expected
    );
    Ok(())
}

fn close_borrowed(of: &Process, fd: RawFd) -> Verdict {
    let section = rcu::read_lock();
    let borrowed = of.files.get_rcu(fd, &section);
    let token = of.oracle().take(fd);
    prop_assert_eq!(
        answer(of.files.close(fd).map(|_| 0)),
        token.as_ref().map(|_| 0).map_err(|e| *e)
    );
    if let (Ok(object), Ok(token)) = (borrowed, token) {
        prop_assert_eq!(object.number, token.number);
        let others = Arc::strong_count(&token) > 1;
        prop_assert_eq!(object.upgrade().is_some(), others);
    }
    Ok(())
}

impl Process {
    fn new(limit: u32) -> Self {
        Self::of(Files::with_limit(limit), oracle::Table::with_limit(limit))
    }

    fn of(files: Files<Rcu<Object>>, oracle: oracle::Table<Arc<Token>>) -> Self {
        Self {
            files: Arc::new(files),
            oracle: Oracle::new(oracle),
            most: Cell::new(0),
        }
    }

    fn note_taken(&self) {
        let taken = self.oracle().open_count();
        self.most.set(self.most.get().max(taken));
    }

    fn oracle(&self) -> MutexGuard<'_, oracle::Table<Arc<Token>>> {
        self.oracle.lock().expect("no operation panics")
    }

    /// Compares what is open, with all data, unless that would take long. This does not make the
    /// table add the memory for data, as `get_with_data` does.
    fn compare_if_few(&self) -> Verdict {
        if self.files.open_count() <= 128 {
            let oracle = self.oracle();
            let open = self.files.iter();
            let open = open.map(|(fd, file, data)| (fd.raw(), file.number, data));
            let expected = oracle.all();
            let expected = expected.map(|(number, token, data)| (number, token.number, data));
            prop_assert_eq!(open.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Compares the whole visible state of the table.
    fn compare(&self) -> Verdict {
        let (files, oracle) = (&self.files, self.oracle());
        prop_assert_eq!(files.open_count(), oracle.open_count());
        prop_assert_eq!(files.limit(), oracle.limit.min(1 << 31));
        let mut next = Some(0);
        while let Some(from) = next {
            let found = oracle.next_open(from);
            prop_assert_eq!(
                files
                    .iter_from(from)
                    .next()
                    .map(|(fd, ..)| fd)
                    .map(RawFd::from),
                found
            );
            if let Some(number) = found {
                let file = files.get(number).map(|object| object.number);
                prop_assert_eq!(file.ok(), oracle.get(number).map(|token| token.number).ok());
                prop_assert_eq!(files.fd_flags(number).ok(), oracle.flags(number).ok());
                let data = files.get_with_data(number).map(|(_, data)| data);
                let expected = oracle.open_with_data(number).map(|(_, data)| data);
                prop_assert_eq!(data.ok(), expected.ok());
            }
            next = found.and_then(|number| number.checked_add(1));
        }
        Ok(())
    }
}

fn replay(history: &History) -> Verdict {
    let processes = [const { OnceCell::new() }; PROCESSES];
    let first = processes[0].get_or_init(|| Process::new(history.limit));
    let mut replay = Replay {
        processes: &processes,
        children: Vec::new(),
        reserved: Vec::new(),
        held: Vec::new(),
        objects: Maker::default(),
        tokens: Maker::default(),
    };
    replay.open_many(first, history.open)?;
    for (which, action) in &history.steps {
        let alive: Vec<&Process> = processes.iter().filter_map(OnceCell::get).collect();
        let of = alive[which.index(alive.len())];
        replay.act(of, action)?;
        of.note_taken();
        of.compare_if_few()?;
        replay.compare_released()?;
    }
    processes
        .iter()
        .filter_map(OnceCell::get)
        .try_for_each(Process::compare)?;
    let mut children = replay.children.drain(..);
    children.try_for_each(|child| child.compare())?;
    drop(children);
    replay.reserved.clear();
    let rest = replay.end();
    drop(processes);
    rest.compare()
}

/// The rest after the reservations are gone: the files that are held beside the tables.
struct Rest {
    held: Vec<(FileRef<Rcu<Object>>, Arc<Token>)>,
    objects: Maker,
    tokens: Maker,
}

impl Rest {
    /// Compares the files that the tables have released, and then drops everything.
    fn compare(self) -> Verdict {
        compare_released(&self.objects, &self.tokens)?;
        drop(self.held);
        compare_released(&self.objects, &self.tokens)?;
        rcu::barrier().expect("outside of sections");
        let all: Vec<i32> = (0..self.tokens.made).collect();
        prop_assert_eq!(self.objects.ledger.take_dropped(), all);
        Ok(())
    }
}

fn compare_released(objects: &Maker, tokens: &Maker) -> Verdict {
    let expected = tokens.ledger.take_released();
    prop_assert_eq!(objects.ledger.take_released(), expected);
    Ok(())
}

/// Replays that many histories, or as many as the environment requests.
fn config(cases: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok();
    Config {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(cases),
        // Without optimisation, the default one takes three quarters of the time.
        rng_algorithm: RngAlgorithm::XorShift,
        failure_persistence: None,
        // Ten seconds, in ms: the shortest history that fails is worth no longer wait.
        max_shrink_time: 10_000,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config(250))]
    #[test]
    fn the_table_and_the_oracle_agree(history in history(Just(0), 400)) {
        replay(&history)?;
    }
}

proptest! {
    #![proptest_config(config(25))]
    #[test]
    fn they_agree_where_many_are_open(history in history(60..4200, 400)) {
        replay(&history)?;
    }
}

proptest! {
    #![proptest_config(config(6))]
    #[test]
    fn they_agree_where_a_node_of_the_tree_is_full(history in history(32_700..33_000, 400)) {
        replay(&history)?;
    }
}
