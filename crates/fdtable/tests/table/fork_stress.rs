//! Forks while other threads open, close and replace: each is an atomic copy.
//!
//! Files are moved from descriptor to descriptor, far apart in the tree. A file that is first
//! opened under the new descriptor and then closed under the old one is in every copy; a file that
//! is first taken out is in no copy twice.

use crate::canary;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use canary::{Bird, Canary, Flock, look_at_borrowed, look_at_owned};
use fastrand::Rng;
use fdtable::{Error, Fd, FdFlags, FileRef, Files, RawFd, Rcu, rcu};

const NONE: FdFlags = FdFlags::empty();

/// How many forks are made.
const FORKS: usize = 400;

/// Each file has descriptors of its own, in leaves that it shares with the others.
const PLACES: [RawFd; 5] = [0, 64, 640, 33_000, 1 << 24];

fn listed<T: Send + Sync>(files: &Files<T>) -> Vec<Fd> {
    files.iter().map(|(fd, ..)| fd).collect()
}

/// Runs `step` in a thread for each of `movers` files while `fork` is called.
fn while_moving(movers: RawFd, step: impl Fn(RawFd, &mut Rng) + Sync, mut fork: impl FnMut()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for mover in 0..movers {
            let (step, done) = (&step, &done);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(mover.unsigned_abs().into());
                while !done.load(Relaxed) {
                    step(mover, &mut rng);
                }
            });
        }
        (0..FORKS).for_each(|_| fork());
        done.store(true, Relaxed);
    });
}

/// Returns the descriptors of each file in a table: the files are counted from 0.
fn places(files: &Files<RawFd>, movers: RawFd) -> Vec<Vec<RawFd>> {
    let mut places = vec![Vec::new(); movers.unsigned_abs() as usize];
    for fd in listed(files) {
        let mover = *files.get(fd).expect("only this thread has the child");
        places[mover.unsigned_abs() as usize].push(fd.raw());
    }
    places
}

#[test]
fn a_file_that_is_moved_is_in_every_copy_and_one_that_is_taken_out_first_in_none_twice() {
    const MOVERS: RawFd = 4;
    let files: Files<RawFd> = Files::with_limit(u32::MAX);
    for mover in 0..MOVERS {
        let fd = files
            .open(FileRef::new(mover), NONE)
            .expect("there is room");
        assert_eq!(fd.raw(), mover);
    }
    let step = |mover: RawFd, rng: &mut Rng| {
        let old = files.iter_from(0).next().map(|(fd, ..)| fd);
        let at = PLACES.iter().map(|place| place + mover);
        let here = at.clone().find(|&fd| files.get(fd).is_ok());
        assert!(old.is_some(), "the file is in the table");
        let (Some(old), new) = (here, PLACES[rng.usize(0..PLACES.len())] + mover) else {
            panic!("this thread alone moves the file");
        };
        if old == new {
            return;
        }
        if mover % 2 == 0 {
            files.dup3(old, new, NONE).expect("it is open");
            drop(files.close(old).expect("it is open"));
        } else {
            let file = files.close(old).expect("it is open").into_file();
            let reservation = files.reserve_from(new, NONE).expect("it is free");
            assert_eq!(reservation.fd().raw(), new);
            reservation.install(file);
        }
    };
    let mut kept = Vec::new();
    while_moving(MOVERS, step, || {
        let child = files.fork().expect("there is memory");
        for (mover, places) in places(&child, MOVERS).iter().enumerate() {
            let allowed = if mover % 2 == 0 { 1..=2 } else { 0..=1 };
            assert!(allowed.contains(&places.len()), "{mover} at {places:?}");
        }
        // Several live at once, so that nodes are shared by many.
        kept.push((listed(&child), child));
        if kept.len() > 8 {
            let (before, child) = kept.swap_remove(3);
            assert_eq!(listed(&child), before, "nothing changes a copy");
        }
    });
    assert_eq!(places(&files, MOVERS).concat().len(), MOVERS as usize);
}

/// Closes the descriptors above those that the threads close.
fn keep_few<B: Bird>(files: &Files<B>, opened: Result<Fd, Error>) {
    let fd = opened.expect("there is room");
    if fd.raw() >= 400 {
        drop(files.close(fd).expect("it is this thread's own"));
    }
}

#[test]
fn children_change_what_they_share_while_the_parent_does_too() {
    let flock = children_change_what_they_share(|files: &Files<Canary>, number| {
        let _section = rcu::read_lock();
        _ = files.get(number).inspect(look_at_owned);
    });
    flock.check_gone();
}

#[test]
fn children_change_what_they_share_while_files_are_borrowed() {
    let flock = children_change_what_they_share(|files: &Files<Rcu<Canary>>, number| {
        let section = rcu::read_lock();
        if let Ok(file) = files.get_rcu(number, &section) {
            look_at_borrowed(file);
        }
    });
    rcu::barrier().expect("outside of sections");
    flock.check_gone();
}

fn children_change_what_they_share<B: Bird>(look: impl Fn(&Files<B>, RawFd) + Sync) -> Arc<Flock> {
    let flock = Arc::new(Flock::default());
    let files: Files<B> = Files::with_limit(u32::MAX);
    for _ in 0..300 {
        files.open(flock.hatch(), NONE).expect("there is room");
    }
    let step = |_: RawFd, rng: &mut Rng| {
        let number = rng.i32(0..400);
        match rng.u8(0..6) {
            0 => keep_few(&files, files.open(flock.hatch(), FdFlags::CLOEXEC)),
            1 => keep_few(&files, files.open_any(flock.hatch(), NONE)),
            2 | 3 => _ = files.close(number),
            4 => _ = files.dup3(number, number + 33_000, NONE),
            _ => drop(files.reserve(NONE).expect("there is room")),
        }
        look(&files, number);
    };
    let mut rng = Rng::with_seed(7);
    let mut family: Vec<Files<B>> = Vec::new();
    while_moving(3, step, || {
        let of = family.get(rng.usize(0..8)).unwrap_or(&files);
        let child = of.fork().expect("there is memory");
        let open = listed(&child);
        assert_eq!(
            child.open_count(),
            open.len(),
            "no reservation has come along"
        );
        for &fd in &open {
            look_at_owned(&child.get(fd).expect("nobody else has the child"));
        }
        match rng.u8(0..4) {
            0 => child.close_on_exec(drop).expect("there is memory"),
            1 => child.close_range(64, 300, drop).expect("in order"),
            2 => open
                .iter()
                .step_by(3)
                .for_each(|&fd| drop(child.close(fd).expect("it is open"))),
            _ => {}
        }
        family.push(child);
        if family.len() > 6 {
            drop(family.swap_remove(rng.usize(0..family.len())));
        }
    });
    flock
}
