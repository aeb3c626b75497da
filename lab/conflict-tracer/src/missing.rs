//! Stubs for targets without stepping: everything returns that it is not supported here.
//!
//! Conflicts, transfers and models of traces from elsewhere still work.

use std::convert::Infallible;
use std::thread;

use crate::error::Error;
use crate::trace::Trace;

/// Never constructed.
pub(crate) struct Window(Infallible);

impl Window {
    pub(crate) fn new(_: u32) -> Result<Self, Error> {
        Err(Error::NotSupported)
    }

    pub(crate) fn record<R>(
        &mut self,
        _: usize,
        _: impl FnOnce() -> R,
    ) -> Result<thread::Result<R>, Error> {
        match self.0 {}
    }

    pub(crate) fn trace(&self, _: usize) -> Trace {
        match self.0 {}
    }
}

/// Never constructed.
#[derive(Debug)]
pub(crate) struct CpuId(Infallible);

impl CpuId {
    pub(crate) unsafe fn set(_: usize) -> Result<Self, Error> {
        Err(Error::NotSupported)
    }
}

pub(crate) fn possible_cpus() -> Result<usize, Error> {
    Err(Error::NotSupported)
}

/// There is no limit to raise.
pub(crate) fn raise_arena_limit() {}
