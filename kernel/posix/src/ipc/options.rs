//! Options of sockets, and their values in memory of the program.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use fdtable_vfs::Errno;
use fdtable_vfs::socket::{OptionValue, SocketOption, Ucred};
use libc::socklen_t;

use crate::abi::uaccess;

pub(super) fn option(level: c_int, name: c_int) -> Result<SocketOption, Errno> {
    if level != libc::SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP);
    }
    SocketOption::of(name).ok_or(Errno::ENOPROTOOPT)
}

/// Writes the value of an option to the caller, truncated to the room there is.
///
/// # Safety
/// If `to` can be an address, there is room for `room` bytes, and `length` points to a length.
pub(super) unsafe fn put_option(
    value: &OptionValue,
    to: *mut c_void,
    room: usize,
    length: *mut socklen_t,
) -> Result<(), Errno> {
    let bytes = match *value {
        OptionValue::Number(value) => value.to_ne_bytes().to_vec(),
        OptionValue::Cookie(value) => value.to_ne_bytes().to_vec(),
        OptionValue::Linger(on, seconds) => [on.into(), seconds].map(i32::to_ne_bytes).concat(),
        OptionValue::Time(time) => {
            let time = time.unwrap_or_default();
            let words = [time.as_secs(), time.subsec_micros().into()];
            words.map(u64::to_ne_bytes).concat()
        }
        OptionValue::Credentials(Ucred { pid, uid, gid }) => {
            let words = [pid.cast_unsigned(), uid, gid];
            words.map(u32::to_ne_bytes).concat()
        }
    };
    if matches!(value, OptionValue::Cookie(_)) && room < bytes.len() {
        return Err(Errno::EINVAL);
    }
    let count = bytes.len().min(room);
    // SAFETY: as the caller promises.
    unsafe { uaccess::bytes_mut(to, count) }?.copy_from_slice(&bytes[..count]);
    // SAFETY: as the caller promises.
    unsafe { uaccess::put(length, count as socklen_t) }
}

/// Reads the value of an option.
///
/// # Safety
/// If `at` can be an address, `length` bytes are there.
pub(super) unsafe fn option_value(
    option: SocketOption,
    at: *const c_void,
    length: socklen_t,
) -> Result<OptionValue, Errno> {
    let is_time = matches!(
        option,
        SocketOption::ReceiveTimeout | SocketOption::SendTimeout
    );
    let needed = match option {
        _ if is_time => size_of::<libc::timeval>(),
        SocketOption::Linger => size_of::<libc::linger>(),
        _ => size_of::<c_int>(),
    };
    if (length as usize) < needed {
        return Err(Errno::EINVAL);
    }
    if option == SocketOption::Linger {
        // SAFETY: as the caller promises.
        let linger = unsafe { uaccess::get(at.cast::<libc::linger>()) }?;
        return Ok(OptionValue::Linger(linger.l_onoff != 0, linger.l_linger));
    }
    if !is_time {
        // SAFETY: as the caller promises.
        return unsafe { uaccess::get(at.cast::<c_int>()) }.map(OptionValue::Number);
    }
    // SAFETY: as the caller promises.
    let time = unsafe { uaccess::get(at.cast::<libc::timeval>()) }?;
    if !(0..1_000_000).contains(&time.tv_usec) {
        return Err(Errno::from_raw(libc::EDOM));
    }
    // A negative time expires at once.
    let micros = time.tv_usec as u32;
    let time = u64::try_from(time.tv_sec).map(|seconds| Duration::new(seconds, micros * 1000));
    let time = time.unwrap_or(Duration::from_nanos(1));
    Ok(OptionValue::Time((!time.is_zero()).then_some(time)))
}
