//! The check of one round.
//!
//! A *step* is the effect of a call at one moment, and is known to be after one stamp and before
//! another. Both are narrowed, in turns, until nothing changes or a step has no moment left:
//!
//! 1. *By order.* The steps that take and free one descriptor alternate. Each is after the one
//!    before it, and before the one after it.
//! 2. *By sightings.* A descriptor that was found closed had been freed by then. Only the close is
//!    narrowed: a descriptor is taken a moment before a lookup finds it open.
//! 3. *By promise.* A step that took the lowest descriptor was not at a moment at which a lower one
//!    was certainly free.
//!
//! Each rule is true of every legal history, so a step without a moment is a violation. It is
//! counted where it is found, and nothing is concluded from a history that is refused.

use crate::free_set::FreeSet;
use crate::journal::{Deed, Event, HasFile, Journal, Number};

/// The judge stops narrowing after that many turns.
const TURNS: usize = 2;

/// A table before a round, and the parameters of its calls.
pub(crate) struct Start {
    /// The descriptors below it are open, the others are free.
    pub(crate) open: Number,
    pub(crate) limit: Number,
    /// Every `min` that a call requests a descriptor from, also 0.
    pub(crate) mins: Vec<Number>,
}

/// The result of one or more rounds.
#[derive(Default)]
pub(crate) struct Verdict {
    /// How many calls promised the lowest descriptor, or were refused one.
    pub(crate) judged: u64,
    /// How many of them broke the promise.
    pub(crate) violations: u64,
    /// The first of these.
    pub(crate) examples: Vec<String>,
}

impl Verdict {
    const EXAMPLES: usize = 5;

    fn refuse(&mut self, reason: impl FnOnce() -> String) {
        self.violations += 1;
        if self.examples.len() < Self::EXAMPLES {
            self.examples.push(reason());
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.judged += other.judged;
        self.violations += other.violations;
        let room = Self::EXAMPLES - self.examples.len();
        self.examples.extend(other.examples.into_iter().take(room));
    }
}

/// The bounds of a step's moment: it is after the one stamp and before the other.
#[derive(Clone, Copy, Debug)]
struct Moment {
    after: u64,
    before: u64,
}

/// A step that takes or frees a descriptor.
#[derive(Clone, Copy)]
struct Change {
    number: Number,
    takes: bool,
    /// Orders the steps that take a descriptor, and those that free it.
    key: u64,
    step: usize,
}

/// Checks the journals of a round.
pub(crate) fn judge(start: &Start, journals: &[Journal]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut case = Case::new(start, journals, &mut verdict);
    case.check_limits(&mut verdict);
    for _ in 0..TURNS {
        if verdict.violations > 0 {
            break;
        }
        case.narrow_by_sightings(&mut verdict);
        case.narrow_by_order();
        case.look_for_steps_without_a_moment(&mut verdict);
        if verdict.violations > 0 || !case.narrow_by_promise(&mut verdict) {
            break;
        }
    }
    verdict.judged = case.promises().count() as u64;
    verdict
}

struct Case<'j> {
    start: &'j Start,
    journals: &'j [Journal],
    /// The thread and the event of each step.
    steps: Vec<(usize, &'j Event)>,
    moments: Vec<Moment>,
    /// The changes of each descriptor one after the other, and by descriptor.
    changes: Vec<Change>,
    /// When the limit was set, and to what.
    limits: Vec<(usize, Number)>,
}

impl<'j> Case<'j> {
    fn new(start: &'j Start, journals: &'j [Journal], verdict: &mut Verdict) -> Self {
        let of_thread = |(thread, journal): (usize, &'j Journal)| {
            journal.events.iter().map(move |it| (thread, it))
        };
        let steps: Vec<_> = journals.iter().enumerate().flat_map(of_thread).collect();
        let moment = |&(_, event): &(usize, &Event)| Moment {
            after: event.start,
            before: event.end,
        };
        let mut case = Self {
            start,
            journals,
            moments: steps.iter().map(moment).collect(),
            steps,
            changes: Vec::new(),
            limits: Vec::new(),
        };
        case.collect(verdict);
        case
    }

