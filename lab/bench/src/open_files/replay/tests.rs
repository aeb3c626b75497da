use std::time::Duration;

use super::*;

/// A morning: a document is written, saved under its name, searched for, and deleted.
const MORNING: &str = r#"
# A comment, and an empty line before it.
Deltree "\clients\client1" NT_STATUS_OK
Mkdir "\clients" NT_STATUS_OK
NTCreateX "\clients\client1" 0x1 0x2 100 NT_STATUS_OK
Close 100 NT_STATUS_OK
QUERY_PATH_INFORMATION "\clients\client1\MEMO.DOC" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND
QUERY_PATH_INFORMATION "\clients\client1\OLD\MEMO.DOC" 1004 NT_STATUS_OBJECT_PATH_NOT_FOUND
NTCreateX "\clients\client1\MEMO.DOC" 0x40 0x1 101 NT_STATUS_OBJECT_NAME_NOT_FOUND
FIND_FIRST "\clients\client1\<.DOC" 260 1366 0 NT_STATUS_NO_SUCH_FILE
0.125 NTCreateX "\clients\client1\MEMO.TMP" 0x40 0x2 102 NT_STATUS_OK
0.250 WriteX 102 0 5000 5000 NT_STATUS_OK
WriteX 102 5000 0x10 16 NT_STATUS_OK
ReadX 102 4096 4096 920 NT_STATUS_OK
LockX 102 2147483538 1 NT_STATUS_OK
UnlockX 102 2147483538 1 NT_STATUS_OK
Flush 102 NT_STATUS_OK
QUERY_FILE_INFORMATION 102 258 NT_STATUS_OK
SET_FILE_INFORMATION 102 1004 NT_STATUS_OK
Rename "\clients\client1\MEMO.TMP" "\clients\client1\MEMO.DOC" NT_STATUS_OK
NTCreateX "\clients\client1\MEMO.DOC" 0x40 0x2 103 NT_STATUS_OBJECT_NAME_COLLISION
NTCreateX "\clients\client1\MEMO.DOC" 0x0 0x1 104 NT_STATUS_OK
Close 102 NT_STATUS_OK
NTCreateX "\clients\client1" 0x0 0x1 105 NT_STATUS_OK
QUERY_FS_INFORMATION 259 NT_STATUS_OK
FIND_FIRST "\clients\client1\memo.*" 260 1366 1 NT_STATUS_OK
FIND_FIRST "\clients\client1\*" 260 1366 3 NT_STATUS_OK
Unlink "\clients\client1\MEMO.DOC" 0x6 NT_STATUS_OK
Close 104 NT_STATUS_OK
Close 105 NT_STATUS_OK
NTCreateX "\clients\client1\OLD" 0x1 0x3 106 NT_STATUS_OK
Close 106 NT_STATUS_OK
Rmdir "\clients\client1\OLD" NT_STATUS_OK
Deltree "\clients\client1" NT_STATUS_OK
"#;

fn run(text: &str, clients: usize, until: Until) -> anyhow::Result<Outcome> {
    replay(
        &Loadfile::parse(text).unwrap(),
        clients,
        &Arc::default(),
        until,
    )
}

/// Returns the error of a morning in which `line` is read as `other`.
fn error_of(line: &str, other: &str) -> String {
    assert!(MORNING.contains(line), "{line}");
    let error = run(&MORNING.replace(line, other), 1, Until::Passes(1)).unwrap_err();
    format!("{error:#}")
}

#[test]
fn every_client_does_every_line_in_its_own_directory() {
    let outcome = run(MORNING, 5, Until::Passes(7)).unwrap();
    assert_eq!(outcome.operations, 5 * 7 * 32);
    // Five files and directories that are opened, and three searches.
    assert_eq!((outcome.opens, outcome.closes), (5 * 7 * 8, 5 * 7 * 8));
    assert_eq!(outcome.bytes, 5 * 7 * (5000 + 16 + 920));
}

#[test]
fn each_client_writes_only_its_own_directory() {
    let text = r#"
        Mkdir "\clients" NT_STATUS_OK
        Mkdir "\clients\client1" NT_STATUS_OK
        NTCreateX "\clients\client1\a" 0x40 0x2 1 NT_STATUS_OK
    "#;
    let fs = Arc::new(MemFs::default());
    replay(&Loadfile::parse(text).unwrap(), 3, &fs, Until::Passes(1)).unwrap();
    for client in ["client1", "client2", "client3"] {
        assert!(fs.stat(format!("/clients/{client}/a")).is_ok(), "{client}");
    }
    assert_eq!(fs.stat("/clients").unwrap().size, 3);
}

#[test]
fn handles_left_open_are_closed_after_each_pass() {
    let text = r#"NTCreateX "\shared" 0x40 0x3 1 NT_STATUS_OK"#;
    let outcome = run(text, 2, Until::Passes(9)).unwrap();
    assert_eq!((outcome.opens, outcome.closes), (18, 18));
}

#[test]
fn a_run_of_some_time_ends_within_a_pass() {
    let time = Duration::from_millis(30);
    let outcome = run(MORNING, 2, Until::Elapsed(time)).unwrap();
    assert!(outcome.wall >= time);
    assert_eq!(outcome.opens, outcome.closes);
    assert!(outcome.operations >= 32);
}

#[test]
fn a_result_that_differs_from_the_recorded_one_is_an_error_with_its_line() {
    for (line, other, expected) in [
        (
            "OLD\\MEMO.DOC\" 1004 NT_STATUS_OBJECT_PATH_NOT_FOUND",
            "OLD\\MEMO.DOC\" 1004 NT_STATUS_OK",
            "client 1: line 8: the result is Err(ENOENT), and should be NT_STATUS_OK with 0",
        ),
        (
            "4096 920 NT",
            "4096 4096 NT",
            "client 1: line 14: the result is Ok(920), and should be NT_STATUS_OK with 4096",
        ),
        (
            "NTCreateX \"\\clients\\client1\\MEMO.DOC\" 0x40 0x1 101",
            "NTCreateX \"\\clients\\client1\" 0x0 0x1 101",
            "client 1: line 9: the result is Ok(0), and should be \
             NT_STATUS_OBJECT_NAME_NOT_FOUND with 0",
        ),
        (
            "memo.*\" 260 1366 1",
            "memo.*\" 260 1366 2",
            "client 1: line 26: the result is Ok(1), and should be NT_STATUS_OK with 2",
        ),
    ] {
        assert_eq!(error_of(line, other), expected);
    }
}

#[test]
fn a_load_without_a_client_a_pass_or_a_line_is_refused() {
    assert!(run(MORNING, 0, Until::Passes(1)).is_err());
    assert!(run(MORNING, 1, Until::Passes(0)).is_err());
    assert!(run("# nothing", 1, Until::Passes(1)).is_err());
}
