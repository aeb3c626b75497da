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

/// Models that take most of the time of all, with the bound of preemptions to which `check`
/// explores them: one less than their own, or 3 if they have none. `full` explores them to their
/// own bounds.
const LONG: &[(&str, u32)] = &[
    ("models::a_fork_meets_a_move_between_leaves", 1),
    ("models::a_rename_in_a_child_meets_a_close_and_an_open", 1),
    ("models::an_interrupted_open_meets_two_closes", 1),
    (
        "loom::an_open_meets_closes_in_a_leaf_that_a_child_has_too",
        1,
    ),
    ("loom::two_gets_meet_the_last_put", 1),
    ("loom::a_pair_meets_a_close_below_it", 2),
    ("loom::a_pair_meets_closes_in_its_leaf_and_below", 1),
    ("loom::an_open_meets_a_close_below_it", 2),
    (
        "dup2_releases_twice::models::two_dup3_and_a_close_meet_at_one_target",
        1,
    ),
    (
        "models::an_open_in_the_second_leaf_meets_a_close_and_a_dup_to",
        1,
    ),
    (
        "models::an_interrupted_pair_in_a_child_meets_two_closes_and_an_open",
        0,
    ),
    ("loom::an_open_meets_a_leaf_that_becomes_empty_and_full", 0),
    ("rcu::loom::every_list_waits_for_its_own_grace_period", 2),
    ("host_fork::freezer::loom::two_freeze_from_inside", 2),
    ("models::a_scan_without_a_lock_is_caught", 1),
    ("loom::a_search_meets_a_close_in_a_leaf_that_was_hinted", 1),
    (
        "loom::a_shrink_meets_one_who_takes_and_gives_with_sequences",
        2,
    ),
    ("rcu::loom::updaters_share_the_wait_for_a_reader", 2),
    ("loom::a_dup3_meets_a_close_of_its_target", 2),
    (
        "models::an_interrupted_open_in_a_child_meets_a_close_and_an_open",
        1,
    ),
    (
        "models::an_interrupted_pair_that_fails_meets_an_open_and_a_close",
        1,
    ),
    ("rcu::loom::the_next_section_tells_so_at_every_depth", 3),
    ("models::many_in_three_leaves_meet_a_close_and_an_open", 1),
    ("models::a_rename_meets_a_close_of_its_target_and_a_fork", 1),
    ("loom::an_open_meets_closes_in_its_leaf_and_below", 1),
    ("slot_map::loom::a_get_meets_the_last_put", 3),
    (
        "update_lost_in_close::models::two_closes_meet_in_one_word",
        2,
    ),
    (
        "off_by_one_at_the_end::models::two_opens_meet_at_the_last_number_of_a_leaf",
        2,
    ),
    ("models::a_search_meets_a_close_and_a_dup_to", 1),
    ("rcu::loom::a_barrier_is_not_misled_by_later_callbacks", 2),
    (
        "rcu::loom::the_record_of_a_thread_that_ended_changes_hands",
        2,
    ),
    ("models::a_pair_in_two_leaves_meets_two_closes", 1),
    ("rcu::loom::a_record_changes_hands", 2),
    ("loom::two_opens_get_the_two_lowest", 2),
    ("models::a_rename_between_leaves_meets_two_gets", 1),
    ("radix::loom::a_write_meets_a_removal", 3),
    ("loom::a_close_range_meets_a_close", 1),
    ("models::a_pair_that_fails_meets_a_close_and_an_open", 1),
    ("radix::loom::two_trees_close_the_same_slot", 1),
    ("loom::a_look_into_a_block_meets_its_close", 2),
    ("models::a_pair_in_two_leaves_meets_an_open", 1),
    ("loom::a_get_meets_an_open_in_a_new_leaf", 2),
    ("loom::two_that_open_meet_in_their_closes", 2),
    ("refcount::loom::one_put_is_the_last", 3),
    ("radix::loom::a_get_meets_a_close_of_what_was_moved", 2),
    (
        "object::loom::the_last_put_of_a_prompt_object_meets_a_get",
        3,
    ),
    (
        "dup2_releases_twice::models::two_dup_to_meet_at_one_target",
        2,
    ),
    ("loom::a_pair_meets_an_open", 2),
];

/// Choice of models, and how far to explore them.
#[derive(Default)]
pub(crate) struct Exploration {
    /// Models whose path contains this; all of them, if it is empty.
    pub(crate) name: String,
    /// The bound of preemptions, where a model's own is smaller.
    pub(crate) preemptions: Option<u32>,
    /// Explores the [`LONG`] models less far.
    pub(crate) is_short: bool,
    /// Explores only the [`LONG`] models.
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
    match parse(arguments)?.explore()? {
        Verdict::Passed => Ok(()),
        Verdict::NotFinished(what) | Verdict::Skipped(what) => Err(what.into()),
    }
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
        if let Some((missing, _)) = LONG.iter().find(|(name, _)| !is_known(name))
            && self.name.is_empty()
        {
            return Err(
                format!("there is no model {missing}, which is on the list of long ones").into(),
            );
        }
        let count = models.len();
        let end = self.limit_of_all.map(|limit| Instant::now() + limit);
        let explored = pool::each(models, |model| self.explore_one(model, self.first(), end));
        let mut explored = explored.into_iter().collect::<Result<Vec<Explored>>>()?;
        if self.first() != self.limit {
            // The long ones come last: they take no time from those that end.
            let is_long = |model: &Explored| model.end == End::TimedOut;
            let long: Vec<Explored> = explored
                .extract_if(.., |explored| is_long(explored))
                .collect();
            let again = pool::each(long, |long| self.explore_one(long.model, self.limit, end));
            explored.extend(again.into_iter().collect::<Result<Vec<Explored>>>()?);
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
                let is_long = || LONG.iter().any(|(long, _)| path == *long);
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
        let mut long = LONG
            .iter()
            .filter(|(name, _)| self.is_short && model.path == *name);
        long.next().map(|&(_, preemptions)| preemptions)
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

/// The build of everything that has models.
pub(crate) fn build() -> Process {
    Process::cargo("test")
        .words("--package fdtable-sync --package fdtable-slab")
        .words("--package fdtable-objects --package fdtable --package fdtable-rcu-map")
        .words("--package fdtable-parker")
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
