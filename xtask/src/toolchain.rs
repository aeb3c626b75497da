//! Other toolchains than the one that builds this program, and other targets.

use std::path::{Path, PathBuf};

use crate::library::{self, LockFile};
use crate::process::Process;
use crate::steps::Verdict;
use crate::{Result, root, source};

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

/// Source of a target's standard library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standard {
    Installed,
    /// Cargo builds it.
    Source,
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

/// Builds the library with the oldest compiler that it promises, and with the dependencies that
/// cargo chooses for that one. Appends to the log instead of the terminal, if there is one.
pub(crate) fn check_oldest(log: Option<&Path>) -> Result<Verdict> {
    let version = promised()?;
    let Some(toolchain) = installed(&version) else {
        return Ok(Verdict::Skipped(format!(
            "no toolchain {version} is installed (rustup toolchain install {version}); the lints \
             report items of the standard library that are newer"
        )));
    };
    let directory = root().join("target/oldest-rust");
    let workspace = directory.join("workspace");
    library::copy_to(&workspace, LockFile::Absent)?;
    for features in ["", "--all-features", "--no-default-features"] {
        let mut check = Process::cargo(&format!("+{toolchain}"))
            .words("check --workspace")
            .words(features)
            .directory(&workspace)
            .env("CARGO_TARGET_DIR", directory.join("target"));
        if let Some(log) = log {
            check = check.log(log).quiet();
        }
        check.run()?;
    }
    Ok(Verdict::Passed)
}

/// The version that the library promises.
fn promised() -> Result<String> {
    let manifest = source::read(&root().join("crates/fdtable/Cargo.toml"))?;
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "));
    let version = version.ok_or("crates/fdtable/Cargo.toml has no rust-version")?;
    Ok(version.trim_matches('"').to_owned())
}
