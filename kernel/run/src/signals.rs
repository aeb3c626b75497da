//! Signals of the guest.
//!
//! The runner installs one handler for each signal that the guest handles, and records the guest's
//! action. The handler runs on a stack of the runner. There are two cases:
//!
//! - The signal has interrupted the guest. The handler copies the kernel's frame to the guest's
//!   stack, and continues at the guest's handler, whose return is a system call: it restores the
//!   context from the copy.
//! - It has interrupted the runner. The handler sends the signal again, blocks all signals where it
//!   returns, and interrupts the sleep of the thread. At the end of the call, when the registers
//!   are the guest's, the entry restores the mask; the kernel delivers the signal there, and it is
//!   the first case. If the thread blocks the signal by then, or ends, it sends it on to the
//!   process, for which it may have been.
//!
//! Signals that end the guest are the host's, unless there are reports to make before (`observe`).
//!
//! So a handler of the guest never runs inside of a call, and may leave by `siglongjmp`.
//!
//! The mask of the host is that of the guest, without the signals that the runner needs. By SIGSYS
//! the host's kernel reports system calls, and Linux never sends SIGSTKFLT. Threads of the runner
//! interrupt each other by both: a handler of SIGSTKFLT lets calls of the host go on, and that of
//! SIGSYS ends them. SIGSEGV and SIGBUS report bad addresses in calls, and SIGTRAP a site that
//! changes. `pending` keeps which of these five the guest blocks and waits for, and which are
//! pending.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, Ordering, compiler_fence};
use std::time::{Duration, Instant};

use fdtable::host_fork;
use fdtable_posix::fdt_pselect;
use fdtable_posix::runner::{self, DirectCalls};
use fdtable_vfs::event::{interrupt, run_before_sleeps};

use crate::abi::{call, host_now, on_host};
use crate::block::{Block, MaskIs};
use crate::ending;
use crate::entry::*;
use crate::frame::Frame;
use crate::guarded::Guarded;
use crate::interrupt::{KICK, KILLED, OURS, kick};
use crate::memory::{self, pointer};
use crate::observe;
use crate::patch;
use crate::pending::{self, Info, KEPT, Target, discard, lets_in, post};
use crate::thread;

/// The action for a signal, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

const DEFAULT: Action = Action {
    handler: 0,
    flags: 0,
    restorer: 0,
    mask: 0,
};
const IGNORE: u64 = 1;
const SA_RESTORER: u64 = 0x0400_0000;
const SIGNALS: usize = 64;

/// The actions of the guest, from signal 1 on. Each is in memory that is never freed, because
/// handlers read it.
static ACTIONS: [AtomicPtr<Action>; SIGNALS] = [const { AtomicPtr::new(ptr::null_mut()) }; SIGNALS];
/// All actions that there were, each once.
static KNOWN: Guarded<Vec<&'static Action>> = Guarded::new(Vec::new());

/// Signals whose handler of the runner stays, whatever the guest installs.
const ALWAYS: [i32; 5] = [
    libc::SIGSYS,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGTRAP,
    KICK,
];

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Signals by which the host reports faults. They may also be sent.
const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGFPE)
    | bit(libc::SIGSYS);
/// The signals that are blocked while one waits.
const HELD: u64 = !KEPT;
/// Signals of [`HELD`] that the host can block.
const BLOCKABLE: u64 = HELD & !bit(libc::SIGKILL) & !bit(libc::SIGSTOP);
const NEVER_BLOCKED: u64 = !BLOCKABLE;

/// Returns true if the host reports a fault by a signal of this code, which was not sent.
const fn is_fault(signal: i32, code: i32) -> bool {
    bit(signal) & FAULTS != 0 && code > 0
}

fn recorded(signal: i32) -> Action {
    let place = usize::try_from(signal - 1)
        .ok()
        .and_then(|index| ACTIONS.get(index));
    // Acquire: pairs with the release in `record`, so that the action is visible.
    let action = place.map_or(ptr::null_mut(), |place| place.load(Ordering::Acquire));
    // SAFETY: an action is never freed.
    unsafe { action.as_ref() }.copied().unwrap_or(DEFAULT)
}

fn record(signal: i32, action: Action) {
    let mut known = KNOWN.lock();
    let found = known.iter().copied().find(|&known| *known == action);
    let kept = found.unwrap_or_else(|| {
        let kept: &'static Action = Box::leak(Box::new(action));
        known.push(kept);
        kept
    });
    let place = &ACTIONS[signal as usize - 1];
    // Release: pairs with the acquire in `recorded`.
    place.store(ptr::from_ref(kept).cast_mut(), Ordering::Release);
}

/// Sets the action of the host for a signal.
fn install_host(signal: i32, action: &Action) -> i64 {
    let none = 0;
    host_now(
        libc::SYS_rt_sigaction,
        [
            signal.into(),
            ptr::from_ref(action).expose_provenance() as i64,
            none,
            8,
            0,
            0,
        ],
    )
}

/// The runner's handler, with those flags of the guest's action that the kernel acts on.
fn ours(flags: u64) -> Action {
    let kept = flags & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
    Action {
        handler: address(fdtable_run_signal),
        flags: kept | (libc::SA_SIGINFO | libc::SA_ONSTACK) as u64 | SA_RESTORER,
        restorer: address(fdtable_run_restore),
        mask: !0,
    }
}

/// Installs the handlers that are always there, and takes over what the process was started with.
/// Returns the mask that it was started with.
pub(crate) fn install() -> u64 {
    set_handlers(on_signal, on_foreign_signal);
    runner::begin(DirectCalls {
        waiting: fdtable_run_host,
        prompt: fdtable_run_host_prompt,
    });
    runner::set_mappings(memory::shown);
    run_before_sleeps(before_sleep);
    for signal in 1..=SIGNALS as i32 {
        let mut before = DEFAULT;
        let at = (&raw mut before).expose_provenance() as i64;
        host_now(libc::SYS_rt_sigaction, [signal.into(), 0, at, 8, 0, 0]);
        if before.handler == IGNORE && signal != libc::SIGPIPE {
            record(signal, before);
        } else if before.handler > IGNORE || signal == libc::SIGPIPE {
            // A handler of the runner's libraries, or what they ignore.
            install_host(signal, &DEFAULT);
        }
    }
    for signal in ALWAYS {
        let mut action = ours(0);
        if signal == KICK {
            // It concerns the runner alone: a call of the guest goes on.
            action.flags |= libc::SA_RESTART as u64;
        }
        install_host(signal, &action);
    }
    for signal in observe::last_signals() {
        if recorded(*signal) == DEFAULT {
            install_host(*signal, &ours(0));
        }
    }
    exchange_mask(libc::SIG_UNBLOCK, KEPT)
}

