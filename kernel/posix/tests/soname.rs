//! The name of the shared library, which cargo builds beside the tests.

use std::env;
use std::process::Command;

#[test]
fn the_soname_has_the_version_with_which_symbols_may_change() {
    let version = env!("CARGO_PKG_VERSION");
    let (major, rest) = version.split_once('.').unwrap();
    let (minor, _) = rest.split_once('.').unwrap();
    let expected = match major {
        "0" => format!("libfdtable-posix.so.0.{minor}"),
        _ => format!("libfdtable-posix.so.{major}"),
    };
    let library = env::current_exe().unwrap();
    let library = library.with_file_name("libfdtable_posix.so");
    let done = Command::new("readelf").arg("-d").arg(library).output();
    let dynamic = String::from_utf8(done.expect("readelf is installed").stdout).unwrap();
    let (_, soname) = dynamic.split_once("soname: [").unwrap();
    assert_eq!(soname.split_once(']').unwrap().0, expected);
}
