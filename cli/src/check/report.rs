//! Findings as text for a person, and as lines of JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::message::{Event, Message};
use super::symbols::Frame;

/// A finding with its functions: a stack for each of its calls.
pub(super) struct Finding {
    pub(super) message: Message,
    pub(super) stacks: Vec<Vec<Frame>>,
    /// The number of processes that have it.
    pub(super) processes: usize,
}

/// Colours of a terminal, or none.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) is_coloured: bool,
}

const BOLD: &str = "1";
const RED: &str = "1;31";
const FAINT: &str = "2";

impl Style {
    fn paint(self, colour: &str, text: &str) -> String {
        match self.is_coloured {
            true => format!("\x1b[{colour}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    /// Returns a finding as a paragraph.
    pub(super) fn text(self, finding: &Finding) -> String {
        let message = &finding.message;
        let (what, example) = headline(message);
        let what = self.paint(RED, &what);
        let file = self.paint(BOLD, &message.file);
        let mut text = format!("fdtable: {what}, {example}{file}\n");
        let beside = match finding.processes {
            0 | 1 => String::new(),
            others => format!(" and {}", counted(others - 1, "other", "others")),
        };
        let _ = writeln!(
            text,
            "  in process {} ({}){beside}",
            message.process, message.program
        );
        for (event, frames) in message.events.iter().zip(&finding.stacks) {
            let place = match event.process == message.process {
                true => format!("thread {}", event.thread),
                false => format!("process {}, thread {}", event.process, event.thread),
            };
            let call = match event.what.as_str() {
                "failed" => format!("{} failed", event.call),
                what => format!("{what} by {}", event.call),
            };
            let _ = writeln!(text, "  {call} in {place}");
            self.stack(&mut text, frames);
        }
        text.push('\n');
        text
    }

    fn stack(self, text: &mut String, frames: &[Frame]) {
        for (index, frame) in frames.iter().enumerate() {
            let function = frame.function.as_deref().unwrap_or("??");
            let function = self.paint(BOLD, function);
            let place = match (&frame.source, frame.line) {
                (Some(source), Some(line)) => match frame.column {
                    Some(column) => format!("{source}:{line}:{column}"),
                    None => format!("{source}:{line}"),
                },
                _ => self.paint(FAINT, &module(frame)),
            };
            let inlined = match frame.is_inlined {
                true => " (inlined)",
                false => "",
            };
            let _ = writeln!(text, "    #{index} {function} {place}{inlined}");
        }
    }
}

/// Returns what was found, and the words before the name of the file.
fn headline(message: &Message) -> (String, String) {
    let (fd, descriptors) = (
        message.fd,
        counted(message.count, "descriptor", "descriptors"),
    );
    match message.kind.as_str() {
        "leak" => (format!("{descriptors} open at exit"), format!("as {fd}, ")),
        "limit" => (
            format!("no descriptor left: {descriptors} of one place open"),
            format!("as {fd}, "),
        ),
        "inherited" => (
            format!("descriptor {fd} inherited and never used"),
            String::new(),
        ),
        _ => (
            format!("{} of descriptor {fd}", message.title()),
            String::new(),
        ),
    }
}

impl Frame {
    /// Returns the line of code, or the address if that is not known.
    pub(super) fn line_of_code(&self) -> String {
        let function = self.function.as_deref().unwrap_or_default();
        match (&self.source, self.line) {
            (Some(source), Some(line)) => format!("{function} {source}:{line}"),
            _ => format!("{function} {}", module(self)),
        }
    }
}

/// Returns a place without a line.
fn module(frame: &Frame) -> String {
    match &frame.module {
        Some(module) => format!("({module}+{:#x})", frame.address),
        None => format!("({:#x})", frame.address),
    }
}

/// Returns a number of findings of a kind.
pub(super) fn counted_kind(kind: &str, count: usize) -> String {
    let words = kind.replace('-', " ");
    let several = match words.split_once(' ') {
        Some(("double", noun)) => format!("double {noun}s"),
        Some(("lost", noun)) => format!("lost {noun}s"),
        Some((noun, rest)) => format!("{noun}s {rest}"),
        None if kind == "inherited" => words.clone(),
        None => format!("{words}s"),
    };
    counted(count, &words, &several)
}

/// Returns a number with the noun that fits.
pub(super) fn counted(count: usize, one: &str, several: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {several}"),
    }
}

/// Returns a finding as an object.
pub(super) fn json(finding: &Finding) -> Value {
    let message = &finding.message;
    let calls = message.events.iter().zip(&finding.stacks);
    let calls: Vec<Value> = calls.map(|(event, frames)| call(event, frames)).collect();
    json!({
        "kind": message.kind,
        "fd": message.fd,
        "count": message.count,
        "file": message.file,
        "process": message.process,
        "thread": message.thread,
        "program": message.program,
        "calls": calls,
    })
}

fn call(event: &Event, frames: &[Frame]) -> Value {
    let frame = |frame: &Frame| {
        json!({
            "function": frame.function,
            "source": frame.source,
            "line": frame.line,
            "column": frame.column,
            "module": frame.module,
            "address": frame.address,
            "inlined": frame.is_inlined,
        })
    };
    json!({
        "what": event.what,
        "call": event.call,
        "process": event.process,
        "thread": event.thread,
        "frames": frames.iter().map(frame).collect::<Vec<_>>(),
    })
}
