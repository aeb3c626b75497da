//! The reports that are made, and their receivers.

use std::sync::OnceLock;

use super::findings::Findings;
use super::sink::Sink;
use crate::frame::Frame;
use crate::options::Owners;

/// The reports that are made, each with its receiver.
pub(super) struct Observers {
    pub(super) statistics: Option<Sink>,
    pub(super) trace: Option<Sink>,
    pub(super) list: Option<Sink>,
    pub(super) findings: Option<Findings>,
    pub(super) owners: Owners,
    /// Serves the calls.
    pub(super) serve: Serve,
}

/// Serves a call of the guest.
pub(super) type Serve = extern "C" fn(&mut Frame);

pub(super) static OBSERVERS: OnceLock<Observers> = OnceLock::new();
