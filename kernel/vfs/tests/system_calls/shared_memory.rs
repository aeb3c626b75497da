//! Files whose bytes are in memory of the embedder.

use std::collections::BTreeSet;
use std::sync::Arc;

use fdtable_vfs::fs::Timestamp;
use fdtable_vfs::{
    At, Errno, FallocateFlags, MemFs, MemFsLimits, MemfdFlags, MemoryUsage, OpenFlags, Process,
    Seals, SeekTo, SharedMemory, Time,
};
use parking_lot::Mutex;

const PAGE: u64 = 4096;
const NEW: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);

/// Memory that a program could map: `store` is an access through a mapping.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    pages: BTreeSet<u64>,
    seals: Seals,
    is_mapped: bool,
    modified: Timestamp,
}

impl State {
    fn add_pages(&mut self, from: u64, to: u64) {
        self.pages.extend(from / PAGE..to.div_ceil(PAGE));
    }

    /// Returns the first position whose page exists or not, at or after `from`.
    fn next(&self, from: u64, exists: bool) -> u64 {
        let mut at = from;
        while at < self.bytes.len() as u64 && self.pages.contains(&(at / PAGE)) != exists {
            at = (at / PAGE + 1) * PAGE;
        }
        at
    }
}

impl Memory {
    fn store(&self, at: usize, bytes: &[u8]) {
        let mut state = self.0.lock();
        state.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        state.add_pages(at as u64, (at + bytes.len()) as u64);
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().bytes.clone()
    }
}

