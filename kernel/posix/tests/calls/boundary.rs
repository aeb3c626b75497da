//! The boundary to C: invalid pointers, descriptors and flags; host files beside our files;
//! blocking calls, host forks and small stacks.

#![allow(clippy::multiple_unsafe_ops_per_block)] // A test's promises hold for all of its calls.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fdtable_posix::*;

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Asserts that a call failed, and with which errno.
fn assert_fails(answer: impl Into<i64>, with: c_int) {
    assert_eq!((answer.into(), errno()), (-1, with));
}

fn open(path: &CStr, flags: c_int) -> c_int {
    // SAFETY: the path is a C string.
    unsafe { fdt_open(path.as_ptr(), flags, 0o644) }
}

fn write(fd: c_int, bytes: &[u8]) -> isize {
    // SAFETY: the pointer and the length are those of a slice.
    unsafe { fdt_write(fd, bytes.as_ptr().cast(), bytes.len()) }
}

fn read(fd: c_int, buf: &mut [u8]) -> isize {
    // SAFETY: the pointer and the length are those of a slice.
    unsafe { fdt_read(fd, buf.as_mut_ptr().cast(), buf.len()) }
}

fn pipe() -> [c_int; 2] {
    let mut fds = [-1; 2];
    // SAFETY: there is room for two.
    assert_eq!(unsafe { fdt_pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    fds
}

fn poll(fds: &mut [libc::pollfd], milliseconds: c_int) -> c_int {
    // SAFETY: the pointer and the length are those of a slice.
    unsafe { fdt_poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, milliseconds) }
}

fn close_all(fds: &[c_int]) {
    for &fd in fds {
        assert_eq!(fdt_close(fd), 0);
    }
}

fn asked(fd: c_int, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

#[test]
fn an_invalid_pointer_is_efault_and_changes_nothing() {
    let wrong = [0_usize, 1, 4095, 1 << 60, usize::MAX];
    let fd = open(c"/fdt/wrong_pointers", libc::O_CREAT | libc::O_RDWR);
    // At the end of a file, a read copies nothing, and so succeeds.
    assert_eq!(write(fd, b"x"), 1);
    assert_eq!(fdt_lseek(fd, 0, libc::SEEK_SET), 0);
    for address in wrong {
        let place = ptr::without_provenance_mut::<c_void>(address);
        // SAFETY: the address is refused, so nothing is accessed.
        assert_fails(unsafe { fdt_open(place.cast(), 0, 0) }, libc::EFAULT);
        // SAFETY: as above.
        assert_fails(unsafe { fdt_read(fd, place, 8) } as i64, libc::EFAULT);
        // SAFETY: as above.
        assert_fails(unsafe { fdt_write(fd, place, 8) } as i64, libc::EFAULT);
        // SAFETY: as above.
        assert_fails(unsafe { fdt_pipe(place.cast()) }, libc::EFAULT);
        // SAFETY: as above.
        assert_fails(unsafe { fdt_fstat(fd, place.cast()) }, libc::EFAULT);
    }
    // SAFETY: as above.
    assert_fails(
        unsafe { fdt_read(9999, ptr::null_mut(), 8) } as i64,
        libc::EBADF,
    );
    // In a child: there, no other test opens and closes descriptors meanwhile.
    // SAFETY: the child only makes calls of this library, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let next = fdt_dup(fd);
        fdt_close(next);
        // SAFETY: as above.
        let failed = wrong.map(|address| unsafe { fdt_pipe(ptr::without_provenance_mut(address)) });
        let leaves_none = failed == [-1; 5] && fdt_dup(fd) == next;
        // SAFETY: it does not return.
        unsafe { libc::_exit(i32::from(!leaves_none)) };
    }
    let mut status = -1;
    // SAFETY: there is room for the status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(
        status, 0,
        "a pipe whose descriptors cannot be written leaves none open"
    );
    fdt_close(fd);
}

#[test]
fn unknown_flags_are_refused() {
    let fd = fdt_dup(0);
    assert_fails(fdt_dup3(fd, fd + 100, 1), libc::EINVAL);
    assert_fails(fdt_close_range(500, 600, 1 << 10), libc::EINVAL);
    assert_fails(fdt_eventfd(0, 1 << 20), libc::EINVAL);
    assert_fails(fdt_epoll_create1(1), libc::EINVAL);
    // SAFETY: the command is unknown.
    assert_fails(unsafe { fdt_fcntl(fd, 4711, 0) }, libc::EINVAL);
    fdt_close(fd);
}

