//! Clients that execute a load file as fast as possible.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use fdtable_vfs::MemFs;

use super::client::Client;
use super::loadfile::Loadfile;
use super::outcome::{Outcome, Tally, Until};
use super::workers::{self, FailureFlag};

/// Lines between two reads of the clock.
const STRIDE: usize = 256;

/// Executes `loadfile` with `clients` clients, at least 1. Each has a thread and a process of its
/// own, and the directory `clientN` where the file says `client1`, with N counted from 1; all are
/// on `fs`. Times in the file are ignored. Blocks until all are done.
///
/// # Errors
/// If the load file is empty or there is no client; if the result of an operation differs from the
/// recorded one, which ends the run; if a thread cannot be created.
///
/// ```
/// use std::sync::Arc;
/// use fdtable_bench::open_files::{Loadfile, Until, replay};
///
/// let text = r#"
/// Mkdir "\clients" NT_STATUS_OK
/// NTCreateX "\clients\common" 0x40 0x3 7 NT_STATUS_OK
/// Close 7 NT_STATUS_OK
/// "#;
/// let outcome = replay(&Loadfile::parse(text)?, 2, &Arc::default(), Until::Passes(5))?;
/// assert_eq!((outcome.operations, outcome.opens, outcome.closes), (30, 10, 10));
/// # Ok::<(), anyhow::Error>(())
/// ```
pub fn replay(
    loadfile: &Loadfile,
    clients: usize,
    fs: &Arc<MemFs>,
    until: Until,
) -> anyhow::Result<Outcome> {
    until.check()?;
    ensure!(clients > 0, "a load needs a client");
    ensure!(loadfile.operations() > 0, "the load file is empty");
    let prepare = |place| (place + 1, Client::new(loadfile, place + 1, fs));
    workers::run(clients, fs, prepare, |(number, client), failure| {
        play(client, loadfile, until, failure).with_context(|| format!("client {number}"))
    })
}

/// Executes lines until the end of the turn, and closes all files.
fn play(
    mut client: Client<'_>,
    loadfile: &Loadfile,
    until: Until,
    failure: &FailureFlag,
) -> anyhow::Result<Tally> {
    let began = Instant::now();
    let mut passes = 0;
    'all: while until.goes_on(passes, began) {
        for lines in loadfile.lines().chunks(STRIDE) {
            if failure.is_raised() || until.is_over(began) {
                break 'all;
            }
            lines.iter().try_for_each(|line| client.play(line))?;
        }
        client.close_all()?;
        passes += 1;
    }
    client.close_all()?;
    Ok(client.into_tally())
}

#[cfg(test)]
mod tests;
