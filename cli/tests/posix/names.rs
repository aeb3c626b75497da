//! Maps checks to calls.

/// The call behind each helper function of the program.
const HELPERS: &[(&str, &str)] = &[
    ("mode_of", "fstat"),
    ("file", "open"),
    ("file_text", "read"),
    ("read_text", "read"),
    ("ask", "fcntl"),
    ("obstacle", "fcntl"),
    ("add", "epoll_ctl"),
    ("modify", "epoll_ctl"),
    ("ready", "epoll_wait"),
    ("ready_within", "epoll_wait"),
    ("shown", "read"),
    ("events_of", "poll"),
    ("bits", "select"),
    ("datagrams", "socket"),
    ("listener", "listen"),
    ("streams", "accept"),
    ("blocks", "fstat"),
    ("open_numbers", "fcntl"),
    ("line_of", "fopen"),
    ("cloexec_numbers", "fcntl"),
    ("send_descriptors", "sendmsg"),
    ("receive_descriptors", "recvmsg"),
    ("have", "capset"),
    ("send_credentials", "sendmsg"),
    ("sender_of", "recvmsg"),
    ("owner", "fcntl"),
    ("set_owner", "fcntl"),
    ("request", "ioctl"),
    ("pending", "fcntl"),
    ("restricted", "openat2"),
];

/// Functions in checks that are not part of the interface: libc's own.
const OTHERS: &[&str] = &[
    "strcmp",
    "strncmp",
    "strstr",
    "memcmp",
    "labs",
    "time",
    "same_time",
    "later",
    "now_ms",
    "seen_signals",
    "atoi",
    "wait_for",
    "mapped",
    "fault_of",
    "is_touched",
    "rest",
    "getpid",
    "getpgrp",
    "geteuid",
    "getegid",
    "mprotect",
    "msync",
    "munmap",
    "strlen",
    "sizeof",
    "offsetof",
    "fputs",
    "fgets",
    "fgetc",
    "feof",
    "fprintf",
    "fflush",
    "fclose",
    "ftell",
    "fseek",
    "fputc",
    "ferror",
    "ungetc",
    "getchar",
    "setvbuf",
    "scanf",
];

/// Returns the call that a check is about: the first one in it that belongs to the interface.
pub(crate) fn call_of(check: &str) -> Option<&str> {
    let mut rest = check;
    while let Some(open) = rest.find('(') {
        let before = &rest[..open];
        let start = before
            .rfind(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .map_or(0, |at| at + 1);
        let name = &before[start..];
        if let Some((_, call)) = HELPERS.iter().find(|(helper, _)| *helper == name) {
            return Some(call);
        }
        if name.starts_with(|letter: char| letter.is_ascii_lowercase()) && !OTHERS.contains(&name) {
            return Some(name);
        }
        rest = &rest[open + 1..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::call_of;

    #[test]
    fn a_check_is_about_the_first_call_of_the_interface_in_it() {
        assert_eq!(
            call_of("(fcntl(3, F_GETFL) & O_NOATIME) == O_NOATIME"),
            Some("fcntl")
        );
        assert_eq!(call_of("mapped(mmap(NULL, 0, 0, 0, 3, 0))"), Some("mmap"));
        assert_eq!(
            call_of("strcmp(third, readdir(dir)->d_name)"),
            Some("readdir")
        );
        assert_eq!(call_of("ask(3, F_SETLK, F_WRLCK, 0, 5)"), Some("fcntl"));
        assert_eq!(call_of("st.st_mode"), None);
    }
}