#[test]
fn a_host_file_has_our_descriptor_and_the_hosts_bytes() {
    let dir = std::env::temp_dir().join(format!("fdtable-{}", std::process::id()));
    let path = CString::new(dir.into_os_string().into_encoded_bytes()).unwrap();
    let fd = open(&path, libc::O_CREAT | libc::O_RDWR);
    assert!(fd >= 0, "{}", errno());
    assert_eq!(write(fd, b"on the host"), 11);
    let host = fdt_hostfd(fd);
    assert!(host >= 0);
    let mut buf = [0; 32];
    // SAFETY: the pointer and the length are those of a slice.
    let count = unsafe { libc::pread(host, buf.as_mut_ptr().cast(), buf.len(), 0) };
    assert_eq!(&buf[..count as usize], b"on the host");
    let copy = open(c"/fdt/copy", libc::O_CREAT | libc::O_RDWR);
    assert_eq!(fdt_lseek(fd, 3, libc::SEEK_SET), 3);
    // SAFETY: null means no offset.
    assert_eq!(unsafe { fdt_sendfile(copy, fd, ptr::null_mut(), 100) }, 8);
    fdt_lseek(copy, 0, libc::SEEK_SET);
    assert_eq!(read(copy, &mut buf), 8);
    assert_eq!(&buf[..8], b"the host");
    // SAFETY: both are C strings.
    assert_fails(
        unsafe { fdt_rename(path.as_ptr(), c"/fdt/moved".as_ptr()) },
        libc::EXDEV,
    );
    assert_fails(fdt_hostfd(copy), libc::EINVAL);
    // SAFETY: the path is a C string.
    assert_eq!(unsafe { fdt_unlink(path.as_ptr()) }, 0);
    fdt_close(copy);
    fdt_close(fd);
    // SAFETY: the command only reads the flags.
    let left = unsafe { libc::fcntl(host, libc::F_GETFD) };
    assert_eq!(left, -1, "the host descriptor is closed too");
}

#[test]
fn poll_waits_for_our_files_and_host_files() {
    let (mine, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let host = fdt_adopt(mine.into_raw_fd());
    let [reader, writer] = pipe();
    let mut fds = [asked(reader, libc::POLLIN), asked(host, libc::POLLIN)];
    assert_eq!(poll(&mut fds, 10), 0);
    for round in 0..20 {
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(2));
                if round % 2 == 0 {
                    assert_eq!(write(writer, b"x"), 1);
                } else {
                    // SAFETY: one byte is there.
                    unsafe { libc::write(theirs.as_raw_fd(), c"x".as_ptr().cast(), 1) };
                }
            });
            assert_eq!(poll(&mut fds, 5000), 1, "round {round}");
        });
        let ready = fds.iter().position(|fd| fd.revents != 0);
        assert_eq!(ready, Some(round % 2));
        assert_eq!(read(fds[round % 2].fd, &mut [0; 8]), 1);
    }
    drop(theirs);
    assert_eq!(poll(&mut fds, 5000), 1);
    assert_ne!(fds[1].revents & libc::POLLHUP, 0);
    close_all(&[host, reader, writer]);
}

#[test]
fn epoll_waits_for_our_files_and_host_files() {
    let (mine, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let host = fdt_adopt(mine.into_raw_fd());
    let set = fdt_epoll_create1(0);
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 7,
    };
    // SAFETY: the event is valid.
    let added = unsafe { fdt_epoll_ctl(set, libc::EPOLL_CTL_ADD, host, &raw mut event) };
    assert_eq!(added, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(10));
            // SAFETY: one byte is there.
            unsafe { libc::write(theirs.as_raw_fd(), c"x".as_ptr().cast(), 1) };
        });
        let mut found = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for one event.
        assert_eq!(unsafe { fdt_epoll_wait(set, &raw mut found, 1, 5000) }, 1);
        assert_eq!({ found.u64 }, 7);
    });
    fdt_close(host);
    let mut found = libc::epoll_event { events: 0, u64: 0 };
    // The child of another test may have the socket open for a moment. Until then the host keeps
    // the member.
    let is_left = (0..500).any(|_| {
        thread::sleep(Duration::from_millis(10));
        // SAFETY: as above.
        unsafe { fdt_epoll_wait(set, &raw mut found, 1, 0) == 0 }
    });
    assert!(is_left, "a closed file leaves the epoll");
    fdt_close(set);
}