/// Resets the actions for a new program. Handlers become the default; ignored signals stay ignored.
/// Pending signals stay pending, also those in [`CARRIED`]. The caller is the leader, and has all
/// signals wait.
pub(crate) fn reset(block: &Block) {
    // The host forgets those that are pending when it is told their default, which ignores them.
    const FORGOTTEN: u64 =
        bit(libc::SIGCHLD) | bit(libc::SIGURG) | bit(libc::SIGWINCH) | bit(libc::SIGCONT);
    let mut carried = take_pending(FORGOTTEN);
    for signal in 1..=SIGNALS as i32 {
        let action = recorded(signal);
        if action.handler > IGNORE {
            record(signal, DEFAULT);
            if observe::last_signals().contains(&signal) {
                install_host(signal, &ours(0));
            } else if !ALWAYS.contains(&signal) {
                install_host(signal, &DEFAULT);
            }
        }
    }
    carried.append(&mut CARRIED.lock());
    carried.iter().for_each(|info| send_on(block, info));
}

/// Returns and changes an action: `rt_sigaction(2)`.
pub(crate) fn action(a: [i64; 6]) -> i64 {
    let (signal, new, old) = (a[0] as i32, a[1].cast_unsigned(), a[2].cast_unsigned());
    if a[3] != 8 || !(1..=SIGNALS as i32).contains(&signal) {
        return -i64::from(libc::EINVAL);
    }
    let before = recorded(signal);
    if new != 0 {
        if matches!(signal, libc::SIGKILL | libc::SIGSTOP) {
            return -i64::from(libc::EINVAL);
        }
        // SAFETY: the guest's struct.
        let new = unsafe { pointer::<Action>(new).read_unaligned() };
        record(signal, new);
        if new.handler == IGNORE {
            discard(signal);
        }
        if !ALWAYS.contains(&signal) {
            let result = install_host(signal, &of_host(signal, new));
            if result < 0 {
                record(signal, before);
                return result;
            }
        }
    }
    if old != 0 {
        // SAFETY: the guest's struct.
        unsafe { pointer::<Action>(old).write_unaligned(before) };
    }
    0
}

/// Returns the action that the host has for one of the guest.
fn of_host(signal: i32, action: Action) -> Action {
    let is_last = action.handler == 0 && observe::last_signals().contains(&signal);
    if action.handler > IGNORE || is_last {
        ours(action.flags)
    } else {
        Action {
            restorer: address(fdtable_run_restore),
            flags: action.flags | SA_RESTORER,
            ..action
        }
    }
}

/// Installs the guest's actions again for the signals that the C library takes for itself. The
/// runner's does that too, when it makes the first thread of a process: after the guest's.
pub(crate) fn take_back() {
    const OF_LIBRARIES: [i32; 2] = [32, 33];
    for signal in OF_LIBRARIES {
        let mut action = recorded(signal);
        loop {
            install_host(signal, &of_host(signal, action));
            // Another thread may have changed it since, and installed that before.
            let now = recorded(signal);
            if now == action {
                break;
            }
            action = now;
        }
    }
}

/// Sets the mask of the host, and returns the one before.
fn exchange_mask(how: i32, mask: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: the sets have the kernel's length.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const mask,
            &raw mut before,
            8,
        )
    };
    before
}

/// Returns and changes the guest's mask: `rt_sigprocmask(2)`.
pub(crate) fn mask(block: &Block, a: [i64; 6]) -> i64 {
    let (how, new, old) = (a[0] as i32, a[1].cast_unsigned(), a[2].cast_unsigned());
    if a[3] != 8 {
        return -i64::from(libc::EINVAL);
    }
    let before = hold_all(block);
    if new != 0 {
        // SAFETY: the guest's set.
        let new = unsafe { pointer::<u64>(new).read_unaligned() };
        let mask = match how {
            libc::SIG_BLOCK => before | new,
            libc::SIG_UNBLOCK => before & !new,
            libc::SIG_SETMASK => new,
            _ => return -i64::from(libc::EINVAL),
        };
        set_guest_mask(block, mask);
    }
    if old != 0 {
        // SAFETY: the guest's set.
        unsafe { pointer::<u64>(old).write_unaligned(before) };
    }
    0
}

/// Blocks all signals until the end of the call, and returns the guest's mask.
pub(crate) fn hold_all(block: &Block) -> u64 {
    block.mask_is.set(MaskIs::Taken);
    // The handler of a signal that arrives after this finds it so.
    compiler_fence(SeqCst);
    let before = exchange_mask(libc::SIG_BLOCK, HELD);
    if !block.waits() {
        block.hold(before);
    }
    // A signal that arrives before this finds the mask kept, or leaves that to this call.
    compiler_fence(SeqCst);
    block.mask_is.set(MaskIs::Set);
    block.mask() | block.mailbox.blocked()
}

/// Lets in the signals that a call does, after [`leave`], and sets the guest's mask at its end.
pub(crate) fn resume(block: &Block, mask: u64) {
    exchange_mask(libc::SIG_SETMASK, HELD);
    set_guest_mask(block, mask);
}

/// Sets the guest's mask at the end of the call. All signals are blocked.
pub(crate) fn set_guest_mask(block: &Block, mask: u64) {
    give_back(block, mask);
    block.mailbox.block(mask);
    block.hold(mask & !NEVER_BLOCKED);
}

/// Runs at the begin of each call.
pub(crate) fn begin_call(block: &Block) {
    if let Some(mask) = block.suspended.take() {
        // The call before has waited with another mask, and no handler has run.
        hold_all(block);
        set_guest_mask(block, mask);
    }
}

fn before_sleep() {
    if Block::current().waits() {
        interrupt(false);
    }
}

