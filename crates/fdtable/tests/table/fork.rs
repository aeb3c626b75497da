//! Fork: parent and child share unchanged parts, and behave as two separate tables.
//!
//! Every table has a model, a map. After each step the table equals its map, opens get the lowest
//! descriptor that is free in the map, and a file that no map has is released: at once, without any
//! wait for readers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use fdtable::{Error, FdFlags, FileRef, Files, RawFd, Rcu, Reservation};

const NONE: FdFlags = FdFlags::empty();

/// Both sides of a leaf, of a node of leaves, and of the next level.
const SIZES: &[RawFd] = &[1, 2, 63, 64, 65, 128, 129, 4096, 5000];

/// Descriptors that make the tree higher, one after the other.
const FAR: &[RawFd] = &[32_767, 32_768, 1 << 24, RawFd::MAX];

/// The files of a test, and which of them are released.
#[derive(Default)]
struct Made {
    count: u64,
    released: Arc<Mutex<BTreeSet<u64>>>,
}

impl Made {
    fn file(&mut self) -> (u64, FileRef<Rcu<u64>>) {
        let (number, released) = (self.count, Arc::clone(&self.released));
        self.count += 1;
        let file = FileRef::builder(number)
            .on_release(move |&number, _| {
                assert!(released.lock().expect("no panic").insert(number), "once");
            })
            .rcu()
            .build();
        (number, file)
    }

    /// Checks that exactly the files without a table are released.
    fn check<'p>(&self, left: impl IntoIterator<Item = &'p Process>) {
        let open: BTreeSet<u64> = left
            .into_iter()
            .flat_map(|process| process.model.values().map(|&(file, _)| file))
            .collect();
        let gone: BTreeSet<u64> = (0..self.count)
            .filter(|file| !open.contains(file))
            .collect();
        assert_eq!(*self.released.lock().expect("no panic"), gone);
    }
}

/// A table and its model.
struct Process {
    files: Files<Rcu<u64>>,
    model: BTreeMap<RawFd, (u64, FdFlags)>,
}

impl Process {
    fn with(open: RawFd, made: &mut Made) -> Self {
        let mut first = Self {
            files: Files::with_limit(u32::MAX),
            model: BTreeMap::new(),
        };
        for fd in 0..open {
            first.open_as(fd, made);
        }
        first
    }

    fn open(&mut self, made: &mut Made) {
        let taken = self.model.keys().zip(0..);
        let lowest = taken.take_while(|&(&fd, count)| fd == count).count();
        self.open_as(lowest as RawFd, made);
    }

    /// Opens a file at the lowest free descriptor.
    fn open_as(&mut self, lowest: RawFd, made: &mut Made) {
        let (number, file) = made.file();
        let flags = if number % 3 == 0 {
            FdFlags::CLOEXEC
        } else {
            NONE
        };
        let fd = self.files.open(file, flags).expect("there is room");
        assert_eq!(fd.raw(), lowest, "the lowest free descriptor");
        self.model.insert(lowest, (number, flags));
    }

    fn put(&mut self, fd: RawFd, made: &mut Made) {
        let (number, file) = made.file();
        let from = self.files.open(file, NONE).expect("there is room");
        if from.raw() != fd {
            self.files.dup3(from, fd, NONE).expect("there is room");
            drop(self.files.close(from).expect("it is open"));
        }
        self.model.insert(fd, (number, NONE));
    }

    fn close(&mut self, fd: RawFd) {
        assert_eq!(
            self.files.close(fd).is_ok(),
            self.model.remove(&fd).is_some()
        );
    }

    fn close_range(&mut self, first: RawFd, last: RawFd) {
        let (from, to) = (first.cast_unsigned(), last.cast_unsigned());
        self.files.close_range(from, to, drop).expect("in order");
        self.model.retain(|fd, _| !(first..=last).contains(fd));
    }

    fn exec(&mut self) {
        self.files.close_on_exec(drop).expect("there is memory");
        self.model.retain(|_, (_, flags)| flags.is_empty());
    }

