//! A program that answers requests over its standard streams, a line each.
//!
//! A request returns an answer or an error that names the program: it may die, exceed the time
//! limit, or send an invalid answer. The process is reaped when it is dropped.

#[cfg(feature = "experiments")]
use std::io::ErrorKind;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};

/// Time for a program to end after its input has ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between checks of a program that should end.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Most bytes of its standard error that are kept.
const STDERR_LIMIT: u64 = 4096;

/// Program that answers requests.
pub(crate) struct Program {
    name: &'static str,
    child: Child,
    /// None after its input was closed.
    requests: Option<ChildStdin>,
    answers: Receiver<String>,
    /// Collects its standard error; none after that was read.
    stderr: Option<JoinHandle<String>>,
}

impl Program {
    /// Starts `command`, with `name` for error messages.
    ///
    /// # Errors
    /// If the system cannot start it.
    pub(crate) fn start(name: &'static str, command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("{name}: the program did not start"))?;
        let piped = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(requests), Some(output), Some(errors)) = piped else {
            bail!("{name}: a stream of the program is missing");
        };
        Ok(Program {
            name,
            child,
            requests: Some(requests),
            answers: lines_of(output),
            stderr: Some(collect(errors)),
        })
    }

    /// Sends a line and returns the answer. Blocks for `limit` at most.
    ///
    /// # Errors
    /// If the program died, does not answer in time, or answers that it failed. It is killed,
    /// except in the last case.
    pub(crate) fn ask(&mut self, request: &str, limit: Duration) -> anyhow::Result<String> {
        let asked = self
            .requests
            .as_mut()
            .map(|to| writeln!(to, "{request}").and_then(|()| to.flush()));
        let answer = match asked {
            Some(Ok(())) => self.answers.recv_timeout(limit),
            // It does not read its input any more.
            Some(Err(_)) | None => Err(RecvTimeoutError::Disconnected),
        };
        match answer {
            Ok(answer) => match answer.strip_prefix("error ") {
                Some(reason) => bail!("{}: {reason}", self.name),
                None => Ok(answer),
            },
            Err(RecvTimeoutError::Timeout) => {
                self.end(Duration::ZERO);
                bail!("{}: the program did not answer in {limit:?}", self.name)
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.died()),
        }
    }

    /// Requests numbers: the answer is `word` and `N` numbers. None if the program does not support
    /// it.
    ///
    /// # Errors
    /// Errors of [`Program::ask`], and another kind of answer.
    #[cfg(feature = "experiments")]
    pub(crate) fn ask_numbers<const N: usize>(
        &mut self,
        request: &str,
        word: &str,
        limit: Duration,
    ) -> anyhow::Result<Option<[f64; N]>> {
        let answer = self.ask(request, limit)?;
        if answer == "cannot" {
            return Ok(None);
        }
        match numbers(&answer, word) {
            Some(numbers) => Ok(Some(numbers)),
            None => bail!("{}: the program answered {answer:?}, not {word}", self.name),
        }
    }

    /// Kills it and returns an error with its exit status.
    fn died(&mut self) -> anyhow::Error {
        let status = self.end(EXIT_TIMEOUT);
        let how = status.map_or_else(|| "and is lost".to_owned(), |status| status.to_string());
        let stderr = self.stderr.take().and_then(|it| it.join().ok());
        match stderr.as_deref().map(str::trim) {
            None | Some("") => anyhow!("{}: the program ended: {how}", self.name),
            Some(said) => anyhow!("{}: the program ended: {how}; it said: {said}", self.name),
        }
    }

    /// Closes its input, gives it time to end, and kills it then. Reaps it.
    fn end(&mut self, timeout: Duration) -> Option<ExitStatus> {
        self.requests = None;
        let asked = Instant::now();
        while asked.elapsed() < timeout {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(POLL_INTERVAL),
                Ok(status) => return status,
                Err(_) => break,
            }
        }
        // Fails if it has just ended by itself, which is fine.
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end(EXIT_TIMEOUT);
    }
}

/// Reads lines until the stream ends or the receiver is dropped.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

/// Reads all of a stream and keeps its beginning.
fn collect(mut errors: ChildStderr) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut beginning = Vec::new();
        // An unreadable part is left out.
        let _ = errors
            .by_ref()
            .take(STDERR_LIMIT)
            .read_to_end(&mut beginning)
            .and_then(|_| std::io::copy(&mut errors, &mut std::io::sink()));
        String::from_utf8_lossy(&beginning).into_owned()
    })
}

