//! `layers`: `unsafe` and memory orderings are in the lowest layer alone.
//!
//! That layer is `crates/sync`, `crates/slab` and `crates/objects`, and `kernel/shm`,
//! `kernel/parker` and `kernel/rcu-map` of the kernel; the heaps of rivals have one of their own,
//! `lab/heap`. The C interfaces in `crates/capi` and `kernel/posix` are `unsafe` towards their
//! callers and have no orderings. The loader in `kernel/run` shares an address space with programs
//! that it does not know. The tracer in `lab/conflict-tracer` steps machine code, for development
//! only: nothing that is shipped depends on it. It asks for a promise, which `lab/bench` and
//! `lab/cost` give in one file each.

use crate::source::{self, has_word};
use crate::{Result, no_arguments, root};

/// Crates without `unsafe`, but for [`PROMISE`].
const SAFE: &[&str] = &[
    "crates/fdtable",
    "crates/listing",
    "crates/interests",
    "kernel/vfs",
    "lab/bench",
    "cli",
];

/// The file that makes the tracer its promise.
const PROMISE: &str = "lab/bench/src/conflicts/simulation.rs";

/// Crates without memory orderings.
const UNORDERED: &[&str] = &[
    "crates/fdtable",
    "crates/listing",
    "crates/interests",
    "crates/capi",
    "kernel/vfs",
    "kernel/posix",
    "cli",
];

/// Tests in the sources may name an ordering, for a flag that stops their threads.
const TESTS: &[&str] = &["models.rs", "loom.rs", "tests.rs"];

const ORDERINGS: &[&str] = &["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// Crates that are shipped, or that what is shipped stands on.
const WITHOUT_TRACER: &[&str] = &[
    "crates/sync",
    "crates/slab",
    "crates/objects",
    "crates/fdtable",
    "crates/listing",
    "crates/interests",
    "crates/capi",
    "kernel/shm",
    "kernel/parker",
    "kernel/vfs",
    "kernel/posix",
    "lab/heap",
];

pub(crate) fn run(arguments: &[String]) -> Result {
    no_arguments(arguments)?;
    check()
}

/// Checks all three rules, and lists what breaks them.
pub(crate) fn check() -> Result {
    let mut found = Vec::new();
    for folder in SAFE {
        found.extend(lines_with(folder, is_unsafe)?);
    }
    for folder in UNORDERED {
        found.extend(lines_with(folder, orders)?);
    }
    for folder in WITHOUT_TRACER {
        let manifest = root().join(folder).join("Cargo.toml");
        if source::read(&manifest)?.contains("conflict-tracer") {
            found.push(format!(
                "{}: depends on conflict-tracer",
                source::shown(&manifest)
            ));
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("these lines belong in another layer:\n{}", found.join("\n")).into())
}

/// The lines of a crate whose code breaks a rule, as `path:line: code`.
fn lines_with(folder: &str, breaks: fn(&str, &str) -> bool) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in source::files(&format!("{folder}/src"), "rs")? {
        let shown = source::shown(&path);
        for (index, line) in source::lines(&source::read(&path)?).into_iter().enumerate() {
            if breaks(&shown, &line.code) {
                found.push(format!("{shown}:{}: {}", index + 1, line.code.trim()));
            }
        }
    }
    Ok(found)
}

fn is_unsafe(path: &str, code: &str) -> bool {
    path != PROMISE && has_word(code, "unsafe")
}

fn orders(path: &str, code: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    if TESTS.contains(&file) {
        return false;
    }
    code.contains("atomic::Ordering")
        || ORDERINGS
            .iter()
            .any(|ordering| has_word(code, &format!("Ordering::{ordering}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_is_seen_in_every_form() {
        for code in [
            "unsafe {",
            "pub unsafe fn f()",
            "unsafe impl Send for X {}",
            "#[unsafe(no_mangle)]",
        ] {
            assert!(is_unsafe("kernel/vfs/src/lib.rs", code), "{code}");
        }
        assert!(!is_unsafe(PROMISE, "unsafe {"));
        assert!(!is_unsafe(
            "kernel/vfs/src/lib.rs",
            "#![forbid(unsafe_code)]"
        ));
    }

    #[test]
    fn orderings_are_seen_but_in_tests() {
        assert!(orders(
            "kernel/vfs/src/lib.rs",
            "word.load(Ordering::Acquire)"
        ));
        assert!(orders(
            "kernel/vfs/src/lib.rs",
            "use std::sync::atomic::Ordering;"
        ));
        assert!(!orders(
            "kernel/vfs/src/lib.rs",
            "a.cmp(&b) == Ordering::Less"
        ));
        assert!(!orders(
            "kernel/vfs/src/fs/tests.rs",
            "word.load(Ordering::Acquire)"
        ));
    }
}