/// Runs a call that waits with another mask, which is at an address of the guest.
pub(crate) fn with_mask(block: &Block, at: i64, size: i64, call: impl Fn() -> i64) -> i64 {
    if at == 0 {
        return call();
    }
    if size != 8 {
        return -i64::from(libc::EINVAL);
    }
    // SAFETY: the guest's set.
    let new = unsafe { pointer::<u64>(at.cast_unsigned()).read_unaligned() };
    let before = hold_all(block);
    // Lets in what the new mask does. A signal that arrives is put off, with this mask.
    block.mask.set(new & !NEVER_BLOCKED);
    block.mask_is.set(MaskIs::Kept);
    // Pairs with the handlers of this thread: they see both before they see that no signal waits.
    compiler_fence(SeqCst);
    block.release();
    block.mailbox.block(new);
    exchange_mask(libc::SIG_SETMASK, new & !NEVER_BLOCKED);
    if block.mailbox.is_due() || block.is_to_end() {
        // As one that arrives here.
        hold_all(block);
        interrupt(false);
    }
    let result = loop {
        let result = call();
        if !is_in_vain(block, result) {
            break result;
        }
    };
    let during = hold_all(block);
    if result == -i64::from(libc::EINTR) {
        // The handler runs with the mask of the wait, and returns to the one before.
        set_guest_mask(block, during);
        block.suspended.set(Some(before));
    } else {
        set_guest_mask(block, before);
    }
    result
}

/// Returns true if a signal of the runner has interrupted a call, which is made again.
pub(crate) fn is_in_vain(block: &Block, result: i64) -> bool {
    result == -i64::from(libc::EINTR) && !block.waits() && !block.is_to_end()
}

/// Makes a call whose argument `index` is the address of a time, after which it ends. If a signal
/// of the runner has interrupted it, the call is made again with what is left of the time.
pub(crate) fn with_time(
    block: &Block,
    mut a: [i64; 6],
    index: usize,
    call: impl Fn([i64; 6]) -> i64,
) -> i64 {
    // Before the call: it may write there what is left.
    // SAFETY: the guest's time, which has any value.
    let time = unsafe { runner::value(pointer::<[i64; 2]>(a[index].cast_unsigned())) };
    let begun = Instant::now();
    let mut left;
    loop {
        let result = call(a);
        let (Some(time), true) = (time, is_in_vain(block, result)) else {
            return result;
        };
        left = less(time, begun.elapsed());
        a[index] = address_of(&left);
    }
}

/// As [`with_time`], for a time in milliseconds: an `int`.
pub(crate) fn with_milliseconds(
    block: &Block,
    mut a: [i64; 6],
    index: usize,
    call: impl Fn([i64; 6]) -> i64,
) -> i64 {
    let time = i64::from(a[index] as i32);
    if time <= 0 {
        return call(a);
    }
    let begun = Instant::now();
    loop {
        let result = call(a);
        if !is_in_vain(block, result) {
            return result;
        }
        let passed = i64::try_from(begun.elapsed().as_millis()).unwrap_or(time);
        a[index] = (time - passed).max(0);
    }
}

/// Returns the result of a wait with a mask: a signal that the mask lets in ends it also if its
/// time is over. It ends a `poll` or `select` without any time too, but not an `epoll_wait`.
pub(crate) fn or_interrupted(block: &Block, result: i64) -> i64 {
    if result == 0 && block.waits() {
        return -i64::from(libc::EINTR);
    }
    result
}

/// As [`with_mask`], for `pselect6`, whose last argument leads to the mask and its length.
pub(crate) fn with_mask_behind(block: &Block, a: [i64; 6]) -> i64 {
    let [at, size] = if a[5] == 0 {
        [0, 0]
    } else {
        // SAFETY: the guest's struct.
        unsafe { pointer::<[i64; 2]>(a[5].cast_unsigned()).read_unaligned() }
    };
    with_mask(block, at, size, || {
        // A call that fails leaves the sets as they are.
        let kept = if block.waits() { sets(a) } else { Vec::new() };
        let select = || call!(fdt_pselect(a[0], a[1], a[2], a[3], a[4], 0));
        let result = with_time_left(a[4], select);
        let ended = or_interrupted(block, result);
        if ended != result {
            for (place, bytes) in kept {
                // SAFETY: the call has written the set, of this size.
                unsafe { pointer::<u8>(place).copy_from(bytes.as_ptr(), bytes.len()) };
            }
        }
        ended
    })
}

/// Makes a call with a timeout, and writes the time left to it, as the kernel does.
pub(crate) fn with_time_left(at: i64, wait: impl FnOnce() -> i64) -> i64 {
    let begun = Instant::now();
    let at = pointer::<[i64; 2]>(at.cast_unsigned());
    // SAFETY: words have any value.
    let limit = unsafe { runner::value(at) }.and_then(duration);
    let result = wait();
    if let Some(limit) = limit {
        let left = limit.saturating_sub(begun.elapsed());
        let left = [left.as_secs().cast_signed(), left.subsec_nanos().into()];
        // It may be read-only data, which a call that ended at once leaves unchanged.
        // SAFETY: the guest's time.
        unsafe { runner::put(at, left) };
    }
    result
}

/// Returns a time of the guest, if it is valid.
fn duration([seconds, nanoseconds]: [i64; 2]) -> Option<Duration> {
    let (seconds, nanoseconds) = (seconds.try_into().ok()?, nanoseconds.try_into().ok()?);
    (nanoseconds < 1_000_000_000).then(|| Duration::new(seconds, nanoseconds))
}

/// Copies the sets of a `select`: their addresses and their bytes. Leaves out what is no memory.
fn sets(a: [i64; 6]) -> Vec<(u64, Vec<u8>)> {
    const MOST: i64 = 1 << 30;
    let size = (a[0].clamp(0, MOST) as usize).div_ceil(64) * 8;
    let copy = |place: &i64| {
        let place = place.cast_unsigned();
        (place, memory::read(place, size))
    };
    a[1..4]
        .iter()
        .filter(|&&place| place != 0)
        .map(copy)
        .collect()
}

/// Waits for a signal: `rt_sigsuspend(2)`.
pub(crate) fn suspend(block: &Block, a: [i64; 6]) -> i64 {
    with_mask(block, a[0], a[1], || {
        // The mask is set; a signal that has arrived since ends it at once.
        host(libc::SYS_pause, [0; 6])
    })
}

