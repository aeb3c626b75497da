//! Processes are killed at random instants, in operations and in burials.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::time::Duration;

use super::world::{Child, End, RECORDS, Random, SLOTS, World, exit_if_it_panics};
use crate::Thread;

const WORKERS: usize = 3;

/// How many processes are killed.
fn kills() -> usize {
    match std::env::var("FDTABLE_RECOVER_KILLS") {
        Ok(kills) => kills.parse().expect("a number"),
        Err(_) => 300,
    }
}

fn work(world: &World, thread: &Thread<'static>, seed: u64) {
    let random = Random::new(seed);
    let slot_of = |index: usize| world.slot(index as u32, random.below(SLOTS));
    loop {
        let stop = world.shared.stop.load(Acquire);
        if stop % 2 == 1 {
            world.shared.stopped[thread.index() as usize].store(stop, Release);
            while world.shared.stop.load(Acquire) == stop {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        let own = slot_of(thread.index() as usize);
        let is_empty = own.load(Relaxed) == 0;
        match random.below(13) {
            0..2 if is_empty => {
                if world.open(thread, own) && random.below(2) == 0 {
                    let theirs = slot_of(random.below(RECORDS));
                    world.take(thread, theirs, world.child_of(own));
                }
            }
            2..5 if is_empty => {
                world.take(thread, slot_of(random.below(RECORDS)), own);
            }
            5..7 => {
                let other = slot_of(thread.index() as usize);
                if !is_empty && other.load(Relaxed) == 0 {
                    world.dup(thread, own, other);
                }
            }
            10 if !is_empty => {
                world.replace(thread, own, slot_of(thread.index() as usize));
            }
            7..10 => world.close(thread, own),
            11 => world.transfer(thread),
            _ => world.rotate(thread),
        }
        thread.release_all(world);
        world.shared.operations.fetch_add(1, Relaxed);
    }
}

fn fork_worker(world: &World, seed: u64) -> Child {
    world.fork(|thread| {
        // Half of them have a second thread.
        if seed.is_multiple_of(2)
            && let Some(claim) = thread.claim_thread()
        {
            let world = *world;
            std::thread::spawn(move || {
                // SAFETY: it was claimed for this thread.
                let thread = unsafe { world.records.adopt(claim) }.unwrap();
                exit_if_it_panics(|| work(&world, &thread, seed + 1_000_000));
            });
        }
        work(world, thread, seed);
    })
}

/// Stops all workers between two calls, and checks everything.
fn check(world: &World, workers: &[Child]) {
    world.shared.stop.fetch_add(1, Release);
    for worker in workers {
        while !world.is_stopped(worker.process) {
            assert!(!World::has_ended(worker), "a worker has ended by itself");
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    let living = 1 + workers
        .iter()
        .map(|worker| world.members(worker.process).count())
        .sum::<usize>();
    world.judge(living);
    world.shared.stop.fetch_add(1, Release);
}

#[test]
fn random_kills_leave_everything_exact() {
    let (world, thread) = World::new();
    let seed = u64::from(std::process::id()) << 32;
    let random = Random::new(seed);
    for slot in 0..SLOTS {
        assert!(world.open(&thread, world.slot(0, slot)));
    }
    let mut seeds = seed..;
    let mut workers: Vec<Child> = (0..WORKERS)
        .map(|_| fork_worker(&world, seeds.next().unwrap()))
        .collect();
    let (mut unburied, mut in_calls, mut killed_buriers) = (Vec::new(), 0, 0);
    for kill in 1..=kills() {
        std::thread::sleep(Duration::from_micros(random.below(1500) as u64));
        let dead = workers.swap_remove(random.below(workers.len()));
        world.kill(&dead);
        assert_eq!(world.wait(&dead), End::Killed);
        in_calls += usize::from(world.has_left_something(dead.process));
        workers.push(fork_worker(&world, seeds.next().unwrap()));
        unburied.push(dead);
        if kill % 20 == 0 || unburied.len() == 3 {
            for dead in unburied.drain(..) {
                let is_burier_killed = random.below(2) == 0;
                let burier = world.fork(|burier| {
                    let _ = burier.bury(dead.process, &world);
                });
                let patience = Duration::from_micros(random.below(400) as u64);
                std::thread::sleep(patience);
                if is_burier_killed {
                    world.kill(&burier);
                    killed_buriers += usize::from(world.wait(&burier) == End::Killed);
                    world.bury(&thread, &burier);
                }
                world.bury(&thread, &dead);
                if !is_burier_killed {
                    assert_eq!(world.wait(&burier), End::Exited);
                    world.bury(&thread, &burier);
                }
            }
        }
        if kill % 20 == 0 {
            check(&world, &workers);
        }
    }
    for worker in &workers {
        world.kill(worker);
        assert_eq!(world.wait(worker), End::Killed);
        world.bury(&thread, worker);
    }
    world.judge(1);
    let operations = world.shared.operations.load(Relaxed);
    println!(
        "{operations} operations, {in_calls} deaths in calls, {killed_buriers} buriers killed"
    );
    assert!(in_calls > 0, "no process died in a call");
}
