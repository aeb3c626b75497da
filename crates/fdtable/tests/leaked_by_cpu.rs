//! Files that are leaked after their references were counted by CPU: their indexes are never used
//! again. A process of its own, since no other test would have an index afterwards.

#![cfg(not(loom))]

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use fdtable::{FdFlags, FileRef, Files, RawFd};

const NONE: FdFlags = FdFlags::empty();

/// More files than there are indexes.
const LEAKED: usize = 300;

fn open(files: &Files<usize>, file: FileRef<usize>) -> RawFd {
    files.open(file, NONE).expect("there is room").into()
}

/// Asks for a count by CPU. Returns true if there is one.
fn can_count_by_cpu(files: &Files<usize>, fd: RawFd) -> bool {
    files.count_by_cpu(fd).expect("it is open");
    let file = files.get(fd).expect("it is open");
    FileRef::exact_strong_count(&file).is_none()
}

/// A file without an index is released early, twice or never.
#[test]
fn files_are_released_once_when_leaked_ones_have_all_indexes() {
    let files = Files::new();
    for number in 0..LEAKED {
        let fd = open(&files, FileRef::new(number));
        let has_index = can_count_by_cpu(&files, fd);
        assert!(has_index || number > 0 || cfg!(target_pointer_width = "32"));
        mem::forget(files.get(fd));
        drop(files.close(fd));
    }
    for round in 0..40 {
        let is_released = Arc::new(AtomicBool::new(false));
        let note = is_released.clone();
        let file = FileRef::builder(round)
            .on_release(move |_, _| assert!(!note.swap(true, SeqCst), "released twice"))
            .build();
        let fd = open(&files, file);
        assert!(!can_count_by_cpu(&files, fd), "an index is free");
        thread::scope(|scope| {
            let look_up = || {
                while let Ok(file) = files.get(fd) {
                    assert!(!is_released.load(SeqCst), "released beside a holder");
                    files.count_by_cpu(fd).ok();
                    drop(file);
                }
            };
            scope.spawn(look_up);
            scope.spawn(look_up);
            for _ in 0..round % 4 {
                drop(files.get(fd));
                thread::yield_now();
            }
            drop(files.close(fd));
        });
        assert!(is_released.load(SeqCst), "never released");
    }
}
