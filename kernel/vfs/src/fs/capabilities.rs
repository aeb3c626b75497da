//! Capabilities: the privileges of user 0, one by one.

bitflags::bitflags! {
    /// Capabilities that the system calls here check, with the values of Linux. `capabilities(7)`
    /// describes each of them. In Linux: `kernel_cap_t`.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub struct Capabilities: u32 {
        /// Changes owner and group of any file.
        const CHOWN = 1 << 0;
        /// Passes the checks of permission bits, except for execution of a file that no user may
        /// execute.
        const DAC_OVERRIDE = 1 << 1;
        /// Reads any file, and reads and searches any directory.
        const DAC_READ_SEARCH = 1 << 2;
        /// Acts as the owner of any file: `chmod`, `utimensat`, sticky directories.
        const FOWNER = 1 << 3;
        /// Keeps the set-ID bits of files that it changes.
        const FSETID = 1 << 4;
        /// Sends any group in the credentials of a message.
        const SETGID = 1 << 6;
        /// Sends any user in the credentials of a message.
        const SETUID = 1 << 7;
        /// Sets every option of a socket.
        const NET_ADMIN = 1 << 12;
        /// Sets the priority and the mark of a socket.
        const NET_RAW = 1 << 13;
        /// Mounts, and sends any process ID in the credentials of a message.
        const SYS_ADMIN = 1 << 21;
        /// Raises limits.
        const SYS_RESOURCE = 1 << 24;
    }
}