    /// Finds the changes of each descriptor, and of the limit.
    fn collect(&mut self, verdict: &mut Verdict) {
        let mut changes = Vec::new();
        for (step, &(thread, event)) in self.steps.iter().enumerate() {
            let (takes, key) = match event.deed {
                // The thread that took it has returned before any thread can free it.
                Deed::TookLowest { .. } | Deed::TookAny { .. } => (true, event.end),
                // The thread that frees it has taken it before.
                Deed::Freed => (false, event.start),
                Deed::SetLimit(limit) => {
                    self.limits.push((step, limit));
                    continue;
                }
                Deed::Refused { .. } | Deed::FoundClosed => continue,
            };
            let numbers = self.journals[thread].numbers(event).iter();
            changes.extend(numbers.map(|&number| Change {
                number,
                takes,
                key,
                step,
            }));
        }
        changes.sort_unstable_by_key(|change| (change.number, change.takes, change.key));
        self.changes.reserve(changes.len());
        for of_number in changes.chunk_by(|one, other| one.number == other.number) {
            let number = of_number[0].number;
            let (frees, takes) =
                of_number.split_at(of_number.partition_point(|change| !change.takes));
            let (first, second) = if self.is_open_first(number) {
                (frees, takes)
            } else {
                (takes, frees)
            };
            if !matches!(first.len().wrapping_sub(second.len()), 0 | 1) {
                let counts = (takes.len(), frees.len());
                verdict.refuse(|| format!("{number} was taken and freed so often: {counts:?}"));
                continue;
            }
            for (place, change) in first.iter().enumerate() {
                self.changes.push(*change);
                self.changes.extend(second.get(place));
            }
        }
    }

    fn is_open_first(&self, number: Number) -> bool {
        number < self.start.open
    }

    fn chains(&self) -> impl Iterator<Item = &[Change]> {
        self.changes
            .chunk_by(|one, other| one.number == other.number)
    }

    /// The changes of a descriptor in their order.
    fn chain(&self, number: Number) -> &[Change] {
        let first = self.changes.partition_point(|it| it.number < number);
        let length = self.changes[first..].partition_point(|it| it.number == number);
        &self.changes[first..first + length]
    }

    /// The steps that promise the lowest descriptor, or that there is none.
    fn promises(&self) -> impl Iterator<Item = usize> {
        let promises = |deed: &Deed| matches!(deed, Deed::TookLowest { .. } | Deed::Refused { .. });
        (0..self.steps.len()).filter(move |&step| promises(&self.steps[step].1.deed))
    }

    fn narrow_by_order(&mut self) {
        // A step that takes several descriptors applies the bounds of each of them to the others.
        let mut changed = true;
        while changed {
            changed = false;
            let (mut number, mut after) = (None, 0);
            for change in &self.changes {
                if number.replace(change.number) != Some(change.number) {
                    after = 0;
                }
                let moment = &mut self.moments[change.step];
                changed |= moment.after < after;
                moment.after = moment.after.max(after);
                after = moment.after;
            }
            let (mut number, mut before) = (None, u64::MAX);
            for change in self.changes.iter().rev() {
                if number.replace(change.number) != Some(change.number) {
                    before = u64::MAX;
                }
                let moment = &mut self.moments[change.step];
                changed |= moment.before > before;
                moment.before = moment.before.min(before);
                before = moment.before;
            }
        }
    }

    fn narrow_by_sightings(&mut self, verdict: &mut Verdict) {
        for step in 0..self.steps.len() {
            let (thread, event) = self.steps[step];
            if event.deed != Deed::FoundClosed {
                continue;
            }
            for &number in self.journals[thread].numbers(event) {
                match self.closes_seen(number, event)[..] {
                    [] => verdict.refuse(|| format!("{}: {number} is open", self.told(step))),
                    [Some(close)] => {
                        let before = &mut self.moments[close].before;
                        *before = event.end.min(*before);
                    }
                    // It is unknown which close it was.
                    _ => {}
                }
            }
        }
    }

    /// Returns the steps that closed a descriptor and that a sighting may have seen; nothing in
    /// their place where it was free from the beginning, or may have been reserved.
    fn closes_seen(&self, number: Number, sighting: &Event) -> Vec<Option<usize>> {
        let chain = self.chain(number);
        let is_reserved = |change: &Change| {
            matches!(
                self.steps[change.step].1.deed,
                Deed::TookLowest {
                    file: HasFile::Reserved,
                    ..
                } | Deed::TookAny {
                    file: HasFile::Reserved
                }
            )
        };
        if chain.iter().any(is_reserved) {
            return vec![None];
        }
        // Beginning of each time at which lookups may find it closed.
        let mut closed: Vec<_> = (!self.is_open_first(number))
            .then_some((None, 0))
            .into_iter()
            .collect();
        let frees = chain.iter().filter(|change| !change.takes);
        closed.extend(frees.map(|free| (Some(free.step), self.moments[free.step].after)));
        // It ends when the call that takes the descriptor has returned, at the latest.
        let takes = chain.iter().filter(|change| change.takes);
        let ends = takes.map(|take| self.steps[take.step].1.end);
        let seen = closed.into_iter().zip(ends.chain([u64::MAX]));
        seen.filter(|&((_, begin), end)| begin < sighting.end && sighting.start < end)
            .map(|((close, _), _)| close)
            .collect()
    }

