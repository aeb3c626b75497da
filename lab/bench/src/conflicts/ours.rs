//! Our table, with everything that a kernel has beside it.
//!
//! That is reclamation, lists of open files, slabs, private descriptors, and the pipes and files of
//! the small kernel in the same table.

use std::hint::black_box;
use std::ptr;
use std::sync::OnceLock;

use anyhow::{Context, ensure};
use conflict_tracer::Cpus;
use fdtable::{
    Access, Error, Fd, FdFlags, FileRef, Files, PrivateFd, PrivateFiles, RawFd, SuperBlock, rcu,
};
use fdtable_slab::{self as slab, Cache};
use fdtable_vfs::{MemFs, Object, OpenFlags, Process, RcuObject, SeekTo};

use super::operation::{Argument, Call, Operation};
use super::setup::Setup;
use super::specification::{BYTES, Places, Response, State};
use super::subject::{Hand, Place, Subject};

type File = FileRef<RcuObject>;
type Block = slab::Object<'static, [u64; 8]>;

/// Descriptors of a leaf.
const LEAF: u64 = 64;
/// The first leaf that is reserved for chosen descriptors.
const CHOSEN: u64 = 16;
/// Descriptors in another node of the radix tree begin here; each CPU has its own node.
const FAR: u64 = 300_000;
/// First descriptor of pipes and files.
const STREAMS: RawFd = ((CHOSEN + 20) * LEAF) as RawFd;
/// Descriptors below the limit of a full table: the first leaf.
const FEW: u64 = LEAF;
/// The free ones of them if the table is nearly full.
const LAST_FREE: [u64; 2] = [50, 51];
/// Descriptors that searches have passed over: leaves 0 to 4.
const PASSED: u64 = 5 * LEAF;
/// Rounds of all operations on each CPU before the trace.
const ROUNDS: usize = 3;

/// A table, and the objects beside it.
pub(super) struct Ours {
    /// Owns the table.
    process: Process,
    superblock: SuperBlock<RcuObject>,
    private: PrivateFiles<RcuObject>,
    hands: [Hand<File, Block>; 2],
    places: [Places; 2],
    /// Reading and writing end of a pipe, and a file: of each CPU.
    streams: [Streams; 2],
}

#[derive(Clone, Copy, Default)]
struct Streams {
    reader: RawFd,
    writer: RawFd,
    file: RawFd,
}

/// Open file that has only its status. It has lines of its own, as the files of kernels have:
/// otherwise its neighbours in memory would add conflicts.
#[repr(align(64))]
struct Plain(OpenFlags);

impl Object for Plain {
    fn status(&self) -> OpenFlags {
        self.0
    }
}

fn as_object(plain: &Plain) -> &dyn Object {
    plain
}

/// Returns the address, which identifies the object.
fn address(object: &dyn Object) -> usize {
    ptr::from_ref(object).addr()
}

fn address_of_block(block: &Block) -> usize {
    ptr::from_ref(&**block).addr()
}

/// The cache from which blocks come.
fn blocks() -> &'static Cache<[u64; 8]> {
    static BLOCKS: OnceLock<Cache<[u64; 8]>> = OnceLock::new();
    BLOCKS.get_or_init(|| Cache::new("blocks of the matrix").expect("there is memory for a cache"))
}

impl Subject for Ours {
    const NAME: &'static str = "fdtable";
    const SETUPS: &'static [Setup] = &Setup::ALL;

    fn can(_: Call) -> bool {
        true
    }

    fn set_up(cpus: &mut Cpus, setup: Setup) -> anyhow::Result<Self> {
        let mut ours = Ours::new()?;
        for cpu in 0..2 {
            let made = cpus.run(cpu, || ours.create_places(cpu))?;
            (ours.places[cpu], ours.streams[cpu]) = made?;
        }
        ours.share()?;
        ours.take_numbers(setup)?;
        for cpu in 0..2 {
            cpus.run(cpu, || ours.warm_up(cpu))??;
        }
        ours.use_by_both()?;
        Ok(ours)
    }

