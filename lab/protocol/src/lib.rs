//! A model of how the supervisor follows a process that forks and is killed, for each order of
//! steps.
//!
//! It has the algorithm of `kernel/posix/src/process/supervisor/tracees.rs` and what Linux does for
//! a tracer. A *maker* with two threads makes calls, forks one *child*, and is killed from outside
//! at any step. The supervisor's tracing thread takes one report of the host after another; its
//! other thread reaps.
//!
//! # The host
//!
//! - A thread stops for the event of a fork, for a signal, and at its end if it is killed. A report
//!   waits until the tracer takes it. A kill moves a stopped thread on to its end.
//! - `PTRACE_CONT` lets a thread go on from the stop in which it is, whichever that is: also from
//!   that at its end, if the kill came since the report.
//! - A child stops before it runs.
//! - The end of a leader is reported after all other threads of the process have ended.
//! - A thread that is killed in a fork may have made the child, and reports no event.
//!
//! # What is promised
//!
//! - A process is reaped when no thread of it runs, and its calls are complete. The exception is a
//!   call that a signal has interrupted, whose thread was killed while the tracer let it go on.
//! - A child that exists keeps its entry, and one that was only prepared loses it with its maker.
//! - From each state, all ends are seen: the maker is reaped, and the child runs.

pub mod lock;

use stateright::{Model, Property};

/// Algorithm of the supervisor, whole or without one of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Whole,
    /// Does not look whether a thread that has stopped is at its end by now.
    WithoutLook,
    /// Does not look for leaders that have ended unseen.
    WithoutLeaders,
    /// Reaps a maker without having seen what it has made.
    WithoutChildren,
}

/// Place of a thread of the maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thread {
    Runs,
    InCall,
    /// In the host's fork: an entry of the child is prepared.
    Forks,
    /// Stopped for the event of the fork.
    Forked,
    /// Stopped for a signal, in a call.
    Signalled,
    /// Killed, and held by the host at its end. It may be in a call, and in a fork that has
    /// made the child.
    AtEnd {
        in_call: bool,
        made: bool,
    },
    /// It has ended.
    Gone,
}

/// Place of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Child {
    None,
    /// It has an entry alone.
    Prepared,
    /// It exists, and has not run.
    Stopped,
    Runs,
}

/// Answer of the tracer to a thread that has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handling {
    /// Took the report.
    Taken(Thread),
    /// Has looked, and is about to let it go on.
    LetsGo(Thread),
}

/// Request of the tracer to the other thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    Born,
    Reap,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    threads: [Thread; 2],
    /// The host has something to report about the thread.
    reports: [bool; 2],
    is_killed: bool,
    child: Child,
    child_reports: bool,
    /// True for the entries that are in the tree, and for a child's entry that has an id.
    has_maker: bool,
    has_child: bool,
    child_has_id: bool,
    handling: Option<(usize, Handling)>,
    /// Knowledge of the tracer: the threads that it holds, and those that have ended; whether the
    /// maker has made the child; whether the child was seen.
    held: [bool; 2],
    known_gone: [bool; 2],
    knows_made: bool,
    has_seen_child: bool,
    is_settled: bool,
    /// A completion process works.
    is_completing: bool,
    jobs: Vec<Job>,
    /// A call was left incomplete, and whether its thread had got a signal.
    is_incomplete: bool,
    was_signalled: bool,
    /// A fault: an entry was freed whose process exists, or reaped whose threads run.
    is_wrong: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    EnterCall(usize),
    LeaveCall(usize),
    Signal(usize),
    /// The first thread prepares the child, and makes it: with a report, or killed meanwhile
    /// without.
    Prepare,
    Fork,
    ForkUnreported,
    NoteId,
    Kill,
    /// A killed thread comes to its end.
    End(usize),
    Take(usize),
    Look(usize),
    LetGo(usize),
    TakeChild,
    TakeGone(usize),
    LookForLeaders,
    CompletionEnds,
    Work,
}

