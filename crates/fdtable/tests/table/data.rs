//! The data of descriptors: which calls give it, keep it and clear it, and what lookups find.

use std::sync::Arc;
use std::thread;

use fdtable::{Error, FdData, FdFlags, FileRef, Files, RawFd, rcu};

const NONE: FdFlags = FdFlags::empty();
const CLOEXEC: FdFlags = FdFlags::CLOEXEC;
const OPEN: &str = "it is open";
const ROOM: &str = "there is room";
const MEMORY: &str = "there is memory";

const PLAIN: FdData = FdData::new(NONE, 0);

/// Every part is set.
const ALL: FdData = FdData::new(CLOEXEC, u64::MAX);

/// Each part alone, and all of them.
const KINDS: &[FdData] = &[PLAIN, FdData::new(CLOEXEC, 0), FdData::new(NONE, 7), ALL];

/// The first descriptors of leaves: the first leaf, another, and one where the tree is higher.
const BASES: &[RawFd] = &[0, 64, 40_000];

/// Always open, and no call changes it.
const SOURCE: RawFd = 200_000;

/// [`SOURCE`] is open, and the descriptor after each base.
fn table() -> Files<u32> {
    let files = Files::with_limit(u32::MAX);
    let open = |fd| files.open_at(fd, FileRef::new(99), NONE).expect(ROOM);
    open(SOURCE);
    BASES.iter().for_each(|base| open(base + 1));
    files
}

/// Gives the leaf of a base a table of data, in which all is plain.
fn add_table(files: &Files<u32>, base: RawFd) {
    files.set_word(base + 1, 5).expect(OPEN);
    files.set_word(base + 1, 0).expect(OPEN);
}

/// A [`table`] in which the leaves of all bases have tables of data.
fn with_tables() -> Files<u32> {
    let files = table();
    BASES.iter().for_each(|&base| add_table(&files, base));
    files
}

/// Returns the data of an open descriptor, and checks that all calls agree about it.
#[track_caller]
fn data(files: &Files<u32>, fd: RawFd) -> FdData {
    let flags = files.fd_flags(fd).expect(OPEN);
    let listed = files.iter().find(|(open, ..)| open.raw() == fd);
    let (file, found) = files.get_with_data(fd).expect(OPEN);
    let (_, listed_file, listed) = listed.expect(OPEN);
    assert_eq!((found.flags, *file), (flags, *listed_file), "{fd}");
    assert_eq!(found, listed, "{fd}");
    found
}

type OpenWith = fn(&Files<u32>, RawFd, FdData) -> Result<(), Error>;

/// The calls that open a free descriptor with data. The lowest ones of the table are taken, so that
/// each gets the one that is asked for.
#[rustfmt::skip]
const OPENS: &[(&str, OpenWith)] = &[
    ("open_at", |files, fd, data| files.open_at(fd, FileRef::new(1), data)),
    ("replace", |files, fd, data| files.replace(fd, FileRef::new(1), data).map(drop)),
    ("dup_min", |files, fd, data| files.dup_min(SOURCE, fd, data).map(drop)),
    ("dup_with", |files, fd, data| files.dup_with(SOURCE, fd, |_| data).map(drop)),
    ("dup3", |files, fd, data| files.dup3(SOURCE, fd, data).map(drop)),
    ("install_with", |files, fd, data| {
        let reserved = files.reserve_from(fd, NONE)?;
        reserved.install_with(FileRef::new(1), data).map(drop)
    }),
    ("install_with other flags", |files, fd, data| {
        let reserved = files.reserve_from(fd, CLOEXEC)?;
        reserved.install_with(FileRef::new(1), data).map(drop)
    }),
];

#[test]
fn each_call_that_opens_gives_the_data_that_it_is_called_with() {
    for (name, open) in OPENS {
        for &kind in KINDS {
            for files in [table(), with_tables(), table().fork().expect(MEMORY)] {
                for base in BASES {
                    open(&files, *base, kind).expect(ROOM);
                    assert_eq!(data(&files, *base), kind, "{name} at {base}");
                    assert_eq!(data(&files, base + 1), PLAIN, "{name} beside {base}");
                }
            }
        }
    }
}

