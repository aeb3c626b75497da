//! Tables of `Arc`s: the locked vector of most programs, and those of other crates.
//!
//! They choose the keys. Operations that depend on the position of a descriptor are not run on
//! them.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::Context;
use conflict_tracer::{Cpus, MAX_CPUS};
use fdtable::{Error, FdFlags};

use super::operation::{Argument, Call, Operation};
use super::setup::Setup;
use super::specification::{Places, Response, State};
use super::subject::{Hand, Place, Subject};
use crate::baseline::RwLockVec;
use crate::lookup::Padded;
use crate::table::Table;

#[cfg(feature = "experiments")]
mod theirs;

#[cfg(feature = "experiments")]
pub(super) use theirs::{Dashed, Sharded, Swapped};

type Object = Arc<Padded>;

/// Exclusive upper bound for new descriptors.
const LIMIT: u64 = 1 << 16;
/// A key that is never allocated.
const NOT_OPEN: u64 = i32::MAX as u64;
/// Opens and closes of each CPU before the trace.
const ROUNDS: usize = 3;

/// Table of `Arc`s.
pub(super) trait Container: Send + Sync + Sized {
    const NAME: &'static str;

    /// Operations beside lookups, opens of any key, and closes.
    const MORE: &'static [Operation] = &[];
    /// Most CPUs that are traced in opens and closes.
    const OPENERS: usize = MAX_CPUS;

    fn with_limit(limit: u64) -> Self;
    fn open(&self, file: Object) -> Result<u64, Error>;
    fn get(&self, key: u64) -> Result<Object, Error>;
    fn with<R>(&self, key: u64, look: impl FnOnce(&Padded) -> R) -> Result<R, Error>;
    fn close(&self, key: u64) -> Result<(), Error>;

    fn dup(&self, _: u64) -> Result<u64, Error> {
        Err(Error::InvalidArgument)
    }

    fn flags(&self, _: u64) -> Result<FdFlags, Error> {
        Err(Error::InvalidArgument)
    }

    fn set_flags(&self, _: u64, _: FdFlags) -> Result<(), Error> {
        Err(Error::InvalidArgument)
    }
}

impl Container for RwLockVec<Padded> {
    const NAME: &'static str = "RwLock<Vec<Option<Arc>>>";
    const MORE: &'static [Operation] = &[
        Operation::OpenLowest,
        Operation::Dup,
        Operation::GetFlags,
        Operation::SetFlags,
    ];

    fn with_limit(limit: u64) -> Self {
        Table::with_limit(limit as u32)
    }

    #[inline]
    fn open(&self, file: Object) -> Result<u64, Error> {
        Table::open(self, file).map(|fd| fd as u64)
    }

    #[inline]
    fn get(&self, key: u64) -> Result<Object, Error> {
        Table::get(self, key as i32)
    }

    #[inline]
    fn with<R>(&self, key: u64, look: impl FnOnce(&Padded) -> R) -> Result<R, Error> {
        Table::with(self, key as i32, look)
    }

    #[inline]
    fn close(&self, key: u64) -> Result<(), Error> {
        Table::close(self, key as i32)
    }

    #[inline]
    fn dup(&self, key: u64) -> Result<u64, Error> {
        self.dup(key as i32).map(|fd| fd as u64)
    }

    #[inline]
    fn flags(&self, key: u64) -> Result<FdFlags, Error> {
        self.flags(key as i32)
    }

    #[inline]
    fn set_flags(&self, key: u64, flags: FdFlags) -> Result<(), Error> {
        self.set_flags(key as i32, flags)
    }
}

/// A prepared table.
pub(super) struct Arcs<C> {
    table: C,
    hands: [Hand<Object>; 2],
    places: [Places; 2],
}

fn address(object: &Padded) -> usize {
    std::ptr::from_ref(object).addr()
}

impl<C: Container> Subject for Arcs<C> {
    const NAME: &'static str = C::NAME;
    const SETUPS: &'static [Setup] = &[Setup::Steady];

    fn can(call: Call) -> bool {
        let place = matches!(
            call.argument,
            Argument::Nothing
                | Argument::Own
                | Argument::Others
                | Argument::Duplicate
                | Argument::Common
                | Argument::Handed
        );
        let operation = matches!(
            call.operation,
            Operation::BorrowedGet
                | Operation::OwnedGet
                | Operation::Put
                | Operation::Clone
                | Operation::OpenAny
                | Operation::Close
        );
        place && (operation || C::MORE.contains(&call.operation))
    }

    fn set_up(cpus: &mut Cpus, _: Setup) -> anyhow::Result<Self> {
        let mut arcs = Self {
            table: C::with_limit(LIMIT),
            hands: Default::default(),
            places: Default::default(),
        };
        for cpu in 0..2 {
            arcs.places[cpu] = cpus.run(cpu, || arcs.create_places(cpu))??;
        }
        arcs.share()?;
        for cpu in 0..2 {
            cpus.run(cpu, || arcs.warm_up(cpu))??;
        }
        Ok(arcs)
    }

