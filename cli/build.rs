//! Links the program so that its processes can share the statics of the kernel, see
//! `kernel/shm/shared-statics.ld`, so that its code can be in large pages, and
//! with few libraries.

use std::path::Path;

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let script = Path::new(&here).join("../kernel/shm/shared-statics.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    println!("cargo::rustc-link-arg-bins=-Wl,-z,max-page-size=0x200000");
    // The program has the unwinder in itself: as a library, each start would map and initialize it,
    // and each fork would copy its mappings.
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("libgcc_s.so"), "INPUT ( -lgcc_eh )\n").expect("a script");
    println!("cargo::rustc-link-search=native={out}");
}
