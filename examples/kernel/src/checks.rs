//! Checks of this kernel after its start, which it prints as a table.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use core::task::{Context, Waker};

use fdtable::{Access, Error, FdFlags, FileRef, Files, Rcu, SuperBlock, rcu};

use crate::file::EBADF;
use crate::platform::{self, Fence, set_fence};
use crate::process::{Create, FileSystem, Process};
use crate::{clock, cpu, interrupts, println, threads};

const NONE: FdFlags = FdFlags::empty();
const ALIVE: u64 = 0x0B5E_55ED_0B5E_55ED;

static MADE: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// An object that knows whether it was dropped.
struct Canary(AtomicU64);

impl Canary {
    fn new() -> Self {
        MADE.fetch_add(1, Relaxed);
        Self(AtomicU64::new(ALIVE))
    }

    fn check(&self) {
        assert_eq!(self.0.load(Relaxed), ALIVE, "a reader finds a live object");
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        assert_eq!(self.0.swap(0, Relaxed), ALIVE, "an object is dropped once");
        DROPPED.fetch_add(1, Relaxed);
    }
}

type Table = Files<Rcu<Canary>>;

/// How long a stress runs, in milliseconds.
const STRESS: u64 = 1000;

/// How many descriptors the large table has.
const MANY: usize = 1_000_000;

/// Runs all checks, and prints a row for each. A check that fails panics.
pub fn run() {
    println!("| check | result | ms |");
    println!("|---|---|---|");
    row("heavy fences reach all CPUs", fences);
    row("system calls of processes on all CPUs", processes);
    row("stress, fences by interrupt", || stress(Fence::Interrupt));
    row("stress, fences by tick", || stress(Fence::Tick));
    set_fence(Fence::Interrupt);
    row("revocation of 1,000 files in 4 tables", revocation);
    row("waiting for a free descriptor", waiting);
    row("a million descriptors", million);
    rcu::barrier().expect("outside of sections");
    let (made, dropped) = (MADE.load(Relaxed), DROPPED.load(Relaxed));
    assert_eq!(made, dropped, "each object was dropped once");
    println!("| objects made and dropped | {made} | |");
    let restarts = interrupts::RESTARTS.load(Relaxed);
    println!("| sequences that were restarted | {restarts} | |");
    let (calls, all) = (interrupts::calls(), interrupts::count());
    println!("| calls of all CPUs, interrupts | {calls}, {all} | |");
    println!("violations: 0");
}

fn row(name: &str, check: impl FnOnce() -> String) {
    let begin = clock::nanoseconds();
    let result = check();
    let spent = (clock::nanoseconds() - begin) / 1_000_000;
    println!("| {name} | {result} | {spent} |");
}

/// Runs `work` on two threads for each CPU, each with its number, and waits for all.
fn on_all_cpus<W: Fn(usize) + Send + Sync + 'static>(work: W) {
    let work = Arc::new(work);
    let start = |number| {
        let work = work.clone();
        threads::spawn(move || work(number))
    };
    let all: Vec<_> = (0..2 * cpu::count()).map(start).collect();
    all.into_iter().for_each(threads::JoinHandle::join);
}

/// Random operations on one table and its forks by all CPUs. Each object that is found is alive.
fn stress(fence: Fence) -> String {
    set_fence(fence);
    let files = Arc::new(Table::new());
    let end = clock::nanoseconds() + STRESS * 1_000_000;
    let done = Arc::new(AtomicUsize::new(0));
    let (shared, count) = (files.clone(), done.clone());
    on_all_cpus(move |number| {
        let mut random = fastrand::Rng::with_seed(number as u64);
        while clock::nanoseconds() < end {
            for _ in 0..100 {
                step(&shared, &mut random);
            }
            count.fetch_add(100, Relaxed);
        }
    });
    drop(files);
    rcu::barrier().expect("outside of sections");
    format!("{} operations", done.load(Relaxed))
}

fn step(files: &Table, random: &mut fastrand::Rng) {
    let fd = random.i32(0..200);
    match random.u8(0..32) {
        0..6 => drop(files.open(FileRef::new_rcu(Canary::new()), NONE)),
        6..12 => drop(files.close(fd)),
        12..20 => {
            let section = rcu::read_lock();
            if let Ok(file) = files.get_rcu(fd, &section) {
                file.check();
            }
        }
        20..27 => {
            if let Ok(file) = files.get(fd) {
                file.check();
            }
        }
        27..30 => drop(files.dup2(fd, random.i32(0..200))),
        30 => drop(files.close_range(fd, fd + 10, drop)),
        _ => {
            let child = files.fork().expect("there is memory");
            if let Ok(file) = child.get(fd) {
                file.check();
            }
        }
    }
}

/// Processes on all CPUs: each forks a child that writes into a pipe, and reads what it wrote.
fn processes() -> String {
    let file_system = Arc::new(FileSystem::default());
    let init = Process::first(file_system).expect("there is memory");
    init.write(1, b"| the console is open at 1 | | |\n")
        .expect("it is open");
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let parent = init.clone();
    on_all_cpus(move |number| {
        for round in 0..20 {
            one_child(&parent, number, round);
            count.fetch_add(1, Relaxed);
        }
    });
    assert_eq!(init.files.open_count(), 3, "nothing stays open");
    format!("{} processes", made.load(Relaxed))
}

/// How much a child writes.
const MESSAGE: usize = 20_000;