    fn set_flags(&mut self, fd: RawFd, flags: FdFlags) {
        self.files.set_fd_flags(fd, flags).expect("it is open");
        self.model.get_mut(&fd).expect("it is open").1 = flags;
    }

    fn fork(&self) -> Self {
        Self {
            files: self.files.fork().expect("there is memory"),
            model: self.model.clone(),
        }
    }

    /// Changes one leaf, in each possible way.
    fn change_leaf(&mut self, leaf: RawFd, made: &mut Made) {
        let last = leaf.saturating_mul(64).saturating_add(63);
        let open: Vec<RawFd> = self
            .model
            .range(leaf * 64..=last)
            .map(|(&fd, _)| fd)
            .collect();
        match open[..] {
            [] => {}
            [one] => self.put(one, made),
            [first, .., end] => {
                self.close(first);
                self.put(end, made);
                if let [_, second, _, ..] = open[..] {
                    self.set_flags(second, FdFlags::CLOEXEC);
                }
            }
        }
    }

    fn leaves(&self) -> BTreeSet<RawFd> {
        self.model.keys().map(|fd| fd / 64).collect()
    }

    fn check(&self) {
        let found = self.files.iter().map(|(fd, ..)| fd).map(|fd| {
            let file = **self.files.get(fd).expect("it is open");
            let flags = self.files.fd_flags(fd).expect("it is open");
            (fd.raw(), (file, flags))
        });
        assert!(found.eq(self.model.iter().map(|(&fd, &entry)| (fd, entry))));
        assert_eq!(self.files.open_count(), self.model.len());
    }
}

fn check_both(parent: &Process, child: &Process, made: &Made) {
    parent.check();
    child.check();
    made.check([parent, child]);
}

/// Changes every leaf of one and then of the other, or of both in turn.
fn change(order: usize, parent: &mut Process, child: &mut Process, made: &mut Made) {
    let leaves = parent.leaves();
    let mut each = |processes: &mut [&mut Process], leaf: RawFd| {
        for process in processes {
            process.change_leaf(leaf, made);
        }
    };
    match order {
        0 => leaves.iter().for_each(|&leaf| each(&mut [parent], leaf)),
        1 => leaves
            .iter()
            .rev()
            .for_each(|&leaf| each(&mut [child], leaf)),
        2 => leaves
            .iter()
            .for_each(|&leaf| each(&mut [parent, child], leaf)),
        _ => leaves
            .iter()
            .rev()
            .for_each(|&leaf| each(&mut [child, parent], leaf)),
    }
}

fn parent_and_child_change_all(mut first: impl FnMut(&mut Made) -> Process) {
    for order in 0..4 {
        let mut made = Made::default();
        let mut parent = first(&mut made);
        let mut child = parent.fork();
        check_both(&parent, &child, &made);
        change(order, &mut parent, &mut child, &mut made);
        check_both(&parent, &child, &made);
        // And the files that are left to the other.
        change(order ^ 1, &mut parent, &mut child, &mut made);
        check_both(&parent, &child, &made);
        for _ in 0..70 {
            parent.open(&mut made);
            child.open(&mut made);
        }
        check_both(&parent, &child, &made);
        drop(parent);
        child.check();
        made.check([&child]);
        drop(child);
        made.check([]);
    }
}

#[test]
fn parent_and_child_are_independent_whatever_their_size() {
    for &size in SIZES {
        parent_and_child_change_all(|made| Process::with(size, made));
    }
}

#[test]
fn parent_and_child_are_independent_at_every_height() {
    for count in 1..=FAR.len() {
        parent_and_child_change_all(|made| {
            let mut first = Process::with(70, made);
            FAR[..count].iter().for_each(|&fd| first.put(fd, made));
            first
        });
    }
}

#[test]
fn a_child_grows_and_its_parent_does_not_and_the_reverse() {
    for grows_first in [true, false] {
        let mut made = Made::default();
        let mut parent = Process::with(100, &mut made);
        let mut child = parent.fork();
        for &far in FAR {
            let grows = if grows_first { &mut parent } else { &mut child };
            grows.put(far, &mut made);
            check_both(&parent, &child, &made);
        }
    }
}

