//! Description of the machine, which every report contains.

use std::fs;

use serde::Serialize;

use crate::affinity;

pub mod round_trip;

pub use round_trip::RoundTrip;

/// Description of the machine during one run.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model name that the CPU reports.
    pub cpu: String,
    /// CPUs that this process may use, at least 1.
    pub cpus: usize,
    /// Operating system and release of its kernel.
    pub kernel: String,
    /// Compiler that built this program.
    pub rustc: &'static str,
    /// Load average over the last 1, 5 and 15 minutes, at the start of the run.
    pub load_average: Option<[f64; 3]>,
    /// Cost of passing a cache line to another CPU and back, before the run and after it. None on a
    /// machine with one CPU.
    pub line_round_trip: Option<RoundTrip>,
}

impl Machine {
    /// Describes the machine and measures the round trip of a cache line. Takes about 20 ms.
    pub fn observe() -> Self {
        Machine {
            cpu: cpu_model().unwrap_or_else(|| "unknown".to_owned()),
            cpus: affinity::cpus(),
            kernel: kernel().unwrap_or_else(|| "unknown".to_owned()),
            rustc: env!("FDTABLE_RUSTC"),
            load_average: load_average(),
            line_round_trip: RoundTrip::measure(),
        }
    }

    /// Measures the round trip again: it may have moved during the run. Takes about 20 ms.
    pub fn observe_again(&mut self) {
        if let (Some(before), Some(now)) = (&mut self.line_round_trip, RoundTrip::measure()) {
            before.merge(&now);
        }
    }
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kernel() -> Option<String> {
    let name = nix::sys::utsname::uname().ok()?;
    Some(format!(
        "{} {}",
        name.sysname().to_str()?,
        name.release().to_str()?
    ))
}

fn load_average() -> Option<[f64; 3]> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let mut averages = text.split_whitespace().map_while(|word| word.parse().ok());
    Some([averages.next()?, averages.next()?, averages.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_a_cpu_and_knows_its_compiler() {
        let machine = Machine::observe();
        assert!(machine.cpus >= 1);
        assert!(machine.rustc.starts_with("rustc"));
        assert_eq!(machine.line_round_trip.is_some(), machine.cpus > 1);
    }
}
