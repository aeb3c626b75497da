//! `eventfd` through the table of descriptors.

use fdtable::FdFlags;
use fdtable_vfs::event::EventFdFlags;
use fdtable_vfs::{Errno, OpenFlags, Process};

#[test]
fn flags_of_the_descriptor_and_of_the_file_are_apart() {
    let process = Process::new();
    let flags = EventFdFlags::CLOEXEC | EventFdFlags::NONBLOCK;
    let fd = process.eventfd(0, flags).unwrap();
    assert_eq!(process.files().fd_flags(fd), Ok(FdFlags::CLOEXEC));
    let status = process.files().get(fd).unwrap().status();
    assert_eq!(status, OpenFlags::RDWR | OpenFlags::NONBLOCK);
    assert_eq!(process.read(fd, &mut [0; 8]), Err(Errno::EAGAIN));
}

#[test]
fn an_invalid_request_is_refused_and_makes_nothing() {
    let process = Process::new();
    let unknown = EventFdFlags::from_bits_retain(2);
    assert_eq!(process.eventfd(0, unknown), Err(Errno::EINVAL));
    let high = process.eventfd(u64::MAX, EventFdFlags::empty());
    assert_eq!(high, Err(Errno::EINVAL));
    assert_eq!(process.files().open_count(), 0);
}

#[test]
fn a_child_counts_with_its_parent() {
    let process = Process::new();
    let fd = process.eventfd(0, EventFdFlags::SEMAPHORE).unwrap();
    let child = process.fork().unwrap();
    child.write(fd, &2u64.to_ne_bytes()).unwrap();
    for _ in 0..2 {
        let mut one = [0; 8];
        assert_eq!(process.read(fd, &mut one), Ok(8));
        assert_eq!(u64::from_ne_bytes(one), 1);
    }
}
