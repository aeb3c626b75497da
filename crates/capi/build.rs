//! Sets the soname of the shared library. It has the part of the version with which symbols may
//! change or go: the minor one before 1.0, the major one from then on.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let part = |name: &str| env::var(format!("CARGO_PKG_VERSION_{name}")).expect("set by cargo");
    let abi = match part("MAJOR").as_str() {
        "0" => format!("0.{}", part("MINOR")),
        major => major.to_owned(),
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfdtable.so.{abi}");
}
