//! Findings of the fuzzer, as text.

use std::collections::BTreeMap;
use std::fmt;

use super::Difference;
use super::known::{self, Known};

/// Differences of one kind.
#[derive(Default)]
struct Found {
    count: usize,
    seed: u64,
    /// Calls of a reduced script, each with the results of the host and of fdtable.
    shortest: Vec<[String; 3]>,
}

pub(crate) struct Report<'k> {
    known: &'k [Known],
    scripts: usize,
    calls: usize,
    /// Scripts without any difference, and without one that is not known.
    equal: usize,
    is_equal: bool,
    as_known: usize,
    is_as_known: bool,
    different: usize,
    seen: Vec<usize>,
    unknown: BTreeMap<String, Found>,
    too_different: Vec<u64>,
    errors: BTreeMap<String, usize>,
}

impl<'k> Report<'k> {
    pub(crate) fn new(known: &'k [Known]) -> Self {
        Self {
            known,
            scripts: 0,
            calls: 0,
            equal: 0,
            is_equal: false,
            as_known: 0,
            is_as_known: false,
            different: 0,
            seen: vec![0; known.len()],
            unknown: BTreeMap::new(),
            too_different: Vec::new(),
            errors: BTreeMap::new(),
        }
    }

    /// Begins a script with so many calls.
    pub(crate) fn begin(&mut self, calls: usize) {
        self.end();
        self.scripts += 1;
        self.calls += calls;
        self.is_equal = true;
        self.is_as_known = true;
    }

    fn end(&mut self) {
        self.equal += usize::from(std::mem::take(&mut self.is_equal));
        self.as_known += usize::from(std::mem::take(&mut self.is_as_known));
    }

    /// Adds a difference. Returns true if it is the first one of its kind, and not known.
    pub(crate) fn add(&mut self, seed: u64, found: &Difference, known: Option<usize>) -> bool {
        self.different += 1;
        self.is_equal = false;
        if let Some(known) = known {
            self.seen[known] += 1;
            return false;
        }
        self.is_as_known = false;
        let kind = self.unknown.entry(found.kind()).or_default();
        kind.count += 1;
        if kind.count == 1 {
            kind.seed = seed;
        }
        kind.count == 1
    }

    pub(crate) fn explain(&mut self, kind: &str, shortest: Vec<[String; 3]>) {
        if let Some(found) = self.unknown.get_mut(kind) {
            found.shortest = shortest;
        }
    }

    /// Returns entries for the list of known differences, for all that are not in it.
    pub(crate) fn entries(&self) -> String {
        let mut unknown: Vec<_> = self.unknown.values().collect();
        unknown.sort_by_key(|found| std::cmp::Reverse(found.count));
        let entries = unknown.iter().map(|found| known::entry(&found.shortest));
        entries.collect()
    }

    /// Notes that a script has too many differences to find all.
    pub(crate) fn give_up(&mut self, seed: u64) {
        self.too_different.push(seed);
        self.is_as_known = false;
    }

    pub(crate) fn count_errors(&mut self, results: &[String]) {
        for result in results {
            let error = result
                .strip_prefix("-1 ")
                .and_then(|it| it.split(' ').next());
            let name = error.unwrap_or("no error").trim().to_owned();
            *self.errors.entry(name).or_default() += 1;
        }
    }

    /// Returns true if there are only known differences.
    pub(crate) fn is_equal(&self) -> bool {
        self.unknown.is_empty() && self.too_different.is_empty()
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
        let equal = self.equal + usize::from(self.is_equal);
        let as_known = self.as_known + usize::from(self.is_as_known);
        let same_calls = self.calls - self.different.min(self.calls);
        writeln!(
            f,
            "{} scripts: {:.1} % equal, {:.1} % but for known differences; {} calls: {:.2} % equal",
            self.scripts,
            percent(equal, self.scripts),
            percent(as_known, self.scripts),
            self.calls,
            percent(same_calls, self.calls),
        )?;
        let mut errors: Vec<_> = self.errors.iter().collect();
        errors.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let errors: Vec<_> = errors
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        writeln!(f, "results: {}", errors.join(", "))?;
        let mut known: Vec<_> = self.known.iter().zip(&self.seen).collect();
        known.retain(|(_, count)| **count > 0);
        known.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (known, count) in known {
            writeln!(f, "known, {count:>5} times: {}", known.line())?;
        }
        if !self.too_different.is_empty() {
            writeln!(f, "not compared to the end: seeds {:?}", self.too_different)?;
        }
        let mut unknown: Vec<_> = self.unknown.iter().collect();
        unknown.sort_by_key(|(_, found)| std::cmp::Reverse(found.count));
        for (kind, found) in unknown {
            writeln!(
                f,
                "\n{} times, first in seed {}: {kind}",
                found.count, found.seed
            )?;
            for [call, host, ours] in &found.shortest {
                write_call(f, call, host, ours)?;
            }
        }
        Ok(())
    }
}

/// Writes a call with its result, or with both if they differ.
fn write_call(f: &mut fmt::Formatter<'_>, call: &str, host: &str, ours: &str) -> fmt::Result {
    if host == ours {
        return writeln!(
            f,
            "    {call};  // {}",
            host.lines().next().unwrap_or_default()
        );
    }
    let (host, ours): (Vec<_>, Vec<_>) = (host.lines().collect(), ours.lines().collect());
    writeln!(f, "    {call};")?;
    for at in 0..host.len().max(ours.len()) {
        let [host, ours] = [&host, &ours].map(|it| it.get(at).copied().unwrap_or("(no line)"));
        if host != ours {
            writeln!(f, "        // host: {host}\n        // ours: {ours}")?;
        }
    }
    Ok(())
}