    fn state(&self) -> anyhow::Result<State> {
        let mut state = State {
            limit: u64::MAX,
            places: [0, 1].map(|cpu| self.named(cpu)),
            ..State::default()
        };
        for places in state.places {
            for key in places.fds {
                if let Ok(object) = self.table.get(key) {
                    let flag = self.table.flags(key) == Ok(FdFlags::CLOEXEC);
                    state.open.insert(key, (address(&object), flag));
                    state
                        .references
                        .insert(address(&object), Arc::strong_count(&object) - 1);
                }
            }
            state.references.insert(places.ready, 1);
        }
        Ok(state)
    }

    fn perform(&self, cpu: usize, call: Call) -> Response {
        let (hand, places) = (&self.hands[cpu], &self.places[cpu]);
        let key = places.fds[call.argument as usize];
        let keep = |object: Object| {
            let name = address(&object);
            hand.result.put(object);
            Response::Object(name)
        };
        let answer = match call.operation {
            Operation::BorrowedGet => self.table.with(key, |object| {
                black_box(object.value);
                Response::Object(address(object))
            }),
            Operation::OwnedGet => self.table.get(key).map(keep),
            Operation::Put => {
                drop(hand.held.of(call.argument).take());
                Ok(Response::Done)
            }
            Operation::Clone => {
                let object = hand.held.of(call.argument).look(Arc::clone);
                Ok(keep(object.expect("a reference is held")))
            }
            Operation::OpenAny | Operation::OpenLowest => {
                self.table.open(hand.ready.take()).map(Response::Number)
            }
            Operation::Close => self.table.close(key).map(|()| Response::Done),
            Operation::Dup => self.table.dup(key).map(Response::Number),
            Operation::GetFlags => {
                let flags = self.table.flags(key);
                flags.map(|flags| Response::Flag(flags == FdFlags::CLOEXEC))
            }
            Operation::SetFlags => {
                let set = self.table.set_flags(key, FdFlags::CLOEXEC);
                set.map(|()| Response::Done)
            }
            _ => Err(Error::InvalidArgument),
        };
        answer.unwrap_or_else(Response::Refused)
    }
}

impl<C: Container> Arcs<C> {
    fn make() -> Object {
        Arc::new(Padded::new(7))
    }

    /// Creates the private objects of a CPU, and those that it shares with the other.
    fn create_places(&self, cpu: usize) -> anyhow::Result<Places> {
        let mut places = Places {
            fds: [NOT_OPEN; _],
            ..Places::default()
        };
        let own = self.table.open(Self::make())?;
        places.fds[Argument::Own as usize] = own;
        self.hands[cpu]
            .held
            .of(Argument::Own)
            .put(self.table.get(own)?);
        self.hands[1 - cpu]
            .held
            .of(Argument::Handed)
            .put(Self::make());
        Ok(places)
    }

    /// Opens the common descriptors, and gives each CPU the other's.
    fn share(&mut self) -> anyhow::Result<()> {
        let duplicate = Self::make();
        let common = Self::make();
        let key = self.table.open(Arc::clone(&common))?;
        for cpu in 0..2 {
            let held = &self.hands[cpu].held;
            let handed = held.of(Argument::Handed).look(Arc::clone);
            let handed = handed.context("the other CPU has created it")?;
            let fds = [
                (
                    Argument::Duplicate,
                    self.table.open(Arc::clone(&duplicate))?,
                ),
                (Argument::Handed, self.table.open(handed)?),
                (Argument::Common, key),
                (
                    Argument::Others,
                    self.places[1 - cpu].fds[Argument::Own as usize],
                ),
            ];
            held.of(Argument::Duplicate).put(Arc::clone(&duplicate));
            held.of(Argument::Common).put(Arc::clone(&common));
            for (argument, key) in fds {
                self.places[cpu].fds[argument as usize] = key;
            }
        }
        Ok(())
    }

    /// Opens and closes a few times.
    fn warm_up(&self, cpu: usize) -> anyhow::Result<()> {
        let own = self.places[cpu].fds[Argument::Own as usize];
        for _ in 0..ROUNDS {
            self.table.with(own, |object| black_box(object.value))?;
            drop(self.table.get(own)?);
            let key = self.table.open(Self::make())?;
            self.table.close(key)?;
        }
        self.hands[cpu].ready.put(Self::make());
        Ok(())
    }

    /// Returns the keys and objects of a CPU, by address.
    fn named(&self, cpu: usize) -> Places {
        let hand = &self.hands[cpu];
        let name = |place: &Place<Object>| place.look(|object| address(object)).unwrap_or(0);
        Places {
            held: hand.held.each(name),
            ready: name(&hand.ready),
            ..self.places[cpu]
        }
    }
}
