//! Threads that look objects up while others close them and free them.
//!
//! One thread opens and closes a slot of the first leaf and one of a leaf that it removes, with a
//! grace period after each close: so blocks and leaves are used again at once. An add to the count
//! of a freed block shows as the object of another slot, whose block it is by then, or as an object
//! that is never dropped or dropped too early.

use super::super::leaf::LeafState;
use super::*;
use fdtable_sync::bitmap::BITS;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// How long the test runs.
const DURATION: Duration = Duration::from_millis(700);
const GETTERS: usize = 3;
const SLOTS: [usize; 2] = [5, 3 * BITS + 7];

const ALIVE: usize = 0x600d_600d;

struct Object {
    slot: usize,
    state: AtomicUsize,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Object {
    fn drop(&mut self) {
        assert_eq!(self.state.swap(0, SeqCst), ALIVE, "it was dropped before");
        self.dropped.fetch_add(1, SeqCst);
    }
}

#[derive(Default)]
struct NoState;

impl LeafState for NoState {
    fn copy(&self) -> Self {
        Self
    }

    fn copy_first(&self) -> Self {
        Self
    }
}

type Sample = Tree<Object, NoState, ()>;

fn open(tree: &Sample, slot: usize, object: Ref<Object>) {
    let mut writer = tree.write();
    writer.make_writable(slot / BITS).expect("there is memory");
    let mut leaf = writer.lock_leaf(slot / BITS).expect("owned above");
    leaf.open.set(slot % BITS);
    leaf.put(slot % BITS, object);
}

/// Closes a slot: by itself, or with its leaf.
fn close(tree: &Sample, slot: usize, with_leaf: bool) {
    if with_leaf && slot >= BITS {
        let removed = tree.write().remove_if(slot / BITS, |_| true);
        drop(removed.expect("there is memory"));
        return;
    }
    let object = {
        let writer = tree.write();
        let mut leaf = writer.lock_leaf(slot / BITS).expect("it was opened");
        leaf.open.clear(slot % BITS);
        leaf.exchange(slot % BITS, None)
    };
    drop(object.expect("it was opened"));
}

fn look_up(tree: &Sample, is_over: &AtomicBool) -> usize {
    let mut found = 0;
    while !is_over.load(SeqCst) {
        for slot in SLOTS {
            let Some(object) = tree.get(slot) else {
                continue;
            };
            assert_eq!(object.state.load(SeqCst), ALIVE, "it was dropped");
            assert_eq!(object.slot, slot, "it was never there");
            found += 1;
            if found % 16 == 0 {
                // Other threads find the last reference here, and not in the close.
                std::thread::yield_now();
            }
        }
    }
    found
}

#[test]
fn no_lookup_adds_to_the_count_of_a_freed_block() {
    let tree = Sample::new(());
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut made = 0;
    let is_over = AtomicBool::new(false);
    let start = Barrier::new(GETTERS + 1);
    let found: usize = std::thread::scope(|scope| {
        let getters: [_; GETTERS] = core::array::from_fn(|_| {
            scope.spawn(|| {
                start.wait();
                look_up(&tree, &is_over)
            })
        });
        start.wait();
        let end = Instant::now() + DURATION;
        while Instant::now() < end {
            for slot in SLOTS {
                let object = Object {
                    slot,
                    state: AtomicUsize::new(ALIVE),
                    dropped: dropped.clone(),
                };
                made += 1;
                open(&tree, slot, Ref::new(object));
            }
            rcu::synchronize().expect("outside of sections");
            for slot in SLOTS {
                close(&tree, slot, made % 4 == 0);
            }
            // Frees the blocks.
            rcu::barrier().expect("outside of sections");
        }
        is_over.store(true, SeqCst);
        getters
            .map(|getter| getter.join().expect("no panic"))
            .iter()
            .sum()
    });
    assert_eq!(dropped.load(SeqCst), made, "an object was never dropped");
    assert!(found > 0 && made > 100, "{found} found of {made}");
    println!("{found} found, {made} objects");
}
