//! Compares the C program of `tests/posix/c` on the host and under `fdtable run`.
//!
//! The program is an ordinary one, and the same binary runs on both. Both must print the same,
//! except for the differences that `tests/posix/c/differences.txt` explains.
//!
//! Each theme is a test of its own. The last test keeps `docs/posix-conformance.md` current, which
//! is generated from the same output:
//!
//! ```console
//! $ FDTABLE_BLESS=1 cargo test -p fdtable-cli --test posix the_table
//! ```

mod compile;
mod conformance;
mod differences;
mod fuzz;
mod host_lock;
mod line;
mod names;
mod program;

use differences::Differences;
use program::{Subject, outcome};

/// Runs a theme on both. Reports each line that differs from the host's without an explanation,
/// and each explanation that no line needs.
fn compare(theme: &str) {
    let [host, ours] = [Subject::Host, Subject::Ours].map(|it| outcome(it, theme));
    let complaints = Differences::read().complaints(theme, &host, &ours);
    assert!(
        complaints.is_empty(),
        "{} lines of `{theme}` differ from the host's:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

macro_rules! themes {
    ($($theme:ident)*) => {
        const THEMES: &[&str] = &[$(stringify!($theme)),*];
        $(
            #[test]
            fn $theme() {
                compare(stringify!($theme));
            }
        )*
    };
}

themes! {
    descriptors files offsets mappings paths links directories pipes sockets messages readiness
    epolls host_epolls events locks arguments forks devices rights signals interrupts faults stdio
}

#[test]
fn every_theme_of_the_program_is_a_test() {
    assert_eq!(program::themes(), THEMES);
}

#[test]
fn a_mount_that_is_not_valid_is_named() {
    let mounts = "/fdt,mode=0700:/a,uid=1:/";
    let run = program::with_mounts(mounts, None, ["offsets", "seeking"]);
    let said = String::from_utf8(run.stderr).unwrap();
    let lines: Vec<_> = said.lines().collect();
    let expected = [
        "fdtable: FDT_MOUNT: no valid option: uid=1",
        "fdtable: FDT_MOUNT: no valid mount: /",
    ];
    assert_eq!(lines, expected);
    assert!(run.status.success());
}

/// The environment is the user's own. The mode of a mount says which users may make files there.
#[test]
fn mounts_are_there_for_every_user_and_have_their_mode() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let makes_files = |mounts, user| {
        let run = program::with_mounts(mounts, user, ["offsets", "seeking"]);
        let said = String::from_utf8(run.stderr).unwrap();
        assert!(said.is_empty(), "{said}");
        let printed = String::from_utf8(run.stdout).unwrap();
        printed.contains("seeking: open") && !printed.contains("(cannot make")
    };
    let nobody = Some(65_534);
    assert!(makes_files("/fdt", nobody));
    assert!(makes_files("/fdt,mode=0700", None));
    assert!(!makes_files("/fdt,mode=0755", nobody));
}

#[test]
fn a_limit_of_the_size_of_files_is_inherited() {
    let section = ["offsets", "limited_sizes"];
    let host = program::with_size_limit(Subject::Host, section);
    let is_limited = host.iter().any(|line| line.result.contains("EFBIG"));
    assert!(is_limited, "{host:#?}");
    assert_eq!(program::with_size_limit(Subject::Ours, section), host);
}

#[test]
fn the_table_is_what_the_program_prints() {
    let known = Differences::read();
    let outcomes: Vec<_> = THEMES
        .iter()
        .map(|&theme| conformance::Outcome {
            theme,
            host: outcome(Subject::Host, theme),
            ours: outcome(Subject::Ours, theme),
        })
        .collect();
    let table = conformance::write(&outcomes, &known);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/posix-conformance.md");
    if std::env::var_os("FDTABLE_BLESS").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == table,
        "docs/posix-conformance.md is not current; FDTABLE_BLESS=1 writes it"
    );
}
