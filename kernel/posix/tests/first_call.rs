//! Effects of the first call of a process. The file has only one test, because the first call is
//! made once.

use fdtable_posix::fdt_umask;

#[test]
fn the_first_umask_returns_that_of_the_process() {
    // SAFETY: the call takes no pointer.
    unsafe { libc::umask(0o27) };
    assert_eq!(fdt_umask(0o77), 0o27);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::umask(0o22) }, 0o77);
}
