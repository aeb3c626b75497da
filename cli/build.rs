//! Links the program so that its processes can share the statics of the kernel, see
//! `kernel/shm/shared-statics.ld`, and so that its code can be in large pages.

use std::path::Path;

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let script = Path::new(&here).join("../kernel/shm/shared-statics.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    println!("cargo::rustc-link-arg-bins=-Wl,-z,max-page-size=0x200000");
}
