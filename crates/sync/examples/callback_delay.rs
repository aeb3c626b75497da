//! Prints how late timely callbacks run, and what queueing one costs.
//!
//! `cargo run --release -p fdtable-sync --example callback_delay`

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use fdtable_sync::rcu::{self, Effect, Head};

/// How many delays are measured.
const DELAYS: usize = 200;

/// How many rounds of calls are measured, of which the best counts and the median.
const ROUNDS: usize = 41;

/// How many calls a round has.
const CALLS: u32 = 200_000;

type Call = unsafe fn(NonNull<Head>);

/// Queues a callback without a bound on its time.
///
/// # Safety
/// As for [`rcu::call`].
unsafe fn call(head: NonNull<Head>) {
    // SAFETY: as the caller promises.
    unsafe { rcu::call(Effect::RunsCode, head) };
}

fn main() {
    if std::env::args().any(|word| word == "--with-another") {
        // Another reader, so that grace periods take heavy fences.
        thread::spawn(|| {
            drop(rcu::read_lock());
            loop {
                thread::park();
            }
        });
        thread::sleep(Duration::from_millis(20));
    }
    if std::env::args().any(|word| word == "--with-idle") {
        // The allocator of the C library counts it.
        thread::spawn(|| {
            loop {
                thread::park();
            }
        });
        thread::sleep(Duration::from_millis(20));
    }
    costs("call, before there is a worker", call);
    delays("each after the one before has run", Duration::ZERO);
    delays("each 50 ms after the one before", Duration::from_millis(50));
    for _ in 0..2 {
        costs("call", call);
        costs("call_timely", rcu::call_timely);
    }
    one_a_millisecond("call", call);
    one_a_millisecond("call_timely", rcu::call_timely);
    one_in(Duration::from_millis(20), "call", call);
    one_in(Duration::from_millis(20), "call_timely", rcu::call_timely);
}

/// A callback that sends the time of its end.
#[repr(C)]
struct Timely<F> {
    head: Head,
    run: F,
}

fn queue<F: FnOnce() + Send + 'static>(call: Call, run: F) {
    unsafe fn invoke<F: FnOnce()>(head: NonNull<Head>) {
        // SAFETY: the box was leaked below, and the callback is invoked once.
        let timely = unsafe { Box::from_raw(head.cast::<Timely<F>>().as_ptr()) };
        (timely.run)();
    }
    let head = Head::new(invoke::<F>);
    let timely = Box::leak(Box::new(Timely { head, run }));
    // SAFETY: it stays until its callback takes it back, which any thread may run.
    unsafe { call(NonNull::from(timely).cast()) };
}

fn delays(name: &str, pause: Duration) {
    let mut delays: Vec<Duration> = (0..DELAYS)
        .map(|_| {
            thread::sleep(pause);
            let (tell, hear) = channel();
            let start = Instant::now();
            queue(rcu::call_timely, move || {
                tell.send(start.elapsed()).expect("the program listens");
            });
            hear.recv().expect("the callback runs")
        })
        .collect();
    delays.sort_unstable();
    let (median, worst) = (delays[DELAYS / 2], delays[DELAYS - 1]);
    println!("delay, {name}: median {median:.1?}, worst {worst:.1?} of {DELAYS}");
}

fn costs(name: &str, call: Call) {
    let mut nanoseconds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for number in 0..CALLS {
                queue(call, move || {
                    black_box(number);
                });
            }
            let taken = start.elapsed();
            rcu::barrier().expect("outside of sections");
            taken.as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .collect();
    nanoseconds.sort_unstable_by(f64::total_cmp);
    let (best, median) = (nanoseconds[0], nanoseconds[ROUNDS / 2]);
    println!(
        "{name}: best {best:.1} ns, median {median:.1} ns, with malloc and its share of the work"
    );
}

fn one_a_millisecond(name: &str, call: Call) {
    one_in(Duration::from_millis(1), name, call);
}

fn one_in(pause: Duration, name: &str, call: Call) {
    let mut taken: Vec<Duration> = (0..500)
        .map(|number| {
            thread::sleep(pause);
            let start = Instant::now();
            queue(call, move || {
                black_box(number);
            });
            start.elapsed()
        })
        .collect();
    taken.sort_unstable();
    let sum: Duration = taken.iter().sum();
    println!(
        "{name}, one in {pause:?}: median {:?}, mean {:?}, 99th percentile {:?}",
        taken[250],
        sum / 500,
        taken[495]
    );
}
