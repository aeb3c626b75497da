//! Programs: how one is opened, and put into memory.

use std::ffi::{CString, c_int};
use std::ops::Range;
use std::ptr;

use fdtable_posix::{fdt_close, fdt_fstat, fdt_hostfd, fdt_openat, fdt_pread, runner};

use crate::abi::{address_of, checked, host_now};
use crate::elf::{self, Headers, Image};
use crate::frame::Frame;
use crate::guarded::Guarded;
use crate::{memory, patch};

/// Opens a program, with flags of `open` beside `O_RDONLY`.
///
/// # Errors
/// `EACCES` if it may not be run; `EPERM` if it would change the user; `ETXTBSY` if it is the
/// host's and open for writing; errors of `open`.
pub(crate) fn open(directory: c_int, path: &CString, flags: c_int) -> Result<c_int, i32> {
    // SAFETY: the path is a C string.
    let fd = unsafe { fdt_openat(directory, path.as_ptr(), libc::O_RDONLY | flags, 0) };
    let fd = checked(fd.into())? as c_int;
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
        check_on_host(fd).map(|()| fd)
    };
    checks().inspect_err(|_| {
        fdt_close(fd);
    })
}

/// Held while the host checks a program: it makes no thread of the process meanwhile (`EAGAIN`).
pub(crate) static CHECK: Guarded<()> = Guarded::new(());

/// Asks the host if it would run a file of its own, since Linux 6.14.
///
/// # Errors
/// `ETXTBSY`; `EACCES` if its file system has no programs.
fn check_on_host(fd: c_int) -> Result<(), i32> {
    const AT_EXECVE_CHECK: c_int = 0x10000;
    let (empty, arguments) = (0_u8, [c"program".as_ptr(), ptr::null()]);
    let flags = libc::AT_EMPTY_PATH | AT_EXECVE_CHECK;
    let (path, arguments) = (address_of(&empty), address_of(&arguments));
    let a = [fdt_hostfd(fd).into(), path, arguments, 0, flags.into(), 0];
    let _check = CHECK.lock();
    match -host_now(libc::SYS_execveat, a) as i32 {
        errno @ (libc::ETXTBSY | libc::EACCES) => Err(errno),
        _ => Ok(()),
    }
}

