//! Runs the program of the checks, theme by theme.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use crate::compile;
use crate::host_lock::HostLock;
use crate::line::{self, Line};

/// The kernel on which a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Host,
    /// The kernel of `fdtable run`.
    Ours,
}

/// The runner, which Cargo has built.
const RUNNER: &str = env!("CARGO_BIN_EXE_fdtable");

impl Subject {
    /// Returns the words before those of a program.
    fn prefix(self) -> &'static [&'static str] {
        match self {
            Subject::Host => &[],
            Subject::Ours => &[RUNNER, "run"],
        }
    }

    /// Returns a command that runs a program. Its arguments are still to be added.
    pub(crate) fn command(self, program: impl AsRef<OsStr>) -> Command {
        let program = program.as_ref();
        let mut words = self.prefix().iter().map(OsStr::new).chain([program]);
        let mut command = Command::new(words.next().unwrap_or(program));
        command.args(words);
        command
    }
}

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
    let directory = Directory::of(subject, theme);
    let _locks = (subject == Subject::Host && theme == "locks").then(HostLock::take);
    let run = subject
        .command(compile::checks())
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

/// Runs one section of a theme with this `FDT_MOUNT`, as another user if there is one.
///
/// The runner is executed by its descriptor, and the program is a copy in the folder of temporary
/// files: the other user may have no right to search the directories of the originals.
pub(crate) fn with_mounts(mounts: &str, user: Option<u32>, section: [&str; 2]) -> Output {
    static COPIES: Mutex<u32> = Mutex::new(0);
    let number = {
        let mut copies = COPIES.lock().unwrap();
        *copies += 1;
        *copies
    };
    let name = format!("fdtable-checks-{}-{number}", std::process::id());
    let copy = std::env::temp_dir().join(name);
    fs::copy(compile::checks(), &copy).unwrap();
    fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
    let runner = File::open(RUNNER).unwrap();
    let mut run = Command::new(format!("/proc/self/fd/{}", runner.as_raw_fd()));
    run.arg("run").arg(&copy).arg("/fdt").args(section);
    run.env("FDT_MOUNT", mounts);
    if let Some(user) = user {
        run.uid(user);
    }
    let output = run.current_dir("/").stdin(Stdio::null()).output().unwrap();
    fs::remove_file(copy).unwrap();
    output
}

/// Runs one section of a theme in a shell that has limited the size of files to 16 blocks.
pub(crate) fn with_size_limit(subject: Subject, section: [&str; 2]) -> Vec<Line> {
    let directory = Directory::of(subject, "size-limit");
    let run = Command::new("sh")
        .args(["-c", "ulimit -S -f 16 && exec \"$@\"", "sh"])
        .args(subject.prefix())
        .arg(compile::checks())
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
    let run = Command::new(compile::checks()).arg("--list").output();
    let names = String::from_utf8(run.unwrap().stdout).unwrap();
    names.lines().map(str::to_owned).collect()
}

/// Working directory of the program.
struct Directory {
    path: PathBuf,
    on_host: bool,
}

impl Directory {
    fn of(subject: Subject, theme: &str) -> Self {
        match subject {
            Subject::Host => Self::of_host(theme),
            Subject::Ours => Self {
                path: PathBuf::from("/fdt"),
                on_host: false,
            },
        }
    }

    /// Creates a directory in memory if the host has one, because fdtable's files are in memory
    /// too.
    fn of_host(theme: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let path = parent.join(format!("fdtable-checks-{}-{theme}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self {
            path,
            on_host: true,
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.on_host {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
