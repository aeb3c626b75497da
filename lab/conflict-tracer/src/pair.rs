//! Two operations, one after the other, in both orders.
//!
//! The caller decides from the responses whether they commute: it knows the specification. Each
//! order starts from a state of its own, created in the same way.

use crate::conflict::{LineSize, Report, conflicts};
use crate::cpus::Cpus;
use crate::error::Error;
use crate::trace::Trace;

/// One order of two operations.
#[derive(Clone, Debug)]
pub struct Run<A, B> {
    /// The response of each operation.
    pub responses: (A, B),
    /// The traces of CPU 0 and CPU 1.
    pub traces: (Trace, Trace),
    /// The lines in conflict.
    pub report: Report,
}

/// Traces `first` on CPU 0 and `second` on CPU 1, in this order, then in the other. `setup` creates
/// the state for each order, and may warm up the CPUs. Blocks until done.
///
/// ```
/// use std::sync::Mutex;
/// use conflict_tracer::{Cpus, LineSize, in_both_orders};
///
/// # fn main() -> Result<(), conflict_tracer::Error> {
/// # if !conflict_tracer::SUPPORTED { return Ok(()) }
/// // SAFETY: nothing here has restartable sequences.
/// let mut cpus = unsafe { Cpus::new(2) }?;
/// let [forth, back] = in_both_orders(
///     &mut cpus,
///     LineSize::Bytes64,
///     |_| Ok(Mutex::new(Vec::with_capacity(8))),
///     |list| list.lock().map(|mut list| list.push(1)).is_ok(),
///     |list| list.lock().map(|list| list.len()).ok(),
/// )?;
/// assert_ne!(forth.responses, back.responses, "they do not commute");
/// assert!(!forth.report.is_free());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// - [`Error::NoSuchCpu`] if there is only one CPU.
/// - As [`Cpus::trace`], and those of `setup`.
///
/// # Panics
/// If one of the operations does.
pub fn in_both_orders<S: Sync, A: Send, B: Send>(
    cpus: &mut Cpus,
    line: LineSize,
    mut setup: impl FnMut(&mut Cpus) -> Result<S, Error>,
    first: impl Fn(&S) -> A + Sync,
    second: impl Fn(&S) -> B + Sync,
) -> Result<[Run<A, B>; 2], Error> {
    let state = setup(cpus)?;
    let a = cpus.trace(0, || first(&state))?;
    let b = cpus.trace(1, || second(&state))?;
    let forth = run(a, b, line)?;
    drop(state);

    let state = setup(cpus)?;
    let b = cpus.trace(1, || second(&state))?;
    let a = cpus.trace(0, || first(&state))?;
    let back = run(a, b, line)?;
    Ok([forth, back])
}

fn run<A, B>(
    (first, left): (A, Trace),
    (second, right): (B, Trace),
    line: LineSize,
) -> Result<Run<A, B>, Error> {
    Ok(Run {
        responses: (first, second),
        report: conflicts(&left, &right, line)?,
        traces: (left, right),
    })
}
