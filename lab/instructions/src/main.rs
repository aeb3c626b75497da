//! Repeats one operation of a table: `fdtable-instructions owned 1000` does 1,000 owned lookups.
//!
//! Two runs with different numbers differ by the instructions of the operations alone, whatever
//! the start and the end of the program cost. `loop` is the loop around them without an operation.
//! `cargo xtask full --only foreign` counts the instructions of each run under QEMU.

use std::hint::black_box;
use std::process::ExitCode;

use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};

/// How many descriptors are open: not all are in the first leaf of the table.
const LIVE: i32 = 1000;

type Table = Files<Rcu<u64>>;
type File = FileRef<Rcu<u64>>;
/// An operation of a table, with a file that is not in it and a descriptor that is open.
type Operation = fn(&Table, &File, i32);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let request = match &arguments[..] {
        [operation, count] => operation_of(operation).zip(count.parse::<u32>().ok()),
        _ => None,
    };
    let Some((operation, count)) = request else {
        eprintln!("usage: fdtable-instructions OPERATION COUNT");
        return ExitCode::FAILURE;
    };
    let files = Table::new();
    for number in 0..LIVE {
        files
            .open(FileRef::new_rcu(number as u64), FdFlags::empty())
            .expect("there is memory");
    }
    let file = FileRef::new_rcu(LIVE as u64);
    for number in 0..count {
        // A prime to the number of descriptors: each is met equally often.
        let fd = (number * 37 % LIVE as u32) as i32;
        operation(&files, &file, black_box(fd));
    }
    ExitCode::SUCCESS
}

fn operation_of(name: &str) -> Option<Operation> {
    match name {
        "loop" => Some(nothing),
        "borrowed" => Some(borrowed),
        "owned" => Some(owned),
        "open_close" => Some(open_close),
        "open_close_new" => Some(open_close_new),
        _ => None,
    }
}

#[inline(never)]
fn nothing(_: &Table, _: &File, fd: i32) {
    black_box(fd);
}

#[inline(never)]
fn borrowed(files: &Table, _: &File, fd: i32) {
    let section = rcu::read_lock();
    black_box(*files.get_rcu(fd, &section).expect("open"));
}

#[inline(never)]
fn owned(files: &Table, _: &File, fd: i32) {
    black_box(**files.get(fd).expect("open"));
}

#[inline(never)]
fn open_close(files: &Table, file: &File, _: i32) {
    let fd = files.open(file.clone(), FdFlags::empty()).expect("room");
    drop(files.close(fd).expect("open"));
}

#[inline(never)]
fn open_close_new(files: &Table, _: &File, fd: i32) {
    let file = FileRef::new_rcu(fd as u64);
    let fd = files.open(file, FdFlags::empty()).expect("there is memory");
    drop(files.close(fd).expect("open"));
}
