//! `loom`: explores the models of the crates with the model checker loom.
//!
//! They are in the sources, beside what they explore, and in those tests of `crates/fdtable` that
//! judge a table by what can be seen from outside. Two-thread models that are small enough are
//! explored in full: every order of their steps. The others are bounded: a thread is interrupted,
//! while it could go on, so often in all as the model says (`AtMost`). `--preemptions N` raises
//! that bound, at the price of time:
//!
//! ```console
//! $ cargo xtask loom rcu --preemptions 4      (minutes)
//! $ cargo xtask loom slot --preemptions 6     (much longer)
//! ```
//!
//! With `LOOM_LOG=trace` and `LOOM_LOCATION=1` in the environment, a model that fails prints every
//! step that led to the failure.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::process::{self, End, Process};
use crate::steps::Verdict;
use crate::{Result, pool, target};

/// The models that `check` explores less far, each with its bound there.
const LONG: &str = include_str!("../long-models.txt");

/// Choice of models, and how far to explore them.
#[derive(Default)]
pub(crate) struct Exploration {
    /// Models whose path contains this; all of them, if it is empty.
    pub(crate) name: String,
    /// The bound of preemptions, where a model's own is smaller.
    pub(crate) preemptions: Option<u32>,
    /// Explores the [`long`] models less far.
    pub(crate) is_short: bool,
    /// Explores only the [`long`] models.
    pub(crate) only_long: bool,
    /// The time after which a model is given up. None are, without.
    pub(crate) limit: Option<Duration>,
    /// The time after which all models that are left are given up. None are, without.
    pub(crate) limit_of_all: Option<Duration>,
    /// Where to write what the models print, and their results, which are not shown then.
    pub(crate) log: Option<PathBuf>,
}

/// One model: a test of a binary that is built for loom.
struct Model {
    binary: PathBuf,
    path: String,
}

struct Explored {
    model: Model,
    end: End,
}

pub(crate) fn run(arguments: &[String]) -> Result {
    parse(arguments)?.explore()?.required()
}

fn parse(arguments: &[String]) -> Result<Exploration> {
    const USAGE: &str = "it takes [NAME] [--preemptions N] [--limit SECONDS]";
    let mut exploration = Exploration::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--preemptions" => {
                exploration.preemptions = Some(arguments.next().ok_or(USAGE)?.parse()?);
            }
            "--limit" => {
                let seconds = arguments.next().ok_or(USAGE)?.parse()?;
                exploration.limit = Some(Duration::from_secs(seconds));
            }
            name if !name.starts_with('-') && exploration.name.is_empty() => {
                name.clone_into(&mut exploration.name);
            }
            _ => return Err(USAGE.into()),
        }
    }
    Ok(exploration)
}

impl Exploration {
    /// Explores every model that is asked for, as many at a time as there are CPUs.
    ///
    /// # Errors
    ///
    /// If a model fails, or none has that name. A model that is given up is not an error here: see
    /// [`Verdict::NotFinished`].
    pub(crate) fn explore(&self) -> Result<Verdict> {
        let models = self.models()?;
        if models.is_empty() {
            return Err(format!("no model's path contains `{}`", self.name).into());
        }
        let is_known = |name: &str| models.iter().any(|model| model.path == name);
        if let Some((missing, _)) = long().find(|(name, _)| !is_known(name))
            && self.name.is_empty()
        {
            return Err(
                format!("there is no model {missing}, which is on the list of long ones").into(),
            );
        }
        let count = models.len();
        let end = self.limit_of_all.map(|limit| Instant::now() + limit);
        let first = self.first();
        let mut explored = pool::each(models, |model| self.explore_one(model, first, end))?;
        if first != self.limit {
            // The long ones come last: they take no time from those that end.
            let is_long = |model: &Explored| model.end == End::TimedOut;
            let long: Vec<Explored> = explored
                .extract_if(.., |explored| is_long(explored))
                .collect();
            let again = |long: Explored| self.explore_one(long.model, self.limit, end);
            explored.extend(pool::each(long, again)?);
        }
        let with = |wanted: fn(End) -> bool| -> Vec<&str> {
            let ended = explored.iter().filter(|model| wanted(model.end));
            ended.map(|ended| ended.model.path.as_str()).collect()
        };
        let failed = with(|end| matches!(end, End::Failure(_)));
        let given_up = with(|end| end == End::TimedOut);
        self.say(&format!(
            "{count} models, {} failed, {} not finished",
            failed.len(),
            given_up.len()
        ))?;
        if !failed.is_empty() {
            return Err(format!("models that fail: {}", failed.join(", ")).into());
        }
        if !given_up.is_empty() {
            let names = given_up.join(", ");
            return Ok(Verdict::NotFinished(format!(
                "{} of {count} models: {names}",
                given_up.len()
            )));
        }
        Ok(Verdict::Passed)
    }

