//! Generates `docs/posix-conformance.md`: each call with the flags and errors that are checked, and
//! every difference with its explanation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::differences::{Differences, find};
use crate::line::{Line, without_number};
use crate::names::call_of;

const HEAD: &str = "# POSIX calls, checked against the host

A C program, `cli/tests/posix/c`, makes each call, once on the host's kernel and once under
`fdtable run`. It is the same binary. The results must be equal, line by line, except for the
differences below. This page is generated from the output of the program (`FDTABLE_BLESS=1 cargo test
-p fdtable-cli --test posix the_table`).

A call is implemented with the flags and errors of its row: the program provoked each of them, and
fdtable returned the same as the host. The number after an error refers to a difference below: either
the error differs, or only the host returns it. Errors that only certain devices, network file
systems or a failing disk cause (EIO, ESTALE, EDQUOT, ETXTBSY) cannot be provoked, and are not in the
table.
";

/// Prefixes of flag names.
const FLAGS: &[&str] = &[
    "O_",
    "F_",
    "AT_",
    "MSG_",
    "SOCK_",
    "EPOLL",
    "EFD_",
    "TFD_",
    "RENAME_",
    "RESOLVE_",
    "FALLOC_FL_",
    "CLOSE_RANGE_",
    "LOCK_",
    "SEEK_",
    "MFD_",
    "RWF_",
    "SO_",
    "STATX_",
    "SHUT_",
    "MAP_",
    "POLL",
    "UTIME_",
    "SCM_",
    "S_IF",
    "POSIX_FADV_",
    "FIO",
    "FD_CLOEXEC",
    "SPLICE_F_",
    "CLOCK_",
    "RLIMIT_",
    "_PC_",
    "_SC_",
    "TCGETS",
    "SYNC_FILE_RANGE_",
    "AF_",
    "PROT_",
];

#[derive(Default)]
struct Row {
    flags: BTreeSet<String>,
    errors: BTreeMap<String, BTreeSet<usize>>,
    other: BTreeSet<usize>,
    tests: BTreeSet<&'static str>,
    checks: usize,
    unexplained: usize,
}

/// Output of a theme on the host, and on fdtable.
pub(crate) struct Outcome {
    pub(crate) theme: &'static str,
    pub(crate) host: Vec<Line>,
    pub(crate) ours: Vec<Line>,
}

/// Returns the page.
pub(crate) fn write(outcomes: &[Outcome], known: &Differences) -> String {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let mut unexplained = Vec::new();
    for Outcome { theme, host, ours } in outcomes {
        for line in ours {
            let Some(name) = call_of(&line.call) else {
                continue;
            };
            let row = rows.entry(name).or_default();
            row.checks += 1;
            row.tests.insert(theme);
            row.flags.extend(flags_of(&line.call));
            let difference = known.of(theme, &line.section, &line.call);
            let as_host = find(host, line).is_some_and(|theirs| theirs.result == line.result);
            if difference.is_some() || as_host {
                row.answer(
                    &line.result,
                    difference.map(|it| (it.host.as_str(), it.reason)),
                );
            } else {
                row.unexplained += 1;
            }
        }
        unexplained.extend(known.complaints(theme, host, ours));
    }
    page(&rows, known, &unexplained)
}

impl Row {
    fn answer(&mut self, result: &str, difference: Option<(&str, usize)>) {
        if let Some(error) = error_of(result) {
            self.errors.entry(error.to_owned()).or_default();
        }
        let Some((host, reason)) = difference else {
            return;
        };
        match error_of(host).or(error_of(result)) {
            Some(error) => {
                self.errors
                    .entry(error.to_owned())
                    .or_default()
                    .insert(reason);
            }
            None => {
                self.other.insert(reason);
            }
        }
    }

    fn told(&self, name: &str) -> String {
        let errors: Vec<_> = self
            .errors
            .iter()
            .map(|(error, reasons)| format!("{error}{}", numbers(reasons)))
            .collect();
        let flags: Vec<_> = self.flags.iter().cloned().collect();
        let tests: Vec<_> = self.tests.iter().copied().collect();
        let mut result = match self.other.is_empty() {
            true => "as the host".to_owned(),
            false => format!("differs{}", numbers(&self.other)),
        };
        if self.unexplained > 0 {
            let _ = write!(result, "; {} checks not yet", self.unexplained);
        }
        format!(
            "| `{name}` | {} | {result} | {} | {}: {} |\n",
            flags.join(" "),
            errors.join(", "),
            tests.join(", "),
            self.checks
        )
    }
}

fn numbers(reasons: &BTreeSet<usize>) -> String {
    reasons
        .iter()
        .map(|reason| format!(" [{}]", reason + 1))
        .collect()
}

fn page(rows: &BTreeMap<&str, Row>, known: &Differences, unexplained: &[String]) -> String {
    let checks: usize = rows.values().map(|row| row.checks).sum();
    let mut page = HEAD.to_owned();
    let _ = write!(
        page,
        "\n{} calls, {checks} checks.\n\n| call | flags | results | errors | test: checks |\n|---|---|---|---|---|\n",
        rows.len()
    );
    for (name, row) in rows {
        page += &row.told(name);
    }
    page += "\n## Differences\n";
    for (number, reason) in known.reasons.iter().enumerate() {
        let _ = write!(page, "\n{}. {reason}\n\n", number + 1);
        page += "   | test | call | host | fdtable |\n   |---|---|---|---|\n";
        for it in known.all.iter().filter(|it| it.reason == number) {
            let (call, test) = (without_number(&it.call).replace('|', "\\|"), &it.theme);
            let _ = writeln!(
                page,
                "   | {test}, {} | `{call}` | {} | {} |",
                it.section, it.host, it.ours
            );
        }
    }
    if !unexplained.is_empty() {
        page += "\n## Not yet as the host\n\n";
        page += "| test | call | host | fdtable |\n|---|---|---|---|\n";
        for line in unexplained {
            page += &unexplained_row(line);
        }
    }
    page
}

/// Converts a complaint, which has the format of the list of differences.
fn unexplained_row(line: &str) -> String {
    let (test, rest) = line.split_once(" | ").unwrap_or((line, ""));
    let parts: Vec<_> = rest.rsplitn(3, " | ").collect();
    match parts[..] {
        [ours, host, call] => {
            let call = without_number(call).replace('|', "\\|");
            format!(
                "| {} | `{call}` | {host} | {ours} |\n",
                test.replace('/', ", ")
            )
        }
        _ => format!("| {line} | | | |\n"),
    }
}

fn flags_of(call: &str) -> impl Iterator<Item = String> {
    call.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| FLAGS.iter().any(|flag| word.starts_with(flag)))
        .map(str::to_owned)
}

fn error_of(result: &str) -> Option<&str> {
    let name = result
        .trim_start_matches("-1 ")
        .trim_start_matches("NULL ")
        .trim_matches('"')
        .trim_matches(['<', '>']);
    let named = name.len() > 2
        && name.starts_with('E')
        && name
            .chars()
            .all(|it| it.is_ascii_uppercase() || it.is_ascii_digit());
    named.then_some(name)
}
