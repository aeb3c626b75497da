//! `cargo xtask mutate`: shows that the models notice each ordering and fence of the lowest crates.
//!
//! Two kinds of mutation are tried, and a model must fail under each:
//!
//! - Every ordering that is not `Relaxed`, and every fence, weakened one at a time. They are found
//!   in the source (`source`) and weakened at run time, without a new build: under `cfg(loom)`, the
//!   atomics of the crate look at their caller's place (`crates/sync/src/platform/atomic.rs`). A
//!   run that records these places says which models can catch a mutation. Mutations that no model
//!   catches are on a list, with reasons ([`ALLOWED`]); the list must be exact.
//! - Checks, locks and steps that are left out: markers in the source, and a list of what happens
//!   to the code behind each, in a copy that is built for each (`structural`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::process::{End, Finished, Process, test_binaries};
use crate::{Result, listed, pool, root, target};

mod source;
mod structural;

use source::Site;
use structural::{Copy, Structural};

/// The mutations that no model catches.
const ALLOWED: &str = "xtask/mutations-allowed.txt";

/// The crates with orderings and models.
const CRATES: [&str; 6] = [
    "crates/sync",
    "crates/slab",
    "crates/objects",
    "crates/fdtable",
    "kernel/rcu-map",
    "kernel/parker",
];

/// Files and directories that are no part of the product: models and tests, and the definitions of
/// atomics and fences, which are mutated where they are used.
const NOT_PRODUCT: [&str; 9] = [
    "fence",
    "fence.rs",
    "loom.rs",
    "model.rs",
    "platform",
    "platform.rs",
    "stress.rs",
    "tests",
    "tests.rs",
];

/// Under a mutation, a model is stopped after [`SLOWER`] times its usual time and this much more.
const GRACE: Duration = Duration::from_secs(60);

/// See [`GRACE`].
const SLOWER: u32 = 4;

/// A mutation on the list is tried with the cheapest models, up to this part of the time of all.
const PART_FOR_LISTED: u32 = 16;

/// Words of loom about an execution that it gives up: a thread waits for another that is not run.
const TOO_MANY_STEPS: &str = "Model exceeded maximum number of branches";

/// Beginning of the last line of a record; milliseconds follow.
const TIME: &str = "time: ";

/// One site with one weaker ordering, or without its fence.
struct Mutation {
    /// Names it on the list, whatever its line: file, function, operation, change.
    key: String,
    /// The site, as a run of the models reports it.
    site: String,
    weaker: &'static str,
}

/// A test that explores a model.
struct Model {
    binary: PathBuf,
    name: String,
    /// Time of one run, with nothing weakened.
    time: Duration,
    /// The sites that it executes.
    sites: HashSet<String>,
}

/// Finding of a model under a mutation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Caught,
    Passed,
    /// It was stopped: at its time limit, or by loom in an execution of too many steps.
    Stopped,
}

/// Finding of all models.
enum Verdict {
    /// The model that failed.
    Caught(String),
    /// So many models ran, and so many of them were stopped.
    Survives { models: usize, stopped: usize },
    /// No model executes the site.
    NotExecuted,
}

/// Tries every mutation whose key, name or model contains the argument.
pub(crate) fn mutate(arguments: &[String]) -> Result {
    let (lists, word) = match arguments {
        [] => (false, ""),
        [flag] if flag == "--list" => (true, ""),
        [word] if !word.starts_with('-') => (false, word.as_str()),
        [flag, word] if flag == "--list" => (true, word.as_str()),
        _ => return Err("usage: cargo xtask mutate [--list] [WORD]".into()),
    };
    let everything = enumerate()?;
    let known: HashSet<String> = everything.iter().map(|found| found.site.clone()).collect();
    let allowed = listed::read(ALLOWED)?;
    let mut wrong: Vec<String> = allowed
        .keys()
        .filter(|key| !everything.iter().any(|mutation| mutation.key == **key))
        .map(|key| format!("{} has what is not in the source: {key}", ALLOWED))
        .collect();
    let mutations: Vec<Mutation> = everything
        .into_iter()
        .filter(|mutation| mutation.key.contains(word))
        .collect();
    let structural: Vec<_> = structural::read()?
        .into_iter()
        .filter(|mutation| mutation.name.contains(word) || mutation.model.contains(word))
        .collect();
    if mutations.is_empty() && structural.is_empty() {
        return Err(format!("no mutation has {word} in its name").into());
    }
    if lists {
        for mutation in &mutations {
            let listed = allowed.contains_key(&mutation.key);
            println!("{}{}", mutation.key, if listed { "  (listed)" } else { "" });
        }
        for mutation in &structural {
            println!("{}: {}", mutation.name, mutation.model);
        }
        return Ok(());
    }
    if !mutations.is_empty() {
        weaken(&mutations, &known, &allowed, &mut wrong)?;
    }
    if !structural.is_empty() {
        replace(&structural, &mut wrong)?;
    }
    for line in &wrong {
        println!("WRONG: {line}");
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{} mutations are not as they should be", wrong.len()).into())
    }
}

