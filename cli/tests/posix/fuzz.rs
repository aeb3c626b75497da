//! Random calls: a script of calls runs on the host and under `fdtable run`.
//!
//! Every call must have the same result, except for the differences that
//! `tests/posix/c_fuzz/differences.txt` explains. A second test runs scripts in several threads on one
//! table of fdtable.
//!
//! A seed is a script. Other seeds than those of continuous integration, and longer scripts:
//!
//! ```console
//! $ FDTABLE_FUZZ_SEEDS=1-1000 FDTABLE_FUZZ_CALLS=200 cargo test --release -p fdtable-cli \
//!     --test posix fuzz:: -- --nocapture
//! ```
//!
//! A call that differs is left out of the script, and the script runs again, so what follows is
//! compared too. The first script of each kind of difference is reduced. `FDTABLE_BLESS=1` prints
//! the entries for the list.

mod generate;
mod known;
mod reduce;
mod report;
mod server;

use std::ops::RangeInclusive;

use crate::program::Subject;
use known::Known;
use report::Report;
use server::{Pair, Server};

const SEEDS: RangeInclusive<u64> = 1..=50;
const CALLS: usize = 200;

/// Seeds of the scripts for several threads.
const THREADED: RangeInclusive<u64> = 1..=12;

/// More differences in one script are not looked for.
const MOST: usize = 40;

/// A call with different results.
pub(crate) struct Difference {
    /// Number of the call in its script.
    at: usize,
    call: String,
    host: String,
    ours: String,
}

impl Difference {
    /// Returns the first difference of two runs of a script. Of a call with several lines of
    /// results, it has the first line that differs.
    fn first(script: &[String], [host, ours]: &[Vec<String>; 2]) -> Option<Self> {
        let at = (0..script.len()).find(|&at| host[at] != ours[at])?;
        let (mut host, mut ours) = (host[at].lines(), ours[at].lines());
        loop {
            let (theirs, own) = (host.next(), ours.next());
            if theirs != own {
                return Some(Self {
                    at,
                    call: script[at].clone(),
                    host: theirs.unwrap_or("(no line)").to_owned(),
                    ours: own.unwrap_or("(no line)").to_owned(),
                });
            }
        }
    }

    /// Returns what differences of the same kind have in common: the function, and what differs in
    /// the results.
    fn kind(&self) -> String {
        let name = function_of(&self.call);
        let [mut host, mut ours] = [&self.host, &self.ours].map(|it| it.split_whitespace());
        loop {
            let (theirs, own) = (host.next(), ours.next());
            if theirs != own || theirs.is_none() {
                let both = theirs.is_some_and(|it| it.starts_with('-'))
                    || own.is_some_and(|it| it.starts_with('-'));
                let after = |words: &mut std::str::SplitWhitespace<'_>| match both {
                    true => words.next().unwrap_or_default().to_owned(),
                    false => String::new(),
                };
                let host = format!("{} {}", form(theirs), after(&mut host));
                let ours = format!("{} {}", form(own), after(&mut ours));
                return format!("{name}: {} | {}", host.trim(), ours.trim());
            }
        }
    }
}

/// Returns a word of a result without its values.
fn form(word: Option<&str>) -> &str {
    let Some(word) = word else {
        return "(none)";
    };
    match word.split_once('=') {
        Some((name, _)) => name,
        None if word == "-1" || word.starts_with(['E', '(']) => word,
        None if word.starts_with('"') => "text",
        None if word.starts_with('/') => "path",
        None => "number",
    }
}

/// Returns the name of a function, and of what it is asked for.
fn function_of(line: &str) -> String {
    let (name, arguments) = call_of(line).split_once('(').unwrap_or_default();
    let selector = match name {
        "fcntl" | "ioctl" | "epoll_ctl" => arguments.split(", ").nth(1),
        "getsockopt" | "setsockopt" => arguments.split(", ").nth(2),
        _ => None,
    };
    selector.map_or(name.to_owned(), |it| format!("{name} {it}"))
}

/// Returns a line of a script without the slots that it sets.
fn call_of(line: &str) -> &str {
    line.split_once(" = ").map_or(line, |(_, call)| call)
}

/// Calls that only root can make everywhere.
const OF_ROOT: &[&str] = &[
    "chown",
    "lchown",
    "fchown",
    "fchownat",
    "seteuid",
    "setegid",
    "setgroups",
];

/// Calls that need to know what other threads may change meanwhile: a `creat` of a pipe would wait.
const OF_ONE_THREAD: &[&str] = &["creat(", "mmap("];

fn script_of(seed: u64, calls: usize, is_root: bool) -> Vec<String> {
    let mut script = generate::script(seed, calls);
    script.retain(|line| is_root || !needs_root(line));
    script
}