    fn state(&self) -> anyhow::Result<State> {
        let mut state = State {
            limit: u64::from(self.files().limit()),
            places: [0, 1].map(|cpu| self.named(cpu)),
            ..State::default()
        };
        for (fd, file, data) in self.files().iter() {
            let flag = data.flags == FdFlags::CLOEXEC;
            state
                .open
                .insert(u64::from(fd.raw() as u32), (address(&**file), flag));
        }
        for (fd, file) in self.private.iter() {
            state.private.insert(fd.to_bits(), address(&**file));
        }
        for file in self.superblock.snapshot()? {
            // The snapshot holds a reference too.
            let references = FileRef::strong_count(&file) - 1;
            state.references.insert(address(&**file), references);
        }
        for (cpu, streams) in self.streams.iter().enumerate() {
            state.blocks.extend(state.places[cpu].blocks);
            state.pipes[cpu] = self.files().get(streams.reader)?.readable_bytes()? as u64;
            state.positions[cpu] = self.process.lseek(streams.file, SeekTo::Current(0))?;
        }
        Ok(state)
    }

    fn perform(&self, cpu: usize, call: Call) -> Response {
        let Call {
            operation,
            argument,
        } = call;
        let (hand, places) = (&self.hands[cpu], &self.places[cpu]);
        let fd = places.fds[argument as usize] as RawFd;
        let streams = &self.streams[cpu];
        let answer = match operation {
            Operation::BorrowedGet => self.borrow(fd),
            Operation::OwnedGet => self.files().get(fd).map(|file| keep(hand, file)),
            Operation::Put => {
                drop(hand.held.of(argument).take());
                Ok(Response::Done)
            }
            Operation::Clone => {
                let file = hand.held.of(argument).look(FileRef::clone);
                Ok(keep(hand, file.expect("a reference is held")))
            }
            Operation::Upgrade => self.upgrade(hand, fd),
            Operation::OpenLowest => {
                let opened = self.files().open(hand.ready.take(), FdFlags::empty());
                opened.map(|fd| fd_response(fd.raw()))
            }
            Operation::OpenAny => {
                let opened = self.open_any(hand.ready.take());
                opened.map(|fd| fd_response(fd.raw()))
            }
            Operation::PrivateOpen => {
                let opened = self.private.open(hand.ready.take());
                opened.map(|fd| Response::Number(fd.to_bits()))
            }
            Operation::PrivateClose => {
                let fd = PrivateFd::from_bits(places.private[argument as usize]);
                self.private.close(fd).map(|_| Response::Done)
            }
            Operation::Close => self.files().close(fd).map(|_| Response::Done),
            Operation::Dup => self.files().dup(fd).map(|fd| fd_response(fd.raw())),
            Operation::DupTo => {
                let source = places.fds[Argument::Own as usize] as RawFd;
                let opened = self.files().dup3(source, fd, FdFlags::empty());
                opened.map(|_| fd_response(fd))
            }
            Operation::GetFlags => {
                let flags = self.files().fd_flags(fd);
                flags.map(|flags| Response::Flag(flags == FdFlags::CLOEXEC))
            }
            Operation::SetFlags => {
                let set = self.files().set_fd_flags(fd, FdFlags::CLOEXEC);
                set.map(|()| Response::Done)
            }
            Operation::Add => self.make().map(|file| keep(hand, file)),
            Operation::Remove => {
                FileRef::put_as_last(hand.last.of(argument).take());
                Ok(Response::Done)
            }
            Operation::Count => Ok(Response::Count(self.superblock.open_files() as u64)),
            Operation::Iterate => self.iterate(),
            Operation::SlabAlloc => blocks()
                .insert([0; 8])
                .map(|block| {
                    let name = address_of_block(&block);
                    hand.block.put(block);
                    Response::Object(name)
                })
                .map_err(Error::from),
            Operation::SlabFree => {
                drop(hand.blocks.of(argument).take());
                Ok(Response::Done)
            }
            Operation::PipeWrite => {
                let written = self.process.write(streams.writer, &[1; BYTES as usize]);
                Ok(Response::Count(written.map_or(0, |bytes| bytes as u64)))
            }
            Operation::PipeRead => {
                let read = self.process.read(streams.reader, &mut [0; BYTES as usize]);
                Ok(Response::Count(read.map_or(0, |bytes| bytes as u64)))
            }
            Operation::Lseek => {
                let position = self
                    .process
                    .lseek(streams.file, SeekTo::Current(BYTES as i64));
                Ok(Response::Number(position.unwrap_or(u64::MAX)))
            }
            Operation::Pread => {
                let file = match argument {
                    Argument::Common => self.streams[0].file,
                    _ => streams.file,
                };
                let read = self.process.pread(file, &mut [0; BYTES as usize], 0);
                Ok(Response::Count(read.map_or(0, |bytes| bytes as u64)))
            }
        };
        answer.unwrap_or_else(Response::Refused)
    }
}

