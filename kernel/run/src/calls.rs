//! Dispatches the system calls of the guest.
//!
//! `fdtable-posix` serves calls on descriptors and paths. The runner serves calls about threads,
//! signals, memory and exec. All other calls go to the host: see [`on_host`].
//!
//! Each area has a table of rows: a number, and the function that serves the call. The compiler
//! makes one array of them, indexed by the number.

mod files;
mod mappings;
mod restart;
mod threads;
mod waits;

use fdtable_posix::*;

use crate::abi::{call, on_host};
use crate::block::{Block, Handler, Request, Row};
use crate::frame::Frame;
use crate::{exit, patch, signals};

const AREAS: [&[Row]; 9] = [
    files::DESCRIPTORS,
    files::PATHS,
    files::SOCKETS,
    files::EVENTS,
    files::LIMITS,
    files::OTHERS,
    mappings::ROWS,
    threads::ROWS,
    waits::ROWS,
];

/// Exclusive bound of the numbers that have a handler.
const COUNT: usize = 512;

static HANDLERS: [Handler; COUNT] = {
    let other: Handler = |r, a| on_host(r.number, *a);
    let mut all = [other; COUNT];
    let mut has_row = [false; COUNT];
    let mut area = 0;
    while area < AREAS.len() {
        let mut row = 0;
        while row < AREAS[area].len() {
            let (number, handler) = AREAS[area][row];
            assert!(!has_row[number as usize], "a call has two rows");
            has_row[number as usize] = true;
            all[number as usize] = handler;
            row += 1;
        }
        area += 1;
    }
    all
};

/// Serves a call of the guest. The entry calls it.
pub(crate) extern "C" fn serve(frame: &mut Frame) {
    let block = Block::current();
    if answer(block, frame) != 0 {
        frame.rip = patch::return_to(block, frame.rip);
    }
}

/// Serves a call of the guest, but for [`patch::return_to`], which is the last step of one that has
/// trapped. Returns the site of such a call, or 0.
pub(crate) fn answer(block: &'static Block, frame: &mut Frame) -> u64 {
    // Only the low half counts, as in the kernel.
    let number = i64::from(frame.rax as i32);
    block.returns.set(0);
    let site = block.trapped_at.take();
    if site != 0 {
        patch::rewrite(site, number);
    }
    signals::begin_call(block);
    let result = loop {
        if block.must_exit() {
            exit::end_thread(0);
        }
        let a = frame.arguments();
        let result = match number {
            // The most frequent ones, without a choice among all.
            libc::SYS_read => call!(fdt_read(a[0], a[1], a[2])),
            libc::SYS_write => call!(fdt_write(a[0], a[1], a[2])),
            libc::SYS_close => call!(fdt_close(a[0])),
            libc::SYS_lseek => call!(fdt_lseek(a[0], a[1], a[2])),
            libc::SYS_pread64 => call!(fdt_pread(a[0], a[1], a[2], a[3])),
            libc::SYS_pwrite64 => call!(fdt_pwrite(a[0], a[1], a[2], a[3])),
            libc::SYS_sendto => call!(fdt_sendto(a[0], a[1], a[2], a[3], a[4], a[5])),
            libc::SYS_recvfrom => call!(fdt_recvfrom(a[0], a[1], a[2], a[3], a[4], a[5])),
            _ => dispatch(block, frame, number, &a),
        };
        if !signals::must_retry(block, result) {
            break result;
        }
    };
    if block.must_exit() {
        exit::end_thread(0);
    }
    block.begin_exit_to_guest();
    signals::deliver_emulated(block);
    if result == -i64::from(libc::EINTR)
        && block.has_deferred()
        && restart::may_repeat(number, &frame.arguments())
    {
        block.repeats.set(number);
    } else {
        block.repeats.set(-1);
    }
    frame.rax = result.cast_unsigned();
    let stack = block.child_stack.take();
    if stack != 0 {
        frame.rsp = stack;
    }
    site
}

/// Serves a call by its number. Not a part of `serve`, whose hot calls need no [`Request`].
#[inline(never)]
fn dispatch(block: &'static Block, frame: &mut Frame, number: i64, a: &[i64; 6]) -> i64 {
    let mut request = Request {
        block,
        frame,
        number,
    };
    let index = usize::try_from(number).unwrap_or(COUNT);
    match HANDLERS.get(index) {
        Some(handler) => handler(&mut request, a),
        None => on_host(number, *a),
    }
}

#[cfg(test)]
mod tests;