#[test]
fn an_open_of_the_lowest_or_of_any_gives_the_data_that_it_is_called_with() {
    for &kind in KINDS {
        let files = Files::with_limit(u32::MAX);
        for number in 0..130 {
            let file = || FileRef::new(number);
            let lowest = files.open(file(), kind).expect(ROOM).raw();
            assert_eq!(data(&files, lowest), kind);
            let any = files.open_any(file(), kind).expect(ROOM).raw();
            assert_eq!(data(&files, any), kind);
        }
    }
}

#[test]
fn data_is_made_of_flags_alone_or_of_flags_and_a_word() {
    assert_eq!(FdData::default(), PLAIN);
    assert_eq!(FdData::from(CLOEXEC), FdData::new(CLOEXEC, 0));
    assert_eq!(FdData::from((CLOEXEC, 3)), FdData::new(CLOEXEC, 3));
}

#[test]
fn a_reservation_gives_its_data_to_the_file_that_is_installed_and_to_no_other() {
    for (files, &kind) in [table, with_tables].into_iter().flat_map(|table| {
        let each = move |kind| (table(), kind);
        KINDS.iter().map(each)
    }) {
        for base in BASES {
            drop(files.reserve_from(*base, kind).expect(ROOM));
            files.open_at(*base, FileRef::new(1), NONE).expect(ROOM);
            assert_eq!(data(&files, *base), PLAIN);
            drop(files.close(*base).expect(OPEN));
            let reserved = files.reserve_from(*base, kind).expect(ROOM);
            reserved.install(FileRef::new(1));
            assert_eq!(data(&files, *base), kind);
        }
        let lowest = files.reserve(kind).expect(ROOM).install(FileRef::new(2));
        assert_eq!(data(&files, lowest.raw()), kind);
        let any = files
            .reserve_any(kind)
            .expect(ROOM)
            .install(FileRef::new(3));
        assert_eq!(data(&files, any.raw()), kind);
    }
}

#[test]
fn dup_and_dup2_give_no_data() {
    for files in [table(), with_tables()] {
        for base in BASES {
            files.open_at(*base, FileRef::new(1), ALL).expect(ROOM);
            files.open_at(base + 5, FileRef::new(2), ALL).expect(ROOM);
            drop(files.dup2(*base, base + 5).expect(ROOM));
            assert_eq!(data(&files, base + 5), PLAIN);
            drop(files.dup2(*base, *base).expect(ROOM));
            assert_eq!(
                data(&files, *base),
                ALL,
                "the same descriptor is not changed"
            );
            let copy = files.dup(*base).expect(ROOM).raw();
            assert_eq!(data(&files, copy), PLAIN);
            drop(files.dup3(*base, base + 5, (CLOEXEC, 3)).expect(ROOM));
            assert_eq!(data(&files, base + 5), (CLOEXEC, 3).into());
            drop(files.dup3(*base, base + 5, NONE).expect(ROOM));
            assert_eq!(data(&files, base + 5), PLAIN);
        }
    }
}

#[test]
fn a_word_is_set_alone_and_the_one_before_is_returned() {
    for &kind in KINDS {
        let files = table();
        for base in BASES {
            files.open_at(*base, FileRef::new(1), kind).expect(ROOM);
            assert_eq!(files.set_word(*base, 1), Ok(kind.word));
            assert_eq!(data(&files, *base), FdData::new(kind.flags, 1));
            assert_eq!(files.set_word(*base, u64::MAX), Ok(1));
            assert_eq!(files.set_word(*base, 0), Ok(u64::MAX));
            assert_eq!(data(&files, *base), FdData::new(kind.flags, 0));
        }
    }
}

#[test]
fn a_word_is_exchanged_if_it_is_the_expected_one() {
    let files = table();
    for base in BASES {
        assert_eq!(files.exchange_word(base + 1, 1, 2), Ok(0));
        assert_eq!(data(&files, base + 1), PLAIN);
        assert_eq!(files.exchange_word(base + 1, 0, 2), Ok(0));
        assert_eq!(files.exchange_word(base + 1, 0, 3), Ok(2));
        assert_eq!(data(&files, base + 1), (NONE, 2).into());
        assert_eq!(files.exchange_word(base + 1, 2, 2), Ok(2));
        assert_eq!(files.exchange_word(base + 1, 2, 0), Ok(2));
        assert_eq!(data(&files, base + 1), PLAIN);
    }
}

