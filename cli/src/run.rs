//! `run`: an unmodified program on the kernel of this library.

use fdtable_run::{Command, prepare_process, run as run_here};

use crate::arguments::Run;

/// Starts this program again with the settings of a runner, or ends it with the exit code 125.
pub(crate) fn prepare() {
    if let Err(error) = prepare_process() {
        eprintln!("fdtable: cannot start again by /proc/self/exe: {error}");
        std::process::exit(125);
    }
}

/// Becomes the program. If that fails, ends with the exit code of a shell.
pub(crate) fn run(chosen: Run) -> ! {
    prepare();
    let options = chosen.observing.options();
    let mut words = chosen.words.into_iter();
    let command = Command {
        program: words.next().unwrap_or_default(),
        arguments: words.collect(),
        root: chosen.root,
        overlays: chosen.overlay,
        mounts: chosen.mount,
        options,
    };
    let Err(error) = run_here(&command);
    eprintln!("fdtable: {error}");
    std::process::exit(error.exit_code().into());
}
