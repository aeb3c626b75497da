//! Calls that wait: with another mask, or for a time. A signal of the runner only repeats them.

use std::sync::atomic::{Ordering::SeqCst, compiler_fence};
use std::time::{Duration, Instant};

use fdtable_posix::fdt_pselect;
use fdtable_vfs::event::interrupt;

use super::actions::{IGNORE, recorded};
use super::mask::{defer_all, set_guest_mask};
use super::sets::{IGNORED_BY_DEFAULT, NEVER_BLOCKED};
use crate::abi::{address_of, call, exchange_mask};
use crate::block::{Block, MaskPlace, Request};
use crate::entry::host;
use crate::memory::{self, pointer};
use crate::pending::{EMULATED, bit};

/// Runs a call that waits with another mask, which is at an address of the guest.
pub(crate) fn with_mask(
    block: &Block,
    at: i64,
    size: i64,
    call: impl Fn() -> i64,
) -> Result<i64, i32> {
    if at == 0 {
        return Ok(call());
    }
    if size != 8 {
        return Err(libc::EINVAL);
    }
    let new: u64 = memory::get(at.cast_unsigned())?;
    let before = defer_all(block);
    // Unblocks the signals that the new mask does not block. A signal that arrives is deferred,
    // with this mask.
    block.mask.set(new & !NEVER_BLOCKED);
    block.mask_place.set(MaskPlace::Block);
    // Pairs with the handlers of this thread: they see both before they see that no signal is
    // deferred.
    compiler_fence(SeqCst);
    block.clear_deferred();
    block.mailbox.block(new);
    exchange_mask(libc::SIG_SETMASK, new & !NEVER_BLOCKED);
    if block.mailbox.is_due() || block.must_exit() {
        // As if the signal arrived here.
        defer_all(block);
        interrupt(false);
    }
    let result = loop {
        let result = call();
        if !must_retry(block, result) {
            break result;
        }
    };
    let during = defer_all(block);
    if result == -i64::from(libc::EINTR) {
        // The handler runs with the mask of the wait, and returns to the one before.
        set_guest_mask(block, during);
        block.suspended.set(Some(before));
    } else {
        set_guest_mask(block, before);
    }
    Ok(result)
}

/// Returns true if a signal of the runner has interrupted a call, so that it must be made again.
pub(crate) fn must_retry(block: &Block, result: i64) -> bool {
    result == -i64::from(libc::EINTR) && !block.has_deferred() && !block.must_exit()
}

/// Makes a call whose argument `index` is the address of a timeout. If a signal of the runner has
/// interrupted the call, makes it again with the time left.
pub(crate) fn with_time(
    block: &Block,
    mut a: [i64; 6],
    index: usize,
    call: impl Fn([i64; 6]) -> i64,
) -> i64 {
    // Before the call: it may write the time left there.
    let time = memory::get::<[i64; 2]>(a[index].cast_unsigned());
    let begun = Instant::now();
    let mut left;
    loop {
        let result = call(a);
        let (Ok(time), true) = (time, must_retry(block, result)) else {
            return result;
        };
        left = time_left(time, begun.elapsed());
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
        if !must_retry(block, result) {
            return result;
        }
        let passed = i64::try_from(begun.elapsed().as_millis()).unwrap_or(time);
        a[index] = (time - passed).max(0);
    }
}

/// Returns the result of a wait with a mask: `-EINTR` if a signal was deferred, also if the time
/// was over or 0. `epoll_wait` with time 0 is an exception, which its caller makes.
pub(crate) fn or_interrupted(block: &Block, result: i64) -> i64 {
    if result == 0 && block.has_deferred() {
        return -i64::from(libc::EINTR);
    }
    result
}

/// Waits with a mask: `pselect6(2)`, whose last argument leads to the mask and its length.
pub(crate) fn pselect(block: &Block, a: &[i64; 6]) -> Result<i64, i32> {
    let [at, size] = memory::get_if_any(a[5].cast_unsigned())?.unwrap_or([0; 2]);
    with_mask(block, at, size, || {
        // A call that fails leaves the sets as they are.
        let before = if block.has_deferred() {
            sets(a)
        } else {
            Vec::new()
        };
        let select = || call!(fdt_pselect(a[0], a[1], a[2], a[3], a[4], 0));
        let result = with_time_left(a[4], select);
        let ended = or_interrupted(block, result);
        if ended != result {
            for (place, bytes) in before {
                // SAFETY: the call has written the set, of this size.
                unsafe { pointer::<u8>(place).copy_from(bytes.as_ptr(), bytes.len()) };
            }
        }
        ended
    })
}

