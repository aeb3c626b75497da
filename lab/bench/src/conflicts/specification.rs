//! The sequential specification of the operations.
//!
//! An operation may often return several results: any free descriptor, an object at any address. So
//! the specification checks if a response is legal in a state, and computes the state that follows.

use std::collections::{BTreeMap, BTreeSet};

use fdtable::Error;

use super::operation::{ARGUMENTS, Argument, Call, Operation};

/// Response of an operation. Objects and blocks are identified by their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    Done,
    Object(usize),
    Number(u64),
    Flag(bool),
    Count(u64),
    /// Number of objects, and the sum of their addresses.
    Objects(usize, usize),
    Refused(Error),
}

/// State of a table and of the objects beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Exclusive upper bound for new descriptors.
    pub(super) limit: u64,
    /// The object of each open descriptor, and whether it is closed on exec.
    pub(super) open: BTreeMap<u64, (usize, bool)>,
    /// Private descriptors that are open, with their objects.
    pub(super) private: BTreeMap<u64, usize>,
    /// References to each object on the list of open files.
    pub(super) references: BTreeMap<usize, usize>,
    /// Blocks that are allocated.
    pub(super) blocks: BTreeSet<usize>,
    /// Bytes that wait in the pipe of each CPU.
    pub(super) pipes: [u64; 2],
    /// Position in the file of each CPU.
    pub(super) positions: [u64; 2],
    /// The objects of each CPU.
    pub(super) places: [Places; 2],
}

/// Values of the arguments on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) fds: [u64; ARGUMENTS],
    pub(super) private: [u64; ARGUMENTS],
    /// Objects to which the CPU holds a reference.
    pub(super) held: [usize; ARGUMENTS],
    /// Objects to which the CPU holds the only reference.
    pub(super) last: [usize; ARGUMENTS],
    /// The object to be opened.
    pub(super) ready: usize,
    pub(super) blocks: [usize; ARGUMENTS],
}

/// Bytes of one transfer through a pipe, and distance by which a position moves.
pub(super) const BYTES: u64 = 8;

/// Returns true if two calls with these responses commute: both orders are legal, and lead to the
/// same state.
pub(super) fn commute(state: &State, calls: [Call; 2], responses: [Response; 2]) -> bool {
    let after = |order: [usize; 2]| {
        order.iter().try_fold(state.clone(), |state, &cpu| {
            state.after(cpu, calls[cpu], responses[cpu])
        })
    };
    after([0, 1]).is_some_and(|end| after([1, 0]) == Some(end))
}

impl State {
    /// Returns the state after a call of `cpu`, if the response is legal.
    pub(super) fn after(mut self, cpu: usize, call: Call, response: Response) -> Option<State> {
        let legal = self.change(cpu, call, response);
        legal.then_some(self)
    }

    /// Changes the state, and returns true if the response is legal.
    fn change(&mut self, cpu: usize, call: Call, response: Response) -> bool {
        use Response::{Count, Done, Flag, Number, Object, Objects, Refused};
        let places = self.places[cpu];
        let argument = call.argument as usize;
        let fd = places.fds[argument];
        let open = self.open.get(&fd).copied();
        match (call.operation, response) {
            (Operation::BorrowedGet, Object(object)) => open.is_some_and(|it| it.0 == object),
            (Operation::OwnedGet | Operation::Upgrade, Object(object)) => {
                self.take_reference(object);
                open.is_some_and(|it| it.0 == object)
            }
            (Operation::Put, Done) => self.drop_reference(places.held[argument]),
            (Operation::Clone, Object(object)) => {
                self.take_reference(object);
                object == places.held[argument]
            }
            (Operation::OpenLowest, Number(new)) => {
                self.lowest() == Some(new) && self.install(new, places.ready)
            }
            (Operation::OpenAny, Number(new)) => {
                new < self.limit && self.install(new, places.ready)
            }
            (Operation::OpenLowest | Operation::OpenAny, Refused(Error::TooManyFiles)) => {
                self.drop_reference(places.ready) && self.lowest().is_none()
            }
            (Operation::PrivateOpen, Number(new)) => {
                self.private.insert(new, places.ready).is_none()
            }
            (Operation::PrivateClose, Done) => self.close_private(places.private[argument]),
            (Operation::PrivateClose, Refused(Error::BadFd)) => {
                !self.private.contains_key(&places.private[argument])
            }
            (Operation::Close, Done) => self.close(fd),
            (Operation::Dup, Number(new)) => {
                let Some((object, _)) = open else {
                    return false;
                };
                self.take_reference(object);
                self.lowest() == Some(new) && self.install(new, object)
            }
            (Operation::Dup, Refused(Error::TooManyFiles)) => {
                open.is_some() && self.lowest().is_none()
            }
            (Operation::DupTo, Number(new)) => {
                let source = places.fds[Argument::Own as usize];
                let Some(&(object, _)) = self.open.get(&source) else {
                    return false;
                };
                self.take_reference(object);
                self.close(fd);
                new == fd && self.install(new, object)
            }
            (Operation::DupTo, Refused(Error::BadFd)) => {
                let source = places.fds[Argument::Own as usize];
                !self.open.contains_key(&source)
            }
            (Operation::GetFlags, Flag(flag)) => open.is_some_and(|it| it.1 == flag),
            (Operation::SetFlags, Done) => match self.open.get_mut(&fd) {
                Some((_, flag)) => {
                    *flag = true;
                    true
                }
                None => false,
            },
            (
                Operation::BorrowedGet
                | Operation::OwnedGet
                | Operation::Upgrade
                | Operation::Close
                | Operation::Dup
                | Operation::GetFlags
                | Operation::SetFlags,
                Refused(Error::BadFd),
            ) => open.is_none(),
            (Operation::Add, Object(object)) => self.references.insert(object, 1).is_none(),
            (Operation::Remove, Done) => self.drop_reference(places.last[argument]),
            (Operation::Count, Count(count)) => count == self.references.len() as u64,
            (Operation::Iterate, Objects(count, sum)) => {
                let all: usize = self.references.keys().fold(0, |a, b| a.wrapping_add(*b));
                (count, sum) == (self.references.len(), all)
            }
            (Operation::SlabAlloc, Object(block)) => self.blocks.insert(block),
            (Operation::SlabFree, Done) => self.blocks.remove(&places.blocks[argument]),
            (Operation::PipeWrite, Count(bytes)) => {
                self.pipes[cpu] += bytes;
                bytes == BYTES
            }
            (Operation::PipeRead, Count(bytes)) => {
                self.pipes[cpu] -= bytes;
                bytes == BYTES
            }
            (Operation::Lseek, Number(position)) => {
                self.positions[cpu] += BYTES;
                position == self.positions[cpu]
            }
            (Operation::Pread, Count(bytes)) => bytes == BYTES,
            _ => false,
        }
    }

