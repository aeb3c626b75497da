//! The file of an earlier run, as `--json` wrote it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

/// Earlier run.
#[derive(Debug)]
pub struct Old {
    name: String,
    document: Value,
}

impl Old {
    /// Reads the file.
    ///
    /// # Errors
    /// If it cannot be read, or is no report of this program.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).with_context(|| format!("reading {name}"))?;
        Self::parse(&name, &text)
    }

    /// Parses the text of a file with that name.
    ///
    /// # Errors
    /// If it is no report of this program.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let what = || format!("{name} is no report of `fdtable bench --json`");
        let document: Value = serde_json::from_str(text).with_context(what)?;
        check(&document).with_context(what)?;
        Ok(Old {
            name: name.to_owned(),
            document,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn experiment(&self, name: &str) -> Option<&Value> {
        experiments(&self.document)
            .iter()
            .find(|it| it["experiment"] == name)
    }
}

fn check(document: &Value) -> anyhow::Result<()> {
    let reports = experiments(document);
    ensure!(!reports.is_empty(), "it holds no experiment");
    for report in reports {
        let name = report["experiment"]
            .as_str()
            .context("an experiment has no name")?;
        ensure!(report["machine"].is_object(), "{name} has no machine");
        ensure!(report["rows"].is_array(), "{name} has no rows");
        ensure!(report["headline"].is_object(), "{name} has no headline");
    }
    Ok(())
}

/// Lists the reports of a document: its parts, or itself if it is a single report.
pub(super) fn experiments(document: &Value) -> &[Value] {
    match document["experiments"].as_array() {
        Some(reports) => reports,
        None => std::slice::from_ref(document),
    }
}

/// Returns the headline figures of a report, without those that could not be measured.
pub(super) fn headline(report: &Value) -> BTreeMap<String, f64> {
    let figures = report["headline"].as_object().into_iter().flatten();
    figures
        .filter_map(|(key, value)| Some((key.clone(), value.as_f64()?)))
        .collect()
}
