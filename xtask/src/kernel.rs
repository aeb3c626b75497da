//! `kernel`: builds an example kernel, boots it in QEMU, and waits for its verdict.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::{End, Process};
use crate::steps::Verdict;
use crate::toolchain::{can_run, is_installed};
use crate::{Result, root, target};

/// Exit status of QEMU when the kernel writes 0x10 to its exit device.
const SUCCESS: i32 = 33;

/// How long the machine may run. It needs some seconds with 4 CPUs, half a minute with 16.
const LIMIT: Duration = Duration::from_secs(300);

/// The most bytes of code and constants in a program with the table for C: nearly all are its own.
const MOST_TEXT: u64 = 300_000;

/// The target of kernels, and the one that every machine has.
const BARE: &str = "x86_64-unknown-none";
const HOST: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn run(arguments: &[String]) -> Result {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (cpus, profile) = match words[..] {
        [] => ("4", "release"),
        ["--c"] => return boot_in_c()?.required(),
        ["--debug"] => ("4", "dev"),
        ["--cpus", cpus] => (cpus, "release"),
        ["--cpus", cpus, "--debug"] => (cpus, "dev"),
        _ => return Err("usage: cargo xtask kernel [--cpus N] [--debug], or --c".into()),
    };
    let cpus: u32 = cpus.parse()?;
    if !(1..=64).contains(&cpus) {
        return Err("the kernel knows 1 to 64 CPUs".into());
    }
    boot(cpus, profile)?.required()
}

/// Builds the kernel and boots it. Skipped where there is no QEMU.
pub(crate) fn boot(cpus: u32, profile: &str) -> Result<Verdict> {
    boot_in_qemu(cpus, || build(profile))
}

/// Builds the small program, and the kernel in C, and boots it. Skipped where there is no QEMU.
pub(crate) fn boot_in_c() -> Result<Verdict> {
    small_program()?;
    boot_in_qemu(1, build_in_c)
}

fn boot_in_qemu(cpus: u32, build: impl FnOnce() -> Result<PathBuf>) -> Result<Verdict> {
    if !can_run("qemu-system-x86_64") {
        let why = "no qemu-system-x86_64: Debian has it in qemu-system-x86";
        return Ok(Verdict::Skipped(why.to_owned()));
    }
    let kernel = build()?;
    let machine = Process::new("qemu-system-x86_64")
        .arg("-kernel")
        .arg(&kernel)
        .arg("-smp")
        .arg(cpus.to_string())
        .words("-m 1G -cpu max -accel tcg,thread=multi -display none -serial stdio -no-reboot")
        .words("-device isa-debug-exit,iobase=0xf4,iosize=4");
    match machine.limit(LIMIT).finish()?.end {
        End::Failure(status) if status.code() == Some(SUCCESS) => Ok(Verdict::Passed),
        End::TimedOut => Err("the kernel has not ended in time".into()),
        End::Success | End::Failure(_) => Err("the kernel has failed".into()),
    }
}

/// Fails if the kernel's source has a warning.
pub(crate) fn lint() -> Result {
    cargo("clippy", HOST).words("-- -D warnings").run()
}

fn build(profile: &str) -> Result<PathBuf> {
    let target = if is_installed(BARE) { BARE } else { HOST };
    cargo("build", target).args(["--profile", profile]).run()?;
    let profile = if profile == "dev" { "debug" } else { profile };
    Ok(folder().join(target).join(profile).join("fdtable-kernel"))
}

/// Builds the table for C without `std`, and links it with the kernel in C.
fn build_in_c() -> Result<PathBuf> {
    let library = library_in_c(if is_installed(BARE) { BARE } else { HOST })?;
    let kernel = folder().join("c-kernel");
    Process::new("cc")
        .directory(root().join("examples/c-kernel"))
        .words("-std=c11 -O2 -g -Wall -Wextra -Werror -ffreestanding -fno-pic -fno-stack-protector")
        .words("-mno-red-zone -nostdlib -static -no-pie -Wl,--build-id=none,--gc-sections")
        .words("-I../../crates/capi/include -T kernel.ld boot.S machine.c kernel.c")
        .args([&library, Path::new("-o"), &kernel])
        .run()?;
    Ok(kernel)
}

/// Runs a program with the table for C without `std`. Fails if it is larger than promised.
fn small_program() -> Result {
    let library = library_in_c(HOST)?;
    let program = folder().join("small-program");
    Process::new("cc")
        .directory(root().join("crates/capi/tests/c_table"))
        .words("-O2 -Wall -Wextra -Werror -I../../include -Wl,--gc-sections")
        .words("rarer.c libc_platform.c")
        .args([&library, Path::new("-o"), &program])
        .run()?;
    Process::new(&program).run()?;
    let sizes = Process::new("size").arg(&program).read()?;
    // The second line begins with the bytes of text.
    let line = sizes.lines().nth(1).unwrap_or_default();
    let text: u64 = line.split_whitespace().next().unwrap_or("none").parse()?;
    println!("a program with the table for C: {text} bytes of text, {MOST_TEXT} allowed");
    if text > MOST_TEXT {
        return Err("the table for C is too large".into());
    }
    Ok(())
}

/// Builds the table for C without `std`.
fn library_in_c(target: &str) -> Result<PathBuf> {
    cargo("rustc", target)
        .directory(root())
        .words("-p fdtable-capi --lib --crate-type staticlib")
        .words("--no-default-features --features kernel --profile freestanding")
        .run()?;
    Ok(folder().join(target).join("freestanding/libfdtable_capi.a"))
}

/// `cargo` for the kernel, which is a workspace of its own.
fn cargo(subcommand: &str, target: &str) -> Process {
    Process::cargo(subcommand)
        .directory(root().join("examples/kernel"))
        .words("--quiet --locked")
        .args(["--target", target])
        .arg("--target-dir")
        .arg(folder())
        // The flags of the kernel's own configuration, whatever those of the caller are.
        .without_env("RUSTFLAGS")
        .without_env("CARGO_ENCODED_RUSTFLAGS")
}

fn folder() -> PathBuf {
    target().join("kernel")
}