#[test]
fn the_lowest_number_is_found_by_both_when_some_were_closed_before_the_fork() {
    for closed in [0, 3, 64, 130, 640] {
        let mut made = Made::default();
        let mut parent = Process::with(700, &mut made);
        parent.close(closed);
        parent.close(650);
        let mut child = parent.fork();
        parent.open(&mut made);
        child.open(&mut made);
        child.close(66);
        child.open(&mut made);
        child.open(&mut made);
        parent.open(&mut made);
        child.open(&mut made);
        parent.open(&mut made);
        check_both(&parent, &child, &made);
    }
}

#[test]
fn a_child_of_a_full_table_closes_and_opens_as_any_other() {
    for limit in [1, 64, 65, 128] {
        let mut made = Made::default();
        let mut parent = Process::with(limit, &mut made);
        let soft = limit.unsigned_abs();
        parent.files.set_limit(soft);
        for _ in 0..2 {
            let refused = parent.files.reserve(NONE).map(drop);
            assert_eq!(refused, Err(Error::TooManyFiles));
            let mut child = parent.fork();
            for process in [&mut child, &mut parent] {
                process.close(limit - 1);
                process.open(&mut made);
                process.close(0);
                process.open(&mut made);
                let refused = process.files.reserve(NONE).map(drop);
                assert_eq!(refused, Err(Error::TooManyFiles));
            }
            check_both(&parent, &child, &made);
        }
    }
}

/// Every order of the first so many numbers.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let with_last = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, count - 1);
        order
    };
    shorter
        .iter()
        .flat_map(|order| (0..count).map(move |at| with_last(order, at)))
        .collect()
}

#[test]
fn generations_end_in_every_order() {
    for order in orders(4) {
        let mut made = Made::default();
        let mut first = Process::with(200, &mut made);
        first.put(40_000, &mut made);
        let mut family = vec![Some(first)];
        for generation in 1..4 {
            let mut child = family[generation - 1].as_ref().expect("alive").fork();
            let parent = family[generation - 1].as_mut().expect("alive");
            // The parent changes one leaf, the child another, and the third stays unchanged.
            parent.change_leaf(generation as RawFd - 1, &mut made);
            child.change_leaf(2, &mut made);
            child.open(&mut made);
            family.push(Some(child));
        }
        made.check(family.iter().flatten());
        for which in order {
            family[which] = None;
            family.iter().flatten().for_each(Process::check);
            made.check(family.iter().flatten());
        }
    }
}

#[test]
fn children_of_one_parent_end_before_it_and_after_it() {
    for parent_ends_at in [0, 2, 5] {
        let mut made = Made::default();
        let mut parent = Some(Process::with(300, &mut made));
        let mut children: Vec<Process> = Vec::new();
        for round in 0..5 {
            let parent = parent.as_mut().expect("alive");
            children.push(parent.fork());
            parent.change_leaf(round, &mut made);
        }
        for round in 0..=5 {
            if round == parent_ends_at {
                parent = None;
            }
            if round < 5 {
                drop(children.swap_remove(round % children.len()));
            }
            made.check(parent.iter().chain(&children));
            children.iter().for_each(Process::check);
        }
    }
}

/// The ways in which a table loses all its files.
const ENDS: &[fn(&mut Process)] = &[
    |process| {
        for fd in process.model.keys().copied().collect::<Vec<_>>() {
            process.close(fd);
        }
    },
    |process| {
        for fd in process.model.keys().rev().copied().collect::<Vec<_>>() {
            process.close(fd);
        }
    },
    |process| process.close_range(0, RawFd::MAX),
    |process| {
        process.close_range(100, 400);
        process.close_range(0, RawFd::MAX);
    },
    |process| {
        process
            .files
            .set_cloexec_range(0, u32::MAX)
            .expect("in order");
        let set = |entry: &mut (u64, FdFlags)| entry.1 = FdFlags::CLOEXEC;
        process.model.values_mut().for_each(set);
        process.exec();
    },
];

