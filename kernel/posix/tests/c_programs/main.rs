//! Compares the C program of `tests/c` on the host and on fdtable.
//!
//! The program is compiled against the host, and against fdtable in two ways. All must print the
//! same, except for the differences that `tests/c/differences.txt` explains.
//!
//! Each theme is a test of its own. The last test keeps `docs/posix-conformance.md` current, which
//! is generated from the same output:
//!
//! ```console
//! $ FDTABLE_BLESS=1 cargo test -p fdtable-posix --test c_programs the_table
//! ```

mod compile;
mod differences;
mod freed;
mod fuzz;
mod host_lock;
mod line;
#[cfg(feature = "debug")]
mod misuse;
mod names;
mod operations;
mod program;
mod table;
mod wrapper;

use std::collections::BTreeSet;

use compile::Subject;
use differences::Differences;
use program::outcome;

/// Runs a theme on all three. Reports each line that differs from the host's without an
/// explanation, and each explanation that no line needs.
fn compare(theme: &str) {
    let host = outcome(Subject::Host, theme);
    for subject in [Subject::ByHeader, Subject::BySymbols] {
        let complaints = Differences::read().complaints(theme, &host, &outcome(subject, theme));
        assert!(
            complaints.is_empty(),
            "{} lines of `{theme}`, {subject:?}, differ from the host's:\n{}",
            complaints.len(),
            complaints.join("\n")
        );
    }
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
fn the_verbose_mode_names_mounts_and_host_paths_once() {
    let trace = program::trace("devices", "host_files");
    let lines: Vec<_> = trace.lines().collect();
    assert_eq!(lines.first(), Some(&"fdtable: mount: /fdt"), "{trace}");
    let passwd = lines
        .iter()
        .filter(|line| **line == "fdtable: host path: /etc/passwd");
    assert_eq!(passwd.count(), 1, "{trace}");
    assert!(!trace.contains("host path: /fdt"), "{trace}");
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
    // SAFETY: the call takes no pointer.
    if unsafe { libc::geteuid() } != 0 {
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
    assert_eq!(program::with_size_limit(Subject::ByHeader, section), host);
}

/// Otherwise a program could pass while it calls the host.
#[test]
fn no_object_imports_a_call_that_should_be_renamed() {
    let host = compile::objects(Subject::Host);
    assert!(
        !compile::leaks(&host).is_empty(),
        "the check of imports finds none"
    );
    let none: [&str; 0] = [];
    assert_eq!(compile::leaks(&compile::objects(Subject::ByHeader)), none);
    assert_eq!(compile::leaks(&compile::objects(Subject::BySymbols)), none);
    assert_eq!(compile::leaks(&compile::fortified_objects()), none);
}

/// Otherwise the check would compare the host with itself.
#[test]
fn every_call_that_is_checked_is_mapped() {
    let checked: BTreeSet<_> = THEMES
        .iter()
        .flat_map(|theme| outcome(Subject::Host, theme))
        .filter_map(|line| names::call_of(&line.call).map(str::to_owned))
        .collect();
    let mapped = names::mapped();
    let host: Vec<_> = checked
        .iter()
        .filter(|name| !mapped.contains(name.as_str()))
        .collect();
    assert!(
        host.is_empty(),
        "these calls are still the host's: {host:?}"
    );
}

#[test]
fn the_soname_has_the_version_with_which_symbols_may_change() {
    let version = env!("CARGO_PKG_VERSION");
    let (major, rest) = version.split_once('.').unwrap();
    let (minor, _) = rest.split_once('.').unwrap();
    let expected = match major {
        "0" => format!("libfdtable.so.0.{minor}"),
        _ => format!("libfdtable.so.{major}"),
    };
    assert_eq!(compile::soname(), expected);
}

#[test]
fn the_table_is_what_the_program_prints() {
    let known = Differences::read();
    let outcomes: Vec<_> = THEMES
        .iter()
        .map(|&theme| table::Outcome {
            theme,
            host: outcome(Subject::Host, theme),
            ours: outcome(Subject::ByHeader, theme),
        })
        .collect();
    let table = table::write(&outcomes, &known);
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/posix-conformance.md"
    );
    if std::env::var_os("FDTABLE_BLESS").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == table,
        "docs/posix-conformance.md is not current; FDTABLE_BLESS=1 writes it"
    );
}
