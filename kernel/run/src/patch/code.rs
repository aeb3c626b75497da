//! Code of the guest: how it is read, and written.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

use fdtable_posix::runner::maps;

use crate::abi::host_now;
use crate::memory;

/// The protection of code: it can be read, and not be written.
pub(crate) const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;

pub(super) const MOV: u8 = 0xB8;
pub(super) const JUMP: u8 = 0xE9;
pub(super) const TRAP: u8 = 0xCC;
pub(super) const SYSCALL: [u8; 2] = [0x0F, 0x05];
pub(super) const CPUID: [u8; 2] = [0x0F, 0xA2];

/// Not 0 while a process traces the program. It runs the code too, no signal reaches it, and no
/// site is rewritten. The host clears the word at its end.
pub(crate) static TRACER: AtomicI32 = AtomicI32::new(0);

/// Returns true if a process traces the program.
pub(crate) fn has_tracer() -> bool {
    TRACER.load(SeqCst) != 0
}

/// Returns the code around a site, if it cannot be written: the mapping, and those beside it. The
/// host may have split one that was changed.
pub(super) fn code_around(site: u64) -> Option<Range<u64>> {
    let mut code: Option<Range<u64>> = None;
    for mapping in maps::parse(&maps::read()) {
        if mapping.permissions != "r-xp" {
            continue;
        }
        match &mut code {
            Some(code) if code.end == mapping.range.start => code.end = mapping.range.end,
            Some(code) if code.contains(&site) => break,
            _ => code = Some(mapping.range),
        }
    }
    code.filter(|code| code.contains(&site))
}

/// Returns a byte of the guest, or `None` if it cannot be read: the file may have become shorter.
pub(super) fn byte_at(at: u64) -> Option<u8> {
    memory::get(at).ok()
}

/// Returns bytes of the guest, if all can be read.
pub(super) fn text(range: Range<u64>) -> Option<Vec<u8>> {
    range.map(byte_at).collect()
}

/// Returns true if these bytes are there.
pub(super) fn is_text(at: u64, text: &[u8]) -> bool {
    (at..)
        .zip(text)
        .all(|(at, &byte)| byte_at(at) == Some(byte))
}

/// Opens the memory of this process, to write to code.
pub(super) fn code_memory() -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open("/proc/self/mem").ok()
}

/// Has every CPU that runs a thread of this process fetch its instructions again.
pub(super) fn serialize() {
    const REGISTER: i64 = 1 << 6;
    const SYNC_CORE: i64 = 1 << 5;
    if host_now(libc::SYS_membarrier, [SYNC_CORE, 0, 0, 0, 0, 0]) != 0 {
        host_now(libc::SYS_membarrier, [REGISTER, 0, 0, 0, 0, 0]);
        host_now(libc::SYS_membarrier, [SYNC_CORE, 0, 0, 0, 0, 0]);
    }
}