    fn look_for_steps_without_a_moment(&self, verdict: &mut Verdict) {
        for (step, moment) in self.moments.iter().enumerate() {
            if moment.after >= moment.before {
                verdict.refuse(|| format!("{}: no moment is left", self.told(step)));
            }
        }
    }

    /// Returns `true` if a moment was narrowed.
    fn narrow_by_promise(&mut self, verdict: &mut Verdict) -> bool {
        let sweep = Sweep::new(self);
        let mut changed = false;
        let promises: Vec<usize> = self.promises().collect();
        for step in promises {
            let moment = self.moments[step];
            let kept = self.kept_by(step, &sweep);
            let Some(narrowed) = sweep.narrow(moment, &kept) else {
                let lowest = sweep.lowest_at(moment.after);
                verdict.refuse(|| {
                    let free = self.told_free(lowest, moment.after);
                    format!("{}: {lowest} is free{free}", self.told(step))
                });
                continue;
            };
            changed |= narrowed.after > moment.after || narrowed.before < moment.before;
            self.moments[step] = narrowed;
        }
        changed
    }

    /// Returns the condition for the step to be possible during a part of the sweep.
    fn kept_by<'s>(&self, step: usize, sweep: &'s Sweep) -> impl Fn(usize) -> bool + use<'s> {
        let (thread, event) = self.steps[step];
        let (min, needed, count) = match event.deed {
            Deed::TookLowest { min, .. } => {
                let numbers = self.journals[thread].numbers(event).iter();
                (min, numbers.max().copied().unwrap_or(0), None)
            }
            Deed::Refused { count, min } => {
                let (limit, _) = self.limits_at(event);
                (min, limit, (count > 1).then_some(count))
            }
            deed => unreachable!("{deed:?} promises nothing"),
        };
        let min = self.start.mins.iter().position(|&it| it == min);
        let lowest = &sweep.lowest[min.expect("the round names it")];
        move |part| match count {
            None => lowest[part] >= needed,
            Some(count) => sweep.free[part] < count,
        }
    }

    /// Every taken descriptor is below a limit of its call.
    fn check_limits(&self, verdict: &mut Verdict) {
        for change in self.changes.iter().filter(|change| change.takes) {
            let (_, limit) = self.limits_at(self.steps[change.step].1);
            if change.number >= limit {
                verdict.refuse(|| format!("{}: the limit is {limit}", self.told(change.step)));
            }
        }
    }

    /// Returns the lowest and the highest limit that a call may have seen. It reads the limit at
    /// any time, not at the moment of its step.
    fn limits_at(&self, call: &Event) -> (Number, Number) {
        let begins = self
            .limits
            .iter()
            .map(|&(step, limit)| (self.moments[step].after, limit));
        let begins = [(0, self.start.limit)].into_iter().chain(begins);
        let ends = self
            .limits
            .iter()
            .map(|&(step, _)| self.moments[step].before);
        let possible = begins
            .zip(ends.chain([u64::MAX]))
            .filter(|&((begin, _), end)| begin < call.end && call.start < end)
            .map(|((_, limit), _)| limit);
        possible.fold((Number::MAX, 0), |(lowest, highest), limit| {
            (lowest.min(limit), highest.max(limit))
        })
    }

    /// The lowest limit of the round.
    fn lowest_limit(&self) -> Number {
        let limits = self.limits.iter().map(|&(_, limit)| limit);
        limits.fold(self.start.limit, Number::min)
    }

    /// Names the steps between which a descriptor is free at a time.
    fn told_free(&self, number: Number, time: u64) -> String {
        let chain = self.chain(number);
        let next = chain.partition_point(|change| self.moments[change.step].before <= time);
        let since = next
            .checked_sub(1)
            .map(|before| self.told(chain[before].step));
        let until = chain.get(next).map(|change| self.told(change.step));
        let since = since.map(|step| format!("\n  since {step}"));
        let until = until.map(|step| format!("\n  until {step}"));
        since.unwrap_or_default() + &until.unwrap_or_default()
    }

    fn told(&self, step: usize) -> String {
        let (thread, event) = self.steps[step];
        let numbers = self.journals[thread].numbers(event);
        let (deed, moment) = (event.deed, self.moments[step]);
        let stamps = (event.start, event.end);
        format!("thread {thread}, {stamps:?}, {deed:?} {numbers:?}, at {moment:?}")
    }
}

