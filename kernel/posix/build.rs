//! Sets the soname of the shared library. It has the part of the version with which symbols may
//! change or go: the minor one before 1.0, the major one from then on. Links the test whose
//! processes share statics.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let part = |name: &str| env::var(format!("CARGO_PKG_VERSION_{name}")).expect("set by cargo");
    let abi = match part("MAJOR").as_str() {
        "0" => format!("0.{}", part("MINOR")),
        major => major.to_owned(),
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfdtable-posix.so.{abi}");
    let here = env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let script = Path::new(&here).join("../shm/shared-statics.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rustc-link-arg-tests=-Wl,-T,{}", script.display());
}
