use std::fs;

/// The dispatcher, and the calls that only the host has.
const SOURCES: [&str; 6] = [
    include_str!("../calls.rs"),
    include_str!("files.rs"),
    include_str!("mappings.rs"),
    include_str!("threads.rs"),
    include_str!("waits.rs"),
    include_str!("../../../posix/src/passthrough.rs"),
];

/// Calls that return `ENOSYS`.
const REFUSED: &[&str] = &[
    "io_setup",
    "io_destroy",
    "io_getevents",
    "io_submit",
    "io_cancel",
    "io_pgetevents",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "bpf",
    "fanotify_init",
    "fanotify_mark",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
    "kcmp",
    "kexec_file_load",
    "lookup_dcookie",
    "nfsservctl",
    "uselib",
    "_sysctl",
    "create_module",
    "get_kernel_syms",
    "query_module",
    "getpmsg",
    "putpmsg",
    "afs_syscall",
    "tuxcall",
    "security",
    "epoll_ctl_old",
    "epoll_wait_old",
    "vserver",
];

#[test]
fn every_number_of_the_system_header_is_classified() {
    let path = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";
    let Ok(header) = fs::read_to_string(path) else {
        eprintln!("{path} is missing");
        return;
    };
    let names: Vec<_> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define __NR_"))
        .filter_map(|rest| rest.split_whitespace().next())
        .collect();
    assert!(names.len() > 300, "{path} has few names");
    let is_in_sources = |name: &str| {
        let is_whole = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let number = format!("SYS_{name}");
        let mut sources = SOURCES.iter();
        sources.any(|text| text.split(&number).skip(1).any(is_whole))
    };
    for name in names {
        let is_refused = REFUSED.contains(&name);
        assert!(is_refused != is_in_sources(name), "{name}: {is_refused}");
    }
}
