//! Which descriptors a call has opened, and which ones it has not found.

use super::call::Call;
use super::trace::{self, Kind};
use crate::memory;

/// The least number of descriptors one behind the other that are a range: programs close or poll
/// all of one, whether or not they are open.
pub(super) const RANGE: usize = 4;

/// Returns the descriptors that a call has opened.
pub(super) fn opened(call: &Call, result: i64) -> Vec<i32> {
    let a = call.arguments;
    let pair_at = match call.number {
        libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_creat
        | libc::SYS_dup
        | libc::SYS_dup2
        | libc::SYS_dup3
        | libc::SYS_socket
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_epoll_create
        | libc::SYS_epoll_create1
        | libc::SYS_eventfd
        | libc::SYS_eventfd2
        | libc::SYS_timerfd_create
        | libc::SYS_signalfd
        | libc::SYS_signalfd4
        | libc::SYS_inotify_init
        | libc::SYS_inotify_init1
        | libc::SYS_memfd_create
        | libc::SYS_pidfd_open => return vec![result as i32],
        libc::SYS_fcntl if copies(call) => return vec![result as i32],
        libc::SYS_pipe | libc::SYS_pipe2 => a[0],
        libc::SYS_socketpair => a[3],
        _ => return Vec::new(),
    };
    let pair = memory::get::<[i32; 2]>(pair_at.cast_unsigned());
    pair.map_or_else(|_| Vec::new(), |pair| pair.to_vec())
}

fn copies(call: &Call) -> bool {
    [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(call.arguments[1] as i32))
}

/// Returns the descriptor that a call copies, if it does.
pub(super) fn source(call: &Call) -> Option<i32> {
    let is_copy = match call.number {
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => true,
        libc::SYS_fcntl => copies(call),
        _ => false,
    };
    is_copy.then_some(call.arguments[0] as i32)
}

/// Returns the descriptor that a call closes, or that it has lead to another file.
pub(super) fn closed(call: &Call) -> Option<i32> {
    let [first, second, ..] = call.arguments.map(|argument| argument as i32);
    match call.number {
        libc::SYS_close => Some(first),
        libc::SYS_dup2 | libc::SYS_dup3 => (first != second).then_some(second),
        _ => None,
    }
}

/// Returns descriptors of a call that may have no file. Some may have one: a call fails with the
/// same error if the rights of a descriptor do not suffice.
pub(super) fn without_file(call: &Call, result: i64) -> Vec<i32> {
    let a = call.arguments;
    let is_unknown = result == -i64::from(libc::EBADF);
    match call.number {
        libc::SYS_poll | libc::SYS_ppoll if result > 0 && !only_asks(call) => {
            let unknown = |&(_, events): &(i32, i16)| events & libc::POLLNVAL != 0;
            let all = polled(call).into_iter().filter(unknown);
            all.map(|(fd, _)| fd).collect()
        }
        libc::SYS_select | libc::SYS_pselect6 if is_unknown => selected(&a),
        libc::SYS_sendmsg if is_unknown => {
            let mut all = vec![a[0] as i32];
            all.extend(sent(a[1].cast_unsigned()));
            all
        }
        _ if is_unknown && !only_asks(call) => used(call),
        _ => Vec::new(),
    }
}

/// Returns true if a call asks whether a descriptor is open, as programs do with all of a range, or
/// by `fstat` with the standard ones.
fn only_asks(call: &Call) -> bool {
    const COMMANDS: [i32; 3] = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL];
    let [fd, argument, timeout, ..] = call.arguments;
    match call.number {
        libc::SYS_poll if timeout == 0 => {
            let all = polled(call);
            let is_next = |pair: &[(i32, i16)]| pair[0].0 + 1 == pair[1].0;
            all.len() >= RANGE && all.windows(2).all(is_next)
        }
        libc::SYS_fstat | libc::SYS_newfstatat => fd as i32 <= libc::STDERR_FILENO,
        libc::SYS_fcntl => COMMANDS.contains(&(argument as i32)),
        libc::SYS_ioctl => [libc::FIOCLEX, libc::FIONCLEX].contains(&argument.cast_unsigned()),
        _ => false,
    }
}

/// Returns the descriptors in the arguments of a call, and those that it waits for.
pub(super) fn used(call: &Call) -> Vec<i32> {
    match call.number {
        libc::SYS_poll | libc::SYS_ppoll => polled(call).iter().map(|(fd, _)| *fd).collect(),
        libc::SYS_select | libc::SYS_pselect6 => selected(&call.arguments),
        _ => {
            let kinds = trace::arguments(call.number).unwrap_or_default();
            let all = kinds.iter().zip(call.arguments);
            let fds = all.filter(|(kind, _)| matches!(kind, Kind::Fd | Kind::At));
            fds.map(|(_, value)| value as i32).collect()
        }
    }
}

/// Returns the descriptors of `poll`, each with what has happened to it.
fn polled(call: &Call) -> Vec<(i32, i16)> {
    let [at, count, ..] = call.arguments;
    let size = size_of::<libc::pollfd>();
    let bytes = memory::read(at.cast_unsigned(), (count as usize).min(1 << 16) * size);
    let entries = bytes.as_chunks::<8>().0.iter();
    let entries = entries.map(|&[a, b, c, d, _, _, low, high]| {
        let fd = i32::from_ne_bytes([a, b, c, d]);
        (fd, i16::from_ne_bytes([low, high]))
    });
    entries.collect()
}

/// Returns the descriptors in the sets of `select`.
fn selected(a: &[i64; 6]) -> Vec<i32> {
    let words = (a[0].clamp(0, 1 << 16) as usize).div_ceil(64);
    let mut all = Vec::new();
    for &set in a[1..4].iter().filter(|set| **set != 0) {
        let bytes = memory::read(set.cast_unsigned(), words * 8);
        for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_ne_bytes(*word);
            let bits = (0..64).filter(|bit| word & 1 << bit != 0);
            all.extend(bits.map(|bit| index as i32 * 64 + bit));
        }
    }
    all
}

/// Returns the descriptors in the first control message of a message.
fn sent(message: u64) -> Vec<i32> {
    let word = |at: u64| memory::get::<u64>(at).unwrap_or_default();
    // `msg_control` and `msg_controllen`.
    let (control, length) = (word(message + 32), word(message + 40));
    let kind = memory::get::<[i32; 2]>(control + 8).unwrap_or_default();
    if kind != [libc::SOL_SOCKET, libc::SCM_RIGHTS] {
        return Vec::new();
    }
    let end = word(control).min(length).min(1 << 12);
    let places = (control + 16..control + end).step_by(4);
    places.filter_map(|at| memory::get(at).ok()).collect()
}
