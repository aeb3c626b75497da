//! A small SMP kernel for QEMU, with `fdtable` as the descriptor table of its processes.
//!
//! Read it in this order: `platform`, what the kernel provides to the library; `file` and
//! `process`, what a kernel does with the tables; `checks`, what it shows. The rest is the machine:
//! `boot`, `cpu`, `interrupts`, `clock`, `pages`, `heap`, `lock`, `threads`, `serial`.

#![no_std]
#![no_main]

extern crate alloc;

mod boot;
mod checks;
mod clock;
mod cpu;
mod file;
mod heap;
mod interrupts;
mod lock;
#[cfg(target_os = "linux")]
mod memory;
mod pages;
mod platform;
mod process;
mod serial;
mod threads;

/// Runs on the first CPU, when memory and interrupts work: starts the others and the first threads.
fn start() {
    println!("fdtable kernel: {} CPUs", cpu::count());
    threads::spawn(|| {
        loop {
            platform::work();
            threads::sleep(2);
        }
    });
    threads::spawn(|| {
        boot::wait_for_cpus();
        println!(
            "{} CPUs run, after {} ms",
            cpu::online(),
            clock::nanoseconds() / 1_000_000
        );
        checks::run();
        println!("{} ms after the start", clock::nanoseconds() / 1_000_000);
        serial::exit(serial::Exit::Success);
    });
}