impl SharedMemory for Memory {
    fn usage(&self) -> MemoryUsage {
        let state = self.0.lock();
        MemoryUsage {
            len: state.bytes.len() as u64,
            pages: state.pages.len() as u64,
            modified: state.modified,
        }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let state = self.0.lock();
        let there = state.bytes.get(offset as usize..).unwrap_or_default();
        let count = there.len().min(buf.len());
        buf[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let end = offset as usize + bytes.len();
        let mut state = self.0.lock();
        if state.bytes.len() < end {
            state.bytes.resize(end, 0);
        }
        drop(state);
        self.store(offset as usize, bytes);
        Ok(bytes.len())
    }

    fn set_len(&self, len: u64) -> Result<(), Errno> {
        let mut state = self.0.lock();
        state.bytes.resize(len as usize, 0);
        state.pages.retain(|page| page * PAGE < len);
        Ok(())
    }

    fn allocate(&self, from: u64, to: u64) -> Result<(), Errno> {
        self.0.lock().add_pages(from, to);
        Ok(())
    }

    fn punch(&self, from: u64, to: u64) -> Result<(), Errno> {
        let mut state = self.0.lock();
        let to = to.min(state.bytes.len() as u64);
        state.bytes[from as usize..to as usize].fill(0);
        let gone = from.div_ceil(PAGE)..to / PAGE;
        state.pages.retain(|page| !gone.contains(page));
        Ok(())
    }

    fn next_data(&self, from: u64) -> Option<u64> {
        let state = self.0.lock();
        Some(state.next(from, true)).filter(|&at| at < state.bytes.len() as u64)
    }

    fn next_hole(&self, from: u64) -> Option<u64> {
        let state = self.0.lock();
        let len = state.bytes.len() as u64;
        (from < len).then(|| state.next(from, false).min(len))
    }

    fn add_seals(&self, seals: Seals) -> Result<(), Errno> {
        let mut state = self.0.lock();
        if seals.contains(Seals::WRITE) && state.is_mapped {
            return Err(Errno::EBUSY);
        }
        state.seals |= seals;
        Ok(())
    }
}

fn share(process: &Process, fd: impl fdtable::FdArg) -> Arc<Memory> {
    let memory = Arc::new(Memory::default());
    let file = process.files().get(fd).unwrap();
    let make = || Ok(Arc::clone(&memory) as Arc<dyn SharedMemory>);
    file.share_memory(&make).unwrap();
    memory
}

fn read(process: &Process, fd: impl fdtable::FdArg, at: u64, count: usize) -> Vec<u8> {
    let mut buf = vec![0; count];
    let count = process.pread(fd, &mut buf, at).unwrap();
    buf.truncate(count);
    buf
}

#[test]
fn a_shared_file_and_its_memory_are_the_same_bytes() {
    let process = Process::new();
    let fd = process.openat(At::Cwd, "a", NEW, 0o600).unwrap();
    process.write(fd, b"before").unwrap();
    let memory = share(&process, fd);
    assert_eq!(memory.bytes(), b"before");
    memory.store(0, b"BE");
    assert_eq!(read(&process, fd, 0, 100), b"BEfore");
    assert_eq!(process.write(fd, b" and after"), Ok(10));
    assert_eq!(memory.bytes(), b"BEfore and after");
    let other = process.openat(At::Cwd, "a", OpenFlags::RDWR, 0).unwrap();
    assert_eq!(read(&process, other, 7, 3), b"and");
    assert_eq!(process.lseek(other, SeekTo::End(0)), Ok(16));
    assert_eq!(process.fstat(other).unwrap().size, 16);
    process.ftruncate(other, 2).unwrap();
    assert_eq!(memory.bytes(), b"BE");
    // The length is that of the memory: another host process may change it.
    memory.set_len(4).unwrap();
    assert_eq!(read(&process, fd, 0, 100), b"BE\0\0");
    process
        .openat(At::Cwd, "a", OpenFlags::RDWR | OpenFlags::TRUNC, 0)
        .unwrap();
    assert_eq!(memory.bytes(), b"");
}

#[test]
fn a_file_is_shared_once_and_its_memory_goes_with_it() {
    let process = Process::new();
    let fd = process.openat(At::Cwd, "a", NEW, 0o600).unwrap();
    let file = process.files().get(fd).unwrap();
    assert!(file.shared_memory().is_none());
    let memory = share(&process, fd);
    let again = file.share_memory(&|| Err(Errno::ENFILE)).unwrap();
    again.write_at(b"x", 0).unwrap();
    assert_eq!(memory.bytes(), b"x");
    drop((file, again));
    process.unlink("a").unwrap();
    assert_eq!(Arc::strong_count(&memory), 2);
    process.close(fd).unwrap();
    assert_eq!(Arc::strong_count(&memory), 1);
}

#[test]
fn a_file_that_cannot_be_shared_stays_as_it_is() {
    let process = Process::new();
    let fd = process.openat(At::Cwd, "a", NEW, 0o600).unwrap();
    process.write(fd, b"text").unwrap();
    let file = process.files().get(fd).unwrap();
    let refused = file.share_memory(&|| Err(Errno::ENFILE));
    assert_eq!(refused.err(), Some(Errno::ENFILE));
    assert!(file.shared_memory().is_none());
    assert_eq!(read(&process, fd, 0, 100), b"text");
    let (reader, _writer) = process.pipe2(OpenFlags::empty()).unwrap();
    let pipe = process.files().get(reader).unwrap();
    let refused = pipe.share_memory(&|| Err(Errno::ENFILE));
    assert_eq!(refused.err(), Some(Errno::ENODEV));
}

#[test]
fn holes_and_allocated_pages_stay_when_a_file_is_shared() {
    let process = Process::new();
    let fd = process.openat(At::Cwd, "a", NEW, 0o600).unwrap();
    process.pwrite(fd, b"one", 0).unwrap();
    process.pwrite(fd, b"two", 10 * PAGE).unwrap();
    let keep = FallocateFlags::KEEP_SIZE;
    process.fallocate(fd, keep, 20 * PAGE, 2 * PAGE).unwrap();
    process.ftruncate(fd, 15 * PAGE).unwrap();
    process.fallocate(fd, keep, 15 * PAGE, 2 * PAGE).unwrap();
    let before = process.fstat(fd).unwrap();
    share(&process, fd);
    let after = process.fstat(fd).unwrap();
    assert_eq!((before.size, before.blocks), (after.size, after.blocks));
    assert_eq!(process.lseek(fd, SeekTo::Hole(0)), Ok(PAGE));
    assert_eq!(process.lseek(fd, SeekTo::Data(PAGE)), Ok(10 * PAGE));
    assert_eq!(process.lseek(fd, SeekTo::Hole(10 * PAGE)), Ok(11 * PAGE));
    assert_eq!(
        process.lseek(fd, SeekTo::Data(12 * PAGE)),
        Err(Errno::ENXIO)
    );
    process
        .fallocate(fd, keep | FallocateFlags::PUNCH_HOLE, 10 * PAGE, PAGE)
        .unwrap();
    assert_eq!(read(&process, fd, 10 * PAGE, 3), [0; 3]);
    process
        .fallocate(fd, FallocateFlags::empty(), 16 * PAGE, PAGE)
        .unwrap();
    assert_eq!(process.fstat(fd).unwrap().size, 17 * PAGE);
}

#[test]
fn the_limits_hold_for_shared_files() {
    let fs = MemFs::with_limits(MemFsLimits {
        file_size: 100 * PAGE,
        memory: 4 * PAGE,
    });
    let process = Process::with(fdtable::Files::new(), fs);
    let fd = process.openat(At::Cwd, "a", NEW, 0o600).unwrap();
    process.write(fd, &[1; 2 * PAGE as usize]).unwrap();
    let memory = share(&process, fd);
    let full = vec![2; 10 * PAGE as usize];
    assert_eq!(process.pwrite(fd, &full, PAGE), Ok(3 * PAGE as usize));
    assert_eq!(process.pwrite(fd, b"x", 4 * PAGE), Err(Errno::ENOSPC));
    assert_eq!(process.pwrite(fd, b"x", 100 * PAGE), Err(Errno::EFBIG));
    assert_eq!(process.ftruncate(fd, 100 * PAGE + 1), Err(Errno::EFBIG));
    process.ftruncate(fd, 3 * PAGE).unwrap();
    // A mapping takes pages without a call. The next change of the file counts them.
    process.ftruncate(fd, 50 * PAGE).unwrap();
    memory.store(10 * PAGE as usize, &full);
    assert_eq!(process.pwrite(fd, b"y", 0), Ok(1));
    let other = process.openat(At::Cwd, "b", NEW, 0o600).unwrap();
    assert_eq!(process.write(other, b"x"), Err(Errno::ENOSPC));
    let allocated = process.fallocate(fd, FallocateFlags::empty(), 30 * PAGE, 1);
    assert_eq!(allocated, Err(Errno::ENOSPC));
    process.unlink("a").unwrap();
    process.close(fd).unwrap();
    assert_eq!(process.write(other, &full), Ok(4 * PAGE as usize));
}

#[test]
fn seals_hold_for_the_memory_too() {
    let process = Process::new();
    let fd = process
        .memfd_create("a", MemfdFlags::ALLOW_SEALING)
        .unwrap();
    process.write(fd, b"text").unwrap();
    process.add_seals(fd, Seals::SHRINK).unwrap();
    let memory = share(&process, fd);
    assert_eq!(memory.0.lock().seals, Seals::SHRINK);
    memory.0.lock().is_mapped = true;
    assert_eq!(process.add_seals(fd, Seals::WRITE), Err(Errno::EBUSY));
    assert_eq!(process.seals(fd), Ok(Seals::SHRINK));
    process.add_seals(fd, Seals::FUTURE_WRITE).unwrap();
    assert_eq!(process.pwrite(fd, b"x", 0), Err(Errno::EPERM));
    memory.0.lock().is_mapped = false;
    process.add_seals(fd, Seals::WRITE | Seals::SEAL).unwrap();
    let contents = Seals::SHRINK | Seals::FUTURE_WRITE | Seals::WRITE;
    assert_eq!(memory.0.lock().seals, contents);
}

#[test]
fn a_write_through_a_mapping_changes_the_times() {
    let process = Process::new();
    let fd = process.openat(At::Cwd, "a", NEW, 0o600).unwrap();
    process.write(fd, b"text").unwrap();
    let memory = share(&process, fd);
    let times = || {
        let stat = process.fstat(fd).unwrap();
        (stat.mtime, stat.ctime)
    };
    let before = times();
    let later = Timestamp {
        seconds: before.0.seconds + 10,
        nanos: 0,
    };
    memory.0.lock().modified = later;
    assert_eq!(times(), (later, later));
    // A call that sets the times is newer than the change through the mapping.
    process.futimens(fd, [Time::Omit, Time::At(5, 0)]).unwrap();
    assert_eq!(times().0.seconds, 5);
    assert!(times().1 < later);
}
