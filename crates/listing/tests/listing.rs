//! Listings: their rows, the content of the rows, and how they are printed.

#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use fdtable::{Access, Error, FdFlags, FileRef, Files, PrivateFiles, SuperBlock};
use fdtable_listing::{Describe, Description, Descriptor, List, Listing, Row, Timestamp};

const NONE: FdFlags = FdFlags::empty();
const CLOEXEC: FdFlags = FdFlags::CLOEXEC;

/// A file with a given description.
struct Told(Description);

impl Describe for Told {
    fn describe(&self) -> Description {
        self.0.clone()
    }
}

fn named(name: &'static str) -> FileRef<Told> {
    FileRef::new(Told(Description::new("REG", name)))
}

fn second(second: u64) -> Timestamp {
    Timestamp::from_unix(Duration::from_secs(second))
}

fn names(listing: &Listing) -> Vec<&str> {
    let rows = listing.rows().iter();
    rows.map(|row| &*row.description.name).collect()
}

fn fd_and_flags(row: &Row) -> (i32, FdFlags) {
    match row.descriptor {
        Some(Descriptor::Fd { fd, flags, .. }) => (fd.raw(), flags),
        _ => panic!("a row of a table has a number: {row:?}"),
    }
}

/// Prints a listing of one file.
fn printed(description: Description) -> String {
    let files = Files::new();
    files.open(FileRef::new(Told(description)), NONE).unwrap();
    files.list().unwrap().to_string()
}

#[test]
fn every_open_number_has_a_row_with_its_own_flags() {
    let files = Files::with_limit(u32::MAX);
    let log = files.open(named("log"), CLOEXEC).unwrap();
    files.dup(log).unwrap();
    let closed = files.open(named("closed"), NONE).unwrap();
    files.dup3(log, 20_000_000, NONE).unwrap();
    files.dup3(log, i32::MAX, CLOEXEC).unwrap();
    drop(files.close(closed).unwrap());
    let reserved = files.reserve(NONE).unwrap();
    let listing = files.list().unwrap();
    drop(reserved);
    let rows: Vec<_> = listing.rows().iter().map(fd_and_flags).collect();
    let expected = [
        (0, CLOEXEC),
        (1, NONE),
        (20_000_000, NONE),
        (i32::MAX, CLOEXEC),
    ];
    assert_eq!(rows, expected);
    assert_eq!(names(&listing), ["log"; 4]);
}

#[test]
fn references_are_those_of_others() {
    let files = Files::new();
    let file = named("log");
    let fd = files.open(file.clone(), NONE).unwrap();
    assert_eq!(files.list().unwrap().rows()[0].references, 2);
    files.dup(fd).unwrap();
    drop(file);
    let listing = files.list().unwrap();
    assert!(listing.rows().iter().all(|row| row.references == 2));
}

#[test]
fn a_listing_keeps_no_file_open() {
    let (files, superblock) = (Files::new(), SuperBlock::new().unwrap());
    let ends = Arc::new(AtomicUsize::new(0));
    let hook = {
        let ends = Arc::clone(&ends);
        move |_: &Told, _| _ = ends.fetch_add(1, Relaxed)
    };
    let told = Told(Description::new("REG", "log"));
    let file = FileRef::builder(told)
        .on(&superblock, Access::Read)
        .on_release(hook)
        .try_build()
        .unwrap();
    let fd = files.open(file, NONE).unwrap();
    let listings = [files.list().unwrap(), superblock.list().unwrap()];
    drop(files.close(fd).unwrap());
    assert_eq!(ends.load(Relaxed), 1);
    assert_eq!(listings.each_ref().map(names), [["log"], ["log"]]);
}

