//! Other toolchains than the one that builds this program, and other targets.

use std::path::PathBuf;

use crate::process::Process;

/// The installed toolchain of a channel or version. There is none without `rustup`.
pub(crate) fn installed(version: &str) -> Option<String> {
    let list = Process::new("rustup").words("toolchain list").read().ok()?;
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let is_wanted = |name: &&str| {
        let rest = name.strip_prefix(version);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
    };
    names.filter(is_wanted).map(str::to_owned).next()
}

/// Returns true if a program of that name can be run.
pub(crate) fn can_run(program: &str) -> bool {
    Process::new(program).arg("--version").read().is_ok()
}

/// Source of a target's standard library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standard {
    Installed,
    /// Cargo builds it.
    Source,
}

/// Returns true if the standard library of a target is installed.
pub(crate) fn is_installed(triple: &str) -> bool {
    standard_of("rustc", triple) == Some(Standard::Installed)
}

/// Returns where a compiler has the standard library of a target, if it has one.
pub(crate) fn standard_of(compiler: &str, triple: &str) -> Option<Standard> {
    let print = |what: &str| {
        let print = Process::new(compiler).args(["--print", what, "--target", triple]);
        Some(PathBuf::from(print.read().ok()?.trim()))
    };
    let source = "lib/rustlib/src/rust/library/std/Cargo.toml";
    if print("target-libdir")?.is_dir() {
        Some(Standard::Installed)
    } else if print("sysroot")?.join(source).is_file() {
        Some(Standard::Source)
    } else {
        None
    }
}
