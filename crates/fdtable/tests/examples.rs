//! Runs the examples: each checks itself.

#![cfg(not(loom))]

#[path = "../examples/async_server.rs"]
mod async_server;
#[path = "../examples/library_os.rs"]
mod library_os;
#[path = "../examples/tokio_echo.rs"]
mod tokio_echo;
#[path = "../examples/wasi_host.rs"]
mod wasi_host;

#[test]
fn async_server() {
    async_server::main();
}

#[test]
fn library_os() {
    library_os::main();
}

#[test]
fn tokio_echo() {
    tokio_echo::main();
}

#[test]
fn wasi_host() {
    wasi_host::main();
}