/// Runs the script of a seed, and then again without each call that differs.
fn check_seed(pair: &mut Pair, seed: u64, calls: usize, known: &[Known], report: &mut Report) {
    let mut script = script_of(seed, calls, pair.is_root());
    report.begin(script.len());
    for _ in 0..MOST {
        let results = pair.run(&script);
        if let Some(at) = results[0].iter().position(|it| it.contains("(ended")) {
            panic!("seed {seed}: the host does not return from {}", script[at]);
        }
        let Some(found) = Difference::first(&script, &results) else {
            report.count_errors(&results[0]);
            return;
        };
        let is_known = known.iter().position(|it| it.matches(&found));
        if report.add(seed, &found, is_known) {
            let shortest = shortest(pair, &script[..=found.at], &found.kind(), known);
            report.explain(&found.kind(), shortest);
        }
        script.remove(found.at);
    }
    report.give_up(seed);
}

/// Returns a reduced script with a difference of this kind, and the results of its calls.
fn shortest(pair: &mut Pair, script: &[String], kind: &str, known: &[Known]) -> Vec<[String; 3]> {
    let script = reduce::reduce(script.to_vec(), |script| {
        let found = Difference::first(script, &pair.run(script));
        found.is_some_and(|it| it.kind() == kind && !known.iter().any(|known| known.matches(&it)))
    });
    let [host, ours] = pair.run(&script);
    let results = host.into_iter().zip(ours);
    let lines = script.into_iter().zip(results);
    lines
        .map(|(call, (host, ours))| [call, host, ours])
        .collect()
}

fn seeds(usual: RangeInclusive<u64>) -> RangeInclusive<u64> {
    let Ok(text) = std::env::var("FDTABLE_FUZZ_SEEDS") else {
        return usual;
    };
    let bounds = text.split_once('-').unwrap_or((&text, &text));
    let [first, last] = [bounds.0, bounds.1].map(|it| it.parse().expect("FIRST-LAST"));
    first..=last
}

fn calls() -> usize {
    let text = std::env::var("FDTABLE_FUZZ_CALLS");
    text.map_or(CALLS, |text| text.parse().expect("a number of calls"))
}

#[test]
fn random_calls_have_the_results_of_the_host() {
    let mut pair = match Pair::start() {
        Ok(pair) => pair,
        Err(why) => return eprintln!("skipped: random calls are not compared: {why}"),
    };
    let known = known::read();
    let mut report = Report::new(&known);
    for seed in seeds(SEEDS) {
        check_seed(&mut pair, seed, calls(), &known, &mut report);
    }
    if std::env::var_os("FDTABLE_BLESS").is_some() {
        println!("# Not explained yet.\n{}", report.entries());
    }
    assert!(
        report.is_equal(),
        "random calls differ from the host's:\n{report}"
    );
    println!("{report}");
}

#[test]
fn each_known_difference_of_random_calls_is_still_there() {
    let mut pair = match Pair::start() {
        Ok(pair) => pair,
        Err(why) => return eprintln!("skipped: random calls are not compared: {why}"),
    };
    let mut gone = Vec::new();
    for known in known::read() {
        if known.script.iter().any(|line| needs_root(line)) && !pair.is_root() {
            continue;
        }
        let results = pair.run(&known.script);
        let found = Difference::first(&known.script, &results);
        let is_last = |it: &Difference| it.at + 1 == known.script.len() && known.matches(it);
        if !found.is_some_and(|it| is_last(&it)) {
            gone.push(format!("{}\n{results:#?}", known.line()));
        }
    }
    assert!(gone.is_empty(), "no longer so:\n{}", gone.join("\n"));
}

#[test]
fn random_calls_of_threads_leave_a_consistent_table() {
    let mut server = match Server::start(Subject::Ours) {
        Ok(server) => server,
        Err(why) => return eprintln!("skipped: no random calls of threads: {why}"),
    };
    for seed in seeds(THREADED) {
        let threads = 2 + seed % 3;
        let scripts = (0..threads).map(|thread| {
            let mut script = script_of(seed * 1000 + thread, calls(), server.is_root);
            script.retain(|line| !OF_ONE_THREAD.iter().any(|it| call_of(line).starts_with(it)));
            script.join("\n")
        });
        let script: Vec<_> = scripts.collect();
        let script = script.join("\n&\n");
        let lines = server.run(&[script]);
        assert_eq!(lines, ["consistent"], "seed {seed}, {threads} threads");
    }
}

/// Each of these scripts once had another result.
#[test]
fn each_script_of_the_list_has_the_results_of_the_host() {
    let mut pair = match Pair::start() {
        Ok(pair) => pair,
        Err(why) => return eprintln!("skipped: random calls are not compared: {why}"),
    };
    let mut different = Vec::new();
    for script in known::equal_scripts() {
        if script.iter().any(|line| needs_root(line)) && !pair.is_root() {
            continue;
        }
        let results = pair.run(&script);
        if Difference::first(&script, &results).is_some() {
            different.push(format!("{script:#?}\n{results:#?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Returns true if only root can make a call.
fn needs_root(line: &str) -> bool {
    OF_ROOT.contains(&call_of(line).split('(').next().unwrap())
}
