//! C streams on our descriptors: `fopen`, `fdopen`, `tmpfile`, `fileno`.
//!
//! Such a stream is created by `fopencookie(3)`, with functions that call this library. The rest of
//! `stdio.h` works on it unchanged, except for wide characters: the C library makes such streams
//! byte-oriented. `stdin`, `stdout` and `stderr` begin as the C library's: see
//! [`standard`](super::standard).

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::LazyLock;

use fdtable_shm::Mutex;
use fdtable_vfs::Errno;
use libc::{FILE, off64_t, ssize_t};

use crate::abi::call::{call, errno, guarded, set_errno, with_errno};
use crate::abi::uaccess;
use crate::fs::mmap::fdt_memfd_create;
use crate::fs::open::fdt_open;
use crate::fs::transfers::{fdt_lseek, fdt_read, fdt_write};
use crate::host;
use crate::process::descriptors::{fdt_close, fdt_fcntl};
use crate::stdio::standard;

/// Argument of the functions of a stream. The C library's lock of the stream protects it.
pub(crate) struct Cookie {
    /// The descriptor, or -1 after a `freopen` that failed.
    fd: Cell<c_int>,
    /// Address of the stream, once it exists.
    stream: Cell<usize>,
}

/// State of a stream that can be read without the stream's lock.
#[derive(Clone, Copy)]
struct Known {
    fd: c_int,
    /// Address of the cookie.
    cookie: usize,
}

/// The streams that are ours, by address.
static STREAMS: LazyLock<Mutex<HashMap<usize, Known>>> = LazyLock::new(Mutex::default);

/// Functions of a stream (`cookie_io_functions_t`).
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// Opens a path as a stream: `fopen(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    call(|_| {
        // SAFETY: as the caller promises.
        let mode = Mode::read(unsafe { uaccess::string(mode) }?)?;
        // SAFETY: as the caller promises.
        let fd = unsafe { fdt_open(path, mode.flags, 0o666) };
        if fd < 0 {
            return Err(errno());
        }
        mode.seek_to_end(fd);
        own(fd, &mode)
    })
}

/// Opens a stream on a descriptor, and takes ownership of the descriptor: `fdopen(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    call(|_| {
        // SAFETY: as the caller promises.
        let mode = Mode::read(unsafe { uaccess::string(mode) }?)?;
        // SAFETY: the command has no argument.
        let status = unsafe { fdt_fcntl(fd, libc::F_GETFL, 0) };
        if status < 0 {
            return Err(errno());
        }
        let (has, wants) = (status & libc::O_ACCMODE, mode.flags & libc::O_ACCMODE);
        if has != wants && has != libc::O_RDWR {
            return Err(Errno::EINVAL);
        }
        if mode.flags & !status & libc::O_APPEND != 0 {
            let status = status | libc::O_APPEND;
            // SAFETY: the argument is a set of flags.
            unsafe { fdt_fcntl(fd, libc::F_SETFL, status as u64) };
            mode.seek_to_end(fd);
        }
        stream(fd, &mode)
    })
}

/// Opens an anonymous file in memory: `tmpfile(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tmpfile() -> *mut FILE {
    call(|_| {
        // SAFETY: the name is a C string.
        let fd = unsafe { fdt_memfd_create(c"tmpfile".as_ptr(), 0) };
        if fd < 0 {
            return Err(errno());
        }
        own(fd, &Mode::read(c"w+")?)
    })
}

/// Returns the descriptor of a stream: `fileno(3)`. Streams of the C library have host descriptors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_fileno(stream: *mut FILE) -> c_int {
    match known(stream) {
        // SAFETY: as the caller promises.
        None => unsafe { libc::fileno(stream) },
        Some(Known { fd: -1, .. }) => {
            set_errno(Errno::EBADF);
            -1
        }
        Some(Known { fd, .. }) => fd,
    }
}

fn known(stream: *mut FILE) -> Option<Known> {
    guarded(|| Ok(STREAMS.lock().get(&stream.addr()).copied())).ok()?
}

/// Returns the cookie of a stream, if the stream is ours. It lives as long as the stream, and
/// belongs to the holder of the stream's lock.
pub(crate) fn cookie_of(stream: *mut FILE) -> Option<*const Cookie> {
    known(stream).map(|known| ptr::with_exposed_provenance(known.cookie))
}

impl Cookie {
    /// Returns the descriptor, or -1 if there is none.
    pub(crate) fn fd(&self) -> c_int {
        self.fd.get()
    }

    /// Sets the descriptor.
    pub(crate) fn set_fd(&self, fd: c_int) {
        self.fd.set(fd);
        let _ = guarded(|| {
            if let Some(known) = STREAMS.lock().get_mut(&self.stream.get()) {
                known.fd = fd;
            }
            Ok(())
        });
    }
}

/// Parsed mode of a stream.
pub(crate) struct Mode {
    /// The flags for `open`.
    pub(crate) flags: c_int,
    /// The mode for the C library, without the flags that only the open needs.
    plain: &'static CStr,
}