#[test]
fn revoked_files_are_listed_and_marked() {
    let (files, private) = (Files::new(), PrivateFiles::new());
    let (line, log) = (named("tty1"), named("log"));
    for file in [&line, &log] {
        files.open(file.clone(), NONE).unwrap();
        private.open(file.clone()).unwrap();
    }
    FileRef::revoke(&line);
    for listing in [files.list().unwrap(), private.list().unwrap()] {
        let revoked: Vec<bool> = listing.rows().iter().map(|row| row.revoked).collect();
        assert_eq!(names(&listing), ["tty1", "log"]);
        assert_eq!(revoked, [true, false]);
        let text = listing.to_string();
        assert!(text.contains("tty1 (revoked)\n") && text.ends_with("log"));
    }
}

#[test]
fn private_descriptors_are_listed_with_their_generation() {
    let files = PrivateFiles::new();
    let first = files.open(named("first")).unwrap();
    drop(files.close(first).unwrap());
    let second = files.open(named("second")).unwrap();
    let listing = files.list().unwrap();
    assert_eq!(names(&listing), ["second"]);
    let row = &listing.rows()[0];
    assert_eq!(row.descriptor, Some(Descriptor::Private(second)));
    assert!(listing.to_string().contains(&second.to_string()));
}

#[test]
fn a_superblock_lists_what_is_open_and_the_oldest_first() {
    let superblock = SuperBlock::new().unwrap();
    let open = |name, since: Option<u64>| {
        let mut description = Description::new("REG", name);
        description.since = since.map(second);
        let told = Told(description);
        FileRef::builder(told)
            .on(&superblock, Access::Write)
            .try_build()
            .unwrap()
    };
    let files = Files::new();
    let (young, closed) = (open("young", Some(2000)), open("closed", Some(3)));
    let _others = [open("a", None), open("old", Some(1)), open("b", None)];
    files.open(young.clone(), NONE).unwrap();
    drop(closed);
    let listing = superblock.list().unwrap();
    assert_eq!(names(&listing), ["a", "b", "old", "young"]);
    let row = &listing.rows()[3];
    assert_eq!((row.descriptor, row.references), (None, 2));

    FileRef::revoke(&young);
    assert_eq!(names(&superblock.list().unwrap()), ["a", "b", "old"]);
}

#[test]
fn what_leaked_is_listed_when_an_unmount_is_refused() {
    let superblock = SuperBlock::new().unwrap();
    let open = |owner| {
        let told = Told(Description::new("REG", "log").owner(owner));
        FileRef::builder(told)
            .on(&superblock, Access::Read)
            .try_build()
            .unwrap()
    };
    let (ends, stays) = (Files::new(), Files::new());
    ends.open(open("pid 7"), NONE).unwrap();
    stays.open(open("pid 8"), NONE).unwrap();
    drop(ends);
    assert_eq!(superblock.unmount(), Err(Error::Busy));
    let leaked = superblock.list().unwrap();
    assert_eq!(leaked.rows().len(), 1);
    assert_eq!(leaked.rows()[0].owner(), Some("pid 8"));
    superblock.revoke().unwrap();
    assert!(superblock.list().unwrap().is_empty());
    assert!(stays.list().unwrap().rows()[0].revoked);
    superblock.unmount().unwrap();
}

#[test]
fn a_label_is_the_owner_and_is_given_once() {
    let files = Files::new();
    let opened = Description::new("REG", "log").owner("who opened it");
    files.open(FileRef::new(Told(opened)), NONE).unwrap();
    let child = files.fork().unwrap();
    let owners = |listing: &Listing| -> Vec<String> {
        let rows = listing.rows().iter();
        rows.map(|row| row.owner().unwrap().to_owned()).collect()
    };
    let mut all = files.list().unwrap();
    assert_eq!(owners(&all), ["who opened it"]);
    all = all.labelled("pid 7");
    all.extend(child.list().unwrap());
    assert_eq!(owners(&all.labelled("pid 8")), ["pid 7", "pid 8"]);
}

