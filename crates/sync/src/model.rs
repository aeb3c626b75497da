//! Shared code of the models: how far they are explored, and an object that the checker watches.
//!
//! A model is a small program of two or three threads. `loom` runs it once for every order of its
//! steps, and for every older value that a load may still return. It fails when an assertion does,
//! when threads wait for each other, or when an access to a cell is not ordered with a write to it.
//! Each model stands beside the code that it checks, in a module `models`; run them with `cargo
//! xtask loom`. `cargo xtask mutate` checks that they notice weakened orderings.

use loom::cell::UnsafeCell;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Count;
use std::sync::atomic::Ordering::SeqCst;

pub use loom::thread::{JoinHandle, spawn};

/// How often a thread may be interrupted while it could go on. Waiting is no interruption.
#[derive(Clone, Copy, Debug)]
pub enum Preemptions {
    /// Unlimited: every order is explored.
    Any,
    /// Limited to this number, or to `LOOM_MAX_PREEMPTIONS` if that is more.
    AtMost(usize),
}

/// Runs `model` in every order that `preemptions` allows, and reports how many there were.
pub fn explore(preemptions: Preemptions, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = builder.max_branches.max(20_000);
    builder.preemption_bound = short_bound().or(match preemptions {
        Preemptions::Any => None,
        Preemptions::AtMost(bound) => builder.preemption_bound.max(Some(bound)),
    });
    let bound = builder.preemption_bound;
    let executions = Arc::new(Count::new(0));
    let start = std::time::Instant::now();
    builder.check({
        let executions = executions.clone();
        move || {
            executions.fetch_add(1, SeqCst);
            model();
        }
    });
    println!(
        "{} executions, preemptions {bound:?}, {:.1?}",
        executions.load(SeqCst),
        start.elapsed()
    );
}

/// The bound that replaces any other: `cargo xtask check` sets one for models that take long.
fn short_bound() -> Option<usize> {
    let bound = std::env::var("FDTABLE_PREEMPTIONS").ok()?;
    Some(bound.parse().expect("FDTABLE_PREEMPTIONS is a number"))
}

/// Overwrites freed memory, so that a look at a freed node does not succeed by chance: the checker
/// sees cells, and not memory.
#[derive(Debug)]
pub struct Overwriting;

// SAFETY: memory comes from the system's allocator and goes back there, with its own layout.
unsafe impl GlobalAlloc for Overwriting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller gives up the memory, all of it.
        unsafe { memory.write_bytes(0xA5, layout.size()) };
        // SAFETY: as the caller promises. The compiler does not know what happens to it.
        unsafe { System.dealloc(core::hint::black_box(memory), layout) };
    }
}

/// Waits for a thread of the model.
pub fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("the thread ends")
}

/// An object that the checker watches: looking at it is a read, its end a write, and the two must
/// not meet.
pub struct Watched {
    alive: UnsafeCell<bool>,
    ends: Ends,
}

/// How many objects have ended in this execution. It is not part of what is modelled.
#[derive(Clone, Debug, Default)]
pub struct Ends(Arc<Count>);

/// An object that ends when it is dropped.
pub struct Dropped(Watched);

// SAFETY: that accesses to the cell do not meet is what the checker checks.
unsafe impl Send for Watched {}
// SAFETY: as above.
unsafe impl Sync for Watched {}

impl Ends {
    pub fn add(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    pub fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Watched {
    pub fn new(ends: &Ends) -> Self {
        Self {
            alive: UnsafeCell::new(true),
            ends: ends.clone(),
        }
    }

    pub fn look(&self) {
        // SAFETY: the checker reports it if an end meets this read.
        let alive = self.alive.with(|alive| unsafe { *alive });
        assert!(alive, "the object has ended");
    }

    pub fn end(&self) {
        // SAFETY: the checker reports it if a look or another end meets this write.
        let alive = self.alive.with_mut(|alive| unsafe { alive.replace(false) });
        assert!(alive, "the object ends twice");
        self.ends.add();
    }
}

impl Dropped {
    pub fn new(ends: &Ends) -> Self {
        Self(Watched::new(ends))
    }

    pub fn look(&self) {
        self.0.look();
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.end();
    }
}