#[test]
fn the_calls_that_change_flags_keep_the_rest() {
    let files = table();
    for base in BASES {
        files.open_at(*base, FileRef::new(1), ALL).expect(ROOM);
        for flags in [NONE, CLOEXEC, NONE] {
            files.set_fd_flags(*base, flags).expect(OPEN);
            assert_eq!(data(&files, *base), FdData::new(flags, ALL.word));
        }
        files.set_cloexec_range(*base, base + 1).expect("in order");
        assert_eq!(data(&files, *base), ALL);
        assert_eq!(data(&files, base + 1), CLOEXEC.into());
        files.set_fd_flags(base + 1, NONE).expect(OPEN);
    }
}

#[test]
fn a_descriptor_that_is_not_open_has_no_data() {
    for files in [table(), with_tables()] {
        files.open_at(0, FileRef::new(1), ALL).expect(ROOM);
        drop(files.close(0).expect(OPEN));
        let reserved = files.reserve_from(64, CLOEXEC).expect(ROOM);
        for fd in [RawFd::MIN, -1, 0, 2, 64, 66, 500, 100_000, RawFd::MAX] {
            assert_eq!(files.get_with_data(fd).map(drop), Err(Error::BadFd));
            assert_eq!(files.set_word(fd, 1), Err(Error::BadFd));
            assert_eq!(files.set_word(fd, 0), Err(Error::BadFd));
            assert_eq!(files.exchange_word(fd, 0, 1), Err(Error::BadFd));
            assert_eq!(files.exchange_word(fd, 1, 1), Err(Error::BadFd));
            assert_eq!(files.close_if(fd, None).map(drop), Err(Error::BadFd));
        }
        assert_eq!(reserved.fd().raw(), 64);
        drop(reserved);
        assert_eq!(files.iter().count(), 4);
    }
}

#[test]
fn a_revoked_file_is_eio_and_its_data_can_be_changed() {
    let files = with_tables();
    for base in BASES {
        files.open_at(*base, FileRef::new(1), ALL).expect(ROOM);
        FileRef::revoke(&files.get(*base).expect(OPEN));
        let found = files.get_with_data(*base).map(drop);
        assert_eq!(found, Err(Error::Revoked));
        assert_eq!(files.set_word(*base, 3), Ok(u64::MAX));
        let listed = files.iter().find(|(fd, ..)| fd.raw() == *base);
        let (_, file, data) = listed.expect("revoked ones are listed");
        assert_eq!((*file, data), (1, FdData::new(ALL.flags, 3)));
        assert_eq!(files.close_if(*base, None).expect(OPEN).1.word, 3);
    }
}

#[test]
fn a_lookup_inside_a_section_finds_the_data() {
    let files = table();
    let section = rcu::read_lock();
    for base in BASES {
        assert_eq!(files.get_with_data(base + 1).expect(OPEN).1, PLAIN);
        files.set_word(base + 1, 3).expect(OPEN);
        assert_eq!(files.get_with_data(base + 1).expect(OPEN).1.word, 3);
    }
    drop(section);
}

#[test]
fn an_iteration_is_in_order_and_finds_files_with_their_data() {
    let files = table();
    files.open_at(3, FileRef::new(1), ALL).expect(ROOM);
    let reserved = files.reserve_from(5, CLOEXEC).expect(ROOM);
    let found: Vec<_> = files
        .iter()
        .map(|(fd, file, data)| (fd.raw(), *file, data))
        .collect();
    let rest = [64 + 1, 40_000 + 1, SOURCE].map(|fd| (fd, 99, PLAIN));
    assert_eq!(found[..2], [(1, 99, PLAIN), (3, 1, ALL)]);
    assert_eq!(found[2..], rest);
    drop(reserved);
}

type Close = fn(&Files<u32>, RawFd);