/// Finds every mutation of an ordering or a fence.
fn enumerate() -> Result<Vec<Mutation>> {
    let mut files = Vec::new();
    for name in CRATES {
        product_files(&root().join(name).join("src"), &mut files)?;
    }
    files.sort();
    let mut mutations = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for file in files {
        let path = file.strip_prefix(root())?.display().to_string();
        let sites = source::sites(&fs::read_to_string(&file)?);
        for site in sites.map_err(|error| format!("{path}: {error}"))? {
            for weaker in &site.weaker {
                let mut key = key(&path, &site, weaker);
                let count = seen.entry(key.clone()).or_default();
                *count += 1;
                if *count > 1 {
                    key += &format!(" #{count}");
                }
                mutations.push(Mutation {
                    key,
                    site: format!("{path}:{}:{}:{}", site.line, site.column, site.part.name()),
                    weaker,
                });
            }
        }
    }
    Ok(mutations)
}

fn key(path: &str, site: &Site, weaker: &str) -> String {
    let Site {
        function,
        operation,
        part,
        strength,
        ..
    } = site;
    let file = short(path);
    let place = match part {
        source::Part::Second => "on failure ",
        source::Part::First | source::Part::Fence => "",
    };
    format!("{file}: {function}: {operation}: {place}{strength} -> {weaker}")
}

/// The path of a source without what all of them have: `rcu/grace.rs` of the crate `sync` is
/// `sync/rcu/grace.rs`.
fn short(path: &str) -> String {
    path.trim_start_matches("crates/").replacen("/src/", "/", 1)
}

