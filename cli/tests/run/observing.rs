//! Reports about unmodified programs: `--stats`, `--trace`, `--list`, `--quarantine`, `--max-fd`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::{OURS, compiled, folder, run, shown};

/// Runs the stranger's program with options.
fn stranger(test: &str, options: &[&str], words: &[&str]) -> Output {
    let folder = folder(test);
    let program = stranger_program(test);
    let mut all = options.to_vec();
    all.push(&program);
    all.extend(words);
    run(&OURS, &all, &folder)
}

/// Compiles the program, to a place of the test's own.
fn stranger_program(test: &str) -> String {
    let name = format!("-DTEST_{}", test.replace('-', "_"));
    let program = compiled("stranger", &[&name]);
    program.to_str().expect("a path").to_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns calls, errors and the percentage that trapped, of a call.
fn line(report: &str, call: &str) -> (u64, u64, f64) {
    let line = report
        .lines()
        .find(|line| line.split_whitespace().last() == Some(call));
    let line = line.unwrap_or_else(|| panic!("no {call} in {report}"));
    let words: Vec<_> = line.split_whitespace().collect();
    let number = |index: usize| words[index].parse().expect("a number");
    (number(3), number(4), words[5].parse().expect("a share"))
}

#[test]
fn statistics_count_the_calls_of_all_threads() {
    let output = stranger("stats", &["--stats"], &["calls"]);
    assert_eq!(output.status.code(), Some(7), "{}", shown(&output));
    let report = errors(&output);
    let (calls, errors, trapped) = line(&report, "fcntl");
    assert_eq!((calls, errors), (1205, 5), "{report}");
    assert!(trapped > 0.0 && trapped < 5.0, "{report}");
    assert_eq!(line(&report, "exit").0, 2, "{report}");
    assert_eq!(line(&report, "exit_group").0, 1, "{report}");
    assert_eq!(report.matches("fdtable: system calls").count(), 1);
}

#[test]
fn statistics_of_a_program_that_a_signal_ends_leave_its_status() {
    for (what, signal) in [
        ("killed", libc_signal("TERM")),
        ("alarm", libc_signal("ALRM")),
    ] {
        let folder = folder("stats-killed");
        let program = stranger_program("stats-killed");
        let mut command = Command::new(OURS[0]);
        let words = ["run", "--stats", &program, what];
        let output = command.args(words).current_dir(&folder).output();
        let output = output.expect("the runner");
        assert_eq!(output.status.signal(), Some(signal), "{}", shown(&output));
        let report = errors(&output);
        assert_eq!(report.matches("fdtable: system calls").count(), 1);
        assert!(report.contains(" total\n"), "{report}");
    }
}

/// Returns the number of a signal.
fn libc_signal(name: &str) -> i32 {
    match name {
        "ALRM" => 14,
        _ => 15,
    }
}

#[test]
fn each_process_has_its_own_statistics() {
    let output = stranger("stats-fork", &["--stats=report"], &["fork"]);
    assert_eq!(shown(&output), "Some(3)\n");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run-stats-fork");
    let all = fs::read_to_string(folder.join("report")).expect("a report");
    let (first, second) = all
        .trim_start_matches("fdtable: ")
        .split_once("fdtable: ")
        .expect("two reports");
    // The child ends first.
    assert!(!first.contains("fcntl"), "{first}");
    assert_eq!(line(second, "fcntl").0, 1205);
    assert_eq!(line(second, "wait4").0, 1);
}

#[test]
fn a_trace_shows_arguments_and_results_and_what_is_not_served() {
    let output = stranger("trace", &["--trace=lines"], &["trace"]);
    assert_eq!(shown(&output), "Some(0)\n");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run-trace");
    let lines = fs::read_to_string(folder.join("lines")).expect("a trace");
    for wanted in [
        " openat(AT_FDCWD, \"traced\", O_RDWR|O_CREAT|O_CLOEXEC, 0640) = 3\n",
        ", 4) = 4\n",
        " lseek(3, 1, SEEK_END) = 5\n",
        " close(77) = -1 Bad file descriptor (os error 9)\n",
        " io_uring_setup(0x1, ",
        " = -1 Function not implemented (os error 38) (not served)\n",
    ] {
        assert!(lines.contains(wanted), "{wanted}\n{lines}");
    }
    assert!(!lines.contains("brk("), "{lines}");
}

#[test]
fn a_use_after_close_is_reported_with_both_stacks() {
    let output = stranger("closed", &["--quarantine", "8", "--owner"], &["closed"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "1 -1 9\n-1 9\n", "{}", shown(&output));
    let report = errors(&output);
    let (double, used) = report
        .split_once("fdtable: use after close of descriptor")
        .expect("both reports");
    assert!(
        double.contains("fdtable: double close of descriptor"),
        "{report}"
    );
    for (part, what) in [(double, "closed again by close"), (used, "used by read")] {
        let places = |what: &str| {
            let after = part.split_once(&format!("  {what} ")).expect(what).1;
            let stack = after.lines().skip(1);
            let stack = stack.take_while(|line| line.starts_with("    #"));
            stack.collect::<Vec<_>>().join("\n")
        };
        for what in [what, "closed by close", "opened by openat"] {
            assert!(places(what).contains("/stranger+0x"), "{what}: {report}");
            assert!(places(what).contains(" main "), "{what}: {report}");
        }
    }
}

#[test]
fn without_quarantine_a_double_close_is_silent() {
    let output = stranger("not-closed", &[], &["closed"]);
    assert_eq!(shown(&output), "Some(0)\n0 0 0\n-1 9\n");
}

#[test]
fn open_files_are_listed_on_a_signal_and_at_the_end() {
    let folder = folder("list");
    let program = stranger_program("list");
    let mut command = Command::new(OURS[0]);
    command.args(["run", "--list", &program, "list"]);
    command.current_dir(&folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the runner");
    let mut text = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    output.read_line(&mut text).expect("a line");
    assert_eq!(text, "open\n");
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -16 {}", child.id())])
        .status();
    assert!(sent.expect("a shell").success());
    let mut reports = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut while_running = String::new();
    // The list is there before the program goes on.
    while !while_running.contains("/fdt/memory") {
        let count = reports.read_line(&mut while_running).expect("a line");
        assert!(count > 0, "{while_running}");
    }
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"x").expect("the program reads");
    let mut at_end = String::new();
    reports.read_to_string(&mut at_end).expect("text");
    assert_eq!(child.wait().expect("an end").code(), Some(5));
    for list in [while_running, at_end] {
        assert!(list.contains("fdtable: open files of process"), "{list}");
        for name in ["/dev/zero", "/fdt/memory"] {
            let line = list.lines().find(|line| line.contains(name));
            let line = line.unwrap_or_else(|| panic!("no {name} in {list}"));
            assert!(line.contains("(openat, thread "), "{line}");
            assert!(line.contains("/stranger+0x"), "{line}");
            assert!(line.contains("20"), "{line}");
        }
    }
}

#[test]
fn a_child_reports_a_double_close_of_what_its_parent_has_opened() {
    let output = stranger("closed-tree", &["--quarantine", "8", "--owner"], &["tree"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "-1 9\n0\n", "{}", shown(&output));
    assert_eq!(output.status.code(), Some(4));
    let report = errors(&output);
    assert_eq!(report.matches("fdtable: ").count(), 2, "{report}");
    assert!(
        report.ends_with("fdtable: 1 finding: 1 double close\n"),
        "{report}"
    );
    let (used, opened) = report.split_once("  opened by openat ").expect("an open");
    assert!(used.starts_with("fdtable: double close of "), "{report}");
    assert!(opened.contains("/stranger+0x"), "{report}");
}

#[test]
fn each_process_lists_its_own_files() {
    let output = stranger("list-tree", &["--list=lists"], &["tree"]);
    assert_eq!(shown(&output), "Some(4)\n-1 9\n0\n");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run-list-tree");
    let lists = fs::read_to_string(folder.join("lists")).expect("lists");
    let (childs, parents) = lists
        .trim_start_matches("fdtable: ")
        .split_once("fdtable: ")
        .expect("two lists");
    assert!(!childs.contains("/dev/zero"), "{childs}");
    assert!(parents.contains("/dev/zero (openat, "), "{parents}");
}

#[test]
fn a_child_lists_its_files_on_a_signal() {
    let folder = folder("list-child");
    let script = "mkfifo fifo; (exec 5>/fdt/childs; read -r x <fifo) & child=$!
        until [ -e /fdt/childs ]; do sleep 0.01; done; kill -16 $child
        until grep -q /fdt/childs lists; do sleep 0.01; done; echo x >fifo; wait; echo done";
    let prefix = [&OURS[..], &["--list=lists"]].concat();
    let output = run(&prefix, &["bash", "-c", script], &folder);
    assert_eq!(shown(&output), "Some(0)\ndone\n");
    let lists = fs::read_to_string(folder.join("lists")).expect("lists");
    // On the signal, and at its end.
    assert_eq!(lists.matches("/fdt/childs").count(), 2, "{lists}");
}

#[test]
fn new_files_take_any_descriptor_and_copies_the_lowest() {
    let output = stranger("any", &["--any-fd"], &["any"]);
    assert_eq!(shown(&output), "Some(0)\n1 1 3 10 20 1 0 1 12 of 12\n");
    let output = stranger("lowest", &[], &["any"]);
    assert_eq!(shown(&output), "Some(0)\n0 1 5 10 20 1 0 1 0 of 12\n");
}

#[test]
fn a_million_descriptors_are_open_beyond_the_hosts_limit() {
    let output = stranger("many", &["--max-fd", "1000000"], &["many", "1000000"]);
    assert_eq!(
        shown(&output),
        "Some(0)\nlimit 1000000, open 1000000, then Too many open files\n"
    );
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_before_the_start() {
    let output = stranger("no-file", &["--stats=/no/such/folder/file"], &["calls"]);
    assert_eq!(
        shown(&output),
        "Some(125)\nfdtable: /no/such/folder/file: No such file or directory (os error 2)\n"
    );
}

#[test]
fn the_help_says_that_it_is_no_security_boundary() {
    let output = run(&OURS, &["--help"], &folder("help"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("This is no security boundary"), "{text}");
    assert!(text.contains("can write to its memory"), "{text}");
}
