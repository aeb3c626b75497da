//! Generates a random script from a seed.
//!
//! The calls and the kinds of their arguments are in `tests/posix/c_fuzz/calls.txt`. A descriptor of the
//! right kind is in most cases in a slot, because the generator keeps track of what it opens. Some
//! arguments are wrong on purpose.

use std::collections::HashMap;

const FILE: &str = include_str!("../c_fuzz/calls.txt");

/// Slots that the generator uses.
const SLOTS: usize = 20;

/// A sequence of random numbers (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }
}

/// Meaning of a word in the arguments of a call.
enum Kind {
    /// A slot in which a descriptor of one of these kinds was opened.
    Slot(Vec<&'static str>),
    Word(Words),
}

#[derive(Clone, Default)]
struct Words {
    one: Vec<&'static str>,
    /// Each is added with a chance of one in eight.
    with: Vec<&'static str>,
    /// One of them is seldom there instead.
    wrong: Vec<&'static str>,
}

/// Content of the file: the calls, and the kinds of their arguments.
struct Calls {
    kinds: HashMap<&'static str, Kind>,
    /// Each with its weight.
    calls: Vec<(usize, &'static str)>,
}

impl Calls {
    fn read() -> Self {
        let mut kinds: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut calls = Vec::new();
        for line in FILE.lines().filter(|line| !line.starts_with('#')) {
            let (first, rest) = line.split_once(' ').unwrap_or_default();
            if let Ok(weight) = first.parse() {
                calls.push((weight, rest));
            } else if let Some(name) = first.strip_suffix(':') {
                kinds.push((name, rest.split_whitespace().collect()));
            } else if let Some((_, words)) = kinds.last_mut() {
                words.extend(line.split_whitespace());
            }
        }
        let kinds = kinds.iter().map(|(name, words)| (*name, Kind::new(words)));
        Self {
            kinds: kinds.collect(),
            calls,
        }
    }
}

impl Kind {
    fn new(words: &[&'static str]) -> Self {
        if let ["slots", slots @ ..] = words {
            return Self::Slot(slots.to_vec());
        }
        let mut all = Words::default();
        let mut list = &mut all.one;
        for &word in words {
            match word {
                "one" => list = &mut all.one,
                "with" => list = &mut all.with,
                "wrong" => list = &mut all.wrong,
                _ => list.push(word),
            }
        }
        Self::Word(all)
    }
}

/// The end of every script: what it left.
const END: [&str; 2] = ["descriptors()", "tree()"];

/// Calls that some scripts begin with, so that the names above exist.
const BEGIN: [&str; 6] = [
    "mkdir(\"d\", 0755)",
    "mkdir(\"d/e\", 0755)",
    "mkfifo(\"f\", 0644)",
    "symlink(\"d\", \"l\")",
    "symlink(\"loop\", \"loop\")",
    "mknod(\"a\", S_IFREG|0644)",
];

/// Returns the script of a seed, with so many calls.
pub(crate) fn script(seed: u64, calls: usize) -> Vec<String> {
    let mut generator = Generator {
        random: Random::new(seed),
        calls: Calls::read(),
        slots: [None; SLOTS],
        is_wrong: false,
    };
    let mut script = Vec::new();
    for call in BEGIN {
        if generator.random.percent(85) {
            script.push(call.to_owned());
        }
    }
    while script.len() < calls.saturating_sub(END.len()) {
        script.push(generator.call());
    }
    script.extend(END.map(str::to_owned));
    script
}

struct Generator {
    random: Random,
    calls: Calls,
    /// The kind of what each slot was opened as.
    slots: [Option<&'static str>; SLOTS],
    /// True if an argument of the call is wrong. The order in which a kernel finds several errors
    /// is its own.
    is_wrong: bool,
}

impl Generator {
    fn call(&mut self) -> String {
        let mut template = self.template();
        for _ in 0..10 {
            if self.has_slots(template) {
                break;
            }
            template = self.template();
        }
        let (makes, call) = template.split_once(" = ").unwrap_or(("", template));
        let (name, arguments) = call.split_once('(').expect(template);
        let arguments = arguments.strip_suffix(')').expect(template);
        let mut same = None;
        self.is_wrong = false;
        let words: Vec<_> = arguments
            .split(", ")
            .map(|word| self.argument(word, &mut same))
            .collect();
        if name == "close"
            && let Some(slot) = slot_of(&words[0])
        {
            self.slots[slot] = None;
        }
        if name == "close_range" && words[2] == "0" {
            self.slots = [None; SLOTS];
        }
        let call = format!("{name}({})", words.join(", "));
        if makes.is_empty() {
            return call;
        }
        let kinds = makes.split(", ").map(|kind| match kind {
            "same" => same.unwrap_or("file"),
            _ => kind,
        });
        let slots: Vec<_> = kinds.map(|kind| format!("s{}", self.keep(kind))).collect();
        format!("{} = {call}", slots.join(", "))
    }