    /// Builds all models, and lists those that are asked for.
    fn models(&self) -> Result<Vec<Model>> {
        let mut models = Vec::new();
        for binary in process::test_binaries(build())? {
            let list = Process::new(&binary)
                .words("--list --format terse")
                .read()?;
            for path in list.lines().filter_map(|line| line.strip_suffix(": test")) {
                let is_long = || long().any(|(long, _)| path == long);
                if path.contains(&self.name) && (!self.only_long || is_long()) {
                    models.push(Model {
                        binary: binary.clone(),
                        path: path.to_owned(),
                    });
                }
            }
        }
        Ok(models)
    }

    /// The bound of a long model, if those are explored less far.
    fn less_far(&self, model: &Model) -> Option<u32> {
        let mut long = long().filter(|(name, _)| self.is_short && model.path == *name);
        long.next().map(|(_, preemptions)| preemptions)
    }

    /// The limit of the first exploration of a model: a minute, where all of them have a limit.
    fn first(&self) -> Option<Duration> {
        let minute = self.limit_of_all.map(|_| Duration::from_secs(60));
        self.limit.into_iter().chain(minute).min()
    }

    /// Prints a line: to the log, if there is one.
    fn say(&self, line: &str) -> Result {
        match &self.log {
            Some(log) => process::append(log)?.write_all(format!("{line}\n").as_bytes())?,
            None => println!("{line}"),
        }
        Ok(())
    }

    /// Explores a model until its own limit or the end of all of them.
    fn explore_one(
        &self,
        model: Model,
        limit: Option<Duration>,
        end: Option<Instant>,
    ) -> Result<Explored> {
        let start = Instant::now();
        let left = end.map(|end| end.saturating_duration_since(start));
        let limit = limit.into_iter().chain(left).min();
        let mut process = Process::new(&model.binary).quiet();
        process = process.words("--show-output --exact").arg(&model.path);
        if let Some(preemptions) = self.preemptions.or(self.less_far(&model)) {
            process = process.env("LOOM_MAX_PREEMPTIONS", preemptions.to_string());
        }
        if let Some(preemptions) = self.less_far(&model) {
            // The models of the lower crates explore no less than their own bound otherwise.
            process = process.env("FDTABLE_PREEMPTIONS", preemptions.to_string());
        }
        if let Some(limit) = limit {
            process = process.limit(limit);
        }
        if let Some(log) = &self.log {
            process = process.log(log);
        }
        let finished = process.finish()?;
        let word = match finished.end {
            End::Success if !finished.output.contains("1 passed") => {
                return Err(format!("{}: did not run\n{}", model.path, finished.output).into());
            }
            End::Success => "passed",
            End::Failure(_) => "FAILED",
            End::TimedOut => "not finished",
        };
        let seconds = start.elapsed().as_secs_f64();
        let executions = finished
            .output
            .lines()
            .find(|line| line.contains(" executions"));
        let name = format!("{}: {}", stem(&model.binary), model.path);
        self.say(&format!(
            "{word:<12} {name:<90} {seconds:>6.1} s  {}",
            executions.unwrap_or_default()
        ))?;
        if let End::Failure(_) = finished.end
            && self.log.is_none()
        {
            print!("{}", finished.output);
        }
        Ok(Explored {
            model,
            end: finished.end,
        })
    }
}

/// The long models with their bounds.
fn long() -> impl Iterator<Item = (&'static str, u32)> {
    let lines = LONG.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (name, bound) = line.rsplit_once(' ').expect("a model and its bound");
        (name, bound.parse().expect("a bound"))
    })
}

/// The build of everything that has models.
pub(crate) fn build() -> Process {
    Process::cargo("test")
        .words("--package fdtable-sync --package fdtable-slab")
        .words("--package fdtable-objects --package fdtable --package fdtable-rcu-map")
        .words("--package fdtable-parker --package fdtable-interests")
        .words("--profile loom --lib")
        .words("--test linearizable --test races")
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", target().join("loom"))
}

/// The name of a test binary without the hash.
pub(crate) fn stem(binary: &Path) -> String {
    let name = binary.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit_once('-')
        .map_or(&*name, |(stem, _)| stem)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Exploration> {
        parse(
            &words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn arguments_are_a_name_a_bound_and_a_limit() {
        let exploration = parsed(&["rcu", "--preemptions", "4", "--limit", "60"]).unwrap();
        assert_eq!(exploration.name, "rcu");
        assert_eq!(exploration.preemptions, Some(4));
        assert_eq!(exploration.limit, Some(Duration::from_secs(60)));
        assert!(parsed(&["rcu", "slot"]).is_err());
        assert!(parsed(&["--preemptions"]).is_err());
        assert!(parsed(&["--deeper"]).is_err());
    }

    #[test]
    fn results_are_in_the_log_if_there_is_one() {
        let log = std::env::temp_dir().join(format!("xtask-loom-{}", std::process::id()));
        let exploration = Exploration {
            log: Some(log.clone()),
            ..Exploration::default()
        };
        exploration.say("one").unwrap();
        exploration.say("two").unwrap();
        let written = std::fs::read_to_string(&log);
        std::fs::remove_file(&log).unwrap();
        assert_eq!(written.unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_binary_is_named_without_its_hash() {
        assert_eq!(
            stem(Path::new("/target/deps/fdtable_sync-0123abcd")),
            "fdtable_sync"
        );
    }
}
