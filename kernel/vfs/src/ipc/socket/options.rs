//! The socket options of the level `SOL_SOCKET`, and their values.

use std::time::{Duration, Instant};

use crossbeam_utils::atomic::AtomicCell;
use fdtable_shm::OnceCell;

use super::CAPACITY;
use super::ancillary::Ucred;
use super::receive::Look;
use crate::Errno;
use crate::event::{Limit, Restart};

/// Makes the enum of the options from their numbers.
macro_rules! socket_options {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal,)+) => {
        /// Socket option, with its number in Linux.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum SocketOption {
            $($(#[doc = $doc])+ $name = $number,)+
        }

        impl SocketOption {
            /// Returns the option with a number of Linux, if it is known here.
            pub const fn of(number: i32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)+
                    _ => None,
                }
            }
        }
    };
}

socket_options! {
    /// `SO_TYPE`: 1 stream, 2 datagram, 5 seqpacket. Read-only.
    Type = 3,
    /// `SO_DOMAIN`: 1, `AF_UNIX`. Read-only.
    Domain = 39,
    /// `SO_PROTOCOL`: 0. Read-only.
    Protocol = 38,
    /// `SO_ERROR`: the pending error, or 0. Reading it clears it. Read-only.
    Error = 4,
    /// `SO_ACCEPTCONN`: whether it listens. Read-only.
    AcceptConnections = 30,
    /// `SO_COOKIE`: a number of the socket that no other has. Read-only.
    Cookie = 57,
    /// `SO_SNDBUF`: size of the send buffer in bytes. As on Linux, twice what was set; at least
    /// 4,608, at most 8,388,608.
    SendBuffer = 7,
    /// `SO_SNDBUFFORCE`: like `SendBuffer`, without a largest size. Write-only. Needs a
    /// capability.
    SendBufferForce = 32,
    /// `SO_RCVBUF`: kept and ignored, as on Linux.
    ReceiveBuffer = 8,
    /// `SO_RCVBUFFORCE`: like `ReceiveBuffer`, without a largest size. Write-only. Needs a
    /// capability.
    ReceiveBufferForce = 33,
    /// `SO_PASSCRED`: whether messages come with credentials.
    PassCredentials = 16,
    /// `SO_PEERCRED`: credentials of the peer's maker. Read-only.
    PeerCredentials = 17,
    /// `SO_RCVTIMEO`: how long a receive or an accept blocks.
    ReceiveTimeout = 20,
    /// `SO_SNDTIMEO`: how long a send or a connect blocks.
    SendTimeout = 21,
    /// `SO_LINGER`: kept and ignored, as on Linux.
    Linger = 13,
    /// `SO_PEEK_OFF`: where the next `MSG_PEEK` begins; -1 for the first byte.
    PeekOffset = 42,
    /// `SO_SNDLOWAT`: 1. Read-only.
    SendLowWater = 19,
    /// `SO_REUSEPORT`: 0. Nothing else can be set.
    ReusePort = 15,
    // The others are kept and have no effect on these sockets, as on Linux unless they say so.
    /// `SO_DEBUG`.
    Debug = 1,
    /// `SO_REUSEADDR`.
    ReuseAddress = 2,
    /// `SO_DONTROUTE`.
    DontRoute = 5,
    /// `SO_BROADCAST`.
    Broadcast = 6,
    /// `SO_KEEPALIVE`.
    KeepAlive = 9,
    /// `SO_OOBINLINE`.
    OobInline = 10,
    /// `SO_NO_CHECK`.
    NoCheck = 11,
    /// `SO_PRIORITY`: a number; a user other than 0 may set 0 to 6.
    Priority = 12,
    /// `SO_RCVLOWAT`: a number, 1 initially. A receive ignores it.
    ReceiveLowWater = 18,
    /// `SO_TIMESTAMP`: for an embedder that adds the time to messages.
    Timestamp = 29,
    /// `SO_TIMESTAMPNS`: like `SO_TIMESTAMP`, in nanoseconds. Of both, the last one that is set is
    /// on.
    TimestampNanos = 35,
    /// `SO_PASSSEC`: there are no security labels.
    PassSecurity = 34,
    /// `SO_MARK`: a number. To set it needs a capability.
    Mark = 36,
    /// `SO_RXQ_OVFL`.
    QueueOverflow = 40,
    /// `SO_WIFI_STATUS`.
    WifiStatus = 41,
    /// `SO_NOFCS`.
    NoChecksum = 43,
    /// `SO_SELECT_ERR_QUEUE`.
    SelectErrorQueue = 45,
    /// `SO_BUSY_POLL`: a number of at least 0.
    BusyPoll = 46,
    /// `SO_INCOMING_CPU`: a number, -1 initially.
    IncomingCpu = 49,
    /// `SO_PREFER_BUSY_POLL`.
    PreferBusyPoll = 69,
    /// `SO_RCVMARK`.
    ReceiveMark = 75,
}

/// Exclusive bound of the numbers of options.
const NUMBERS: usize = SocketOption::ReceiveMark as usize + 1;

/// Value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A number, or 0 and 1 for no and yes.
    Number(i32),
    /// A number that no other socket has.
    Cookie(u64),
    /// A timeout; `None` for no limit.
    Time(Option<Duration>),
    /// Credentials.
    Credentials(Ucred),
    /// Linger flag and time in seconds. In Linux: `struct linger`.
    Linger(bool, i32),
}

