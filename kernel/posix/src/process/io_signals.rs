//! Signals about input and output: `F_SETOWN`, `F_SETSIG`, and sending what they ask for.
//!
//! The host lets a process queue a signal with the information that its own kernel would send, if
//! the process itself receives it, through the calling thread's ID. For all other receivers the
//! code of the signal is another one.

use std::ffi::{c_int, c_long, c_ulong};
use std::ptr;

use fdtable_vfs::Errno;
use fdtable_vfs::event::{IoSignal, Owner, OwnerKind, SignalReason, SignalSender};

use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host::{self, errno, set_errno};

/// Commands that the `libc` crate does not define.
pub(crate) const F_SETSIG: c_int = 10;
pub(crate) const F_GETSIG: c_int = 11;
pub(crate) const F_SETOWN_EX: c_int = 15;
pub(crate) const F_GETOWN_EX: c_int = 16;

/// The kinds of `struct f_owner_ex`, in their order.
const KINDS: [OwnerKind; 3] = [OwnerKind::Thread, OwnerKind::Process, OwnerKind::Group];

/// Argument of `F_SETOWN_EX`: `struct f_owner_ex`.
type OwnerArgument = [c_int; 2];

/// Runs a command about the owner or the signal of a file of ours. Returns nothing for any other
/// command.
///
/// # Safety
/// The argument is what the command expects.
pub(crate) unsafe fn command(
    system: &System,
    fd: c_int,
    command: c_int,
    argument: c_ulong,
) -> Result<Option<c_int>, Errno> {
    let place = ptr::with_exposed_provenance_mut::<OwnerArgument>(argument as usize);
    Ok(Some(match command {
        libc::F_GETOWN => owner_number(system.process.owner(fd)?),
        libc::F_SETOWN => {
            let owner = owner_of(argument as c_int)?;
            system.process.set_owner(fd, owner)?;
            0
        }
        F_GETOWN_EX => {
            let Owner { kind, id } = system.process.owner(fd)?;
            let kind = KINDS.iter().position(|&other| other == kind);
            // SAFETY: as the caller promises.
            unsafe { uaccess::put(place, [kind.unwrap_or(0) as c_int, id]) }?;
            0
        }
        F_SETOWN_EX => {
            // SAFETY: as the caller promises.
            let [kind, id] = unsafe { uaccess::get(place) }?;
            let kind = usize::try_from(kind).ok().and_then(|kind| KINDS.get(kind));
            let kind = *kind.ok_or(Errno::EINVAL)?;
            system.process.set_owner(fd, Owner { kind, id })?;
            0
        }
        F_GETSIG => system.process.io_signal(fd)?,
        F_SETSIG => {
            system.process.set_io_signal(fd, argument as c_int)?;
            0
        }
        _ => return Ok(None),
    }))
}

/// Returns the owner of a number: a process, or the group of a negative number.
///
/// # Errors
/// `EINVAL` if there is no such number.
pub(crate) fn owner_of(number: c_int) -> Result<Owner, Errno> {
    let kind = match number {
        ..0 => OwnerKind::Group,
        _ => OwnerKind::Process,
    };
    let id = number.checked_abs().ok_or(Errno::EINVAL)?;
    Ok(Owner { kind, id })
}

/// Returns the number of an owner: negative for a group.
pub(crate) fn owner_number(owner: Owner) -> c_int {
    match owner.kind {
        OwnerKind::Group => -owner.id,
        _ => owner.id,
    }
}

/// Sender of signals through the host.
#[derive(Debug)]
pub(crate) struct HostSignals;

impl SignalSender for HostSignals {
    fn exists(&self, owner: Owner) -> bool {
        host::is_alive(owner.id) || owner.kind == OwnerKind::Group && host::is_alive(-owner.id)
    }

    fn send(&self, signal: IoSignal) {
        let number = match signal.signal {
            0 => libc::SIGIO,
            number => number,
        };
        let Owner { kind, id } = signal.owner;
        let before = errno();
        // SAFETY: the call takes no pointer.
        let (me, thread) = (host::process_id(), unsafe { libc::gettid() });
        // SAFETY: the calls take no pointer, except to the information, which has the layout of a
        // `siginfo_t`.
        unsafe {
            match kind {
                OwnerKind::Group => {
                    libc::kill(-id, number);
                }
                OwnerKind::Process if id == me => {
                    queue_or_plain(&signal, number, true, |number, info| {
                        libc::syscall(libc::SYS_rt_sigqueueinfo, thread, number, info)
                    });
                }
                OwnerKind::Process => {
                    libc::kill(id, number);
                }
                OwnerKind::Thread => {
                    let call = libc::SYS_rt_tgsigqueueinfo;
                    let sent = queue_or_plain(&signal, number, id == thread, |number, info| {
                        libc::syscall(call, me, id, number, info)
                    });
                    if !sent {
                        // It is a thread of another process.
                        libc::syscall(libc::SYS_tkill, id, number);
                    }
                }
            }
        }
        set_errno(before);
    }
}

/// Queues a signal with its information, or `SIGIO` if the queue is full, as on Linux. Returns
/// false if that fails too.
fn queue_or_plain(
    signal: &IoSignal,
    number: c_int,
    own: bool,
    queue: impl Fn(c_int, *const Info) -> c_long,
) -> bool {
    if queue(number, &Info::new(signal, number, own)) == 0 {
        return true;
    }
    let plain = IoSignal {
        signal: 0,
        ..*signal
    };
    errno() == Errno::EAGAIN && queue(libc::SIGIO, &Info::new(&plain, libc::SIGIO, own)) == 0
}

/// Information of a signal about input and output: `siginfo_t`, which has 128 bytes.
#[repr(C)]
struct Info {
    signal: c_int,
    errno: c_int,
    code: c_int,
    _padding: c_int,
    band: c_long,
    fd: c_int,
    _rest: [c_int; 25],
}

const _: () = assert!(size_of::<Info>() == size_of::<libc::siginfo_t>());

impl Info {
    /// Describes a signal. `own` is true for the code that the host's kernel sends.
    fn new(signal: &IoSignal, number: c_int, own: bool) -> Self {
        /// Codes that the `libc` crate does not define.
        /// Signals with codes of their own.
        const OTHERS: [c_int; 7] = [
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGTRAP,
            libc::SIGCHLD,
            libc::SIGSYS,
        ];
        let (code, band) = match signal.reason {
            SignalReason::In => (1, 0x41),
            SignalReason::Out => (2, 0x304),
            SignalReason::Hup => (6, 0x18),
        };
        let is_plain = signal.signal == 0;
        let code = match code {
            _ if is_plain && own => libc::SI_KERNEL,
            _ if !own || OTHERS.contains(&number) => libc::SI_SIGIO,
            code => code,
        };
        Info {
            signal: number,
            errno: 0,
            code,
            _padding: 0,
            band: if is_plain { 0 } else { band },
            fd: if is_plain { 0 } else { signal.fd },
            _rest: [0; 25],
        }
    }
}
