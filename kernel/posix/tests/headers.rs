//! Checks that the header is the one of the sources.
//!
//! `FDTABLE_BLESS=1 cargo test -p fdtable-posix --test headers` writes it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[test]
fn the_header_is_that_of_the_sources() {
    let made = calls_h();
    let file = path("include/fdtable-posix.h");
    if env::var_os("FDTABLE_BLESS").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let checked_in = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        checked_in == made,
        "{} is old: FDTABLE_BLESS=1 cargo test -p fdtable-posix --test headers",
        file.display()
    );
}

/// A C and a C++ compiler accept the header, in every mode of the system's headers, before them and
/// after them.
#[test]
fn the_header_compiles() {
    let modes: [&[&str]; 5] = [
        &[],
        &["-std=c99"],
        &["-D_GNU_SOURCE"],
        &["-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64"],
        &[
            "-D_GNU_SOURCE",
            "-D_FILE_OFFSET_BITS=64",
            "-O2",
            "-D_FORTIFY_SOURCE=2",
        ],
    ];
    for mode in modes {
        for how in [&[][..], &["-DAFTER"], &["-xc++"], &["-xc++", "-DAFTER"]] {
            let is_of_c = mode == ["-std=c99"] && how.contains(&"-xc++");
            if !is_of_c {
                compile("header.c", how, mode);
            }
        }
    }
}

fn compile(source: &str, how: &[&str], mode: &[&str]) {
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-Iinclude"])
        .args(mode)
        .args(how)
        .arg(Path::new("tests").join(source))
        .current_dir(path(""))
        .status();
    assert!(
        compiled.expect("a C compiler").success(),
        "{source} {how:?} {mode:?}"
    );
}

/// Generates the header with cbindgen.
fn calls_h() -> String {
    let root = path("");
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_crate(&root)
        .with_config(config)
        .generate()
        .unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    // cbindgen writes another name of this type, and C programs use this one.
    let text = String::from_utf8(text)
        .unwrap()
        .replace("ptrdiff_t", "ssize_t");
    text.replace("[`", "`").replace("`]", "`")
}

fn path(file: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}