/// Takes a signal: `rt_sigtimedwait(2)`.
pub(crate) fn timed_wait(block: &Block, a: [i64; 6]) -> i64 {
    if a[3] != 8 {
        return -i64::from(libc::EINVAL);
    }
    let [set, info_at, time] = [a[0], a[1], a[2]].map(i64::cast_unsigned);
    // SAFETY: the guest's set, and its time.
    let (set, time) = unsafe {
        (
            pointer::<u64>(set).read_unaligned(),
            (time != 0).then(|| pointer::<[i64; 2]>(time).read_unaligned()),
        )
    };
    let begun = Instant::now();
    loop {
        block.mailbox.await_signals(set);
        let mut result = -i64::from(libc::EINTR);
        if block.mailbox.pending() & set == 0 {
            let rest = set & !KEPT;
            let left = time.map(|time| less(time, begun.elapsed()));
            let left_at = left.as_ref().map_or(0, address_of);
            let number = libc::SYS_rt_sigtimedwait;
            result = host(number, [address_of(&rest), a[1], left_at, a[3], 0, 0]);
        }
        block.mailbox.await_signals(0);
        if result < 0
            && result != -i64::from(libc::EINVAL)
            && let Some((signal, info)) = block.mailbox.take(set)
        {
            if info_at != 0 {
                // SAFETY: the guest's struct.
                unsafe { pointer::<Info>(info_at).write_unaligned(info) };
            }
            return signal.into();
        }
        if !is_in_vain(block, result) {
            return result;
        }
    }
}

/// Returns the address of a value, for the host.
fn address_of<T>(value: &T) -> i64 {
    ptr::from_ref(value).expose_provenance() as i64
}

/// Returns what is left of a time. One that is none stays so.
fn less([seconds, nanoseconds]: [i64; 2], passed: Duration) -> [i64; 2] {
    let (Ok(seconds_left), Ok(nanoseconds_left)) = (seconds.try_into(), nanoseconds.try_into())
    else {
        return [seconds, nanoseconds];
    };
    if nanoseconds >= 1_000_000_000 {
        return [seconds, nanoseconds];
    }
    let left = Duration::new(seconds_left, nanoseconds_left).saturating_sub(passed);
    [left.as_secs().cast_signed(), left.subsec_nanos().into()]
}

/// Returns the pending signals: `rt_sigpending(2)`.
pub(crate) fn pending(block: &Block, a: [i64; 6]) -> i64 {
    let result = on_host(libc::SYS_rt_sigpending, a);
    let kept = block.mailbox.pending() & block.mailbox.blocked();
    if result == 0 && kept != 0 {
        // The host writes as many bytes as it was told.
        let mut bytes = kept.to_le_bytes();
        let size = (a[1] as usize).min(bytes.len());
        let at = pointer::<u8>(a[0].cast_unsigned());
        for (index, byte) in bytes[..size].iter_mut().enumerate() {
            // SAFETY: the call has written there.
            unsafe { *at.add(index) |= *byte };
        }
    }
    result
}

/// Sends a signal of those that are kept in `pending` to this process or a thread of it. Returns
/// `None` if the call is for the host.
pub(crate) fn send(block: &Block, number: i64, a: [i64; 6]) -> Option<i64> {
    // SAFETY: it takes nothing.
    let process = i64::from(unsafe { libc::getpid() });
    let to = |id: i64| Target::Thread(id as i32);
    let (target, signal, info_at) = match number {
        libc::SYS_kill if a[0] == process => (Target::Process, a[1], 0),
        libc::SYS_rt_sigqueueinfo if a[0] == process => (Target::Process, a[1], a[2]),
        libc::SYS_tkill => (to(a[0]), a[1], 0),
        libc::SYS_tgkill if a[0] == process => (to(a[1]), a[2], 0),
        libc::SYS_rt_tgsigqueueinfo if a[0] == process => (to(a[1]), a[2], a[3]),
        libc::SYS_kill | libc::SYS_rt_sigqueueinfo if a[0] > 0 => {
            return kill_another(number, a);
        }
        _ => return None,
    };
    let signal = signal as i32;
    if signal == libc::SIGKILL {
        ending::leave_tree();
    }
    if !(1..=SIGNALS as i32).contains(&signal) || bit(signal) & KEPT == 0 {
        return None;
    }
    let mut info: Info = [0; 16];
    if info_at == 0 {
        let code = match target {
            Target::Process => libc::SI_USER,
            Target::Thread(_) => libc::SI_TKILL,
        };
        // SAFETY: it takes nothing.
        let user = unsafe { libc::getuid() };
        let word = |low: i32, high: u32| u64::from(low.cast_unsigned()) | u64::from(high) << 32;
        info[0] = word(signal, 0);
        info[1] = word(code, 0);
        info[2] = word(process as i32, user);
    } else {
        // SAFETY: the guest's struct.
        info = unsafe { pointer::<Info>(info_at.cast_unsigned()).read_unaligned() };
        // As the host does.
        info[0] = info[0] & !0xFFFF_FFFF | u64::from(signal.cast_unsigned());
    }
    if is_ignored(target, signal) {
        return Some(0);
    }
    if let Some(thread) = post(target, signal, &info, block.mailbox)? {
        kick(thread);
    }
    Some(0)
}

/// Sends a signal to another process. One of the tree ends by SIGKILL at the end of its calls.
fn kill_another(number: i64, a: [i64; 6]) -> Option<i64> {
    if a[1] as i32 != libc::SIGKILL || !host_fork::shares_memory() {
        return None;
    }
    let was_there = ending::end_before_kill(a[0] as i32);
    let result = on_host(number, a);
    // Its parent may have learned of its end already.
    let is_gone = was_there && result == -i64::from(libc::ESRCH);
    Some(if is_gone { 0 } else { result })
}

/// Returns true if a signal of those that are kept in `pending` has no effect. As on the host, one
/// that is ignored becomes pending while it is blocked.
fn is_ignored(target: Target, signal: i32) -> bool {
    recorded(signal).handler == IGNORE && lets_in(target, signal)
}

/// The flag of an alternate stack that is disabled while a handler runs: `SS_AUTODISARM`. No thread
/// counts as being on it.
const AUTODISARM: i32 = i32::MIN;

