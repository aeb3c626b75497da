//! The search for a legal order of a history.
//!
//! It is that of Wing and Gong, with Lowe's memory. Every thread has a next step. It may come next
//! if no operation that is under way or to come ended before its own began: real time is respected.
//! The search makes one of the possible steps that are legal in the state, and continues from
//! there; if that fails, it tries the next one. A position (how far each thread is, which file it
//! has found, and the state) that has failed is not searched again, so that a history of a few
//! threads is searched in a time that grows with its length.

use std::collections::HashSet;
use std::fmt::Write;

use crate::specification::{File, Operation, State, Step};

/// An operation of one thread, and when it was called and answered: ticks of one clock for all
/// threads.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) operation: Operation,
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

/// The operations of each thread, in their order.
pub(crate) type History = Vec<Vec<Event>>;

/// Looks for an order of the steps that is legal from `start` on and respects real time.
///
/// # Errors
/// If there is none: the history, and the longest part of an order that is legal, in words.
pub(crate) fn check(start: &State, history: &History) -> Result<(), String> {
    let mut search = Search {
        threads: history.iter().map(|events| moments(events)).collect(),
        seen: HashSet::new(),
        order: Vec::new(),
        longest: Vec::new(),
    };
    let position = Position {
        done: vec![0; history.len()],
        found: vec![None; history.len()],
        state: start.clone(),
    };
    if search.reaches_end(&position) {
        Ok(())
    } else {
        Err(search.refusal(start, history))
    }
}

/// One moment of an operation.
struct Moment {
    steps: Vec<Step>,
    /// Of the operation.
    began: u64,
    ended: u64,
}

fn moments(events: &[Event]) -> Vec<Moment> {
    let moments = |event: &Event| {
        let (began, ended) = (event.began, event.ended);
        let steps = event.operation.steps().into_iter();
        let moment = move |steps| Moment {
            steps,
            began,
            ended,
        };
        steps.map(moment)
    };
    events.iter().flat_map(moments).collect()
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Position {
    /// How many moments of each thread have been.
    done: Vec<usize>,
    /// The file that the operation of each thread has found.
    found: Vec<Option<File>>,
    state: State,
}

struct Search {
    threads: Vec<Vec<Moment>>,
    seen: HashSet<Position>,
    /// The order so far: a thread and which moment of it.
    order: Vec<(usize, usize)>,
    longest: Vec<(usize, usize)>,
}

impl Search {
    fn reaches_end(&mut self, position: &Position) -> bool {
        if self.order.len() > self.longest.len() {
            self.longest.clone_from(&self.order);
        }
        let ends = |(done, thread): (&usize, &Vec<Moment>)| *done == thread.len();
        if position.done.iter().zip(&self.threads).all(ends) {
            return true;
        }
        let known = !self.seen.insert(position.clone());
        !known && (0..self.threads.len()).any(|thread| self.leads_to_end(position, thread))
    }

    /// Goes on with the next moment of a thread.
    fn leads_to_end(&mut self, from: &Position, thread: usize) -> bool {
        let place = from.done[thread];
        let Some(next) = self.threads[thread].get(place) else {
            return false;
        };
        if self.first_to_end(from) < next.began {
            return false;
        }
        let mut position = from.clone();
        let (state, found) = (&mut position.state, &mut position.found[thread]);
        if !next.steps.iter().all(|step| state.make(step, found)) {
            return false;
        }
        position.done[thread] += 1;
        self.order.push((thread, place));
        let reached = self.reaches_end(&position);
        self.order.pop();
        reached
    }

    /// The first end among the operations that are under way or to come.
    fn first_to_end(&self, position: &Position) -> u64 {
        let threads = self.threads.iter().zip(&position.done);
        let ends = threads.filter_map(|(thread, &done)| Some(thread.get(done)?.ended));
        ends.min().unwrap_or(u64::MAX)
    }

    fn refusal(&self, start: &State, history: &History) -> String {
        let mut text = format!("no legal order from {start:?}\n");
        for (thread, events) in history.iter().enumerate() {
            for event in events {
                let (began, ended) = (event.began, event.ended);
                let _ = writeln!(
                    text,
                    "thread {thread}, {began} to {ended}: {:?}",
                    event.operation
                );
            }
        }
        text.push_str("an order that is legal as far as it goes:\n");
        for &(thread, moment) in &self.longest {
            let _ = writeln!(
                text,
                "thread {thread}: {:?}",
                self.threads[thread][moment].steps
            );
        }
        text
    }
}
