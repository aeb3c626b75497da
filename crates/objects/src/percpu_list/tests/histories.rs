//! Random histories against a plain list.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Add(Access),
    /// Drops the held member with this index, wrapped around.
    Drop(usize),
    Clone(usize),
    Revoke(usize),
    RefuseWriters,
    AdmitWriters,
    /// Takes the next member of an iteration that is under way, or begins one.
    Advance,
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop_oneof![Just(Access::Read), Just(Access::Write)].prop_map(Step::Add),
        4 => any::<usize>().prop_map(Step::Drop),
        1 => any::<usize>().prop_map(Step::Clone),
        1 => any::<usize>().prop_map(Step::Revoke),
        1 => Just(Step::RefuseWriters),
        1 => Just(Step::AdmitWriters),
        2 => Just(Step::Advance),
        2 => Just(Step::Look),
    ]
}

/// An expected member: a number, how it was added, and whether it was revoked.
#[derive(Default)]
struct Plain {
    held: Vec<(u32, Access, bool)>,
    refuses: bool,
}

impl Plain {
    fn members(&self) -> Vec<u32> {
        let on = self.held.iter().filter(|(_, _, revoked)| !revoked);
        let mut values: Vec<u32> = on.map(|&(value, ..)| value).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    fn writers(&self) -> usize {
        let mut writers: Vec<u32> = self
            .held
            .iter()
            .filter(|(_, access, revoked)| *access == Access::Write && !revoked)
            .map(|&(value, ..)| value)
            .collect();
        writers.sort_unstable();
        writers.dedup();
        writers.len()
    }

    fn revoke(&mut self, value: u32) {
        for held in self.held.iter_mut().filter(|held| held.0 == value) {
            held.2 = true;
        }
    }
}

proptest! {
    #[test]
    fn the_list_is_as_a_plain_one(steps in prop::collection::vec(step(), 1..200)) {
        let list = list::<u32>();
        let (mut plain, mut held) = (Plain::default(), Vec::new());
        let mut iteration = None;
        let mut next = 0;
        for step in steps {
            match step {
                Step::Add(access) => {
                    let added = list.add(next, access, |_, _| ());
                    if plain.refuses && access == Access::Write {
                        prop_assert_eq!(added.err(), Some(Refused::ReadOnly));
                    } else {
                        held.push(added.expect("it may join"));
                        plain.held.push((next, access, false));
                    }
                    next += 1;
                }
                Step::Drop(at) if !held.is_empty() => {
                    let at = at % held.len();
                    drop(held.swap_remove(at));
                    plain.held.swap_remove(at);
                }
                Step::Clone(at) if !held.is_empty() => {
                    let at = at % held.len();
                    held.push(held[at].clone());
                    plain.held.push(plain.held[at]);
                }
                Step::Revoke(at) if !held.is_empty() => {
                    let at = at % held.len();
                    prop_assert_eq!(Ref::revoke(&held[at]), !plain.held[at].2);
                    plain.revoke(plain.held[at].0);
                }
                Step::RefuseWriters => {
                    let expected = if plain.writers() > 0 { Err(Refused::Busy) } else { Ok(()) };
                    prop_assert_eq!(list.refuse_writers(), expected);
                    plain.refuses |= expected.is_ok();
                }
                Step::AdmitWriters => {
                    list.admit_writers().expect("it is not detached");
                    plain.refuses = false;
                }
                Step::Advance => {
                    let under_way = iteration
                        .get_or_insert_with(|| list.iter().expect("memory"));
                    match under_way.next() {
                        Some(member) => prop_assert!(plain.members().contains(&member)),
                        None => iteration = None,
                    }
                }
                Step::Look => {
                    prop_assert_eq!(values(list.snapshot().expect("memory")), plain.members());
                    prop_assert_eq!(values(list.iter().expect("memory")), plain.members());
                }
                Step::Drop(_) | Step::Clone(_) | Step::Revoke(_) => {}
            }
            prop_assert_eq!(list.len(), plain.members().len());
            prop_assert_eq!(list.writers(), plain.writers());
        }
    }
}