#[test]
fn hooks_run_at_the_last_close_of_the_last_table_however_it_closes() {
    for first_end in ENDS {
        for second_end in ENDS {
            let mut made = Made::default();
            let mut parent = Process::with(500, &mut made);
            parent.put(40_000, &mut made);
            let mut child = parent.fork();
            first_end(&mut child);
            check_both(&parent, &child, &made);
            second_end(&mut parent);
            check_both(&parent, &child, &made);
            assert_eq!(parent.files.open_count() + child.files.open_count(), 0);
        }
    }
}

#[test]
fn exec_and_close_range_in_a_child_leave_the_parent_as_it_is() {
    let mut made = Made::default();
    let parent = Process::with(1000, &mut made);
    let mut child = parent.fork();
    child.exec();
    check_both(&parent, &child, &made);
    child.close_range(10, 700);
    check_both(&parent, &child, &made);
    let mut grandchild = child.fork();
    grandchild.close_range(0, RawFd::MAX);
    grandchild.open(&mut made);
    check_both(&parent, &grandchild, &made);
    check_both(&parent, &child, &{
        drop(grandchild);
        made
    });
}

#[test]
fn a_lookup_in_the_one_table_goes_on_when_the_other_closes() {
    let mut made = Made::default();
    let mut parent = Process::with(200, &mut made);
    let child = parent.fork();
    let section = fdtable::rcu::read_lock();
    let borrowed = child.files.get_rcu(150, &section).expect("it is open");
    parent.close_range(0, RawFd::MAX);
    assert_eq!(*borrowed, 150);
    let file = borrowed.upgrade().expect("the child has it");
    drop(section);
    drop(child);
    assert_eq!(FileRef::strong_count(&file), 1);
}

/// Descriptors in the first leaf, in others, and where the tree is higher.
const RESERVED: &[RawFd] = &[
    0,
    5,
    63,
    64,
    65,
    127,
    300,
    4000,
    32_768,
    1 << 24,
    RawFd::MAX,
];

/// A parent with open descriptors around the reserved ones.
fn with_reservations(made: &mut Made) -> Process {
    let mut parent = Process::with(150, made);
    for &fd in RESERVED {
        parent.close(fd);
    }
    parent.put(301, made);
    parent
}

fn reserve(files: &Files<Rcu<u64>>) -> Vec<Reservation<'_, Rcu<u64>>> {
    let reserve = |&fd: &RawFd| {
        let reservation = files.reserve_from(fd, NONE).expect("it is free");
        assert_eq!(reservation.fd().raw(), fd);
        reservation
    };
    RESERVED.iter().map(reserve).collect()
}

#[test]
fn reserved_numbers_stay_with_the_parent_alone() {
    let mut made = Made::default();
    let parent = with_reservations(&mut made);
    let reservations = reserve(&parent.files);
    // A search passes over their leaves.
    let above = parent.files.dup(1).expect("there is room");
    drop(parent.files.close(above).expect("it is open"));
    let child = parent.fork();
    let mut grandchild = child.fork();
    child.check();
    for &fd in RESERVED {
        assert_eq!(child.files.close(fd).map(drop), Err(Error::BadFd));
        assert_eq!(parent.files.dup3(1, fd, NONE).map(drop), Err(Error::Busy));
        grandchild.put(fd, &mut made);
    }
    grandchild.check();
    let mut child = child;
    // All of them are free in the child, the lowest first.
    for _ in 0..20 {
        child.open(&mut made);
    }
    child.check();
    assert_eq!(
        parent.files.open_count(),
        parent.model.len() + RESERVED.len()
    );
    drop(reservations);
    parent.check();
    made.check([&parent, &child, &grandchild]);
}