/// Returns and changes the alternate stack: `sigaltstack(2)`.
pub(crate) fn alternate_stack(block: &Block, frame: &Frame, a: [i64; 6]) -> i64 {
    let (new, old) = (a[0].cast_unsigned(), a[1].cast_unsigned());
    let before = block.signal_stack.get();
    if new != 0 {
        // SAFETY: the guest's struct.
        let stack = unsafe { pointer::<libc::stack_t>(new).read_unaligned() };
        let result = change_stack(block, stack, frame.rsp);
        if result < 0 {
            return result;
        }
    }
    if old != 0 {
        let mut told = before;
        told.ss_flags = before.ss_flags & AUTODISARM;
        if before.ss_size == 0 {
            told.ss_flags |= libc::SS_DISABLE;
        } else if on_stack(&before, frame.rsp) {
            told.ss_flags |= libc::SS_ONSTACK;
        }
        // SAFETY: the guest's struct.
        unsafe { pointer::<libc::stack_t>(old).write_unaligned(told) };
    }
    0
}

/// Changes the alternate stack of a thread whose stack pointer is `rsp`.
fn change_stack(block: &Block, mut stack: libc::stack_t, rsp: u64) -> i64 {
    if on_stack(&block.signal_stack.get(), rsp) {
        return -i64::from(libc::EPERM);
    }
    match stack.ss_flags & !AUTODISARM {
        libc::SS_DISABLE => (stack.ss_sp, stack.ss_size) = (ptr::null_mut(), 0),
        0 | libc::SS_ONSTACK if stack.ss_size < libc::MINSIGSTKSZ => {
            return -i64::from(libc::ENOMEM);
        }
        0 | libc::SS_ONSTACK => {}
        _ => return -i64::from(libc::EINVAL),
    }
    block.signal_stack.set(stack);
    0
}

fn on_stack(stack: &libc::stack_t, rsp: u64) -> bool {
    let start = stack.ss_sp.addr() as u64;
    stack.ss_flags & AUTODISARM == 0 && rsp > start && rsp - start <= stack.ss_size as u64
}

/// The part of a context that the kernel writes and reads.
#[repr(C)]
#[derive(Clone, Copy)]
struct Context {
    flags: u64,
    link: u64,
    stack: libc::stack_t,
    registers: [i64; 23],
    state: u64,
    reserved: [u64; 8],
    mask: u64,
}

/// Frame that a handler of the guest finds at its stack pointer.
#[repr(C)]
struct GuestFrame {
    returns_to: u64,
    context: Context,
    info: [u64; 16],
}

/// Returns from a handler: `rt_sigreturn(2)`.
pub(crate) fn sigreturn(block: &Block, frame: &Frame) -> i64 {
    // The handler has taken its return address from the stack.
    let context = pointer::<Context>(frame.rsp);
    // SAFETY: the guest's frame, or what it has put there.
    let (mask, stack) = unsafe {
        (
            &raw mut (*context).mask,
            (&raw const (*context).stack).read_unaligned(),
        )
    };
    // SAFETY: as above.
    let chosen = unsafe { mask.read_unaligned() };
    if block.waits() {
        give_back(block, chosen);
    }
    block.mailbox.block(chosen);
    // SAFETY: as above.
    unsafe { mask.write_unaligned(chosen & !NEVER_BLOCKED) };
    // SAFETY: as above.
    let rip = unsafe { &raw mut (*context).registers[libc::REG_RIP as usize] };
    // SAFETY: as above.
    unsafe {
        let place = patch::return_to(block, rip.read_unaligned().cast_unsigned());
        rip.write_unaligned(place.cast_signed());
    };
    // As on the host, one that cannot be set is left out.
    let _ = change_stack(block, stack, frame.rsp);
    // The kernel would make it the stack of the runner's handler.
    // SAFETY: as above.
    unsafe { (&raw mut (*context).stack).write_unaligned(thread::signal_stack()) };
    // The mask of the frame lets them in.
    block.begin_way_out();
    deliver_kept(block);
    // SAFETY: the context is at the guest's stack pointer.
    unsafe { fdtable_run_sigreturn() }
}

/// Code of the host's signals for `int3`, and for instructions that only the kernel may run.
const SI_KERNEL: i32 = 0x80;

/// Sends a signal of a thread of the runner's libraries, which runs no guest, to another thread.
///
/// # Safety
/// `fdtable_run_signal` calls it with the arguments of a handler.
unsafe extern "C" fn on_foreign_signal(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) -> u8 {
    // SAFETY: the kernel's information.
    let code = unsafe { (*info).si_code };
    let was_sent = code <= 0;
    if signal == libc::SIGSEGV && code == SI_KERNEL {
        // SAFETY: the kernel's frame, which has these fields.
        let context = unsafe { &*context.cast::<Context>() };
        if patch::cpuid::has_faulted_elsewhere(&context.registers) {
            return 0;
        }
    }
    if !was_sent {
        // A fault of this thread, when it repeats.
        install_host(signal, &DEFAULT);
        return 0;
    }
    // SAFETY: the kernel's frame, which has these fields.
    let context = unsafe { &mut *context.cast::<Context>() };
    context.mask |= bit(signal);
    // SAFETY: the information is valid, and the signal is blocked on this thread.
    unsafe { send_to_process(signal, info) };
    0
}

/// Sends a signal to the process, with the same information if the host allows that.
///
/// # Safety
/// The information is valid.
unsafe fn send_to_process(signal: i32, info: *const libc::siginfo_t) {
    // SAFETY: as the caller promises.
    if unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, libc::getpid(), signal, info) } != 0 {
        // The host lets the leader alone pass on what `kill` has reported.
        // SAFETY: it takes no pointer.
        unsafe { libc::kill(libc::getpid(), signal) };
    }
}

