//! The command to run a program, and its start.

use std::ffi::{CStr, CString, OsString, c_int};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::{env, fmt, io};

use fdtable::{host_fork, rcu};
use fdtable_posix::{fdt_close, fdt_stat, runner};
use fdtable_vfs::Errno;

use crate::abi::checked;
use crate::block::Block;
use crate::options::Options;
use crate::program::{Program, open};
use crate::{calls, observe, process, signals, thread};

/// Program to run, with its arguments, its files and the options of the run.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// Its arguments, without its name.
    pub arguments: Vec<OsString>,
    /// Directory of the host that is the root of the program, if another than the host's. Changes
    /// stay in memory. The program is found in it.
    pub root: Option<OsString>,
    /// Directories of the host in which changes stay in memory.
    pub overlays: Vec<OsString>,
    /// Paths below which files are in memory, besides `/fdt`. The directory of each must exist.
    pub mounts: Vec<OsString>,
    /// Reports, and the table of descriptors.
    pub options: Options,
}

/// Why a program was not started.
#[derive(Debug)]
pub struct Error {
    step: Step,
    what: String,
    errno: i32,
}

/// Step that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Nested,
    Thread,
    Supervisor,
    Root,
    Overlay,
    Mount,
    Report,
    Program,
}

impl Error {
    /// Returns the exit code of `env(1)` for this error: 127 if there is no such program, 126 if it
    /// cannot be run, 125 if an option cannot be met.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match (self.step, self.errno) {
            (Step::Program, libc::ENOENT) => 127,
            (Step::Program, libc::EMFILE | libc::ENOMEM) => 125,
            (Step::Program, _) => 126,
            _ => 125,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match (self.step, self.errno) {
            (Step::Program, libc::ENOEXEC) => "not a program for x86-64 Linux".to_owned(),
            (Step::Program, libc::EPERM) => {
                "it would run as another user, which is not supported".to_owned()
            }
            (Step::Program, libc::EMFILE) => "the limit of descriptors is too low".to_owned(),
            (Step::Mount | Step::Overlay, libc::EBUSY) => {
                "files are in memory there already".to_owned()
            }
            (Step::Overlay, libc::EOPNOTSUPP) => "it is below /dev or /proc".to_owned(),
            (Step::Overlay, libc::EINVAL) => "the option for the root is --root".to_owned(),
            (_, errno) => io::Error::from_raw_os_error(errno).to_string(),
        };
        let before = match self.step {
            Step::Nested => "cannot start under another `fdtable run`",
            Step::Thread => "cannot catch the system calls of a thread",
            Step::Supervisor => "cannot start the supervisor",
            Step::Root => "cannot take as the root: ",
            Step::Overlay => "cannot overlay ",
            Step::Mount => "cannot mount ",
            Step::Report | Step::Program => "",
        };
        write!(f, "{before}{}: {reason}", self.what)
    }
}

impl std::error::Error for Error {}

/// Variable that bars the runner's C library from vector registers that a call does not save.
const TUNABLES: &str = "GLIBC_TUNABLES";
const PLAIN: &str = "glibc.cpu.hwcaps=-AVX_Fast_Unaligned_Load,-AVX,-AVX2,-AVX512F,-AVX512VL";
/// Variable with the former value of `GLIBC_TUNABLES`; set while the runner runs.
const BEFORE: &str = "FDTABLE_RUN_TUNABLES";

/// A bit for each of the descriptors 0, 1 and 2 that was closed at the start of this process.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Runs before the standard library, which opens `/dev/null` in their place.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = note_closed;

