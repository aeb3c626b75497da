//! Options of sockets, and their values in memory of the program.

use std::ffi::{c_int, c_void};
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
        // These have no effect.
        libc::SO_DEBUG => SocketOption::Kept(KeptOption::Debug),
        libc::SO_REUSEADDR => SocketOption::Kept(KeptOption::ReuseAddress),
        libc::SO_DONTROUTE => SocketOption::Kept(KeptOption::DontRoute),
        libc::SO_BROADCAST => SocketOption::Kept(KeptOption::Broadcast),
        libc::SO_KEEPALIVE => SocketOption::Kept(KeptOption::KeepAlive),
        libc::SO_OOBINLINE => SocketOption::Kept(KeptOption::OobInline),
        libc::SO_NO_CHECK => SocketOption::Kept(KeptOption::NoCheck),
        libc::SO_PRIORITY => SocketOption::Kept(KeptOption::Priority),
        libc::SO_RCVLOWAT => SocketOption::Kept(KeptOption::ReceiveLowWater),
        libc::SO_TIMESTAMP => SocketOption::Kept(KeptOption::Timestamp),
        libc::SO_TIMESTAMPNS => SocketOption::Kept(KeptOption::TimestampNanos),
        libc::SO_PASSSEC => SocketOption::Kept(KeptOption::PassSecurity),
        libc::SO_MARK => SocketOption::Kept(KeptOption::Mark),
        libc::SO_RXQ_OVFL => SocketOption::Kept(KeptOption::QueueOverflow),
        libc::SO_WIFI_STATUS => SocketOption::Kept(KeptOption::WifiStatus),
        libc::SO_NOFCS => SocketOption::Kept(KeptOption::NoChecksum),
        libc::SO_SELECT_ERR_QUEUE => SocketOption::Kept(KeptOption::SelectErrorQueue),
        libc::SO_BUSY_POLL => SocketOption::Kept(KeptOption::BusyPoll),
        libc::SO_INCOMING_CPU => SocketOption::Kept(KeptOption::IncomingCpu),
        libc::SO_PREFER_BUSY_POLL => SocketOption::Kept(KeptOption::PreferBusyPoll),
        SO_RCVMARK => SocketOption::Kept(KeptOption::ReceiveMark),
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
