//! The programs of `tree`: what UnixBench measures of processes, and hackbench as it is packaged.

use std::fs;
use std::path::Path;

use super::program::{
    Bound, Clock, HACKBENCH_PACKAGE, NANOSECONDS, Program, absent, compiled, hackbench, installed,
    part,
};

/// Lists the programs with so many percent of their work, and a sentence for each that is missing.
/// Compiles that in C into `folder`. Blocks for a second.
pub(super) fn all(work: u32, folder: &Path) -> (Vec<Program>, Vec<String>) {
    let mut programs = Vec::new();
    let mut missing = Vec::new();
    match compiled(folder, "tree", include_str!("../../programs/tree.c")) {
        Ok(file) => programs.extend(in_c(work, &file, folder)),
        Err(reason) => missing.push(format!("No programs in C: {reason}.")),
    }
    let script = folder.join("scripts.sh");
    match installed("bash") {
        Some(file) if fs::write(&script, include_str!("../../programs/scripts.sh")).is_ok() => {
            programs.push(scripts(work, &file, &script));
        }
        _ => missing.push(absent("bash", "bash")),
    }
    let keys = [
        "tree.hackbench_pipe_vs_host",
        "tree.hackbench_socket_vs_host",
    ];
    let both = hackbench(work, "-P", keys);
    if both.is_empty() {
        missing.push(absent("hackbench", HACKBENCH_PACKAGE));
    }
    programs.extend(both);
    (programs, missing)
}

fn in_c(work: u32, file: &Path, folder: &Path) -> Vec<Program> {
    let program = |name, what: &str, count: &str, bound| {
        let words = format!("{what} {count} {{}}");
        Program::new(name, file, &words, NANOSECONDS, bound)
    };
    let faster =
        |name, what, count, key| program(name, what, &part(work, count), Bound::TimesFaster(key));
    let files = Bound::Nanoseconds("tree.fork_with_files_ns");
    let copied = "6 MB written, read and copied";
    let mut programs = vec![
        faster(
            "512 bytes through a pipe",
            "pipe",
            2_000_000,
            "tree.pipe_vs_host",
        ),
        faster(
            "two processes in turns",
            "context",
            200_000,
            "tree.context_vs_host",
        ),
        faster("fork, exit, wait", "spawn", 2_000, "tree.spawn_vs_host"),
        faster("execl", "execl", 400, "tree.execl_vs_host"),
        faster(copied, "contents", 200, "tree.contents_vs_host"),
        program(
            "fork with 1,000,000 files",
            "fork_with_files",
            "1000000",
            files,
        ),
    ];
    let overlay = folder.join("overlay");
    if fs::create_dir(&overlay).is_ok() {
        let slower = Bound::TimesSlower("tree.small_files_vs_memory");
        // Whole: the figure is about so many.
        let small = program("a small file on an overlay", "small_files", "20000", slower);
        programs.push(Program {
            overlay: Some(overlay),
            ..small
        });
    }
    programs
}

fn scripts(work: u32, file: &Path, script: &Path) -> Program {
    let words = format!("{} {} {{}}", script.display(), part(work, 20));
    let bound = Bound::TimesFaster("tree.scripts_vs_host");
    Program::new("8 scripts at once", file, &words, Clock::Process, bound)
}