#[test]
fn a_reservation_is_installed_or_dropped_after_the_fork() {
    for (children_end_first, generations) in [(true, 1), (false, 1), (true, 3), (false, 3)] {
        let mut made = Made::default();
        let mut parent = with_reservations(&mut made);
        let mut model = parent.model.clone();
        let mut children: Vec<Process> = Vec::new();
        for (count, reservation) in reserve(&parent.files).into_iter().enumerate() {
            for _ in 0..generations {
                children.push(parent.fork_as(&model));
            }
            if children_end_first {
                children.clear();
            }
            if count % 2 == 0 {
                let (number, file) = made.file();
                let fd = reservation.install(file).raw();
                model.insert(fd, (number, NONE));
            }
        }
        parent.model = model;
        parent.check();
        children.iter().for_each(Process::check);
        made.check(children.iter().chain([&parent]));
    }
}

impl Process {
    /// Forks after an install that the model does not know yet.
    fn fork_as(&self, model: &BTreeMap<RawFd, (u64, FdFlags)>) -> Self {
        Self {
            model: model.clone(),
            ..self.fork()
        }
    }
}

/// Looks for a descriptor that is taken in the child for good.
#[test]
fn reservations_where_opens_look_stay_with_the_parent_however_they_are_made() {
    for (open, elsewhere) in [(3, 0), (70, 0), (70, 10), (70, 100)] {
        let mut made = Made::default();
        let mut parent = Process::with(open, &mut made);
        for count in [1, 1, 3, 3] {
            // Of the second leaf, only the first reservation has to list it.
            install(&mut parent, &mut made, 1, |_| ());
            // The list forgets that leaf, which has none any more.
            for leaf in 10..10 + elsewhere {
                drop(
                    parent
                        .files
                        .reserve_from(leaf * 64, NONE)
                        .expect("it is free"),
                );
            }
            let mut child = None;
            install(&mut parent, &mut made, count, |parent| {
                child = Some(parent.fork());
            });
            let mut child = child.expect("forked");
            child.open(&mut made);
            child.check();
            parent.check();
            made.check([&parent, &child]);
        }
    }
}

/// Reserves, does something, and installs.
fn install(process: &mut Process, made: &mut Made, count: usize, between: impl FnOnce(&Process)) {
    let reserve = |_| process.files.reserve(NONE).expect("there is room");
    let reservations: Vec<_> = (0..count).map(reserve).collect();
    between(process);
    let mut installed = Vec::new();
    for reservation in reservations {
        let (number, file) = made.file();
        installed.push((reservation.install(file).raw(), (number, NONE)));
    }
    process.model.extend(installed);
}

#[test]
fn a_reservation_of_a_child_stays_with_the_child() {
    let mut made = Made::default();
    let mut parent = with_reservations(&mut made);
    let child = parent.fork();
    let reservations = reserve(&child.files);
    let grandchild = child.fork();
    parent.open(&mut made);
    parent.check();
    grandchild.check();
    drop(parent);
    drop(reservations);
    child.check();
    made.check([&child, &grandchild]);
}

#[test]
fn a_child_has_the_limit_of_its_parent_and_then_its_own() {
    let parent: Files<()> = Files::new();
    parent.set_limit(70);
    let child = parent.fork().expect("there is memory");
    assert_eq!(child.limit(), 70);
    child.set_limit(100);
    assert_eq!((parent.limit(), child.limit()), (70, 100));
}

/// Changes a table, with files of the test.
type Change = fn(&Files<Rcu<u64>>, &mut dyn FnMut() -> FileRef<Rcu<u64>>);

/// Histories of a table that a fork replaces.
const HAD: &[(&str, Change)] = &[
    ("nothing", |_, _| ()),
    ("another limit", |files, _| files.set_limit(5)),
    ("a descriptor", |files, file| {
        files.open(file(), FdFlags::CLOEXEC).unwrap();
    }),
    ("a closed descriptor with a word", |files, file| {
        let fd = files.open(file(), NONE).unwrap();
        files.set_word(fd, 7).unwrap();
        drop(files.close(fd).unwrap());
    }),
    ("many descriptors", |files, file| {
        for _ in 0..200 {
            files.open(file(), NONE).unwrap();
        }
    }),
    ("many closed descriptors", |files, file| {
        for _ in 0..200 {
            files.open_any(file(), NONE).unwrap();
        }
        files.close_range(0, u32::MAX, drop).unwrap();
    }),
    ("a full leaf", |files, file| {
        for _ in 0..65 {
            files.open(file(), NONE).unwrap();
        }
        files.close_range(60, u32::MAX, drop).unwrap();
    }),
    ("a full table, closed", |files, file| {
        files.set_limit(64);
        while files.open(file(), NONE).is_ok() {}
        for fd in 0..64 {
            drop(files.close(fd).unwrap());
        }
    }),
    ("quarantine", |files, file| {
        files.set_quarantine(100).expect("there is memory");
        let fd = files.open(file(), NONE).unwrap();
        drop(files.close(fd).unwrap());
    }),
    ("a forgotten reservation", |files, _| {
        std::mem::forget(files.reserve(NONE).unwrap());
    }),
];