fn fd_response(raw: RawFd) -> Response {
    Response::Number(raw as u64)
}

/// Keeps the reference that a call returned.
fn keep(hand: &Hand<File, Block>, file: File) -> Response {
    let object = address(&**file);
    hand.result.put(file);
    Response::Object(object)
}

/// Operations that consist of several calls.
impl Ours {
    fn files(&self) -> &Files<RcuObject> {
        self.process.files()
    }

    /// Creates an open file, which is on the list.
    fn make(&self) -> Result<File, Error> {
        let plain = Plain(OpenFlags::RDWR);
        let hook = |plain: &Plain, _| {
            black_box(plain.0);
        };
        FileRef::builder(plain)
            .on(&self.superblock, Access::Read)
            .on_release(hook)
            .rcu()
            .try_build_dyn(as_object)
    }

    fn open_any(&self, file: File) -> Result<Fd, Error> {
        self.files().open_any(file, FdFlags::empty())
    }

    fn borrow(&self, fd: RawFd) -> Result<Response, Error> {
        let section = rcu::read_lock();
        let file = self.files().get_rcu(fd, &section)?;
        black_box(file.status());
        Ok(Response::Object(address(&*file)))
    }

    fn upgrade(&self, hand: &Hand<File, Block>, fd: RawFd) -> Result<Response, Error> {
        let section = rcu::read_lock();
        let file = self.files().get_rcu(fd, &section)?.upgrade();
        Ok(keep(hand, file.ok_or(Error::BadFd)?))
    }

    fn iterate(&self) -> Result<Response, Error> {
        let (mut count, mut sum) = (0, 0_usize);
        for file in self.superblock.iter()? {
            count += 1;
            sum = sum.wrapping_add(address(&**file));
        }
        Ok(Response::Objects(count, sum))
    }
}

/// Set-up of the state.
impl Ours {
    fn new() -> anyhow::Result<Self> {
        Ok(Ours {
            process: Process::with(Files::with_limit(1 << 20), MemFs::default()),
            superblock: SuperBlock::new()?,
            private: PrivateFiles::with_limit(1 << 20),
            hands: Default::default(),
            places: Default::default(),
            streams: Default::default(),
        })
    }

    /// Opens a chosen descriptor.
    fn open_at(&self, wanted: u64, file: File) -> anyhow::Result<u64> {
        let reserved = self
            .files()
            .reserve_from(wanted as RawFd, FdFlags::empty())?;
        let fd = reserved.install(file).raw() as u64;
        ensure!(fd == wanted, "{wanted} was opened as {fd}");
        Ok(fd)
    }

