//! C programs that use the plain table, with the static library that cargo builds beside the tests.

mod compile;
mod freed;
#[cfg(feature = "debug")]
mod misuse;
mod operations;

#[test]
fn the_soname_has_the_version_with_which_symbols_may_change() {
    let version = env!("CARGO_PKG_VERSION");
    let (major, rest) = version.split_once('.').unwrap();
    let (minor, _) = rest.split_once('.').unwrap();
    let expected = match major {
        "0" => format!("libfdtable.so.0.{minor}"),
        _ => format!("libfdtable.so.{major}"),
    };
    assert_eq!(compile::soname(), expected);
}
