//! What the first call of a process does. Each test of this file would be the first: there is one.

use fdtable_posix::fdt_umask;

#[test]
fn the_first_umask_tells_what_the_process_had() {
    // SAFETY: it touches no memory.
    unsafe { libc::umask(0o27) };
    assert_eq!(fdt_umask(0o77), 0o27);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::umask(0o22) }, 0o77);
}
