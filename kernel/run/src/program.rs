//! Programs: how one is found, put into memory, and started.

use std::ffi::{CStr, CString, OsString, c_int};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::sync::OnceLock;
use std::{env, fmt, fs, io};

use fdtable::{host_fork, rcu};
use fdtable_posix::{fdt_close, fdt_fstat, fdt_openat, fdt_pread, fdt_stat, runner};
use fdtable_vfs::Errno;

use crate::calls::checked;
use crate::elf::{self, Headers, Image};
use crate::entry::Frame;
use crate::memory;
use crate::observe;
use crate::options::{Kernel, Options};
use crate::patch;
use crate::process;
use crate::signals;
use crate::thread::{self, Block};

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
    /// Reports, the table of descriptors, and the processes that share the kernel.
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
    Kernel,
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
            (Step::Kernel | Step::Root | Step::Overlay | Step::Mount | Step::Report, _) => 125,
            (Step::Program, libc::ENOENT) => 127,
            (Step::Program, _) => 126,
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
            (Step::Mount | Step::Overlay, libc::EBUSY) => {
                "files are in memory there already".to_owned()
            }
            (Step::Overlay, libc::EOPNOTSUPP) => "it is below /dev or /proc".to_owned(),
            (Step::Overlay, libc::EINVAL) => "the option for the root is --root".to_owned(),
            (_, errno) => io::Error::from_raw_os_error(errno).to_string(),
        };
        let before = match self.step {
            Step::Kernel => "cannot share the kernel",
            Step::Root => "cannot take as the root: ",
            Step::Overlay => "cannot overlay ",
            Step::Mount => "cannot mount ",
            Step::Report | Step::Program => "",
        };
        write!(f, "{before}{}: {reason}", self.what)
    }
}

impl std::error::Error for Error {}

/// Variable that keeps the runner's C library from vector registers that a call does not save.
const TUNABLES: &str = "GLIBC_TUNABLES";
const PLAIN: &str = "glibc.cpu.hwcaps=-AVX_Fast_Unaligned_Load,-AVX,-AVX2,-AVX512F,-AVX512VL";
/// Variable with the former value of `GLIBC_TUNABLES`; set while the runner runs.
const BEFORE: &str = "FDTABLE_RUN_TUNABLES";

