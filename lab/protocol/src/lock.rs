//! A model of the mutex of `crates/sync/src/platform/sleeping.rs`, for each order of steps of three
//! threads.
//!
//! Each thread takes the lock some times. The times after which a thread wakes by itself are left
//! out, and so are those for which stores are invisible: a thread that sleeps needs a wake-up.

use stateright::{Model, Property};

/// Algorithm of the lock, as it is or with a part changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    Whole,
    /// A thread sleeps on the word of the owner, not on the mark.
    SleepsOnOwner,
    /// A thread that was woken does not set the mark again.
    MarksOnce,
}

const THREADS: usize = 3;
/// How often each thread takes the lock.
const TURNS: u8 = 2;

/// Next step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Looks whether the lock is free, before it has set the mark.
    Look,
    Mark,
    LastLook,
    /// Loads the owner.
    Load,
    /// Sleeps, if that is still the owner or the mark is set.
    Sleep(usize),
    Asleep,
    /// Has the lock.
    Unlock,
    LoadMark,
    SwapMark,
    Wake,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    threads: [At; THREADS],
    turns: [u8; THREADS],
    /// The number of the thread, from 1.
    owner: usize,
    mark: bool,
}

/// A thread takes a step; one that wakes another chooses which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Go(usize),
    Wake(usize, usize),
}

impl Lock {
    fn after_sleep(self) -> At {
        match self {
            Lock::MarksOnce => At::LastLook,
            Lock::Whole | Lock::SleepsOnOwner => At::Mark,
        }
    }

    fn go(self, state: &mut State, thread: usize) {
        let own = thread + 1;
        state.threads[thread] = match state.threads[thread] {
            at @ (At::Look | At::LastLook) if state.owner != 0 => match at {
                At::Look => At::Mark,
                _ => At::Load,
            },
            At::Look | At::LastLook => {
                state.owner = own;
                At::Unlock
            }
            At::Mark => {
                state.mark = true;
                At::LastLook
            }
            At::Load if state.owner == 0 => At::Mark,
            At::Load => At::Sleep(state.owner),
            At::Sleep(owner) => {
                let is_same = match self {
                    Lock::SleepsOnOwner => state.owner == owner,
                    Lock::Whole | Lock::MarksOnce => state.mark,
                };
                if is_same { At::Asleep } else { At::Mark }
            }
            At::Unlock => {
                state.owner = 0;
                At::LoadMark
            }
            At::LoadMark if state.mark => At::SwapMark,
            At::SwapMark if state.mark => {
                state.mark = false;
                At::Wake
            }
            At::LoadMark | At::SwapMark | At::Wake => {
                state.turns[thread] -= 1;
                match state.turns[thread] {
                    0 => At::Done,
                    _ => At::Look,
                }
            }
            at @ (At::Asleep | At::Done) => at,
        };
    }
}

impl Model for Lock {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            threads: [At::Look; THREADS],
            turns: [TURNS; THREADS],
            owner: 0,
            mark: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (thread, at) in state.threads.iter().enumerate() {
            match at {
                At::Asleep | At::Done => {}
                At::Wake => {
                    let asleep = (0..THREADS).filter(|&other| state.threads[other] == At::Asleep);
                    let before = steps.len();
                    steps.extend(asleep.map(|other| Step::Wake(thread, other)));
                    if steps.len() == before {
                        steps.push(Step::Go(thread));
                    }
                }
                _ => steps.push(Step::Go(thread)),
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Go(thread) => self.go(&mut next, thread),
            Step::Wake(thread, other) => {
                next.threads[other] = self.after_sleep();
                self.go(&mut next, thread);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let one_owner = |_: &Lock, state: &State| {
            let holders = state.threads.iter().filter(|&&at| at == At::Unlock);
            holders.count() <= 1
        };
        let is_woken = |_: &Lock, state: &State| {
            let rests = |at: &At| matches!(at, At::Asleep | At::Done);
            !state.threads.contains(&At::Asleep) || !state.threads.iter().all(rests)
        };
        vec![
            Property::always("one thread has the lock", one_owner),
            Property::always("a thread that sleeps is woken", is_woken),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stateright::Checker;

    #[test]
    fn each_sleeper_is_woken() {
        let checker = Lock::Whole.checker().spawn_bfs().join();
        println!("{} states", checker.unique_state_count());
        checker.assert_properties();
    }

    #[test]
    fn each_part_is_needed() {
        for lock in [Lock::SleepsOnOwner, Lock::MarksOnce] {
            let checker = lock.checker().spawn_bfs().join();
            let found = checker.discovery("a thread that sleeps is woken");
            assert!(found.is_some(), "{lock:?}");
        }
    }
}
