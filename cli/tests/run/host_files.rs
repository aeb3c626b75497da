//! Record locks of files of the host, and descriptors 0, 1 and 2 that are closed at the start.

use super::{OURS, folder, run, same_program, shown};

#[test]
fn record_locks_of_host_files_end_as_on_the_host() {
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
