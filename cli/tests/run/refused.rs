//! Programs that cannot be run: messages and exit codes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{OURS, compiled, fill, folder, is_installed, run, shown};

fn executable(folder: &Path, name: &str, contents: &[u8]) {
    let path = folder.join(name);
    fs::write(&path, contents).expect("a file");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("the mode");
}

#[test]
fn what_cannot_be_run_has_the_exit_code_of_a_shell() {
    let folder = folder("refused");
    fill(&folder);
    let program = fs::read(compiled("registers", &[])).expect("a program");
    let changed = |at: usize, bytes: &[u8]| {
        let mut changed = program.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let text = b"/lib64/ld-linux-x86-64.so.2";
    let interpreter = program
        .windows(text.len())
        .position(|window| window == text)
        .expect("an interpreter");
    executable(&folder, "short", b"\x7fELF\x01\x01");
    executable(&folder, "plain", b"no program\n");
    executable(&folder, "empty", b"");
    executable(&folder, "bits32", &changed(4, &[1]));
    // The machine of AArch64.
    executable(&folder, "arm", &changed(18, &[183, 0]));
    executable(&folder, "truncated", &program[..100]);
    executable(&folder, "no-loader", &changed(interpreter + 1, b"x"));
    executable(&folder, "no-interpreter", b"#!/no/such/interpreter\n");
    executable(&folder, "setuid", &program);
    fs::set_permissions(folder.join("setuid"), PermissionsExt::from_mode(0o4755)).expect("mode");
    let not_ours = "not a program for x86-64 Linux";
    for (program, code, text) in [
        ("no-such-program", 127, "No such file"),
        ("./missing", 127, "No such file"),
        ("./text", 126, "Permission denied"),
        ("./tree", 126, "Permission denied"),
        ("./text/below", 126, "Not a directory"),
        ("./short", 126, not_ours),
        ("./plain", 126, not_ours),
        ("./empty", 126, not_ours),
        ("./bits32", 126, not_ours),
        ("./arm", 126, not_ours),
        ("./truncated", 126, not_ours),
        ("./no-loader", 127, "No such file"),
        ("./no-interpreter", 127, "No such file"),
        ("./setuid", 126, "it would run as another user"),
    ] {
        let output = run(&OURS, &[program], &folder);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{program}: {errors}");
        assert!(
            errors.contains(&format!("fdtable: {program}: {text}")),
            "{errors}"
        );
    }
}

#[test]
fn a_directory_that_cannot_be_an_overlay_or_the_root_is_reported() {
    let folder = folder("refused-directories");
    fs::create_dir(folder.join("there")).expect("a folder");
    fs::write(folder.join("file"), "").expect("a file");
    let root = "cannot take as the root: ";
    for (options, text) in [
        (
            &["--overlay", "missing"][..],
            "cannot overlay missing: No such file",
        ),
        (
            &["--overlay", "file"],
            "cannot overlay file: Not a directory",
        ),
        (
            &["--overlay", "file/x"],
            "cannot overlay file/x: Not a directory",
        ),
        (&["--overlay", ""], "cannot overlay : No such file"),
        (
            &["--overlay", "/"],
            "cannot overlay /: the option for the root is --root",
        ),
        (
            &["--overlay", "/dev/shm"],
            "cannot overlay /dev/shm: it is below /dev or /proc",
        ),
        (
            &["--overlay", "there", "--overlay", "there/../there/"],
            "cannot overlay there/../there/: files are in memory there already",
        ),
        (
            &["--overlay", "there", "--mount", "there"],
            "cannot mount there: files are in memory there already",
        ),
        (
            &["--root", "missing"],
            &format!("{root}missing: No such file"),
        ),
        (&["--root", "file"], &format!("{root}file: Not a directory")),
        (&["--root", ""], &format!("{root}: No such file")),
    ] {
        let output = run(&[&OURS[..], options].concat(), &["true"], &folder);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{options:?}: {errors}");
        assert!(errors.contains(&format!("fdtable: {text}")), "{errors}");
    }
    // The program is one of the root.
    let output = run(
        &[&OURS[..], &["--root", "there"]].concat(),
        &["true"],
        &folder,
    );
    assert_eq!(output.status.code(), Some(127));
}

#[test]
fn a_signal_ends_the_runner_as_it_ends_the_program() {
    let folder = folder("killed");
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("SEGV", 139)] {
        let ours = format!("{} run sh -c 'kill -{signal} $$'; echo $?", OURS[0]);
        let output = run(&[], &["sh", "-c", &ours], &folder);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text, format!("{code}\n"), "{signal}");
    }
}

