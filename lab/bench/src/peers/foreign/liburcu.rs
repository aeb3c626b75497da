//! Tables of liburcu, in C: its hash table, and an array of pointers as its users write it.
//!
//! Each is built with both of its fastest flavours.

use std::path::Path;
use std::process::Command;

use super::{Foreign, Missing};
use crate::child::{Program, output};

/// Source of the programs: one unit, with its parts beside it.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rivals/liburcu/rival.c");

/// A build of one of the programs.
struct Variant {
    name: &'static str,
    options: &'static [&'static str],
}

/// The hash table has no descriptors: they come from free lists that its user keeps. Writers of the
/// array take a mutex.
const VARIANTS: [Variant; 4] = [
    Variant {
        name: "liburcu hash table, qsbr",
        options: &["-DHASH", "-DQSBR", "-lurcu-qsbr", "-lurcu-cds"],
    },
    Variant {
        name: "liburcu hash table, memb",
        options: &["-DHASH", "-lurcu-memb", "-lurcu-cds"],
    },
    Variant {
        name: "array under liburcu, qsbr",
        options: &["-DQSBR", "-lurcu-qsbr"],
    },
    Variant {
        name: "array under liburcu, memb",
        options: &["-lurcu-memb"],
    },
];

/// Compiles and starts every variant. Blocks for some seconds.
pub(super) fn all() -> Vec<Result<Foreign, Missing>> {
    VARIANTS.iter().map(Variant::start).collect()
}

impl Variant {
    /// Compiles it in a directory that is deleted when the program runs.
    fn start(&self) -> Result<Foreign, Missing> {
        let missing = |reason| Missing {
            name: self.name,
            reason,
        };
        let started = tempfile::tempdir()
            .map_err(|error| format!("no directory can be made to compile in: {error}"))
            .and_then(|directory| {
                let program = compile("cc", self.options, directory.path())?;
                Program::start(self.name, &mut Command::new(program))
                    .map_err(|error| format!("{error:#}"))
            });
        let program = started.map_err(missing)?;
        Ok(Foreign::new(self.name, program))
    }
}

/// Compiles with the options of the library's authors, without options for this machine alone: ours
/// has none either.
fn compile(
    compiler: &str,
    options: &[&str],
    directory: &Path,
) -> Result<std::path::PathBuf, String> {
    let program = directory.join("rival");
    let mut compiler = Command::new(compiler);
    compiler
        .args(["-std=gnu11", "-O2", "-pthread", "-o"])
        .args([&program, Path::new(SOURCE)])
        .args(options)
        .arg("-lurcu-common");
    match output(&mut compiler) {
        Ok(Some(_)) => Ok(program),
        Ok(None) => Err("no C compiler was found: `apt-get install gcc`".to_owned()),
        Err(error) => Err(refusal(&error.to_string())),
    }
}

/// Extracts the reason from the compiler's output.
fn refusal(said: &str) -> String {
    let first = said
        .lines()
        .find(|line| line.contains("error") || line.contains("cannot find"))
        .unwrap_or_default();
    if first.contains("No such file") || first.contains("cannot find") {
        return "liburcu was not found: `apt-get install liburcu-dev`".to_owned();
    }
    format!("the C compiler refused it: {first}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_its_source() {
        let header = "In file included from file.h:8:\n\
            flavour.h:20:10: fatal error: urcu/urcu-memb.h: No such file or directory\n";
        let library = "/usr/bin/ld: cannot find -lurcu-cds: No such file or directory\n";
        for said in [header, library] {
            assert!(refusal(said).contains("liburcu-dev"), "{}", refusal(said));
        }
        let other = "rival.c:3:1: error: expected ';'\n";
        assert!(refusal(other).contains("expected ';'"));
    }

    #[test]
    fn a_missing_compiler_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let compiled = compile("/nonexistent/cc", &[], directory.path());
        assert!(compiled.unwrap_err().contains("no C compiler"));
    }
}
