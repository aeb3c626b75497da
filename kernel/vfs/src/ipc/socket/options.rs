//! Socket options of the level `SOL_SOCKET`.

use std::time::{Duration, Instant};

use crossbeam_utils::atomic::AtomicCell;

use super::ancillary::Ucred;
use super::core::Core;
use super::{CAPACITY, SocketType};
use crate::Errno;
use crate::ipc::wait_policy::WaitPolicy;

/// Smallest and largest size of a socket buffer in bytes: `SOCK_MIN_SNDBUF` of Linux, and twice the
/// default `net.core.wmem_max`.
const BUFFER: (usize, usize) = (4608, 2 * CAPACITY);

/// Socket option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketOption {
    /// `SO_TYPE`: 1 stream, 2 datagram, 5 seqpacket. Read-only.
    Type,
    /// `SO_DOMAIN`: 1, `AF_UNIX`. Read-only.
    Domain,
    /// `SO_PROTOCOL`: 0. Read-only.
    Protocol,
    /// `SO_ERROR`: the pending error, or 0. Reading it clears it. Read-only.
    Error,
    /// `SO_ACCEPTCONN`: whether it listens. Read-only.
    AcceptConnections,
    /// `SO_SNDBUF`: size of the send buffer in bytes. As on Linux, twice what was set; at least
    /// 4,608, at most 425,984.
    SendBuffer,
    /// `SO_RCVBUF`: kept and ignored, as on Linux.
    ReceiveBuffer,
    /// `SO_PASSCRED`: whether messages come with credentials.
    PassCredentials,
    /// `SO_PEERCRED`: credentials of the peer's maker. Read-only.
    PeerCredentials,
    /// `SO_RCVTIMEO`: how long a receive or an accept blocks.
    ReceiveTimeout,
    /// `SO_SNDTIMEO`: how long a send or a connect blocks.
    SendTimeout,
    /// `SO_REUSEADDR`: kept and ignored, as on Linux.
    ReuseAddress,
}

/// Value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A number, or 0 and 1 for no and yes.
    Number(i32),
    /// A timeout; `None` for no limit.
    Time(Option<Duration>),
    /// Credentials.
    Credentials(Ucred),
}

/// Stored options of a socket.
#[derive(Debug)]
pub(super) struct Options {
    send_buffer: AtomicCell<usize>,
    receive_buffer: AtomicCell<usize>,
    pass_credentials: AtomicCell<bool>,
    reuse_address: AtomicCell<bool>,
    /// In nanoseconds; 0 is no limit.
    receive_timeout: AtomicCell<u64>,
    send_timeout: AtomicCell<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            send_buffer: AtomicCell::new(CAPACITY),
            receive_buffer: AtomicCell::new(CAPACITY),
            pass_credentials: AtomicCell::new(false),
            reuse_address: AtomicCell::new(false),
            receive_timeout: AtomicCell::new(0),
            send_timeout: AtomicCell::new(0),
        }
    }
}

impl Options {
    pub(super) fn send_buffer(&self) -> usize {
        self.send_buffer.load()
    }

    pub(super) fn passes_credentials(&self) -> bool {
        self.pass_credentials.load()
    }

    /// Returns how long a blocking receive blocks.
    pub(super) fn receive_policy(&self) -> WaitPolicy {
        policy(self.receive_timeout.load())
    }

    /// Returns how long a blocking send blocks.
    pub(super) fn send_policy(&self) -> WaitPolicy {
        policy(self.send_timeout.load())
    }
}

impl Core {
    pub(super) fn option(&self, option: SocketOption) -> Result<OptionValue, Errno> {
        let options = &self.options;
        Ok(match option {
            SocketOption::Type => OptionValue::Number(self.kind().number()),
            SocketOption::Domain => OptionValue::Number(1),
            SocketOption::Protocol => OptionValue::Number(0),
            SocketOption::Error => {
                OptionValue::Number(self.incoming.take_error().map_or(0, Errno::errno))
            }
            SocketOption::AcceptConnections => OptionValue::Number(self.is_listening().into()),
            SocketOption::SendBuffer => number(options.send_buffer.load()),
            SocketOption::ReceiveBuffer => number(options.receive_buffer.load()),
            SocketOption::PassCredentials => {
                OptionValue::Number(options.pass_credentials.load().into())
            }
            SocketOption::PeerCredentials => OptionValue::Credentials(self.peer_credentials()),
            SocketOption::ReceiveTimeout => time(options.receive_timeout.load()),
            SocketOption::SendTimeout => time(options.send_timeout.load()),
            SocketOption::ReuseAddress => OptionValue::Number(options.reuse_address.load().into()),
        })
    }

    pub(super) fn set_option(&self, option: SocketOption, value: OptionValue) -> Result<(), Errno> {
        let options = &self.options;
        match (option, value) {
            (SocketOption::SendBuffer, OptionValue::Number(bytes)) => {
                options.send_buffer.store(buffer_size(bytes));
                self.resize_outgoing();
            }
            (SocketOption::ReceiveBuffer, OptionValue::Number(bytes)) => {
                options.receive_buffer.store(buffer_size(bytes));
            }
            (SocketOption::PassCredentials, OptionValue::Number(on)) => {
                options.pass_credentials.store(on != 0);
            }
            (SocketOption::ReuseAddress, OptionValue::Number(on)) => {
                options.reuse_address.store(on != 0);
            }
            (SocketOption::ReceiveTimeout, OptionValue::Time(limit)) => {
                options.receive_timeout.store(nanoseconds(limit));
            }
            (SocketOption::SendTimeout, OptionValue::Time(limit)) => {
                options.send_timeout.store(nanoseconds(limit));
            }
            (
                SocketOption::SendBuffer
                | SocketOption::ReceiveBuffer
                | SocketOption::PassCredentials
                | SocketOption::ReuseAddress
                | SocketOption::ReceiveTimeout
                | SocketOption::SendTimeout,
                _,
            ) => return Err(Errno::EINVAL),
            _ => return Err(Errno::ENOPROTOOPT),
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
        self.link.get().map_or(none, |link| link.credentials)
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

fn policy(nanoseconds: u64) -> WaitPolicy {
    match nanoseconds {
        0 => WaitPolicy::Forever,
        limit => match Instant::now().checked_add(Duration::from_nanos(limit)) {
            Some(deadline) => WaitPolicy::Until(deadline),
            None => WaitPolicy::Forever,
        },
    }
}

fn buffer_size(bytes: i32) -> usize {
    let doubled = usize::try_from(bytes).unwrap_or(usize::MAX / 2) * 2;
    doubled.clamp(BUFFER.0, BUFFER.1)
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
