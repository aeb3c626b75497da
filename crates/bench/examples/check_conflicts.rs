//! Checks that the conflicts of operations that commute are those on the list, and no others.
//!
//! It does what `fdtable conflicts --check` does, without the other experiments and what they are
//! made of:
//!
//! ```console
//! $ cargo run --profile conflicts -p fdtable-bench --no-default-features --example check_conflicts
//! ```

use fdtable_bench::conflicts;
use fdtable_bench::experiment::Silent;

fn main() -> anyhow::Result<()> {
    println!("{}", conflicts::check(&Silent)?);
    Ok(())
}
