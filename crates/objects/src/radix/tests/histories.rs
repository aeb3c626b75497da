//! Random histories of several trees that share nodes, against simple maps. After each step every
//! tree has what its map has, and exactly the objects are released that are in no map.

use super::*;
use proptest::prelude::*;
use proptest::sample::select;

/// Few indexes, at all heights, so that steps meet.
const INDEXES_USED: [usize; 9] = [0, 1, 2, 511, 512, 600, 262_144, 262_145, INDEXES - 1];

/// How many trees there are at most.
const TREES: usize = 5;

#[derive(Clone, Debug)]
enum Step {
    /// Opens a slot, or closes it if it is open.
    Toggle(usize, usize),
    /// Makes a leaf the tree's own.
    Own(usize, usize),
    /// Removes a leaf with all that it has.
    Remove(usize, usize),
    /// Marks a leaf as full, or as free if it was marked.
    Mark(usize, usize),
    /// Shares a tree, and keeps some of its leaves.
    Share(usize, Vec<usize>),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let index = || select(&INDEXES_USED[..]);
    let slot = (index(), 0..3_usize).prop_map(|(index, bit)| index * BITS + bit * 31);
    let kept = prop::collection::vec(index(), 0..3);
    prop_oneof![
        6 => (0..TREES, slot).prop_map(|(tree, slot)| Step::Toggle(tree, slot)),
        2 => (0..TREES, index()).prop_map(|(tree, index)| Step::Own(tree, index)),
        2 => (0..TREES, index()).prop_map(|(tree, index)| Step::Remove(tree, index)),
        2 => (0..TREES, index()).prop_map(|(tree, index)| Step::Mark(tree, index)),
        3 => (0..TREES, kept).prop_map(|(tree, kept)| Step::Share(tree, kept)),
        1 => (0..TREES).prop_map(Step::Drop),
    ]
}

/// Expected contents of a tree.
#[derive(Clone, Default)]
struct Model {
    slots: BTreeMap<usize, usize>,
    leaves: BTreeSet<usize>,
    full: BTreeSet<usize>,
}

struct World {
    fates: Fates,
    trees: Vec<(TestTree, Model)>,
    made: usize,
}

impl World {
    fn new() -> Self {
        let fates = Fates::default();
        let first = (fates.tree(&[]), Model::default());
        Self {
            fates,
            trees: Vec::from([first]),
            made: 0,
        }
    }

    fn run(&mut self, step: &Step) {
        let count = self.trees.len();
        match *step {
            Step::Toggle(tree, slot) => self.toggle(tree % count, slot),
            Step::Own(tree, index) => self.make_writable(tree % count, index),
            Step::Remove(tree, index) => self.remove(tree % count, index),
            Step::Mark(tree, index) => self.mark(tree % count, index),
            Step::Share(tree, ref kept) => self.share(tree % count, kept),
            Step::Drop(tree) if count > 1 => drop(self.trees.remove(tree % count)),
            Step::Drop(_) => {}
        }
    }

    fn make_writable(&mut self, tree: usize, index: usize) {
        let (tree, model) = &mut self.trees[tree];
        self.fates.make_writable(tree, index);
        model.leaves.insert(index);
    }

    fn toggle(&mut self, tree: usize, slot: usize) {
        let (tree, model) = &mut self.trees[tree];
        model.leaves.insert(slot / BITS);
        if model.slots.remove(&slot).is_some() {
            self.fates.close(tree, slot);
        } else {
            self.fates.open(tree, slot, self.made);
            model.slots.insert(slot, self.made);
            self.made += 1;
        }
    }

    fn remove(&mut self, tree: usize, index: usize) {
        let (tree, model) = &mut self.trees[tree];
        let removed = tree.write().remove_if(index, |_| true);
        let removed = removed.expect("there is memory");
        let is_there = index != 0 && model.leaves.remove(&index);
        assert_eq!(removed.is_some(), is_there);
        if is_there {
            model.slots.retain(|slot, _| slot / BITS != index);
            model.full.remove(&index);
        }
    }

    fn mark(&mut self, tree: usize, index: usize) {
        self.make_writable(tree, index);
        let (tree, model) = &mut self.trees[tree];
        let writer = tree.write();
        if index == 0 || !model.full.insert(index) {
            writer.mark_free(index);
            model.full.remove(&index);
        } else {
            writer.mark_full(index);
        }
    }

    fn share(&mut self, tree: usize, kept: &[usize]) {
        if self.trees.len() == TREES {
            return;
        }
        kept.iter()
            .for_each(|&index| self.make_writable(tree, index));
        let (tree, model) = &self.trees[tree];
        let before = kept.iter().map(|&index| leaf_address(tree, index));
        let before = before.collect::<Vec<_>>();
        let child = share_keeping(tree, kept);
        let after = kept.iter().map(|&index| leaf_address(tree, index));
        assert_eq!(after.collect::<Vec<_>>(), before);
        for &index in kept {
            assert!(tree.write().lock_leaf(index).is_some());
        }
        self.trees.push((child, model.clone()));
    }

    fn check(&self) {
        let mut alive = BTreeSet::new();
        for (tree, model) in &self.trees {
            assert_eq!(slots(tree), model.slots);
            let mut leaves = model.leaves.clone();
            leaves.insert(0);
            assert_eq!(indexes(tree), leaves.into_iter().collect::<Vec<_>>());
            for from in [1, 2, 511, 600, 262_144] {
                let room = (from..).find(|index| !model.full.contains(index));
                assert_eq!(Some(tree.write().next_not_full(from)), room);
            }
            assert_eq!(
                tree.write().has_nodes(),
                model.leaves.iter().any(|&i| i > 0)
            );
            alive.extend(model.slots.values().copied());
        }
        let released = (0..self.made).filter(|name| !alive.contains(name));
        assert_eq!(self.fates.released(), released.collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

    #[test]
    fn trees_that_share_nodes_are_as_maps(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
            world.check();
        }
        // The trees are dropped one by one, each with the objects that it alone had.
        while world.trees.pop().is_some() {
            world.check();
        }
        world.fates.check(world.made);
    }
}

/// Found by a random history: an object removed by one tree was lost in a tree that shared
/// the node.
#[test]
fn what_a_tree_removes_stays_in_those_that_it_shares_with() {
    let last = INDEXES - 1;
    let steps = [
        Step::Own(0, 511),
        Step::Toggle(0, last * BITS),
        Step::Share(0, Vec::new()),
        Step::Share(0, Vec::new()),
        Step::Remove(2, last),
        Step::Share(2, Vec::new()),
        Step::Remove(3, 511),
    ];
    let mut world = World::new();
    for step in &steps {
        world.run(step);
        world.check();
    }
}
