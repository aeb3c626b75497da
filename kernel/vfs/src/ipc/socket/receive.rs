//! Reads from a queue that may contain files in flight.
//!
//! A garbage collection must see each file either in a queue or with its receiver. So a read that
//! reaches files holds the lock of their [registry](InFlight) while it takes them out of the queue.
//!
//! The registry's lock comes before the queue's, but only the queue knows the registry. So the read
//! looks twice. The first look, under the queue's lock only, finds the registry; a read that
//! reaches no files ends there. The second look, under both locks, decides. Between the two,
//! another thread may have taken those files, and the next files may belong to another registry:
//! sockets of two kernels can send to one queue, if the kernels share a file system in which the
//! receiver has a name. Then the read starts again.

use std::io::IoSliceMut;
use std::sync::Arc;

use fdtable_shm::Mutex;

use super::ancillary::Ucred;
use super::in_flight::{Flights, InFlight};
use crate::Errno;
use crate::event::{self, Events, Limit, WaitQueue, Wakeups};

/// Purpose of a look into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Take out the data.
    Take,
    /// Leave the data in the queue (`MSG_PEEK`).
    Peek,
}

/// Description of one read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) look: Look,
    /// Where a look without taking begins, if the socket has an offset for it.
    /// In Linux: `SO_PEEK_OFF`.
    pub(crate) skip: Option<usize>,
    /// The sender of what was read before, by the same call.
    pub(crate) sender: Option<Ucred>,
}

impl Reading {
    pub(crate) fn new(look: Look) -> Self {
        Reading {
            look,
            skip: None,
            sender: None,
        }
    }
}

/// State of a queue that may contain files in flight.
pub(crate) trait Carrier {
    /// Result of a read.
    type Found;

    /// Returns the wait queue of the readers.
    fn readers(&mut self) -> &mut WaitQueue;

    /// Returns true if there is nothing to read now, and more may follow.
    fn read_must_wait(&self, reading: Reading) -> bool;

    /// Returns the registry of the files that the next read may reach, if there are any.
    fn registry(&self, reading: Reading) -> Option<Arc<InFlight>>;

    /// Performs one read. `flights` is the locked registry that [`registry`](Self::registry)
    /// returned, or `None` if it returned none.
    ///
    /// # Errors
    /// The error that the reader gets instead of data.
    fn take(
        &mut self,
        bufs: &mut [IoSliceMut<'_>],
        reading: Reading,
        flights: Option<&mut Flights>,
        wakeups: &mut Wakeups,
    ) -> Result<Self::Found, Errno>;
}

enum Attempt<F> {
    Done(F),
    /// The read reaches files of this registry.
    Registry(Arc<InFlight>),
}

/// Reads data with the files that it carries. Blocks while there is nothing to read.
///
/// # Errors
/// `EAGAIN` if the wait ends; those of [`Carrier::take`].
pub(crate) fn receive<C: Carrier>(
    state: &Mutex<C>,
    bufs: &mut [IoSliceMut<'_>],
    reading: Reading,
    policy: Limit,
) -> Result<C::Found, Errno> {
    // Declared first, so it is dropped after the locks are released.
    let mut wakeups = Wakeups::default();
    loop {
        let attempt = event::wait(state, C::readers, Events::IN, policy, |state| {
            if state.read_must_wait(reading) {
                return None;
            }
            if let Some(registry) = state.registry(reading) {
                return Some(Ok(Attempt::Registry(registry)));
            }
            Some(
                state
                    .take(bufs, reading, None, &mut wakeups)
                    .map(Attempt::Done),
            )
        })?;
        match attempt {
            Attempt::Done(found) => return Ok(found),
            Attempt::Registry(registry) => {
                let mut flights = registry.lock();
                let mut state = state.lock();
                let other = |now: Arc<InFlight>| !Arc::ptr_eq(&now, &registry);
                if state.read_must_wait(reading) || state.registry(reading).is_some_and(other) {
                    continue;
                }
                return state.take(bufs, reading, Some(&mut *flights), &mut wakeups);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    //! The failure that this test detects: a file is removed from a registry that never counted it,
    //! and stays in its own.

    use std::thread;

    use fdtable::FileRef;

    use super::super::ancillary::Ancillary;
    use super::*;
    use crate::RcuObject;
    use crate::event::{EventFd, EventFdFlags};

    fn enclosing_one(registry: &Arc<InFlight>) -> Ancillary {
        let file = EventFd::new(0, EventFdFlags::empty()).expect("a good count");
        let file: FileRef<RcuObject> = FileRef::new_dyn_rcu(file, |file| file);
        Ancillary {
            rights: Some(registry.launch(vec![file], 1).expect("below the limit")),
            ..Ancillary::default()
        }
    }

    /// Between the first look of a read and its lock of the registry, another read takes the files.
    /// The next files belong to another registry.
    pub(crate) fn a_read_lands_each_file_where_it_is_counted<C: Carrier + Send>(
        queue: &Mutex<C>,
        put: impl Fn(Ancillary),
    ) {
        let [first, second] = [(); 2].map(|()| Arc::<InFlight>::default());
        put(enclosing_one(&first));
        put(enclosing_one(&second));
        let taking = Reading::new(Look::Take);
        let holders = Arc::strong_count(&first);
        let read = || {
            let mut byte = [0];
            let bufs = &mut [IoSliceMut::new(&mut byte)];
            receive(queue, bufs, taking, Limit::NOW).map(drop)
        };
        thread::scope(|scope| {
            let mut flights = first.lock();
            let reading = scope.spawn(read);
            // A reader that holds a reference to the registry has looked, and waits for the lock.
            while Arc::strong_count(&first) == holders {
                thread::yield_now();
            }
            let mut byte = [0];
            let bufs = &mut [IoSliceMut::new(&mut byte)];
            let mut wakeups = Wakeups::default();
            let taken = queue
                .lock()
                .take(bufs, taking, Some(&mut flights), &mut wakeups);
            drop(flights);
            assert!(taken.is_ok(), "the first message is there");
            assert_eq!(reading.join().expect("no panic"), Ok(()), "and the second");
        });
        assert_eq!((first.files(), second.files()), (0, 0));
    }
}
