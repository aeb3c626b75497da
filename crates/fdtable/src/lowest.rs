//! Where the lowest free number is.
//!
//! Two things are known of a table: a *floor*, and the *holes* below it. The free numbers below
//! the floor are exactly the holes; at and above the floor anything may be free. So the lowest
//! free number is the first hole, and only without holes is there a search, from the floor up.
//!
//! An open that searches raises the floor past what it found. A close below the floor makes a
//! hole. There is room for a few; when one too many comes, the highest hole becomes the floor,
//! and what is free above it is found by searching again. A process that closes and opens a few
//! descriptors among a million never searches.

/// How many holes are remembered. They fill half a cache line.
const HOLES: usize = 8;

/// What is known of the free numbers. Guarded by the lock of the table.
pub(crate) struct Lowest {
    floor: usize,
    /// How many of `holes` there are.
    count: usize,
    /// Free numbers below the floor, in ascending order. All are below 2^31.
    holes: [u32; HOLES],
}

impl Lowest {
    /// Knows nothing: everything may be free.
    pub(crate) const fn new() -> Self {
        Self {
            floor: 0,
            count: 0,
            holes: [0; HOLES],
        }
    }

    fn holes(&self) -> &[u32] {
        &self.holes[..self.count]
    }

    /// Returns the lowest free number that is `min` or more, if it is known without a search.
    #[inline]
    pub(crate) fn known(&self, min: usize) -> Option<usize> {
        self.holes()
            .iter()
            .map(|&hole| hole as usize)
            .find(|&hole| hole >= min)
    }

    /// Returns where to search for a free number that is `min` or more, when none is known.
    #[inline]
    pub(crate) fn search_from(&self, min: usize) -> usize {
        min.max(self.floor)
    }

    /// Notes that a search for `min` or more found `number`, which is now taken.
    #[inline]
    pub(crate) fn found(&mut self, min: usize, number: usize) {
        if min <= self.floor {
            self.floor = number + 1;
        }
    }

    /// Notes that `number` is taken.
    #[inline]
    pub(crate) fn taken(&mut self, number: usize) {
        if number < self.floor
            && let Some(place) = self
                .holes()
                .iter()
                .position(|&hole| hole as usize == number)
        {
            self.holes.copy_within(place + 1..self.count, place);
            self.count -= 1;
        }
    }

    /// Notes that `number` is free.
    #[inline]
    pub(crate) fn freed(&mut self, number: usize) {
        if number >= self.floor {
            return;
        }
        if self.count == HOLES {
            self.floor = self.holes[HOLES - 1].max(number as u32) as usize;
            if number == self.floor {
                return;
            }
            self.count -= 1;
        }
        let place = self
            .holes()
            .iter()
            .take_while(|&&hole| (hole as usize) < number)
            .count();
        self.holes.copy_within(place..self.count, place + 1);
        self.holes[place] = number as u32;
        self.count += 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A table of 64 numbers, and what is known of it.
    struct Model {
        taken: u64,
        lowest: Lowest,
    }

    impl Model {
        fn free_from(&self, min: usize) -> usize {
            (min..64)
                .find(|&number| self.taken >> number & 1 == 0)
                .unwrap_or(64)
        }

        fn open(&mut self, min: usize) {
            let expected = self.free_from(min);
            let number = self.lowest.known(min).unwrap_or_else(|| {
                let found = self.free_from(self.lowest.search_from(min));
                self.lowest.found(min, found);
                found
            });
            assert_eq!(number, expected);
            if number < 64 {
                self.lowest.taken(number);
                self.taken |= 1 << number;
            }
        }

        fn close(&mut self, number: usize) {
            if self.taken >> number & 1 == 1 {
                self.taken &= !(1 << number);
                self.lowest.freed(number);
            }
        }

        fn take_exactly(&mut self, number: usize) {
            self.taken |= 1 << number;
            self.lowest.taken(number);
        }
    }

    #[test]
    fn what_is_known_is_always_the_lowest() {
        let mut model = Model {
            taken: 0,
            lowest: Lowest::new(),
        };
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..200_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let number = (random >> 8) as usize % 64;
            match random % 16 {
                0..=6 => model.close(number),
                7..=12 => model.open(0),
                13 => model.open(number),
                _ => model.take_exactly(number),
            }
        }
    }

    #[test]
    fn a_few_holes_need_no_search() {
        let mut lowest = Lowest::new();
        lowest.found(0, 999_999);
        for hole in [500_000, 7, 999_999] {
            lowest.freed(hole);
        }
        assert_eq!(lowest.known(0), Some(7));
        lowest.taken(7);
        assert_eq!(lowest.known(0), Some(500_000));
        assert_eq!(lowest.known(500_001), Some(999_999));
        assert_eq!(lowest.known(1_000_000), None);
    }

    #[test]
    fn one_hole_too_many_lowers_the_floor() {
        let mut lowest = Lowest::new();
        lowest.found(0, 99);
        (0..=HOLES).for_each(|step| lowest.freed(step * 2));
        assert_eq!(lowest.search_from(0), HOLES * 2);
        assert_eq!(lowest.known(0), Some(0));
        assert_eq!(lowest.known(HOLES * 2), None);
    }
}