/// The calls that close an open descriptor.
#[rustfmt::skip]
const CLOSES: &[(&str, Close)] = &[
    ("close", |files, fd| drop(files.close(fd).expect(OPEN))),
    ("close_with_data", |files, fd| drop(files.close_if(fd, None).expect(OPEN))),
    ("close_if", |files, fd| {
        let file = files.get(fd).expect(OPEN);
        drop(files.close_if(fd, Some(&file)).expect(OPEN));
    }),
    ("close_range", |files, fd| files.close_range(fd, fd, drop).expect("in order")),
    ("close_range of the leaf", |files, fd| files.close_range(fd & !63, fd | 63, drop).expect("in order")),
    ("close_on_exec", |files, _| files.close_on_exec(drop).expect(MEMORY)),
    ("rename", |files, fd| drop(files.rename(fd, fd ^ 32).expect(OPEN))),
    ("rename to another leaf", |files, fd| drop(files.rename(fd, fd ^ 4096).expect(OPEN))),
];

/// The calls that open a given free descriptor without data. Each is tried first after a close.
#[rustfmt::skip]
const PLAIN_OPENS: &[(&str, Close)] = &[
    ("install", |files, fd| _ = files.reserve_from(fd, NONE).expect(ROOM).install(FileRef::new(3))),
    ("dup_min", |files, fd| _ = files.dup_min(SOURCE, fd, NONE).expect(ROOM)),
    ("dup3", |files, fd| drop(files.dup3(SOURCE, fd, NONE).expect(ROOM))),
    ("open_at", |files, fd| files.open_at(fd, FileRef::new(3), NONE).expect(ROOM)),
    ("replace", |files, fd| drop(files.replace(fd, FileRef::new(3), NONE).expect(ROOM))),
    ("rename", |files, fd| {
        files.open_at(SOURCE + 1, FileRef::new(3), NONE).expect(ROOM);
        drop(files.rename(SOURCE + 1, fd).expect(ROOM));
    }),
];

/// Runs a scenario that leaves a descriptor free, opens the descriptor in each of the plainest ways
/// and finds nothing of its earlier uses. The scenario returns the tables.
fn check_plain<const N: usize>(what: &str, fd: RawFd, scenario: impl Fn() -> [Files<u32>; N]) {
    for (how, open) in PLAIN_OPENS {
        for files in scenario() {
            assert!(files.get(fd).is_err(), "{what} of {fd}");
            open(&files, fd);
            assert_eq!(data(&files, fd), PLAIN, "{what}, {how} of {fd}");
            drop(files.close(fd).expect(OPEN));
        }
    }
    check_lowest(what, scenario());
}

/// Opens the lowest descriptors and any, and finds nothing of their earlier uses.
fn check_lowest(what: &str, tables: impl IntoIterator<Item = Files<u32>>) {
    for files in tables {
        for _ in 0..70 {
            let lowest = files.open(FileRef::new(3), NONE).expect(ROOM);
            assert_eq!(data(&files, lowest.raw()), PLAIN, "{what}: {lowest:?}");
            let any = files.open_any(FileRef::new(3), NONE).expect(ROOM);
            assert_eq!(data(&files, any.raw()), PLAIN, "{what}: {any:?}");
        }
    }
}

#[test]
fn a_closed_descriptor_leaves_no_data() {
    for (name, close) in CLOSES {
        for &base in BASES {
            for quarantine in [0, 3] {
                check_plain(name, base, || {
                    let files = with_tables();
                    files.set_quarantine(quarantine).expect("there is memory");
                    files.open_at(base, FileRef::new(1), ALL).expect(ROOM);
                    close(&files, base);
                    files.set_quarantine(0).expect("there is memory");
                    [files]
                });
            }
        }
    }
}

#[test]
fn a_descriptor_that_was_closed_in_a_child_leaves_no_data() {
    for (name, close) in CLOSES {
        for &base in BASES {
            check_plain(name, base, || {
                let parent = with_tables();
                parent.open_at(base, FileRef::new(1), ALL).expect(ROOM);
                let child = parent.fork().expect(MEMORY);
                close(&child, base);
                assert_eq!(data(&parent, base), ALL, "{name}");
                [child]
            });
        }
    }
}

