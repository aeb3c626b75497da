//! The manual page.

use std::collections::BTreeSet;

use crate::compile::try_run;
use crate::symbols::declared;

const PAGE: &str = include_str!("../../man/fdtable.3");

#[test]
fn the_manual_page_names_the_functions_of_the_header() {
    let words = PAGE.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named: BTreeSet<&str> = words.filter(|word| word.starts_with("fdt_")).collect();
    let types = BTreeSet::from([
        "fdt_callback",
        "fdt_file",
        "fdt_reservation",
        "fdt_section",
        "fdt_table",
    ]);
    assert_eq!(&named - &types, declared());
}

#[test]
fn the_manual_page_is_formatted_without_a_warning() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/man/fdtable.3");
    if try_run("groff", &["--version"]).is_err() {
        eprintln!("skipped: groff is not installed");
        return;
    }
    let arguments = ["-man", "-Tutf8", "-ww", "-z", path];
    let done = std::process::Command::new("groff").args(arguments).output();
    let warnings = String::from_utf8(done.unwrap().stderr).unwrap();
    assert_eq!(warnings, "");
}
