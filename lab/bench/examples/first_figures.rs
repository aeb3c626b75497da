//! The first table of figures: lookups, in their quick form.
//!
//! It does the same as `fdtable bench lookup --quick`, without the other experiments and their
//! dependencies, so that it builds in a minute:
//!
//! ```console
//! $ cargo run --release -p fdtable-bench --no-default-features --example first_figures
//! ```

use fdtable_bench::experiment::{self, Effort, Silent};
use fdtable_bench::lookup::Lookup;

fn main() -> anyhow::Result<()> {
    println!("{}", experiment::run(&Lookup::new(Effort::Quick), &Silent)?);
    Ok(())
}
