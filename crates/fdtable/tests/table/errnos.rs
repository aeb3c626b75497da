//! Every call with every bad argument: the errno, and the line of the man page that requires it.
//!
//! A call that fails leaves no trace: the same descriptors are taken before and after. And no call,
//! with any arguments, panics or returns an errno that its man page does not have.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use fdtable::{Error, Fd, FdFlags, FileRef, Files, RawFd, Rcu, rcu};

/// Makes a table.
type Table = fn() -> Files<Rcu<()>>;

/// A call on a table; its successful result is of no interest here.
type Call = fn(&Files<Rcu<()>>) -> Result<(), Error>;

const NONE: FdFlags = FdFlags::empty();
const CLOSED: RawFd = 3;
const RESERVED: RawFd = 4;
const NEVER_OPEN: RawFd = 6;
const LIMIT: RawFd = 8;

/// 0, 1, 2 and 5 are open, 3 was, and 4 is reserved.
fn usual() -> Files<Rcu<()>> {
    let files = Files::with_limit(LIMIT.unsigned_abs());
    for _ in 0..4 {
        open(&files).expect("there is room");
    }
    std::mem::forget(files.reserve(NONE).expect("there is room"));
    open(&files).expect("there is room");
    drop(files.close(CLOSED).expect("it is open"));
    files
}

/// Both descriptors are open.
fn full() -> Files<Rcu<()>> {
    let files = Files::with_limit(2);
    open(&files).expect("there is room");
    open(&files).expect("there is room");
    files
}

/// The only descriptor is reserved.
fn reserved() -> Files<Rcu<()>> {
    let files = Files::with_limit(1);
    std::mem::forget(files.reserve(NONE).expect("there is room"));
    files
}

/// 0 to 3 are open, and the limit is 2 now.
fn lowered() -> Files<Rcu<()>> {
    let files = Files::new();
    for _ in 0..4 {
        open(&files).expect("there is room");
    }
    files.set_limit(2);
    files
}

fn limit_zero() -> Files<Rcu<()>> {
    Files::with_limit(0)
}

/// 0 is open, and every other descriptor can be.
fn unlimited() -> Files<Rcu<()>> {
    let files = Files::with_limit(u32::MAX);
    open(&files).expect("there is room");
    files
}

/// 2^31 - 1 is open too, and it is the last.
fn last_open() -> Files<Rcu<()>> {
    let files = unlimited();
    files.dup3(0, RawFd::MAX, NONE).expect("there is room");
    files
}

fn open(files: &Files<Rcu<()>>) -> Result<(), Error> {
    files.open(FileRef::new_rcu(()), NONE).map(drop)
}

fn borrow(files: &Files<Rcu<()>>, fd: RawFd) -> Result<(), Error> {
    let section = rcu::read_lock();
    files.get_rcu(fd, &section).map(drop)
}

/// The calls that need an open descriptor, with a parameter for it.
type OnOpen = fn(&Files<Rcu<()>>, RawFd) -> Result<(), Error>;