#[test]
fn listings_are_merged_in_order_and_rows_chosen() {
    let tables = ["a", "b", "c"].map(|name| {
        let files = Files::new();
        files.open(named(name), NONE).unwrap();
        files
    });
    let list = |files: &Files<Told>| files.list().unwrap();
    let all: Listing = tables.iter().flat_map(list).collect();
    assert_eq!(names(&all), ["a", "b", "c"]);

    let (mut first, mut last) = (list(&tables[0]), list(&tables[2]));
    first.append(&mut last).unwrap();
    assert_eq!(names(&first), ["a", "c"]);
    assert!(last.is_empty());

    let rows = all.into_iter();
    let chosen: Listing = rows.filter(|row| row.description.name != "b").collect();
    assert_eq!(chosen, first);
}

#[test]
fn boxed_and_shared_objects_describe_themselves() {
    let files: Files<Box<dyn DescribeSync>> = Files::new();
    let object = Arc::new(Told(Description::new("sock", "shared")));
    files.open(FileRef::new(Box::new(object)), NONE).unwrap();
    assert_eq!(names(&files.list().unwrap()), ["shared"]);
}

trait DescribeSync: Describe + Send + Sync {}
impl<T: Describe + Send + Sync> DescribeSync for T {}

/// A listing tolerates concurrent changes, and does not keep files from ending.
#[test]
fn a_listing_of_a_busy_table_has_each_number_once_and_all_that_stays_open() {
    const STAY: [i32; 3] = [0, 70, 5000];
    let files = Files::with_limit(u32::MAX);
    let (made, ended) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let make = |name| {
        made.fetch_add(1, Relaxed);
        let ended = Arc::clone(&ended);
        let told = Told(Description::new("REG", name));
        FileRef::builder(told)
            .on_release(move |_, _| _ = ended.fetch_add(1, Relaxed))
            .build()
    };
    let stays = make("stays");
    for fd in STAY {
        files.reserve_from(fd, NONE).unwrap().install(stays.clone());
    }
    drop(stays);
    let come_and_go = || {
        for _ in 0..2000 {
            let file = make("comes and goes");
            let fd = files.open(file.clone(), NONE).unwrap();
            let copy = files.dup_min(fd, 60, CLOEXEC).unwrap();
            FileRef::revoke(&file);
            drop(files.close(fd).unwrap());
            drop(files.close(copy).unwrap());
        }
    };
    thread::scope(|scope| {
        let threads = [scope.spawn(come_and_go), scope.spawn(come_and_go)];
        while !threads.iter().all(|thread| thread.is_finished()) {
            let listing = files.list().unwrap();
            let fds: Vec<i32> = listing
                .rows()
                .iter()
                .map(|row| fd_and_flags(row).0)
                .collect();
            assert!(fds.is_sorted_by(|a, b| a < b), "{listing}");
            assert!(STAY.iter().all(|fd| fds.contains(fd)), "{listing}");
            for (row, fd) in listing.rows().iter().zip(fds) {
                let stays = row.description.name == "stays";
                assert_eq!(stays, STAY.contains(&fd), "{listing}");
                assert!(!(stays && row.revoked), "{listing}");
            }
        }
    });
    drop(files);
    assert_eq!(ended.load(Relaxed), made.load(Relaxed));
}

#[test]
fn an_empty_listing_is_its_header() {
    let empty = Files::<Told>::new().list().unwrap();
    assert!(empty.is_empty());
    assert_eq!(
        empty.to_string(),
        "OWNER  FD  TYPE  MODE  REFS  SINCE  NAME"
    );
    assert_eq!(Listing::new(), empty);
}

