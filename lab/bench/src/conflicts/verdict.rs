//! The verdict on one case: do the two calls commute, and if so, do they conflict?
//!
//! Each order starts from a table of its own, created in the same way. The calls count as commuting
//! only if their responses commute in both orders. They count as free only if they have in neither
//! order a common line that one of them writes.

use anyhow::ensure;
use conflict_tracer::{Conflict, Cpus, LineSize, Remark, Sharing, conflicts};

use super::setup::Case;
use super::specification::{Response, State, commute};
use super::subject::Subject;

/// Verdict on a case.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// An observer can distinguish the orders: the implementation may conflict.
    Ordered,
    /// They commute, and share no line that either writes.
    Free,
    /// They commute, and share lines.
    Shared(Vec<Shared>),
}

/// Reason why two calls are not free of conflicts.
#[derive(Clone, Debug)]
pub(super) enum Shared {
    Line(Conflict),
    /// An access was not traced, and may conflict.
    Unseen(Remark),
}

impl Verdict {
    pub(super) fn commutes(&self) -> bool {
        !matches!(self, Verdict::Ordered)
    }

    /// Returns true if only the placement of data in memory makes the lines shared.
    pub(super) fn is_false_sharing(&self) -> bool {
        let is_false = |shared: &Shared| match shared {
            Shared::Line(conflict) => conflict.sharing() == Sharing::False,
            Shared::Unseen(_) => false,
        };
        matches!(self, Verdict::Shared(all) if all.iter().all(is_false))
    }
}

/// Tries a case in both orders. The second order is skipped if the first shows that the calls do
/// not commute.
///
/// # Errors
/// If the subject cannot be set up, or returns a wrong result.
pub(super) fn judge<S: Subject>(cpus: &mut Cpus, case: &Case) -> anyhow::Result<Verdict> {
    let forth = run::<S>(cpus, case, [0, 1])?;
    let back = match forth.commutes {
        true => Some(run::<S>(cpus, case, [1, 0])?),
        false => None,
    };
    Ok(match back {
        Some(back) if back.commutes => {
            let shared: Vec<_> = forth.shared.into_iter().chain(back.shared).collect();
            match shared.is_empty() {
                true => Verdict::Free,
                false => Verdict::Shared(shared),
            }
        }
        _ => Verdict::Ordered,
    })
}

/// Both calls in one order.
struct Run {
    commutes: bool,
    shared: Vec<Shared>,
}

fn run<S: Subject>(cpus: &mut Cpus, case: &Case, order: [usize; 2]) -> anyhow::Result<Run> {
    let subject = S::set_up(cpus, case.setup)?;
    let state = subject.state()?;
    let mut done = [None, None];
    for cpu in order {
        let call = case.calls[cpu];
        done[cpu] = Some(cpus.trace(cpu, || subject.perform(cpu, call))?);
    }
    let [Some((first, left)), Some((second, right))] = done else {
        unreachable!("both CPUs have run")
    };
    // The end of a table frees objects: into the magazines of a simulated CPU, so that the next
    // subject gets the same ones whatever CPU this thread is on.
    cpus.run(0, || drop(subject))?;
    let responses = [first, second];
    ensure!(
        is_legal(&state, case, responses, order),
        "{}: {case} answers {responses:?}",
        S::NAME
    );
    let report = conflicts(&left, &right, LineSize::Bytes64)?;
    let lines = report.conflicts().iter().cloned().map(Shared::Line);
    let unseen = report.blind_spots().iter();
    let unseen = unseen.map(|(_, remark)| Shared::Unseen(*remark));
    Ok(Run {
        commutes: commute(&state, case.calls, responses),
        shared: lines.chain(unseen).collect(),
    })
}

fn is_legal(state: &State, case: &Case, responses: [Response; 2], order: [usize; 2]) -> bool {
    let end = order.iter().try_fold(state.clone(), |state, &cpu| {
        state.after(cpu, case.calls[cpu], responses[cpu])
    });
    end.is_some()
}