/// Form of the time of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageTime {
    /// Seconds and microseconds. In Linux: `SCM_TIMESTAMP`.
    Micros,
    /// Seconds and nanoseconds. In Linux: `SCM_TIMESTAMPNS`.
    Nanos,
}

/// Stored options of a socket.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) send_buffer: AtomicCell<usize>,
    pub(super) receive_buffer: AtomicCell<usize>,
    pass_credentials: AtomicCell<bool>,
    /// In nanoseconds; 0 is no limit.
    pub(super) receive_timeout: AtomicCell<u64>,
    pub(super) send_timeout: AtomicCell<u64>,
    /// Options that few sockets set.
    pub(super) rare: OnceCell<Box<Rare>>,
}

/// Nonzero to linger, and how many seconds. Aligned for an atomic access, and without padding:
/// another access would take a lock of one process.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(8))]
pub(super) struct Linger(pub(super) u32, pub(super) i32);

const _: () = assert!(AtomicCell::<Linger>::is_lock_free());

/// Options that few sockets set.
#[derive(Debug)]
pub(super) struct Rare {
    kept: [AtomicCell<i32>; NUMBERS],
    pub(super) linger: AtomicCell<Linger>,
    pub(super) peek_offset: AtomicCell<i32>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            send_buffer: AtomicCell::new(CAPACITY),
            receive_buffer: AtomicCell::new(CAPACITY),
            pass_credentials: AtomicCell::new(false),
            receive_timeout: AtomicCell::new(0),
            send_timeout: AtomicCell::new(0),
            rare: OnceCell::new(),
        }
    }
}

impl Default for Rare {
    fn default() -> Self {
        let kept = [const { AtomicCell::new(0) }; NUMBERS];
        kept[SocketOption::ReceiveLowWater as usize].store(1);
        kept[SocketOption::IncomingCpu as usize].store(-1);
        Rare {
            kept,
            linger: AtomicCell::new(Linger::default()),
            peek_offset: AtomicCell::new(-1),
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

    /// Sets the option alone. The queues have to be told.
    pub(super) fn set_passes_credentials(&self, passes: bool) {
        self.pass_credentials.store(passes);
    }

    /// Returns how long a blocking receive blocks.
    pub(super) fn receive_policy(&self) -> Limit {
        policy(self.receive_timeout.load())
    }

    /// Returns how long a blocking send blocks.
    pub(super) fn send_policy(&self) -> Limit {
        policy(self.send_timeout.load())
    }

    /// Returns where the next peek begins, if it is set.
    pub(super) fn peek_offset(&self) -> Option<usize> {
        usize::try_from(self.rare.get()?.peek_offset.load()).ok()
    }

    /// Moves the offset of peeks after a read that has copied `count` of `length` bytes.
    pub(super) fn move_peek_offset(&self, look: Look, count: usize, length: usize) {
        let Some(rare) = self.rare.get() else {
            return;
        };
        let offset = rare.peek_offset.load();
        if offset < 0 {
            return;
        }
        let by = |count| i32::try_from(count).unwrap_or(i32::MAX);
        rare.peek_offset.store(match look {
            Look::Peek => offset.saturating_add(by(count)),
            Look::Take => offset.saturating_sub(by(length)).max(0),
        });
    }

    /// Returns the form of the time that comes with messages, if it was asked for.
    pub(super) fn message_time(&self) -> Option<MessageTime> {
        self.rare.get()?;
        let on = |option| self.kept(option) != 0;
        let micros = on(SocketOption::Timestamp).then_some(MessageTime::Micros);
        micros.or(on(SocketOption::TimestampNanos).then_some(MessageTime::Nanos))
    }

    pub(super) fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }

    pub(super) fn kept(&self, option: SocketOption) -> i32 {
        match self.rare.get() {
            Some(rare) => rare.kept[option as usize].load(),
            None => Rare::default().kept[option as usize].load(),
        }
    }

    pub(super) fn keep(&self, option: SocketOption, value: i32) -> Result<(), Errno> {
        let kept = &self.rare().kept;
        let value = match option {
            SocketOption::Priority | SocketOption::Mark | SocketOption::IncomingCpu => value,
            SocketOption::BusyPoll if value < 0 => return Err(Errno::EINVAL),
            SocketOption::BusyPoll => value,
            SocketOption::ReceiveLowWater if value < 0 => i32::MAX,
            SocketOption::ReceiveLowWater => value.max(1),
            SocketOption::Timestamp | SocketOption::TimestampNanos => {
                kept[SocketOption::Timestamp as usize].store(0);
                kept[SocketOption::TimestampNanos as usize].store(0);
                (value != 0).into()
            }
            _ => (value != 0).into(),
        };
        kept[option as usize].store(value);
        Ok(())
    }
}

/// As on Linux, a wait with a deadline is never restarted. A deadline too far ahead is none.
fn policy(nanoseconds: u64) -> Limit {
    match nanoseconds {
        0 => Limit::FOREVER,
        limit => match Instant::now().checked_add(Duration::from_nanos(limit)) {
            None => Limit::FOREVER,
            deadline => Limit::new(deadline, Restart::Never),
        },
    }
}
