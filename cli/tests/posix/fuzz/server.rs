//! Runs scripts: a process of the C program for each subject, which serves one script after
//! another.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::compile;
use crate::host_lock::HostLock;
use crate::program::Subject;

/// A process that runs scripts.
pub(crate) struct Server {
    process: Child,
    scripts: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
    /// True if the process may change users and groups.
    pub(crate) is_root: bool,
}

impl Server {
    /// Starts the process. Fails with what it cannot have here, for example namespaces.
    pub(crate) fn start(subject: Subject) -> Result<Self, String> {
        let mut program = Subject::Host.command(compile::fuzz());
        match subject {
            Subject::Host => program.arg("host"),
            Subject::Ours => {
                // The runner is in the namespaces too: its processes know each other by their ids.
                let served = subject.command(compile::fuzz());
                let words = program.arg("ours").arg(served.get_program());
                words.args(served.get_args()).arg("serve")
            }
        };
        let mut process = program
            .env("FDT_MOUNT", "/mnt,mode=0777")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Self {
            scripts: process.stdin.take(),
            lines: BufReader::new(process.stdout.take().unwrap()),
            process,
            is_root: false,
        };
        match server.line().as_deref() {
            Some("ready: root") => server.is_root = true,
            Some("ready: user") => {}
            Some(unavailable) => return Err(unavailable.to_owned()),
            None => panic!("the program of scripts does not start for {subject:?}"),
        }
        Ok(server)
    }

    /// Begins to run a script. A line `&` begins the script of another thread.
    fn send(&mut self, script: &[String]) {
        let text = format!("{}\n.\n", script.join("\n"));
        let scripts = self.scripts.as_mut().unwrap();
        scripts.write_all(text.as_bytes()).unwrap();
        scripts.flush().unwrap();
    }

    /// Returns all lines of a script that was sent.
    fn receive(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.line().filter(|line| line != ".")).collect()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let length = self.lines.read_until(b'\n', &mut line).unwrap();
        let line = String::from_utf8_lossy(&line);
        (length > 0).then(|| line.trim_end_matches('\n').to_owned())
    }

    /// Runs a script, and returns its lines.
    pub(crate) fn run(&mut self, script: &[String]) -> Vec<String> {
        self.send(script);
        self.receive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process ends with its input.
        self.scripts = None;
        let _ = self.process.wait();
    }
}

/// The host and fdtable.
pub(crate) struct Pair {
    host: Server,
    ours: Server,
}

impl Pair {
    pub(crate) fn start() -> Result<Self, String> {
        Ok(Self {
            host: Server::start(Subject::Host)?,
            ours: Server::start(Subject::Ours)?,
        })
    }

    /// Returns true if the processes may change users and groups.
    pub(crate) fn is_root(&self) -> bool {
        self.host.is_root
    }

    /// Runs a script on both, one after the other: timers are of the host on both, with one inode,
    /// and it has locks. Returns the results of each call.
    pub(crate) fn run(&mut self, script: &[String]) -> [Vec<String>; 2] {
        let _locks = HostLock::take();
        [&mut self.host, &mut self.ours].map(|server| results(script, &server.run(script)))
    }
}

/// Returns the result of each call: what follows it in its line, and further lines that begin with
/// `+`. Calls after the end of a process have none.
fn results(script: &[String], lines: &[String]) -> Vec<String> {
    let mut results: Vec<String> = Vec::new();
    for line in lines {
        let call = script.get(results.len());
        let result = call.and_then(|call| line.strip_prefix(call.as_str()));
        match (result, results.last_mut()) {
            (Some(result), _) => {
                results.push(result.strip_prefix(" = ").unwrap_or(result).to_owned());
            }
            (None, Some(last)) => {
                last.push('\n');
                last.push_str(line.trim_start_matches('+').trim());
            }
            (None, None) => results.push(line.clone()),
        }
    }
    results.resize(script.len(), "(not reached)".to_owned());
    results
}

#[cfg(test)]
mod tests {
    use super::results;

    #[test]
    fn a_result_has_all_lines_up_to_the_next_call() {
        let script = ["s0 = dup(s1)", "tree()", "dup(s0)", "dup(s1)"].map(str::to_owned);
        let lines = [
            "s0 = dup(s1) = 3",
            "tree() = 0",
            "+ /a mode=0",
            "dup(s0) (ended by SIGABRT)",
        ];
        assert_eq!(
            results(&script, &lines.map(str::to_owned)),
            ["3", "0\n/a mode=0", " (ended by SIGABRT)", "(not reached)"]
        );
    }
}
