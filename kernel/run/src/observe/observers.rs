//! The reports that are made, and their receivers.

use std::sync::OnceLock;

use super::findings::Findings;
use super::sink::Sink;
use crate::block::Block;
use crate::frame::Frame;
use crate::options::Owners;

/// The reports that are made, each with its receiver.
pub(super) struct Observers {
    pub(super) statistics: Option<Sink>,
    pub(super) trace: Option<Sink>,
    pub(super) list: Option<Sink>,
    pub(super) findings: Option<Findings>,
    pub(super) owners: Owners,
    pub(super) answer: Answer,
}

/// Serves a call of the guest, but for the return to the guest. Returns the site at which the call
/// has trapped, or 0.
pub(super) type Answer = fn(&'static Block, &mut Frame) -> u64;

pub(super) static OBSERVERS: OnceLock<Observers> = OnceLock::new();
