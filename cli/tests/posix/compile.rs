//! Compiles the programs with the system's compiler. The same binary runs on the host and under
//! `fdtable run`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the program of the checks. The first call compiles it.
pub(crate) fn checks() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("c", "posix-checks"))
}

/// Returns the program that runs random calls. The first call compiles it.
pub(crate) fn fuzz() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("c_fuzz", "posix-fuzz"))
}

/// Compiles all sources of a folder to one program.
fn compiled(folder: &str, name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/posix")
        .join(folder);
    let paths = std::fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path());
    let sources = paths.filter(|path| path.extension().is_some_and(|it| it == "c"));
    // The checks pass invalid arguments on purpose; optimizations and warnings would get in the
    // way.
    let done = Command::new("cc")
        .args(["-std=gnu11", "-O0", "-w", "-D_GNU_SOURCE", "-pthread", "-o"])
        .arg(&program)
        .args(sources)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "cc: {}, {said}", done.status);
    program
}
