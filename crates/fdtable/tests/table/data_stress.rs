//! Threads that change descriptors with data, and lookups that compare each file with the data that
//! is found with it.
//!
//! The data of a descriptor follows from the number of its file: a file with an even number has no
//! word, and one with an odd number has one; the second bit of the number is close-on-exec. The
//! lowest byte of a word belongs to no file: it counts exchanges. So each lookup finds out whether
//! the table has mixed the data of two uses of a descriptor.
//!
//! `FDTABLE_STRESS_SECONDS=600 cargo test -p fdtable --release --test table data_stress` runs for
//! ten minutes instead of one second.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use fdtable::{ClosedFile, ClosedFiles, Error, FdData, FdFlags, FileRef, Files, RawFd, Rcu, rcu};

const NONE: FdFlags = FdFlags::empty();
/// Position of the file's number in a word.
const NUMBER: u32 = 8;
const LIMIT: u32 = 200;

/// How many files there are at each stage.
#[derive(Default)]
struct Counts {
    made: AtomicU64,
    released: AtomicU64,
    dropped: AtomicU64,
}

struct File {
    number: u64,
    is_released: AtomicBool,
    counts: Arc<Counts>,
}

impl Drop for File {
    fn drop(&mut self) {
        self.counts.dropped.fetch_add(1, Relaxed);
    }
}

fn make(counts: &Arc<Counts>) -> FileRef<Rcu<File>> {
    let file = File {
        number: counts.made.fetch_add(1, Relaxed),
        is_released: AtomicBool::new(false),
        counts: counts.clone(),
    };
    FileRef::builder(file)
        .on_release(|file, _| {
            file.is_released.store(true, Relaxed);
            file.counts.released.fetch_add(1, Relaxed);
        })
        .rcu()
        .build()
}

/// The data of the descriptors of a file.
fn data_of(file: &File) -> FdData {
    let (number, has_data) = (file.number, file.number % 2 == 1);
    let flags = if number & 2 == 0 {
        NONE
    } else {
        FdFlags::CLOEXEC
    };
    FdData::new(flags, if has_data { number << NUMBER } else { 0 })
}

fn check(file: &File, mut data: FdData) {
    data.word &= !0xff;
    assert_eq!(data, data_of(file), "of file {}", file.number);
}

/// Checks a file through a reference.
fn check_owned(file: &File, data: FdData) {
    assert!(!file.is_released.load(Relaxed), "{} is owned", file.number);
    check(file, data);
}

/// A few descriptors in each of two leaves.
fn number(rng: &mut Rng) -> RawFd {
    let leaf = if rng.bool() { 64 } else { 0 };
    leaf + rng.i32(0..5)
}

/// Looks up descriptors in all ways.
fn look(files: &Files<Rcu<File>>, rng: &mut Rng) {
    let fd = number(rng);
    match rng.u8(0..32) {
        0 => files
            .iter()
            .for_each(|(_, file, data)| check_owned(&file, data)),
        1..8 => {
            let section = rcu::read_lock();
            if let Ok((file, data)) = files.get_rcu_with_data(fd, &section) {
                check(&file, data);
            }
        }
        _ => {
            if let Ok((file, data)) = files.get_with_data(fd) {
                check_owned(&file, data);
            }
        }
    }
}

fn closed(files: ClosedFiles<Rcu<File>>) {
    let closed = files.descriptors();
    closed.for_each(|(_, file, data)| check_owned(&file, data));
    drop(files);
}

/// Makes a random change. An error is what other threads have caused.
fn change(files: &Files<Rcu<File>>, counts: &Arc<Counts>, rng: &mut Rng) -> Result<(), Error> {
    let (one, other) = (number(rng), number(rng));
    let displaced = |(closed, data): (ClosedFile<Rcu<File>>, FdData)| check_owned(&closed, data);
    let file = || {
        let file = make(counts);
        let data = data_of(&file);
        (file, data)
    };
    match rng.u8(0..61) {
        0..4 => {
            let (file, data) = file();
            files.open(file, data)?;
        }
        4..6 => {
            let (file, data) = file();
            files.open_any(file, data)?;
        }
        6..12 => {
            let (file, data) = file();
            files.open_at(one, file, data)?;
        }
        12..18 => {
            let (file, data) = file();
            files.replace(one, file, data)?.map(displaced);
        }
        18..20 => {
            let (file, data) = file();
            let expected = files.get(other)?;
            displaced(files.replace_if(one, &expected, file, data)?);
        }
        20..22 => {
            let expected = files.get(other)?;
            displaced(files.close_if(one, Some(&expected))?);
        }
        22..26 => displaced(files.close_if(one, None)?),
        26..29 => drop(files.close(one)?),
        29..36 => _ = files.rename(one, other)?.map(displaced),
        36..40 => {
            // The same file elsewhere.
            let file = files.get(one)?;
            let data = data_of(&file);
            files.replace(other, file, data)?.map(displaced);
        }
        40..46 => {
            let (file, data) = files.get_with_data(one)?;
            if data.word != 0 {
                let count = (data.word + 1) & 0xff;
                let word = data_of(&file).word | count;
                files.exchange_word(one, data.word, word)?;
            }
        }
        46..53 => {
            let flags = if rng.bool() { NONE } else { FdFlags::CLOEXEC };
            let reserved = files.reserve_from(one, flags)?;
            if rng.bool() {
                let (file, data) = file();
                reserved.install_with(file, data)?;
            }
        }
        53 => drop(files.reserve_many(rng.usize(2..8), FdFlags::CLOEXEC)?),
        54 => files.close_range(one, one + 2, closed)?,
        55 => files.close_range(one & !63, one | 63, closed)?,
        56 => files.close_on_exec(closed)?,
        57..60 => {
            let child = files.fork()?;
            child
                .iter()
                .for_each(|(_, file, data)| check_owned(&file, data));
            for _ in 0..8 {
                let _free = change_child(&child, counts, rng);
            }
            child
                .iter()
                .for_each(|(_, file, data)| check_owned(&file, data));
        }
        _ => files
            .set_quarantine(rng.u32(0..2) * 3)
            .expect("there is memory"),
    }
    Ok(())
}

