//! Safe access to the calls that benchmarks time, through the C interface.
//!
//! Each call goes through a pointer to the C function that is opaque to the compiler, like a call
//! from another language.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::hint::black_box;
use std::ptr;

use crate::{
    fdt_accept, fdt_bind, fdt_close, fdt_connect, fdt_dup, fdt_epoll_create1, fdt_epoll_ctl,
    fdt_epoll_wait, fdt_fcntl, fdt_getsockname, fdt_listen, fdt_open, fdt_read, fdt_socket,
    fdt_write,
};

/// The five POSIX functions that are timed.
pub struct Calls {
    open: unsafe extern "C" fn(*const c_char, c_int, libc::mode_t) -> c_int,
    close: unsafe extern "C" fn(c_int) -> c_int,
    dup: unsafe extern "C" fn(c_int) -> c_int,
    fcntl: unsafe extern "C" fn(c_int, c_int, c_ulong) -> c_int,
    read: unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize,
}

/// The host's functions, with fixed parameters instead of `...`.
mod of_host {
    use std::ffi::{c_char, c_int, c_ulong};

    pub(super) unsafe extern "C" fn open(
        path: *const c_char,
        flags: c_int,
        mode: libc::mode_t,
    ) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { libc::open(path, flags, mode) }
    }

    pub(super) unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { libc::fcntl(fd, command, argument) }
    }
}

impl Calls {
    /// Returns the functions of this library.
    pub fn ours() -> Self {
        black_box(Calls {
            open: fdt_open,
            close: fdt_close,
            dup: fdt_dup,
            fcntl: fdt_fcntl,
            read: fdt_read,
        })
    }

    /// Returns the functions of the host.
    pub fn host() -> Self {
        black_box(Calls {
            open: of_host::open,
            close: libc::close,
            dup: libc::dup,
            fcntl: of_host::fcntl,
            read: libc::read,
        })
    }

    /// Opens `/dev/zero` for reading. Returns a negative value if that fails.
    pub fn open_zero(&self) -> c_int {
        // SAFETY: the path is a C string.
        unsafe { (self.open)(c"/dev/zero".as_ptr(), libc::O_RDONLY, 0) }
    }

    /// Opens a path for reading and writing, and creates the file if there is none. Returns a
    /// negative value if that fails.
    pub fn open_file(&self, path: &CStr) -> c_int {
        // SAFETY: the path is a C string.
        unsafe { (self.open)(path.as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600) }
    }

    /// Opens an existing file for reading and writing. Returns a negative value if that fails.
    pub fn open_existing(&self, path: &CStr) -> c_int {
        // SAFETY: the path is a C string.
        unsafe { (self.open)(path.as_ptr(), libc::O_RDWR, 0) }
    }

    /// Returns the flags of a descriptor.
    pub fn flags(&self, fd: c_int) -> c_int {
        // SAFETY: the command has no argument.
        unsafe { (self.fcntl)(fd, libc::F_GETFD, 0) }
    }

    /// Reads one byte, and returns how many it read.
    pub fn read_byte(&self, fd: c_int) -> isize {
        let mut byte = 0_u8;
        // SAFETY: there is room for one byte.
        unsafe { (self.read)(fd, (&raw mut byte).cast(), 1) }
    }

    /// Duplicates a descriptor.
    pub fn dup(&self, fd: c_int) -> c_int {
        // SAFETY: the call takes no pointer.
        unsafe { (self.dup)(fd) }
    }

    /// Closes a descriptor.
    pub fn close(&self, fd: c_int) -> c_int {
        // SAFETY: the call takes no pointer.
        unsafe { (self.close)(fd) }
    }
}

/// The functions for an event loop on sockets.
pub struct Sockets {
    socket: unsafe extern "C" fn(c_int, c_int, c_int) -> c_int,
    bind: unsafe extern "C" fn(c_int, *const libc::sockaddr, libc::socklen_t) -> c_int,
    listen: unsafe extern "C" fn(c_int, c_int) -> c_int,
    getsockname: unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int,
    connect: unsafe extern "C" fn(c_int, *const libc::sockaddr, libc::socklen_t) -> c_int,
    accept: unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int,
    read: unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize,
    write: unsafe extern "C" fn(c_int, *const c_void, usize) -> isize,
    close: unsafe extern "C" fn(c_int) -> c_int,
    epoll_create1: unsafe extern "C" fn(c_int) -> c_int,
    epoll_ctl: unsafe extern "C" fn(c_int, c_int, c_int, *mut libc::epoll_event) -> c_int,
    epoll_wait: unsafe extern "C" fn(c_int, *mut libc::epoll_event, c_int, c_int) -> c_int,
}

