//! Frames of handlers: on the stack of the runner's handler, and on that of the guest's.

use std::mem::offset_of;
use std::ptr;

use super::actions::{ALWAYS, Action, DEFAULT, IGNORE, install_host, record, recorded};
use super::forwarding::forward_blocked;
use super::mask::deliver_emulated;
use super::sets::{NEVER_BLOCKED, is_fault};
use crate::abi::{process_id, thread_id};
use crate::block::{Block, Request};
use crate::entry::{address, fdtable_run_enter, fdtable_run_sigreturn};
use crate::memory::{self, pointer};
use crate::pending::{Info, bit};
use crate::{ending, observe, patch};

/// The flag of an alternate stack that is disabled while a handler runs: `SS_AUTODISARM`. No thread
/// counts as being on it.
const AUTODISARM: i32 = i32::MIN;

/// Returns and changes the alternate stack: `sigaltstack(2)`.
pub(crate) fn alternate_stack(r: &Request<'_>, a: &[i64; 6]) -> Result<i64, i32> {
    let (new, old) = (a[0].cast_unsigned(), a[1].cast_unsigned());
    let (before, rsp) = (r.block.signal_stack.get(), r.frame.rsp);
    if let Some(stack) = memory::get_if_any(new)? {
        change_stack(r.block, stack, rsp)?;
    }
    let mut shown = before;
    shown.ss_flags = before.ss_flags & AUTODISARM;
    if before.ss_size == 0 {
        shown.ss_flags |= libc::SS_DISABLE;
    } else if on_stack(&before, rsp) {
        shown.ss_flags |= libc::SS_ONSTACK;
    }
    memory::put_if_any(old, shown)?;
    Ok(0)
}

/// Changes the alternate stack of a thread whose stack pointer is `rsp`.
fn change_stack(block: &Block, mut stack: libc::stack_t, rsp: u64) -> Result<(), i32> {
    if on_stack(&block.signal_stack.get(), rsp) {
        return Err(libc::EPERM);
    }
    match stack.ss_flags & !AUTODISARM {
        libc::SS_DISABLE => (stack.ss_sp, stack.ss_size) = (ptr::null_mut(), 0),
        0 | libc::SS_ONSTACK if stack.ss_size < libc::MINSIGSTKSZ => return Err(libc::ENOMEM),
        0 | libc::SS_ONSTACK => {}
        _ => return Err(libc::EINVAL),
    }
    block.signal_stack.set(stack);
    Ok(())
}

fn on_stack(stack: &libc::stack_t, rsp: u64) -> bool {
    stack.ss_flags & AUTODISARM == 0 && is_within(stack, rsp)
}

/// Returns true if a stack pointer is on a stack.
fn is_within(stack: &libc::stack_t, rsp: u64) -> bool {
    let start = stack.ss_sp.addr() as u64;
    rsp > start && rsp - start <= stack.ss_size as u64
}

/// The part of a context that the kernel writes and reads.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Context {
    flags: u64,
    link: u64,
    stack: libc::stack_t,
    pub(super) registers: [i64; 23],
    state: u64,
    reserved: [u64; 8],
    pub(super) mask: u64,
}

impl Context {
    /// Returns a register, by its index in `libc`.
    pub(super) fn get(&self, register: i32) -> u64 {
        self.registers[register as usize].cast_unsigned()
    }

    pub(super) fn set(&mut self, register: i32, value: u64) {
        self.registers[register as usize] = value.cast_signed();
    }

    /// Returns the address at which the thread continues.
    pub(super) fn rip(&self) -> u64 {
        self.get(libc::REG_RIP)
    }

    pub(super) fn set_rip(&mut self, address: u64) {
        self.set(libc::REG_RIP, address);
    }

    /// Has the thread continue in the entry, as if it had called it where it is.
    pub(super) fn call_entry(&mut self) {
        self.set(libc::REG_RCX, self.rip());
        self.set_rip(address(fdtable_run_enter));
    }
}

/// The frame at the stack pointer of a handler of the guest.
#[repr(C)]
struct GuestFrame {
    returns_to: u64,
    context: Context,
    info: Info,
}

/// Returns from a handler: `rt_sigreturn(2)`.
pub(crate) fn sigreturn(r: &mut Request<'_>, _: &[i64; 6]) -> i64 {
    let (block, rsp) = (r.block, r.frame.rsp);
    // The handler has taken its return address from the stack.
    let at = pointer::<Context>(rsp);
    // SAFETY: the guest's frame, or other words that it has put there.
    let mut context = unsafe { at.read_unaligned() };
    if block.has_deferred() {
        forward_blocked(block, context.mask);
    }
    block.mailbox.block(context.mask);
    context.mask &= !NEVER_BLOCKED;
    context.set_rip(patch::return_to(block, context.rip()));
    // As on the host, a stack that cannot be set is left out.
    let _ = change_stack(block, context.stack, rsp);
    // The kernel would make it the stack of the runner's handler.
    context.stack = block.handler_stack();
    // SAFETY: as above.
    unsafe { at.write_unaligned(context) };
    // The mask of the frame unblocks them.
    block.begin_exit_to_guest();
    deliver_emulated(block);
    // SAFETY: the context is at the guest's stack pointer.
    unsafe { fdtable_run_sigreturn() }
}