fn one_child(parent: &Process, number: usize, round: usize) {
    let (read, write) = parent.pipe(FdFlags::CLOEXEC).expect("there is room");
    let child = parent.fork(move |child| {
        let name = format!("/file-{number}-{round}");
        let fd = child.open(&name, Create::Yes, NONE).expect("there is room");
        child.write(fd, name.as_bytes()).expect("it is open");
        let again = child.open(&name, Create::No, NONE).expect("it is there");
        let mut text = [0; 64];
        let length = child.read(again, &mut text).expect("it is open");
        assert_eq!(&text[..length], name.as_bytes());
        // Other threads of the parent have pipes open, which the child has copies of.
        let out = child.dup2(write, 500).expect("it is open");
        child.exec().expect("there is memory");
        assert_eq!(child.close(write), Err(EBADF), "closed by the exec");
        let data = vec![number as u8; MESSAGE];
        let mut rest = &data[..];
        while !rest.is_empty() {
            let written = child.write(out, rest).expect("there is a reader");
            rest = &rest[written..];
        }
        child
            .close_range(3, i32::MAX as usize)
            .expect("there is memory");
        assert_eq!(child.files.open_count(), 3);
    });
    let child = child.expect("there is memory");
    parent.close(write).expect("it is open");
    let mut buffer = [0; 1024];
    let mut total = 0;
    loop {
        let length = parent.read(read, &mut buffer).expect("it is open");
        if length == 0 {
            break;
        }
        assert!(buffer[..length].iter().all(|&byte| byte == number as u8));
        total += length;
    }
    assert_eq!(total, MESSAGE, "the pipe ends after the message");
    parent.close(read).expect("it is open");
    child.join();
}

/// Files of one superblock in several tables, which another CPU revokes while all look them up.
fn revocation() -> String {
    let disk: SuperBlock<Rcu<Canary>> = SuperBlock::new().expect("there is memory");
    let tables: Vec<Arc<Table>> = (0..4).map(|_| Arc::new(Table::new())).collect();
    for number in 0..1000 {
        let file = FileRef::builder(Canary::new())
            .rcu()
            .on(&disk, Access::Read);
        let file = file.try_build().expect("there is memory");
        let table = &tables[number % 4];
        table.open(file, NONE).expect("there is room");
    }
    let revoked = Arc::new(AtomicBool::new(false));
    let lookers: Vec<_> = tables
        .iter()
        .map(|table| {
            let (table, revoked) = (table.clone(), revoked.clone());
            threads::spawn(move || {
                loop {
                    let is_over = revoked.load(Relaxed);
                    for fd in 0..250 {
                        match table.get(fd) {
                            Ok(file) => {
                                assert!(!is_over, "no lookup finds a revoked file");
                                file.check();
                            }
                            Err(error) => assert_eq!(error, Error::Revoked),
                        }
                    }
                    if is_over {
                        break;
                    }
                }
            })
        })
        .collect();
    let count = disk.revoke().expect("there is memory");
    revoked.store(true, Relaxed);
    lookers.into_iter().for_each(threads::JoinHandle::join);
    drop(tables);
    disk.unmount().expect("no file is open");
    format!("{count} files")
}

/// A heavy fence interrupts each other CPU, or waits until something has.
fn fences() -> String {
    let both = [Fence::Interrupt, Fence::Tick];
    for fence in both.into_iter().cycle().take(100) {
        set_fence(fence);
        cpu::disable_preemption();
        let before: Vec<u64> = (0..cpu::count()).map(interrupts::passed).collect();
        platform::heavy_fence();
        let others = (0..cpu::count()).filter(|&other| other != cpu::id());
        others.for_each(|other| assert!(interrupts::passed(other) > before[other]));
        cpu::enable_preemption();
    }
    set_fence(Fence::Interrupt);
    "100 fences".into()
}

/// Wakes a thread.
struct Wakeup(u64);

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        threads::wake(self.0);
    }
}

/// A thread that waits blocks, and a close wakes it.
fn waiting() -> String {
    let files: Arc<Files<u64>> = Arc::new(Files::with_limit(1));
    for number in 0..1000 {
        let fd = files.open(FileRef::new(number), NONE).expect("it is free");
        let waiter = files.clone();
        let thread = threads::spawn(move || {
            let waker = Waker::from(Arc::new(Wakeup(threads::current_id())));
            let mut context = Context::from_waker(&waker);
            while waiter.poll_until_free(&mut context).is_pending() {
                threads::block();
            }
        });
        if number % 2 == 0 {
            threads::yield_now();
        }
        drop(files.close(fd).expect("it is open"));
        thread.join();
    }
    "1000 times".into()
}

/// A table grows to a million descriptors, is forked, and ends.
fn million() -> String {
    let files = Box::new(Files::<Rcu<u64>>::with_limit(MANY as u32));
    let mut worst = 0;
    let begin = clock::nanoseconds();
    let mut before = begin;
    for number in 0..MANY {
        let file = FileRef::builder(number as u64)
            .rcu()
            .try_build()
            .expect("there is memory");
        let fd = files.open(file, NONE).expect("there is room");
        assert_eq!(fd.index(), number, "the lowest free descriptor");
        let now = clock::nanoseconds();
        worst = worst.max(now - before);
        before = now;
    }
    let growth = (before - begin) / MANY as u64;
    let begin = clock::nanoseconds();
    let child = files.fork().expect("there is memory");
    let fork = clock::nanoseconds() - begin;
    for number in (0..MANY).step_by(997) {
        drop(child.close(number as i32).expect("it is open"));
        assert_eq!(child.get(number as i32).err(), Some(Error::BadFd));
        assert_eq!(
            **files.get(number as i32).expect("it is open"),
            number as u64
        );
    }
    drop(child);
    drop(files);
    rcu::barrier().expect("outside of sections");
    format!(
        "open {growth} ns, worst {} µs; fork {} µs",
        worst / 1000,
        fork / 1000
    )
}
