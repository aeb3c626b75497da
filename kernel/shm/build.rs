//! Links the test whose processes share statics.

use std::path::Path;

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let script = Path::new(&here).join("shared-statics.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-link-arg-tests=-Wl,-T,{}", script.display());
    }
}