#[test]
fn a_forked_child_works_while_threads_are_in_calls() {
    let [reader, writer] = pipe();
    let (stop, stopped) = mpsc::channel::<()>();
    let sleeper = thread::spawn(move || read(reader, &mut [0; 1]));
    let busy = thread::spawn(move || {
        while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
            let fd = open(c"/fdt/busy", libc::O_CREAT | libc::O_RDWR);
            write(fd, b"busy");
            fdt_close(fd);
        }
    });
    thread::sleep(Duration::from_millis(5));
    for round in 0..20 {
        // SAFETY: the child only makes calls of this library, which the test is about, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let fd = open(c"/fdt/in_child", libc::O_CREAT | libc::O_RDWR);
            let works = fd >= 0 && write(fd, b"child") == 5 && fdt_close(fd) == 0;
            // SAFETY: it does not return.
            unsafe { libc::_exit(if works { 0 } else { 1 }) };
        }
        let began = Instant::now();
        let mut status = -1;
        // SAFETY: there is room for the status.
        while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "round {round}: the child hangs"
            );
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(status, 0, "round {round}");
    }
    drop(stop);
    busy.join().unwrap();
    assert_eq!(write(writer, b"x"), 1);
    assert_eq!(sleeper.join().unwrap(), 1);
    close_all(&[reader, writer]);
}

/// Threads with stacks of 16 KiB, as in hackbench, transfer and wait. Stack frames are several
/// times as large without optimization.
#[test]
#[cfg_attr(debug_assertions, ignore = "frames are larger without optimization")]
fn stacks_of_16_kib_suffice() {
    extern "C" fn run(fds: *mut c_void) -> *mut c_void {
        // SAFETY: the test waits for the thread, and passes two descriptors.
        let &[reader, writer] = unsafe { &*fds.cast::<[c_int; 2]>() };
        let file = open(c"/fdt/small_stacks", libc::O_CREAT | libc::O_RDWR);
        let mut fine = file >= 0 && write(file, b"x") == 1 && fdt_close(file) == 0;
        for _ in 0..10 {
            let mut buf = [0; 1];
            fine &= read(reader, &mut buf) == 1 && write(writer, &buf) == 1;
        }
        ptr::without_provenance_mut(usize::from(fine))
    }

    let ([in_reader, in_writer], [out_reader, out_writer]) = (pipe(), pipe());
    let mut fds = [in_reader, out_writer];
    // SAFETY: the attributes are created, used and destroyed here; the thread ends before `fds`
    // does.
    let answer = unsafe {
        let mut attributes = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        assert_eq!(
            libc::pthread_attr_setstacksize(&raw mut attributes, 16 * 1024),
            0
        );
        let mut thread = std::mem::zeroed();
        let started = libc::pthread_create(
            &raw mut thread,
            &raw const attributes,
            run,
            fds.as_mut_ptr().cast(),
        );
        assert_eq!(started, 0);
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(1));
            assert_eq!(write(in_writer, b"y"), 1);
            assert_eq!(read(out_reader, &mut [0; 1]), 1);
        }
        let mut answer = ptr::null_mut();
        libc::pthread_join(thread, &raw mut answer);
        libc::pthread_attr_destroy(&raw mut attributes);
        answer
    };
    assert_eq!(answer.addr(), 1);
    close_all(&[in_reader, in_writer, out_reader, out_writer]);
}

#[test]
fn a_mount_routes_its_paths_until_it_is_unmounted() {
    let there = |path: &CStr| {
        // SAFETY: the path is a C string.
        unsafe { fdt_access(path.as_ptr(), libc::F_OK) == 0 }
    };
    assert!(!there(c"/fdt-other"));
    // SAFETY: the paths are C strings.
    unsafe {
        assert_eq!(fdt_mount(c"/fdt-other".as_ptr()), 0);
        assert_fails(fdt_mount(c"/fdt-other/".as_ptr()), libc::EBUSY);
        assert_fails(fdt_mount(c"/".as_ptr()), libc::EINVAL);
    }
    assert!(there(c"/fdt-other"));
    let fd = open(c"/fdt-other/file", libc::O_CREAT | libc::O_WRONLY);
    // SAFETY: the path is a C string.
    assert_fails(unsafe { fdt_umount(c"/fdt-other".as_ptr()) }, libc::EBUSY);
    fdt_close(fd);
    // SAFETY: the path is a C string.
    assert_eq!(unsafe { fdt_umount(c"/fdt-other".as_ptr()) }, 0);
    assert!(!there(c"/fdt-other"));
    // SAFETY: the path is a C string.
    assert_fails(unsafe { fdt_umount(c"/fdt-other".as_ptr()) }, libc::EINVAL);
}

