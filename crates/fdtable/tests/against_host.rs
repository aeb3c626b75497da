//! Random histories, replayed on the table and on the descriptors of the host.
//!
//! The second judge, beside the oracle: the table that Linux keeps for a process. The test runs
//! itself again as a process of its own, which closes all inherited descriptors, so that both
//! tables begin empty. Then `memfd_create`, `dup`, `dup2`, `dup3`, `close`, `close_range` with and
//! without `CLOSE_RANGE_CLOEXEC`, `F_DUPFD`, `F_DUPFD_CLOEXEC`, `F_GETFD`, `F_SETFD` and
//! `RLIMIT_NOFILE` are called on both, and must answer the same descriptor, flags or errno. At the
//! end of each history the same files are open under the same descriptors with the same flags.
//!
//! There is no intended difference from Linux in these calls. Not tested here: `fork` and `exec`,
//! which would need more processes, and reservations, which a process cannot hold open.
//! `close_range` needs Linux 5.11. Limits end at the highest that the process may set, and at
//! 20,000.
//!
//! `PROPTEST_CASES=100000 cargo test -p fdtable --release --test against_host` replays more
//! histories than the few seconds of an ordinary run.

#![cfg(all(target_os = "linux", not(loom)))]

mod history;
mod host;

use std::path::PathBuf;
use std::process::{Command, Stdio, exit};

use fdtable::{FdFlags, FileRef, Files, RawFd};
use history::subject::Subject;
use history::{Call, Number, Table, call};
use host::Host;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRunner};

/// Names the file for the report, in the environment of the process that makes it.
const REPORT: &str = "FDTABLE_AGAINST_HOST_REPORT";

/// The command that runs a program of this architecture, in words: an emulator, or nothing.
const RUNNER: &str = "FDTABLE_TEST_RUNNER";

/// How many histories are replayed by default.
const CASES: u32 = 400;

/// Limits at which behaviour changes; the high ones are more frequent, since more happens there.
const LIMITS: &[u32] = &[0, 1, 64, 65, 256, 1024, 1024, 4096, 4096, 20_000, 20_000];

#[test]
fn the_table_and_the_host_agree() {
    if let Some(report) = std::env::var_os(REPORT) {
        judge(report.into());
    }
    let file = format!("against_host.{}", std::process::id());
    let report = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file);
    let status = this_program()
        .args(["--exact", "the_table_and_the_host_agree"])
        .env(REPORT, &report)
        .stdout(Stdio::null())
        .status()
        .expect("the process runs");
    let told = std::fs::read_to_string(&report).expect("the process writes its report");
    std::fs::remove_file(&report).expect("it is there");
    assert!(status.success(), "{status}: {told}");
}

/// Returns a command that runs this test binary.
fn this_program() -> Command {
    let program = std::env::current_exe().expect("it is known");
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else {
        return Command::new(program);
    };
    let mut command = Command::new(emulator);
    command.args(words).arg(program);
    command
}

/// Replays histories in a process that has no descriptors, and so no output but the report.
fn judge(report: PathBuf) -> ! {
    // Else the harness reports after a minute that the test still runs, at descriptor 1.
    let _quiet = std::io::stdout().lock();
    Host::clear();
    std::panic::set_hook(Box::new(|_| ()));
    let outcome = replay_all();
    Host::clear();
    let failed = outcome.err().unwrap_or_default();
    std::fs::write(report, &failed).expect("the report can be written");
    exit(i32::from(!failed.is_empty()))
}

fn replay_all() -> Result<(), String> {
    let highest = u32::try_from(Host::highest_limit()).unwrap_or(u32::MAX);
    let limits: Vec<u32> = LIMITS.iter().map(|&limit| limit.min(highest)).collect();
    let most = limits[limits.len() - 1];
    let asked = std::env::var("PROPTEST_CASES").ok();
    let mut runner = TestRunner::new(Config {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(CASES),
        // Without optimisation, the default one takes three quarters of the time.
        rng_algorithm: RngAlgorithm::XorShift,
        failure_persistence: None,
        // Ten seconds, in ms: the shortest history that fails is worth no longer wait.
        max_shrink_time: 10_000,
        ..Config::default()
    });
    let outcome = runner.run(&history(limits), |history| {
        let verdict = replay(&history, most);
        Host::clear();
        Host::default().set_limit(most).expect("it is allowed");
        verdict
    });
    outcome.map_err(|failure| failure.to_string())
}

#[derive(Clone, Debug)]
struct History {
    limit: u32,
    /// How many descriptors of one file it begins with.
    open: u32,
    calls: Vec<Call>,
}

/// Flags that Linux has too.
const FLAGS: &[FdFlags] = &[FdFlags::empty(), FdFlags::CLOEXEC];

fn history(limits: Vec<u32>) -> impl Strategy<Value = History> {
    let open = prop_oneof![3 => Just(0), 1 => 60..4200_u32];
    let calls = vec(call(limits.clone(), FLAGS), 1..400);
    (select(limits), open, calls).prop_map(|(limit, open, calls)| History { limit, open, calls })
}

fn replay(history: &History, most: u32) -> Result<(), TestCaseError> {
    let files = Files::with_limit(most);
    let mut opened = 0..;
    let mut subject = Subject {
        files: &files,
        make: &mut || FileRef::new_rcu(opened.next().expect("there are enough")),
        number: |number| *number,
    };
    let mut host = Host::default();
    let many = Call::Dup(Number::Plain(0));
    let first = [
        Call::SetLimit(history.limit),
        Call::Open(1, FdFlags::empty()),
    ];
    let first = first.iter().chain((1..history.open).map(|_| &many));
    for call in first.chain(&history.calls) {
        let expected = call.make(&mut host, &files);
        prop_assert_eq!(call.make(&mut subject, &files), expected, "{:?}", call);
    }
    compare(&mut subject, &mut host, most)
}

/// Compares the file of every descriptor.
fn compare(subject: &mut impl Table, host: &mut Host, most: u32) -> Result<(), TestCaseError> {
    for fd in 0..RawFd::try_from(most).expect("limits are small") {
        let flags = host.flags(fd);
        prop_assert_eq!(subject.flags(fd), flags, "the flags of {}", fd);
        if flags.is_ok() {
            prop_assert_eq!(subject.which(fd), host.which(fd), "the file of {}", fd);
        }
    }
    Ok(())
}