#[test]
fn columns_are_aligned() {
    let files = Files::new();
    let open = |description, flags| files.open(FileRef::new(Told(description)), flags).unwrap();
    let log = Description::new("REG", "/var/log/messages").access(Access::Write);
    let moment = Timestamp::from_unix(Duration::from_millis(1_000_000_000_999));
    open(log.owner("pid 7 (sysłogd)").since(moment), CLOEXEC);
    let fifo = open(
        Description::new("FIFO", "[pipe]").access(Access::Read),
        NONE,
    );
    files.dup3(fifo, 1000, CLOEXEC).unwrap();
    let socket = Description::new("sock", "").since(second(0));
    FileRef::revoke(&files.get(open(socket, NONE)).unwrap());
    let expected = "\
OWNER              FD  TYPE  MODE  REFS  SINCE                 NAME
pid 7 (sysłogd)     0  REG   we       1  2001-09-09T01:46:40Z  /var/log/messages
-                   1  FIFO  r        2  -                     [pipe]
-                   2  sock  -        1  1970-01-01T00:00:00Z  (revoked)
-                1000  FIFO  re       2  -                     [pipe]";
    assert_eq!(files.list().unwrap().to_string(), expected);
}

#[test]
fn size_offset_and_node_have_columns_where_a_row_has_one() {
    let full = Description::new("REG", "log")
        .inode(12345)
        .size(0)
        .position(7);
    let expected = "\
OWNER  FD  TYPE  MODE  REFS  SINCE  SIZE  OFFSET   NODE  NAME
-       0  REG   -        1  -         0       7  12345  log";
    assert_eq!(printed(full), expected);
    let node = Description::new("REG", "log").inode(u64::MAX);
    let expected = "\
OWNER  FD  TYPE  MODE  REFS  SINCE                  NODE  NAME
-       0  REG   -        1  -      18446744073709551615  log";
    assert_eq!(printed(node), expected);
}

#[test]
fn whatever_a_file_is_called_it_has_one_line_that_prints() {
    let hostile = Description::new("R\tG", "a\nb\r\u{1b}[2J\u{202e}\\ 'c' \"d\" é").owner("x\ny");
    let text = printed(hostile);
    assert_eq!(text.lines().count(), 2);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'));
    let line = text.lines().last().unwrap();
    assert!(line.starts_with(r"x\ny    0  R\tG "), "{line}");
    assert!(
        line.ends_with(r#"  a\nb\r\u{1b}[2J\u{202e}\\ 'c' "d" é"#),
        "{line}"
    );
}

#[test]
fn nothing_has_spaces_at_its_end() {
    let texts = [
        Listing::new().to_string(),
        printed(Description::new("", "")),
        printed(Description::new("REG", "log").inode(1)),
    ];
    for text in texts {
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
        assert!(!text.ends_with('\n'));
    }
}

#[test]
fn moments_are_written_in_utc_and_compared() {
    let moment = |seconds, nanoseconds| Timestamp::from_unix(Duration::new(seconds, nanoseconds));
    let leap_day = moment(951_827_696, 789_000_000);
    assert_eq!(leap_day.to_string(), "2000-02-29T12:34:56.789Z");
    assert_eq!(format!("{leap_day:.0}"), "2000-02-29T12:34:56Z");
    assert_eq!(moment(0, 1).to_string(), "1970-01-01T00:00:00.000000001Z");
    assert!(moment(0, 1) < moment(1, 0));
    assert_eq!(
        leap_day.to_unix(),
        Some(Duration::new(951_827_696, 789_000_000))
    );
}

#[test]
fn moments_that_no_calendar_has_are_written_too() {
    let last = Duration::new(i64::MAX as u64, 999_999_999);
    for (beyond, counts_as) in [(Duration::MAX, last), (last, last)] {
        let beyond = Timestamp::from_unix(beyond);
        assert_eq!(beyond.to_unix(), Some(counts_as));
        assert_eq!(beyond.to_string(), "@9223372036854775807");
    }
}

#[cfg(feature = "std")]
#[test]
fn the_clock_of_the_system_tells_moments_before_and_after_1970() {
    use std::time::SystemTime;

    let half = Duration::from_millis(500);
    let after = Timestamp::from(SystemTime::UNIX_EPOCH + half);
    assert_eq!(after, Timestamp::from_unix(half));
    let before = Timestamp::from(SystemTime::UNIX_EPOCH - half);
    assert_eq!(before.to_string(), "1969-12-31T23:59:59.5Z");
    assert_eq!(before.to_unix(), None);
    assert!(before < after);
}