/// Has the guest continue in its handler.
pub(super) fn deliver(block: &Block, signal: i32, info: *const Info, context: &mut Context) {
    // SAFETY: the kernel's information, or a copy of it.
    let info = unsafe { info.read_unaligned() };
    block.taken.set(block.taken.get() & !bit(signal));
    let action = recorded(signal);
    let is_fault = is_fault(signal, info[1] as i32);
    let blocked = block.mailbox.blocked();
    if action.handler == IGNORE && !is_fault {
        return;
    }
    if action.handler <= IGNORE || is_fault && blocked & bit(signal) != 0 {
        return end_by_default(signal, is_fault);
    }
    if action.has(libc::SA_RESETHAND) {
        let handler = DEFAULT.handler;
        record(signal, Action { handler, ..action });
        if !ALWAYS.contains(&signal) {
            install_host(signal, &DEFAULT);
        }
    }
    repeat_call(block, &action, context);
    let Some(frame) = push_frame(block, &action, info, context) else {
        return end_by_default(libc::SIGSEGV, false);
    };
    let place = |field: usize| frame + field as u64;
    for (register, value) in [
        (libc::REG_RIP, action.handler),
        (libc::REG_RSP, frame),
        (libc::REG_RDI, signal as u64),
        (libc::REG_RSI, place(offset_of!(GuestFrame, info))),
        (libc::REG_RDX, place(offset_of!(GuestFrame, context))),
        (libc::REG_RAX, 0),
    ] {
        context.set(register, value);
    }
    block.delivered.set(Some(([action.handler, frame], info)));
    // The direction, the trap and the resume flag.
    context.registers[libc::REG_EFL as usize] &= !0x1_0500;
    context.mask |= action.mask | blocked;
    if !action.has(libc::SA_NODEFER) {
        context.mask |= bit(signal);
    }
    block.mailbox.block(context.mask);
    context.mask &= !NEVER_BLOCKED;
}

/// Has the host's default action end the process: for a signal that the guest no longer handles,
/// one that ends it after a report, a fault that it blocks, and a stack that is exhausted. A fault
/// repeats, and all else is sent again.
fn end_by_default(signal: i32, is_fault: bool) {
    observe::at_end();
    ending::leave_tree();
    install_host(signal, &DEFAULT);
    if !is_fault {
        // SAFETY: it takes no pointer.
        unsafe { libc::syscall(libc::SYS_tgkill, process_id(), thread_id(), signal) };
    }
}

/// Has the guest make a call after the handler: one that has trapped and is not in the runner yet,
/// or one that the signal has interrupted.
fn repeat_call(block: &Block, action: &Action, context: &mut Context) {
    let site = block.trapped_at.take();
    if site != 0 {
        context.set_rip(site);
    }
    let number = block.repeats.replace(-1);
    let is_interrupted = context.get(libc::REG_RAX).cast_signed() == -i64::from(libc::EINTR);
    if number >= 0 && is_interrupted && action.has(libc::SA_RESTART) {
        context.set(libc::REG_RAX, number.cast_unsigned());
        context.call_entry();
    }
}

/// Copies the kernel's frame to the stack of a handler of the guest, and returns its address;
/// `None` if the alternate stack has no room for it.
fn push_frame(block: &Block, action: &Action, info: Info, context: &Context) -> Option<u64> {
    let rsp = context.get(libc::REG_RSP);
    let stack = block.signal_stack.get();
    let is_on_stack = on_stack(&stack, rsp);
    let enters_stack = action.has(libc::SA_ONSTACK) && stack.ss_size != 0 && !is_on_stack;
    let top = match enters_stack {
        true => stack.ss_sp.addr() as u64 + stack.ss_size as u64,
        // Compiled code has data below its stack pointer.
        false => rsp - 128,
    };
    let size = state_size(context.state);
    let state = (top - size) & !63;
    let frame = ((state - size_of::<GuestFrame>() as u64) & !15) - 8;
    if (is_on_stack || enters_stack) && !is_within(&stack, frame) {
        return None;
    }
    // SAFETY: the guest's stack; if there is none, the fault ends the process, as on the host.
    unsafe { pointer::<u8>(state).copy_from(pointer::<u8>(context.state), size as usize) };
    let blocked = block.mailbox.blocked();
    let guest = GuestFrame {
        returns_to: action.restorer,
        context: Context {
            state,
            mask: block.suspended.take().unwrap_or(context.mask | blocked),
            stack,
            ..*context
        },
        info,
    };
    if stack.ss_flags & AUTODISARM != 0 {
        block.disable_signal_stack();
    }
    // SAFETY: as above.
    unsafe { pointer::<GuestFrame>(frame).write_unaligned(guest) };
    Some(frame)
}

/// Returns the size of the vector state of a frame.
fn state_size(state: u64) -> u64 {
    const MAGIC: u32 = 0x4650_5853;
    // SAFETY: the kernel's frame: the software's part of the state begins at 464.
    let [magic, size] = unsafe { pointer::<[u32; 2]>(state + 464).read_unaligned() };
    if magic == MAGIC { size.into() } else { 512 }
}
