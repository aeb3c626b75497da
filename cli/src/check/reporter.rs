//! The process beside the program: receives findings, and prints them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};

use serde_json::json;

use super::Settings;
use super::message::{Event, Message};
use super::report::{self, Finding, Style, counted};
use super::suppressions::Suppressions;
use super::symbols::{Frame, Symbols};
use crate::arguments::Leaks;

/// The most bytes of a message: more than a socket takes by default.
const MESSAGE: usize = 1 << 20;

/// Identity of a finding that occurs again: its kind, and its stacks.
type Key = (String, Vec<Vec<String>>);

pub(super) struct Reporter {
    settings: Settings,
    suppressions: Suppressions,
    symbols: Symbols,
    output: Box<dyn Write>,
    style: Style,
    /// Findings that were printed, by kind, with how often each kind has occurred.
    seen: BTreeSet<Key>,
    found: BTreeMap<String, usize>,
    suppressed: usize,
    /// Descriptors that were open at the ends of processes, by place.
    leaks: BTreeMap<Key, Finding>,
    /// True if the summary is to come: there was none yet, or there were findings since.
    owes_summary: bool,
}

impl Reporter {
    pub(super) fn new(settings: Settings, suppressions: Suppressions) -> Self {
        let opened = settings.output.as_ref().map(|path| {
            let file = OpenOptions::new().append(true).open(path);
            file.map(|file| Box::new(file) as Box<dyn Write>)
        });
        let is_coloured = settings.output.is_none()
            && io::stderr().is_terminal()
            && std::env::var_os("NO_COLOR").is_none();
        Self {
            owes_summary: settings.always_ends,
            settings,
            suppressions,
            symbols: Symbols::default(),
            output: opened
                .and_then(Result::ok)
                .unwrap_or_else(|| Box::new(io::stderr())),
            style: Style { is_coloured },
            seen: BTreeSet::new(),
            found: BTreeMap::new(),
            suppressed: 0,
            leaks: BTreeMap::new(),
        }
    }

    /// Receives findings until the last process of the program has ended.
    pub(super) fn serve(mut self, mut socket: File) {
        let mut bytes = vec![0; MESSAGE];
        loop {
            match socket.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&bytes[..length]);
                    if text.starts_with("end\n") {
                        self.summarize();
                        let code = self.exit_code();
                        // The process may have been killed.
                        let _ = socket.write_all(&code.to_ne_bytes());
                    } else {
                        self.take(Message::parse(&text));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.summarize();
    }

    /// Returns the exit code of the first process; -1 for that of the program.
    fn exit_code(&self) -> i32 {
        match self.settings.exit_code {
            Some(code) if !self.found.is_empty() => code.into(),
            _ => -1,
        }
    }

    /// Prints a finding, or keeps it for the end.
    fn take(&mut self, message: Message) {
        self.owes_summary = true;
        let stacks: Vec<Vec<Frame>> = message
            .events
            .iter()
            .map(|event| stack(&mut self.symbols, event))
            .collect();
        let shown = |frames: &Vec<Frame>| frames.iter().map(Frame::line_of_code).collect();
        let key: Key = (message.kind.clone(), stacks.iter().map(shown).collect());
        let is_leak = message.kind == "leak";
        if let Some(leak) = self.leaks.get_mut(&key) {
            leak.message.count += message.count;
            if leak.message.process != message.process {
                leak.processes += 1;
            }
            return;
        }
        if self.seen.contains(&key) {
            *self.found.entry(key.0).or_default() += 1;
            return;
        }
        if self.suppressions.have(&message, &stacks) {
            self.suppressed += 1;
            return;
        }
        let finding = Finding {
            message,
            stacks,
            processes: 1,
        };
        if is_leak {
            self.leaks.insert(key, finding);
            return;
        }
        *self.found.entry(key.0.clone()).or_default() += 1;
        self.seen.insert(key);
        self.print(&finding);
    }

    fn print(&mut self, finding: &Finding) {
        let text = match self.settings.json {
            true => format!("{}\n", report::json(finding)),
            false => self.style.text(finding),
        };
        // An error has no receiver.
        let _ = self.output.write_all(text.as_bytes());
    }

    /// Prints descriptors that were left open, and how many findings there were.
    fn summarize(&mut self) {
        if !std::mem::take(&mut self.owes_summary) {
            return;
        }
        let mut leaks: Vec<Finding> = std::mem::take(&mut self.leaks).into_values().collect();
        leaks.sort_by_key(|leak| std::cmp::Reverse(leak.message.count));
        let places = leaks.len();
        let open: usize = leaks.iter().map(|leak| leak.message.count).sum();
        let are_findings = self.settings.leaks == Some(Leaks::Full);
        if are_findings {
            leaks.iter().for_each(|leak| self.print(leak));
            if places > 0 {
                *self.found.entry("leak".to_owned()).or_default() += places;
            }
        }
        let text = match self.settings.json {
            true => {
                let summary = json!({
                    "kind": "summary",
                    "findings": self.found,
                    "suppressed": self.suppressed,
                    "open_at_exit": open,
                });
                format!("{summary}\n")
            }
            false => self.summary(open, places, are_findings),
        };
        let _ = self.output.write_all(text.as_bytes());
    }

    fn summary(&self, open: usize, places: usize, are_findings: bool) -> String {
        let total: usize = self.found.values().sum();
        let mut text = match total {
            0 => "fdtable: no findings".to_owned(),
            _ => {
                let kinds = self.found.iter();
                let kinds = kinds.map(|(kind, &count)| report::counted_kind(kind, count));
                let kinds: Vec<_> = kinds.collect();
                format!(
                    "fdtable: {}: {}",
                    counted(total, "finding", "findings"),
                    kinds.join(", ")
                )
            }
        };
        if self.suppressed > 0 {
            text += &format!("; {} suppressed", self.suppressed);
        }
        if open > 0 && !are_findings {
            text += &format!(
                "; {} open at exit, from {} (--leaks=full shows them)",
                counted(open, "descriptor", "descriptors"),
                counted(places, "place", "places")
            );
        }
        text.push('\n');
        text
    }
}

/// Returns the functions of a stack, up to the first one of the program.
fn stack(symbols: &mut Symbols, event: &Event) -> Vec<Frame> {
    let mut all = Vec::new();
    for place in &event.places {
        all.extend(symbols.frames(event.process, place));
        let last = all
            .last()
            .and_then(|frame: &Frame| frame.function.as_deref());
        if last.is_some_and(is_main) {
            break;
        }
    }
    all
}

/// Returns true for the first function of a program in C, Go or Rust: its callers are of the language.
fn is_main(function: &str) -> bool {
    ["main", "main.main"].contains(&function) || function.ends_with("::main")
}
