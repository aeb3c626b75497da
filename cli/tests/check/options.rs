//! The options of `fdtable check`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{built, check, errors, folder, is_installed};

#[test]
fn the_exit_code_is_that_of_the_program_without_findings_or_without_the_option() {
    let folder = folder("exit-code");
    let words = |text: &str| vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()];
    let output = check(&["--error-exitcode", "9"], &words("exit 3"), &folder);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let program = built("double_close.c", &folder, &[]);
    let output = check(&[], &program, &folder);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // The finding is one of another process.
    let script = format!("{}; exit 4", program[0]);
    let output = check(&["--error-exitcode", "9"], &words(&script), &folder);
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    assert!(errors(&output).contains("(double_close)"), "{output:?}");
}

#[test]
fn the_summary_comes_before_the_end_of_the_first_process() {
    let folder = folder("summary");
    let words = ["sh", "-c", "sleep 5 & exit 0"].map(str::to_owned);
    let output = check(&["--output", "report"], &words, &folder);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = fs::read_to_string(folder.join("report")).expect("a report");
    assert_eq!(report, "fdtable: no findings\n");
}

#[test]
fn lines_of_json_have_functions_and_lines() {
    let folder = folder("json");
    let program = built("double_close.c", &folder, &[]);
    let options = ["--json", "--output", "report"];
    let output = check(&options, &program, &folder);
    assert_eq!(errors(&output), "");
    let report = fs::read_to_string(folder.join("report")).expect("a report");
    let lines: Vec<Value> = report
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let [finding, summary] = &lines[..] else {
        panic!("{report}");
    };
    assert_eq!(finding["kind"], "double-close");
    assert_eq!(finding["file"], "/dev/null");
    assert_eq!(finding["program"], "double_close");
    let functions = |call: &Value| -> Vec<String> {
        let frames = call["frames"].as_array().expect("frames").iter();
        let of_program = frames.filter(|frame| frame["line"].is_u64());
        let names = of_program.filter_map(|frame| Some(frame["function"].as_str()?.to_owned()));
        names.collect()
    };
    let calls = finding["calls"].as_array().expect("calls");
    let whats: Vec<_> = calls.iter().map(|call| &call["what"]).collect();
    assert_eq!(whats, ["closed again", "closed", "opened"]);
    assert!(functions(&calls[0]).ends_with(&["end_connection".to_owned(), "main".to_owned()]));
    assert!(functions(&calls[1]).ends_with(&["end_request".to_owned(), "main".to_owned()]));
    assert_eq!(summary["kind"], "summary");
    assert_eq!(summary["findings"]["double-close"], 1);
}

#[test]
fn a_finding_is_suppressed_by_its_kind_and_a_function() {
    let folder = folder("suppressed");
    let program = built("double_close.c", &folder, &[]);
    for (line, is_suppressed) in [
        ("double-close:^end_request$", true),
        ("*:double_close.c", true),
        ("double-close:/dev/null", true),
        ("use-after-close:end_request", false),
        ("double-close:end_of_all", false),
    ] {
        fs::write(folder.join("known"), format!("# known\n{line}\n")).expect("a file");
        let options = ["--error-exitcode", "9", "--suppressions", "known"];
        let output = check(&options, &program, &folder);
        let (code, summary) = match is_suppressed {
            true => (0, "fdtable: no findings; 1 suppressed\n"),
            false => (9, "fdtable: 1 finding: 1 double close\n"),
        };
        assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
        assert!(errors(&output).ends_with(summary), "{line}: {output:?}");
    }
    fs::write(folder.join("known"), "nothing:a\n").expect("a file");
    let output = check(&["--suppressions", "known"], &program, &folder);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(errors(&output).contains("known: line 1: unknown kind nothing"));
}

#[test]
fn descriptors_left_open_are_counted_and_no_finding_by_default() {
    let folder = folder("leaks");
    let program = built("leak.c", &folder, &[]);
    let summary = |how: &str| {
        let output = check(
            &[&format!("--leaks={how}"), "--error-exitcode=9"],
            &program,
            &folder,
        );
        let report = errors(&output);
        let last = report.lines().last().unwrap_or_default().to_owned();
        (output.status.code(), last)
    };
    let counted =
        "fdtable: no findings; 5 descriptors open at exit, from 1 place (--leaks=full shows them)";
    assert_eq!(summary("summary"), (Some(0), counted.to_owned()));
    assert_eq!(summary("no"), (Some(0), "fdtable: no findings".to_owned()));
    assert_eq!(
        summary("full"),
        (Some(9), "fdtable: 1 finding: 1 leak".to_owned())
    );
}

#[test]
fn lines_are_found_without_pie_and_in_a_separate_debug_file() {
    let folder = folder("debug-file");
    for options in [&["-no-pie"][..], &["-static"], &["-static-pie"], &[]] {
        let program = built("double_close.c", &folder, options);
        if options.is_empty() {
            let run = |words: &[&str]| {
                let status = Command::new("objcopy")
                    .args(words)
                    .current_dir(&folder)
                    .status();
                assert!(status.expect("objcopy").success());
            };
            run(&["--only-keep-debug", "double_close", "double_close.debug"]);
            run(&["--strip-all", "double_close"]);
            run(&["--add-gnu-debuglink=double_close.debug", "double_close"]);
        }
        let output = check(&[], &program, &folder);
        let report = errors(&output);
        for wanted in ["end_request ", "end_connection ", "main "] {
            let lines = report.lines().filter(|line| line.contains(wanted));
            let has_source = |line: &str| line.contains("double_close.c:");
            assert!(lines.clone().count() > 0, "{options:?}: {report}");
            assert!(lines.clone().all(has_source), "{options:?}: {report}");
        }
    }
}

#[test]
fn functions_that_are_inlined_are_frames() {
    let folder = folder("inlined");
    let program = built("double_close.c", &folder, &["-O2", "-finline"]);
    let report = errors(&check(&[], &program, &folder));
    for function in ["end_request", "end_connection"] {
        let mut lines = report.lines().filter(|line| line.contains(function));
        let is_inlined = |line: &str| line.ends_with(" (inlined)") && line.contains(".c:");
        assert!(lines.next().is_some_and(is_inlined), "{report}");
    }
}

#[test]
fn a_program_gets_the_standard_descriptor_that_it_has_closed() {
    if !is_installed("python3") {
        return;
    }
    let folder = folder("standard");
    let script = "import os; os.close(0); fd = os.open('/dev/null', os.O_RDONLY); print(fd)";
    let output = check(&[], &["python3", "-c", script].map(str::to_owned), &folder);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{output:?}");
}
