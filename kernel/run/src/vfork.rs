//! The parent that waits in `vfork(2)`, and the memory that its child shares with it.

use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

use crate::block::Block;
use crate::guarded::Guarded;
use crate::memory;
use crate::signals;

/// The parent that waits in `vfork`, in its child.
struct Parent {
    /// The writing end of the pipe by which the child lets the parent continue. The end of the
    /// process closes it too.
    pipe: i32,
    /// The parent's stack above its frame, as it was; nothing if memory is not shared.
    stack: Vec<u8>,
    stack_at: u64,
}

static PARENT: Guarded<Option<Parent>> = Guarded::new(None);

/// The ends of all pipes of threads in `vfork`. Each child closes those of other threads: nothing
/// else does, as no program is executed on the host, and a thread waits until its pipe has no
/// writer.
static PIPES: Guarded<Vec<i32>> = Guarded::new(Vec::new());

/// Makes a pipe of a thread in `vfork`.
pub(crate) fn open_pipe() -> Option<[i32; 2]> {
    // A fork of another thread waits for the lock: its child sees the descriptors and the list.
    let mut pipes = PIPES.lock();
    let mut pipe = [-1; 2];
    // SAFETY: there is room for two descriptors.
    if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return None;
    }
    pipes.extend(pipe);
    Some(pipe)
}

/// Closes an end of such a pipe.
pub(crate) fn close_end(end: i32) {
    let mut pipes = PIPES.lock();
    pipes.retain(|fd| *fd != end);
    // SAFETY: it takes an integer.
    unsafe { libc::close(end) };
}

/// Continues in the child of a fork, with its own pipe if its parent waits. `shared_stack` is the
/// stack pointer, if the two share memory.
pub(crate) fn in_child(pipe: Option<[i32; 2]>, shared_stack: Option<u64>) {
    let own = pipe.map(|[_, writes]| writes);
    leave_pipes(own);
    // After the fork, because other threads of the parent may change the stack. Only the guest's
    // memory: the runner's may follow the stack.
    let parent = own.map(|pipe| {
        let stack_at = shared_stack.unwrap_or(0);
        let size = shared_stack.map_or(0, |at| SHARED.min(memory::size_from(at) as usize));
        Parent {
            pipe,
            stack: memory::read(stack_at, size),
            stack_at,
        }
    });
    *PARENT.lock() = parent;
}

/// Closes all such pipes in the child of a fork, but for the end that it writes to.
fn leave_pipes(own: Option<i32>) {
    let mut pipes = PIPES.lock();
    for fd in pipes.extract_if(.., |fd| Some(*fd) != own) {
        // SAFETY: it takes an integer.
        unsafe { libc::close(fd) };
    }
}

/// The size of the part of the parent's stack that a child of `vfork` shares, in bytes.
const SHARED: usize = 16 << 10;

/// Wakes the parent that waits in `vfork`.
pub(crate) fn release_parent() {
    let parent = PARENT.lock().take();
    if let Some(Parent { pipe, .. }) = parent {
        close_end(pipe);
    }
}

/// Passes the changes of the stack to a parent in `vfork`: for each changed word its address, and
/// its values before and after. The process exits without a program: by these words `posix_spawn`
/// reports the reason.
pub(crate) fn report_to_parent() {
    let Some(parent) = PARENT.lock().take() else {
        return;
    };
    let now = memory::read(parent.stack_at, parent.stack.len());
    let words = parent.stack.as_chunks::<8>().0.iter();
    let words = (parent.stack_at..)
        .step_by(8)
        .zip(words.zip(now.as_chunks::<8>().0));
    let changed = words.filter(|(_, (before, now))| before != now);
    // The program gets no SIGPIPE of a pipe without a reader.
    signals::defer_all(Block::current());
    let bytes: Vec<u8> = changed
        .flat_map(|(at, (before, now))| [at.to_ne_bytes(), *before, *now])
        .flatten()
        .collect();
    // SAFETY: the descriptor is open, and stays so until the process ends.
    let mut pipe = ManuallyDrop::new(unsafe { File::from_raw_fd(parent.pipe) });
    // In several writes, if signals of the runner interrupt it. A parent that exits reads nothing.
    let _ = pipe.write_all(&bytes);
}

/// Waits for the child of a `vfork`, and stores the words that it sends. As on the host, signals
/// are blocked, and the exit of the thread ends the wait.
pub(crate) fn wait_for_child(block: &Block, [reads, writes]: [i32; 2]) {
    close_end(writes);
    receive_words(block, reads);
    close_end(reads);
}

/// Reads words until the pipe has no writer, and stores them.
fn receive_words(block: &Block, fd: i32) {
    // Mostly there are none, and what is stored here would be a copy of a page.
    let (mut bytes, mut part) = (Vec::new(), [0_u8; 960]);
    loop {
        // SAFETY: there is room for so many bytes.
        let count = unsafe { libc::read(fd, part.as_mut_ptr().cast(), part.len()) };
        match usize::try_from(count) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(_) if block.must_exit() => return,
            // A signal of the runner.
            Err(_) => {}
        }
    }
    let (words, _) = bytes.as_chunks::<8>();
    for &[at, before, now] in words.as_chunks::<3>().0 {
        let at = u64::from_ne_bytes(at);
        // Another thread may have changed the other bytes since.
        for (at, (before, now)) in (at..).zip(before.into_iter().zip(now)) {
            if before != now {
                // The child has written the byte in its copy of the guest's memory.
                let _ = memory::put(at, now);
            }
        }
    }
}
