//! The checks of each POSIX call (`kernel/posix/tests/c`), compiled for the host alone: the same
//! binary on the host and under `fdtable run`. Only the known differences of our kernel remain.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use crate::differences::Differences;
use crate::{OURS, line, run, shown};

/// The program, which is compiled once.
fn checks() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = crate::folder("posix-checks").join("checks");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/posix/tests/c");
        let entries = fs::read_dir(sources).expect("the sources");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let sources = paths.filter(|path| path.extension().is_some_and(|it| it == "c"));
        let mut command = Command::new("cc");
        command.args(["-O1", "-w", "-pthread", "-o"]).arg(&program);
        let output = command.args(sources).output().expect("a C compiler");
        assert!(output.status.success(), "{}", shown(&output));
        program
    })
}

/// A folder in memory of the host, where its file system is the one that ours resembles.
struct Folder(PathBuf);

impl Folder {
    fn new(theme: &str) -> Self {
        let name = format!("fdtable-checks-{}-{theme}", std::process::id());
        let folder = Path::new("/dev/shm").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("memory");
        // Some of the checks are those of another user.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("our folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a theme on both sides, and returns the lines that differ without an explanation.
fn complaints(theme: &str) -> Vec<String> {
    let program = checks().to_str().expect("a path");
    let folder = Folder::new(theme);
    let place = folder.0.to_str().expect("a path");
    let [host, ours] = [(&[][..], place), (&OURS[..], "/fdt")].map(|(prefix, place)| {
        let output = run(prefix, &[program, place, theme], &folder.0);
        assert!(output.status.success(), "{theme}: {}", shown(&output));
        line::parse(&String::from_utf8_lossy(&output.stdout))
    });
    let complaints = Differences::read().complaints(theme, &host, &ours);
    // Those of our own C library are not there: it is the host's.
    let is_gone = |complaint: &String| complaint.starts_with("no longer so");
    complaints.into_iter().filter(|it| !is_gone(it)).collect()
}

#[test]
fn each_call_is_as_on_the_host_but_for_known_differences() {
    let output = Command::new(checks()).arg("--list").output();
    let list = String::from_utf8(output.expect("it runs").stdout).expect("names");
    let mut themes: Vec<&str> = list.lines().filter_map(|it| it.split(' ').next()).collect();
    themes.dedup();
    assert!(themes.len() > 20, "{themes:?}");
    // The longest waits for most of its time.
    let waits = thread::spawn(|| complaints("interrupts"));
    let others = themes.iter().filter(|&&theme| theme != "interrupts");
    let mut all: Vec<String> = others.flat_map(|theme| complaints(theme)).collect();
    all.extend(waits.join().expect("no panic"));
    assert!(all.is_empty(), "{}", all.join("\n"));
}
