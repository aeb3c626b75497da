//! Rare forms of calls, beside the host: ends of processes, flags of `clone`, addresses and
//! arguments that are not valid.

use std::fs;
use std::path::Path;

use super::{OURS, compiled, folder, run, same_program, shown};

#[test]
fn processes_and_threads_that_exit_by_the_system_call_end_as_on_the_host() {
    same_program("ends", &[]);
}

#[test]
fn an_address_that_cannot_be_accessed_is_reported_as_on_the_host() {
    same_program("faulty", &[]);
}

#[test]
fn what_is_cut_short_ends_as_on_the_host() {
    same_program("cut", &[]);
}

#[test]
fn flags_of_clone_are_served_or_refused_as_on_the_host() {
    same_program("clones", &[]);
}

#[test]
fn peers_of_sockets_are_those_of_the_host() {
    same_program("peers", &[]);
}

#[test]
fn rare_arguments_are_answered_as_on_the_host() {
    let program = compiled("corners", &[]);
    let words = [program.to_str().expect("a path")];
    let host = shown(&run(&[], &words, &folder("corners")));
    for options in [&[][..], &["--overlay", "."]] {
        let ours = [&OURS[..], options].concat();
        let output = run(&ours, &words, &folder("corners"));
        assert_eq!(shown(&output), host, "{options:?}");
    }
}

#[test]
fn a_link_between_memory_and_the_host_fails_as_between_two_file_systems() {
    let program = compiled("across", &[]);
    let program = program.to_str().expect("a path");
    let other = Path::new("/dev/shm").join(format!("fdtable-across-{}", std::process::id()));
    if fs::create_dir(&other).is_err() {
        eprintln!("not writable: /dev/shm");
        return;
    }
    let words = [program, other.to_str().expect("a path")];
    let host = shown(&run(&[], &words, &folder("across")));
    fs::remove_dir_all(&other).expect("the folder");
    let ours = shown(&run(&OURS, &[program, "/fdt"], &folder("across")));
    assert_eq!(ours, host);
}

#[test]
fn a_tunable_of_the_c_library_is_read_as_on_the_host() {
    // A loader of glibc reads beyond the last string of the environment.
    let program = ["env", "-i", "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX", "true"];
    let output = run(&OURS, &program, &folder("tunables"));
    assert_eq!(shown(&output), "Some(0)\n");
}