impl Model for Algorithm {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            threads: [Thread::Runs; 2],
            reports: [false; 2],
            is_killed: false,
            child: Child::None,
            child_reports: false,
            has_maker: true,
            has_child: false,
            child_has_id: false,
            handling: None,
            held: [false; 2],
            known_gone: [false; 2],
            knows_made: false,
            has_seen_child: false,
            is_settled: false,
            is_completing: false,
            jobs: Vec::new(),
            is_incomplete: false,
            was_signalled: false,
            is_wrong: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for thread in 0..2 {
            match state.threads[thread] {
                Thread::Runs => {
                    steps.push(Step::EnterCall(thread));
                    if thread == 0 && state.child == Child::None {
                        steps.push(Step::Prepare);
                    }
                }
                Thread::InCall => {
                    steps.push(Step::LeaveCall(thread));
                    steps.push(Step::Signal(thread));
                }
                Thread::Forks => {
                    steps.push(Step::Fork);
                    if state.is_killed {
                        steps.push(Step::ForkUnreported);
                    }
                }
                _ => {}
            }
            let ends = matches!(state.threads[thread], Thread::AtEnd { .. } | Thread::Gone);
            if state.is_killed && !ends {
                steps.push(Step::End(thread));
            }
            // One report after the other.
            if state.handling.is_none() && state.reports[thread] {
                let is_gone = state.threads[thread] == Thread::Gone;
                // Of a leader, the end is told last.
                let is_told = thread != 0 || state.threads[1] == Thread::Gone;
                match is_gone {
                    true if is_told => steps.push(Step::TakeGone(thread)),
                    true => {}
                    false => steps.push(Step::Take(thread)),
                }
            }
        }
        match state.handling {
            Some((thread, Handling::Taken(_))) => steps.push(Step::Look(thread)),
            Some((thread, Handling::LetsGo(_))) => steps.push(Step::LetGo(thread)),
            None => {
                if state.child_reports {
                    steps.push(Step::TakeChild);
                }
                if *self != Self::WithoutLeaders && self.misses_leader(state) {
                    steps.push(Step::LookForLeaders);
                }
            }
        }
        if !state.is_killed {
            steps.push(Step::Kill);
        }
        let made = state.child != Child::None && state.child != Child::Prepared;
        if state.threads[0] == Thread::Runs && made && !state.child_has_id {
            steps.push(Step::NoteId);
        }
        if state.is_completing {
            steps.push(Step::CompletionEnds);
        }
        if !state.jobs.is_empty() {
            steps.push(Step::Work);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::EnterCall(thread) => state.threads[thread] = Thread::InCall,
            Step::LeaveCall(thread) => state.threads[thread] = Thread::Runs,
            Step::Signal(thread) => {
                state.threads[thread] = Thread::Signalled;
                state.reports[thread] = true;
            }
            Step::Prepare => {
                state.threads[0] = Thread::Forks;
                state.child = Child::Prepared;
                state.has_child = true;
            }
            Step::Fork => {
                state.threads[0] = Thread::Forked;
                state.reports[0] = true;
                state.make_child();
            }
            Step::ForkUnreported => {
                state.threads[0] = Thread::AtEnd {
                    in_call: false,
                    made: true,
                };
                state.reports[0] = true;
                state.make_child();
            }
            Step::NoteId => state.child_has_id |= state.has_child,
            Step::Kill => state.is_killed = true,
            Step::End(thread) => state.end(thread),
            Step::Take(thread) => {
                state.reports[thread] = false;
                match state.threads[thread] {
                    Thread::AtEnd { made, .. } => {
                        state.held[thread] = true;
                        state.knows_made |= made;
                    }
                    stop => state.handling = Some((thread, Handling::Taken(stop))),
                }
            }
            Step::Look(thread) => {
                let Some((_, Handling::Taken(stop))) = state.handling else {
                    return None;
                };
                let is_at_end = state.threads[thread] != stop;
                // The event of a fork has its message while the thread is in it.
                state.knows_made |= stop == Thread::Forked && !is_at_end;
                state.handling = match is_at_end && *self != Self::WithoutLook {
                    true => None,
                    false => Some((thread, Handling::LetsGo(stop))),
                };
            }
            Step::LetGo(thread) => {
                let Some((_, Handling::LetsGo(stop))) = state.handling.take() else {
                    return None;
                };
                match state.threads[thread] {
                    Thread::Forked => state.threads[thread] = Thread::Runs,
                    Thread::Signalled => state.threads[thread] = Thread::InCall,
                    Thread::AtEnd { in_call, .. } => {
                        state.threads[thread] = Thread::Gone;
                        state.reports[thread] = true;
                        state.is_incomplete |= in_call;
                        state.was_signalled |= stop == Thread::Signalled;
                    }
                    _ => {}
                }
            }
            Step::TakeChild => {
                state.child_reports = false;
                state.has_seen_child = true;
                state.child = Child::Runs;
            }
            Step::TakeGone(thread) => {
                state.reports[thread] = false;
                state.known_gone[thread] = true;
            }
            Step::LookForLeaders => {
                state.reports[0] = false;
                state.known_gone[0] = true;
            }
            Step::CompletionEnds => {
                state.is_completing = false;
                state.reap();
            }
            Step::Work => match state.jobs.remove(0) {
                Job::Born => state.child_has_id |= state.has_child,
                Job::Reap => {
                    let run =
                        |thread: &Thread| !matches!(thread, Thread::AtEnd { .. } | Thread::Gone);
                    state.is_wrong |= state.threads.iter().any(run) || state.is_completing;
                    state.has_maker = false;
                    if state.has_child && !state.child_has_id {
                        // A child that was only prepared.
                        state.is_wrong |= state.child != Child::Prepared;
                        state.has_child = false;
                    }
                    // The host lets its threads end.
                    state.threads = [Thread::Gone; 2];
                    state.reports = [false; 2];
                }
            },
        }
        self.settle(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("each reaping is right", |_, state: &State| !state.is_wrong),
            Property::always("calls are completed", |_, state: &State| {
                !state.is_incomplete || state.was_signalled
            }),
            Property::always("all ends are seen", |model: &Self, state: &State| {
                let mut steps = Vec::new();
                model.actions(state, &mut steps);
                let is_over = !state.has_maker
                    && (state.child == Child::Runs) == state.has_child
                    && state.child != Child::Stopped;
                !steps.is_empty() || is_over
            }),
            // Without these states the others would hold trivially.
            Property::sometimes("a completion process", |_, state: &State| state.is_completing),
            Property::sometimes("an end that is not seen", |_, state: &State| {
                state.known_gone[0] && state.has_maker
            }),
            Property::sometimes("a child that was only prepared", |_, state: &State| {
                !state.has_maker && !state.has_child && state.child == Child::Prepared
            }),
            Property::sometimes("a child of a dead maker", |_, state: &State| {
                !state.has_maker && state.has_child && state.child == Child::Runs
            }),
        ]
    }
}