/// The certainly free descriptors, over time.
struct Sweep {
    /// Beginning of each part. The last one does not end.
    begins: Vec<u64>,
    /// The lowest descriptor that is certainly free in each part, from each `min` of the round on.
    lowest: Vec<Vec<Number>>,
    /// How many are below the lowest limit of the round.
    free: Vec<u32>,
}

impl Sweep {
    fn new(case: &Case<'_>) -> Self {
        let numbers: Vec<Number> = case.chains().map(|chain| chain[0].number).collect();
        let mins = &case.start.mins;
        // Descriptors that no call has changed are free all the time, or never.
        let unchanged = |min: Number| {
            let mut candidate = min.max(case.start.open);
            let from = numbers.partition_point(|&number| number < candidate);
            for &number in &numbers[from..] {
                if number != candidate {
                    break;
                }
                candidate += 1;
            }
            candidate
        };
        let unchanged: Vec<Number> = mins.iter().map(|&min| unchanged(min)).collect();
        let firsts: Vec<usize> = mins
            .iter()
            .map(|&min| numbers.partition_point(|&number| number < min))
            .collect();
        let limit = case.lowest_limit();
        let below_limit = numbers.partition_point(|&number| number < limit);
        let changed_above = below_limit
            - numbers
                .partition_point(|&it| it < case.start.open)
                .min(below_limit);
        let mut count = limit.saturating_sub(case.start.open) - changed_above as u32;

        let mut edges = case.edges();
        edges.sort_unstable();
        let mut sweep = Self {
            begins: Vec::with_capacity(edges.len()),
            lowest: vec![Vec::with_capacity(edges.len()); mins.len()],
            free: Vec::with_capacity(edges.len()),
        };
        let mut free = FreeSet::new(numbers.len());
        // There is a part from the beginning on.
        let begin = [(0, None)].into_iter();
        let edges = begin.chain(
            edges
                .into_iter()
                .map(|(time, place, becomes)| (time, Some((place, becomes)))),
        );
        for (time, change) in edges {
            if sweep.begins.last() != Some(&time) {
                sweep.begins.push(time);
                sweep.free.push(0);
                sweep.lowest.iter_mut().for_each(|lowest| lowest.push(0));
            }
            match change {
                Some((place, Becomes::Free)) => free.insert(place),
                Some((place, Becomes::Taken)) => free.remove(place),
                None => {}
            }
            match change {
                Some((place, Becomes::Free)) if place < below_limit => count += 1,
                Some((place, Becomes::Taken)) if place < below_limit => count -= 1,
                _ => {}
            }
            let part = sweep.begins.len() - 1;
            sweep.free[part] = count;
            for (min, lowest) in sweep.lowest.iter_mut().enumerate() {
                let found = free.next(firsts[min]).map(|place| numbers[place]);
                lowest[part] = found.unwrap_or(Number::MAX).min(unchanged[min]);
            }
        }
        sweep
    }

    fn lowest_at(&self, time: u64) -> Number {
        self.lowest[0][self.begins.partition_point(|&begin| begin <= time) - 1]
    }

    /// Cuts off the parts that are not `kept` at both ends. Returns nothing if nothing is left.
    fn narrow(&self, moment: Moment, kept: impl Fn(usize) -> bool) -> Option<Moment> {
        let first = self.begins.partition_point(|&begin| begin <= moment.after) - 1;
        let end = self.begins.partition_point(|&begin| begin < moment.before);
        let from = (first..end).find(|&part| kept(part))?;
        let to = (from..end).rev().find(|&part| kept(part))?;
        let ends = self.begins.get(to + 1).copied().unwrap_or(u64::MAX);
        Some(Moment {
            after: moment.after.max(self.begins[from]),
            before: moment.before.min(ends),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Becomes {
    Free,
    Taken,
}

impl Case<'_> {
    /// Returns when each descriptor begins and ends to be certainly free, by its place among the
    /// changed ones.
    fn edges(&self) -> Vec<(u64, usize, Becomes)> {
        let mut edges = Vec::with_capacity(self.changes.len());
        for (place, chain) in self.chains().enumerate() {
            let mut since = (!self.is_open_first(chain[0].number)).then_some(0);
            for change in chain {
                let moment = self.moments[change.step];
                if !change.takes {
                    since = Some(moment.before);
                } else if let Some(since) = since.take()
                    && since < moment.after
                {
                    edges.push((since, place, Becomes::Free));
                    edges.push((moment.after, place, Becomes::Taken));
                }
            }
            edges.extend(since.map(|since| (since, place, Becomes::Free)));
        }
        edges
    }
}