/// Copies the sets of a `select`: their addresses and their bytes, as far as they can be read.
fn sets(a: &[i64; 6]) -> Vec<(u64, Vec<u8>)> {
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
pub(crate) fn suspend(block: &Block, a: &[i64; 6]) -> Result<i64, i32> {
    if a[0] == 0 {
        return Err(libc::EFAULT);
    }
    with_mask(block, a[0], a[1], || {
        // The mask is set; a signal that has arrived since ends it at once.
        host(libc::SYS_pause, [0; 6])
    })
}

/// Takes a signal: `rt_sigtimedwait(2)`.
pub(crate) fn timed_wait(r: &Request<'_>, a: &[i64; 6]) -> Result<i64, i32> {
    let block = r.block;
    if a[3] != 8 {
        return Err(libc::EINVAL);
    }
    let [set, info_at, time] = [a[0], a[1], a[2]].map(i64::cast_unsigned);
    let set: u64 = memory::get(set)?;
    let time: Option<[i64; 2]> = memory::get_if_any(time)?;
    let begun = Instant::now();
    loop {
        block.mailbox.await_signals(set);
        let mut result = -i64::from(libc::EINTR);
        if block.mailbox.pending() & set == 0 {
            let rest = set & !EMULATED;
            let left = time.map(|time| time_left(time, begun.elapsed()));
            let left_at = left.as_ref().map_or(0, address_of);
            result = host(r.number, [address_of(&rest), a[1], left_at, a[3], 0, 0]);
        }
        block.mailbox.await_signals(0);
        if result < 0
            && result != -i64::from(libc::EINVAL)
            && let Some((signal, info)) = block.mailbox.take(set)
        {
            memory::put_if_any(info_at, info)?;
            return Ok(signal.into());
        }
        if !must_retry(block, result) && !is_dropped(block, result as i32) {
            return Ok(result);
        }
    }
}

/// Returns true if Linux would have dropped a signal that the host has taken: one that is ignored,
/// and that the guest does not block. The host keeps it for the supervisor, which is the tracer.
fn is_dropped(block: &Block, signal: i32) -> bool {
    let is_ignored = || match recorded(signal).handler {
        0 => bit(signal) & IGNORED_BY_DEFAULT != 0,
        handler => handler == IGNORE,
    };
    let blocked = || match block.has_deferred() {
        true => block.mask(),
        false => exchange_mask(libc::SIG_BLOCK, 0),
    };
    signal > 0 && is_ignored() && bit(signal) & blocked() == 0
}

/// Returns the time left. An invalid time stays as it is.
fn time_left(time: [i64; 2], passed: Duration) -> [i64; 2] {
    duration(time).map_or(time, |limit| {
        let left = limit.saturating_sub(passed);
        [left.as_secs().cast_signed(), left.subsec_nanos().into()]
    })
}

/// Makes a call with a timeout, and writes the time left to it, as the kernel does.
pub(crate) fn with_time_left(at: i64, wait: impl FnOnce() -> i64) -> i64 {
    let begun = Instant::now();
    let time = memory::get(at.cast_unsigned());
    let result = wait();
    if let Ok(time) = time
        && duration(time).is_some()
    {
        // The time may be read-only: then it stays.
        let _ = memory::put_if_any(at.cast_unsigned(), time_left(time, begun.elapsed()));
    }
    result
}

/// Returns a time of the guest, if it is valid.
fn duration([seconds, nanoseconds]: [i64; 2]) -> Option<Duration> {
    let (seconds, nanoseconds) = (seconds.try_into().ok()?, nanoseconds.try_into().ok()?);
    (nanoseconds < 1_000_000_000).then(|| Duration::new(seconds, nanoseconds))
}