impl Mode {
    /// Parses a mode. As in the C library, unknown letters are ignored.
    ///
    /// # Errors
    /// `EINVAL` if it does not begin with `r`, `w` or `a`.
    pub(crate) fn read(mode: &CStr) -> Result<Self, Errno> {
        let mode = mode.to_bytes();
        // A comma begins the character encoding, which only the C library uses.
        let end = mode
            .iter()
            .position(|&byte| byte == b',')
            .unwrap_or(mode.len());
        let (first, rest) = mode[..end].split_first().ok_or(Errno::EINVAL)?;
        let both = rest.contains(&b'+');
        let (direction, making, plain) = match (first, both) {
            (b'r', false) => (libc::O_RDONLY, 0, c"r"),
            (b'r', true) => (libc::O_RDWR, 0, c"r+"),
            (b'w', false) => (libc::O_WRONLY, libc::O_CREAT | libc::O_TRUNC, c"w"),
            (b'w', true) => (libc::O_RDWR, libc::O_CREAT | libc::O_TRUNC, c"w+"),
            (b'a', false) => (libc::O_WRONLY, libc::O_CREAT | libc::O_APPEND, c"a"),
            (b'a', true) => (libc::O_RDWR, libc::O_CREAT | libc::O_APPEND, c"a+"),
            _ => return Err(Errno::EINVAL),
        };
        let if_has = |letter, flag| if rest.contains(&letter) { flag } else { 0 };
        let more = if_has(b'x', libc::O_EXCL) | if_has(b'e', libc::O_CLOEXEC);
        Ok(Mode {
            flags: direction | making | more,
            plain,
        })
    }

    /// Moves the position to the end if the mode only appends. A pipe has no position.
    pub(crate) fn seek_to_end(&self, fd: c_int) {
        let append = libc::O_APPEND | libc::O_WRONLY;
        if self.flags & (libc::O_APPEND | libc::O_ACCMODE) == append {
            let before = errno();
            fdt_lseek(fd, 0, libc::SEEK_END);
            set_errno(before);
        }
    }
}

/// Opens a stream on a new descriptor. Closes the descriptor on failure.
fn own(fd: c_int, mode: &Mode) -> Result<*mut FILE, Errno> {
    stream(fd, mode).inspect_err(|_| {
        fdt_close(fd);
    })
}

/// Opens a stream on a descriptor.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn stream(fd: c_int, mode: &Mode) -> Result<*mut FILE, Errno> {
    // The C library's streams are those of this process.
    let _private = fdtable_shm::leave();
    let cookie = Box::new(Cookie {
        fd: Cell::new(fd),
        stream: Cell::new(0),
    });
    let cookie = Box::into_raw(cookie);
    let functions = Functions {
        read,
        write,
        seek,
        close,
    };
    // It takes the lock of the list of streams, which a forking thread may hold: see `atfork`.
    let opened = host::blocking(|| {
        // SAFETY: the functions expect this cookie, and the mode is a C string.
        host::check_pointer(unsafe { fopencookie(cookie.cast(), mode.plain.as_ptr(), functions) })
    });
    // SAFETY: no other code uses it yet.
    let cookie = unsafe { Box::from_raw(cookie) };
    let stream = opened?;
    cookie.stream.set(stream.addr());
    // The stream owns it until the stream is closed.
    let cookie = Box::into_raw(cookie).expose_provenance();
    STREAMS.lock().insert(stream.addr(), Known { fd, cookie });
    Ok(stream)
}

/// # Safety
/// It is the cookie of an open stream.
unsafe fn of<'a>(cookie: *mut c_void) -> &'a Cookie {
    // SAFETY: as the caller promises.
    unsafe { &*cookie.cast::<Cookie>() }
}

unsafe extern "C" fn read(cookie: *mut c_void, buf: *mut c_char, count: usize) -> ssize_t {
    // SAFETY: the C library passes the cookie of an open stream, and a buffer.
    unsafe { fdt_read(of(cookie).fd(), buf.cast(), count) }
}

/// Writes everything: the C library treats less as an error. Returns 0, not -1, if nothing was
/// written because of an error.
unsafe extern "C" fn write(cookie: *mut c_void, bytes: *const c_char, count: usize) -> ssize_t {
    let mut done = 0;
    while done < count {
        // SAFETY: as above.
        let written = unsafe { fdt_write(of(cookie).fd(), bytes.add(done).cast(), count - done) };
        if written <= 0 {
            break;
        }
        done += written.cast_unsigned();
    }
    done.cast_signed()
}

unsafe extern "C" fn seek(cookie: *mut c_void, offset: *mut off64_t, whence: c_int) -> c_int {
    // SAFETY: as above.
    let (fd, to) = unsafe { (of(cookie).fd(), *offset) };
    let position = fdt_lseek(fd, to, whence);
    if position < 0 {
        return -1;
    }
    // SAFETY: as above.
    unsafe { *offset = position };
    0
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: the stream is closed, so this is the last use of the cookie.
    let cookie = unsafe { Box::from_raw(cookie.cast::<Cookie>()) };
    // Inside the freezer, so that the child of a fork does not find the lock taken.
    with_errno(|| {
        STREAMS.lock().remove(&cookie.stream.get());
        Ok(0)
    });
    standard::restore(cookie.stream.get());
    fdt_close(cookie.fd())
}
