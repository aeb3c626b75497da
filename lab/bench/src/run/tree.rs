//! The programs of `tree`: what UnixBench measures of processes, and hackbench as it is packaged.

use std::fs;
use std::path::{Path, PathBuf};

use super::program::{
    Bound, Clock, HACKBENCH_PACKAGE, NANOSECONDS, Program, SECONDS, absent, compiled, installed,
    part,
};
use crate::report::Goal;

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
            programs.push(scripts(work, file, &script));
        }
        _ => missing.push(absent("bash", "bash")),
    }
    match installed("hackbench") {
        Some(file) => programs.extend(hackbench(work, &file)),
        None => missing.push(absent("hackbench", HACKBENCH_PACKAGE)),
    }
    (programs, missing)
}

fn faster(key: &'static str, goal: f64, meaning: &'static str) -> Bound {
    Bound::TimesFaster {
        key,
        goal: Goal::AtLeast(goal),
        meaning,
    }
}

fn in_c(work: u32, file: &Path, folder: &Path) -> Vec<Program> {
    let program = |name, what: &str, count: String, bound| Program {
        name,
        file: file.to_owned(),
        words: vec![what.to_owned(), count, "{}".to_owned()],
        overlay: None,
        clock: NANOSECONDS,
        bounds: vec![bound],
    };
    let overlay = folder.join("overlay");
    let has_overlay = fs::create_dir(&overlay).is_ok();
    let mut programs = vec![
        program(
            "512 bytes through a pipe",
            "pipe",
            part(work, 2_000_000),
            faster(
                "tree.pipe_vs_host",
                4.0,
                "512 bytes written to a pipe and read by a process: times faster than the host",
            ),
        ),
        program(
            "two processes in turns",
            "context",
            part(work, 200_000),
            faster(
                "tree.context_vs_host",
                1.0,
                "Two processes pass a number to each other: times faster than the host",
            ),
        ),
        program(
            "fork, exit, wait",
            "spawn",
            part(work, 2_000),
            faster(
                "tree.spawn_vs_host",
                0.7,
                "A process that is made, ends and is waited for: times faster than the host",
            ),
        ),
        program(
            "execl",
            "execl",
            part(work, 400),
            faster(
                "tree.execl_vs_host",
                0.5,
                "A program that executes itself: times faster than the host",
            ),
        ),
        program(
            "6 MB written, read and copied",
            "contents",
            part(work, 200),
            faster(
                "tree.contents_vs_host",
                2.0,
                "A file written, read and copied in parts of 1 KiB: times faster than the host",
            ),
        ),
        program(
            "fork with 1,000,000 files",
            "fork_with_files",
            "1000000".to_owned(),
            Bound::Nanoseconds {
                key: "tree.fork_with_files_ns",
                goal: Goal::AtMost(20_000.0),
                meaning: "What 1,000,000 descriptors add to a fork; on the host, as many as it allows",
            },
        ),
    ];
    programs.extend(has_overlay.then(|| Program {
        overlay: Some(overlay),
        ..program(
            "a small file on an overlay",
            "small_files",
            // Whole: the figure is about so many.
            "20000".to_owned(),
            Bound::TimesSlower {
                key: "tree.small_files_vs_memory",
                goal: Goal::AtMost(1.0),
                meaning: "Small files made, asked for and removed on an overlay ÷ in memory of the host",
            },
        )
    }));
    programs
}

fn scripts(work: u32, file: PathBuf, script: &Path) -> Program {
    Program {
        name: "8 scripts at once",
        file,
        words: vec![
            script.display().to_string(),
            part(work, 20),
            "{}".to_owned(),
        ],
        overlay: None,
        clock: Clock::Process,
        bounds: vec![faster(
            "tree.scripts_vs_host",
            0.7,
            "Eight shell scripts at once: times faster than the host",
        )],
    }
}

fn hackbench(work: u32, file: &Path) -> [Program; 2] {
    let program = |name, ends: &[&str], bound| Program {
        name,
        file: file.to_owned(),
        words: ["-P", "-g", "10", "-l", &part(work, 1000)]
            .iter()
            .chain(ends)
            .map(|&word| word.to_owned())
            .collect(),
        overlay: None,
        clock: SECONDS,
        bounds: vec![bound],
    };
    [
        program(
            "hackbench, pipes",
            &["-p"],
            faster(
                "tree.hackbench_pipe_vs_host",
                2.0,
                "hackbench with 400 processes over pipes: times faster than the host",
            ),
        ),
        program(
            "hackbench, sockets",
            &[],
            faster(
                "tree.hackbench_socket_vs_host",
                5.0,
                "hackbench with 400 processes over sockets: times faster than the host",
            ),
        ),
    ]
}
