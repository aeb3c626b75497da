//! `getsockopt(2)` and `setsockopt(2)`.

use std::time::Duration;

use super::SocketType;
use super::ancillary::Ucred;
use super::core::Core;
use super::options::{Linger, OptionValue, SocketOption};
use crate::Errno;

/// Smallest size of a send buffer and of a receive buffer in bytes: `SOCK_MIN_SNDBUF` and
/// `SOCK_MIN_RCVBUF` of Linux.
const SMALLEST: [usize; 2] = [4608, 2304];

/// Largest size of a buffer that a process may ask for, in bytes: the default `net.core.wmem_max`.
const LARGEST: usize = 4 << 20;

impl Core {
    /// Returns the value of an option.
    ///
    /// # Errors
    /// `ENOPROTOOPT` if it is write-only.
    pub(crate) fn option(&self, option: SocketOption) -> Result<OptionValue, Errno> {
        let options = &self.options;
        Ok(match option {
            SocketOption::Type => OptionValue::Number(self.kind.number()),
            SocketOption::Domain => OptionValue::Number(1),
            SocketOption::Protocol | SocketOption::ReusePort => OptionValue::Number(0),
            SocketOption::Error => {
                OptionValue::Number(self.incoming.take_error().map_or(0, Errno::errno))
            }
            SocketOption::AcceptConnections => OptionValue::Number(self.is_listening().into()),
            SocketOption::Cookie => OptionValue::Cookie(self.cookie()),
            SocketOption::SendBuffer => number(options.send_buffer.load()),
            SocketOption::ReceiveBuffer => number(options.receive_buffer.load()),
            SocketOption::PassCredentials => {
                OptionValue::Number(options.passes_credentials().into())
            }
            SocketOption::PeerCredentials => OptionValue::Credentials(self.peer_credentials()),
            SocketOption::ReceiveTimeout => time(options.receive_timeout.load()),
            SocketOption::SendTimeout => time(options.send_timeout.load()),
            SocketOption::Linger => {
                let linger = options.rare.get().map(|rare| rare.linger.load());
                let Linger(on, seconds) = linger.unwrap_or_default();
                let on = on != 0;
                OptionValue::Linger(on, seconds)
            }
            SocketOption::PeekOffset => {
                let offset = options.rare.get().map(|rare| rare.peek_offset.load());
                OptionValue::Number(offset.unwrap_or(-1))
            }
            SocketOption::SendLowWater => OptionValue::Number(1),
            SocketOption::SendBufferForce | SocketOption::ReceiveBufferForce => {
                return Err(Errno::ENOPROTOOPT);
            }
            kept => OptionValue::Number(options.kept(kept)),
        })
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `ENOPROTOOPT` if it is read-only; `EINVAL` if the value has the wrong type or is not
    /// possible; `EOPNOTSUPP` for `SO_REUSEPORT`, unless it is 0.
    pub(crate) fn set_option(&self, option: SocketOption, value: OptionValue) -> Result<(), Errno> {
        let options = &self.options;
        match (option, value) {
            (SocketOption::SendBuffer, OptionValue::Number(bytes)) => {
                options
                    .send_buffer
                    .store(buffer_size(asked(bytes), SMALLEST[0]));
                self.resize_outgoing();
            }
            (SocketOption::SendBufferForce, OptionValue::Number(bytes)) => {
                options.send_buffer.store(buffer_size(bytes, SMALLEST[0]));
                self.resize_outgoing();
            }
            (SocketOption::ReceiveBuffer, OptionValue::Number(bytes)) => {
                let size = buffer_size(asked(bytes), SMALLEST[1]);
                options.receive_buffer.store(size);
            }
            (SocketOption::ReceiveBufferForce, OptionValue::Number(bytes)) => {
                options
                    .receive_buffer
                    .store(buffer_size(bytes, SMALLEST[1]));
            }
            (SocketOption::PassCredentials, OptionValue::Number(on)) => {
                self.pass_credentials(on != 0);
            }
            (SocketOption::ReceiveTimeout, OptionValue::Time(limit)) => {
                options.receive_timeout.store(nanoseconds(limit));
            }
            (SocketOption::SendTimeout, OptionValue::Time(limit)) => {
                options.send_timeout.store(nanoseconds(limit));
            }
            (SocketOption::Linger, OptionValue::Linger(on, seconds)) => {
                let linger = &options.rare().linger;
                // Without it, the seconds stay, as on Linux.
                let seconds = if on { seconds } else { linger.load().1 };
                linger.store(Linger(on.into(), seconds));
            }
            (SocketOption::PeekOffset, OptionValue::Number(offset)) => {
                options.rare().peek_offset.store(offset);
            }
            (SocketOption::ReusePort, OptionValue::Number(0)) => {}
            (SocketOption::ReusePort, OptionValue::Number(_)) => return Err(Errno::EOPNOTSUPP),
            (
                SocketOption::Type
                | SocketOption::Domain
                | SocketOption::Protocol
                | SocketOption::Error
                | SocketOption::AcceptConnections
                | SocketOption::Cookie
                | SocketOption::PeerCredentials
                | SocketOption::SendLowWater,
                _,
            ) => return Err(Errno::ENOPROTOOPT),
            (
                SocketOption::ReceiveTimeout | SocketOption::SendTimeout | SocketOption::Linger,
                _,
            ) => return Err(Errno::EINVAL),
            (kept, OptionValue::Number(value)) => return options.keep(kept, value),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// Resizes the queue of the connected peer. The queue of a datagram peer has other senders, and
    /// stays.
    fn resize_outgoing(&self) {
        if let Some(link) = self.link.get() {
            link.outgoing.set_capacity(self.options.send_buffer());
        }
    }

    /// As on Linux, a socket without a peer has no credentials: -1.
    fn peer_credentials(&self) -> Ucred {
        let none = Ucred {
            pid: 0,
            uid: u32::MAX,
            gid: u32::MAX,
        };
        match self.link.get() {
            Some(link) => link.credentials,
            None => self.state.lock().peer_credentials().unwrap_or(none),
        }
    }
}

impl SocketType {
    /// Returns the type number of Linux (`SOCK_STREAM`).
    pub fn number(self) -> i32 {
        match self {
            SocketType::Stream => 1,
            SocketType::Datagram => 2,
            SocketType::SeqPacket => 5,
        }
    }
}

/// Limits the size that a process may ask for. A negative one is the largest, as on Linux.
fn asked(bytes: i32) -> i32 {
    let bytes = usize::try_from(bytes).unwrap_or(LARGEST);
    bytes.min(LARGEST) as i32
}

/// Returns twice the size that was set, and at least `smallest`.
fn buffer_size(bytes: i32, smallest: usize) -> usize {
    let bytes = usize::try_from(bytes).unwrap_or(0);
    bytes
        .min(i32::MAX as usize / 2)
        .saturating_mul(2)
        .max(smallest)
}

fn number(bytes: usize) -> OptionValue {
    OptionValue::Number(i32::try_from(bytes).unwrap_or(i32::MAX))
}

fn time(nanoseconds: u64) -> OptionValue {
    OptionValue::Time((nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds)))
}

/// A limit that does not fit is none; a limit of zero is none, as on Linux.
fn nanoseconds(limit: Option<Duration>) -> u64 {
    limit.map_or(0, |limit| u64::try_from(limit.as_nanos()).unwrap_or(0))
}
