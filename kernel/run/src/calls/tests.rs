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

/// Calls without descriptors, which the host makes as they are.
const PASSED_ON: &[&str] = &[
    "mprotect",
    "munmap",
    "mremap",
    "msync",
    "mincore",
    "madvise",
    "shmget",
    "shmat",
    "shmctl",
    "semget",
    "semctl",
    "shmdt",
    "msgget",
    "msgctl",
    "mlock",
    "munlock",
    "mlockall",
    "munlockall",
    "remap_file_pages",
    "mbind",
    "set_mempolicy",
    "get_mempolicy",
    "mq_unlink",
    "migrate_pages",
    "move_pages",
    "process_vm_readv",
    "process_vm_writev",
    "membarrier",
    "mlock2",
    "pkey_mprotect",
    "pkey_alloc",
    "pkey_free",
    "set_mempolicy_home_node",
    "getpid",
    "kill",
    "ptrace",
    "getuid",
    "getgid",
    "geteuid",
    "getegid",
    "setpgid",
    "getppid",
    "setsid",
    "getgroups",
    "getresuid",
    "getresgid",
    "getpgid",
    "getsid",
    "capget",
    "rt_sigpending",
    "rt_sigqueueinfo",
    "personality",
    "gettid",
    "tkill",
    "restart_syscall",
    "tgkill",
    "unshare",
    "set_robust_list",
    "get_robust_list",
    "rt_tgsigqueueinfo",
    "sched_yield",
    "getitimer",
    "setitimer",
    "gettimeofday",
    "getrusage",
    "times",
    "getpriority",
    "setpriority",
    "sched_setparam",
    "sched_getparam",
    "sched_setscheduler",
    "sched_getscheduler",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_rr_get_interval",
    "adjtimex",
    "settimeofday",
    "sched_setaffinity",
    "sched_getaffinity",
    "timer_settime",
    "timer_gettime",
    "timer_getoverrun",
    "clock_settime",
    "clock_gettime",
    "clock_getres",
    "ioprio_set",
    "ioprio_get",
    "clock_adjtime",
    "getcpu",
    "sched_setattr",
    "sched_getattr",
    "uname",
    "sysinfo",
    "syslog",
    "vhangup",
    "pivot_root",
    "chroot",
    "acct",
    "mount",
    "umount2",
    "swapon",
    "swapoff",
    "reboot",
    "sethostname",
    "setdomainname",
    "init_module",
    "delete_module",
    "quotactl",
    "kexec_load",
    "add_key",
    "request_key",
    "keyctl",
    "getrandom",
    "alarm",
    "getpgrp",
    "ustat",
    "sysfs",
    "modify_ldt",
    "iopl",
    "ioperm",
    "set_thread_area",
    "get_thread_area",
    "time",
];

/// Calls that no kernel has any more.
const OBSOLETE: &[&str] = &[
    "nfsservctl",
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
        let is_known = PASSED_ON.contains(&name) || OBSOLETE.contains(&name);
        assert!(is_known || is_in_sources(name), "{name}");
    }
}
