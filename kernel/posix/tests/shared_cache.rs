//! Processes that share a cache: each takes and frees objects, and one takes the magazines of all
//! CPUs from them meanwhile.

use std::alloc::System;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use fdtable_shm::{Heap, begin, enter, forget_thread};
use fdtable_slab::{Cache, Object};

#[global_allocator]
static HEAP: Heap<System> = Heap(System);

/// An object, which knows its owner.
struct Owned(AtomicU32);

/// State that all processes share.
struct World {
    cache: Cache<Owned>,
    is_over: AtomicBool,
    rounds: AtomicU64,
}

/// How many objects a process has at most: more than four magazines.
const HANDFUL: usize = 300;
const PROCESSES: u32 = 3;

fn main() -> ExitCode {
    // SAFETY: the process has one thread, and there is no kernel.
    unsafe { begin() }.expect("there is memory");
    let _inside = enter();
    let world: &'static World = Box::leak(Box::new(World {
        cache: Cache::new("shared").expect("there is memory"),
        is_over: AtomicBool::new(false),
        rounds: AtomicU64::new(0),
    }));
    let children: Vec<i32> = (1..=PROCESSES).map(|own| start(world, own)).collect();
    let seconds = std::env::var("FDTABLE_STRESS_SECONDS").ok();
    let time = seconds.map_or(Duration::from_millis(700), |seconds| {
        Duration::from_secs(seconds.parse().expect("a number"))
    });
    let end = Instant::now() + time;
    let mut drains = 0;
    while Instant::now() < end {
        // Nothing, if this process may not use all CPUs: then magazines stay where they are.
        drains += u32::from(world.cache.shrink() > 0);
    }
    world.is_over.store(true, SeqCst);
    let failed = children.into_iter().filter(|&child| !is_well(child));
    let failed = failed.count();
    world.cache.shrink();
    let lost = world.cache.info().in_use;
    let rounds = world.rounds.load(SeqCst);
    println!("{drains} drains, {rounds} rounds, {failed} processes failed, {lost} objects lost");
    let is_ok = failed == 0 && lost == 0 && drains > 0;
    let word = if is_ok { "ok" } else { "FAILED" };
    println!("test processes_share_a_cache_that_is_drained ... {word}\n");
    let (passed, failed) = (u8::from(is_ok), u8::from(!is_ok));
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
    ExitCode::from(failed)
}

/// Starts a process that uses the cache until it is over.
fn start(world: &'static World, own: u32) -> i32 {
    // SAFETY: the process has one thread.
    match unsafe { libc::fork() } {
        0 => {
            forget_thread();
            let _inside = enter();
            let work = || use_it(world, own);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: it takes an integer.
            unsafe { libc::_exit(result.is_err().into()) }
        }
        child => child,
    }
}

/// Waits for a process. Returns true if it has not failed.
fn is_well(child: i32) -> bool {
    let mut status = 0;
    // SAFETY: there is room for the status.
    let id = unsafe { libc::waitpid(child, &raw mut status, 0) };
    id == child && status == 0
}

/// Takes and frees objects, some hundreds at a time.
fn use_it(world: &'static World, own: u32) {
    let mut hand: Vec<Object<'_, Owned>> = Vec::with_capacity(HANDFUL);
    let mut random = u64::from(own);
    while !world.is_over.load(SeqCst) {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let count = (random >> 33) as usize % HANDFUL;
        while hand.len() < count {
            let object = world.cache.insert(Owned(AtomicU32::new(own)));
            hand.push(object.expect("there is memory"));
        }
        for object in hand.drain(count..) {
            assert_eq!(object.0.swap(0, SeqCst), own, "it has two owners");
        }
        world.rounds.fetch_add(1, SeqCst);
    }
    for object in &hand {
        assert_eq!(object.0.load(SeqCst), own, "it has two owners");
    }
}
