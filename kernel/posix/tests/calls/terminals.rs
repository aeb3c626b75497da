//! Terminal functions, for which the C library would use the host's descriptors.

use std::mem::MaybeUninit;
use std::ptr;

use fdtable_posix::*;

#[test]
fn terminal_calls_translate_our_descriptor() {
    // Makes our descriptors differ from the host's.
    let others: Vec<i32> = (0..30).map(|_| fdt_eventfd(0, 0)).collect();
    let fd = fdt_posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
    if fd < 0 {
        // The machine has no terminals.
        return;
    }
    assert_eq!(
        (fdt_isatty(fd), fdt_grantpt(fd), fdt_unlockpt(fd)),
        (1, 0, 0)
    );
    assert!(!fdt_ptsname(fd).is_null());
    let mut settings = MaybeUninit::uninit();
    // SAFETY: there is room for the settings.
    assert_eq!(unsafe { fdt_tcgetattr(fd, settings.as_mut_ptr()) }, 0);
    // SAFETY: the call has initialized them.
    let set = unsafe { fdt_tcsetattr(fd, libc::TCSANOW, settings.as_ptr()) };
    assert_eq!(set, 0);
    assert_eq!(fdt_tcflush(fd, libc::TCIOFLUSH), 0);
    // SAFETY: nothing is written for a file that is not a terminal.
    assert_eq!(unsafe { fdt_tcgetattr(others[0], ptr::null_mut()) }, -1);
    assert_eq!(
        std::io::Error::last_os_error().raw_os_error(),
        Some(libc::ENOTTY)
    );
    for fd in others.into_iter().chain([fd]) {
        assert_eq!(fdt_close(fd), 0);
    }
}