#[rustfmt::skip]
const NEED_OPEN: &[(&str, OnOpen, &str)] = &[
    ("get", |files, fd| files.get(fd).map(drop), "read(2): EBADF fd is not a valid file descriptor"),
    ("borrow", borrow, "read(2): EBADF fd is not a valid file descriptor"),
    ("close", |files, fd| files.close(fd).map(drop), "close(2): EBADF fd isn't a valid open file descriptor."),
    ("take", |files, fd| files.close(fd).map(drop), "close(2): EBADF fd isn't a valid open file descriptor."),
    ("dup", |files, fd| files.dup(fd).map(drop), "dup(2): EBADF oldfd isn't an open file descriptor."),
    ("dup_min", |files, fd| files.dup_min(fd, 0, NONE).map(drop), "fcntl(2): EBADF fd is not an open file descriptor"),
    ("dup_with", |files, fd| files.dup_with(fd, -1, |_| unreachable!()).map(drop), "fcntl(2): EBADF fd is not an open file descriptor"),
    ("dup_min with a bad minimum", |files, fd| files.dup_min(fd, -1, NONE).map(drop), "fcntl(2): EBADF fd is not an open file descriptor"),
    ("dup3", |files, fd| files.dup3(fd, 0, NONE).map(drop), "dup(2): EBADF oldfd isn't an open file descriptor."),
    ("dup2", |files, fd| files.dup2(fd, 0).map(drop), "dup(2): If oldfd is not a valid file descriptor, then the call fails, and newfd is not closed."),
    ("dup2 onto itself", |files, fd| files.dup2(fd, fd).map(drop), "dup(2): EBADF oldfd isn't an open file descriptor."),
    ("flags", |files, fd| files.fd_flags(fd).map(drop), "fcntl(2): EBADF fd is not an open file descriptor"),
    ("set_flags", |files, fd| files.set_fd_flags(fd, FdFlags::CLOEXEC), "fcntl(2): EBADF fd is not an open file descriptor"),
];

/// Descriptors that are not open in the [`usual`] table.
const NOT_OPEN: &[(&str, RawFd)] = &[
    ("negative", -1),
    ("the lowest int", RawFd::MIN),
    ("closed", CLOSED),
    ("reserved", RESERVED),
    ("never open", NEVER_OPEN),
    ("the limit", LIMIT),
    ("past the limit", LIMIT + 1),
    ("past the leaf", 64),
    ("past the table", 1_000_000),
    ("the highest int", RawFd::MAX),
];

const TOO_MANY: &str =
    "open(2): EMFILE The per-process limit on the number of open file descriptors has been reached";
const TOO_MANY_DUPS: &str =
    "dup(2): EMFILE The per-process limit on the number of open file descriptors has been reached";
const TOO_MANY_FROM: &str = "fcntl(2): EMFILE op is F_DUPFD and the per-process limit on the \
                             number of open file descriptors has been reached.";
const BAD_MIN: &str = "fcntl(2): EINVAL op is F_DUPFD and arg is negative or is greater than the \
                       maximum allowable value";
const BAD_NEW: &str = "dup(2): EBADF newfd is out of the allowed range for file descriptors";
const EQUAL: &str = "dup(2): EINVAL (dup3()) oldfd was equal to newfd.";
const RACE: &str = "dup(2): EBUSY (Linux only) This may be returned by dup2() or dup3() during a \
                    race condition with open(2) and dup().";
const REVERSED: &str = "close_range(2): EINVAL flags is not valid, or first is greater than last.";
const PAST_LIMIT: &str = "getrlimit(2): RLIMIT_NOFILE This specifies a value one greater than the \
                          maximum file descriptor number that can be opened by this process.";