/// Maps a page of a file for reading and writing.
fn map(fd: c_int, flags: c_int) -> *mut u8 {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the host chooses the address.
    let place = unsafe { fdt_mmap(ptr::null_mut(), 4096, both, flags, fd, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    place.cast()
}

#[test]
fn a_private_mapping_is_a_copy_and_a_shared_one_is_the_file() {
    let fd = open(c"/fdt/mapped", libc::O_CREAT | libc::O_RDWR);
    write(fd, b"what is there");
    let [private, shared] = [libc::MAP_PRIVATE, libc::MAP_SHARED].map(|flags| map(fd, flags));
    // SAFETY: both mappings are there, and only this thread uses them.
    unsafe {
        private.write_volatile(b'p');
        shared.write_volatile(b's');
    }
    let mut byte = 0_u8;
    // SAFETY: there is room for the byte.
    assert_eq!(unsafe { fdt_pread(fd, (&raw mut byte).cast(), 1, 0) }, 1);
    assert_eq!(byte, b's');
    // SAFETY: the byte is valid.
    assert_eq!(unsafe { fdt_pwrite(fd, (&raw const byte).cast(), 1, 1) }, 1);
    // SAFETY: as above.
    let found = unsafe {
        [
            private.add(1).read_volatile(),
            shared.add(1).read_volatile(),
        ]
    };
    assert_eq!(found, *b"hs");
    fdt_close(fd);
}

/// Returns how many descriptors of the host lead to the memory of a mapping.
fn descriptors_of(mapping: *const u8) -> usize {
    let address = format!("{:x}-", mapping.addr());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps
        .lines()
        .find(|line| line.starts_with(&address))
        .unwrap();
    let inode: u64 = line.split_whitespace().nth(4).unwrap().parse().unwrap();
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let paths = fds.map(|fd| fd.unwrap().path());
    // A descriptor that another test has closed meanwhile has no status.
    let inodes = paths.filter_map(|path| Some(std::fs::metadata(path).ok()?.ino()));
    inodes.filter(|&found| found == inode).count()
}

#[test]
fn a_file_that_was_mapped_has_one_descriptor_of_the_host_until_it_is_freed() {
    let fd = open(c"/fdt/held", libc::O_CREAT | libc::O_RDWR);
    assert_eq!(write(fd, b"x"), 1);
    let mapping = map(fd, libc::MAP_SHARED);
    map(fd, libc::MAP_SHARED);
    assert_eq!(descriptors_of(mapping), 1);
    fdt_close(fd);
    assert_eq!(descriptors_of(mapping), 1);
    // SAFETY: the path is a C string.
    assert_eq!(unsafe { fdt_unlink(c"/fdt/held".as_ptr()) }, 0);
    assert_eq!(descriptors_of(mapping), 0);
    // SAFETY: the mapping keeps the memory.
    assert_eq!(unsafe { mapping.read_volatile() }, b'x');
}

#[test]
fn no_write_is_lost_while_a_file_moves_to_memory_of_the_host() {
    const THREADS: usize = 4;
    for round in 0..50 {
        let fd = open(c"/fdt/moving", libc::O_CREAT | libc::O_RDWR | libc::O_TRUNC);
        let mapping = thread::scope(|scope| {
            for first in 0..THREADS {
                scope.spawn(move || {
                    for at in (first..4096).step_by(THREADS) {
                        let byte = [at as u8 | 1];
                        // SAFETY: the byte is valid.
                        let done = unsafe { fdt_pwrite(fd, byte.as_ptr().cast(), 1, at as i64) };
                        assert_eq!(done, 1);
                    }
                });
            }
            thread::sleep(Duration::from_micros(10 * round));
            map(fd, libc::MAP_SHARED).expose_provenance()
        });
        let mapping = ptr::with_exposed_provenance::<u8>(mapping);
        for at in 0..4096 {
            // SAFETY: the mapping has this length, and the file too.
            let byte = unsafe { mapping.add(at).read_volatile() };
            assert_eq!(byte, at as u8 | 1, "{at} in round {round}");
        }
        fdt_close(fd);
        // SAFETY: the path is a C string.
        assert_eq!(unsafe { fdt_unlink(c"/fdt/moving".as_ptr()) }, 0);
    }
}

#[test]
fn more_than_there_is_cannot_be_allocated_for_a_mapped_file() {
    // SAFETY: the name is a C string.
    let fd = unsafe { fdt_memfd_create(c"large".as_ptr(), 0) };
    assert_fails(fdt_fallocate(fd, 0, 0, 1 << 47), libc::ENOSPC);
    map(fd, libc::MAP_SHARED);
    assert_fails(fdt_fallocate(fd, 0, 0, 1 << 47), libc::ENOSPC);
    assert_eq!(fdt_fallocate(fd, 0, 0, 8192), 0);
    fdt_close(fd);
}
