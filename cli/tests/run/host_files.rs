//! Files of the host by the links to their descriptors, their record locks, and closed descriptors.

use super::one_kernel::same_script;
use super::{OURS, folder, run, same_program, shown};

#[test]
fn links_to_descriptors_and_record_locks_of_host_files_are_as_on_the_host() {
    same_program("host_files", &[]);
}

#[test]
fn a_standard_descriptor_that_is_closed_stays_closed() {
    for (closed, script) in [
        (
            "<&-",
            "cat; exec 7</dev/null; test -e /proc/$$/fd/0; echo $?",
        ),
        (">&-", "echo x; echo $? >&2"),
        ("2>&-", "echo x >&2; echo $?"),
        ("<&- >&- 2>&-", "cat || exit 3"),
    ] {
        let here = folder("closed");
        let closes = format!("exec \"$@\" {closed}");
        let before = ["sh", "-c", &closes, "sh"];
        let [host, ours] = [&[][..], &OURS[..]].map(|prefix| {
            let prefix = [&before[..], prefix].concat();
            shown(&run(&prefix, &["sh", "-c", script], &here))
        });
        assert_eq!(ours, host, "{closed}");
    }
}

#[test]
fn descriptors_of_other_processes_are_theirs() {
    same_script(
        "descriptors-of-others",
        &["realpath"],
        "rm -f begun three; echo one >one; echo two >two; exec 3<one 4<.
         cat /proc/self/fd/3 /dev/fd/3 <&3; cat /proc/$$/fd/3 /proc/$$/fd/4/two
         readlink /proc/$$/fd/3 /proc/self/fd/4; cat /proc/self/fd/4/one
         realpath /dev/stdin /proc/self/fd/3 <two; basename -a /proc/$$/fd/[34]
         bash -c 'exec 7<two 8>>three; echo $$ >begun; exec sleep 100' &
         until [ -s begun ]; do sleep 0.01; done; pid=$(cat begun)
         until [ $(cat /proc/$pid/comm) = sleep ]; do sleep 0.01; done
         readlink /proc/$pid/fd/7; cat /proc/$pid/fd/7 /proc/$pid/fd/4/one; basename -a /proc/$pid/fd/[78]
         echo more >/proc/$pid/fd/8; cat three; grep flags /proc/$pid/fdinfo/8
         echo in memory >$MEMORY/m; exec 9<$MEMORY/m
         bash -c 'cat /proc/$PPID/fd/9; readlink /proc/$PPID/fd/9' | tail -c 3
         kill $pid; wait; ls /proc/$pid/fd 2>/dev/null || echo gone",
    );
}

#[test]
fn what_is_executed_by_a_descriptor_is_as_on_the_host() {
    same_program("by_descriptor", &[]);
}
