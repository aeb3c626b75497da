//! Open files: a console, pipes, and files in memory.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fdtable::{FileRef, Rcu};

use crate::lock::Lock;
use crate::{serial, threads};

/// The errno of an operation that failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Errno(pub i32);
pub const EPIPE: Errno = Errno(32);
pub const EBADF: Errno = Errno(9);
pub const ENOENT: Errno = Errno(2);

impl From<fdtable::Error> for Errno {
    fn from(error: fdtable::Error) -> Self {
        Self(error.errno())
    }
}

pub type Answer = Result<usize, Errno>;

/// An object that a descriptor leads to.
pub trait File: Send + Sync {
    fn read(&self, _buffer: &mut [u8]) -> Answer {
        Err(EBADF)
    }

    fn write(&self, _data: &[u8]) -> Answer {
        Err(EBADF)
    }
}

/// File in a table. Lookups may borrow it.
pub type OpenFile = FileRef<Rcu<dyn File>>;

/// The serial line.
pub struct Console;

impl File for Console {
    fn write(&self, data: &[u8]) -> Answer {
        serial::write(data);
        Ok(data.len())
    }
}

/// The contents of a file in memory. Each open file has a position of its own.
#[derive(Default)]
pub struct Node(pub Lock<Vec<u8>>);

pub struct MemoryFile {
    node: Arc<Node>,
    position: Lock<usize>,
}

impl MemoryFile {
    pub fn open(node: Arc<Node>) -> OpenFile {
        let position = Lock::new(0);
        FileRef::new_dyn_rcu(Self { node, position }, |it| it as &dyn File)
    }
}

impl File for MemoryFile {
    fn read(&self, buffer: &mut [u8]) -> Answer {
        let mut position = self.position.lock();
        let contents = self.node.0.lock();
        let rest = contents.get(*position..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        *position += count;
        Ok(count)
    }

    fn write(&self, data: &[u8]) -> Answer {
        let mut position = self.position.lock();
        let mut contents = self.node.0.lock();
        let end = *position + data.len();
        if contents.len() < end {
            contents.resize(end, 0);
        }
        contents[*position..end].copy_from_slice(data);
        *position = end;
        Ok(data.len())
    }
}

/// State that both ends of a pipe share.
#[derive(Default)]
struct Pipe(Lock<PipeState>);

#[derive(Default)]
struct PipeState {
    bytes: VecDeque<u8>,
    is_hung_up: bool,
    /// Threads that wait for a change.
    waiting: Vec<u64>,
}

/// How many bytes a pipe holds.
const CAPACITY: usize = 4096;

impl Pipe {
    /// Tries until `attempt` answers. Blocks in between.
    fn wait_for(&self, mut attempt: impl FnMut(&mut PipeState) -> Option<Answer>) -> Answer {
        loop {
            let mut state = self.0.lock();
            if let Some(answer) = attempt(&mut state) {
                let waiting = core::mem::take(&mut state.waiting);
                drop(state);
                waiting.into_iter().for_each(threads::wake);
                return answer;
            }
            state.waiting.push(threads::current_id());
            drop(state);
            threads::block();
        }
    }

    /// The release hook of both ends: it runs inside the call that closes the last descriptor.
    fn hang_up(&self) {
        let _ = self.wait_for(|state| {
            state.is_hung_up = true;
            Some(Ok(0))
        });
    }
}

struct ReadEnd(Arc<Pipe>);
struct WriteEnd(Arc<Pipe>);

impl File for ReadEnd {
    fn read(&self, buffer: &mut [u8]) -> Answer {
        self.0.wait_for(|state| {
            if state.bytes.is_empty() {
                return state.is_hung_up.then_some(Ok(0));
            }
            let count = state.bytes.len().min(buffer.len());
            for (place, byte) in buffer.iter_mut().zip(state.bytes.drain(..count)) {
                *place = byte;
            }
            Some(Ok(count))
        })
    }
}

impl File for WriteEnd {
    fn write(&self, data: &[u8]) -> Answer {
        self.0.wait_for(|state| {
            if state.is_hung_up {
                return Some(Err(EPIPE));
            }
            let count = data.len().min(CAPACITY - state.bytes.len());
            state.bytes.extend(&data[..count]);
            (count > 0).then_some(Ok(count))
        })
    }
}

/// Makes a pipe, and returns its read end and its write end.
pub fn pipe() -> Result<(OpenFile, OpenFile), fdtable::Error> {
    let pipe = Arc::new(Pipe::default());
    let reader = FileRef::builder(ReadEnd(pipe.clone())).rcu();
    let writer = FileRef::builder(WriteEnd(pipe)).rcu();
    let reader = reader.on_release(|end, _| end.0.hang_up());
    let writer = writer.on_release(|end, _| end.0.hang_up());
    Ok((
        reader.try_build_dyn(|it| it as &dyn File)?,
        writer.try_build_dyn(|it| it as &dyn File)?,
    ))
}