/// A table, the call, its errno, and the line that says so.
#[rustfmt::skip]
const CASES: &[(Table, &str, Call, &str, &str)] = &[
    (full, "open", open, "EMFILE", TOO_MANY),
    (reserved, "open", open, "EMFILE", TOO_MANY),
    (lowered, "open", open, "EMFILE", TOO_MANY),
    (limit_zero, "open", open, "EMFILE", TOO_MANY),
    (full, "reserve", |files| files.reserve(NONE).map(drop), "EMFILE", TOO_MANY),
    (reserved, "reserve", |files| files.reserve(NONE).map(drop), "EMFILE", TOO_MANY),
    (limit_zero, "reserve", |files| files.reserve(NONE).map(drop), "EMFILE", TOO_MANY),

    (usual, "reserve_from(-1)", |files| files.reserve_from(-1, NONE).map(drop), "EINVAL", BAD_MIN),
    (usual, "reserve_from(MIN)", |files| files.reserve_from(RawFd::MIN, NONE).map(drop), "EINVAL", BAD_MIN),
    (usual, "reserve_from(limit)", |files| files.reserve_from(LIMIT, NONE).map(drop), "EINVAL", BAD_MIN),
    (full, "reserve_from(limit)", |files| files.reserve_from(2, NONE).map(drop), "EINVAL", BAD_MIN),
    (limit_zero, "reserve_from(0)", |files| files.reserve_from(0, NONE).map(drop), "EINVAL", BAD_MIN),
    (full, "reserve_from(1)", |files| files.reserve_from(1, NONE).map(drop), "EMFILE", TOO_MANY_FROM),
    (last_open, "reserve_from(MAX)", |files| files.reserve_from(RawFd::MAX, NONE).map(drop), "EMFILE", TOO_MANY_FROM),

    (full, "dup", |files| files.dup(0).map(drop), "EMFILE", TOO_MANY_DUPS),
    (lowered, "dup", |files| files.dup(3).map(drop), "EMFILE", TOO_MANY_DUPS),

    (usual, "dup_with(0, -1)", |files| files.dup_with(0, -1, |data| data).map(drop), "EINVAL", BAD_MIN),
    (usual, "dup_min(0, -1)", |files| files.dup_min(0, -1, NONE).map(drop), "EINVAL", BAD_MIN),
    (usual, "dup_min(0, MIN)", |files| files.dup_min(0, RawFd::MIN, NONE).map(drop), "EINVAL", BAD_MIN),
    (usual, "dup_min(0, limit)", |files| files.dup_min(0, LIMIT, NONE).map(drop), "EINVAL", BAD_MIN),
    (usual, "dup_min(0, MAX)", |files| files.dup_min(0, RawFd::MAX, NONE).map(drop), "EINVAL", BAD_MIN),
    (full, "dup_min(0, limit)", |files| files.dup_min(0, 2, NONE).map(drop), "EINVAL", BAD_MIN),
    (lowered, "dup_min(0, limit)", |files| files.dup_min(0, 2, NONE).map(drop), "EINVAL", BAD_MIN),
    (full, "dup_min(0, 1)", |files| files.dup_min(0, 1, NONE).map(drop), "EMFILE", TOO_MANY_FROM),
    (last_open, "dup_min(0, MAX)", |files| files.dup_min(0, RawFd::MAX, NONE).map(drop), "EMFILE", TOO_MANY_FROM),

    (usual, "dup3(0, 0)", |files| files.dup3(0, 0, NONE).map(drop), "EINVAL", EQUAL),
    (usual, "dup3(closed, closed)", |files| files.dup3(CLOSED, CLOSED, NONE).map(drop), "EINVAL", EQUAL),
    (usual, "dup3(-1, -1)", |files| files.dup3(-1, -1, NONE).map(drop), "EINVAL", EQUAL),
    (usual, "dup3(0, -1)", |files| files.dup3(0, -1, NONE).map(drop), "EBADF", BAD_NEW),
    (usual, "dup3(0, MIN)", |files| files.dup3(0, RawFd::MIN, NONE).map(drop), "EBADF", BAD_NEW),
    (usual, "dup3(0, limit)", |files| files.dup3(0, LIMIT, NONE).map(drop), "EBADF", BAD_NEW),
    (usual, "dup3(0, MAX)", |files| files.dup3(0, RawFd::MAX, NONE).map(drop), "EBADF", BAD_NEW),
    (lowered, "dup3(0, open past the limit)", |files| files.dup3(0, 3, NONE).map(drop), "EBADF", BAD_NEW),
    (usual, "dup3(0, reserved)", |files| files.dup3(0, RESERVED, NONE).map(drop), "EBUSY", RACE),
    (usual, "dup3(closed, reserved)", |files| files.dup3(CLOSED, RESERVED, NONE).map(drop), "EBADF", "dup(2): EBADF oldfd isn't an open file descriptor."),

    (usual, "dup2(0, -1)", |files| files.dup2(0, -1).map(drop), "EBADF", BAD_NEW),
    (usual, "dup2(0, limit)", |files| files.dup2(0, LIMIT).map(drop), "EBADF", BAD_NEW),
    (usual, "dup2(0, reserved)", |files| files.dup2(0, RESERVED).map(drop), "EBUSY", RACE),

    (usual, "close_range(1, 0)", |files| files.close_range(1, 0, drop), "EINVAL", REVERSED),
    (usual, "close_range(MAX, 0)", |files| files.close_range(u32::MAX, 0, drop), "EINVAL", REVERSED),
    (usual, "set_cloexec_range(1, 0)", |files| files.set_cloexec_range(1, 0), "EINVAL", REVERSED),
];

