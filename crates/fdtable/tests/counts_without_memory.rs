//! Memory of counts by CPU, which the first table of a process maps. A process of its own, in which
//! no other test makes a table.

#![cfg(all(target_os = "linux", not(loom)))]

use fdtable::{FdFlags, FileRef, Files, RawFd};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Asks for a count by CPU. Returns true if there is one.
fn can_count_by_cpu(files: &Files<usize>, fd: RawFd) -> bool {
    files.count_by_cpu(fd).expect("it is open");
    let file = files.get(fd).expect("it is open");
    FileRef::exact_strong_count(&file).is_none()
}

/// Runs `action` while the host refuses to map memory.
fn without_memory<R>(action: impl FnOnce() -> R) -> R {
    let (soft, hard) = getrlimit(Resource::RLIMIT_AS).expect("it can be read");
    setrlimit(Resource::RLIMIT_AS, 0, hard).expect("it can be lowered");
    let result = action();
    setrlimit(Resource::RLIMIT_AS, soft, hard).expect("it can be restored");
    result
}

/// A lookup that maps memory changes errno, and does so at a time when the host may not permit it.
#[test]
fn memory_of_counts_comes_with_a_table() {
    let files = without_memory(Files::new);
    let fd = files.open(FileRef::new(0), FdFlags::empty());
    let fd = fd.expect("there is room").into();
    assert!(!can_count_by_cpu(&files, fd), "there is no memory");
    let _another = Files::<usize>::new();
    Errno::EXFULL.set();
    assert!(without_memory(|| can_count_by_cpu(&files, fd)), "there is");
    assert_eq!(Errno::last(), Errno::EXFULL);
}