/// Room for the events of one wait.
pub struct ReadyFds([libc::epoll_event; 128]);

impl ReadyFds {
    /// Makes an empty room.
    pub fn new() -> Self {
        ReadyFds([libc::epoll_event { events: 0, u64: 0 }; 128])
    }
}

impl Default for ReadyFds {
    fn default() -> Self {
        Self::new()
    }
}

impl Sockets {
    /// Returns the functions of this library.
    pub fn ours() -> Self {
        black_box(Sockets {
            socket: fdt_socket,
            bind: fdt_bind,
            listen: fdt_listen,
            getsockname: fdt_getsockname,
            connect: fdt_connect,
            accept: fdt_accept,
            read: fdt_read,
            write: fdt_write,
            close: fdt_close,
            epoll_create1: fdt_epoll_create1,
            epoll_ctl: fdt_epoll_ctl,
            epoll_wait: fdt_epoll_wait,
        })
    }

    /// Returns the functions of the host.
    pub fn host() -> Self {
        black_box(Sockets {
            socket: libc::socket,
            bind: libc::bind,
            listen: libc::listen,
            getsockname: libc::getsockname,
            connect: libc::connect,
            accept: libc::accept,
            read: libc::read,
            write: libc::write,
            close: libc::close,
            epoll_create1: libc::epoll_create1,
            epoll_ctl: libc::epoll_ctl,
            epoll_wait: libc::epoll_wait,
        })
    }

    /// Connects `count` pairs of TCP sockets over the loopback interface. Returns `None` if that
    /// fails.
    pub fn pairs(&self, count: usize) -> Option<Vec<(c_int, c_int)>> {
        let mut address = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 0,
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
            },
            sin_zero: [0; 8],
        };
        let place = (&raw mut address).cast::<libc::sockaddr>();
        let mut length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        let nowhere = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: an address of this length is there, in all these calls.
        unsafe {
            let listener = (self.socket)(libc::AF_INET, libc::SOCK_STREAM, 0);
            let is_ready = (self.bind)(listener, place, length) == 0
                && (self.listen)(listener, 64) == 0
                && (self.getsockname)(listener, place, &raw mut length) == 0;
            let pair = |_| {
                let client = (self.socket)(libc::AF_INET, libc::SOCK_STREAM, 0);
                let connected = (self.connect)(client, place, length);
                let server = (self.accept)(listener, nowhere.0, nowhere.1);
                (is_ready && connected == 0 && server >= 0).then_some((client, server))
            };
            let pairs = (0..count).map(pair).collect();
            (self.close)(listener);
            pairs
        }
    }

    /// Creates an epoll for reading of `fds`. Returns a negative value if that fails.
    pub fn epoll_of(&self, fds: impl Iterator<Item = c_int>) -> c_int {
        // SAFETY: the call takes no pointer.
        let epoll = unsafe { (self.epoll_create1)(libc::EPOLL_CLOEXEC) };
        for fd in fds {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN.cast_unsigned(),
                u64: u64::from(fd.cast_unsigned()),
            };
            // SAFETY: the event is there.
            if unsafe { (self.epoll_ctl)(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) } != 0 {
                self.close(epoll);
                return -1;
            }
        }
        epoll
    }

    /// Waits, and returns the descriptors that are ready, none after an error.
    pub fn wait<'r>(
        &self,
        epoll: c_int,
        room: &'r mut ReadyFds,
    ) -> impl Iterator<Item = c_int> + 'r {
        let most = room.0.len() as c_int;
        // SAFETY: there is room for as many events.
        let count = unsafe { (self.epoll_wait)(epoll, room.0.as_mut_ptr(), most, -1) };
        let ready = room.0.iter().take(usize::try_from(count).unwrap_or(0));
        ready.map(|event| event.u64 as c_int)
    }

    /// Reads a message, and returns its length; 0 or less at its end.
    pub fn read(&self, fd: c_int, buf: &mut [u8]) -> isize {
        // SAFETY: there is room.
        unsafe { (self.read)(fd, buf.as_mut_ptr().cast(), buf.len()) }
    }

    /// Writes a message, and returns how much it wrote.
    pub fn write(&self, fd: c_int, message: &[u8]) -> isize {
        // SAFETY: the message is there.
        unsafe { (self.write)(fd, message.as_ptr().cast(), message.len()) }
    }

    /// Closes a descriptor.
    pub fn close(&self, fd: c_int) {
        // SAFETY: the call takes no pointer.
        unsafe { (self.close)(fd) };
    }
}