fn product_files(directory: &Path, files: &mut Vec<PathBuf>) -> Result {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if NOT_PRODUCT.iter().any(|other| name == *other) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            product_files(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Tries mutations of orderings and fences, and adds to `wrong` what is not on the list as it
/// should be.
fn weaken(
    mutations: &[Mutation],
    known: &HashSet<String>,
    allowed: &BTreeMap<String, String>,
    wrong: &mut Vec<String>,
) -> Result {
    let start = Instant::now();
    let models = models()?;
    let total: Duration = models.iter().map(|model| model.time).sum();
    println!(
        "{} models pass on the source as it is, in {:.0} s of {} at a time",
        models.len(),
        total.as_secs_f64(),
        pool::cpus()
    );
    require_known(&models, known)?;
    let verdicts = pool::each(mutations, |mutation| {
        let start = Instant::now();
        let listed = allowed.contains_key(&mutation.key);
        let patience = if listed {
            total / PART_FOR_LISTED
        } else {
            Duration::MAX
        };
        let verdict = try_out(mutation, &models, patience)?;
        println!(
            "{} ({:.1} s)",
            verdict.line(&mutation.key, listed),
            start.elapsed().as_secs_f64()
        );
        Ok(verdict)
    })?;
    let mut caught = 0;
    let mut listed = 0;
    for (mutation, verdict) in mutations.iter().zip(&verdicts) {
        let key = &mutation.key;
        match (verdict, allowed.contains_key(key)) {
            (Verdict::Caught(_), false) => caught += 1,
            (Verdict::Caught(model), true) => {
                wrong.push(format!("{} has what {model} catches: {key}", ALLOWED));
            }
            (_, true) => listed += 1,
            (_, false) => wrong.push(verdict.line(key, false)),
        }
    }
    let sites: HashSet<&String> = mutations.iter().map(|mutation| &mutation.site).collect();
    println!(
        "{} sites, {} mutations: {caught} caught, {listed} listed, {} neither, in {:.0} s",
        sites.len(),
        mutations.len(),
        mutations.len() - caught - listed,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Requires that every site that a model executes was found in the source.
fn require_known(models: &[Model], known: &HashSet<String>) -> Result {
    for site in models.iter().flat_map(|model| &model.sites) {
        let path = site.split(':').next().unwrap_or_default();
        let is_product = short(path)
            .split('/')
            .all(|name| !NOT_PRODUCT.contains(&name));
        if is_product && !known.contains(site) {
            return Err(format!("executed, and not found in the source: {site}").into());
        }
    }
    Ok(())
}

/// Runs the models that execute the site until one fails, or all that take less than `patience`
/// together have run. Models of the same module come first, and the cheapest first among them.
fn try_out(mutation: &Mutation, models: &[Model], patience: Duration) -> Result<Verdict> {
    let mut ran = 0;
    let mut stopped = 0;
    let mut left = patience;
    let module = mutation.module();
    let (own, others): (Vec<_>, Vec<_>) = models
        .iter()
        .filter(|model| model.sites.contains(&mutation.site))
        .partition(|model| model.name.starts_with(&module));
    for model in own.into_iter().chain(others) {
        // The first one always runs.
        match left.checked_sub(model.time) {
            Some(rest) => left = rest,
            None if ran > 0 => break,
            None => {}
        }
        let run = model.run().limit(GRACE + SLOWER * model.time);
        let weakening = format!("{}={}", mutation.site, mutation.weaker);
        let finished = run.env("FDTABLE_WEAKEN", weakening).quiet().finish()?;
        match judge(&finished)? {
            Outcome::Caught => return Ok(Verdict::Caught(model.name.clone())),
            Outcome::Passed => {}
            Outcome::Stopped => stopped += 1,
        }
        ran += 1;
    }
    if ran == 0 {
        return Ok(Verdict::NotExecuted);
    }
    Ok(Verdict::Survives {
        models: ran,
        stopped,
    })
}

impl Mutation {
    /// The outermost module that the site is in, with `::` after it.
    fn module(&self) -> String {
        let path = self.key.split(':').next().unwrap_or_default();
        let module = path.split('/').nth(1).unwrap_or_default();
        format!("{}::", module.trim_end_matches(".rs"))
    }
}

impl Verdict {
    fn line(&self, key: &str, listed: bool) -> String {
        let (word, more) = match self {
            Self::Caught(model) => ("caught", format!("  by {model}")),
            Self::Survives { models, stopped } => {
                let late = match stopped {
                    0 => String::new(),
                    _ => format!(", {stopped} of them stopped"),
                };
                ("SURVIVES", format!("  {models} models{late}"))
            }
            Self::NotExecuted => ("UNEXECUTED", "  by any model".to_owned()),
        };
        let word = match self {
            Self::Caught(_) => word,
            _ if listed => "listed",
            _ => word,
        };
        format!("{word:<10} {key}{more}")
    }
}

impl Model {
    /// Runs a model to see what it takes and which sites it executes, unless an earlier run has
    /// recorded that of the same binary.
    fn observe(binary: &Path, name: &str) -> Result<Self> {
        let file = binary.file_name().unwrap_or_default().to_string_lossy();
        let directory = scratch().join("sites").join(&*file);
        fs::create_dir_all(&directory)?;
        let record = directory.join(name.replace("::", "."));
        let mut model = Self {
            binary: binary.to_owned(),
            name: name.to_owned(),
            time: Duration::ZERO,
            sites: HashSet::new(),
        };
        if modified(&record) < modified(binary) || !model.read(&record)? {
            fs::write(&record, "")?;
            let start = Instant::now();
            let run = model.run().env("FDTABLE_SITES", &record).quiet();
            let finished = run.finish()?;
            if finished.end != End::Success {
                println!("{}", finished.output);
                return Err(format!("{name} fails on the source as it is").into());
            }
            let line = format!("{TIME}{}\n", start.elapsed().as_millis());
            let mut file = fs::File::options().append(true).open(&record)?;
            file.write_all(line.as_bytes())?;
            model.read(&record)?;
        }
        Ok(model)
    }

    /// Reads a record; returns false if its run did not end.
    fn read(&mut self, record: &Path) -> Result<bool> {
        let text = fs::read_to_string(record)?;
        let (times, sites): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with(TIME));
        let [time] = times[..] else {
            return Ok(false);
        };
        self.time = Duration::from_millis(time[TIME.len()..].parse()?);
        self.sites = sites.into_iter().map(str::to_owned).collect();
        Ok(true)
    }

    fn run(&self) -> Process {
        Process::new(&self.binary)
            .args(["--exact", &self.name])
            .env("RUST_BACKTRACE", "0")
    }
}

/// Builds the models, and sees what each takes and which sites it executes. The cheapest is first.
fn models() -> Result<Vec<Model>> {
    let target = target().join("loom");
    let build = loom(Process::cargo("test"), &target, "");
    let build = build.words(
        "--package fdtable-sync --package fdtable-slab --package fdtable-objects \
             --package fdtable-rcu-map --package fdtable-parker",
    );
    let build = build.words("--package fdtable --lib --test linearizable --test races");
    let mut models = Vec::new();
    for binary in test_binaries(build)? {
        let list = Process::new(&binary).args(["--list", "--format", "terse"]);
        for line in list.read()?.lines() {
            let is_model = line.contains("loom::") || line.contains("models::");
            if let Some(name) = line.strip_suffix(": test").filter(|_| is_model) {
                models.push((binary.clone(), name.to_owned()));
            }
        }
    }
    let mut models = pool::each(models, |(binary, name)| Model::observe(&binary, &name))?;
    models.sort_by_key(|model| model.time);
    Ok(models)
}

/// Tries mutations of the text of the source, and adds to `wrong` those that survive.
fn replace(mutations: &[Structural], wrong: &mut Vec<String>) -> Result {
    let start = Instant::now();
    let copy = Copy::new(&scratch())?;
    let mut caught = 0;
    for mutation in mutations {
        let (outcome, time) = copy.try_out(mutation)?;
        let word = match outcome {
            Outcome::Caught => "caught",
            Outcome::Passed => "SURVIVES",
            Outcome::Stopped => "STOPPED",
        };
        let line = format!("{word:<10} {}  {}", mutation.name, mutation.model);
        println!("{line} ({:.1} s)", time.as_secs_f64());
        if outcome == Outcome::Caught {
            caught += 1;
        } else {
            wrong.push(line);
        }
    }
    println!(
        "{} replacements: {caught} caught, in {:.0} s",
        mutations.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Says what a run of a model has found.
///
/// # Errors
///
/// If the run failed and no model did: neither a panic, nor a fault where freed memory is read, nor
/// an abort by the allocator.
fn judge(finished: &Finished) -> Result<Outcome> {
    let gave_up = finished.output.contains(TOO_MANY_STEPS);
    let status = match finished.end {
        End::Success => return Ok(Outcome::Passed),
        // A model that has failed may hang in its end: the mutation has left the heap broken.
        End::TimedOut if finished.output.contains("panicked at") && !gave_up => {
            return Ok(Outcome::Caught);
        }
        End::TimedOut => return Ok(Outcome::Stopped),
        End::Failure(status) => status,
    };
    if gave_up {
        return Ok(Outcome::Stopped);
    }
    let by_signal = ["signal: 11", "signal: 6"].map(|signal| status.to_string().contains(signal));
    if finished.output.contains("panicked at") || by_signal.contains(&true) {
        return Ok(Outcome::Caught);
    }
    Err(format!(
        "a model did not run to its end: {status}\n{}",
        finished.output
    )
    .into())
}

/// Has cargo build for the model checker.
fn loom(cargo: Process, target: &Path, flags: &str) -> Process {
    cargo
        .arg("--release")
        .env("RUSTFLAGS", format!("--cfg loom {flags}").trim_end())
        .env("CARGO_TARGET_DIR", target)
        // Link-time optimisation takes longer than it saves here.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
}

/// When a file was changed; `None` if it is not there.
fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// Where recorded sites are, and the copy of the sources.
fn scratch() -> PathBuf {
    target().join("mutate")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(script: &str) -> Result<Outcome> {
        let shell = Process::new("sh").args(["-c", script]);
        judge(&shell.quiet().limit(Duration::from_millis(300)).finish()?)
    }

    #[test]
    fn the_list_has_only_mutations_of_the_source() {
        let mutations = enumerate().unwrap();
        for key in listed::read(ALLOWED).unwrap().keys() {
            let found = mutations.iter().any(|mutation| mutation.key == *key);
            assert!(found, "not in the source: {key}");
        }
    }

    #[test]
    fn each_mutation_has_a_key_of_its_own() {
        let mutations = enumerate().unwrap();
        let keys: HashSet<&String> = mutations.iter().map(|mutation| &mutation.key).collect();
        assert_eq!(keys.len(), mutations.len());
    }

    #[test]
    fn a_panic_and_a_fault_are_caught_and_an_execution_without_end_is_not() {
        let stopped = format!("echo panicked at a:; echo {TOO_MANY_STEPS}; exit 101");
        assert!(judged("exit 0").unwrap() == Outcome::Passed);
        assert!(judged("echo panicked at a:; exit 101").unwrap() == Outcome::Caught);
        assert!(judged("kill -SEGV $$").unwrap() == Outcome::Caught);
        assert!(judged(&stopped).unwrap() == Outcome::Stopped);
        assert!(judged("exec sleep 100").unwrap() == Outcome::Stopped);
        assert!(judged("echo panicked at a:; exec sleep 100").unwrap() == Outcome::Caught);
        assert!(judged("echo no such file; exit 1").is_err());
    }
}
