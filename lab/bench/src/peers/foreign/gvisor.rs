//! gVisor's descriptor table, in Go: the type itself, from the module that its authors publish.
//!
//! The first build fetches the module and compiles some hundred packages, which takes minutes. So
//! only full runs build it, before any measurement, and the program stays in the user's cache;
//! short runs take it from there.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Foreign, Missing, SlowBuilds};
use crate::child::{Program, output};
use crate::experiment::Progress;

pub(super) const NAME: &str = "gVisor FDTable, in Go";

/// Sources of the program. `go.sum` pins every module by its hash.
const SOURCES: [(&str, &str); 7] = [
    ("go.mod", include_str!("../../../rivals/gvisor/go.mod")),
    ("go.sum", include_str!("../../../rivals/gvisor/go.sum")),
    ("main.go", include_str!("../../../rivals/gvisor/main.go")),
    ("file.go", include_str!("../../../rivals/gvisor/file.go")),
    ("work.go", include_str!("../../../rivals/gvisor/work.go")),
    ("turn.go", include_str!("../../../rivals/gvisor/turn.go")),
    ("size.go", include_str!("../../../rivals/gvisor/size.go")),
];

/// Starts the program, and builds it first if allowed.
pub(super) fn rival(slow: SlowBuilds, progress: &dyn Progress) -> Result<Foreign, Missing> {
    let started = built(slow, progress).and_then(|program| {
        Program::start(NAME, &mut Command::new(program)).map_err(|error| format!("{error:#}"))
    });
    let missing = |reason| Missing { name: NAME, reason };
    Ok(Foreign::new(NAME, started.map_err(missing)?))
}

/// Returns the program, or the reason why it is missing, in a sentence.
fn built(slow: SlowBuilds, progress: &dyn Progress) -> Result<PathBuf, String> {
    let directory = cache()?.join(format!("gvisor-{:016x}", fingerprint()));
    let program = directory.join("rival");
    if program.exists() {
        return Ok(program);
    }
    if slow == SlowBuilds::Skip {
        return Err(
            "it was not built yet: `fdtable bench peers` without --quick builds it once, in minutes, \
             with Go, which is at https://go.dev/dl"
                .into(),
        );
    }
    progress.begin("peers: building gVisor's table, once", 1);
    build("go", &directory, &program)?;
    progress.step();
    Ok(program)
}

/// Returns the directory of programs that take long to build.
fn cache() -> Result<PathBuf, String> {
    let of_user = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let of_home = || std::env::home_dir().map(|home| home.join(".cache"));
    of_user
        .or_else(of_home)
        .map(|cache| cache.join("fdtable-bench"))
        .ok_or_else(|| "there is no home directory to keep what is built".to_owned())
}

/// Hashes the sources, so that a program of other sources is not used.
fn fingerprint() -> u64 {
    let mut hasher = DefaultHasher::new();
    SOURCES.hash(&mut hasher);
    hasher.finish()
}

/// Writes the sources into the directory and builds the program there. Blocks for minutes. Another
/// process may do the same: the program gets its name when it is complete.
fn build(go: &str, directory: &Path, program: &Path) -> Result<(), String> {
    let in_part = directory.join(format!("rival.{}", std::process::id()));
    let written = fs::create_dir_all(directory).and_then(|()| {
        let mut sources = SOURCES.iter();
        sources.try_for_each(|(name, source)| fs::write(directory.join(name), source))
    });
    written.map_err(|error| format!("the cache cannot be written: {error}"))?;
    let mut go = Command::new(go);
    go.args(["build", "-o"])
        .args([&in_part, Path::new(".")])
        .current_dir(directory);
    match output(&mut go) {
        Ok(Some(_)) => {
            fs::rename(&in_part, program).map_err(|error| format!("no program was built: {error}"))
        }
        Ok(None) => Err("Go was not found; it is at https://go.dev/dl".to_owned()),
        Err(error) => Err(refusal(&error.to_string())),
    }
}

/// Extracts the reason from Go's output: the last line; those before it are progress.
fn refusal(said: &str) -> String {
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    format!(
        "Go did not build it: {}",
        last.unwrap_or("no reason given").trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_go_is_named_with_its_source() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("rival");
        let outcome = build("/nonexistent/go", directory.path(), &program);
        assert!(outcome.unwrap_err().contains("go.dev"));
        assert!(!program.exists());
    }

    #[test]
    fn a_build_that_fails_leaves_no_program() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("rival");
        let outcome = build("false", directory.path(), &program);
        assert!(outcome.unwrap_err().contains("did not build"));
        assert!(!program.exists());
        let outcome = build("true", directory.path(), &program);
        assert!(outcome.unwrap_err().contains("no program"));
    }

    #[test]
    fn the_last_line_is_the_reason() {
        let said = "go: downloading golang.org/x/sys v0.43.0\n\
            go: go.mod requires go >= 1.26.3 (running go 1.20; GOTOOLCHAIN=local)\n\n";
        assert!(refusal(said).contains("requires go >= 1.26.3"));
    }
}
