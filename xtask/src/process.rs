//! Runs other programs: through to the terminal, captured, or into a log.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Result, root};

/// How often a process with a time limit is looked at.
const POLL: Duration = Duration::from_millis(20);

/// A program that will run in the root of the workspace.
pub(crate) struct Process {
    command: Command,
    limit: Option<Duration>,
    log: Option<PathBuf>,
    terminal: Terminal,
}

/// True if the output of a process is shown as it comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Terminal {
    Shows,
    Quiet,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It exited with status 0.
    Success,
    /// It exited with another status, or a signal ended it.
    Failure(ExitStatus),
    /// It was killed at its time limit.
    TimedOut,
}

/// A process that has ended, with everything that it printed.
pub(crate) struct Finished {
    pub(crate) end: End,
    /// Standard output and standard error, in the order in which they were written.
    pub(crate) output: String,
}

impl Process {
    /// The program of that name, without arguments.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.current_dir(root()).stdin(Stdio::null());
        Self {
            command,
            limit: None,
            log: None,
            terminal: Terminal::Shows,
        }
    }

    /// `cargo` with a subcommand: `cargo("test")`, or `cargo("+nightly")` and the subcommand next.
    pub(crate) fn cargo(subcommand: &str) -> Self {
        Self::new("cargo").arg(subcommand)
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Adds the words of a command line, separated by spaces.
    pub(crate) fn words(self, line: &str) -> Self {
        self.args(line.split_whitespace())
    }

    /// Removes an environment variable.
    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs in another directory than the root of the workspace.
    pub(crate) fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Kills the process when it has run for `limit`.
    ///
    /// Processes that it started are not killed: start test binaries themselves (see
    /// [`test_binaries`]), not through cargo.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Appends everything that the process prints to `file`.
    pub(crate) fn log(mut self, file: impl Into<PathBuf>) -> Self {
        self.log = Some(file.into());
        self
    }

    /// Does not show on the terminal what the process prints.
    pub(crate) fn quiet(mut self) -> Self {
        self.terminal = Terminal::Quiet;
        self
    }

    /// Runs it to its end; fails unless it exits with status 0.
    pub(crate) fn run(self) -> Result {
        let line = self.line();
        let finished = self.finish()?;
        finished.require(&line).map(drop)
    }

    /// Runs it to its end without showing it, and returns what it printed; fails unless it exits
    /// with status 0.
    pub(crate) fn read(self) -> Result<String> {
        let line = self.line();
        self.quiet().finish()?.require(&line)
    }

    /// Runs it to its end, however it ends.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started or the log cannot be written.
    pub(crate) fn finish(mut self) -> Result<Finished> {
        let line = self.line();
        let mut log = match &self.log {
            Some(path) => Some(append(path)?),
            None => None,
        };
        if let Some(log) = &mut log {
            // In one write: processes that run beside it print to the same log.
            log.write_all(format!("$ {line}\n").as_bytes())?;
        }
        let (reader, writer) = io::pipe()?;
        self.command.stdout(writer.try_clone()?).stderr(writer);
        let start = Instant::now();
        let mut child = self
            .command
            .spawn()
            .map_err(|error| format!("{line}: {error}"))?;
        // The command keeps both ends that it would give to another child.
        drop(std::mem::replace(&mut self.command, Command::new("")));
        let terminal = self.terminal;
        let copier = thread::spawn(move || copy(reader, log, terminal));
        let end = wait(&mut child, self.limit.map(|limit| start + limit))?;
        let output = copier
            .join()
            .map_err(|_| "the copy of the output panicked")??;
        Ok(Finished { end, output })
    }

    /// The command line, to show it.
    pub(crate) fn line(&self) -> String {
        let mut words = Vec::new();
        for (name, value) in self.command.get_envs() {
            let value = value.unwrap_or_default().to_string_lossy();
            words.push(format!("{}={}", name.to_string_lossy(), quoted(&value)));
        }
        words.push(self.command.get_program().to_string_lossy().into_owned());
        words.extend(
            self.command
                .get_args()
                .map(|word| quoted(&word.to_string_lossy())),
        );
        words.join(" ")
    }
}

impl Finished {
    fn require(self, line: &str) -> Result<String> {
        match self.end {
            End::Success => Ok(self.output),
            End::Failure(status) => Err(format!("{line}: {status}").into()),
            End::TimedOut => Err(format!("{line}: not finished in time").into()),
        }
    }
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) {
        format!("'{word}'")
    } else {
        word.to_owned()
    }
}

