//! The places of a conflict in the source.

use std::collections::BTreeMap;
use std::fmt::Write;

use conflict_tracer::{Conflict, Sharing, Side};

use super::matrix::Matrix;
use super::setup::Case;
use super::verdict::{Shared, Verdict};

/// Returns true if a case has the named operations. An empty list means any.
pub(super) fn concerns(case: &Case, named: &[String]) -> bool {
    let [first, second] = case.calls.map(|call| call.operation.name());
    match named {
        [] => true,
        [one] => first == one || second == one,
        [one, other, ..] => (first == one && second == other) || (first == other && second == one),
    }
}

/// Lists every conflict once, with its cases.
pub(super) fn text(matrix: &Matrix) -> String {
    let mut cases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut places = Places::default();
    for (case, verdict) in &matrix.trials {
        let Verdict::Shared(all) = verdict else {
            continue;
        };
        for shared in all {
            let with = cases.entry(describe(shared, &mut places)).or_default();
            let case = case.to_string();
            if with.last() != Some(&case) {
                with.push(case);
            }
        }
    }
    let mut by_number: Vec<_> = cases.into_iter().collect();
    by_number.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    let mut text = String::new();
    for (conflict, cases) in by_number {
        let _ = writeln!(text, "{conflict}\n  in {} cases:", cases.len());
        for case in cases {
            let _ = writeln!(text, "    {case}");
        }
    }
    let sum = matrix.sum();
    let _ = writeln!(
        text,
        "{} of {} commutative cases are free",
        sum.free, sum.commutative
    );
    text
}

/// Cache of resolved places, since resolving takes long.
#[derive(Default)]
struct Places(BTreeMap<u64, String>);

impl Places {
    fn of(&mut self, side: &Side) -> String {
        let place = self.0.entry(side.access().instruction);
        place.or_insert_with(|| side.location().to_string()).clone()
    }
}

fn describe(shared: &Shared, places: &mut Places) -> String {
    match shared {
        Shared::Line(conflict) => describe_line(conflict, places),
        Shared::Unseen(remark) => format!("incomplete trace: {remark:?}"),
    }
}

fn describe_line(conflict: &Conflict, places: &mut Places) -> String {
    let sharing = match conflict.sharing() {
        Sharing::True => "true sharing",
        Sharing::False => "false sharing",
    };
    let side = |side: &Side, places: &mut Places| {
        let does = if side.writes() { "writes" } else { "reads" };
        format!("{does} in {}", places.of(side))
    };
    let [one, other] = conflict.sides();
    let (one, other) = (side(one, places), side(other, places));
    format!("{sharing}\n  {one}\n  {other}")
}
