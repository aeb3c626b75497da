//! The runner's handler of all signals.

use std::ffi::c_void;
use std::ptr;

use fdtable_posix::runner;
use fdtable_vfs::event::interrupt;

use super::actions::{DEFAULT, install_host};
use super::forwarding::{forward, send_again, send_to_process};
use super::frames::{Context, deliver};
use super::send::is_ignored;
use super::sets::{BLOCKABLE, DEFERRED, is_fault};
use crate::abi::{errno, process_id, set_errno};
use crate::block::{Block, MaskPlace, SAVED};
use crate::entry::*;
use crate::interrupt::{KICK, KILLED, OURS, kick};
use crate::memory::pointer;
use crate::pending::{EMULATED, Info, Target, bit, post};
use crate::{ending, observe, patch};

/// Code of the host's reports of system calls.
const SYS_USER_DISPATCH: i32 = 2;

/// Sends a signal of a thread of the runner's libraries, which runs no guest, to another thread.
///
/// # Safety
/// `fdtable_run_signal` calls it with the arguments of a handler.
pub(super) unsafe extern "C" fn on_foreign_signal(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) -> u8 {
    // SAFETY: the kernel's information.
    let code = unsafe { (*info).si_code };
    // SAFETY: the kernel's frame, which has these fields.
    let context = unsafe { &mut *context.cast::<Context>() };
    if code <= 0 {
        context.mask |= bit(signal);
        // SAFETY: the information is valid, and the signal is blocked on this thread.
        unsafe { send_to_process(signal, info) };
    } else if signal != libc::SIGSEGV
        || code != libc::SI_KERNEL
        || !patch::cpuid::has_faulted_elsewhere(&context.registers)
    {
        // A fault of this thread ends the process when it repeats.
        install_host(signal, &DEFAULT);
    }
    0
}

/// The runner's handler on threads of the guest. Returns the value of the selector that follows.
///
/// # Safety
/// `fdtable_run_signal` calls it with the arguments of a handler.
pub(super) unsafe extern "C" fn on_signal(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) -> u8 {
    let block = Block::current();
    // SAFETY: the kernel's frame, which has these fields.
    let context = unsafe { &mut *context.cast::<Context>() };
    let info = info.cast_const();
    // SAFETY: the kernel's information.
    let code = unsafe { (*info).si_code };
    let is_report = signal == libc::SIGSYS && code == SYS_USER_DISPATCH;
    if is_report || has_trapped(block, context) {
        block.trapped_at.set(context.rip() - 2);
        context.call_entry();
    }
    if is_report || has_met_patch(block, signal, code, context) {
        return u8::from(is_report || !block.is_in_runner());
    }
    // SAFETY: as above; the sender is there for signals that a process has sent.
    let is_foreign = code == libc::SI_USER && unsafe { (*info).si_pid() != process_id() };
    let asks_for_list = signal == KICK && is_foreign && observe::ask_for_list();
    if signal == KICK && !asks_for_list {
        // Another thread may change code, also if the signal has another sender: the host merges a
        // signal with one that is pending.
        leave_moved_code(block, context);
        block.answer();
    }
    finish_exit_to_guest(block, context);
    if asks_for_list {
        return u8::from(!block.is_in_runner());
    }
    if (signal, code) == KILLED && ending::is_killed() {
        block.request_exit();
        exit_soon(block, context);
    } else if bit(signal) & EMULATED != 0 && code <= 0 {
        // SAFETY: the kernel's information.
        let info = unsafe { info.cast::<Info>().read_unaligned() };
        on_emulated(block, signal, code, &info, context);
    } else if !block.is_in_runner() {
        if block.must_exit() {
            if !is_fault(signal, code) {
                // For another thread, or the next program.
                context.mask |= bit(signal);
                // SAFETY: the information is valid. All signals are blocked in this handler.
                unsafe { send_again(block, signal, info) };
            }
            exit_soon(block, context);
        } else {
            deliver(block, signal, info.cast(), context);
        }
    } else if is_fault(signal, code) {
        // SAFETY: the context is that of the handler.
        if !unsafe { runner::leave_access(ptr::from_mut(context).cast()) } {
            install_host(signal, &DEFAULT);
        }
    } else {
        // SAFETY: the information is valid.
        unsafe { defer_signal(block, signal, info, context) };
    }
    u8::from(!block.is_in_runner())
}

