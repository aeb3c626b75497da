//! Unusual but valid uses of calls.
//!
//! Sets that are shorter than the count, transfers above 2^31 bytes, unaligned arrays.

use std::ffi::{c_int, c_void};
use std::ptr;

use fdtable_posix::*;

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

const PAGE: usize = 4096;

/// Returns `length` zeroed bytes, followed by an inaccessible page.
fn at_the_edge<T>(length: usize) -> *mut T {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory is not in use.
    let place = unsafe { libc::mmap(ptr::null_mut(), 2 * PAGE, protection, flags, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    // SAFETY: it is the second of the two pages.
    let edge = unsafe { place.byte_add(PAGE) };
    // SAFETY: nothing uses the page.
    assert_eq!(unsafe { libc::mprotect(edge, PAGE, libc::PROT_NONE) }, 0);
    // SAFETY: within the first page.
    unsafe { edge.byte_sub(length) }.cast()
}

#[test]
fn a_set_may_be_shorter_than_the_count() {
    let set = at_the_edge::<libc::fd_set>(size_of::<libc::fd_set>());
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    for count in [1024, 1025, 20_000, c_int::MAX] {
        let none = ptr::null_mut();
        // SAFETY: the set has as many bits as there are descriptors.
        let ready = unsafe { fdt_select(count, set, none, none, &raw mut time) };
        assert_eq!(ready, 0, "{count}");
    }
    sets_are_examined_up_to_the_last_descriptor();
}

/// Not in the test above: it opens a descriptor beyond a short set.
fn sets_are_examined_up_to_the_last_descriptor() {
    // SAFETY: the path is a C string.
    let zero = unsafe { fdt_open(c"/dev/zero".as_ptr(), libc::O_RDONLY, 0) };
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: there is room for the limit.
    let told = unsafe { fdt_getrlimit(libc::RLIMIT_NOFILE as c_int, &raw mut limit) };
    if told != 0 || limit.rlim_cur < 2000 {
        return;
    }
    let high = fdt_dup2(zero, 1500);
    assert_eq!(high, 1500);
    let mut set = [0_u64; 32];
    set[1500 / 64] = 1 << (1500 % 64);
    let (none, place) = (ptr::null_mut(), (&raw mut set).cast());
    for count in [1501, 2000] {
        // SAFETY: the set has more bits than are examined.
        let ready = unsafe { fdt_select(count, place, none, none, ptr::null_mut()) };
        assert_eq!((ready, set[1500 / 64]), (1, 1 << (1500 % 64)), "{count}");
    }
    fdt_close(high);
    fdt_close(zero);
}

#[test]
fn a_shortened_transfer_moves_nothing_after_the_cut() {
    const LONG: usize = 3 << 30;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory is not in use.
    let long = unsafe { libc::mmap(ptr::null_mut(), LONG, libc::PROT_READ, flags, -1, 0) };
    assert_ne!(long, libc::MAP_FAILED);
    let bufs =
        [(long, LONG), (long, 10)].map(|(iov_base, iov_len)| libc::iovec { iov_base, iov_len });
    // SAFETY: the path is a C string.
    let null = unsafe { fdt_open(c"/dev/null".as_ptr(), libc::O_WRONLY, 0) };
    // SAFETY: the buffers are valid.
    assert_eq!(unsafe { fdt_writev(null, bufs.as_ptr(), 2) }, 0x7fff_f000);
    fdt_close(null);
    // SAFETY: nothing uses the memory any more.
    unsafe { libc::munmap(long, LONG) };
}

#[test]
fn arrays_may_be_unaligned() {
    // SAFETY: the path is a C string.
    let zero = unsafe { fdt_open(c"/dev/zero".as_ptr(), libc::O_RDWR, 0) };
    let mut bytes = [1_u8; 8];
    let mut room = [0_u8; 64];
    let vector = libc::iovec {
        iov_base: (&raw mut bytes).cast(),
        iov_len: 3,
    };
    let place = (&raw mut room).cast::<u8>().wrapping_add(1);
    // SAFETY: there is room for it.
    unsafe { place.cast::<libc::iovec>().write_unaligned(vector) };
    // SAFETY: the vector is valid.
    assert_eq!(unsafe { fdt_readv(zero, place.cast(), 1) }, 3);
    assert_eq!(bytes, [0, 0, 0, 1, 1, 1, 1, 1]);
    let asked = libc::pollfd {
        fd: zero,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: there is room for it.
    unsafe { place.cast::<libc::pollfd>().write_unaligned(asked) };
    // SAFETY: the entry is valid.
    assert_eq!(unsafe { fdt_poll(place.cast(), 1, 0) }, 1);
    // SAFETY: as above.
    let told = unsafe { place.cast::<libc::pollfd>().read_unaligned() };
    assert_eq!(told.revents, libc::POLLIN);
    fdt_close(zero);
}

#[test]
fn a_mapping_shows_its_whole_last_page() {
    // SAFETY: the name is a C string.
    let fd = unsafe { fdt_memfd_create(c"mapped".as_ptr(), 0) };
    let bytes = [7_u8; PAGE];
    // SAFETY: the bytes are valid.
    let written = unsafe { fdt_write(fd, bytes.as_ptr().cast(), PAGE) };
    assert_eq!(written, PAGE as isize);
    // SAFETY: new memory is not in use.
    let place = unsafe {
        fdt_mmap(
            ptr::null_mut(),
            100,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            fd,
            0,
        )
    };
    assert_ne!(place, libc::MAP_FAILED);
    // SAFETY: a mapping consists of whole pages.
    let last = unsafe { &*place.cast::<[u8; PAGE]>() }[PAGE - 1];
    assert_eq!(last, 7);
    fdt_close(fd);
}

#[test]
fn dupfd_query_distinguishes_a_duplicate_from_another_file() {
    const F_DUPFD_QUERY: c_int = 1027;
    // SAFETY: the path is a C string.
    let opened = || unsafe { fdt_open(c"/dev/zero".as_ptr(), libc::O_RDONLY, 0) };
    let (one, other) = (opened(), opened());
    let same = fdt_dup(one);
    // SAFETY: the argument is a descriptor.
    let query = |fd: c_int| unsafe { fdt_fcntl(one, F_DUPFD_QUERY, fd as u64) };
    assert_eq!((query(one), query(same), query(other)), (1, 1, 0));
    assert_eq!((query(-1), errno()), (-1, libc::EBADF));
    for fd in [one, other, same] {
        fdt_close(fd);
    }
}

#[test]
fn a_host_request_gets_host_descriptors() {
    const FICLONE: u64 = 0x4004_9409;
    let path = std::env::temp_dir().join(format!("fdtable-misuse-{}", std::process::id()));
    let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: the path is a C string.
    let to = unsafe { fdt_open(path.as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600) };
    // SAFETY: the name is a C string.
    let from = unsafe { fdt_memfd_create(c"source".as_ptr(), 0) };
    // SAFETY: the argument is a descriptor.
    let cloned = unsafe { fdt_ioctl(to, FICLONE, from as u64) };
    assert_eq!((cloned, errno()), (-1, libc::EXDEV));
    fdt_close(from);
    fdt_close(to);
    // SAFETY: the path is a C string.
    unsafe { fdt_unlink(path.as_ptr()) };
}

/// A control message with one descriptor.
#[repr(C)]
struct Carrier {
    head: libc::cmsghdr,
    fd: c_int,
}

fn carrier(fd: c_int) -> Carrier {
    Carrier {
        head: libc::cmsghdr {
            cmsg_len: size_of::<libc::cmsghdr>() + size_of::<c_int>(),
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        },
        fd,
    }
}

/// Sends or receives one byte with a control message.
fn with_message(carrier: &mut Carrier, transfer: impl FnOnce(*mut libc::msghdr) -> isize) -> isize {
    let mut byte = b'x';
    let mut vector = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: all zeroes is a valid value of this struct of integers and pointers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut *carrier).cast::<c_void>();
    message.msg_controllen = size_of::<Carrier>();
    transfer(&raw mut message)
}

fn send(fd: c_int, message: *mut libc::msghdr) -> isize {
    // SAFETY: the message is complete.
    unsafe { fdt_sendmsg(fd, message, 0) }
}

fn receive(fd: c_int, message: *mut libc::msghdr) -> isize {
    // SAFETY: the message is complete.
    unsafe { fdt_recvmsg(fd, message, 0) }
}

#[test]
fn files_pass_through_host_sockets() {
    let mut pair = [-1; 2];
    // SAFETY: there is room for two.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) };
    assert_eq!(made, 0);
    let [one, other] = pair.map(|fd| fdt_adopt(fd));
    // Makes our descriptors differ from the host's.
    let ours: Vec<c_int> = (0..50).map(|_| fdt_eventfd(0, 0)).collect();
    // SAFETY: the path is a C string.
    let file = unsafe { fdt_open(c"/proc/self/comm".as_ptr(), libc::O_RDONLY, 0) };
    let mut sent = carrier(file);
    assert_eq!(with_message(&mut sent, |message| send(one, message)), 1);
    assert_eq!(sent.fd, file, "the caller's message is unchanged");
    let mut got = carrier(-1);
    assert_eq!(with_message(&mut got, |message| receive(other, message)), 1);
    let mut byte = 0_u8;
    // SAFETY: there is room for one byte.
    assert_eq!(unsafe { fdt_read(got.fd, (&raw mut byte).cast(), 1) }, 1);
    // SAFETY: the command has no argument.
    assert_eq!(unsafe { fdt_fcntl(got.fd, libc::F_GETFD, 0) }, 0);
    let mut refused = carrier(ours[0]);
    let answer = with_message(&mut refused, |message| send(one, message));
    assert_eq!((answer, errno()), (-1, libc::EINVAL));
    for fd in [one, other, file, got.fd].into_iter().chain(ours) {
        assert_eq!(fdt_close(fd), 0);
    }
}
