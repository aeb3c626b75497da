//! `fdtable conflicts`: which operations share cache lines.

use fdtable_bench::conflicts::{self, Conflicts};

use crate::arguments;
use crate::bench::{Written, measure};
use crate::progress::Bar;

/// Traces the operations, and prints the requested output.
pub(crate) fn run(chosen: &arguments::Conflicts) -> anyhow::Result<()> {
    if let Some(named) = &chosen.explain {
        print!("{}", conflicts::explain(named, &Bar::new(0))?);
        return Ok(());
    }
    if chosen.check {
        println!("{}", conflicts::check(&Bar::new(0))?);
        return Ok(());
    }
    let written = Written::prepare(&chosen.form)?;
    let (reports, failed) = measure(&[Box::new(Conflicts::default())], |report| {
        println!("{report}");
    });
    failed?;
    written.write(&reports, None)
}
