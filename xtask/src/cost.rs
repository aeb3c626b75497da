//! `cost`: what each operation costs in counts that no machine changes, against the budgets in
//! [`BUDGETS`].
//!
//! `lab/cost` traces the operations of a release build. A count clearly above its budget is an
//! error; one below is a reason to write the budgets again. Other compilers generate other code, so
//! the budgets name theirs.

use std::collections::BTreeMap;
use std::fs;

use crate::process::Process;
use crate::steps::Verdict;
use crate::{Result, root, target};

const BUDGETS: &str = "lab/cost/budgets.txt";
const HEADER: &str =
    "# The most that `cargo xtask cost` accepts, which writes this with `--write`. Compiled by ";

/// Features of CPUs by which the C library chooses a copy of memory. Without them each CPU runs the
/// same one.
const SAME_COPY: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX,-AVX_Fast_Unaligned_Load,\
                         -SSSE3,-ERMS,-FSRM";

pub(crate) fn run(arguments: &[String]) -> Result {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &words[..] {
        [] => check()?.required(),
        ["--write"] => {
            let text = format!("{HEADER}{}.\n{}", compiler()?, measure()?);
            fs::write(root().join(BUDGETS), text)?;
            Ok(())
        }
        ["--show", operation, open] => {
            print!("{}", cost(&["--show", operation, open])?);
            Ok(())
        }
        _ => Err("usage: cargo xtask cost [--write | --show OPERATION OPEN]".into()),
    }
}

/// Compares the counts with the budgets.
pub(crate) fn check() -> Result<Verdict> {
    let budgets = fs::read_to_string(root().join(BUDGETS))?;
    let compiler = compiler()?;
    if !budgets.starts_with(&format!("{HEADER}{compiler}.")) {
        let why = format!("the budgets of {BUDGETS} are not of {compiler}");
        return Ok(Verdict::Skipped(why));
    }
    let (counts, budgets) = (parsed(&measure()?), parsed(&budgets));
    let differences = differences(&counts, &budgets);
    for (difference, _) in &differences {
        println!("{difference}");
    }
    match differences.iter().filter(|(_, grows)| *grows).count() {
        0 => Ok(Verdict::Passed),
        more => Err(format!("{more} counts are above their budgets in {BUDGETS}").into()),
    }
}

fn compiler() -> Result<String> {
    Ok(Process::new("rustc")
        .arg("--version")
        .read()?
        .trim()
        .to_owned())
}

fn measure() -> Result<String> {
    cost(&[])
}

/// Builds the program and runs it.
fn cost(arguments: &[&str]) -> Result<String> {
    let build = "--profile cost --quiet -p fdtable-cost";
    Process::cargo("build").words(build).quiet().run()?;
    Process::new(target().join("cost/fdtable-cost"))
        .args(arguments)
        .env("GLIBC_TUNABLES", SAME_COPY)
        .read()
}

/// A count by its operation, the number of open descriptors, and its name.
type Counts = BTreeMap<String, u64>;

fn parsed(text: &str) -> Counts {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap_or("").split(' ').skip(2).collect();
    let counts = lines.filter_map(|line| {
        let mut words = line.split(' ');
        let (operation, open) = (words.next()?, words.next()?);
        let named = names.iter().zip(words).filter_map(move |(name, count)| {
            let key = format!("{operation} at {open}: {name}");
            Some((key, count.parse().ok()?))
        });
        Some(named)
    });
    counts.flatten().collect()
}

/// Returns how far a count may be above its budget: where a run has its memory changes which lines
/// and pages are the same, and the length of a copy.
fn most(key: &str, budget: u64) -> u64 {
    let placed = match key.rsplit(' ').next() {
        Some("pages") => 8,
        Some("lines" | "written") => 1,
        _ => 0,
    };
    budget + budget / 16 + placed
}

/// Describes each count that is not its budget, and whether it is an error.
fn differences(counts: &Counts, budgets: &Counts) -> Vec<(String, bool)> {
    let of_counts = counts.iter().filter_map(|(key, &count)| {
        let (budget, grows) = match budgets.get(key) {
            Some(&budget) if budget == count => return None,
            Some(&budget) => (budget.to_string(), count > most(key, budget)),
            None => ("none".to_owned(), true),
        };
        Some((format!("{key} {count}, budget {budget}"), grows))
    });
    let of_budgets = budgets.keys().filter(|key| !counts.contains_key(*key));
    let missing = of_budgets.map(|key| (format!("{key}: not measured"), true));
    of_counts.chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_above_its_budget_is_an_error_and_one_below_is_not() {
        let counts = |get: &str| parsed(&format!("# by x\noperation open locked lines\n{get}"));
        let budgets = counts("get 64 2 5");
        assert!(differences(&budgets, &budgets).is_empty());
        assert_eq!(most("get at 64: lines", 32), 35);
        let compared = differences(&counts("get 64 3 4"), &budgets);
        let expected = [
            ("get at 64: lines 4, budget 5".to_owned(), false),
            ("get at 64: locked 3, budget 2".to_owned(), true),
        ];
        assert_eq!(compared, expected);
        let compared = differences(&counts("put 64 2 5"), &budgets);
        assert_eq!(compared.iter().filter(|(_, grows)| *grows).count(), 4);
    }
}