/// Continues after the trap of a site that changes, or after a `cpuid` that the runner answers.
/// Returns false if the signal is neither.
fn has_met_patch(block: &Block, signal: i32, code: i32, context: &mut Context) -> bool {
    match (signal, code) {
        (libc::SIGTRAP, libc::SI_KERNEL) if !block.is_in_runner() => {
            let stub = patch::stub_of(context.rip() - 1);
            stub.is_some_and(|stub| {
                context.set_rip(stub);
                true
            })
        }
        (libc::SIGSEGV, libc::SI_KERNEL) => patch::cpuid::answer(&mut context.registers),
        _ => false,
    }
}

/// Moves a thread that is in the guest from instructions that change to their copies. Its handler
/// may be about to return to such an instruction.
fn leave_moved_code(block: &Block, context: &mut Context) {
    if block.is_in_runner() {
        return;
    }
    context.set_rip(patch::moving(context.rip()));
    if is_returning(context) {
        let returns_to = pointer::<Context>(context.get(libc::REG_RSP));
        // SAFETY: the guest's frame, which the next instruction restores.
        unsafe {
            let at = &raw mut (*returns_to).registers[libc::REG_RIP as usize];
            let place = patch::moving(at.read_unaligned().cast_unsigned());
            at.write_unaligned(place.cast_signed());
        }
    }
}

/// Handles an emulated signal that a process or the runner has sent.
fn on_emulated(block: &Block, signal: i32, code: i32, info: &Info, context: &mut Context) {
    if code != OURS {
        let target = match code {
            libc::SI_TKILL => Target::Thread(block.id.get()),
            _ => Target::Process,
        };
        if !is_ignored(target, signal)
            && let Some(Some(thread)) = post(target, signal, info, block.mailbox)
        {
            kick(thread);
        }
    }
    match block.must_exit() {
        true => exit_soon(block, context),
        false => deliver_or_defer(block, context),
    }
}

/// Returns true if the guest has run a `syscall` that the host has not made.
///
/// The host reports the call by a SIGSYS. It drops the report if a SIGSYS of another process is
/// pending for the thread. So the registers decide: the instruction stores the flags in `r11` and
/// the next address in `rcx`. The exit to the guest stores the same, but sets the highest bit of
/// `r11`.
fn has_trapped(block: &Block, context: &Context) -> bool {
    !block.is_in_runner()
        && context.get(libc::REG_RCX) == context.rip()
        && context.get(libc::REG_R11) == context.get(libc::REG_EFL)
}

/// Finishes the exit to the guest, if all registers are the guest's but those in the block.
/// Otherwise a signal would be deferred to the end of a call that is over.
fn finish_exit_to_guest(block: &Block, context: &mut Context) {
    let at = context.rip();
    let delivers = (address(fdtable_run_delivers)..address(fdtable_run_delivered)).contains(&at);
    if delivers {
        for (register, value) in SAVED.into_iter().zip(block.saved) {
            context.set(register, value);
        }
    }
    // Deferred signals are blocked there until the mask is set.
    let checks = (address(fdtable_run_check)..address(fdtable_run_check_ends)).contains(&at);
    if delivers || checks && !block.has_deferred() {
        context.set_rip(block.guest_rip);
        context.set(libc::REG_RCX, block.guest_rip);
        block.enter_guest();
    }
    if is_returning(context) {
        block.enter_guest();
    }
}

/// Returns true if the thread is about to restore the context that the guest's handler returns to.
/// The stack and the base of `fs` are the guest's, and no signal is deferred.
fn is_returning(context: &Context) -> bool {
    (address(fdtable_run_returns)..address(fdtable_run_returned)).contains(&context.rip())
}

