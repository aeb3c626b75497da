use super::*;

fn error(text: &str) -> String {
    format!("{:#}", parse(text).unwrap_err())
}

#[test]
fn a_line_is_an_operation_with_its_arguments_and_status() {
    let text = r#"
        NTCreateX "\clients\client1\a b" 0x40 0x5 9938 NT_STATUS_OK
        WriteX 9938 65534 0x10 16 NT_STATUS_OK
        Rename "\clients\client1\a b" "\clients\client1\c" NT_STATUS_OK
    "#;
    let loadfile = parse(text).unwrap();
    let [create, write, rename] = loadfile.lines() else {
        panic!("{loadfile:?}")
    };
    let expected = Operation::Create {
        path: 0,
        kind: Kind::File,
        disposition: Disposition::OverwriteIf,
        slot: Some(0),
    };
    assert_eq!((create.number, create.operation), (2, expected));
    let expected = Operation::Write {
        slot: 0,
        offset: 65534,
        count: 16,
    };
    assert_eq!((write.operation, write.count), (expected, 16));
    assert_eq!(rename.operation, Operation::Rename { from: 0, to: 1 });
    assert_eq!(
        loadfile.paths_of("client7"),
        ["/clients/client7/a b", "/clients/client7/c"]
    );
}

#[test]
fn the_slot_of_a_closed_handle_is_used_again() {
    let mut text = String::new();
    for handle in 1..100 {
        text += &format!("NTCreateX \"\\a\" 0x0 0x1 {handle} NT_STATUS_OK\n");
        if handle > 2 {
            text += &format!("Close {} NT_STATUS_OK\n", handle - 2);
        }
    }
    assert_eq!(parse(&text).unwrap().slots(), 3);
}

#[test]
fn a_failed_open_takes_no_slot() {
    let text = "NTCreateX \"\\a\" 0x40 0x1 7 NT_STATUS_OBJECT_NAME_NOT_FOUND";
    let loadfile = parse(text).unwrap();
    assert_eq!(loadfile.slots(), 0);
}

#[test]
fn a_search_is_a_directory_and_a_pattern() {
    let text = r#"FIND_FIRST "\clients\client1\<.J>K" 260 1366 0 NT_STATUS_NO_SUCH_FILE"#;
    let loadfile = parse(text).unwrap();
    assert_eq!(loadfile.paths_of("client1"), ["/clients/client1"]);
    for (name, matches) in [("a.jxk", true), ("A.B.JJK", true), ("a.jk", false)] {
        assert_eq!(loadfile.pattern(0).matches(name), matches, "{name}");
    }
}

#[test]
fn an_invalid_line_is_named_in_the_error() {
    let ok = "Mkdir \"\\a\" NT_STATUS_OK\n";
    for (line, expected) in [
        (
            "Sleep 5 NT_STATUS_OK",
            "Sleep with 1 arguments is not known",
        ),
        (
            "Close 5 6 NT_STATUS_OK",
            "Close with 2 arguments is not known",
        ),
        ("Mkdir", "Mkdir stands alone"),
        ("Mkdir \"\\a\"", "\\a at the end is no status"),
        (
            "Mkdir \"\\a\" NT_STATUS_WHAT",
            "status NT_STATUS_WHAT is not known",
        ),
        ("Mkdir \"\\a NT_STATUS_OK", "a quote is open"),
        ("Mkdir a NT_STATUS_OK", "a is no path from the root"),
        ("Flush 7 NT_STATUS_OK", "handle 7 is not open"),
        ("Close x NT_STATUS_OK", "x is no number, or too large"),
        (
            "NTCreateX \"\\a\" 0x0 0x6 1 NT_STATUS_OK",
            "create disposition 6 is not known",
        ),
    ] {
        assert_eq!(error(&format!("{ok}{line}")), format!("line 2: {expected}"));
    }
    let twice = "NTCreateX \"\\a\" 0x0 0x1 5 NT_STATUS_OK\n".repeat(2);
    assert_eq!(error(&twice), "line 2: handle 5 is open already");
    let large = "ReadX 0 0 0x100000000 0 NT_STATUS_OK";
    assert_eq!(
        error(large),
        "line 1: 0x100000000 is no number, or too large"
    );
}

#[test]
fn a_file_that_is_not_there_is_an_error_only_if_it_was_named() {
    let nowhere = std::path::Path::new("/nowhere/client.txt");
    let error = Loadfile::find(Some(nowhere)).unwrap_err();
    assert!(format!("{error:#}").starts_with("load file /nowhere/client.txt: "));
    let usual = std::path::Path::new(super::super::USUAL_PLACE);
    assert_eq!(Loadfile::find(None).unwrap().is_some(), usual.exists());
}
