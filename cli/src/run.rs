//! `run`: an unmodified program on the kernel of this library.

use fdtable_run::{Command, Options, prepare_process, run as run_here};

use crate::arguments::{Guest, Run};
use crate::check::{Settings, started};

/// Becomes the program. If that fails, ends with the exit code of a shell.
pub(crate) fn run(chosen: Run) -> ! {
    prepare();
    let has_findings = chosen.observing.has_findings();
    let mut options = chosen.observing.options();
    options.findings = has_findings.then(|| started(Settings::default()));
    run_guest(chosen.guest, options)
}

/// Starts this program again with the settings of a runner, or ends it with the exit code 125.
pub(crate) fn prepare() {
    if let Err(error) = prepare_process() {
        eprintln!("fdtable: cannot start again by /proc/self/exe: {error}");
        std::process::exit(125);
    }
}

/// Becomes a program. If that fails, ends with the exit code of a shell.
pub(crate) fn run_guest(guest: Guest, options: Options) -> ! {
    let mut words = guest.words.into_iter();
    let command = Command {
        program: words.next().unwrap_or_default(),
        arguments: words.collect(),
        root: guest.root,
        overlays: guest.overlay,
        mounts: guest.mount,
        options,
    };
    let Err(error) = run_here(&command);
    eprintln!("fdtable: {error}");
    std::process::exit(error.exit_code().into());
}
