//! If this is wrong, two writers lock one byte, or a byte stays locked forever.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Bytes of the model; the last one stands for all bytes up to the end of the file.
const BYTES: u64 = 12;

fn wanted(owner: u64, kind: LockKind, first: u64, last: u64) -> Record {
    Record {
        owner: Owner::Table(owner),
        range: Range { first, last },
        kind,
        pid: owner as i32,
        file: FileId::of(&()),
    }
}

fn ranges(records: &Records) -> Vec<(u64, u64, bool)> {
    let tuple = |record: &Record| (record.range.first, record.range.last, record.is_write());
    records.iter().map(tuple).collect()
}

/// Lock of each owner on each byte: `Some(is_write)`.
type Model = [[Option<bool>; BYTES as usize]; 3];

fn model_conflicts(model: &Model, wanted: &Record, owner: usize) -> bool {
    let is_in_the_way = |byte: u64, other: usize| {
        let had = model[other][byte as usize];
        other != owner
            && match wanted.kind {
                LockKind::Unlock => false,
                LockKind::Read => had == Some(true),
                LockKind::Write => had.is_some(),
            }
    };
    (wanted.range.first..=wanted.range.last).any(|byte| (0..3).any(|o| is_in_the_way(byte, o)))
}

fn read_back(records: &Records) -> Model {
    let mut model = Model::default();
    for record in records.iter() {
        let Owner::Table(owner) = record.owner else {
            panic!("there is none of a file");
        };
        for byte in record.range.first..=record.range.last {
            let had = model[owner as usize][byte as usize].replace(record.is_write());
            assert_eq!(had, None, "an owner has a byte twice");
        }
    }
    model
}

/// Checks that the list is sorted as the searches require, and as short as possible.
fn check_order(records: &Records) {
    let list: Vec<&Record> = records.iter().collect();
    for pair in list
        .windows(2)
        .filter(|pair| pair[0].owner == pair[1].owner)
    {
        let touch = pair[0].range.last + 1 == pair[1].range.first;
        assert!(pair[0].range.last < pair[1].range.first);
        assert!(!touch || pair[0].is_write() != pair[1].is_write());
    }
    let mut owners: Vec<Owner> = list.iter().map(|record| record.owner).collect();
    owners.dedup();
    assert!((1..owners.len()).all(|at| !owners[..at].contains(&owners[at])));
}

fn operation() -> impl Strategy<Value = (usize, LockKind, u64, u64)> {
    let kind = prop_oneof![
        Just(LockKind::Read),
        Just(LockKind::Write),
        Just(LockKind::Unlock)
    ];
    (0..3usize, kind, 0..BYTES, 0..BYTES)
        .prop_map(|(owner, kind, one, other)| (owner, kind, one.min(other), one.max(other)))
}

proptest! {
    #[test]
    fn each_byte_has_the_lock_that_was_set_last(operations in vec(operation(), 1..60)) {
        let mut records = Records::default();
        let mut model = Model::default();
        for (owner, kind, first, last) in operations {
            let wanted = wanted(owner as u64, kind, first, last);
            let conflicts = records.conflict(&wanted).is_some();
            prop_assert_eq!(conflicts, model_conflicts(&model, &wanted, owner));
            if !conflicts {
                let before = model;
                let new = (kind != LockKind::Unlock).then_some(kind == LockKind::Write);
                model[owner][first as usize..=last as usize].fill(new);
                let changes = (first..=last).any(|byte| {
                    let had = before[owner][byte as usize];
                    had.is_some() && had != new
                });
                prop_assert_eq!(records.apply(&wanted), Ok(changes));
            }
            prop_assert_eq!(read_back(&records), model);
            check_order(&records);
        }
    }
}

#[test]
fn a_lock_in_the_middle_splits_and_one_between_two_joins() {
    let mut records = Records::default();
    let mut set = |kind, first, last| {
        records.apply(&wanted(1, kind, first, last)).unwrap();
        ranges(&records)
    };
    let end = i64::MAX as u64;
    assert_eq!(set(LockKind::Read, 0, end), [(0, end, false)]);
    assert_eq!(
        set(LockKind::Write, 10, 19),
        [(0, 9, false), (10, 19, true), (20, end, false)]
    );
    assert_eq!(
        set(LockKind::Unlock, 15, 29),
        [(0, 9, false), (10, 14, true), (30, end, false)]
    );
    assert_eq!(set(LockKind::Read, 10, 29), [(0, end, false)]);
    assert_eq!(set(LockKind::Unlock, 0, end), []);
}

#[test]
fn the_first_conflicting_lock_is_returned() {
    let mut records = Records::default();
    records.apply(&wanted(1, LockKind::Read, 5, 9)).unwrap();
    records.apply(&wanted(2, LockKind::Read, 0, 9)).unwrap();
    let conflict = records.conflict(&wanted(3, LockKind::Write, 0, 100));
    assert_eq!(conflict.map(|record| record.pid), Some(1));
    assert!(
        records
            .conflict(&wanted(3, LockKind::Read, 0, 100))
            .is_none()
    );
    assert!(
        records
            .conflict(&wanted(1, LockKind::Write, 10, 20))
            .is_none()
    );
}
