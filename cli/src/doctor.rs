//! `doctor`: what this machine offers to `run`, and what each lack means.

use fdtable_run::{Offer, examine};

/// Prints what a run uses, and what is missing of it. Ends with the exit code 125 if nothing runs
/// here.
pub(crate) fn run() -> ! {
    crate::run::prepare();
    let found = examine();
    for (offer, missing) in &found {
        let (name, lack) = described(*offer);
        match missing {
            None => println!("ok       {name}"),
            Some(missing) => println!("missing  {name}: {missing}\n         {lack}"),
        }
    }
    let is_needed = |offer| described(offer).1 == NOTHING_RUNS;
    let mut missing = found.iter().filter(|(_, missing)| missing.is_some());
    let code = match missing.any(|&(offer, _)| is_needed(offer)) {
        true => 125,
        false => 0,
    };
    std::process::exit(code)
}

const NOTHING_RUNS: &str = "No program runs here: exit code 125.";
const ONE_PROCESS: &str =
    "A program runs in one process. Its first fork ends it with exit code 125.";

/// Returns the name of something that a run uses, and the consequence of its lack.
fn described(offer: Offer) -> (&'static str, &'static str) {
    match offer {
        Offer::Host => ("a process that no runner runs", NOTHING_RUNS),
        Offer::Dispatch => ("Syscall User Dispatch (Linux 5.11)", NOTHING_RUNS),
        Offer::SharedMemory => (
            "memfd_create(2), with limits above 64 GiB for addresses and files",
            ONE_PROCESS,
        ),
        Offer::Tracing => ("ptrace(2) of the program's processes", ONE_PROCESS),
        Offer::CodeMemory => (
            "/proc/self/mem, to rewrite call sites",
            "Each call is reported by a signal, at 20 times the cost.",
        ),
        Offer::Sequences => (
            "restartable sequences: rseq(2)",
            "Opens and closes take atomic operations instead.",
        ),
        Offer::Fences => ("membarrier(2)", "Each lookup takes a fence."),
    }
}
