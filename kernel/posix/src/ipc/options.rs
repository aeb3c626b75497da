//! Options of sockets, and their values in memory of the program.

use std::ffi::{c_int, c_void};
use std::slice;
use std::time::Duration;

use fdtable_vfs::Errno;
use fdtable_vfs::socket::{KeptOption, OptionValue, SocketOption, Ucred};
use libc::socklen_t;

use crate::abi::uaccess;

pub(super) fn option(level: c_int, name: c_int) -> Result<SocketOption, Errno> {
    if level != libc::SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(match name {
        libc::SO_TYPE => SocketOption::Type,
        libc::SO_DOMAIN => SocketOption::Domain,
        libc::SO_PROTOCOL => SocketOption::Protocol,
        libc::SO_ERROR => SocketOption::Error,
        libc::SO_ACCEPTCONN => SocketOption::AcceptConnections,
        libc::SO_SNDBUF => SocketOption::SendBuffer,
        libc::SO_RCVBUF => SocketOption::ReceiveBuffer,
        libc::SO_PASSCRED => SocketOption::PassCredentials,
        libc::SO_PEERCRED => SocketOption::PeerCredentials,
        libc::SO_RCVTIMEO => SocketOption::ReceiveTimeout,
        libc::SO_SNDTIMEO => SocketOption::SendTimeout,
        libc::SO_LINGER => SocketOption::Linger,
        libc::SO_COOKIE => SocketOption::Cookie,
        libc::SO_SNDBUFFORCE => SocketOption::SendBufferForce,
        libc::SO_RCVBUFFORCE => SocketOption::ReceiveBufferForce,
        libc::SO_PEEK_OFF => SocketOption::PeekOffset,
        libc::SO_SNDLOWAT => SocketOption::SendLowWater,
        libc::SO_REUSEPORT => SocketOption::ReusePort,
        name => SocketOption::Kept(kept_option(name)?),
    })
}

/// Returns the option of a number, of those without an effect.
///
/// # Errors
/// `ENOPROTOOPT`.
fn kept_option(name: c_int) -> Result<KeptOption, Errno> {
    Ok(match name {
        libc::SO_DEBUG => KeptOption::Debug,
        libc::SO_REUSEADDR => KeptOption::ReuseAddress,
        libc::SO_DONTROUTE => KeptOption::DontRoute,
        libc::SO_BROADCAST => KeptOption::Broadcast,
        libc::SO_KEEPALIVE => KeptOption::KeepAlive,
        libc::SO_OOBINLINE => KeptOption::OobInline,
        libc::SO_NO_CHECK => KeptOption::NoCheck,
        libc::SO_PRIORITY => KeptOption::Priority,
        libc::SO_RCVLOWAT => KeptOption::ReceiveLowWater,
        libc::SO_TIMESTAMP => KeptOption::Timestamp,
        libc::SO_TIMESTAMPNS => KeptOption::TimestampNanos,
        libc::SO_PASSSEC => KeptOption::PassSecurity,
        libc::SO_MARK => KeptOption::Mark,
        libc::SO_RXQ_OVFL => KeptOption::QueueOverflow,
        libc::SO_WIFI_STATUS => KeptOption::WifiStatus,
        libc::SO_NOFCS => KeptOption::NoChecksum,
        libc::SO_SELECT_ERR_QUEUE => KeptOption::SelectErrorQueue,
        libc::SO_BUSY_POLL => KeptOption::BusyPoll,
        libc::SO_INCOMING_CPU => KeptOption::IncomingCpu,
        libc::SO_PREFER_BUSY_POLL => KeptOption::PreferBusyPoll,
        SO_RCVMARK => KeptOption::ReceiveMark,
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

/// Option that the `libc` crate does not define.
const SO_RCVMARK: c_int = 75;

/// Writes the value of an option to the caller, truncated to the room there is.
///
/// # Safety
/// If `to` can be an address, there is room for `room` bytes, and `length` points to a length.
pub(super) unsafe fn put_option(
    value: &OptionValue,
    to: *mut c_void,
    room: usize,
    length: *mut socklen_t,
) -> Result<c_int, Errno> {
    let words: [u64; 2];
    let number: i32;
    let cookie: u64;
    let linger: [i32; 2];
    let credentials: [u32; 3];
    let bytes = match value {
        OptionValue::Number(value) => {
            number = *value;
            bytes_of(&number)
        }
        OptionValue::Cookie(value) => {
            cookie = *value;
            bytes_of(&cookie)
        }
        OptionValue::Linger(on, seconds) => {
            linger = [(*on).into(), *seconds];
            bytes_of(&linger)
        }
        OptionValue::Time(time) => {
            let time = time.unwrap_or_default();
            words = [time.as_secs(), time.subsec_micros().into()];
            bytes_of(&words)
        }
        OptionValue::Credentials(Ucred { pid, uid, gid }) => {
            credentials = [pid.cast_unsigned(), *uid, *gid];
            bytes_of(&credentials)
        }
    };
    if matches!(value, OptionValue::Cookie(_)) && room < bytes.len() {
        return Err(Errno::EINVAL);
    }
    let count = bytes.len().min(room);
    // SAFETY: as the caller promises.
    unsafe { uaccess::bytes_mut(to, count) }?.copy_from_slice(&bytes[..count]);
    // SAFETY: as the caller promises.
    unsafe { uaccess::put(length, count as socklen_t) }?;
    Ok(0)
}

/// Returns the bytes of a struct of integers.
fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: callers pass only types without padding.
    unsafe { slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
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
