//! Compiles the programs of `tests/c_table`, and links them with the static library.

use std::path::{Path, PathBuf};
use std::process::Command;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
const BUILT: &str = env!("CARGO_TARGET_TMPDIR");

/// Compiles a program of one source in `tests/c_table`. Fails with the output of the compiler.
pub(crate) fn with_table(source: &str, arguments: &[&str]) -> Result<PathBuf, String> {
    let tag = arguments.concat().replace(['-', '=', '+'], "_");
    let program = Path::new(BUILT).join(format!("table_{source}{tag}"));
    let source = format!("{CRATE}/tests/c_table/{source}.c");
    let library = static_library();
    let standard = match arguments.contains(&"-xc++") {
        true => "-std=gnu++17",
        false => "-std=gnu11",
    };
    let fixed = [
        standard,
        "-g",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-D_GNU_SOURCE",
    ];
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let files = [
        include,
        &source,
        "-xnone",
        text(&library),
        "-o",
        text(&program),
    ];
    let libraries = ["-pthread", "-ldl", "-lm"];
    try_run("cc", &[&fixed, arguments, &files, &libraries].concat())?;
    Ok(program)
}

/// Cargo builds the static library beside the program of this test.
pub(crate) fn static_library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let library = program.with_file_name("libfdtable_capi.a");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// Returns the shared library, which cargo builds there too.
pub(crate) fn shared_library() -> PathBuf {
    static_library().with_extension("so")
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a tool that must succeed, and returns its output.
pub(crate) fn run(tool: &str, arguments: &[&str]) -> String {
    try_run(tool, arguments).unwrap_or_else(|said| panic!("{said}"))
}

/// Runs a tool, and returns its output. Fails with its error messages.
pub(crate) fn try_run(tool: &str, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(tool).args(arguments).output();
    let done = done.map_err(|error| format!("{tool}: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8(done.stdout).unwrap());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!("{tool} fails, {}:\n{said}", done.status))
}
