//! The serial line, and the end of the machine.

use core::fmt::{self, Write as _};
use core::panic::PanicInfo;

use x86_64::instructions::port::Port;

use crate::lock::Lock;

/// The first serial port.
struct Line;

static LINE: Lock<Line> = Lock::new(Line);

impl Line {
    fn put(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // SAFETY: QEMU's serial port takes a byte at any time, and touches no memory.
            unsafe { Port::new(0x3F8).write(byte) };
        }
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

/// Writes bytes, all at once.
pub fn write(bytes: &[u8]) {
    LINE.lock().put(bytes);
}

/// Writes a line, all at once.
pub fn write_line(line: fmt::Arguments<'_>) {
    let _ = LINE.lock().write_fmt(format_args!("{line}\n"));
}

/// Prints a line on the serial port.
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => { $crate::serial::write_line(format_args!($($argument)*)) };
}

/// How the machine ends. QEMU exits with twice the number, and one.
#[derive(Clone, Copy)]
pub enum Exit {
    Success = 0x10,
    Failure = 0x11,
}

/// Ends QEMU, if it has the device `isa-debug-exit`.
pub fn exit(how: Exit) -> ! {
    // SAFETY: the device takes a number, and touches no memory.
    unsafe { Port::new(0xF4).write(how as u32) };
    loop {
        x86_64::instructions::hlt();
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    x86_64::instructions::interrupts::disable();
    // SAFETY: whoever holds the lock is not waited for: the machine ends here.
    let mut line = unsafe { LINE.make_guard_unchecked() };
    let _ = writeln!(line, "\nCPU {}: {info}", crate::cpu::id());
    exit(Exit::Failure)
}