/// A leaf that is emptied stays for a while, and is used again.
#[test]
fn a_leaf_that_was_idle_has_no_data() {
    let files = table();
    for round in 0..3 {
        for leaf in 2..40 {
            let fd = leaf * 64;
            files.open_at(fd, FileRef::new(round), NONE).expect(ROOM);
            assert_eq!(data(&files, fd), PLAIN);
            assert_eq!(files.set_word(fd, 7), Ok(0));
            files.set_fd_flags(fd, CLOEXEC).expect(OPEN);
        }
        for leaf in 2..40 {
            drop(files.close(leaf * 64).expect(OPEN));
        }
    }
}

type Reserve = fn(&Files<u32>, RawFd);

/// The calls that take a descriptor with flags, and leave it free without a file.
#[rustfmt::skip]
const RESERVES: &[(&str, Reserve)] = &[
    ("reserve_from", |files, fd| drop(files.reserve_from(fd, CLOEXEC).expect(ROOM))),
    ("install_with", |files, fd| {
        let reserved = files.reserve_from(fd, CLOEXEC).expect(ROOM);
        let unknown = FdFlags::from_bits_retain(4);
        let refused = reserved.install_with(FileRef::new(1), (unknown, 7));
        assert_eq!(refused, Err(Error::InvalidArgument));
    }),
];

#[test]
fn a_reservation_that_is_dropped_leaves_no_flags() {
    for (name, reserve) in RESERVES {
        for &base in BASES {
            check_plain(name, base, || {
                let files = with_tables();
                reserve(&files, base);
                [files]
            });
        }
    }
}

type ReserveLowest = fn(&Arc<Files<u32>>);

/// The calls that take the lowest descriptors with flags, and leave them free without files.
#[rustfmt::skip]
const RESERVES_LOWEST: &[(&str, ReserveLowest)] = &[
    ("reserve", |files| drop(files.reserve(CLOEXEC).expect(ROOM))),
    ("reserve_many", |files| drop(files.reserve_many(3, CLOEXEC).expect(ROOM))),
    ("reserve_many, and not all are used", |files| {
        let mut some = files.reserve_many(70, CLOEXEC).expect(ROOM);
        drop(some.next());
    }),
    ("reserve_many of too many", |files| refuse_many(files, 67)),
    ("reserve_many of too many, in steps", |files| refuse_many(files, 300)),
    ("open_pair of too many", |files| {
        files.set_limit(1);
        let pair = (FileRef::new(1), FileRef::new(2));
        assert_eq!(files.open_pair(pair, CLOEXEC), Err(Error::TooManyFiles));
        files.set_limit(u32::MAX);
    }),
];

fn refuse_many(files: &Files<u32>, limit: u32) {
    files.set_limit(limit);
    let refused = files.reserve_many(limit as usize - 1, CLOEXEC).map(drop);
    assert_eq!(refused, Err(Error::TooManyFiles));
    files.set_limit(u32::MAX);
}

#[test]
fn reservations_of_the_lowest_that_are_dropped_leave_no_flags() {
    for (name, reserve) in RESERVES_LOWEST {
        let files = Arc::new(with_tables());
        reserve(&files);
        check_lowest(name, Arc::into_inner(files));
    }
}

#[test]
fn a_child_has_no_flags_of_what_its_parent_has_reserved() {
    for &base in BASES {
        check_plain("a child", base, || {
            let parent = with_tables();
            let reserved = parent.reserve_from(base, CLOEXEC).expect(ROOM);
            let (child, other) = (parent.fork(), parent.fork().expect(MEMORY));
            let grandchild = other.fork().expect(MEMORY);
            reserved.install(FileRef::new(1));
            assert_eq!(data(&parent, base), CLOEXEC.into());
            [child.expect(MEMORY), other, grandchild]
        });
    }
}

/// A table of data that is made while a descriptor is taken and has no file any more.
#[test]
fn a_descriptor_in_quarantine_leaves_no_flags() {
    for &base in BASES {
        check_plain("quarantine", base, || {
            let files = table();
            files.set_quarantine(2).expect("there is memory");
            files.open_at(base, FileRef::new(1), CLOEXEC).expect(ROOM);
            drop(files.close(base).expect(OPEN));
            add_table(&files, base);
            let child = files.fork().expect(MEMORY);
            child.set_quarantine(0).expect("there is memory");
            files.set_quarantine(0).expect("there is memory");
            [files, child]
        });
    }
}

