//! A set of small integers that finds its next member in a few words.

/// Levels of bits. A bit of a level is set if the word below it is not 0.
pub(crate) struct FreeSet {
    levels: Vec<Vec<u64>>,
}

impl FreeSet {
    /// Makes an empty set of integers below `size`.
    pub(crate) fn new(size: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = size;
        loop {
            words = words.div_ceil(64).max(1);
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
        }
    }

    pub(crate) fn insert(&mut self, mut member: usize) {
        for level in &mut self.levels {
            level[member / 64] |= 1 << (member % 64);
            member /= 64;
        }
    }

    pub(crate) fn remove(&mut self, mut member: usize) {
        for level in &mut self.levels {
            let word = &mut level[member / 64];
            *word &= !(1 << (member % 64));
            if *word != 0 {
                return;
            }
            member /= 64;
        }
    }

    /// Finds the lowest member that is `from` or more.
    pub(crate) fn next(&self, mut from: usize) -> Option<usize> {
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(from / 64)? & (u64::MAX << (from % 64));
            if word != 0 {
                let mut found = from / 64 * 64 + word.trailing_zeros() as usize;
                for level in self.levels[..height].iter().rev() {
                    found = found * 64 + level[found].trailing_zeros() as usize;
                }
                return Some(found);
            }
            from = from / 64 + 1;
        }
        None
    }
}

#[test]
fn the_set_agrees_with_an_ordered_one() {
    let mut rng = fastrand::Rng::with_seed(1);
    for size in [1, 64, 65, 5000] {
        let (mut set, mut expected) = (FreeSet::new(size), std::collections::BTreeSet::new());
        for _ in 0..10_000 {
            let (member, from) = (rng.usize(0..size), rng.usize(0..=size));
            if rng.bool() {
                set.insert(member);
                expected.insert(member);
            } else {
                set.remove(member);
                expected.remove(&member);
            }
            assert_eq!(set.next(from), expected.range(from..).next().copied());
        }
    }
}
