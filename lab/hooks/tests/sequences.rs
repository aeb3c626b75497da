//! Restartable sequences of a platform: threads that have an area each, and are interrupted in it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};

const ALIVE: u64 = 0x0B5E_55ED_0B5E_55ED;

/// An object that knows whether it was dropped.
struct Canary(u64);

impl Drop for Canary {
    fn drop(&mut self) {
        assert_eq!(self.0, ALIVE, "dropped once");
        self.0 = 0;
    }
}

/// What breaks if this is wrong: a sequence that is not restarted takes an object that another
/// thread of its CPU has, or a reference to one that is gone.
#[test]
fn threads_that_share_cpus_find_live_objects() {
    fdtable_hooks::use_sequences();
    fdtable_hooks::enter(0);
    let seconds =
        std::env::var("FDTABLE_STRESS_SECONDS").map_or(2, |text| text.parse().unwrap_or(2));
    let files: Files<Rcu<Canary>> = Files::new();
    let over = AtomicBool::new(false);
    // The scope's own thread is pinned, and the CPUs have two threads each.
    let threads = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for index in 0..threads {
            let (files, over) = (&files, &over);
            scope.spawn(move || {
                fdtable_hooks::enter(index);
                let mut random = fastrand::Rng::with_seed(index as u64);
                while !over.load(Relaxed) {
                    step(files, &mut random);
                }
                fdtable_hooks::leave();
            });
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(seconds) {
            // The heavy fence restarts sequences on the other CPUs.
            rcu::synchronize().expect("outside of sections");
            std::thread::sleep(Duration::from_micros(200));
        }
        over.store(true, Relaxed);
    });
    drop(files);
    rcu::barrier().expect("outside of sections");
    fdtable_hooks::leave();
}

fn step(files: &Files<Rcu<Canary>>, random: &mut fastrand::Rng) {
    let fd = random.i32(0..130);
    match random.u8(0..8) {
        0 | 1 => {
            let _ = files.open(FileRef::new_rcu(Canary(ALIVE)), FdFlags::empty());
        }
        2 | 3 => drop(files.close(fd)),
        4 => {
            let section = rcu::read_lock();
            if let Ok(file) = files.get_rcu(fd, &section) {
                assert_eq!(file.0, ALIVE);
            }
        }
        5 => drop(files.dup2(fd, random.i32(0..130))),
        _ => {
            if let Ok(file) = files.get(fd) {
                assert_eq!(file.0, ALIVE);
            }
        }
    }
}
