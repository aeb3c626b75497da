//! A server under load: redis, with its own load generator on the host.
//!
//! One server of each side runs at a time, in turns, on a loopback port of its own. The generator
//! holds 50 connections, and asks for and sets values of a few bytes.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::program::installed;
use super::{Run, SIDES, Side};
use crate::experiment::{Progress, alternate};
use crate::report::Figure;

/// Why there is no figure.
pub(super) const MISSING: &str = "No server: redis-server or redis-benchmark is not installed: \
     `apt-get install redis-server redis-tools`.";

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(10);

/// A server that is killed when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures requests a second on both sides. None if redis is not installed.
pub(super) fn measure(
    run: &Run,
    folder: &Path,
    progress: &dyn Progress,
) -> anyhow::Result<Option<Figure>> {
    let (Some(server), Some(load)) = (installed("redis-server"), installed("redis-benchmark"))
    else {
        return Ok(None);
    };
    progress.begin("run: a server", run.rounds as u64);
    let rates = alternate(SIDES.len(), run.rounds, progress, |place, _| {
        turn(run, &server, &load, folder, SIDES[place])
    })?;
    let ratio = rates[0].over(&rates[1]);
    Ok(Some(Figure::of_ratio("run.server_vs_host", &ratio)))
}

/// Runs a server under load once. Returns requests a second.
fn turn(run: &Run, server: &Path, load: &Path, folder: &Path, side: Side) -> anyhow::Result<f64> {
    let port = free_port()?;
    let mut command = run.command(side, server, None);
    command
        .args([
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
        ])
        .arg("--dir")
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut server = Server(command.spawn().context("redis-server")?);
    wait_until_it_listens(&mut server, port)?;
    let requests = (u64::from(run.work) * 2000).to_string();
    let mut command = Command::new(load);
    command.args(["-p", &port.to_string(), "-c", "50", "-n", &requests]);
    let output = command
        .args(["-t", "set,get", "--csv"])
        .output()
        .context("redis-benchmark")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // A row for each command: its name, its rate, and more.
    let rates = text.lines().filter(|line| line.contains("ET\""));
    let rates = rates.filter_map(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok());
    let rates: Vec<f64> = rates.collect();
    ensure!(
        rates.len() == 2,
        "redis-benchmark on {}: {text}",
        side.name()
    );
    Ok(rates.iter().sum::<f64>() / 2.0)
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

fn wait_until_it_listens(server: &mut Server, port: u16) -> anyhow::Result<()> {
    let began = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        let ended = server.0.try_wait()?;
        ensure!(ended.is_none(), "redis-server ended: {ended:?}");
        ensure!(began.elapsed() < START, "redis-server does not listen");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