#[test]
fn an_unknown_option_is_an_error_of_usage() {
    let output = run(&OURS, &["--no-such-option", "true"], &folder("unknown"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{errors}");
    assert!(errors.contains("'--no-such-option'"), "{errors}");
}

#[test]
fn a_fork_ends_a_program_where_processes_cannot_share_a_kernel() {
    let without = compiled("without", &[]);
    let without = without.to_str().expect("a path");
    let limited = "ulimit -v 16000000; exec \"$0\" \"$@\"";
    for (place, missing) in [
        (&[without, "memfd_create"][..], "memfd_create(2): "),
        (&[without, "ptrace"], "the host does not allow ptrace(2)"),
        (&["bash", "-c", limited], "mmap(2) of 64 GiB: "),
    ] {
        let prefix = [place, &OURS].concat();
        let here = folder("unshared");
        fs::write(here.join("text"), "in one process\n").expect("a file");
        let output = run(&prefix, &["cat", "text"], &here);
        assert_eq!(shown(&output), "Some(0)\nin one process\n");
        let script = "echo begun; echo a | cat; echo goes on";
        let output = shown(&run(&prefix, &["bash", "-c", script], &here));
        let expected = format!(
            "Some(125)\nbegun\n\
             fdtable: the program forks, and its processes cannot share a kernel: {missing}"
        );
        assert!(output.starts_with(&expected), "{output}");
    }
}

#[test]
fn a_namespace_of_processes_is_refused() {
    let output = run(&OURS, &["unshare", "--pid", "true"], &folder("namespace"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("unshare failed: Invalid argument"),
        "{errors}"
    );
}

#[test]
fn a_process_that_waits_for_a_tracer_ends_with_a_sentence() {
    let folder = folder("traced");
    // As `gdb` finds out what the host can do.
    let source =
        "#include <signal.h>\n#include <sys/ptrace.h>\n#include <sys/wait.h>\n#include <unistd.h>
        int main(void) {
            int status;
            if (fork() == 0) {
                ptrace(PTRACE_TRACEME, 0, 0, 0);
                kill(getpid(), SIGSTOP);
                _exit(3);
            }
            wait(&status);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        }\n";
    fs::write(folder.join("traced.c"), source).expect("a file");
    let made = run(&["cc"], &["-w", "-o", "traced", "traced.c"], &folder);
    assert!(made.status.success(), "{}", shown(&made));
    assert_eq!(shown(&run(&[], &["./traced"], &folder)), "Some(0)\n");
    let sentence = "fdtable: a debugger cannot trace this process: the supervisor traces it\n";
    let output = shown(&run(&OURS, &["./traced"], &folder));
    assert_eq!(output, format!("Some(125)\n{sentence}"));
    if is_installed("gdb") {
        let mut sleeps = Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("it is there");
        let id = sleeps.id().to_string();
        let output = run(&OURS, &["gdb", "-q", "-batch", "-p", &id], &folder);
        sleeps.kill().expect("it was started");
        sleeps.wait().expect("it was killed");
        assert!(String::from_utf8_lossy(&output.stderr).contains(sentence));
    }
}

#[test]
fn the_doctor_names_what_the_host_lacks() {
    let folder = folder("doctor");
    let doctor = [OURS[0], "doctor"];
    let whole = shown(&run(&[], &doctor, &folder));
    let without = compiled("without", &[]);
    let without = without.to_str().expect("a path");
    for (call, name) in [
        ("memfd_create", "memfd_create(2), "),
        ("ptrace", "ptrace(2) "),
    ] {
        assert!(whole.contains(&format!("\nok       {name}")), "{whole}");
        let output = shown(&run(&[without, call], &doctor, &folder));
        assert!(output.starts_with("Some(0)\n"), "{output}");
        assert!(output.contains(&format!("\nmissing  {name}")), "{output}");
        assert!(output.contains("Its first fork ends it with exit code 125."));
    }
    let output = shown(&run(&OURS, &doctor, &folder));
    assert!(
        output.starts_with("Some(125)\nmissing  a process that no"),
        "{output}"
    );
}

#[test]
fn what_the_host_lacks_is_named() {
    let folder = folder("lacking");
    let ours = |options: &str, words: &str| format!("exec {} run {options} {words}", OURS[0]);
    let hidden = format!("umount -l /proc && {}", ours("", "true"));
    let full = "a report is incomplete: No space left";
    let mut scripts = vec![
        (ours("--max-fd 3", "true"), "true: the limit of descriptors"),
        (ours("--trace=/dev/full", "true"), full),
        (ours("--stats=/dev/full", "true"), full),
        (
            ours("", &ours("", "true")[5..]),
            "cannot start under another",
        ),
        (
            format!("ulimit -v 500000; {}", ours("", "true")),
            "true: Cannot allocate memory",
        ),
    ];
    let unshared = ["unshare", "-m", "true"];
    if run(&[], &unshared, &folder).status.success() {
        let hidden = format!("exec unshare -m sh -c '{hidden}'");
        scripts.push((hidden, "cannot start again by /proc/self/exe"));
    }
    for (script, text) in scripts {
        let output = run(&[], &["sh", "-c", &script], &folder);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{script}: {errors}");
        assert!(errors.starts_with(&format!("fdtable: {text}")), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}