/// Calls that look bad and are not.
#[rustfmt::skip]
const NO_ERRORS: &[(Table, &str, Call, &str)] = &[
    (usual, "dup2(0, 0)", |files| files.dup2(0, 0).map(drop), "dup(2): dup2() does nothing, and returns newfd."),
    (lowered, "dup2(3, 3)", |files| files.dup2(3, 3).map(drop), "dup(2): dup2() does nothing, and returns newfd."),
    (lowered, "get(3)", |files| files.get(3).map(drop), PAST_LIMIT),
    (lowered, "set_flags(3)", |files| files.set_fd_flags(3, FdFlags::CLOEXEC), PAST_LIMIT),
    (lowered, "close(3)", |files| files.close(3).map(drop), PAST_LIMIT),
    (lowered, "dup3(3, 1)", |files| files.dup3(3, 1, NONE).map(drop), PAST_LIMIT),
    (limit_zero, "close_range(0, 0)", |files| files.close_range(0, 0, drop), "close_range(2): all open file descriptors"),
    (usual, "close_range(6, MAX)", |files| files.close_range(6, u32::MAX, drop), "close_range(2): Errors closing a given file descriptor are currently ignored."),
    (usual, "close_range(MAX, MAX)", |files| files.close_range(u32::MAX, u32::MAX, drop), REVERSED),
    (usual, "set_cloexec_range(MAX, MAX)", |files| files.set_cloexec_range(u32::MAX, u32::MAX), REVERSED),
    (unlimited, "dup3(0, MAX)", |files| files.dup3(0, RawFd::MAX, NONE).map(drop), PAST_LIMIT),
];

/// The visible state of the descriptors of a table.
fn seen(files: &Files<Rcu<()>>) -> (usize, Vec<(RawFd, FdFlags)>) {
    let mut open = Vec::new();
    let mut next = files.iter_from(0).next().map(|(fd, ..)| fd);
    while let Some(fd) = next {
        open.push((fd.raw(), files.fd_flags(fd).expect("it is open")));
        next = fd
            .raw()
            .checked_add(1)
            .and_then(|from| files.iter_from(from).next().map(|(fd, ..)| fd));
    }
    (files.open_count(), open)
}

fn check(
    files: &Files<Rcu<()>>,
    call: impl FnOnce() -> Result<(), Error>,
    errno: &str,
    what: &str,
) {
    let before = seen(files);
    let error = call().expect_err(what);
    assert_eq!(error.name(), errno, "{what}");
    assert_eq!(seen(files), before, "{what} leaves no trace");
}

#[test]
fn a_number_that_is_not_open_is_ebadf() {
    for (call_name, call, source) in NEED_OPEN {
        for (kind, fd) in NOT_OPEN {
            let files = usual();
            let what = format!("{call_name} of {fd} ({kind}); {source}");
            check(&files, || call(&files, *fd), "EBADF", &what);
        }
    }
}

#[test]
fn every_bad_argument_has_the_errno_of_the_man_page() {
    for (table, name, call, errno, source) in CASES {
        let files = table();
        check(&files, || call(&files), errno, &format!("{name}; {source}"));
    }
}

#[test]
fn what_the_man_pages_allow_is_no_error() {
    for (table, name, call, source) in NO_ERRORS {
        assert_eq!(call(&table()), Ok(()), "{name}; {source}");
    }
}

