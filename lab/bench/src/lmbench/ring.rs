//! Processes that pass a token over pipes in a ring, each a thread.

use std::os::fd::RawFd;
use std::thread::spawn;

use fdtable_vfs::Errno;

use super::work::new_process;
use crate::affinity;
use crate::calls::Calls;

/// The receiver passes the token on.
const GO: u8 = 1;

/// The receiver of the token ends.
const LEAVE: u8 = 0;

/// A ring of processes. The first is the caller; the others wait for the token.
pub(super) struct Ring<P: Calls>(Member<P>);

struct Member<P: Calls> {
    process: P,
    from: RawFd,
    to: RawFd,
}

impl<P: Calls> Member<P> {
    /// Waits for the token.
    #[inline]
    fn wait(&self) -> Option<u8> {
        let mut token = [LEAVE];
        let count = self.process.read(self.from, &mut token).ok()?;
        (count == 1).then_some(token[0])
    }

    #[inline]
    fn pass(&self, token: u8) -> Option<()> {
        self.process.write(self.to, &[token]).ok().map(drop)
    }

    /// Forwards tokens until it receives the last one.
    fn take_part(&self) -> Option<()> {
        loop {
            let token = self.wait()?;
            self.pass(token)?;
            if token == LEAVE {
                return Some(());
            }
        }
    }
}

impl<P: Calls> Ring<P> {
    /// Makes a ring of `members` processes, at least 2. Binds all but the first to the CPU `cpu`.
    pub(super) fn new(members: usize, cpu: usize) -> Result<Self, Errno> {
        let process: P = new_process()?;
        let pipes: Vec<_> = (0..members)
            .map(|_| process.pipe())
            .collect::<Result<_, _>>()?;
        let member = |process, nth: usize| Member {
            process,
            from: pipes[nth].0,
            to: pipes[(nth + 1) % members].1,
        };
        for nth in 1..members {
            let member = member(process.fork()?, nth);
            spawn(move || {
                affinity::pin(cpu);
                // A member leaves a broken ring; the first member reports it.
                member.take_part();
            });
        }
        Ok(Ring(member(process, 0)))
    }

    /// Passes the token around the ring `times` times.
    #[inline(never)]
    pub(super) fn go_round(&self, laps: usize) -> Option<()> {
        for _ in 0..laps {
            self.0.pass(GO)?;
            self.0.wait()?;
        }
        Some(())
    }
}

impl<P: Calls> Drop for Ring<P> {
    /// Ends the threads of the others.
    fn drop(&mut self) {
        self.0.pass(LEAVE);
    }
}