/// Delivers an emulated signal that is pending, or defers it to the end of the call.
fn deliver_or_defer(block: &Block, context: &mut Context) {
    if block.is_in_runner() {
        if block.mailbox.ends_sleep() {
            end_sleep(block, context);
            if block.is_exiting_to_guest() {
                // The call does not check again: this arrives when its exit unblocks signals.
                context.mask |= bit(KICK);
                kick(block.id.get());
            }
        }
        return;
    }
    if let Some((signal, info)) = block.mailbox.take(!block.mailbox.blocked()) {
        deliver(block, signal, &raw const info, context);
        if block.mailbox.is_due() {
            kick(block.id.get());
        }
    }
}

/// Has the thread exit, because another one executes a program: now if it is in the guest,
/// otherwise at the end of its call.
fn exit_soon(block: &Block, context: &mut Context) {
    if block.is_in_runner() {
        return end_sleep(block, context);
    }
    let place = [context.rip(), context.get(libc::REG_RSP)];
    if let Some((handler, info)) = block.delivered.take()
        && handler == place
        && !is_fault(info[0] as i32, info[1] as i32)
    {
        // The handler has not begun: another thread or the next program gets the signal. A fault
        // ends with its thread.
        let signal = info[0] as i32;
        if bit(signal) & EMULATED != 0 {
            // Sent again, it could merge with another SIGSYS that has this thread exit.
            forward(block, &info);
        } else {
            context.mask |= bit(signal);
            // SAFETY: a copy of the kernel's information. All signals are blocked in this handler.
            unsafe { send_again(block, signal, ptr::from_ref(&info).cast()) };
        }
    }
    block.trapped_at.set(0);
    context.set(libc::REG_RAX, libc::SYS_exit.cast_unsigned());
    context.call_entry();
}

/// Blocks all signals until the end of the call, and ends its sleep.
fn end_sleep(block: &Block, context: &mut Context) {
    if !block.has_deferred() {
        match block.mask_place.get() {
            MaskPlace::Moving if context.mask & BLOCKABLE == BLOCKABLE => {}
            MaskPlace::Block => block.defer(block.mask()),
            _ => block.defer(context.mask),
        }
    }
    context.mask |= DEFERRED;
    let at = context.rip();
    if (address(fdtable_run_host_checks)..address(fdtable_run_host_done) - 2 + 1).contains(&at) {
        context.set_rip(address(fdtable_run_host_ends));
    }
    interrupt(false);
}

/// Defers a signal to the end of the call.
///
/// # Safety
/// The information is valid.
unsafe fn defer_signal(
    block: &Block,
    signal: i32,
    info: *const libc::siginfo_t,
    context: &mut Context,
) {
    let errno_before = errno();
    end_sleep(block, context);
    // SAFETY: as the caller promises. All signals are blocked in this handler.
    unsafe { send_again(block, signal, info) };
    set_errno(errno_before);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::pending::Mailbox;

    extern "C" fn serve(_: &mut Frame) {}

    #[test]
    fn a_signal_on_the_return_from_a_handler_arrives_in_the_guest() {
        let back = address(fdtable_run_returns)..address(fdtable_run_returned);
        for at in back.start - 1..=back.end {
            let block = Block::new(1, 0, Mailbox::new(1), serve);
            block.defer(0);
            // SAFETY: all zeroes is a valid value of this struct of integers.
            let mut context: Context = unsafe { std::mem::zeroed() };
            context.registers[libc::REG_RIP as usize] = at.cast_signed();
            finish_exit_to_guest(&block, &mut context);
            assert_eq!(block.is_in_runner(), !back.contains(&at), "at {at:x}");
            assert_eq!(block.has_deferred(), !back.contains(&at), "at {at:x}");
            let continues_at = context.registers[libc::REG_RIP as usize].cast_unsigned();
            assert_eq!(continues_at, at);
        }
    }
}