/// Opens a file to append to, with the directories above it.
pub(crate) fn append(path: &Path) -> Result<File> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let opened = File::options().create(true).append(true).open(path);
    opened.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Copies what a process prints, line by line, until it has closed its end.
fn copy(reader: PipeReader, mut log: Option<File>, terminal: Terminal) -> io::Result<String> {
    let mut reader = BufReader::new(reader);
    let mut all = Vec::new();
    loop {
        let start = all.len();
        if reader.read_until(b'\n', &mut all)? == 0 {
            return Ok(String::from_utf8_lossy(&all).into_owned());
        }
        if terminal == Terminal::Shows {
            let mut stdout = io::stdout().lock();
            stdout.write_all(&all[start..])?;
            stdout.flush()?;
        }
        if let Some(log) = &mut log {
            log.write_all(&all[start..])?;
        }
    }
}

fn wait(child: &mut Child, deadline: Option<Instant>) -> Result<End> {
    let status = match deadline {
        None => child.wait()?,
        Some(deadline) => loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                child.kill()?;
                child.wait()?;
                return Ok(End::TimedOut);
            }
            thread::sleep(POLL);
        },
    };
    Ok(if status.success() {
        End::Success
    } else {
        End::Failure(status)
    })
}

/// A binary of tests.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct TestBinary {
    pub(crate) path: PathBuf,
    /// The directory of its package, in which cargo runs it.
    pub(crate) package: PathBuf,
}

/// Builds the tests that `cargo test` with these settings would run, and returns the paths of
/// their binaries; see [`build_tests`].
pub(crate) fn test_binaries(build: Process) -> Result<Vec<PathBuf>> {
    let binaries = build_tests(build)?;
    Ok(binaries.into_iter().map(|binary| binary.path).collect())
}

/// Builds the tests that `cargo test` with these settings would run.
///
/// `build` is a `cargo test` that ends before any `--`.
pub(crate) fn build_tests(build: Process) -> Result<Vec<TestBinary>> {
    let line = build.line();
    let build = build.words("--no-run --message-format json-render-diagnostics");
    let finished = build.quiet().finish()?;
    if finished.end != End::Success {
        eprint!("{}", finished.output);
        return Err(format!("{line}: does not build").into());
    }
    Ok(binaries(&finished.output))
}

/// The test binaries in cargo's messages, without programs and examples.
fn binaries(messages: &str) -> Vec<TestBinary> {
    let value = |line: &str, key: &str, end: char| {
        let (_, rest) = line.split_once(key)?;
        let (value, _) = rest.split_once(end)?;
        Some(value.to_owned())
    };
    let binary_of = |line: &str| {
        let profile = value(line, r#""profile":{"#, '}')?;
        let manifest = PathBuf::from(value(line, r#""manifest_path":""#, '"')?);
        let path = value(line, r#""executable":""#, '"')?.into();
        let package = manifest.parent()?.to_owned();
        let is_test = profile.contains(r#""test":true"#);
        is_test.then_some(TestBinary { path, package })
    };
    messages.lines().filter_map(binary_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_captured_in_order() {
        let shell = Process::new("sh").args(["-c", "echo one; echo two >&2; echo three"]);
        assert_eq!(shell.read().unwrap(), "one\ntwo\nthree\n");
    }

    #[test]
    fn a_process_is_killed_at_its_limit() {
        let sleep = Process::new("sleep")
            .arg("1000")
            .limit(Duration::from_millis(1));
        assert_eq!(sleep.finish().unwrap().end, End::TimedOut);
    }

    #[test]
    fn a_status_other_than_0_is_an_error_that_names_the_command() {
        let error = Process::new("sh")
            .args(["-c", "exit 3"])
            .run()
            .unwrap_err()
            .to_string();
        assert_eq!(error, "sh -c 'exit 3': exit status: 3");
    }

    #[test]
    fn binaries_are_the_tests_in_cargos_messages() {
        let of = |is_test: bool, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/a/Cargo.toml\",\
                 \"target\":{{\"test\":true}},\"profile\":{{\"opt_level\":\"0\",\"test\":{is_test}}},\
                 \"executable\":{executable},\"fresh\":true}}\n"
            )
        };
        let messages = [
            of(true, "null"),
            of(false, "\"/t/program\""),
            of(true, "\"/t/a-1\""),
        ];
        let binary = TestBinary {
            path: "/t/a-1".into(),
            package: "/w/a".into(),
        };
        assert_eq!(binaries(&messages.concat()), [binary]);
    }
}