impl Algorithm {
    /// Returns true if the leader has ended, and the host does not tell it.
    fn misses_leader(self, state: &State) -> bool {
        state.threads[0] == Thread::Gone && !state.known_gone[0] && state.held[1]
    }

    /// Steps that the tracer takes as soon as it can: `settle` and `finish`.
    fn settle(self, state: &mut State) {
        let is_done = |thread: usize| state.held[thread] || state.known_gone[thread];
        let has_unseen = state.knows_made && !state.has_seen_child;
        let waits = has_unseen && self != Self::WithoutChildren;
        if state.is_settled || state.handling.is_some() || !is_done(0) || !is_done(1) || waits {
            return;
        }
        state.is_settled = true;
        let in_call = |thread: usize| {
            state.held[thread]
                && matches!(state.threads[thread], Thread::AtEnd { in_call: true, .. })
        };
        match in_call(0) || in_call(1) {
            true => state.is_completing = true,
            false => state.reap(),
        }
    }
}

impl State {
    fn make_child(&mut self) {
        self.child = Child::Stopped;
        self.child_reports = true;
    }

    /// A killed thread comes to its end, from wherever it is.
    fn end(&mut self, thread: usize) {
        let before = self.threads[thread];
        let in_call = matches!(before, Thread::InCall | Thread::Signalled);
        // Its registers tell what it has made as long as it is in the fork.
        let made = before == Thread::Forked;
        self.threads[thread] = Thread::AtEnd { in_call, made };
        self.reports[thread] = true;
    }

    /// The tracer has the maker reaped.
    fn reap(&mut self) {
        if self.knows_made && self.has_seen_child {
            self.jobs.push(Job::Born);
        }
        self.jobs.push(Job::Reap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stateright::Checker;

    fn check(algorithm: Algorithm) -> impl Checker<Algorithm> {
        algorithm.checker().spawn_bfs().join()
    }

    #[test]
    fn all_ends_are_followed() {
        let checker = check(Algorithm::Whole);
        println!("{} states", checker.unique_state_count());
        checker.assert_properties();
    }

    #[test]
    fn each_part_is_needed() {
        for (algorithm, property) in [
            (Algorithm::WithoutLook, "each reaping is right"),
            (Algorithm::WithoutLeaders, "all ends are seen"),
            (Algorithm::WithoutChildren, "each reaping is right"),
        ] {
            let checker = check(algorithm);
            checker.assert_any_discovery(property);
        }
    }
}