/// Opens the dynamic loader that a program asks for.
///
/// # Errors
/// `ELIBBAD` if the loader is no program for x86-64; errors of [`open`].
fn interpreter(file: &Opened, headers: &Headers) -> Result<Option<(Opened, Headers)>, i32> {
    let Some(path) = headers.interpreter(file.0)? else {
        return Ok(None);
    };
    let path = CString::new(path).map_err(|_| libc::ENOEXEC)?;
    let file = Opened(open(libc::AT_FDCWD, &path, 0)?);
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

/// A descriptor of the table that is closed with its owner.
struct Opened(c_int);

impl Drop for Opened {
    fn drop(&mut self) {
        fdt_close(self.0);
    }
}

/// Name of a program that is executed.
pub(crate) struct Name {
    /// The path from everywhere, for the interpreter of a script.
    pub(crate) path: CString,
    /// The directory, and the path from there.
    pub(crate) place: (c_int, CString),
    /// `O_NOFOLLOW`, or 0.
    pub(crate) flags: c_int,
    /// The path leads through a descriptor that is closed then, so no interpreter can open it.
    pub(crate) is_closed: bool,
}

impl From<CString> for Name {
    fn from(path: CString) -> Self {
        Name {
            place: (libc::AT_FDCWD, path.clone()),
            path,
            flags: 0,
            is_closed: false,
        }
    }
}

/// A program that can be run, and is not in memory yet.
pub(crate) struct Program {
    file: Opened,
    headers: Headers,
    /// The dynamic loader that it asks for.
    interpreter: Option<(Opened, Headers)>,
    /// The path of the program itself, also if it is a script.
    name: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// Opens a program with flags of `open`, or the interpreter of a script. `words` returns the
    /// arguments and the environment. As on the host, they are read once there is a program.
    ///
    /// # Errors
    /// As for `execve(2)`.
    pub(crate) fn open(
        Name {
            mut path,
            place,
            flags,
            is_closed,
        }: Name,
        words: impl FnOnce() -> Result<[Vec<CString>; 2], i32>,
    ) -> Result<Self, i32> {
        let mut file = Opened(open(place.0, &place.1, flags)?);
        let [mut arguments, environment] = words()?;
        let name = path.clone();
        for _ in 0..SCRIPTS {
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
                    name,
                    arguments,
                    environment,
                });
            }
            if is_closed {
                return Err(libc::ENOENT);
            }
            let line = start[2..].split(|&byte| byte == b'\n').next();
            let line = line.unwrap_or_default().trim_ascii();
            let end = line.iter().position(u8::is_ascii_whitespace);
            let (interpreter, argument) = line.split_at(end.unwrap_or(line.len()));
            let argument = argument.trim_ascii();
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
            file = Opened(open(libc::AT_FDCWD, &path, 0)?);
        }
        Err(libc::ELOOP)
    }

    /// Puts the program into memory, and returns the registers with which it begins.
    ///
    /// # Errors
    /// As for `execve(2)`. Memory may be left mapped.
    pub(crate) fn load(&self) -> Result<Frame, i32> {
        let is_of_valgrind = |text: &CString| text.to_bytes().starts_with(b"VALGRIND_LAUNCHER=");
        patch::begin_program(self.environment.iter().any(is_of_valgrind));
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
        set_name(&self.name);
        runner::set_executable(self.file.0);
        Ok(Frame::new(begins_at, stack))
    }

    /// Makes the stack: arguments, environment, and the auxiliary vector.
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
        // As on Linux, a null word is above the strings: a loader of glibc reads beyond the last.
        let mut top = low + STACK - 8;
        let mut put = |bytes: &[u8]| {
            top -= bytes.len() as u64;
            // SAFETY: in the stack: the strings were checked against its size.
            unsafe { memory::pointer::<u8>(top).copy_from(bytes.as_ptr(), bytes.len()) };
            top
        };
        let name = put(self.name.as_bytes_with_nul());
        let platform = put(c"x86_64".to_bytes_with_nul());
        // In the order of the list, as `/proc/self/cmdline` shows them.
        let mut put_all = |texts: &[CString]| {
            let all: Vec<u8> = texts
                .iter()
                .flat_map(|text| text.as_bytes_with_nul())
                .copied()
                .collect();
            let begin = put(&all);
            let mut end = begin;
            let place = |text: &CString| {
                let at = end;
                end += text.as_bytes_with_nul().len() as u64;
                at
            };
            let places: Vec<u64> = texts.iter().map(place).collect();
            (places, begin..end)
        };
        let (environment, environment_at) = put_all(&self.environment);
        let (arguments, arguments_at) = put_all(&self.arguments);
        let mut random = [0_u8; 16];
        // SAFETY: the buffer has this length.
        unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
        let random = put(&random);
        // SAFETY: they take no pointers.
        let host = |kind| unsafe { libc::getauxval(kind) };
        let auxiliary = [
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
        let auxiliary: Vec<u64> = auxiliary
            .iter()
            .flat_map(|&(kind, value)| [kind, value])
            .collect();
        words.extend(&auxiliary);
        describe(&arguments_at, &environment_at, &auxiliary);
        let bottom = (top - words.len() as u64 * 8) & !15;
        // SAFETY: in the stack, and aligned.
        unsafe { memory::pointer::<u64>(bottom).copy_from(words.as_ptr(), words.len()) };
        Ok(bottom)
    }
}

/// Makes `/proc/self/cmdline`, `environ` and `auxv` show the program, for every process that reads
/// them. A host kernel without checkpoints refuses; then they show the runner.
fn describe(arguments: &Range<u64>, environment: &Range<u64>, auxiliary: &[u64]) {
    unsafe extern "C" {
        // Of the linker: the begin of the runner, and the ends of its code and data.
        static __executable_start: [u8; 0];
        static etext: [u8; 0];
        static edata: [u8; 0];
    }
    // The host allows no other executable without privilege.
    const NO_EXECUTABLE: u64 = 0xFFFF_FFFF;
    let at = |symbol: *const [u8; 0]| symbol.expose_provenance() as u64;
    let (code, code_end) = (at(&raw const __executable_start), at(&raw const etext));
    let data_end = at(&raw const edata);
    // SAFETY: they move nothing.
    let (brk, stack) = unsafe {
        let brk = libc::syscall(libc::SYS_brk, 0).cast_unsigned();
        (brk, libc::getauxval(libc::AT_RANDOM))
    };
    // The words of a `struct prctl_mm_map`. The C library's heap does not shrink below its size.
    let map = [
        code,
        code_end,
        code_end,
        data_end,
        brk,
        brk,
        stack,
        arguments.start,
        arguments.end,
        environment.start,
        environment.end,
        auxiliary.as_ptr().expose_provenance() as u64,
        size_of_val(auxiliary) as u64 | NO_EXECUTABLE << 32,
    ];
    let (at, size) = (&raw const map, size_of_val(&map));
    // SAFETY: the words are those of the struct. The call changes only what the host shows.
    unsafe { libc::prctl(libc::PR_SET_MM, libc::PR_SET_MM_MAP, at, size, 0) };
}

/// Names the thread after its program, as `ps` shows it.
fn set_name(path: &CString) {
    let name = path.to_bytes().rsplit(|&byte| byte == b'/').next();
    let name = name.unwrap_or_default();
    if let Ok(name) = CString::new(&name[..name.len().min(15)]) {
        // SAFETY: the name is a C string.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}
