//! Links the kernel by its own script, without a C library.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo::rerun-if-changed=kernel.ld");
    println!("cargo::rustc-link-arg-bins=-T{folder}/kernel.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        for argument in [
            "-nostartfiles",
            "-nostdlib",
            "-static",
            "-no-pie",
            "-Wl,--build-id=none",
        ] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
