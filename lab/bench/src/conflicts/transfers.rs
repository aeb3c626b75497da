//! Line transfers for up to 256 simulated CPUs.
//!
//! Every CPU does the same work, one operation at a time and one CPU after the other, and each is
//! traced. The traces of the first *N* CPUs are fed to the cache directory of a machine with
//! unlimited caches: after a first round, the remaining transfers are the steady cost of every
//! operation. No time is measured, and for operations without a conflict the count is exact.
//!
//! Refills of magazines, new claims and grace periods are counted in the [long
//! run](super::long_run).
//!
//! A machine of so many CPUs needs as many copies of all per-CPU data, and a process chooses their
//! number once. So this runs in a process of its own: the program runs itself.

use std::hint::black_box;
use std::sync::Arc;

use conflict_tracer::{Cpus, Directory, LineSize, MAX_CPUS, Trace, Transfers};
use fdtable::{Access, Error, FdFlags, FileRef, Files, Rcu, SuperBlock, rcu};
use serde::{Deserialize, Serialize};

use super::arcs::Container;
#[cfg(feature = "experiments")]
use super::arcs::{Dashed, Sharded, Swapped};
use super::long_run::{self, LongRun, Place, long_run};
use super::simulation::simulate;
use crate::baseline::RwLockVec;
use crate::lookup::Padded;

/// Traced rounds of all CPUs, of which the first is not counted.
const ROUNDS: usize = 2;
/// Rounds before those, which are not traced.
const WARM_UP: usize = 4;
/// Exclusive upper bound for new descriptors.
const LIMIT: u32 = 1 << 20;

named! {
    /// The work of every CPU.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Work {
        /// Looks up a descriptor of its own, without a reference.
        BorrowedOwn = "borrowed get, own descriptors",
        /// The same with one descriptor for all.
        BorrowedCommon = "borrowed get, one descriptor",
        /// Takes a reference to a file of its own, and drops it.
        OwnedOwn = "owned get and put, own files",
        /// The same with one file for all.
        OwnedCommon = "owned get and put, one file",
        /// Creates a file, opens it on any descriptor, and closes it.
        OpenClose = "open any and close, new files",
    }
}

/// Result of some work on a number of CPUs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(super) subject: String,
    pub(super) work: Work,
    pub(super) cpus: usize,
    /// True in the long run.
    pub(super) long: bool,
    /// Lines that travel between caches for each operation.
    pub(super) per_operation: f64,
    /// Places where lines travel, in descending order: of the long run.
    pub(super) places: Vec<Place>,
}

/// Returns how many CPUs are looked at: 1, 2, 4, up to all.
pub(super) fn steps() -> impl Iterator<Item = usize> {
    (0..)
        .map(|power| 1 << power)
        .take_while(|cpus| *cpus <= MAX_CPUS)
}

/// Traces all tables in this process.
///
/// # Errors
/// If operations cannot be traced here, or a table fails.
pub(crate) fn run() -> anyhow::Result<Vec<Row>> {
    let cpus = &mut simulate(MAX_CPUS)?;
    let mut all = rows::<Ours>(cpus)?;
    all.push(SharedTable::<Ours>::with(cpus, SharedTable::long_run)?);
    all.extend(rows::<RwLockVec<Padded>>(cpus)?);
    #[cfg(feature = "experiments")]
    {
        all.extend(rows::<Swapped>(cpus)?);
        all.extend(rows::<Sharded>(cpus)?);
        all.extend(rows::<Dashed>(cpus)?);
    }
    Ok(all)
}

fn rows<T: Table>(cpus: &mut Cpus) -> anyhow::Result<Vec<Row>> {
    SharedTable::<T>::with(cpus, SharedTable::rows)
}

/// Counts the transfers of the first `count` CPUs.
fn row<T: Table>(work: Work, rounds: &[Vec<Trace>], count: usize) -> Row {
    let mut directory = Directory::new(LineSize::Bytes64);
    let mut steady = Transfers::default();
    for (nth, round) in rounds.iter().enumerate() {
        for trace in &round[..count] {
            let fed = directory.feed(trace);
            if nth > 0 {
                steady += fed;
            }
        }
    }
    Row {
        subject: T::NAME.to_owned(),
        work,
        cpus: count,
        long: false,
        per_operation: steady.per_operation(),
        places: Vec::new(),
    }
}

/// Table on which all CPUs work.
trait Table: Send + Sync + Sized {
    const NAME: &'static str;
    /// Most CPUs that are traced in opens and closes.
    const OPENERS: usize = MAX_CPUS;

    fn new() -> anyhow::Result<Self>;
    /// Creates a file and opens it on any descriptor.
    fn open_new(&self) -> Result<u64, Error>;
    fn close(&self, number: u64) -> Result<(), Error>;
    fn borrow(&self, number: u64) -> Result<u64, Error>;
    /// Takes a reference and drops it.
    fn get_and_put(&self, number: u64) -> Result<u64, Error>;

    /// Brings a file that all CPUs use into the state that it soon has when they run at the same
    /// time. Simulated CPUs run one after the other.
    fn use_by_all(&self, _: u64) -> Result<(), Error> {
        Ok(())
    }
}

/// A table, and the descriptor that each CPU has opened.
struct SharedTable<T> {
    table: T,
    own: Vec<u64>,
    common: u64,
}

