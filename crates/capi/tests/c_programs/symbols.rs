//! The names that the libraries have for others.

use std::collections::BTreeSet;

use crate::compile::{run, shared_library, static_library, text};

pub(crate) const HEADER: &str = include_str!("../../include/fdtable/table.h");

/// Returns the functions that the header declares.
pub(crate) fn declared() -> BTreeSet<&'static str> {
    HEADER
        .lines()
        .filter(|line| !line.starts_with("//") && !line.starts_with([' ', '#']))
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("fdt_"))
        .collect()
}

#[test]
fn the_shared_library_exports_the_functions_of_the_header_alone() {
    let listed = run(
        "nm",
        &["-D", "--defined-only", "-j", text(&shared_library())],
    );
    let exported: BTreeSet<&str> = listed.lines().collect();
    assert_eq!(exported, declared());
    assert!(exported.len() > 40, "{exported:?}");
}

/// Mangled names and weak ones cannot collide with a program's.
#[test]
fn the_static_library_has_no_other_plain_names_of_its_own() {
    let library = static_library();
    // Lines like `library.a:object.o:0000000000000000 T name`.
    let listed = run("nm", &["--defined-only", "-g", "-A", text(&library)]);
    let own: BTreeSet<&str> = listed
        .lines()
        .filter(|line| line.contains(":fdtable"))
        .filter_map(|line| line.rsplit_once(' '))
        .filter(|(before, _)| !before.ends_with(['V', 'W']))
        .map(|(_, name)| name)
        .filter(|name| !name.starts_with("_R") && !name.starts_with("_ZN"))
        .collect();
    assert_eq!(own, declared());
}

#[test]
fn the_soname_has_the_version_with_which_symbols_may_change() {
    let version = env!("CARGO_PKG_VERSION");
    let (major, rest) = version.split_once('.').unwrap();
    let (minor, _) = rest.split_once('.').unwrap();
    let expected = match major {
        "0" => format!("libfdtable.so.0.{minor}"),
        _ => format!("libfdtable.so.{major}"),
    };
    let dynamic = run("readelf", &["-d", text(&shared_library())]);
    assert!(
        dynamic.contains(&format!("soname: [{expected}]")),
        "{dynamic}"
    );
}
