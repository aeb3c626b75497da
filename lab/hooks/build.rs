//! Tells the tests that this package shares with `fdtable` to link the platform.

fn main() {
    println!("cargo::rustc-cfg=hooks");
    println!("cargo::rerun-if-changed=build.rs");
}
