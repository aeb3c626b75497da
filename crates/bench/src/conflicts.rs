//! `conflicts`: which operations share cache lines, on however many CPUs.
//!
//! Two operations that write no line which the other touches do not slow each other down. Where
//! operations commute, an implementation without such lines exists (the *scalable commutativity
//! rule*: Clements, Kaashoek, Zeldovich, Morris, Kohler, SOSP 2013). So all pairs of
//! [operations](operation) are tried, on what they may have in common, in several
//! [states](setup) of a table: bounded enumeration. Each pair runs in both orders on two
//! simulated CPUs, one instruction at a time, and from the responses a
//! [specification] tells whether they [commute](verdict). Nothing is timed, and
//! every run is the same.
//!
//! What is left out, and what a verdict means, is told by [`conflict_tracer`]. A call is traced in
//! steady state: both CPUs have opened and closed before, and no grace period is due. What refills,
//! growth and grace periods add is counted in long runs, among the line [transfers].
//!
//! The conflicts that are left are [allowed], each for a reason.

use std::env::current_exe;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use crate::baseline::RwLockVec;
use crate::experiment::{Experiment, Progress};
use crate::lookup::Padded;
use crate::machine::Machine;
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
pub mod transfers;
mod travel;
mod verdict;

use allowed::Allowed;
use arcs::Arcs;
#[cfg(feature = "rivals")]
use arcs::{Dashed, Sharded, Swapped};
use matrix::Matrix;
use operation::Operation;
use ours::Ours;
use setup::Case;
use simulation::Pair;

/// Experiment that compares what operations touch.
#[derive(Clone, Debug, Default)]
pub struct Conflicts {
    /// The program that runs [`transfers`] in a process of its own. Nothing is the running one.
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
    #[cfg(feature = "rivals")]
    {
        matrices.push(Matrix::of::<Arcs<Swapped>>(cpus, |_| true, progress)?);
        matrices.push(Matrix::of::<Arcs<Sharded>>(cpus, |_| true, progress)?);
        matrices.push(Matrix::of::<Arcs<Dashed>>(cpus, |_| true, progress)?);
    }
    Ok(matrices)
}

/// Names the operations that an explanation may be asked for.
pub fn operations() -> impl Iterator<Item = &'static str> {
    Operation::ALL.into_iter().map(Operation::name)
}

/// Tells of every conflict of two operations on our table where in the source it is: for each line
/// both places. An operation that is not named is any.
///
/// # Errors
/// If operations cannot be traced here, or the table answers what it must not.
pub fn explain(named: &[String], progress: &dyn Progress) -> anyhow::Result<String> {
    let wanted = |case: &Case| explain::concerns(case, named);
    let matrix = Matrix::of::<Ours>(&mut Pair::new()?.cpus, wanted, progress)?;
    Ok(explain::text(&matrix))
}

/// Compares the conflicts on our table with the list of those that are allowed, and returns a sentence
/// if they are the same.
///
/// # Errors
/// If there is a conflict that is not on the list, a line of the list that is not right, or not as many
/// cases; and as [`explain`].
pub fn check(progress: &dyn Progress) -> anyhow::Result<String> {
    let allowed = Allowed::ours()?;
    let matrix = Matrix::of::<Ours>(&mut Pair::new()?.cpus, |_| true, progress)?;
    let differences = allowed.differences(&matrix);
    ensure!(
        differences.is_empty(),
        "the conflicts are not those of crates/bench/src/conflicts/allowed.txt:\n{}",
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

    fn expected(&self) -> Duration {
        Duration::from_secs(90)
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let program = self.program.clone().map_or_else(current_exe, Ok)?;
        let matrices = matrices(progress)?;
        progress.begin("transfers", 1);
        let transfers = transfers::run_program(&program)?;
        progress.step();
        Ok(Report {
            experiment: self.name(),
            title: "which operations share cache lines".to_owned(),
            config: json!({ "line": 64, "cpus_of_a_case": 2, "model": travel::model() }),
            rows: [summary::rows(&matrices)?, travel::rows(&transfers)?].concat(),
            headline: [summary::figures(&matrices), travel::figures(&transfers)].concat(),
            tables: [
                summary::tables(&matrices, &Allowed::ours()?),
                travel::tables(&transfers),
            ]
            .into_iter()
            .flatten()
            .collect(),
            plots: [summary::plots(&matrices), travel::plots(&transfers)].concat(),
            remarks: [summary::remarks(), travel::remarks()].concat(),
            machine,
        })
    }
}
