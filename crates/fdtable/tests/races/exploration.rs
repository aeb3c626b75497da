//! Small programs in every order of their steps.

use std::sync::{Arc, Mutex};

use fdtable::{FileRef, Files, RawFd};
use loom::thread::JoinHandle;

use crate::NONE;

/// Runs `model` in every order in which threads are interrupted, while they could go on, that often
/// in all, unless `LOOM_MAX_PREEMPTIONS` is set. Prints how many there were.
pub(crate) fn explore(preemptions: usize, model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = builder.max_branches.max(50_000);
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    let executions = Arc::new(Mutex::new(0_u64));
    let count = executions.clone();
    builder.check(move || {
        *count.lock().expect("no panic") += 1;
        model();
    });
    println!("{} executions", executions.lock().expect("no panic"));
}

/// Makes a table with this limit and a file open under each of these descriptors.
pub(crate) fn table(limit: u32, open: &[RawFd]) -> (Arc<Files<()>>, Vec<FileRef<()>>) {
    let files = Files::with_limit(limit);
    let install = |&number: &RawFd| {
        let file = FileRef::new(());
        let reservation = files.reserve_from(number, NONE).expect("there is room");
        assert_eq!(reservation.install(file.clone()).raw(), number);
        file
    };
    let held = open.iter().map(install).collect();
    (Arc::new(files), held)
}

pub(crate) fn spawn<A: 'static>(
    files: &Arc<Files<()>>,
    act: impl FnOnce(&Files<()>) -> A + 'static,
) -> JoinHandle<A> {
    let files = files.clone();
    loom::thread::spawn(move || act(&files))
}

pub(crate) fn join<A>(thread: JoinHandle<A>) -> A {
    thread.join().expect("the thread ends")
}

/// How many references there are to each file.
pub(crate) fn references(files: &[FileRef<()>]) -> Vec<usize> {
    files.iter().map(FileRef::strong_count).collect()
}