    /// Returns true if there are descriptors of the kinds that a call needs.
    fn has_slots(&self, template: &str) -> bool {
        let (_, call) = template.split_once('(').expect(template);
        let words = call.trim_end_matches(')').split(", ");
        let mut kinds = words.filter_map(|word| match self.calls.kinds.get(word) {
            Some(Kind::Slot(kinds)) => Some(kinds),
            _ => None,
        });
        kinds.all(|kinds| {
            let fits = |it: &Option<&str>| it.is_some_and(|it| kinds.contains(&it));
            kinds.contains(&"at") || self.slots.iter().any(fits)
        })
    }

    fn template(&mut self) -> &'static str {
        let total = self.calls.calls.iter().map(|(weight, _)| weight).sum();
        let mut left = self.random.below(total);
        for (weight, template) in &self.calls.calls {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return template,
            }
        }
        unreachable!("the weights add up to the total")
    }

    fn argument(&mut self, word: &'static str, same: &mut Option<&'static str>) -> String {
        let chosen = match self.calls.kinds.get(word) {
            None => word.to_owned(),
            Some(Kind::Slot(kinds)) => {
                let kinds = kinds.clone();
                return self.descriptor(&kinds, same);
            }
            Some(Kind::Word(words)) => {
                let words = words.clone();
                self.word(&words)
            }
        };
        match chosen.contains("SLOT") {
            true => chosen.replace("SLOT", &self.descriptor(&[], &mut None)),
            false => chosen,
        }
    }

    /// Returns true with a chance in percent, at most once for a call.
    fn wrong(&mut self, chance: usize) -> bool {
        let is_wrong = !self.is_wrong && self.random.percent(chance);
        self.is_wrong |= is_wrong;
        is_wrong
    }

    fn word(&mut self, words: &Words) -> String {
        if !words.wrong.is_empty() && self.wrong(12) {
            return self.random.pick(&words.wrong).to_owned();
        }
        let mut chosen = self.random.pick(&words.one).to_owned();
        for flag in &words.with {
            if self.random.below(8) == 0 {
                chosen = format!("{chosen}|{flag}");
            }
        }
        match chosen.strip_prefix("0|") {
            Some(flags) => flags.to_owned(),
            None => chosen,
        }
    }

    /// Returns a descriptor of one of these kinds, or of any kind if there are none.
    fn descriptor(&mut self, kinds: &[&str], same: &mut Option<&'static str>) -> String {
        if kinds.contains(&"at") && !self.random.percent(30) {
            return "AT_FDCWD".to_owned();
        }
        let is_fitting = !kinds.is_empty() && !self.wrong(10);
        let fits = |kind: &Option<&str>| kind.is_some_and(|it| !is_fitting || kinds.contains(&it));
        let found: Vec<_> = (0..SLOTS).filter(|&it| fits(&self.slots[it])).collect();
        if found.is_empty() || self.wrong(3) {
            self.is_wrong = true;
            let slot = format!("s{}", self.random.below(SLOTS));
            return match self.random.below(4) {
                0 => "-1".to_owned(),
                1 => "1000".to_owned(),
                _ => slot,
            };
        }
        let slot = found[self.random.below(found.len())];
        *same = same.or(self.slots[slot]);
        format!("s{slot}")
    }

    /// Chooses a slot for a new descriptor.
    fn keep(&mut self, kind: &'static str) -> usize {
        let free: Vec<_> = (0..SLOTS).filter(|&it| self.slots[it].is_none()).collect();
        let slot = match free[..] {
            [] => self.random.below(SLOTS),
            _ => free[self.random.below(free.len())],
        };
        self.slots[slot] = match kind.strip_prefix('?') {
            Some(rare) => self.random.percent(30).then_some(rare),
            None => Some(kind),
        };
        slot
    }
}

fn slot_of(word: &str) -> Option<usize> {
    word.strip_prefix('s')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_lists_of_words() {
        let kind = Kind::new(&["one", "a", "b", "with", "c", "wrong", "d", "e"]);
        let Kind::Word(words) = kind else {
            panic!("not a slot");
        };
        assert_eq!(words.one, ["a", "b"]);
        assert_eq!((words.with, words.wrong), (vec!["c"], vec!["d", "e"]));
    }

    #[test]
    fn a_seed_always_gives_the_same_script() {
        assert_eq!(script(7, 200), script(7, 200));
        assert_ne!(script(7, 200), script(8, 200));
        assert_eq!(script(7, 200).len(), 200);
    }
}
