use serde_json::json;

use super::*;

fn summary(median: f64) -> Value {
    json!({
        "min": median * 0.8, "p10": median * 0.95, "median": median, "p90": median * 1.1,
        "max": median * 3.0, "samples": 9,
    })
}

fn row(subject: &str, threads: u32, ns: f64) -> Value {
    json!({ "subject": subject, "threads": threads, "ns": summary(ns), "share": ns / 7.0 })
}

fn report(rows: &[Value]) -> Value {
    json!({
        "experiment": "lookup", "config": { "rounds": 9 }, "rows": rows,
        "machine": {
            "cpu": "A", "cpus": 2, "kernel": "Linux 6", "rustc": "rustc 1.95", "load_average": [1],
            "line_round_trip": { "distance": "near", "median_ns": 60.5 },
        },
        "headline": { "lookup.a": rows.len() as f64, "lookup.none": null },
    })
}

fn old(document: &Value) -> Old {
    Old::parse("old.json", &document.to_string()).unwrap()
}

fn compare(before: &Value, now: &Value) -> Comparison {
    Comparison::of(&old(before), now)
}

fn table<'a>(compared: &'a Comparison, caption: &str) -> Option<&'a Table> {
    compared
        .tables
        .iter()
        .find(|it| it.caption.starts_with(caption))
}

#[test]
fn a_planted_change_is_found_and_noise_is_not() {
    let before = report(&[row("a", 1, 10.0), row("a", 2, 50.0), row("b", 1, 20.0)]);
    // Noise: the spreads overlap.
    let now = report(&[row("a", 1, 30.0), row("a", 2, 53.0), row("b", 1, 10.0)]);
    let compared = compare(&before, &now);
    assert!(compared.warnings.is_empty(), "{:?}", compared.warnings);
    let slower = &table(&compared, "Slower").unwrap().rows;
    assert_eq!(slower.len(), 1);
    assert_eq!(slower[0][0], "lookup: a, threads 1, ns");
    assert_eq!(slower[0][3], "3.00");
    let faster = &table(&compared, "Faster").unwrap().rows;
    assert_eq!(faster[0][0], "lookup: b, threads 1, ns");
    assert!(compared.remarks[0].starts_with("2 medians changed beyond the noise, and 1"));
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let run = report(&[row("a", 1, 10.0), row("a", 2, 50.0)]);
    let compared = compare(&run, &run);
    assert_eq!(compared.tables.len(), 1, "{compared}");
    assert_eq!(
        table(&compared, "Headline").unwrap().rows,
        [["lookup.a", "2.00", "2.00", "1.000"]]
    );
    assert_eq!(compared.remarks.len(), 1, "{compared}");
}

#[test]
fn a_small_change_of_a_steady_median_is_none() {
    let steady = |median: f64| {
        json!({ "subject": "a", "ns": {
            "p10": median, "median": median, "p90": median, "samples": 9
        } })
    };
    let compared = |now| compare(&report(&[steady(100.0)]), &report(&[steady(now)]));
    assert!(table(&compared(104.0), "Slower").is_none());
    assert!(table(&compared(106.0), "Slower").is_some());
}

#[test]
fn more_per_second_is_faster_and_an_unknown_quantity_is_neither() {
    let with = |field: &str, median| report(&[json!({ "subject": "a", field: summary(median) })]);
    let compared = |field| compare(&with(field, 10.0), &with(field, 20.0));
    assert!(table(&compared("messages_per_second"), "Faster").is_some());
    assert!(table(&compared("faster_than_rwlock_vec"), "Faster").is_some());
    assert!(table(&compared("lookup_ns"), "Slower").is_some());
    assert!(table(&compared("times_load"), "Changed").is_some());
}

#[test]
fn summaries_within_objects_are_compared() {
    let with = |ns| report(&[json!({ "slabs": 64, "with": { "ns": summary(ns), "misses": 6 } })]);
    let compared = compare(&with(10.0), &with(20.0));
    assert_eq!(
        table(&compared, "Slower").unwrap().rows[0][0],
        "lookup: slabs 64, with.ns"
    );
}

#[test]
fn a_single_sample_is_not_judged() {
    let once = |ns: f64| json!({ "subject": "a", "ns": { "p10": ns, "median": ns, "p90": ns, "samples": 1 } });
    let compared = compare(&report(&[once(10.0)]), &report(&[once(90.0)]));
    assert!(table(&compared, "Slower").is_none());
    assert!(
        compared.remarks[1].contains("1 were not judged"),
        "{compared}"
    );
}

#[test]
fn new_and_missing_rows_are_named() {
    let before = report(&[row("a", 1, 10.0), row("old", 1, 10.0)]);
    let now = report(&[row("a", 1, 10.0), row("new", 2, 10.0)]);
    let remarks = compare(&before, &now).remarks;
    assert!(remarks.contains(&"Not measured any more: lookup: old, threads 1.".to_owned()));
    assert!(remarks.contains(&"Not measured before: lookup: new, threads 2.".to_owned()));
}

#[test]
fn other_machines_and_distances_are_listed_first() {
    let before = report(&[row("a", 1, 10.0)]);
    let mut now = before.clone();
    now["machine"]["cpu"] = json!("B");
    now["machine"]["line_round_trip"]["distance"] = json!("far");
    now["config"]["rounds"] = json!(25);
    let compared = compare(&before, &now);
    let text = compared.warnings.join("\n");
    for part in [
        "with care",
        "A → B",
        "near → far",
        "{\"rounds\":9} → {\"rounds\":25}",
    ] {
        assert!(text.contains(part), "{part} is missing from {text}");
    }
    // Values that change with every run are no difference.
    now = before.clone();
    now["machine"]["load_average"] = json!([7]);
    now["machine"]["line_round_trip"]["median_ns"] = json!(61.0);
    assert!(compare(&before, &now).warnings.is_empty());
}

#[test]
fn an_experiment_is_found_among_several() {
    let one = report(&[row("a", 1, 10.0)]);
    let mut chat = one.clone();
    chat["experiment"] = json!("chat");
    let all = json!({ "experiment": "all", "experiments": [one, chat] });
    assert_eq!(compare(&all, &chat).remarks.len(), 1);
    chat["experiment"] = json!("alloc");
    let compared = compare(&all, &chat);
    assert!(compared.remarks[0].contains("alloc is not in the earlier run"));
}

#[test]
fn a_file_that_is_no_report_is_an_error() {
    let rows = json!({ "experiment": "a", "rows": 3, "machine": {}, "headline": {} });
    let none = json!({ "experiments": [] });
    for text in [
        "",
        "no JSON",
        "[]",
        "{}",
        "3",
        &rows.to_string(),
        &none.to_string(),
    ] {
        let error = Old::parse("old.json", text).unwrap_err().to_string();
        assert!(error.starts_with("old.json is no report"), "{error}");
    }
    assert!(Old::read("/nowhere/old.json".as_ref()).is_err());
}