#[test]
fn a_fork_replaces_whatever_a_table_has_had() {
    for parents in [5, 64, 200] {
        for (what, have) in HAD {
            let mut made = Made::default();
            let parent = Process::with(parents, &mut made);
            let mut files = Files::new();
            have(&files, &mut || made.file().1);
            parent.files.fork_into(&mut files).expect("there is memory");
            assert_eq!(files.limit(), parent.files.limit(), "{what}");
            let mut child = Process {
                files,
                model: parent.model.clone(),
            };
            child.check();
            made.check([&parent, &child]);
            child.close(3);
            child.close(0);
            for _ in 0..70 {
                child.open(&mut made);
            }
            child.check();
            parent.check();
        }
    }
}

#[test]
fn fork_keeping_asks_of_each_open_descriptor_in_order_and_keeps_what_it_is_told() {
    let mut made = Made::default();
    let parent = with_reservations(&mut made);
    let reservations = reserve(&parent.files);
    let mut asked = Vec::new();
    let files = parent.files.fork_keeping(|fd, file, data| {
        asked.push((fd.raw(), (***file, data.flags)));
        fd.raw() % 5 == 1
    });
    let all: Vec<_> = parent
        .model
        .iter()
        .map(|(&fd, &entry)| (fd, entry))
        .collect();
    assert_eq!(asked, all);
    let mut child = Process {
        files: files.expect("there is memory"),
        model: parent.model.clone(),
    };
    child.model.retain(|fd, _| fd % 5 == 1);
    child.check();
    drop(reservations);
    check_both(&parent, &child, &made);
    drop(parent);
    // Only the parent had the files that were not kept.
    made.check([&child]);
    child.open(&mut made);
    child.check();
}

#[test]
fn fork_keeping_all_or_nothing() {
    let mut made = Made::default();
    let parent = Process::with(5000, &mut made);
    for (keep, count) in [(true, 5000), (false, 0)] {
        let child = parent.files.fork_keeping(|_, _, _| keep);
        assert_eq!(child.expect("there is memory").open_count(), count);
        parent.check();
        made.check([&parent]);
    }
}

#[test]
fn what_asks_in_fork_keeping_may_use_both_tables_of_others() {
    let parent = Files::new();
    let fd = parent.open(FileRef::new(1), NONE).expect("there is room");
    let child = parent.fork_keeping(|asked, _, _| {
        // Outside of locks: the parent may be changed meanwhile.
        drop(parent.close(asked).expect("it is open still"));
        true
    });
    assert_eq!(child.expect("there is memory").get(fd).as_deref(), Ok(&1));
}

#[test]
fn what_a_grandchild_closes_stays_open_in_a_child_that_has_only_closed() {
    let parent: Files<usize> = Files::new();
    for number in 0..400 {
        parent.open(FileRef::new(number), FdFlags::empty()).unwrap();
    }
    let child = parent.fork().unwrap();
    child.close_range(64, 127, drop).unwrap();
    let grandchild = child.fork().unwrap();
    grandchild.close_range(128, 191, drop).unwrap();
    let open = |files: &Files<usize>| (0..400).filter(|&fd| files.get(fd).is_ok()).count();
    assert_eq!([&parent, &child, &grandchild].map(open), [400, 336, 272]);
}