impl<T: Table> SharedTable<T> {
    /// Calls a function with a shared table. The first CPU creates and drops the table.
    fn with<A>(
        cpus: &mut Cpus,
        work: impl FnOnce(&Self, &mut Cpus) -> anyhow::Result<A>,
    ) -> anyhow::Result<A> {
        let shared = Self::new(cpus)?;
        let answer = work(&shared, cpus);
        cpus.run(0, || drop(shared))?;
        answer
    }

    fn new(cpus: &mut Cpus) -> anyhow::Result<Self> {
        let table = cpus.run(0, T::new)??;
        let common = cpus.run(0, || table.open_new())??;
        let mut own = Vec::with_capacity(cpus.count());
        for cpu in 0..cpus.count() {
            own.push(cpus.run(cpu, || table.open_new())??);
        }
        cpus.run(0, || table.use_by_all(common))??;
        Ok(SharedTable { table, own, common })
    }

    fn step(&self, cpu: usize, work: Work) -> Result<(), Error> {
        let value = match work {
            Work::BorrowedOwn => self.table.borrow(self.own[cpu])?,
            Work::BorrowedCommon => self.table.borrow(self.common)?,
            Work::OwnedOwn => self.table.get_and_put(self.own[cpu])?,
            Work::OwnedCommon => self.table.get_and_put(self.common)?,
            Work::OpenClose => {
                let number = self.table.open_new()?;
                self.table.close(number)?;
                number
            }
        };
        black_box(value);
        Ok(())
    }

    /// Returns the rows of each work on each number of CPUs.
    fn rows(&self, cpus: &mut Cpus) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for work in Work::ALL {
            let most = match work {
                Work::OpenClose => T::OPENERS,
                _ => MAX_CPUS,
            };
            let rounds = self.trace(cpus, work, most)?;
            let counts = steps().take_while(|count| *count <= most);
            rows.extend(counts.map(|count| row::<T>(work, &rounds, count)));
        }
        Ok(rows)
    }

    /// Traces some rounds of the first CPUs, each of which has warmed up.
    fn trace(&self, cpus: &mut Cpus, work: Work, most: usize) -> anyhow::Result<Vec<Vec<Trace>>> {
        for cpu in 0..most {
            cpus.run(cpu, || (0..WARM_UP).try_for_each(|_| self.step(cpu, work)))??;
        }
        let mut round = |_| {
            let all = 0..most;
            all.map(|cpu| {
                let (done, trace) = cpus.trace(cpu, || self.step(cpu, work))?;
                done?;
                Ok(trace)
            })
            .collect()
        };
        (0..ROUNDS).map(&mut round).collect()
    }

    /// Runs opens and closes on two CPUs for a long time.
    fn long_run(&self, cpus: &mut Cpus) -> anyhow::Result<Row> {
        let work = Work::OpenClose;
        let LongRun {
            per_operation,
            places,
        } = long_run(cpus, |cpu| self.step(cpu, work))?;
        Ok(Row {
            subject: T::NAME.to_owned(),
            work,
            cpus: long_run::CPUS,
            long: true,
            per_operation,
            places,
        })
    }
}

/// Our table: files are on a list, and come from slabs.
struct Ours {
    files: Files<Rcu<Padded>>,
    superblock: SuperBlock<Rcu<Padded>>,
}

impl Table for Ours {
    const NAME: &'static str = "fdtable";

    fn new() -> anyhow::Result<Self> {
        Ok(Ours {
            files: Files::with_limit(LIMIT),
            superblock: SuperBlock::new()?,
        })
    }

    fn open_new(&self) -> Result<u64, Error> {
        let hook = |object: &Padded, _| {
            black_box(object.value);
        };
        let file = FileRef::builder(Padded::new(7))
            .on(&self.superblock, Access::Read)
            .on_release(hook)
            .rcu()
            .try_build()?;
        let fd = self.files.open_any(file, FdFlags::empty())?;
        Ok(fd.raw() as u64)
    }

    fn close(&self, number: u64) -> Result<(), Error> {
        self.files.close(number as i32).map(drop)
    }

    fn borrow(&self, number: u64) -> Result<u64, Error> {
        let section = rcu::read_lock();
        let file = self.files.get_rcu(number as i32, &section)?;
        Ok(file.value)
    }

    fn get_and_put(&self, number: u64) -> Result<u64, Error> {
        let file: FileRef<Rcu<Padded>> = self.files.get(number as i32)?;
        Ok(file.value)
    }

    fn use_by_all(&self, number: u64) -> Result<(), Error> {
        self.files.count_by_cpu(number as i32)
    }
}

/// Tables of `Arc`s.
impl<C: Container> Table for C {
    const NAME: &'static str = C::NAME;
    const OPENERS: usize = C::OPENERS;

    fn new() -> anyhow::Result<Self> {
        Ok(C::with_limit(u64::from(LIMIT)))
    }

    fn open_new(&self) -> Result<u64, Error> {
        self.open(Arc::new(Padded::new(7)))
    }

    fn close(&self, number: u64) -> Result<(), Error> {
        Container::close(self, number)
    }

    fn borrow(&self, number: u64) -> Result<u64, Error> {
        self.with(number, |object| object.value)
    }

    fn get_and_put(&self, number: u64) -> Result<u64, Error> {
        self.get(number).map(|object| object.value)
    }
}
