//! The heap size that the C library reports, alone in its process: other tests would allocate too.

use std::hint::black_box;

use fdtable_bench::memory::bytes_in_use;

use crate::alone::alone;

fn bytes() -> f64 {
    bytes_in_use().unwrap().unwrap()
}

#[test]
fn large_and_many_small_blocks_are_seen_and_their_end_too() {
    if !alone("memory::large_and_many_small_blocks_are_seen_and_their_end_too") {
        return;
    }
    let before = bytes();
    let large = black_box(vec![1_u8; 64 << 20]);
    let small: Vec<_> = (0..100_000).map(|_| Box::new([0_u8; 40])).collect();
    let grown = bytes() - before;
    // A block of 40 bytes has a header of 8, and the vector a pointer to it.
    let expected = f64::from((64 << 20) + 100_000 * (40 + 8 + 8));
    assert!((grown - expected).abs() < 50_000.0, "{grown} {expected}");
    drop((large, small));
    let left = bytes() - before;
    assert!(left.abs() < 50_000.0, "{left}");
}