#[test]
fn a_child_has_its_own_data_from_the_fork_on() {
    let parent = table();
    for base in BASES {
        parent.open_at(*base, FileRef::new(1), ALL).expect(ROOM);
    }
    let child = parent.fork().expect(MEMORY);
    for base in BASES {
        assert_eq!(data(&child, *base), ALL);
        assert_eq!(data(&child, base + 1), PLAIN);
        assert_eq!(child.set_word(*base, 1), Ok(ALL.word));
        assert_eq!(parent.set_word(*base, 3), Ok(ALL.word));
        assert_eq!(child.set_word(base + 1, 2), Ok(0));
        assert_eq!(data(&child, *base), FdData::new(ALL.flags, 1));
        assert_eq!(data(&parent, *base), FdData::new(ALL.flags, 3));
        assert_eq!(data(&parent, base + 1), PLAIN);
    }
    drop(parent);
    for base in BASES {
        assert_eq!(data(&child, *base), FdData::new(ALL.flags, 1));
    }
}

#[test]
fn a_child_that_keeps_some_is_asked_with_their_data() {
    let parent = table();
    for base in BASES {
        parent.open_at(*base, FileRef::new(1), ALL).expect(ROOM);
        parent
            .open_at(base + 2, FileRef::new(2), (NONE, 7))
            .expect(ROOM);
    }
    let child = parent.fork_keeping(|fd, file, data| {
        let expected = match fd.raw() {
            SOURCE => (99, PLAIN),
            fd if fd % 8 == 0 => (1, ALL),
            fd if fd % 8 == 1 => (99, PLAIN),
            _ => (2, (NONE, 7).into()),
        };
        assert_eq!((**file, data), expected);
        data.word == 7
    });
    let child = child.expect(MEMORY);
    let kept: Vec<_> = child.iter().map(|(fd, _, data)| (fd.raw(), data)).collect();
    let expected = BASES.iter().map(|base| (base + 2, (NONE, 7).into()));
    assert_eq!(kept, expected.collect::<Vec<_>>());
    for base in BASES {
        for fd in [*base, base + 1] {
            child.open_at(fd, FileRef::new(3), NONE).expect(ROOM);
            assert_eq!(data(&child, fd), PLAIN);
        }
        assert_eq!(data(&parent, *base), ALL);
    }
}

#[test]
fn exec_closes_by_the_flag_and_keeps_the_data_of_the_rest() {
    let kept = FdData::new(NONE, ALL.word);
    for parent in [table(), with_tables()] {
        for base in BASES {
            parent.open_at(*base, FileRef::new(1), ALL).expect(ROOM);
            parent.open_at(base + 2, FileRef::new(2), kept).expect(ROOM);
            parent
                .open_at(base + 3, FileRef::new(3), CLOEXEC)
                .expect(ROOM);
            parent.set_fd_flags(base + 3, NONE).expect(OPEN);
        }
        let child = parent.fork().expect(MEMORY);
        for files in [child, parent] {
            let mut closed = Vec::new();
            let each = |some: fdtable::ClosedFiles<u32>| {
                closed.extend(
                    some.descriptors()
                        .map(|(fd, file, data)| (fd.raw(), *file, data)),
                );
            };
            files.close_on_exec(each).expect(MEMORY);
            let expected: Vec<_> = BASES.iter().map(|base| (*base, 1, ALL)).collect();
            assert_eq!(closed, expected);
            for base in BASES {
                assert_eq!(data(&files, base + 1), PLAIN);
                assert_eq!(data(&files, base + 2), kept);
                assert_eq!(data(&files, base + 3), PLAIN);
            }
        }
    }
}