/// The runner's handler of all signals. Returns what the selector becomes.
///
/// # Safety
/// `fdtable_run_signal` calls it with the arguments of a handler.
unsafe extern "C" fn on_signal(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) -> u8 {
    let block = Block::current();
    // SAFETY: the kernel's frame, which has these fields.
    let context = unsafe { &mut *context.cast::<Context>() };
    // SAFETY: the kernel's information.
    let code = unsafe { (*info).si_code };
    const SYS_USER_DISPATCH: i32 = 2;
    let is_report = signal == libc::SIGSYS && code == SYS_USER_DISPATCH;
    if is_report || has_trapped(block, context) {
        // Continues in the entry, as if it had been called.
        let site = context.registers[libc::REG_RIP as usize].cast_unsigned() - 2;
        block.trapped_at.set(site);
        context.registers[libc::REG_RCX as usize] = context.registers[libc::REG_RIP as usize];
        context.registers[libc::REG_RIP as usize] = address(fdtable_run_enter).cast_signed();
    }
    if is_report {
        return 1;
    }
    if signal == libc::SIGTRAP && code == SI_KERNEL && !block.is_inside() {
        let at = context.registers[libc::REG_RIP as usize].cast_unsigned() - 1;
        if let Some(stub) = patch::stub_of(at) {
            context.registers[libc::REG_RIP as usize] = stub.cast_signed();
            return 1;
        }
    }
    if signal == libc::SIGSEGV && code == SI_KERNEL && patch::cpuid::answer(&mut context.registers)
    {
        return u8::from(!block.is_inside());
    }
    // SAFETY: the kernel's information; the sender is there for signals that a process has sent.
    let is_foreign = code == libc::SI_USER && unsafe { (*info).si_pid() != libc::getpid() };
    if signal == KICK && is_foreign && observe::ask_for_list() {
        finish_way_out(block, context);
        return u8::from(!block.is_inside());
    }
    if signal == KICK {
        // Another thread may change code, whoever has sent this one: the host keeps one that waits,
        // and drops those that follow.
        if !block.is_inside() {
            let at = &mut context.registers[libc::REG_RIP as usize];
            *at = patch::moving(at.cast_unsigned()).cast_signed();
            if is_returning(context) {
                let rsp = context.registers[libc::REG_RSP as usize].cast_unsigned();
                let returns_to = pointer::<Context>(rsp);
                // SAFETY: the guest's frame, which the next instruction restores.
                unsafe {
                    let at = &raw mut (*returns_to).registers[libc::REG_RIP as usize];
                    let place = patch::moving(at.read_unaligned().cast_unsigned());
                    at.write_unaligned(place.cast_signed());
                }
            }
        }
        block.answer();
    }
    finish_way_out(block, context);
    if (signal, code) == KILLED && ending::is_killed() {
        block.end_soon();
        end_soon(block, context);
        return u8::from(!block.is_inside());
    }
    let is_fault = is_fault(signal, code);
    if bit(signal) & KEPT != 0 && code <= 0 {
        if code != OURS {
            let target = match code {
                libc::SI_TKILL => Target::Thread(block.id.get()),
                _ => Target::Process,
            };
            // SAFETY: the kernel's information.
            let info = unsafe { info.cast::<Info>().read_unaligned() };
            if !is_ignored(target, signal)
                && let Some(Some(thread)) = post(target, signal, &info, block.mailbox)
            {
                kick(thread);
            }
        }
        if block.is_to_end() {
            end_soon(block, context);
        } else {
            look(block, context);
        }
        return u8::from(!block.is_inside());
    }
    if block.is_to_end() && !block.is_inside() {
        if !is_fault {
            // For another thread, or the next program.
            context.mask |= bit(signal);
            // SAFETY: the information is valid. All signals are blocked in this handler.
            unsafe { send_again(block, signal, info) };
        }
        end_soon(block, context);
        return 1;
    }
    if block.is_inside() {
        if is_fault {
            // SAFETY: the arguments are those of a handler.
            if unsafe { runner::leave_access(ptr::from_mut(context).cast()) } {
                return 0;
            }
            install_host(signal, &DEFAULT);
            return 0;
        }
        // SAFETY: as above.
        unsafe { put_off(block, signal, info, context) };
        return 0;
    }
    deliver(block, signal, info, context);
    1
}

/// Returns true if the guest has run a `syscall`, and the host has not made the call.
///
/// The host reports the call by a SIGSYS. It drops the report if a SIGSYS that another process has
/// sent to the thread is pending. So the registers decide: the instruction stores the flags in
/// `r11` and the next address in `rcx`. The way out stores the same, but sets the highest bit of
/// `r11`.
fn has_trapped(block: &Block, context: &Context) -> bool {
    let register = |index: i32| context.registers[index as usize];
    !block.is_inside()
        && register(libc::REG_RCX) == register(libc::REG_RIP)
        && register(libc::REG_R11) == register(libc::REG_EFL)
}

/// Makes the context that of the guest, if all registers are the guest's but those in the block.
/// Without it a signal would wait for the end of a call that is over.
fn finish_way_out(block: &Block, context: &mut Context) {
    let at = context.registers[libc::REG_RIP as usize].cast_unsigned();
    let delivers = (address(fdtable_run_delivers)..address(fdtable_run_delivered)).contains(&at);
    if delivers {
        let kept = [
            (libc::REG_RAX, block.kept.rax),
            (libc::REG_RDI, block.kept.rdi),
            (libc::REG_RSI, block.kept.rsi),
            (libc::REG_RDX, block.kept.rdx),
            (libc::REG_R10, block.kept.r10),
            (libc::REG_R11, block.kept.r11),
        ];
        for (register, value) in kept {
            context.registers[register as usize] = value.cast_signed();
        }
    }
    // Signals that wait are blocked there until the mask is set.
    let looks = (address(fdtable_run_look)..address(fdtable_run_look_ends)).contains(&at);
    if delivers || looks && !block.waits() {
        context.registers[libc::REG_RIP as usize] = block.guest_rip.cast_signed();
        context.registers[libc::REG_RCX as usize] = block.guest_rip.cast_signed();
        block.leave();
    }
    if is_returning(context) {
        block.leave();
    }
}

/// Returns true if the thread is about to restore the context that the guest's handler returns to.
/// The stack and the base of `fs` are the guest's, and no signal waits.
fn is_returning(context: &Context) -> bool {
    let at = context.registers[libc::REG_RIP as usize].cast_unsigned();
    (address(fdtable_run_returns)..address(fdtable_run_returned)).contains(&at)
}

/// Delivers a signal that is kept in `pending`, or has it wait for the end of the call.
fn look(block: &Block, context: &mut Context) {
    if block.is_inside() {
        if block.mailbox.ends_sleep() {
            end_sleep(block, context);
            if block.is_on_way_out() {
                // The call does not look again: this arrives when its end lets signals in.
                context.mask |= bit(KICK);
                kick(block.id.get());
            }
        }
        return;
    }
    if let Some((signal, mut info)) = block.mailbox.take(!block.mailbox.blocked()) {
        deliver(block, signal, (&raw mut info).cast(), context);
        if block.mailbox.is_due() {
            kick(block.id.get());
        }
    }
}

