//! Prints what the library finds on this machine: its fences, restartable sequences, and CPUs.
//!
//! `cargo run -p fdtable-sync --example machine`

use fdtable_sync::fence;
use fdtable_sync::sequence::Area;

fn main() {
    let sequences = match Area::find() {
        Some(_) => "sequences",
        None => "no sequences",
    };
    let fences = match fence::prepare() {
        true => "membarrier",
        false => "fence",
    };
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    println!("fences by {fences}, {sequences}, CPUs: {cpus}.");
}
