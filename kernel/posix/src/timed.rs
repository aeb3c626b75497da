//! Safe access to the calls that benchmarks time, through the C interface.
//!
//! Each call goes through a pointer to the C function that is opaque to the compiler, like a call
//! from another language.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::hint::black_box;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::IntoRawFd;

use crate::{
    fdt_adopt, fdt_close, fdt_dup, fdt_epoll_create1, fdt_epoll_ctl, fdt_epoll_wait, fdt_fcntl,
    fdt_open, fdt_read, fdt_write,
};

/// The POSIX functions that are timed, of one side.
pub struct Calls {
    open: unsafe extern "C" fn(*const c_char, c_int, libc::mode_t) -> c_int,
    adopt: extern "C" fn(c_int) -> c_int,
    close: unsafe extern "C" fn(c_int) -> c_int,
    dup: unsafe extern "C" fn(c_int) -> c_int,
    fcntl: unsafe extern "C" fn(c_int, c_int, c_ulong) -> c_int,
    read: unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize,
    write: unsafe extern "C" fn(c_int, *const c_void, usize) -> isize,
    epoll_create1: unsafe extern "C" fn(c_int) -> c_int,
    epoll_ctl: unsafe extern "C" fn(c_int, c_int, c_int, *mut libc::epoll_event) -> c_int,
    epoll_wait: unsafe extern "C" fn(c_int, *mut libc::epoll_event, c_int, c_int) -> c_int,
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

    pub(super) extern "C" fn adopt(fd: c_int) -> c_int {
        fd
    }

    pub(super) unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { libc::fcntl(fd, command, argument) }
    }
}

/// Room for the descriptors that an epoll reports at once.
pub struct ReadyFds([libc::epoll_event; 128]);

impl Default for ReadyFds {
    fn default() -> Self {
        ReadyFds([libc::epoll_event { events: 0, u64: 0 }; 128])
    }
}

impl Calls {
    /// Returns the functions of this library.
    pub fn ours() -> Self {
        black_box(Calls {
            open: fdt_open,
            adopt: fdt_adopt,
            close: fdt_close,
            dup: fdt_dup,
            fcntl: fdt_fcntl,
            read: fdt_read,
            write: fdt_write,
            epoll_create1: fdt_epoll_create1,
            epoll_ctl: fdt_epoll_ctl,
            epoll_wait: fdt_epoll_wait,
        })
    }

    /// Returns the functions of the host.
    pub fn host() -> Self {
        black_box(Calls {
            open: of_host::open,
            adopt: of_host::adopt,
            close: libc::close,
            dup: libc::dup,
            fcntl: of_host::fcntl,
            read: libc::read,
            write: libc::write,
            epoll_create1: libc::epoll_create1,
            epoll_ctl: libc::epoll_ctl,
            epoll_wait: libc::epoll_wait,
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

    /// Connects `count` pairs of TCP sockets over the loopback interface.
    ///
    /// # Errors
    /// The host's.
    pub fn pairs(&self, count: usize) -> io::Result<Vec<(c_int, c_int)>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let own = |socket: TcpStream| (self.adopt)(socket.into_raw_fd());
        let pair = |_| {
            let client = TcpStream::connect(address)?;
            let (server, _) = listener.accept()?;
            Ok((own(client), own(server)))
        };
        (0..count).map(pair).collect()
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
}
