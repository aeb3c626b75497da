//! One turn after the other, as lines on standard input ask for it: `borrowed 2 20` is 20 ms of
//! borrowed lookups by 2 threads. Each is answered by a line: nanoseconds for one operation of
//! one thread.
//!
//! With the arguments `without HOOK` it lacks a hook: `sequences`, `cpus`, `word` or `fence`.
//! `fdtable-hooks first-open` prints the memory that the first open of a program takes.

use std::hint::black_box;
use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};
use fdtable_hooks::Hook;

/// How many descriptors are open.
const LIVE: i32 = 1000;

/// How many operations are between two looks at the clock.
const BETWEEN: u32 = 256;

type Table = Files<Rcu<u64>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] | ["first-open"] => fdtable_hooks::use_sequences(),
        ["without", "sequences"] => {}
        ["without", "cpus"] => {
            fdtable_hooks::do_without(Hook::Cpus);
            fdtable_hooks::use_sequences();
        }
        ["without", "word"] => {
            fdtable_hooks::do_without(Hook::ThreadWord);
            fdtable_hooks::use_sequences();
        }
        // Sequences need it.
        ["without", "fence"] => fdtable_hooks::do_without(Hook::HeavyFence),
        _ => {
            eprintln!("fdtable-hooks: first-open, or without sequences, cpus, word or fence");
            return ExitCode::FAILURE;
        }
    }
    fdtable_hooks::enter(0);
    if arguments == ["first-open"] {
        first_open();
        return ExitCode::SUCCESS;
    }
    let files = Table::new();
    for number in 0..LIVE {
        files
            .open(FileRef::new_rcu(number as u64), FdFlags::empty())
            .expect("there is memory");
    }
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let [case, threads, milliseconds] = words[..] else {
            eprintln!("fdtable-hooks: a line is a case, a number of threads, and milliseconds");
            return ExitCode::FAILURE;
        };
        let operation: fn(&Table, u64) = match case {
            "borrowed" => borrowed,
            "owned" => owned,
            "owned_same" => owned_same,
            "open_close" => open_close,
            _ => {
                eprintln!("fdtable-hooks: no case {case}");
                return ExitCode::FAILURE;
            }
        };
        let (Ok(threads), Ok(milliseconds)) = (threads.parse(), milliseconds.parse()) else {
            eprintln!("fdtable-hooks: not a number in {line}");
            return ExitCode::FAILURE;
        };
        let turn = Duration::from_millis(milliseconds);
        println!("{}", nanoseconds(&files, operation, threads, turn));
        let _ = std::io::stdout().flush();
    }
    ExitCode::SUCCESS
}

/// Returns how long an operation took in a turn, on average of all threads.
fn nanoseconds(files: &Table, operation: fn(&Table, u64), threads: usize, turn: Duration) -> f64 {
    let start = Barrier::new(threads);
    let one = |index: usize| {
        fdtable_hooks::enter(index);
        let mut state = index as u64 + 1;
        start.wait();
        let begin = Instant::now();
        let mut done = 0_u32;
        while begin.elapsed() < turn {
            for _ in 0..BETWEEN {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                operation(files, state >> 33);
            }
            done += BETWEEN;
        }
        let spent = begin.elapsed().as_nanos() as f64 / f64::from(done);
        fdtable_hooks::leave();
        spent
    };
    let sum: f64 = std::thread::scope(|scope| {
        let one = &one;
        let handles: Vec<_> = (0..threads)
            .map(|index| scope.spawn(move || one(index)))
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().expect("a turn does not panic"))
            .sum()
    });
    sum / threads as f64
}

fn fd_of(random: u64) -> i32 {
    (random % LIVE as u64) as i32
}

#[inline(never)]
fn borrowed(files: &Table, random: u64) {
    let section = rcu::read_lock();
    black_box(*files.get_rcu(fd_of(random), &section).expect("open"));
}

#[inline(never)]
fn owned(files: &Table, random: u64) {
    black_box(**files.get(fd_of(random)).expect("open"));
}

#[inline(never)]
fn owned_same(files: &Table, _: u64) {
    black_box(**files.get(7).expect("open"));
}

#[inline(never)]
fn open_close(files: &Table, random: u64) {
    let file = FileRef::new_rcu(random);
    let fd = files.open(file, FdFlags::empty()).expect("there is room");
    drop(files.close(fd).expect("open"));
}

fn first_open() {
    let ((files, fd), taken) = fdtable_hooks::taken_in(|| {
        let files = Files::<u64>::new();
        let fd = files.open(FileRef::new(1), FdFlags::empty());
        (files, fd.expect("there is memory"))
    });
    assert_eq!(*files.get(fd).expect("open"), 1);
    let bytes: usize = taken.iter().map(std::alloc::Layout::size).sum();
    let align = taken.iter().map(std::alloc::Layout::align).max();
    println!("{bytes} {}", align.unwrap_or(0));
}