/// Bits of flags that have no name, with and without those that have.
const UNKNOWN: &[FdFlags] = &[
    FdFlags::from_bits_retain(1 << 2),
    FdFlags::from_bits_retain(1 << 31),
    FdFlags::from_bits_retain(u32::MAX - 1),
    FdFlags::from_bits_retain(u32::MAX),
];

/// A call that takes flags, and a file for each descriptor that it opens.
type Flagged = fn(&Files<Rcu<()>>, Maker<'_>, FdFlags) -> Result<(), Error>;

/// Makes a file that counts its release.
type Maker<'m> = &'m dyn Fn() -> FileRef<Rcu<()>>;

/// The calls of the table that take flags, each with good arguments but the flags, and with bad
/// ones too: the flags are checked first, as `dup3(2)` and `close_range(2)` do.
#[rustfmt::skip]
const TAKE_FLAGS: &[(&str, Flagged)] = &[
    ("open", |files, file, flags| files.open(file(), flags).map(drop)),
    ("open_any", |files, file, flags| files.open_any(file(), flags).map(drop)),
    ("open_pair", |files, file, flags| files.open_pair((file(), file()), flags).map(drop)),
    ("reserve", |files, _, flags| files.reserve(flags).map(drop)),
    ("reserve_any", |files, _, flags| files.reserve_any(flags).map(drop)),
    ("reserve_from", |files, _, flags| files.reserve_from(1, flags).map(drop)),
    ("reserve_many", |files, _, flags| files.reserve_many(2, flags).map(drop)),
    ("reserve_many of none", |files, _, flags| files.reserve_many(0, flags).map(drop)),
    ("reserve_many of too many", |files, _, flags| files.reserve_many(100, flags).map(drop)),
    ("dup_min", |files, _, flags| files.dup_min(0, 1, flags).map(drop)),
    ("dup_min a closed one", |files, _, flags| files.dup_min(CLOSED, 1, flags).map(drop)),
    ("dup3", |files, _, flags| files.dup3(0, 1, flags).map(drop)),
    ("dup3 a reserved one", |files, _, flags| files.dup3(0, RESERVED, flags).map(drop)),
    ("dup3 from a closed one", |files, _, flags| files.dup3(CLOSED, 1, flags).map(drop)),
    ("set_flags", |files, _, flags| files.set_fd_flags(2, flags)),
    ("set_flags of a closed one", |files, _, flags| files.set_fd_flags(CLOSED, flags)),
];

/// dup(2): "EINVAL (dup3()) flags contain an invalid value."
#[test]
fn an_unknown_flag_is_einval_and_changes_nothing() {
    for table in [usual as Table, full] {
        for (name, call) in TAKE_FLAGS {
            for &flags in UNKNOWN {
                let (made, released) = (Cell::new(0), Arc::new(AtomicUsize::new(0)));
                let maker = || {
                    made.set(made.get() + 1);
                    let released = Arc::clone(&released);
                    FileRef::builder(())
                        .on_release(move |(), _| {
                            released.fetch_add(1, SeqCst);
                        })
                        .rcu()
                        .build()
                };
                let files = table();
                let what = format!("{name} with {flags:?}");
                check(&files, || call(&files, &maker, flags), "EINVAL", &what);
                assert_eq!(released.load(SeqCst), made.get(), "{what} drops its files");
            }
        }
    }
}

/// errno(3), with the numbers of Linux.
#[test]
fn errors_have_the_numbers_of_linux() {
    let numbers = [
        (Error::BadFd, 9),
        (Error::NoMemory, 12),
        (Error::Busy, 16),
        (Error::InvalidArgument, 22),
        (Error::TooManyFiles, 24),
    ];
    for (error, errno) in numbers {
        assert_eq!(error.errno(), errno, "{error}");
    }
}

/// Both sides of everything.
const NUMBERS: &[RawFd] = &[
    RawFd::MIN,
    RawFd::MIN + 1,
    -65,
    -64,
    -1,
    0,
    1,
    2,
    LIMIT - 1,
    LIMIT,
    63,
    64,
    65,
    4095,
    4096,
    32_767,
    32_768,
    (1 << 24) - 1,
    1 << 24,
    (1 << 30) - 1,
    1 << 30,
    RawFd::MAX - 64,
    RawFd::MAX - 1,
    RawFd::MAX,
];

/// A call on two descriptors.
type OnTwo = fn(&Files<Rcu<()>>, RawFd, RawFd) -> Result<(), Error>;

#[rustfmt::skip]
const CALLS: &[(&str, OnTwo, &[&str])] = &[
    ("open", |files, _, _| open(files), &["EMFILE"]),
    ("reserve", |files, _, _| files.reserve(NONE).map(drop), &["EMFILE"]),
    ("reserve_from", |files, a, _| files.reserve_from(a, NONE).map(drop), &["EINVAL", "EMFILE"]),
    ("get", |files, a, _| files.get(a).map(drop), &["EBADF"]),
    ("borrow", |files, a, _| borrow(files, a), &["EBADF"]),
    ("flags", |files, a, _| files.fd_flags(a).map(drop), &["EBADF"]),
    ("set_flags", |files, a, _| files.set_fd_flags(a, FdFlags::CLOEXEC), &["EBADF"]),
    ("next_open", |files, a, _| { files.iter_from(a).next().map(|(fd, ..)| fd); Ok(()) }, &[]),
    ("dup", |files, a, _| files.dup(a).map(drop), &["EBADF", "EMFILE"]),
    ("dup_min", |files, a, b| files.dup_min(a, b, NONE).map(drop), &["EBADF", "EINVAL", "EMFILE"]),
    ("dup3", |files, a, b| files.dup3(a, b, NONE).map(drop), &["EBADF", "EINVAL", "EBUSY"]),
    ("dup2", |files, a, b| files.dup2(a, b).map(drop), &["EBADF", "EBUSY"]),
    ("set_cloexec_range", |files, a, b| files.set_cloexec_range(a.cast_unsigned(), b.cast_unsigned()), &["EINVAL"]),
    ("take", |files, a, _| files.close(a).map(drop), &["EBADF"]),
    ("close", |files, a, _| files.close(a).map(drop), &["EBADF"]),
    ("close_range", |files, a, b| files.close_range(a.cast_unsigned(), b.cast_unsigned(), drop), &["EINVAL"]),
    ("set_limit", |files, a, _| { files.set_limit(a.cast_unsigned()); Ok(()) }, &[]),
];

#[test]
fn no_argument_panics_or_brings_another_errno() {
    let tables = [
        usual, full, reserved, lowered, limit_zero, unlimited, last_open,
    ];
    for (name, call, errnos) in CALLS {
        for table in tables {
            let files = table();
            for &a in NUMBERS {
                for &b in NUMBERS {
                    if let Err(error) = call(&files, a, b) {
                        let known = errnos.contains(&error.name());
                        assert!(known, "{name}({a}, {b}): {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_number_above_all_descriptors_counts_as_a_negative_one() {
    let files = Files::new();
    files
        .open(FileRef::new_rcu(()), NONE)
        .expect("there is room");
    for above in [1 << 31, u32::MAX] {
        assert_eq!(files.get(above).unwrap_err(), Error::BadFd);
        assert_eq!(files.dup3(0, above, NONE).unwrap_err(), Error::BadFd);
        let refused = files.dup_min(0, above, NONE);
        assert_eq!(refused.unwrap_err(), Error::InvalidArgument);
        assert_eq!(files.iter_from(above).next().map(|(fd, ..)| fd), None);
    }
    assert_eq!(
        files.iter_from(-1).next().map(|(fd, ..)| fd).map(Fd::raw),
        Some(0)
    );
    assert_eq!(
        files
            .iter_from(0_u32)
            .next()
            .map(|(fd, ..)| fd)
            .map(Fd::raw),
        Some(0)
    );
}