/// Runs a tool to its end, and returns what it has printed. None if it is not installed.
///
/// # Errors
/// If it fails, with its error messages.
#[cfg(feature = "experiments")]
pub(crate) fn output(tool: &mut Command) -> anyhow::Result<Option<String>> {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match tool.output() {
        Ok(output) if output.status.success() => Ok(Some(said(&output.stdout))),
        Ok(output) => bail!("{tool:?}, {}: {}", output.status, said(&output.stderr)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(format!("{tool:?}")),
    }
}

#[cfg(feature = "experiments")]
/// Parses `word` and numbers, none of which is negative.
fn numbers<const N: usize>(answer: &str, word: &str) -> Option<[f64; N]> {
    let mut words = answer.split_whitespace();
    if words.next() != Some(word) {
        return None;
    }
    let numbers: Vec<f64> = words
        .map(|word| word.parse().ok())
        .collect::<Option<Vec<f64>>>()?;
    let sane = numbers.iter().all(|it| it.is_finite() && *it >= 0.0);
    numbers.try_into().ok().filter(|_| sane)
}

#[cfg(all(test, feature = "experiments"))]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Program {
        Program::start("the fake", Command::new("sh").args(["-c", script])).unwrap()
    }

    fn error(program: &mut Program, limit: Duration) -> String {
        let asked = program.ask_numbers::<1>("turn", "ns", limit);
        asked.unwrap_err().to_string()
    }

    #[test]
    fn an_answer_of_a_program_is_parsed() {
        let mut program = shell("while read -r what more; do echo \"ns $more\"; done");
        for answer in [2.5, 7.0] {
            let asked = program.ask_numbers(&format!("turn {answer}"), "ns", SOON);
            assert_eq!(asked.unwrap(), Some([answer]));
        }
    }

    #[test]
    fn an_unsupported_request_is_no_error() {
        let mut program = shell("read -r what; echo cannot");
        let asked = program.ask_numbers::<1>("turn", "ns", SOON);
        assert_eq!(asked.unwrap(), None);
    }

    #[test]
    fn a_program_survives_a_failed_request() {
        let mut program = shell("read -r what; echo error no memory; read -r what; echo ns 1");
        assert_eq!(error(&mut program, SOON), "the fake: no memory");
        let asked = program.ask_numbers("turn", "ns", SOON);
        assert_eq!(asked.unwrap(), Some([1.0]));
    }

    #[test]
    fn a_program_that_dies_is_named_with_its_standard_error() {
        let mut program = shell("read -r what; echo out of luck >&2; exit 3");
        let said = error(&mut program, SOON);
        assert!(said.contains("the fake") && said.contains("3"), "{said}");
        assert!(said.contains("out of luck"), "{said}");
        // A second request gets the same error.
        assert!(error(&mut program, SOON).contains("ended"));
    }

    #[test]
    fn a_silent_program_is_killed() {
        let mut program = shell("exec sleep 1000");
        let said = error(&mut program, Duration::from_millis(20));
        assert!(said.contains("the fake") && said.contains("20ms"), "{said}");
        assert!(program.child.try_wait().unwrap().is_some());
    }

    #[test]
    fn nonsense_is_an_error() {
        for nonsense in ["", "ns", "ns many", "ns 1 2", "ns -1", "ns NaN", "bytes 1"] {
            let mut program = shell(&format!("read -r what; echo '{nonsense}'"));
            let said = error(&mut program, SOON);
            assert!(said.contains("the fake: the program answered"), "{said}");
        }
    }

    /// Returns true if the process exists, also as a zombie.
    fn exists(id: u32) -> bool {
        std::path::Path::new(&format!("/proc/{id}")).exists()
    }

    #[test]
    fn a_program_ends_when_its_handle_is_dropped() {
        let program = shell("read -r what");
        let id = program.child.id();
        assert!(exists(id));
        drop(program);
        assert!(!exists(id));
    }

    #[test]
    fn a_program_that_ignores_the_end_of_its_input_is_killed() {
        let mut program = shell("exec sleep 1000");
        let id = program.child.id();
        program.end(Duration::from_millis(1));
        assert!(!exists(id));
    }

    #[test]
    fn a_program_that_does_not_exist_does_not_start() {
        let started = Program::start("the fake", &mut Command::new("/nonexistent"));
        let said = started.err().unwrap().to_string();
        assert!(said.contains("the fake"), "{said}");
    }
}