    /// Creates the private objects of a CPU, and those that it shares with the other.
    fn create_places(&self, cpu: usize) -> anyhow::Result<(Places, Streams)> {
        let (hand, other) = (&self.hands[cpu], &self.hands[1 - cpu]);
        let own = self.open_any(self.make()?)?;
        hand.held.of(Argument::Own).put(self.files().get(own)?);
        for (argument, hand) in [(Argument::Own, hand), (Argument::Handed, other)] {
            hand.last.of(argument).put(self.make()?);
            hand.blocks.of(argument).put(blocks().insert([0; 8])?);
        }
        other.held.of(Argument::Handed).put(self.make()?);

        let nth = cpu as u64;
        let mut places = Places::default();
        let fds = [
            (Argument::Own, own.raw() as u64),
            (Argument::SameLeaf, self.open_in(0, 8 + 32 * nth)?),
            (Argument::Neighbour, self.open_in(1, 8 + nth)?),
            (Argument::Far, self.open_at(FAR * (1 + nth), self.make()?)?),
            (Argument::Lone, self.open_in(13 + nth, 3)?),
            (Argument::Closed, self.open_in(4 + nth, 0)? + 5),
            (Argument::CommonClosed, CHOSEN * LEAF + 20),
            (Argument::Passed, LEAF * (3 + nth) + 7),
        ];
        for (argument, fd) in fds {
            places.fds[argument as usize] = fd;
        }
        // More descriptors in the same leaves, so that no close empties a leaf.
        self.open_any(self.make()?)?;
        self.open_at(FAR * (1 + nth) + 9, self.make()?)?;
        for leaf in [6, 9] {
            self.open_in(leaf + nth, 9)?;
        }
        let private = self.private.open(self.make()?)?;
        places.private[Argument::Own as usize] = private.to_bits();
        Ok((places, self.open_streams(cpu)?))
    }

    /// Opens a descriptor in one of the leaves reserved for chosen descriptors.
    fn open_in(&self, leaf: u64, slot: u64) -> anyhow::Result<u64> {
        self.open_at((CHOSEN + leaf) * LEAF + slot, self.make()?)
    }

    fn open_streams(&self, cpu: usize) -> anyhow::Result<Streams> {
        let (reader, writer) = self.process.pipe2(OpenFlags::empty())?;
        let flags = OpenFlags::CREAT | OpenFlags::RDWR;
        let file = self.process.open(format!("/{cpu}"), flags)?;
        // Not next to the lowest free descriptor.
        let least = STREAMS + 8 * cpu as RawFd;
        let place = |fd: Fd| self.process.dup_min(fd, least, FdFlags::empty());
        let [reader, writer, file] = [place(reader)?, place(writer)?, place(file)?];
        self.process.write(writer, &[1; 64])?;
        self.process.write(file, &[1; 4096])?;
        self.process.lseek(file, SeekTo::Start(0))?;
        let [reader, writer, file] = [reader, writer, file].map(RawFd::from);
        Ok(Streams {
            reader,
            writer,
            file,
        })
    }

    /// Brings the files that both CPUs use into the state that they soon have when the CPUs run at
    /// the same time. Simulated CPUs run one after the other.
    fn use_by_both(&self) -> anyhow::Result<()> {
        let shared = [
            Argument::Common,
            Argument::Duplicate,
            Argument::Handed,
            Argument::Passed,
        ];
        for places in &self.places {
            for argument in shared {
                let fd = places.fds[argument as usize] as RawFd;
                match self.files().count_by_cpu(fd) {
                    // Only one state has descriptors that searches have passed.
                    Err(Error::BadFd) if argument == Argument::Passed => {}
                    counted => counted.context("it is open")?,
                }
            }
        }
        // References that are taken since then.
        for hand in &self.hands {
            for argument in [Argument::Common, Argument::Duplicate] {
                let held = hand.held.of(argument);
                if let Some(file) = held.look(FileRef::clone) {
                    held.put(file);
                }
            }
        }
        Ok(())
    }

