//! The trace of a window so far, in memory that was allocated before the window opened.

use crate::access::{Access, Kind};
use crate::calls::{Calls, Mark, MarkKind};
use crate::error::Error;
use crate::trace::{Remark, Trace};

/// Most remarks.
const REMARKS: usize = 4096;

/// Buffer for one trace. Nothing here allocates once it is created.
pub(super) struct Log {
    accesses: Vec<Access>,
    remarks: Vec<(u64, Remark)>,
    calls: Vec<Mark>,
    /// Instructions that were about to run.
    steps: u32,
    /// The address of the last of them.
    rip: u64,
    /// Start of its accesses, and of its call or return.
    begin: (usize, usize),
    /// Most steps.
    limit: u32,
    /// True if the operation was traced to its end.
    has_ended: bool,
}

impl Log {
    /// Allocates a buffer for `limit` instructions, and as many accesses and a few.
    pub(super) fn new(limit: u32) -> Result<Self, Error> {
        let mut accesses = Vec::new();
        let mut remarks = Vec::new();
        let mut calls = Vec::new();
        accesses
            .try_reserve_exact(limit as usize)
            .map_err(|_| Error::OutOfMemory)?;
        calls
            .try_reserve_exact(limit as usize)
            .map_err(|_| Error::OutOfMemory)?;
        remarks
            .try_reserve_exact(REMARKS)
            .map_err(|_| Error::OutOfMemory)?;
        Ok(Self {
            accesses,
            remarks,
            calls,
            steps: 0,
            rip: 0,
            begin: (0, 0),
            limit,
            has_ended: false,
        })
    }

    pub(super) fn clear(&mut self) {
        self.accesses.clear();
        self.remarks.clear();
        self.calls.clear();
        self.steps = 0;
        self.begin = (0, 0);
        self.has_ended = false;
    }

    /// Copies the trace.
    pub(super) fn trace(&self, cpu: usize) -> Trace {
        Trace {
            cpu,
            accesses: self.accesses.clone(),
            remarks: self.remarks.clone(),
            calls: Calls::new(self.calls.clone()),
            instructions: self.steps,
            dependent_loads: 0,
        }
    }

    /// Starts an instruction. Returns false if there is no room for it.
    pub(super) fn begin(&mut self, rip: u64) -> bool {
        self.rip = rip;
        if self.steps == self.limit || self.accesses.len() == self.accesses.capacity() {
            self.remark(Remark::CutOff);
            return false;
        }
        self.steps += 1;
        self.begin = (self.accesses.len(), self.calls.len());
        true
    }

    /// Ends the operation: the last instruction was the call of the marker, and is removed.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        self.steps = self.steps.saturating_sub(1);
        self.accesses.truncate(self.begin.0);
        self.calls.truncate(self.begin.1);
    }

    /// Records an access of the current instruction. An access without room is missing, and the
    /// next instruction finds that there is no room.
    pub(super) fn access(&mut self, address: u64, size: u16, kind: Kind) {
        if self.accesses.len() < self.accesses.capacity() {
            self.accesses.push(Access {
                address,
                instruction: self.rip,
                step: self.steps - 1,
                size,
                kind,
            });
        }
    }

    /// Records that the instruction is a call or a return. There is room for one for each
    /// instruction.
    pub(super) fn call(&mut self, kind: MarkKind) {
        if self.calls.len() < self.calls.capacity() {
            let step = self.steps - 1;
            self.calls.push(Mark { step, kind });
        }
    }

    /// Records a remark. The last slot is for the remark that something is missing.
    pub(super) fn remark(&mut self, remark: Remark) {
        match REMARKS - self.remarks.len() {
            0 => {}
            1 => self.remarks.push((self.rip, Remark::CutOff)),
            _ => self.remarks.push((self.rip, remark)),
        }
    }

    /// Adds a remark that the end is missing, if it is and no remark says so yet.
    pub(super) fn check_end(&mut self) {
        let is_cut_off = |(_, remark): &(u64, Remark)| *remark == Remark::CutOff;
        if !self.has_ended && !self.remarks.iter().any(is_cut_off) {
            self.remark(Remark::SteppingLost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_of_the_marker_leaves_nothing() {
        let mut log = Log::new(8).unwrap();
        log.begin(1);
        log.access(64, 8, Kind::Load);
        let before = log.trace(0);
        log.begin(2);
        log.access(128, 8, Kind::Store);
        log.call(MarkKind::Call(2));
        log.end();
        assert_eq!(log.trace(0), before);
    }

    #[test]
    fn remarks_past_the_last_slot_leave_one_that_says_so() {
        let mut log = Log::new(8).unwrap();
        for _ in 0..REMARKS + 2 {
            log.remark(Remark::Pause);
        }
        let trace = log.trace(0);
        assert_eq!(trace.remarks().len(), REMARKS);
        assert_eq!(trace.remarks().last(), Some(&(0, Remark::CutOff)));
        assert!(!trace.is_whole());
    }

    #[test]
    fn accesses_past_the_last_place_make_the_trace_a_part() {
        let mut log = Log::new(1).unwrap();
        assert!(log.begin(1));
        for address in 0..64 {
            log.access(address, 1, Kind::Load);
        }
        assert!(!log.begin(2));
        assert!(!log.trace(0).is_whole());
    }

    #[test]
    fn a_window_that_was_never_closed_has_an_incomplete_trace() {
        let mut log = Log::new(8).unwrap();
        log.begin(1);
        log.check_end();
        log.check_end();
        assert_eq!(log.trace(0).remarks()[0], (1, Remark::SteppingLost));
        log.clear();
        log.begin(1);
        log.end();
        log.check_end();
        assert!(log.trace(0).is_whole());
    }
}
