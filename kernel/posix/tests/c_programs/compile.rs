//! Compiles the programs, each for the host and for fdtable.
//!
//! That of the checks has three versions: for the host, with the calls renamed by the preprocessor,
//! and with the calls renamed in the object files of the host's version. That of the fuzzer has the
//! first and the last.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::names;

/// The implementation that the program calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Host,
    /// fdtable, by `cc -include fdtable/posix.h`.
    ByHeader,
    /// fdtable, by `objcopy --redefine-syms`.
    BySymbols,
}

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
const BUILT: &str = env!("CARGO_TARGET_TMPDIR");

/// Returns the program. The first call compiles it.
pub(crate) fn program(subject: Subject) -> PathBuf {
    static PROGRAMS: [OnceLock<PathBuf>; 3] = [const { OnceLock::new() }; 3];
    let link = || link(&objects(subject), &format!("checks-{subject:?}"), subject);
    PROGRAMS[subject as usize].get_or_init(link).clone()
}

/// Returns the object files of the program.
pub(crate) fn objects(subject: Subject) -> Vec<PathBuf> {
    static OBJECTS: [OnceLock<Vec<PathBuf>>; 3] = [const { OnceLock::new() }; 3];
    let made = OBJECTS[subject as usize].get_or_init(|| match subject {
        Subject::Host => compiled("c", "host", &[]),
        Subject::ByHeader => compiled("c", "by-header", &WITH_HEADER),
        Subject::BySymbols => objects(Subject::Host)
            .iter()
            .map(|it| renamed(it))
            .collect(),
    });
    made.clone()
}

/// Returns the program that runs random calls. The first call compiles it.
pub(crate) fn fuzz_program(subject: Subject) -> PathBuf {
    static PROGRAMS: [OnceLock<PathBuf>; 3] = [const { OnceLock::new() }; 3];
    let made = PROGRAMS[subject as usize].get_or_init(|| {
        let harness = fuzz_compiled().into_iter().filter(|it| is_harness(it));
        let objects: Vec<_> = harness.chain(fuzz_objects(subject)).collect();
        link(&objects, &format!("fuzz-{subject:?}"), subject)
    });
    made.clone()
}

/// Returns the object files that make random calls: those of the host's program, or copies with
/// renamed calls.
pub(crate) fn fuzz_objects(subject: Subject) -> Vec<PathBuf> {
    static RENAMED: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let calls = fuzz_compiled().into_iter().filter(|it| !is_harness(it));
    match subject {
        Subject::Host => calls.collect(),
        Subject::ByHeader | Subject::BySymbols => RENAMED
            .get_or_init(|| calls.map(|it| renamed(&it)).collect())
            .clone(),
    }
}

fn fuzz_compiled() -> Vec<PathBuf> {
    static OBJECTS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    OBJECTS
        .get_or_init(|| compiled("c_fuzz", "fuzz", &[]))
        .clone()
}

/// Returns true for a file that runs scripts, with calls of the host.
fn is_harness(object: &Path) -> bool {
    let name = object.file_stem().and_then(OsStr::to_str);
    matches!(name, Some("server" | "script"))
}

/// Compiler options that include the macros before every source.
const WITH_HEADER: [&str; 3] = [
    "-include",
    "fdtable/posix.h",
    concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"),
];

/// Compiles a program of one source in `tests/c_table`, which uses the plain table. Fails with the
/// output of the compiler.
pub(crate) fn with_table(source: &str, arguments: &[&str]) -> Result<PathBuf, String> {
    let tag = arguments.concat().replace(['-', '='], "_");
    let program = Path::new(BUILT).join(format!("table_{source}{tag}"));
    let source = format!("{CRATE}/tests/c_table/{source}.c");
    let library = static_library();
    let fixed = [
        "-std=gnu11",
        "-g",
        "-O1",
        "-Wall",
        "-Werror",
        "-D_GNU_SOURCE",
    ];
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let files = [include, &source, text(&library), "-o", text(&program)];
    let libraries = ["-pthread", "-ldl", "-lm"];
    try_run("cc", &[&fixed, arguments, &files, &libraries].concat())?;
    Ok(program)
}

/// Returns the names that the objects import although the list renames them.
pub(crate) fn leaks(objects: &[PathBuf]) -> Vec<String> {
    let mapped = names::mapped();
    let imported = run("nm", &[&["-u"], &paths(objects)[..]].concat());
    let imported: BTreeSet<_> = imported
        .lines()
        .filter_map(|line| line.trim().strip_prefix("U "))
        .collect();
    let leaked = imported.into_iter().filter(|name| mapped.contains(name));
    leaked.map(str::to_owned).collect()
}

/// Returns object files of every source, compiled like most distribution packages: with the symbols
/// that `_FORTIFY_SOURCE` and `_FILE_OFFSET_BITS` select.
pub(crate) fn fortified_objects() -> Vec<PathBuf> {
    let fortified = [
        "-O1",
        "-U_FORTIFY_SOURCE",
        "-D_FORTIFY_SOURCE=2",
        "-D_FILE_OFFSET_BITS=64",
    ];
    compiled("c", "fortified", &[&WITH_HEADER[..], &fortified].concat())
}

/// Copies an object file, and renames the calls in the copy.
pub(crate) fn renamed(object: &Path) -> PathBuf {
    let directory = object.with_file_name("by-symbols");
    std::fs::create_dir_all(&directory).unwrap();
    let copy = directory.join(object.file_name().unwrap());
    let list = format!("--redefine-syms={CRATE}/include/fdtable/redefine.syms");
    run("objcopy", &[&list, text(object), text(&copy)]);
    copy
}

/// Compiles each source of a directory of `tests` to an object file.
fn compiled(sources: &str, name: &str, arguments: &[&str]) -> Vec<PathBuf> {
    let directory = Path::new(BUILT).join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let sources = std::fs::read_dir(Path::new(CRATE).join("tests").join(sources)).unwrap();
    let sources = sources.map(|entry| entry.unwrap().path());
    let c = sources.filter(|path| path.extension() == Some(OsStr::new("c")));
    c.map(|source| {
        let object = directory.join(source.with_extension("o").file_name().unwrap());
        // The checks pass invalid arguments on purpose; optimizations and warnings would get in the
        // way.
        let fixed = ["-std=gnu11", "-O0", "-w", "-D_GNU_SOURCE"];
        let files = ["-c", text(&source), "-o", text(&object)];
        run("cc", &[&fixed, arguments, &files].concat());
        object
    })
    .collect()
}

fn link(objects: &[PathBuf], name: &str, subject: Subject) -> PathBuf {
    let program = Path::new(BUILT).join(name);
    let library = static_library();
    let mut arguments = paths(objects);
    if subject != Subject::Host {
        arguments.push(text(&library));
    }
    arguments.extend(["-pthread", "-ldl", "-lm", "-o", text(&program)]);
    run("cc", &arguments);
    program
}

/// Cargo builds the static library beside the program of this test.
pub(crate) fn static_library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let library = program.with_file_name("libfdtable_posix.a");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// Returns the soname of the shared library, which cargo builds there too.
pub(crate) fn soname() -> String {
    let library = static_library().with_extension("so");
    let dynamic = run("readelf", &["-d", text(&library)]);
    let soname = dynamic.split_once("soname: [");
    let (soname, _) = soname.and_then(|(_, rest)| rest.split_once(']')).unwrap();
    soname.to_owned()
}

fn paths(paths: &[PathBuf]) -> Vec<&str> {
    paths.iter().map(|path| text(path)).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a tool that must succeed, and returns its output.
fn run(tool: &str, arguments: &[&str]) -> String {
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
