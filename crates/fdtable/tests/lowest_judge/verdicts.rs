//! Tests of the judge, with journals that are known to be legal or not.
//!
//! In the tables of these rounds the descriptors below 10 are open, and the limit is 20.

use crate::journal::{Deed, HasFile, Journal, Number};
use crate::judge::{Start, Verdict, judge};

type Told<'e> = (u64, u64, Deed, &'e [Number]);

const FREED: Deed = Deed::Freed;
const TOOK: Deed = took_from(0);
const ANY: Deed = Deed::TookAny {
    file: HasFile::Installed,
};

const fn took_from(min: Number) -> Deed {
    Deed::TookLowest {
        min,
        file: HasFile::Installed,
    }
}

const fn refused(count: u32) -> Deed {
    Deed::Refused { count, min: 0 }
}

fn verdict(threads: &[&[Told<'_>]]) -> Verdict {
    let journal = |events: &&[Told<'_>]| {
        let mut journal = Journal::default();
        for &(start, end, deed, numbers) in *events {
            journal.write((start, end), deed, numbers.iter().copied());
        }
        journal
    };
    let journals: Vec<Journal> = threads.iter().map(journal).collect();
    let start = Start {
        open: 10,
        limit: 20,
        mins: vec![0, 4],
    };
    judge(&start, &journals)
}

#[track_caller]
fn is_legal(threads: &[&[Told<'_>]]) {
    let verdict = verdict(threads);
    let examples = verdict.examples.join("\n");
    assert_eq!(verdict.violations, 0, "{examples}");
}

#[track_caller]
fn is_refused(threads: &[&[Told<'_>]]) {
    assert!(verdict(threads).violations > 0);
}

#[test]
fn calls_that_promise_something_are_counted() {
    let calls: &[Told<'_>] = &[
        (1, 2, FREED, &[3]),
        (3, 4, ANY, &[12]),
        (5, 6, TOOK, &[3]),
        (7, 8, refused(9), &[]),
    ];
    assert_eq!(verdict(&[calls, calls]).judged, 4);
}

#[test]
fn numbers_are_taken_in_their_order() {
    is_legal(&[&[(1, 2, TOOK, &[10]), (3, 4, TOOK, &[11])]]);
    is_legal(&[&[(1, 2, FREED, &[3]), (3, 4, TOOK, &[3])]]);
    is_refused(&[&[(1, 2, TOOK, &[11])]]);
    is_refused(&[&[(1, 2, FREED, &[3]), (3, 4, TOOK, &[10])]]);
}

#[test]
fn calls_that_overlap_have_either_order() {
    for opened in [3, 10] {
        is_legal(&[&[(1, 5, FREED, &[3])], &[(4, 9, TOOK, &[opened])]]);
    }
    is_legal(&[&[(1, 9, TOOK, &[10])], &[(2, 3, TOOK, &[11])]]);
}

#[test]
fn an_open_that_began_earlier_comes_after_the_close_of_its_number() {
    let closes: &[Told<'_>] = &[(10, 11, FREED, &[3]), (12, 13, FREED, &[7])];
    is_legal(&[closes, &[(1, 20, TOOK, &[3])]]);
    is_refused(&[closes, &[(1, 20, TOOK, &[7])]]);
    let descending: &[Told<'_>] = &[(10, 11, FREED, &[7]), (12, 13, FREED, &[3])];
    is_legal(&[descending, &[(1, 20, TOOK, &[7])]]);
}

#[test]
fn an_open_comes_before_the_close_of_what_it_took() {
    // The second open took 10 again, so the first took it before 3 was free.
    let others: &[Told<'_>] = &[
        (10, 11, FREED, &[3]),
        (12, 13, TOOK, &[3]),
        (14, 15, FREED, &[3]),
    ];
    is_legal(&[
        others,
        &[
            (1, 9, TOOK, &[10]),
            (16, 17, FREED, &[10]),
            (18, 19, TOOK, &[3]),
        ],
    ]);
    is_refused(&[
        others,
        &[
            (1, 9, TOOK, &[10]),
            (16, 17, FREED, &[10]),
            (18, 19, TOOK, &[10]),
        ],
    ]);
}

#[test]
fn two_numbers_that_are_free_one_after_the_other_are_lower_all_the_time() {
    let by_name: &[Told<'_>] = &[(1, 2, FREED, &[3]), (20, 25, ANY, &[3])];
    let later = |start| (start, start + 1, FREED, &[4][..]);
    is_refused(&[by_name, &[later(15)], &[(10, 40, TOOK, &[10])]]);
    is_legal(&[by_name, &[later(22)], &[(10, 40, TOOK, &[10])]]);
}

#[test]
fn a_close_that_was_seen_is_done() {
    let close = (1, 50, FREED, &[3][..]);
    let seen = (10, 11, Deed::FoundClosed, &[3][..]);
    is_legal(&[&[close], &[(12, 13, TOOK, &[10])]]);
    is_refused(&[&[close], &[seen, (12, 13, TOOK, &[10])]]);
    is_legal(&[&[close], &[seen, (12, 13, TOOK, &[3])]]);
    is_refused(&[&[(20, 50, FREED, &[3])], &[seen]]);
}

#[test]
fn what_is_reserved_is_not_open_and_not_free() {
    let reserved = Deed::TookLowest {
        min: 0,
        file: HasFile::Reserved,
    };
    is_legal(&[
        &[(1, 5, FREED, &[3]), (6, 7, reserved, &[3])],
        &[(20, 21, Deed::FoundClosed, &[3]), (22, 23, TOOK, &[10])],
    ]);
}

#[test]
fn a_number_is_not_taken_twice() {
    is_refused(&[&[(1, 2, TOOK, &[10])], &[(1, 2, TOOK, &[10])]]);
    is_refused(&[&[(1, 2, ANY, &[3])]]);
    is_refused(&[&[(10, 11, FREED, &[3])], &[(1, 2, TOOK, &[3])]]);
}

#[test]
fn from_a_number_on_what_is_below_does_not_count() {
    let closes: &[Told<'_>] = &[(1, 2, FREED, &[3]), (3, 4, FREED, &[6])];
    is_legal(&[closes, &[(5, 6, took_from(4), &[6])]]);
    is_refused(&[closes, &[(5, 6, took_from(4), &[10])]]);
}

#[test]
fn several_numbers_are_taken_at_one_moment() {
    is_legal(&[&[(1, 2, TOOK, &[10, 11])]]);
    is_refused(&[&[(1, 2, TOOK, &[10, 12])]]);
    // 6 is free later than 5.
    let frees: &[Told<'_>] = &[(10, 11, FREED, &[5]), (30, 31, FREED, &[6])];
    is_legal(&[frees, &[(1, 40, TOOK, &[5, 6])]]);
    is_legal(&[frees, &[(1, 40, TOOK, &[5, 10])]]);
    is_refused(&[frees, &[(1, 40, TOOK, &[6, 10])]]);
    is_refused(&[frees, &[(1, 20, TOOK, &[5, 6])]]);
}

#[test]
fn what_is_known_of_one_number_is_known_of_the_others() {
    // Both were taken after 6 was free. So 5 was free at 25.
    let frees: &[Told<'_>] = &[(10, 11, FREED, &[5]), (30, 31, FREED, &[6])];
    let pair: &[Told<'_>] = &[(1, 40, TOOK, &[5, 6])];
    is_refused(&[frees, pair, &[(24, 25, TOOK, &[10])]]);
    is_legal(&[frees, pair, &[(32, 33, TOOK, &[10])]]);
}

#[test]
fn what_is_known_by_a_promise_narrows_others() {
    // 4 is opened after 1 is taken, at 100: it is free before.
    let closes: &[Told<'_>] = &[(1, 2, FREED, &[1]), (3, 4, FREED, &[4])];
    let by_name: &[Told<'_>] = &[(100, 101, ANY, &[1])];
    let open: &[Told<'_>] = &[(50, 150, TOOK, &[4])];
    is_refused(&[closes, by_name, open, &[(60, 90, took_from(4), &[10])]]);
    is_legal(&[closes, by_name, open, &[(60, 105, took_from(4), &[10])]]);
}

#[test]
fn a_call_is_refused_while_too_few_numbers_are_free() {
    let all: Vec<Number> = (10..20).collect();
    let taken = (1, 2, TOOK, &all[..]);
    is_refused(&[&[(3, 4, refused(1), &[])]]);
    is_legal(&[&[taken, (3, 4, refused(1), &[])]]);
    is_refused(&[&[taken, (3, 4, FREED, &[7]), (5, 6, refused(1), &[])]]);
    is_legal(&[&[taken, (3, 4, FREED, &[7]), (5, 6, refused(2), &[])]]);
    is_legal(&[&[taken, (3, 9, FREED, &[7])], &[(5, 6, refused(1), &[])]]);
    is_refused(&[&[taken, (3, 4, FREED, &[5, 7]), (5, 6, refused(2), &[])]]);
}

#[test]
fn numbers_are_below_the_limit_of_the_moment() {
    let lower = (10, 20, Deed::SetLimit(10), &[][..]);
    is_legal(&[&[lower, (21, 22, refused(1), &[])]]);
    is_refused(&[&[lower, (21, 22, TOOK, &[10])]]);
    is_legal(&[&[lower], &[(15, 22, TOOK, &[10])]]);
    is_legal(&[&[lower], &[(15, 22, refused(1), &[])]]);
    is_refused(&[
        &[lower, (30, 40, Deed::SetLimit(20), &[])],
        &[(42, 43, refused(1), &[])],
    ]);
    is_refused(&[&[(1, 2, ANY, &[20])]]);
}
