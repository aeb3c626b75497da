//! Checks that the conflicts of commuting operations are exactly those on the list.
//!
//! It does the same as `fdtable conflicts --check`, without the other experiments and their
//! dependencies:
//!
//! ```console
//! $ cargo run --profile conflicts -p fdtable-bench --features conflicts \
//!     --example check_conflicts
//! ```

use fdtable_bench::conflicts;
use fdtable_bench::experiment::Silent;

fn main() -> anyhow::Result<()> {
    println!("{}", conflicts::check(&Silent)?);
    Ok(())
}