/// A change that makes no children and does not wait.
fn change_child(
    child: &Files<Rcu<File>>,
    counts: &Arc<Counts>,
    rng: &mut Rng,
) -> Result<(), Error> {
    let (one, other) = (number(rng), number(rng));
    let file = make(counts);
    let data = data_of(&file);
    match rng.u8(0..5) {
        0 => _ = child.open(file, data)?,
        1 => drop(child.replace(one, file, data)?),
        2 => drop(child.rename(one, other)?),
        3 => drop(child.close(one)?),
        _ => {
            let reserved = child.reserve_from(one, FdFlags::CLOEXEC)?;
            reserved.install_with(file, data)?;
        }
    }
    Ok(())
}

/// Returns the deadline of a test.
fn deadline() -> Instant {
    let asked = std::env::var("FDTABLE_STRESS_SECONDS").ok();
    let seconds = asked.map_or(1, |seconds| seconds.parse().expect("a number of seconds"));
    Instant::now() + Duration::from_secs(seconds)
}

/// One writer and one reader at one descriptor, as fast as they can: a mistake of a few
/// instructions is met here.
#[test]
fn a_lookup_meets_every_instruction_of_a_change() {
    let counts = Arc::new(Counts::default());
    let files = Files::with_limit(LIMIT);
    // All of the same flags, so that nothing but the version tells them apart.
    let made: Vec<FileRef<Rcu<File>>> = (0..32).map(|_| make(&counts)).collect();
    let same = |flags: u64| made.iter().filter(move |file| file.number & 2 == flags);
    let (deadline, looks) = (deadline(), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < deadline {
                for (one, two) in same(0)
                    .zip(same(0).skip(1))
                    .chain(same(2).zip(same(2).skip(1)))
                {
                    files
                        .open_at(7, one.clone(), data_of(one))
                        .expect("it is free");
                    drop(
                        files
                            .replace(7, two.clone(), data_of(two))
                            .expect("it is open"),
                    );
                    drop(files.close(7).expect("it is open"));
                    files
                        .open_at(7, one.clone(), data_of(one))
                        .expect("it is free");
                    drop(files.close(7).expect("it is open"));
                    files
                        .open_at(8, two.clone(), data_of(two))
                        .expect("it is free");
                    drop(files.rename(8, 7).expect("it is open"));
                    drop(files.close(7).expect("it is open"));
                }
            }
        });
        scope.spawn(|| {
            while Instant::now() < deadline {
                for _ in 0..1000 {
                    if let Ok((file, data)) = files.get_with_data(7) {
                        check_owned(&file, data);
                        looks.fetch_add(1, Relaxed);
                    }
                }
            }
        });
    });
    assert!(looks.load(Relaxed) > 0, "they have met");
}

#[test]
fn every_lookup_finds_a_file_with_its_own_data() {
    let deadline = deadline();
    let (counts, changes) = (Arc::new(Counts::default()), AtomicUsize::new(0));
    while Instant::now() < deadline {
        // A new table now and then: its leaves have no data at first.
        let files = Files::with_limit(LIMIT);
        let end = deadline.min(Instant::now() + Duration::from_millis(300));
        thread::scope(|scope| {
            for seed in 0..5 {
                let (files, counts, changes) = (&files, &counts, &changes);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed);
                    while Instant::now() < end {
                        for _ in 0..50 {
                            if seed < 2 {
                                look(files, &mut rng);
                            } else if change(files, counts, &mut rng).is_ok() {
                                changes.fetch_add(1, Relaxed);
                            }
                        }
                    }
                });
            }
        });
        drop(files);
    }
    rcu::barrier().expect("outside of sections");
    let made = counts.made.load(Relaxed);
    assert!(changes.load(Relaxed) > 100, "the threads got somewhere");
    assert_eq!(counts.released.load(Relaxed), made, "each is released once");
    assert_eq!(counts.dropped.load(Relaxed), made, "each is dropped once");
}