#[test]
fn a_range_that_is_closed_has_its_descriptors_with_their_data() {
    // A part of each leaf, and whole leaves.
    for (first, last) in [(0, SOURCE - 1), (0, RawFd::MAX), (64, 127), (1, 2)] {
        for quarantine in [0, 3] {
            let parent = table();
            for base in BASES {
                parent.open_at(*base, FileRef::new(1), ALL).expect(ROOM);
                parent
                    .open_at(base + 63, FileRef::new(2), CLOEXEC)
                    .expect(ROOM);
            }
            let reserved = parent.reserve_from(70, NONE).expect(ROOM);
            let child = parent.fork().expect(MEMORY);
            for files in [&child, &parent] {
                files.set_quarantine(quarantine).expect("there is memory");
                let in_range = |(fd, file, data): (fdtable::Fd, FileRef<u32>, FdData)| {
                    (first..=last)
                        .contains(&fd.raw())
                        .then(|| (fd.raw(), *file, data))
                };
                let expected: Vec<_> = files.iter().filter_map(in_range).collect();
                let mut closed = Vec::new();
                let each = |some: fdtable::ClosedFiles<u32>| {
                    let these = some.descriptors();
                    let these: Vec<_> = these
                        .map(|(fd, file, data)| (fd.raw(), *file, data))
                        .collect();
                    let names: Vec<u32> = some.files().map(|file| *file).collect();
                    assert_eq!(these.iter().map(|it| it.1).collect::<Vec<_>>(), names);
                    closed.extend(these);
                };
                files.close_range(first, last, each).expect("in order");
                assert_eq!(closed, expected);
            }
            drop(reserved);
        }
    }
}

#[test]
fn a_closed_descriptor_comes_with_the_data_that_it_had() {
    for files in [table(), with_tables()] {
        for base in BASES {
            for &kind in KINDS {
                files.open_at(*base, FileRef::new(1), kind).expect(ROOM);
                let file = files.get(*base).expect(OPEN);
                let (closed, data) = files.close_if(*base, None).expect(OPEN);
                assert_eq!((*closed, data), (1, kind));
                assert_eq!(FileRef::strong_count(&file), 2);
                assert!(FileRef::ptr_eq(&closed.into_file(), &file));
                assert_eq!(FileRef::strong_count(&file), 1);
            }
        }
    }
}

#[test]
fn a_reservation_is_installed_with_data_by_another_thread() {
    for &kind in KINDS {
        let files = table();
        let reserved = files.reserve(CLOEXEC).expect(ROOM);
        assert_eq!(reserved.fd().raw(), 0);
        let fd = thread::scope(|scope| {
            let install = || reserved.install_with(FileRef::new(4), kind);
            scope.spawn(install).join().expect("no panic")
        });
        assert_eq!(fd.map(|fd| fd.raw()), Ok(0));
        assert_eq!(data(&files, 0), kind);
    }
}

#[test]
fn a_reservation_that_is_refused_its_data_ends() {
    let files: Files<u32> = Files::with_limit(1);
    let unknown = FdFlags::from_bits_retain(4);
    let reserved = files.reserve(NONE).expect(ROOM);
    let installed = reserved.install_with(FileRef::new(1), (unknown, 1));
    assert_eq!(installed, Err(Error::InvalidArgument));
    assert_eq!(files.open_count(), 0);
}

/// `dup_with` shows the data of the descriptor, and keeps what is returned; without a lock, so the
/// caller may close the descriptor meanwhile, and also for a file that was revoked.
#[test]
fn a_duplicate_keeps_what_its_caller_chooses() {
    for &base in BASES {
        for &kind in KINDS {
            let files = table();
            files.open_at(base, FileRef::new(1), kind).expect(ROOM);
            FileRef::revoke(&files.get(base).expect(OPEN));
            let kept = FdData::new(kind.flags ^ CLOEXEC, kind.word & 5);
            let copy = files.dup_with(base, base, |data| {
                assert_eq!(data, kind);
                drop(files.close(base).expect(OPEN));
                kept
            });
            assert_eq!(copy.expect(ROOM).raw(), base, "free again");
            let (_, file, data) = files.iter_from(base).next().expect(OPEN);
            assert!(*file == 1 && FileRef::is_revoked(&file));
            assert_eq!(data, kept);
        }
    }
    let unknown = FdData::new(FdFlags::from_bits_retain(4), 0);
    let refused = table().dup_with(SOURCE, 0, |_| unknown);
    assert_eq!(refused, Err(Error::InvalidArgument));
}
