//! Passes the version of the compiler to the library, for the head of each report.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=RUSTC");
    println!("cargo:rustc-env=FDTABLE_RUSTC={}", compiler_version());
}

/// Asks the compiler for its version line.
fn compiler_version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| "unknown".to_owned(), |line| line.trim().to_owned())
}
