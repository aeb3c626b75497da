//! Random histories of private descriptors, replayed on the table and on a map.
//!
//! After every step both have returned the same answer, and the same files have been released; no
//! descriptor is given out twice. `PROPTEST_CASES=100000 cargo test -p fdtable --release --test
//! private_against_map` replays more histories than the second of an ordinary run.

use crate::ledger;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fdtable::{Error, FileRef, PrivateFd, PrivateFiles, Rcu, rcu};
use ledger::{Maker, Object, Token};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm};

/// Limits at which behaviour changes: around a batch, and around the first segment.
const LIMITS: &[u32] = &[0, 1, 2, 31, 32, 33, 64, 65, 200, 1_000_000, u32::MAX];

/// Which descriptor.
#[derive(Clone, Debug)]
enum Which {
    /// One that an open returned, and that is perhaps closed.
    Given(Index),
    /// One that is a bit different.
    Near(Index, u32),
    Any(u64),
}

#[derive(Clone, Debug)]
enum Action {
    Open,
    Close(Which),
    /// Takes a file out, and keeps it.
    Take(Which),
    /// Gets a file, and keeps it.
    Hold(Which),
    /// Drops a file that was kept.
    LetGo(Index),
    /// Borrows a file, and closes its descriptor meanwhile.
    CloseBorrowed(Which),
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![
        20 => any::<Index>().prop_map(Which::Given),
        2 => (any::<Index>(), 0..64_u32).prop_map(|(index, bit)| Which::Near(index, bit)),
        1 => any::<u64>().prop_map(Which::Any),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        10 => Just(Action::Open),
        6 => which().prop_map(Action::Close),
        2 => which().prop_map(Action::Take),
        3 => which().prop_map(Action::Hold),
        3 => any::<Index>().prop_map(Action::LetGo),
        2 => which().prop_map(Action::CloseBorrowed),
    ]
}

type Verdict = Result<(), TestCaseError>;

struct Replay {
    files: PrivateFiles<Rcu<Object>>,
    open: HashMap<u64, Arc<Token>>,
    given: Vec<PrivateFd>,
    held: Vec<(FileRef<Rcu<Object>>, Arc<Token>)>,
    objects: Maker,
    tokens: Maker,
}

impl Replay {
    fn new(limit: u32) -> Self {
        Self {
            files: PrivateFiles::with_limit(limit),
            open: HashMap::new(),
            given: Vec::new(),
            held: Vec::new(),
            objects: Maker::default(),
            tokens: Maker::default(),
        }
    }

    fn find(&self, which: &Which) -> PrivateFd {
        let given = |index: &Index| match self.given.as_slice() {
            [] => PrivateFd::from_bits(0),
            given => *index.get(given),
        };
        match which {
            Which::Given(index) => given(index),
            Which::Near(index, bit) => PrivateFd::from_bits(given(index).to_bits() ^ (1 << bit)),
            Which::Any(bits) => PrivateFd::from_bits(*bits),
        }
    }

    fn act(&mut self, action: &Action) -> Verdict {
        match action {
            Action::Open => return self.open(),
            Action::Close(which) => {
                let fd = self.find(which);
                let expected = self.open.remove(&fd.to_bits());
                let expected = expected.map(drop).ok_or(Error::BadFd);
                prop_assert_eq!(self.files.close(fd).map(drop), expected);
            }
            Action::Take(which) => {
                let fd = self.find(which);
                let token = self.open.remove(&fd.to_bits());
                return self.hold(
                    self.files.close(fd).map(fdtable::ClosedFile::into_file),
                    token,
                );
            }
            Action::Hold(which) => {
                let fd = self.find(which);
                let token = self.open.get(&fd.to_bits()).cloned();
                return self.hold(self.files.get(fd), token);
            }
            Action::LetGo(which) if !self.held.is_empty() => {
                let place = which.index(self.held.len());
                drop(self.held.swap_remove(place));
            }
            Action::LetGo(_) => {}
            Action::CloseBorrowed(which) => return self.close_borrowed(self.find(which)),
        }
        Ok(())
    }

    fn open(&mut self) -> Verdict {
        let token = self.tokens.token();
        let full = self.open.len() >= self.files.limit() as usize;
        match self.files.open(self.objects.object()) {
            Ok(fd) => {
                prop_assert!(!full, "past the limit");
                self.given.push(fd);
                self.open.insert(fd.to_bits(), token);
            }
            Err(error) => {
                prop_assert_eq!(error, Error::TooManyFiles);
                prop_assert!(full, "before the limit");
            }
        }
        Ok(())
    }

    fn hold(
        &mut self,
        file: Result<FileRef<Rcu<Object>>, Error>,
        token: Option<Arc<Token>>,
    ) -> Verdict {
        let number = file.as_ref().map(|file| file.number).map_err(|e| *e);
        let expected = token.as_ref().map(|token| token.number);
        prop_assert_eq!(number, expected.ok_or(Error::BadFd));
        self.held.extend(file.ok().zip(token));
        Ok(())
    }

    fn close_borrowed(&mut self, fd: PrivateFd) -> Verdict {
        let section = rcu::read_lock();
        let borrowed = self.files.get_rcu(fd, &section);
        let token = self.open.remove(&fd.to_bits());
        prop_assert_eq!(self.files.close(fd).is_ok(), token.is_some());
        prop_assert_eq!(borrowed.is_ok(), token.is_some());
        if let (Ok(object), Some(token)) = (borrowed, token) {
            prop_assert_eq!(object.number, token.number);
            let others = Arc::strong_count(&token) > 1;
            prop_assert_eq!(object.upgrade().is_some(), others);
        }
        Ok(())
    }

    /// Compares which files have been released.
    fn compare_released(&self) -> Verdict {
        let expected = self.tokens.ledger.take_released();
        prop_assert_eq!(self.objects.ledger.take_released(), expected);
        Ok(())
    }

    /// Compares the whole visible state of the table.
    fn compare(&self) -> Verdict {
        prop_assert_eq!(self.files.open_count(), self.open.len());
        let given: HashSet<&PrivateFd> = self.given.iter().collect();
        prop_assert_eq!(given.len(), self.given.len(), "given out twice");
        let listed: HashSet<u64> = self.files.iter().map(|(fd, _)| fd.to_bits()).collect();
        prop_assert_eq!(listed, self.open.keys().copied().collect::<HashSet<_>>());
        for fd in &self.given {
            let number = self.files.get(*fd).ok().map(|file| file.number);
            let expected = self.open.get(&fd.to_bits()).map(|token| token.number);
            prop_assert_eq!(number, expected);
        }
        Ok(())
    }

    fn end(mut self) -> Verdict {
        self.compare()?;
        self.files = PrivateFiles::new();
        self.open.clear();
        self.compare_released()?;
        self.held.clear();
        self.compare_released()?;
        rcu::barrier().expect("outside of sections");
        let all: Vec<i32> = (0..self.tokens.made).collect();
        prop_assert_eq!(self.objects.ledger.take_dropped(), all);
        Ok(())
    }
}

fn config(cases: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok();
    Config {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(cases),
        // Without optimisation, the default one takes most of the time.
        rng_algorithm: RngAlgorithm::XorShift,
        failure_persistence: None,
        // Ten seconds, in ms.
        max_shrink_time: 10_000,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config(300))]
    #[test]
    fn the_table_and_the_map_agree(limit in select(LIMITS), steps in vec(action(), 1..400)) {
        let mut replay = Replay::new(limit);
        for step in &steps {
            replay.act(step)?;
            replay.compare_released()?;
        }
        replay.end()?;
    }
}
