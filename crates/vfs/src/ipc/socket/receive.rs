//! How a read takes something out of a queue in which files may be on their way.
//!
//! A collection must see each file either in a queue or with its receiver. So a read that reaches
//! files holds the lock of their [registry](InFlight) while it takes them out of the queue.
//!
//! That lock comes before the queue's, and only the queue tells which registry it is. So the read looks
//! twice. The first look, under the queue's lock alone, finds the registry; a read that reaches no files
//! is done then. The second look, under both locks, decides. Between the two another thread may have
//! taken those files out, and the next ones may be counted in another registry: sockets of two kernels
//! can send into one queue, where the kernels share a file system in which the receiver has a name. Then
//! the read begins again.

use std::io::IoSliceMut;
use std::sync::Arc;

use parking_lot::Mutex;

use super::in_flight::{Flights, InFlight};
use crate::Errno;
use crate::event::{Events, WaitQueue, Wakeups};
use crate::ipc::wait_policy::WaitPolicy;

/// What a look into a queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// To take out what is found.
    Take,
    /// To leave it there (`MSG_PEEK`).
    Peek,
}

/// State of a queue in which files may be on their way.
pub(crate) trait Carrier {
    /// What a read finds.
    type Found;

    /// Returns where the readers sleep.
    fn readers(&mut self) -> &mut WaitQueue;

    /// Returns true if a read would find nothing, and something may come yet.
    fn read_must_wait(&self) -> bool;

    /// Returns the registry of the files that the next read may reach, if there are any.
    fn registry(&self) -> Option<Arc<InFlight>>;

    /// Reads what one call may. `flights` is the registry that [`registry`](Self::registry) returns,
    /// locked; none if it returns none.
    ///
    /// # Errors
    /// What the reader finds instead of data.
    fn take(
        &mut self,
        bufs: &mut [IoSliceMut<'_>],
        look: Look,
        flights: Option<&mut Flights>,
        wakeups: &mut Wakeups,
    ) -> Result<Self::Found, Errno>;
}

enum Attempt<F> {
    Done(F),
    /// The read reaches files, which are counted here.
    Registry(Arc<InFlight>),
}

/// Reads, with the files that what is read carries. Waits while there is nothing.
///
/// # Errors
/// `EAGAIN` if the policy ends; those of [`Carrier::take`].
pub(crate) fn receive<C: Carrier>(
    state: &Mutex<C>,
    bufs: &mut [IoSliceMut<'_>],
    look: Look,
    policy: WaitPolicy,
) -> Result<C::Found, Errno> {
    // Dropped after the locks.
    let mut wakeups = Wakeups::default();
    loop {
        let attempt = policy.wait(state, C::readers, Events::IN, |state| {
            if state.read_must_wait() {
                return None;
            }
            if let Some(registry) = state.registry() {
                return Some(Ok(Attempt::Registry(registry)));
            }
            Some(
                state
                    .take(bufs, look, None, &mut wakeups)
                    .map(Attempt::Done),
            )
        })?;
        match attempt {
            Attempt::Done(found) => return Ok(found),
            Attempt::Registry(registry) => {
                let mut flights = registry.lock();
                let mut state = state.lock();
                let other = |now: Arc<InFlight>| !Arc::ptr_eq(&now, &registry);
                if state.read_must_wait() || state.registry().is_some_and(other) {
                    continue;
                }
                return state.take(bufs, look, Some(&mut *flights), &mut wakeups);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    //! What breaks if this is wrong: a file is counted off in a registry that never counted it, and
    //! stays in its own.

    use std::thread;

    use fdtable::FileRef;

    use super::super::ancillary::Ancillary;
    use super::*;
    use crate::Object;
    use crate::event::{EventFd, EventFdFlags};

    fn enclosing_one(registry: &Arc<InFlight>) -> Ancillary {
        let file = EventFd::new(0, EventFdFlags::empty()).expect("a good count");
        let file: FileRef<dyn Object> = FileRef::coerced(file, |file| file);
        Ancillary {
            rights: Some(registry.launch(vec![file], 1).expect("below the limit")),
            credentials: None,
        }
    }

    /// A read finds files of one registry, and before it has that lock another read takes them: then
    /// files of another registry are next.
    pub(crate) fn a_read_lands_each_file_where_it_is_counted<C: Carrier + Send>(
        queue: &Mutex<C>,
        put: impl Fn(Ancillary),
    ) {
        let [first, second] = [(); 2].map(|()| Arc::<InFlight>::default());
        put(enclosing_one(&first));
        put(enclosing_one(&second));
        let holders = Arc::strong_count(&first);
        let read = || {
            let mut byte = [0];
            let bufs = &mut [IoSliceMut::new(&mut byte)];
            receive(queue, bufs, Look::Take, WaitPolicy::NoWait).map(drop)
        };
        thread::scope(|scope| {
            let mut flights = first.lock();
            let reading = scope.spawn(read);
            // It has looked when it holds the registry, for the lock of which it waits then.
            while Arc::strong_count(&first) == holders {
                thread::yield_now();
            }
            let mut byte = [0];
            let bufs = &mut [IoSliceMut::new(&mut byte)];
            let mut wakeups = Wakeups::default();
            let taken = queue
                .lock()
                .take(bufs, Look::Take, Some(&mut flights), &mut wakeups);
            drop(flights);
            assert!(taken.is_ok(), "the first message is there");
            assert_eq!(reading.join().expect("no panic"), Ok(()), "and the second");
        });
        assert_eq!((first.files(), second.files()), (0, 0));
    }
}
