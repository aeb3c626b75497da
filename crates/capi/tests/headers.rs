//! Checks that the headers match the sources.
//!
//! `FDTABLE_BLESS=1 cargo test -p fdtable-capi --test headers` writes them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The sources whose functions and types the header of the table has.
const TABLE: &[&str] = &[
    "table",
    "table/sections",
    "table/data",
    "table/at",
    "table/several",
    "table/weak",
    "table/private",
];

/// The source of the header for kernels.
const PLATFORM: &[&str] = &["freestanding"];

#[test]
fn headers_are_those_of_the_sources() {
    compare("include/fdtable/table.h", &header("cbindgen.toml", TABLE));
    let platform = header("cbindgen-platform.toml", PLATFORM);
    compare("include/fdtable/platform.h", &platform);
}

/// A C compiler accepts the headers, also without a C library.
#[test]
fn headers_compile() {
    for mode in [
        &["-xc"][..],
        &["-xc", "-std=c99", "-pedantic"],
        &["-xc", "-ffreestanding", "-nostdlib"],
        &["-xc++"],
    ] {
        let compiled = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-Iinclude"])
            .args(mode)
            .arg("tests/headers.c")
            .current_dir(path(""))
            .status();
        assert!(compiled.expect("a C compiler").success(), "{mode:?}");
    }
}

/// Generates a header with cbindgen.
fn header(config: &str, sources: &[&str]) -> String {
    let config = cbindgen::Config::from_file(path(config)).unwrap();
    let builder = cbindgen::Builder::new().with_config(config);
    let with = |builder: cbindgen::Builder, source: &&str| {
        builder.with_src(path(format!("src/{source}.rs")))
    };
    let bindings = sources.iter().fold(builder, with).generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).unwrap();
    text.replace("[`", "`").replace("`]", "`")
}

fn compare(file: &str, made: &str) {
    let file = path(file);
    if env::var_os("FDTABLE_BLESS").is_some() {
        fs::write(&file, made).unwrap();
    }
    let checked_in = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        checked_in == made,
        "{} is old: FDTABLE_BLESS=1 cargo test -p fdtable-capi --test headers",
        file.display()
    );
}

fn path(file: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}