/// Starts this program again, if that is needed, with the settings that a runner needs. Call it
/// before [`run`], and before the process has threads.
///
/// # Errors
/// Errors of the host's `execve`.
pub fn prepare_process() -> io::Result<()> {
    if env::var_os(BEFORE).is_some() {
        return Ok(());
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

/// Runs a program in this process, and ends the process with it.
///
/// # Errors
/// If it was not started.
pub fn run(command: &Command) -> Result<std::convert::Infallible, Error> {
    if command.options.kernel == Kernel::One {
        let failed = |error: io::Error| Error {
            step: Step::Kernel,
            what: String::new(),
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        };
        // SAFETY: this thread is the only one, and has called nothing of the kernel, which leaks no
        // guard.
        if unsafe { fdtable_shm::begin() }.map_err(failed)? == fdtable_shm::Begun::NotLinked {
            return Err(failed(io::Error::from_raw_os_error(libc::ENOEXEC)));
        }
        keep_one_heap();
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
    observe::begin(&command.options).map_err(|(what, error)| Error {
        step: Step::Report,
        what,
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    })?;
    // The paths of all options were looked up.
    runner::leave_host_directory().map_err(|errno| named(errno.errno()))?;
    let path = find(command).map_err(named)?;
    let name = std::iter::once(&command.program);
    let arguments = name
        .chain(&command.arguments)
        .map(|word| CString::new(word.as_bytes()));
    let arguments: Result<Vec<_>, _> = arguments.collect();
    let arguments = arguments.map_err(|_| named(libc::EINVAL))?;
    let program = Program::open(libc::AT_FDCWD, &path, arguments, environment()).map_err(named)?;
    let block =
        Block::prepare().map_err(|error| named(error.raw_os_error().unwrap_or(libc::EIO)))?;
    block.mailbox.block(signals::install());
    if host_fork::shares_memory() {
        runner::tell_threads(process::is_alone);
        runner::start_supervisor(thread::layout()).map_err(|errno| named(errno.errno()))?;
    }
    let frame = program.load().map_err(named)?;
    // Its descriptor is not the guest's.
    drop(program);
    let block = Box::leak(block);
    loop {
        process::run_guest(block, frame.clone());
    }
}

/// Has the C library keep all private memory of the runner in the host's heap. A process that
/// completes a call of one that was killed takes over what is there, and can tell it from memory of
/// the program.
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

/// Passes a directory of an option on.
fn directory(path: &OsString, take: fn(&CStr) -> Result<(), Errno>) -> Result<(), i32> {
    let path = CString::new(path.as_bytes()).map_err(|_| libc::EINVAL)?;
    take(&path).map_err(Errno::errno)
}

/// Keeps the files below a path in memory.
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
        match open(libc::AT_FDCWD, &path) {
            Ok(fd) => {
                fdt_close(fd);
                return Ok(path);
            }
            Err(libc::EACCES) => found = libc::EACCES,
            Err(_) => {}
        }
    }
    Err(found)
}

/// Opens a program.
///
/// # Errors
/// `EACCES` if it may not be run; `EPERM` if it would change the user; those of `open`.
fn open(directory: c_int, path: &CString) -> Result<c_int, i32> {
    // SAFETY: the path is a C string.
    let fd = checked(unsafe { fdt_openat(directory, path.as_ptr(), libc::O_RDONLY, 0) }.into())?
        as c_int;
    let checks = || {
        // SAFETY: all zeroes is a valid value of this struct of integers.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: there is room for the answer.
        checked(unsafe { fdt_fstat(fd, &raw mut stat) }.into())?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG || stat.st_mode & 0o111 == 0 {
            return Err(libc::EACCES);
        }
        if stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0 {
            return Err(libc::EPERM);
        }
        Ok(fd)
    };
    checks().inspect_err(|_| {
        fdt_close(fd);
    })
}

/// Opens the dynamic loader that a program asks for.
///
/// # Errors
/// `ELIBBAD` if that is no program for x86-64; those of [`open`].
fn interpreter(file: &Opened, headers: &Headers) -> Result<Option<(Opened, Headers)>, i32> {
    let Some(path) = headers.interpreter(file.0)? else {
        return Ok(None);
    };
    let path = CString::new(path).map_err(|_| libc::ENOEXEC)?;
    let file = Opened(open(libc::AT_FDCWD, &path)?);
    let found = elf::read(file.0, 0, 64).and_then(|start| elf::headers(file.0, &start));
    let headers = found.map_err(|errno| match errno {
        libc::ENOEXEC => libc::ELIBBAD,
        other => other,
    })?;
    Ok(Some((file, headers)))
}

/// The size of the first stack of a program, in bytes.
const STACK: u64 = 8 << 20;
/// How many bytes of it arguments and environment may take.
pub(crate) const ARGUMENTS: usize = STACK as usize / 4;

/// How many scripts may be the interpreters of scripts.
const SCRIPTS: usize = 4;

/// A descriptor of ours that is closed with its owner.
struct Opened(c_int);

impl Drop for Opened {
    fn drop(&mut self) {
        fdt_close(self.0);
    }
}

/// A program that was found and can be run, and is not in memory yet.
pub(crate) struct Program {
    file: Opened,
    headers: Headers,
    /// The dynamic loader that it asks for.
    interpreter: Option<(Opened, Headers)>,
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// Opens a program, or the interpreter of a script.
    ///
    /// # Errors
    /// As for `execve(2)`.
    pub(crate) fn open(
        directory: c_int,
        path: &CString,
        mut arguments: Vec<CString>,
        environment: Vec<CString>,
    ) -> Result<Self, i32> {
        let (mut directory, mut path) = (directory, path.clone());
        for _ in 0..SCRIPTS {
            let file = Opened(open(directory, &path)?);
            let mut start = vec![0; 4096];
            let (at, size) = (start.as_mut_ptr().cast(), start.len());
            // SAFETY: the buffer has this length.
            let count = checked(unsafe { fdt_pread(file.0, at, size, 0) } as i64);
            start.truncate(count? as usize);
            if !start.starts_with(b"#!") {
                let all = arguments.iter().chain(&environment);
                let total: usize = all.map(|text| text.as_bytes_with_nul().len() + 8).sum();
                if total > ARGUMENTS {
                    return Err(libc::E2BIG);
                }
                let headers = elf::headers(file.0, &start)?;
                let interpreter = interpreter(&file, &headers)?;
                return Ok(Self {
                    file,
                    headers,
                    interpreter,
                    path,
                    arguments,
                    environment,
                });
            }
            drop(file);
            let line = start[2..]
                .split(|&byte| byte == b'\n')
                .next()
                .unwrap_or_default();
            let line = line.trim_ascii();
            let end = line
                .iter()
                .position(u8::is_ascii_whitespace)
                .unwrap_or(line.len());
            let (interpreter, argument) = (&line[..end], line[end..].trim_ascii());
            let word = |word: &[u8]| CString::new(word).map_err(|_| libc::ENOEXEC);
            if interpreter.is_empty() {
                return Err(libc::ENOEXEC);
            }
            let mut before = vec![word(interpreter)?];
            if !argument.is_empty() {
                before.push(word(argument)?);
            }
            before.push(path);
            arguments.splice(..1.min(arguments.len()), before);
            path = word(interpreter)?;
            directory = libc::AT_FDCWD;
        }
        Err(libc::ELOOP)
    }

    /// Puts the program into memory, and returns the registers with which it begins.
    ///
    /// # Errors
    /// As for `execve(2)`. Memory may be left mapped.
    pub(crate) fn load(&self) -> Result<Frame, i32> {
        let image = self.headers.load(self.file.0)?;
        let mut begins_at = image.entry;
        let mut loader = 0;
        if let Some((file, headers)) = &self.interpreter {
            let loaded = headers.load(file.0)?;
            begins_at = loaded.entry;
            loader = loaded.base;
            patch::cpuid::begin(loaded.entry);
        }
        memory::begin_break()?;
        let stack = self.stack(&image, loader)?;
        set_name(&self.path);
        runner::set_executable(self.file.0);
        Ok(Frame::new(begins_at, stack))
    }

    /// Makes the stack: arguments, environment, and what the kernel tells a program.
    fn stack(&self, image: &Image, loader: u64) -> Result<u64, i32> {
        let low = memory::reserve(None, STACK)?;
        memory::set_stack(low..low + STACK);
        let (begin, length) = (memory::pointer(low + 4096), STACK as usize - 4096);
        let mut protection = libc::PROT_READ | libc::PROT_WRITE;
        if self.headers.has_executable_stack() {
            protection |= libc::PROT_EXEC;
        }
        // SAFETY: reserved above. The page below stays inaccessible.
        let done = unsafe { libc::mprotect(begin, length, protection) };
        checked(done.into())?;
        let mut top = low + STACK;
        let mut put = |bytes: &[u8]| {
            top -= bytes.len() as u64;
            // SAFETY: inside of the stack: the strings were checked against its size.
            unsafe { memory::pointer::<u8>(top).copy_from(bytes.as_ptr(), bytes.len()) };
            top
        };
        let name = put(self.path.as_bytes_with_nul());
        let platform = put(c"x86_64".to_bytes_with_nul());
        // In the order of the list, as `/proc/self/cmdline` shows them.
        let mut put_all = |texts: &[CString]| {
            let all: Vec<u8> = texts
                .iter()
                .flat_map(|text| text.as_bytes_with_nul())
                .copied()
                .collect();
            let begin = put(&all);
            let sizes = texts
                .iter()
                .map(|text| text.as_bytes_with_nul().len() as u64);
            let places: Vec<u64> = sizes
                .scan(begin, |at, size| {
                    let place = *at;
                    *at += size;
                    Some(place)
                })
                .collect();
            (places, begin..begin + all.len() as u64)
        };
        let (environment, environment_at) = put_all(&self.environment);
        let (arguments, arguments_at) = put_all(&self.arguments);
        let mut random = [0_u8; 16];
        // SAFETY: the buffer has this length.
        unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
        let random = put(&random);
        // SAFETY: they take no pointers.
        let host = |kind| unsafe { libc::getauxval(kind) };
        let told = [
            (libc::AT_SYSINFO_EHDR, host(libc::AT_SYSINFO_EHDR)),
            (libc::AT_HWCAP, host(libc::AT_HWCAP)),
            (libc::AT_HWCAP2, host(libc::AT_HWCAP2)),
            (libc::AT_PAGESZ, 4096),
            (libc::AT_CLKTCK, host(libc::AT_CLKTCK)),
            (libc::AT_PHDR, image.headers),
            (libc::AT_PHENT, image.header_size),
            (libc::AT_PHNUM, image.header_count),
            (libc::AT_BASE, loader),
            (libc::AT_FLAGS, 0),
            (libc::AT_ENTRY, image.entry),
            (libc::AT_UID, host(libc::AT_UID)),
            (libc::AT_EUID, host(libc::AT_EUID)),
            (libc::AT_GID, host(libc::AT_GID)),
            (libc::AT_EGID, host(libc::AT_EGID)),
            (libc::AT_SECURE, 0),
            (libc::AT_RANDOM, random),
            (libc::AT_EXECFN, name),
            (libc::AT_PLATFORM, platform),
            (51, host(51)), // AT_MINSIGSTKSZ
            (libc::AT_NULL, 0),
        ];
        let mut words = vec![arguments.len() as u64];
        words.extend(&arguments);
        words.push(0);
        words.extend(&environment);
        words.push(0);
        let told: Vec<u64> = told
            .iter()
            .flat_map(|&(kind, value)| [kind, value])
            .collect();
        words.extend(&told);
        describe(&arguments_at, &environment_at, &told);
        let bottom = (top - words.len() as u64 * 8) & !15;
        // SAFETY: inside of the stack, and aligned.
        unsafe { memory::pointer::<u64>(bottom).copy_from(words.as_ptr(), words.len()) };
        Ok(bottom)
    }
}

/// Memory layout that the host shows for a process: `struct prctl_mm_map`.
#[repr(C)]
struct Places {
    start_code: u64,
    end_code: u64,
    start_data: u64,
    end_data: u64,
    start_brk: u64,
    brk: u64,
    start_stack: u64,
    arg_start: u64,
    arg_end: u64,
    env_start: u64,
    env_end: u64,
    auxv: *const u64,
    auxv_size: u32,
    exe_fd: u32,
}

/// Has `/proc/self/cmdline`, `environ` and `auxv` show the program, for every process that reads
/// them. A host kernel without checkpoints refuses, and they go on to show the runner.
fn describe(arguments: &Range<u64>, environment: &Range<u64>, told: &[u64]) {
    let Some(
        [
            start_code,
            end_code,
            start_stack,
            start_data,
            end_data,
            start_brk,
        ],
    ) = own_places()
    else {
        return;
    };
    // SAFETY: it moves nothing.
    let brk = unsafe { libc::syscall(libc::SYS_brk, 0) }.cast_unsigned();
    let map = Places {
        start_code,
        end_code,
        start_data,
        end_data,
        start_brk,
        brk,
        start_stack,
        arg_start: arguments.start,
        arg_end: arguments.end,
        env_start: environment.start,
        env_end: environment.end,
        auxv: told.as_ptr(),
        auxv_size: size_of_val(told) as u32,
        // The host allows no other one without privilege.
        exe_fd: u32::MAX,
    };
    // SAFETY: the struct is that of the call, which changes what the host shows alone.
    unsafe {
        libc::prctl(
            libc::PR_SET_MM,
            libc::PR_SET_MM_MAP,
            &raw const map,
            size_of_val(&map),
            0,
        )
    };
}

/// Returns where the runner has its own code, its stack, its data, and its `brk`. They stay there,
/// and are the same in all children, so the host is asked once.
fn own_places() -> Option<[u64; 6]> {
    static PLACES: OnceLock<Option<[u64; 6]>> = OnceLock::new();
    *PLACES.get_or_init(|| {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let (_, after_name) = stat.rsplit_once(") ")?;
        let words: Vec<&str> = after_name.split(' ').collect();
        // The name is the second of the fields that proc_pid_stat(5) counts.
        let field = |number: usize| words.get(number - 3)?.parse().ok();
        let places = [26, 27, 28, 45, 46, 47].map(field);
        places
            .iter()
            .all(Option::is_some)
            .then(|| places.map(Option::unwrap_or_default))
    })
}

/// Names the thread after its program, as `ps` shows it.
fn set_name(path: &CString) {
    let name = path
        .to_bytes()
        .rsplit(|&byte| byte == b'/')
        .next()
        .unwrap_or_default();
    if let Ok(name) = CString::new(&name[..name.len().min(15)]) {
        // SAFETY: the name is a C string.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}