extern "C" fn note_closed() {
    for fd in 0..=2 {
        // SAFETY: the call takes no pointer.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Returns the descriptors from 0 to 2 that the program finds closed.
fn closed_at_start() -> impl Iterator<Item = c_int> {
    (0..=2).filter(|fd| CLOSED.load(Ordering::Relaxed) & 1 << fd != 0)
}

/// Starts this program again, if that is needed, with the settings that a runner needs. Call it
/// before [`run`], and before the process has threads.
///
/// # Errors
/// Errors of the host's `execve`.
pub fn prepare_process() -> io::Result<()> {
    if env::var_os(BEFORE).is_some() {
        return Ok(());
    }
    for fd in closed_at_start() {
        // SAFETY: the call takes no pointer.
        unsafe { libc::close(fd) };
    }
    let before = env::var_os(TUNABLES).unwrap_or_default();
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut again = std::process::Command::new("/proc/self/exe");
    again
        .arg0(name)
        .args(arguments)
        .env(TUNABLES, PLAIN)
        .env(BEFORE, before);
    Err(again.exec())
}

/// The environment of the guest.
fn environment() -> Vec<CString> {
    let before = env::var_os(BEFORE).unwrap_or_default();
    let variables = env::vars_os().filter_map(|(name, value)| match name.to_str() {
        Some(BEFORE) => None,
        Some(TUNABLES) if before.is_empty() => None,
        Some(TUNABLES) => Some((name, before.clone())),
        _ => Some((name, value)),
    });
    let joined = variables.map(|(name, value)| {
        let mut text = name.into_vec();
        text.push(b'=');
        text.extend(value.into_vec());
        text
    });
    joined.filter_map(|text| CString::new(text).ok()).collect()
}

/// Runs a program in this process, and ends the process with it. All processes that it makes use
/// one kernel. Where the host does not allow that, the program runs, and its first fork ends it.
///
/// # Errors
/// If it was not started.
pub fn run(command: &Command) -> Result<std::convert::Infallible, Error> {
    let of_host = |step| move |errno| error_of(step, &OsString::new(), errno);
    thread::check_not_nested().map_err(of_host(Step::Nested))?;
    // SAFETY: this thread is the only one, and has called nothing of the kernel, which leaks no
    // guard.
    match unsafe { fdtable_shm::begin() } {
        Ok(()) => {
            keep_one_heap();
            // The supervisor makes them.
            rcu::use_ticks();
        }
        Err(error) => process::refuse_forks(error.to_string()),
    }
    // A signal that all threads of the guest block stays pending.
    rcu::block_faults();
    if let Some(path) = &command.root {
        directory(path, runner::begin_in).map_err(|errno| error_of(Step::Root, path, errno))?;
    }
    for path in &command.overlays {
        directory(path, runner::overlay).map_err(|errno| error_of(Step::Overlay, path, errno))?;
    }
    for path in &command.mounts {
        mount(path).map_err(|errno| error_of(Step::Mount, path, errno))?;
    }
    let named = |errno| error_of(Step::Program, &command.program, errno);
    let observed = observe::begin(&command.options, calls::answer).map_err(|(what, error)| {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        error_of(Step::Report, &what.into(), errno)
    })?;
    // After the lookup of the paths of all options.
    runner::leave_host_directory().map_err(|errno| named(errno.errno()))?;
    let path = find(command).map_err(named)?;
    let name = std::iter::once(&command.program);
    let arguments = name
        .chain(&command.arguments)
        .map(|word| CString::new(word.as_bytes()));
    let arguments: Result<Vec<_>, _> = arguments.collect();
    let arguments = arguments.map_err(|_| named(libc::EINVAL))?;
    let program = Program::open(path.into(), || Ok([arguments, environment()])).map_err(named)?;
    let block = Block::prepare(observed.unwrap_or(calls::serve))
        .map_err(|error| error.raw_os_error().unwrap_or(libc::EIO));
    let block = block.map_err(of_host(Step::Thread))?;
    block.mailbox.block(signals::install());
    runner::tell_threads(thread::is_alone);
    if host_fork::shares_memory() {
        runner::start_supervisor(thread::layout())
            .map_err(|errno| of_host(Step::Supervisor)(errno.errno()))?;
    }
    observe::start_lister();
    let frame = program.load().map_err(named)?;
    // Its descriptor is not the guest's.
    drop(program);
    for fd in closed_at_start() {
        fdt_close(fd);
    }
    let block = Box::leak(block);
    loop {
        process::run_guest(block, frame.clone());
    }
}

/// Has the C library allocate all private memory of the runner in the host's heap. A completion
/// process takes the heap over from the killed process, apart from memory of the program.
fn keep_one_heap() {
    // SAFETY: they take integers.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_MAX, 0);
    }
}

fn error_of(step: Step, what: &OsString, errno: i32) -> Error {
    let what = what.to_string_lossy().into_owned();
    Error { step, what, errno }
}

/// Passes the directory of an option to a function of the kernel.
fn directory(path: &OsString, take: fn(&CStr) -> Result<(), Errno>) -> Result<(), i32> {
    let path = CString::new(path.as_bytes()).map_err(|_| libc::EINVAL)?;
    take(&path).map_err(Errno::errno)
}

/// Mounts a file system in memory at a path.
///
/// # Errors
/// `ENOENT` if the path is empty, or its directory does not exist; `ENOTDIR` if that is not a
/// directory; `EBUSY` if files are in memory there already; `EINVAL` for the root.
fn mount(path: &OsString) -> Result<(), i32> {
    let path = path.as_bytes();
    if path.is_empty() {
        return Err(libc::ENOENT);
    }
    // Without the last name, and whatever kind of slashes follow it.
    let end = path.len() - path.iter().rev().take_while(|&&byte| byte == b'/').count();
    let name = path[..end].iter().rposition(|&byte| byte == b'/');
    let parent = [&path[..name.map_or(0, |slash| slash + 1)], b"."].concat();
    let whole = |path: &[u8]| CString::new(path).map_err(|_| libc::EINVAL);
    let (parent, path) = (whole(&parent)?, whole(path)?);
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string, and there is room for the answer.
    checked(unsafe { fdt_stat(parent.as_ptr(), &raw mut stat) }.into())?;
    runner::mount(&path).map_err(Errno::errno)
}

/// Finds a program as a shell does.
fn find(command: &Command) -> Result<CString, i32> {
    let program = command.program.as_bytes();
    let whole = |path: &[u8]| CString::new(path).map_err(|_| libc::EINVAL);
    if program.contains(&b'/') {
        return whole(program);
    }
    let mut found = libc::ENOENT;
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    for folder in path.as_bytes().split(|&byte| byte == b':') {
        let folder = if folder.is_empty() { b"." } else { folder };
        let path = whole(&[folder, b"/", program].concat())?;
        match open(libc::AT_FDCWD, &path, 0) {
            Ok(fd) => {
                fdt_close(fd);
                return Ok(path);
            }
            Err(errno @ (libc::EACCES | libc::EMFILE)) => found = errno,
            Err(_) => {}
        }
    }
    Err(found)
}