    fn lowest(&self) -> Option<u64> {
        (0..self.limit).find(|fd| !self.open.contains_key(fd))
    }

    /// Opens a descriptor for an existing reference. Returns true if the descriptor was free.
    fn install(&mut self, fd: u64, object: usize) -> bool {
        self.open.insert(fd, (object, false)).is_none()
    }

    fn close(&mut self, fd: u64) -> bool {
        match self.open.remove(&fd) {
            Some((object, _)) => self.drop_reference(object),
            None => false,
        }
    }

    fn close_private(&mut self, fd: u64) -> bool {
        match self.private.remove(&fd) {
            Some(object) => self.drop_reference(object),
            None => false,
        }
    }

    fn take_reference(&mut self, object: usize) {
        *self.references.entry(object).or_default() += 1;
    }

    /// The object leaves the list with its last reference.
    fn drop_reference(&mut self, object: usize) -> bool {
        match self.references.get_mut(&object) {
            Some(1) => self.references.remove(&object).is_some(),
            Some(count) => {
                *count -= 1;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: Operation, argument: Argument) -> Call {
        Call {
            operation,
            argument,
        }
    }

    /// Descriptor 0 is open for both CPUs, and each has an object.
    fn state() -> State {
        let mut state = State {
            limit: 10,
            open: BTreeMap::from([(0, (100, false))]),
            references: BTreeMap::from([(100, 1), (200, 1), (201, 1)]),
            ..State::default()
        };
        state.places[0].ready = 200;
        state.places[1].ready = 201;
        state
    }

    fn both(operation: Operation, responses: [Response; 2]) -> bool {
        let call = call(operation, Argument::Common);
        commute(&state(), [call, call], responses)
    }

    #[test]
    fn opens_commute_if_any_descriptor_will_do() {
        let fds = [Response::Number(1), Response::Number(2)];
        assert!(both(Operation::OpenAny, fds));
        assert!(!both(Operation::OpenLowest, fds));
        let same = [Response::Number(1), Response::Number(1)];
        assert!(!both(Operation::OpenAny, same));
    }

    #[test]
    fn of_two_closes_of_one_descriptor_one_fails() {
        let refused = Response::Refused(Error::BadFd);
        assert!(!both(Operation::Close, [Response::Done, refused]));
        assert!(!both(Operation::Close, [Response::Done, Response::Done]));
    }

    #[test]
    fn a_lookup_commutes_with_what_does_not_change_its_answer() {
        let lookup = call(Operation::BorrowedGet, Argument::Common);
        let close = call(Operation::Close, Argument::Common);
        let found = Response::Object(100);
        assert!(both(Operation::BorrowedGet, [found; 2]));
        assert!(both(Operation::OwnedGet, [found; 2]));
        assert!(!commute(&state(), [lookup, close], [found, Response::Done]));
    }

    #[test]
    fn the_list_is_counted_without_dropped_files() {
        let count = call(Operation::Count, Argument::Nothing);
        let close = call(Operation::Close, Argument::Common);
        let counted = |count| Response::Count(count);
        assert!(commute(&state(), [count; 2], [counted(3); 2]));
        for answer in [2, 3] {
            let responses = [counted(answer), Response::Done];
            assert!(!commute(&state(), [count, close], responses));
        }
    }

    #[test]
    fn an_open_that_is_refused_drops_its_file() {
        let mut full = state();
        full.limit = 1;
        let refused = Response::Refused(Error::TooManyFiles);
        let open = call(Operation::OpenAny, Argument::Nothing);
        assert!(commute(&full, [open; 2], [refused; 2]));
        let end = full.after(0, open, refused).unwrap();
        assert!(!end.references.contains_key(&200));
    }
}