    /// Opens the common descriptors, and gives each CPU the other's.
    fn share(&mut self) -> anyhow::Result<()> {
        let duplicate = self.make()?;
        let common = self.make()?;
        let fd = self.open_at((CHOSEN + 8) * LEAF, FileRef::clone(&common))?;
        self.open_in(8, 9)?;
        for cpu in 0..2 {
            let leaf = |leaf: u64| (CHOSEN + leaf + cpu as u64) * LEAF;
            let held = &self.hands[cpu].held;
            let handed = held.of(Argument::Handed).look(FileRef::clone);
            let handed = handed.context("the other CPU has created it")?;
            let fds = [
                (
                    Argument::Duplicate,
                    self.open_at(leaf(6), FileRef::clone(&duplicate))?,
                ),
                (Argument::Handed, self.open_at(leaf(9), handed)?),
                (Argument::Common, fd),
                (
                    Argument::Others,
                    self.places[1 - cpu].fds[Argument::Own as usize],
                ),
            ];
            held.of(Argument::Duplicate).put(FileRef::clone(&duplicate));
            held.of(Argument::Common).put(FileRef::clone(&common));
            for (argument, fd) in fds {
                self.places[cpu].fds[argument as usize] = fd;
            }
            let theirs = self.places[1 - cpu].private[Argument::Own as usize];
            self.places[cpu].private[Argument::Others as usize] = theirs;
        }
        Ok(())
    }

    /// Opens the descriptors that are taken in the setup.
    fn take_numbers(&self, setup: Setup) -> anyhow::Result<()> {
        let end = match setup {
            Setup::Steady | Setup::Beside => return Ok(()),
            Setup::Passed => PASSED,
            Setup::NearlyFull | Setup::Full => FEW,
        };
        let common = self.places[0].fds[Argument::Common as usize] as RawFd;
        while self.files().dup(common)?.raw() < end as RawFd {}
        if setup == Setup::NearlyFull {
            for fd in LAST_FREE {
                drop(self.files().close(fd as RawFd)?);
            }
        }
        if setup != Setup::Passed {
            self.files().set_limit(FEW as u32);
        }
        Ok(())
    }

    /// Does everything a few times, so that each CPU has its share of all per-CPU resources.
    fn warm_up(&self, cpu: usize) -> anyhow::Result<()> {
        let own = self.places[cpu].fds[Argument::Own as usize] as RawFd;
        let streams = &self.streams[cpu];
        for _ in 0..ROUNDS {
            self.borrow(own)?;
            drop(self.files().get(own)?);
            match self.open_any(self.make()?) {
                Ok(fd) => drop(self.files().close(fd)?),
                Err(error) => ensure!(error == Error::TooManyFiles, "{error}"),
            }
            drop(self.private.close(self.private.open(self.make()?)?)?);
            drop(blocks().insert([0; 8])?);
            self.process.write(streams.writer, &[1; BYTES as usize])?;
            self.process
                .read(streams.reader, &mut [0; BYTES as usize])?;
            self.process.lseek(streams.file, SeekTo::Start(0))?;
            self.process
                .pread(streams.file, &mut [0; BYTES as usize], 0)?;
            self.process
                .pread(self.streams[0].file, &mut [0; BYTES as usize], 0)?;
        }
        // Ensures that no grace period is due during the trace. The objects that are freed now are
        // allocated next.
        rcu::barrier()?;
        self.hands[cpu].ready.put(self.make()?);
        Ok(())
    }

    /// Returns the descriptors and objects of a CPU, by address.
    fn named(&self, cpu: usize) -> Places {
        let hand = &self.hands[cpu];
        let name = |place: &Place<File>| place.look(|file| address(&***file)).unwrap_or(0);
        Places {
            held: hand.held.each(name),
            last: hand.last.each(name),
            ready: name(&hand.ready),
            blocks: hand
                .blocks
                .each(|place| place.look(address_of_block).unwrap_or(0)),
            ..self.places[cpu]
        }
    }
}
