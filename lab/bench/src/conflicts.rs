//! `conflicts`: which operations share cache lines, on any number of CPUs.
//!
//! Two operations do not slow each other down if neither writes a line that the other accesses.
//! Where operations commute, an implementation without such lines exists (the *scalable
//! commutativity rule*: Clements, Kaashoek, Zeldovich, Morris, Kohler, SOSP 2013). The experiment
//! tries all pairs of [operations](operation), on all combinations of arguments that they may
//! share, in several [states](setup) of a table: bounded enumeration. Each pair runs in both orders
//! on two simulated CPUs, one instruction at a time. A [specification] decides from the responses
//! if they [commute](verdict). Nothing is timed, and every run gives the same result.
//!
//! [`conflict_tracer`] documents what is left out, and what a verdict means. A call is traced in
//! steady state: both CPUs have opened and closed before, and no grace period is due. The cost of
//! refills, growth and grace periods is counted in long runs, among the line [transfers].
//!
//! The remaining conflicts are [allowed], each for a reason.

use std::env::current_exe;
use std::path::PathBuf;

use anyhow::ensure;
use serde_json::json;

use crate::baseline::RwLockVec;
use crate::experiment::{Experiment, Progress};
use crate::lookup::Padded;
use crate::machine::Machine;
use crate::part::Part;
use crate::report::Report;

mod allowed;
mod arcs;
mod explain;
mod long_run;
mod matrix;
mod operation;
mod ours;
mod setup;
mod simulation;
mod specification;
mod subject;
mod summary;
mod transfer_summary;
pub mod transfers;
mod verdict;

use allowed::Allowed;
use arcs::Arcs;
#[cfg(feature = "experiments")]
use arcs::{Dashed, Sharded, Swapped};
use matrix::Matrix;
use operation::Operation;
use ours::Ours;
use setup::Case;
use simulation::Pair;

/// Experiment that compares the cache lines that operations access.
#[derive(Clone, Debug, Default)]
pub struct Conflicts {
    /// The program that runs [`transfers`] in a process of its own. `None` is the running one.
    pub program: Option<PathBuf>,
}

/// Tries every case of every subject.
fn matrices(progress: &dyn Progress) -> anyhow::Result<Vec<Matrix>> {
    let cpus = &mut Pair::new()?.cpus;
    let mut matrices = Vec::new();
    matrices.extend([
        Matrix::of::<Ours>(cpus, |_| true, progress)?,
        Matrix::of::<Arcs<RwLockVec<Padded>>>(cpus, |_| true, progress)?,
    ]);
    #[cfg(feature = "experiments")]
    {
        matrices.push(Matrix::of::<Arcs<Swapped>>(cpus, |_| true, progress)?);
        matrices.push(Matrix::of::<Arcs<Sharded>>(cpus, |_| true, progress)?);
        matrices.push(Matrix::of::<Arcs<Dashed>>(cpus, |_| true, progress)?);
    }
    Ok(matrices)
}

/// Names the operations that `explain` accepts.
pub fn operations() -> impl Iterator<Item = &'static str> {
    Operation::ALL.into_iter().map(Operation::name)
}

/// Describes every conflict of two operations on our table: for each line, both places in the
/// source. Without names, all operations are included.
///
/// # Errors
/// If operations cannot be traced here, or the table returns a wrong result.
pub fn explain(named: &[String], progress: &dyn Progress) -> anyhow::Result<String> {
    let wanted = |case: &Case| explain::concerns(case, named);
    let matrix = Matrix::of::<Ours>(&mut Pair::new()?.cpus, wanted, progress)?;
    Ok(explain::text(&matrix))
}

/// Compares the conflicts on our table with the list of allowed ones. Returns a sentence if they
/// are the same.
///
/// # Errors
/// If there is a conflict that is not on the list, a line of the list that does not apply, or
/// another number of cases; and those of [`explain`].
pub fn check(progress: &dyn Progress) -> anyhow::Result<String> {
    let allowed = Allowed::ours()?;
    let matrix = Matrix::of::<Ours>(&mut Pair::new()?.cpus, |_| true, progress)?;
    let differences = allowed.differences(&matrix);
    ensure!(
        differences.is_empty(),
        "the conflicts are not those of lab/bench/src/conflicts/allowed.txt:\n{}",
        differences.join("\n")
    );
    let sum = matrix.sum();
    Ok(format!(
        "{} of {} commutative cases are free of conflicts; the others are on the list",
        sum.free, sum.commutative
    ))
}

impl Experiment for Conflicts {
    fn name(&self) -> &'static str {
        "conflicts"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let program = self.program.clone().map_or_else(current_exe, Ok)?;
        let matrices = matrices(progress)?;
        progress.begin("transfers", 1);
        let transfers: Vec<transfers::Row> = Part::Transfers.ask("the trace", &program)?;
        progress.step();
        let config = json!({ "line": 64, "cpus_of_a_case": 2 });
        let title = "which operations share cache lines";
        let rows = summary::rows(&matrices);
        let mut report = Report::new(self, title, config, &rows, machine)?;
        report.add_rows(&transfers)?;
        summary::show(&matrices, &Allowed::ours()?, &mut report);
        transfer_summary::show(&transfers, &mut report);
        Ok(report)
    }
}
