//! `chat` end to end: the experiment runs the program for profiles.

use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fdtable");

#[cfg(feature = "profile")]
#[test]
fn a_small_run_has_a_profile_of_every_table() {
    use fdtable_bench::chat::Chat;
    use fdtable_bench::experiment::{Experiment, Silent};
    use fdtable_bench::machine::Machine;

    let _turn = crate::turn();
    let small = Chat {
        rooms: 4,
        users: 10,
        // Some 200 samples: a tenth of them are in lookups under a lock.
        messages: 2000,
        message_bytes: 100,
        rounds: 1,
        profiles: 1,
        program: Some(PROGRAM.into()),
    };
    let report = small.measure(Machine::observe(), &Silent).unwrap();
    let profiles = report.rows.iter().filter(|row| row["samples"].is_u64());
    assert_eq!(profiles.count(), 3, "{:#?}", report.remarks);
    let value = |key: &str| {
        let figure = report.headline.iter().find(|figure| figure.key == key);
        figure.unwrap_or_else(|| panic!("{key} is missing")).value
    };
    // A lookup is found by its name, on either kind of table.
    for key in ["chat.lookup_share", "chat.files_struct_lookup_share"] {
        assert!((0.0..0.9).contains(&value(key)), "{key}: {}", value(key));
    }
    assert!(value("chat.files_struct_lookup_share") > 0.0);
    assert_eq!(report.plots.len(), 2);
}

#[test]
fn an_invalid_profile_request_is_an_error() {
    let output = Command::new(PROGRAM)
        .args(["part", r#"{"chat":"nothing"}"#])
        .output()
        .expect("the program starts");
    assert!(!output.status.success());
}