/// Has the thread end, because another one executes a program: now if it is in the guest, otherwise
/// at the end of its call.
fn end_soon(block: &Block, context: &mut Context) {
    if block.is_inside() {
        return end_sleep(block, context);
    }
    let registers = &mut context.registers;
    let place =
        [libc::REG_RIP, libc::REG_RSP].map(|register| registers[register as usize].cast_unsigned());
    if let Some((handler, info)) = block.delivered.take()
        && handler == place
        && !is_fault(info[0] as i32, info[1] as i32)
    {
        // The handler has not begun: the signal is for another thread, or the next program. A
        // fault ends with its thread.
        let (signal, info) = (info[0] as i32, ptr::from_ref(&info).cast());
        context.mask |= bit(signal) & !NEVER_BLOCKED;
        // SAFETY: a copy of what the kernel has reported. All signals are blocked in this handler.
        unsafe { send_again(block, signal, info) };
    }
    block.trapped_at.set(0);
    registers[libc::REG_RAX as usize] = libc::SYS_exit;
    registers[libc::REG_RCX as usize] = registers[libc::REG_RIP as usize];
    registers[libc::REG_RIP as usize] = address(fdtable_run_enter).cast_signed();
}

/// Blocks all signals until the end of the call, and ends its sleep.
fn end_sleep(block: &Block, context: &mut Context) {
    if !block.waits() {
        match block.mask_is.get() {
            MaskIs::Taken if context.mask & BLOCKABLE == BLOCKABLE => {}
            MaskIs::Kept => block.hold(block.mask()),
            _ => block.hold(context.mask),
        }
    }
    context.mask |= HELD;
    let at = context.registers[libc::REG_RIP as usize].cast_unsigned();
    if (address(fdtable_run_host_looks)..address(fdtable_run_host_done) - 2 + 1).contains(&at) {
        context.registers[libc::REG_RIP as usize] = address(fdtable_run_host_ends).cast_signed();
    }
    interrupt(false);
}

/// Has a signal wait for the end of the call.
///
/// # Safety
/// The arguments are those of a handler.
unsafe fn put_off(block: &Block, signal: i32, info: *mut libc::siginfo_t, context: &mut Context) {
    // SAFETY: it takes nothing.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the C library keeps one for each thread.
    let errno_before = unsafe { errno.read() };
    end_sleep(block, context);
    // SAFETY: the information is valid. All signals are blocked in this handler.
    unsafe { send_again(block, signal, info) };
    // SAFETY: as above.
    unsafe { errno.write(errno_before) };
}

/// Sends a signal to the calling thread, with the same information. It may have been for the
/// process, and [`leave`] sends it there if the thread ends before.
///
/// # Safety
/// The information is valid.
unsafe fn send_again(block: &Block, signal: i32, info: *const libc::siginfo_t) {
    // SAFETY: as the caller promises.
    if unsafe { (*info).si_code } != libc::SI_TKILL {
        block.taken.set(block.taken.get() | bit(signal));
    }
    // SAFETY: they take no pointers.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    // SAFETY: as the caller promises.
    if unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info) } != 0 {
        // SAFETY: it takes no pointer.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    }
}

/// Has the signals delivered that are kept in `pending`, at the end of each call.
#[inline]
pub(crate) fn deliver_kept(block: &Block) {
    if pending::are_some() {
        deliver_due(block);
    }
}

#[cold]
fn deliver_due(block: &Block) {
    if block.mailbox.is_due() {
        hold_all(block);
        exchange_mask(libc::SIG_BLOCK, bit(KICK));
        kick(block.id.get());
    }
}

/// Sends on the signals for the process that the calling thread has taken, and that a new mask of
/// it blocks: another thread may let them in. All signals are blocked.
fn give_back(block: &Block, mask: u64) {
    let set = block.taken.get() & mask;
    if set == 0 {
        return;
    }
    block.taken.set(block.taken.get() & !set);
    take_pending(set)
        .iter()
        .for_each(|info| send_on(block, info));
}

/// Signals for the new program, while a thread executes it: those for the process that other
/// threads had taken.
static CARRIED: Guarded<Vec<Info>> = Guarded::new(Vec::new());

/// Forgets the signals of the parent, in the child of a fork.
pub(crate) fn forget_carried() {
    CARRIED.lock().clear();
}

/// Takes the pending signals of a set, which the calling thread blocks.
fn take_pending(set: u64) -> Vec<Info> {
    let take = || {
        let mut info: Info = [0; 16];
        let no_time = [0_i64; 2];
        let (set, at, time) = (&raw const set, &raw mut info, &raw const no_time);
        // SAFETY: the set and the time are valid, and there is room for the information.
        let taken = unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, set, at, time, 8) };
        (taken > 0).then_some(info)
    };
    std::iter::from_fn(take).collect()
}

/// Sends on a signal that was taken, which the calling thread blocks: to the thread if it was for
/// one, otherwise to the process. So two of one signal stay two.
fn send_on(block: &Block, info: &Info) {
    let (signal, code) = (info[0] as i32, info[1] as i32);
    let is_own = code == libc::SI_TKILL;
    if bit(signal) & KEPT == 0 {
        let at = ptr::from_ref(info).cast();
        return match is_own {
            // SAFETY: the host has reported the information, or the runner has made it.
            true => unsafe { send_again(block, signal, at) },
            // SAFETY: as above.
            false => unsafe { send_to_process(signal, at) },
        };
    }
    let target = match is_own {
        true => Target::Thread(block.id.get()),
        false => Target::Process,
    };
    if let Some(Some(thread)) = post(target, signal, info, block.mailbox) {
        kick(thread);
    }
}

