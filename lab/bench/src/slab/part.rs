//! Parts of the experiment that need a process of their own: the program runs itself.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::{from_slice, to_string};

pub use super::footprint::Footprint;
use super::{cachegrind, colour, objects};
pub use crate::experiment::PART as COMMAND;
pub use fdtable_slab::Colouring;

/// The work of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Fills an allocator and prints its [`Footprint`] as JSON, or `null`.
    Footprint {
        /// Name of the allocator in reports.
        subject: String,
        /// Size of an object.
        bytes: usize,
        /// Live objects.
        live: usize,
    },
    /// Walks over the objects of many slabs, and prints nothing.
    Walk {
        /// True if slabs have colours.
        colouring: Colouring,
        /// Number of laps.
        rounds: usize,
    },
}

impl Part {
    /// Returns the arguments of the command line.
    pub fn arguments(&self) -> Vec<String> {
        let words = match self {
            Part::Footprint {
                subject,
                bytes,
                live,
            } => vec![
                "footprint".to_owned(),
                subject.clone(),
                bytes.to_string(),
                live.to_string(),
            ],
            Part::Walk { colouring, rounds } => {
                let colouring = match colouring {
                    Colouring::On => "on",
                    Colouring::Off => "off",
                };
                vec!["walk".to_owned(), colouring.to_owned(), rounds.to_string()]
            }
        };
        std::iter::once(COMMAND.to_owned()).chain(words).collect()
    }

    /// Does the work in this process, and returns the text to print.
    ///
    /// # Errors
    /// If there is no such allocator, or no memory.
    pub fn run(&self) -> anyhow::Result<String> {
        match self {
            Part::Footprint {
                subject,
                bytes,
                live,
            } => {
                let footprint = objects::find(subject, *bytes)?.measure_memory(*live)?;
                Ok(to_string(&footprint)?)
            }
            Part::Walk { colouring, rounds } => {
                colour::walk(*colouring, *rounds)?;
                Ok(String::new())
            }
        }
    }
}

/// The program that runs parts.
pub(super) struct Program(pub(super) PathBuf);

impl Program {
    /// Measures the memory of an allocator in a process of its own.
    pub(super) fn footprint(
        &self,
        subject: &str,
        bytes: usize,
        live: usize,
    ) -> anyhow::Result<Option<Footprint>> {
        let part = Part::Footprint {
            subject: subject.to_owned(),
            bytes,
            live,
        };
        let output = Command::new(&self.0)
            .args(part.arguments())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("starting {}", self.0.display()))?;
        ensure!(output.status.success(), "{subject}: {}", output.status);
        from_slice(&output.stdout).with_context(|| format!("{subject}: what its process printed"))
    }

    /// Counts the misses of a walk: those of the program with it, minus those of the program
    /// without a step. Returns none if the tool is missing.
    pub(super) fn misses(
        &self,
        colouring: Colouring,
        rounds: usize,
    ) -> anyhow::Result<Option<u64>> {
        let count = |rounds| {
            let part = Part::Walk { colouring, rounds };
            cachegrind::count(&self.0, &part.arguments())
        };
        let (walked, stood) = (count(rounds)?, count(0)?);
        Ok(walked
            .zip(stood)
            .map(|(walked, stood)| walked.first.saturating_sub(stood.first)))
    }
}
