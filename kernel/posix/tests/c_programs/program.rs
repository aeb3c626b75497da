//! Runs the program, theme by theme.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use crate::compile::{self, Subject};
use crate::host_lock::HostLock;
use crate::line::{self, Line};

type Outcomes = BTreeMap<(Subject, String), Arc<OnceLock<Vec<Line>>>>;

/// Returns the output of a theme. It runs once, and the result is cached.
pub(crate) fn outcome(subject: Subject, theme: &str) -> Vec<Line> {
    static OUTCOMES: Mutex<Outcomes> = Mutex::new(BTreeMap::new());
    let key = (subject, theme.to_owned());
    let once = OUTCOMES.lock().unwrap().entry(key).or_default().clone();
    once.get_or_init(|| run(subject, theme)).clone()
}

/// Runs a theme in a directory of its own.
fn run(subject: Subject, theme: &str) -> Vec<Line> {
    let directory = match subject {
        Subject::Host => Directory::of_host(theme),
        Subject::ByHeader | Subject::BySymbols => Directory::of_mount(),
    };
    let _locks = (subject == Subject::Host && theme == "locks").then(HostLock::take);
    let run = Command::new(compile::program(subject))
        .args([directory.path.as_os_str(), theme.as_ref()])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{theme}: {}, {said}", run.status);
    let printed = String::from_utf8_lossy(&run.stdout);
    if subject == Subject::Host {
        // The checks after such a line would never run, on fdtable too.
        let is_end =
            |line: &&str| line.contains(" ended by SIG") || line.contains("did not return");
        let ends: Vec<_> = printed.lines().filter(is_end).collect();
        assert!(ends.is_empty(), "{theme}: sections end early: {ends:#?}");
    }
    line::parse(&printed)
}

/// Returns what the program writes to standard error with `FDT_VERBOSE=1`, in one section.
pub(crate) fn trace(theme: &str, section: &str) -> String {
    let run = Command::new(compile::program(Subject::ByHeader))
        .args(["/fdt", theme, section])
        .env("FDT_VERBOSE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(run.stderr).unwrap()
}

/// Runs one section of a theme with this `FDT_MOUNT`, as another user if there is one.
///
/// The program is executed by its descriptor: the other user may have no right to search the
/// directories above it.
pub(crate) fn with_mounts(mounts: &str, user: Option<u32>, section: [&str; 2]) -> Output {
    let program = File::open(compile::program(Subject::ByHeader)).unwrap();
    program
        .set_permissions(Permissions::from_mode(0o755))
        .unwrap();
    let mut run = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    run.arg("/fdt").args(section).env("FDT_MOUNT", mounts);
    if let Some(user) = user {
        run.uid(user);
    }
    run.current_dir("/").stdin(Stdio::null()).output().unwrap()
}

/// Runs one section of a theme in a shell that has limited the size of files to 16 blocks.
pub(crate) fn with_size_limit(subject: Subject, section: [&str; 2]) -> Vec<Line> {
    let directory = match subject {
        Subject::Host => Directory::of_host("size-limit"),
        Subject::ByHeader | Subject::BySymbols => Directory::of_mount(),
    };
    let run = Command::new("sh")
        .args(["-c", "ulimit -S -f 16 && exec \"$@\"", "sh"])
        .arg(compile::program(subject))
        .arg(&directory.path)
        .args(section)
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(run.status.success(), "{subject:?}: {}", run.status);
    line::parse(&String::from_utf8_lossy(&run.stdout))
}

/// Returns the themes of the program, in its order.
pub(crate) fn themes() -> Vec<String> {
    let program = compile::program(Subject::Host);
    let run = Command::new(program).arg("--list").output().unwrap();
    let names = String::from_utf8(run.stdout).unwrap();
    names.lines().map(str::to_owned).collect()
}

/// Working directory of the program.
struct Directory {
    path: PathBuf,
    on_host: bool,
}

impl Directory {
    /// Creates a directory in memory if the host has one, because fdtable's files are in memory
    /// too.
    fn of_host(theme: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let path = parent.join(format!("fdtable-checks-{}-{theme}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self {
            path,
            on_host: true,
        }
    }

    fn of_mount() -> Self {
        Self {
            path: PathBuf::from("/fdt"),
            on_host: false,
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.on_host {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
