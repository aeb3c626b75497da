//! Reports as one JSON object in a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json, to_value};

use crate::report::{Report, headline_map};

/// Returns the JSON object for `reports`. One report is its own object; several are in one object,
/// with a joint headline.
///
/// # Errors
/// If a report has no JSON form, which no report of this crate lacks.
pub fn document(reports: &[Report]) -> serde_json::Result<Value> {
    match reports {
        [one] => to_value(one),
        several => all(several),
    }
}

/// Writes the object for `reports` to `path`, with line breaks and indentation.
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: &Path, reports: &[Report]) -> anyhow::Result<()> {
    let to = || format!("writing {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(to)?);
    serde_json::to_writer_pretty(&mut file, &document(reports)?).with_context(to)?;
    file.write_all(b"\n")
        .and_then(|()| file.flush())
        .with_context(to)
}

/// Several experiments as one object: `experiment` is `all`, and the head and the headline cover
/// all of them.
fn all(reports: &[Report]) -> serde_json::Result<Value> {
    let configs = reports.iter().map(|it| (it.experiment, &it.config));
    let headlines = reports.iter().map(|it| headline_map(&it.headline));
    Ok(json!({
        "experiment": "all",
        "machine": to_value(reports.last().map(|it| &it.machine))?,
        "config": configs.collect::<BTreeMap<_, _>>(),
        "rows": [],
        "experiments": to_value(reports)?,
        "headline": headlines.flatten().collect::<BTreeMap<_, _>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::report::{Figure, Goal};

    fn report(experiment: &'static str, key: &'static str) -> Report {
        Report {
            experiment,
            machine: Machine::observe(),
            config: json!({ "rounds": 9 }),
            rows: vec![json!({ "ns": 1.5 })],
            headline: vec![Figure {
                key,
                value: 2.0,
                goal: Goal::None,
                meaning: String::new(),
            }],
            title: String::new(),
            tables: Vec::new(),
            plots: Vec::new(),
            remarks: Vec::new(),
        }
    }

    fn keys(object: &Value) -> Vec<&str> {
        object
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect()
    }

    #[test]
    fn one_experiment_is_an_object_of_five_fields() {
        let object = document(&[report("lookup", "lookup.a")]).unwrap();
        assert_eq!(
            keys(&object),
            ["config", "experiment", "headline", "machine", "rows"]
        );
        assert_eq!(object["experiment"], "lookup");
        assert_eq!(object["headline"], json!({ "lookup.a": 2.0 }));
        assert_eq!(object["rows"], json!([{ "ns": 1.5 }]));
        let machine = keys(&object["machine"]);
        for field in [
            "cpu",
            "cpus",
            "kernel",
            "rustc",
            "load_average",
            "line_round_trip",
        ] {
            assert!(machine.contains(&field), "{field} is missing");
        }
    }

    #[test]
    fn several_are_one_object_with_a_merged_headline() {
        let object = document(&[report("lookup", "lookup.a"), report("chat", "chat.b")]).unwrap();
        assert_eq!(object["experiment"], "all");
        assert_eq!(
            object["headline"],
            json!({ "lookup.a": 2.0, "chat.b": 2.0 })
        );
        assert_eq!(object["experiments"][1]["experiment"], "chat");
        assert_eq!(object["config"]["chat"]["rounds"], 9);
    }

    #[test]
    fn a_file_holds_exactly_the_object() {
        let path = std::env::temp_dir().join(format!("fdtable-json-{}", std::process::id()));
        let reports = [report("lookup", "lookup.a")];
        write(&path, &reports).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap(),
            document(&reports).unwrap()
        );
    }
}