/// Blocks all signals on the calling thread, which ends, also those of the runner. Sends on those
/// for the process that it has taken and not delivered.
///
/// If it hands a program over, the signals that are pending for it are the program's.
pub(crate) fn leave(block: &Block) {
    exchange_mask(libc::SIG_SETMASK, !0);
    block.mailbox.block(!0);
    let hands_over = ending::is_caller(block.id.get());
    let set = if hands_over { !0 } else { block.taken.get() };
    let mut infos = take_pending(set);
    if hands_over {
        infos.extend(std::iter::from_fn(|| block.mailbox.take(KEPT)).map(|(_, info)| info));
    } else {
        infos.retain(|info| info[1] as i32 != libc::SI_TKILL);
    }
    if ending::is_beginning() {
        CARRIED.lock().extend(infos);
        return;
    }
    infos.iter().for_each(|info| send_on(block, info));
}

/// Has the guest continue in its handler.
fn deliver(block: &Block, signal: i32, info: *mut libc::siginfo_t, context: &mut Context) {
    block.taken.set(block.taken.get() & !bit(signal));
    let action = recorded(signal);
    // SAFETY: the kernel's information.
    let is_fault = is_fault(signal, unsafe { (*info).si_code });
    if action.handler == IGNORE && !is_fault {
        return;
    }
    if action.handler <= IGNORE || is_fault && block.mailbox.blocked() & bit(signal) != 0 {
        // The host's default: for what the guest no longer handles, for what ends it after a
        // report, and for a fault that it does not let in. A fault repeats, and all else is sent
        // again.
        observe::at_end();
        ending::leave_tree();
        install_host(signal, &DEFAULT);
        if !is_fault {
            // SAFETY: it takes no pointer.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
        }
        return;
    }
    if action.flags & libc::SA_RESETHAND as u64 != 0 {
        record(
            signal,
            Action {
                handler: 0,
                ..action
            },
        );
        if !ALWAYS.contains(&signal) {
            install_host(signal, &DEFAULT);
        }
    }
    let register = |index: i32| index as usize;
    let site = block.trapped_at.take();
    if site != 0 {
        // A call has trapped, and is not in the runner yet: it is made after the handler.
        context.registers[register(libc::REG_RIP)] = site.cast_signed();
    }
    let repeats = block.repeats.replace(-1);
    let result = context.registers[register(libc::REG_RAX)];
    if repeats >= 0
        && result == -i64::from(libc::EINTR)
        && action.flags & libc::SA_RESTART as u64 != 0
    {
        context.registers[register(libc::REG_RAX)] = repeats;
        context.registers[register(libc::REG_RCX)] = context.registers[register(libc::REG_RIP)];
        context.registers[register(libc::REG_RIP)] = address(fdtable_run_enter).cast_signed();
    }
    let rsp = context.registers[register(libc::REG_RSP)].cast_unsigned();
    let stack = block.signal_stack.get();
    let uses_stack =
        action.flags & libc::SA_ONSTACK as u64 != 0 && stack.ss_size != 0 && !on_stack(&stack, rsp);
    let top = match uses_stack {
        true => stack.ss_sp.addr() as u64 + stack.ss_size as u64,
        // Compiled code keeps data below its stack pointer.
        false => rsp - 128,
    };
    let size = state_size(context.state);
    let state = (top - size) & !63;
    // SAFETY: the guest's stack; if there is none, the fault ends the process, as on the host.
    unsafe { pointer::<u8>(state).copy_from(pointer::<u8>(context.state), size as usize) };
    let frame = ((state - size_of::<GuestFrame>() as u64) & !15) - 8;
    let blocked = block.mailbox.blocked();
    let mask = block.suspended.take().unwrap_or(context.mask | blocked);
    let mut copy = *context;
    copy.state = state;
    copy.mask = mask;
    copy.stack = stack;
    if stack.ss_flags & AUTODISARM != 0 {
        block.disable_signal_stack();
    }
    let guest = pointer::<GuestFrame>(frame);
    // SAFETY: as above.
    unsafe {
        (&raw mut (*guest).returns_to).write_unaligned(action.restorer);
        (&raw mut (*guest).context).write_unaligned(copy);
        (&raw mut (*guest).info).write_unaligned(info.cast::<[u64; 16]>().read_unaligned());
    }
    let info_at = frame + std::mem::offset_of!(GuestFrame, info) as u64;
    let context_at = frame + std::mem::offset_of!(GuestFrame, context) as u64;
    for (index, value) in [
        (libc::REG_RIP, action.handler),
        (libc::REG_RSP, frame),
        (libc::REG_RDI, signal as u64),
        (libc::REG_RSI, info_at),
        (libc::REG_RDX, context_at),
        (libc::REG_RAX, 0),
    ] {
        context.registers[register(index)] = value.cast_signed();
    }
    // SAFETY: the kernel's information.
    let info = unsafe { info.cast::<Info>().read_unaligned() };
    let place = [action.handler, frame];
    block.delivered.set(Some((place, info)));
    // The direction, the trap and the resume flag.
    context.registers[register(libc::REG_EFL)] &= !0x1_0500;
    context.mask |= action.mask | blocked;
    if action.flags & libc::SA_NODEFER as u64 == 0 {
        context.mask |= bit(signal);
    }
    block.mailbox.block(context.mask);
    context.mask &= !NEVER_BLOCKED;
}

/// Returns the size of the vector state of a frame.
fn state_size(state: u64) -> u64 {
    const MAGIC: u32 = 0x4650_5853;
    // SAFETY: the kernel's frame: the software's part of the state begins at 464.
    let [magic, size] = unsafe { pointer::<[u32; 2]>(state + 464).read_unaligned() };
    if magic == MAGIC { size.into() } else { 512 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pending::Mailbox;

    extern "C" fn serve(_: &mut Frame) {}

    #[test]
    fn a_signal_on_the_way_back_from_a_handler_arrives_in_the_guest() {
        let back = address(fdtable_run_returns)..address(fdtable_run_returned);
        for at in back.start - 1..=back.end {
            let block = Block::new(1, 0, Mailbox::new(1), serve);
            block.hold(0);
            // SAFETY: all zeroes is a valid value of this struct of integers.
            let mut context: Context = unsafe { std::mem::zeroed() };
            context.registers[libc::REG_RIP as usize] = at.cast_signed();
            finish_way_out(&block, &mut context);
            assert_eq!(block.is_inside(), !back.contains(&at), "at {at:x}");
            assert_eq!(block.waits(), !back.contains(&at), "at {at:x}");
            let continues_at = context.registers[libc::REG_RIP as usize].cast_unsigned();
            assert_eq!(continues_at, at);
        }
    }
}
