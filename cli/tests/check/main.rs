//! `fdtable check`: what it finds in each program of `examples/bugs`, and that it finds nothing in
//! programs without faults.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

mod options;

const FDTABLE: &str = env!("CARGO_BIN_EXE_fdtable");

/// A new, empty folder for one test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("check-{test}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Returns the path of a program with a fault.
fn bug(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/bugs")
        .join(name)
}

fn is_installed(program: &str) -> bool {
    let script = format!("command -v {program}");
    let found = Command::new("sh").args(["-c", &script]).output();
    found.is_ok_and(|output| output.status.success())
}

/// Compiles a program with a fault, if it is one that is compiled. Returns how it is started.
fn built(name: &str, folder: &Path, options: &[&str]) -> Vec<String> {
    let source = bug(name);
    let (stem, kind) = name.rsplit_once('.').expect("a kind");
    let interpreter = match kind {
        "py" => Some("python3"),
        "sh" => Some("sh"),
        _ => None,
    };
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    if let Some(interpreter) = interpreter {
        return vec![interpreter.to_owned(), text(&source)];
    }
    let program = folder.join(stem);
    let mut compiler = match kind {
        "go" => Command::new("go"),
        "rs" => Command::new("rustc"),
        "cc" => Command::new("c++"),
        _ => Command::new("cc"),
    };
    match kind {
        "rs" => compiler.args(["-g", "-C", "opt-level=1"]),
        // Without inlined functions.
        "go" => compiler.args(["build", "-gcflags=-l"]),
        _ => compiler.args(["-g", "-O1", "-fno-inline", "-w", "-pthread"]),
    };
    compiler.args(options).arg("-o").arg(&program).arg(&source);
    let output = compiler.output().expect("a compiler");
    assert!(output.status.success(), "{output:?}");
    vec![text(&program)]
}

/// Runs a program under observation.
fn check(options: &[&str], program: &[String], folder: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args(["300", FDTABLE, "check"]);
    command.args(options).args(program);
    command.current_dir(folder).stdin(Stdio::null());
    command.output().expect("timeout is installed")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns what a report says on every machine: no ids, no numbers of descriptors, and only the
/// functions of the program itself.
fn portable(report: &str, folder: &Path, name: &str) -> String {
    let mut text = String::new();
    for line in report.lines() {
        let line = line.replace(&format!("{}/", folder.display()), "");
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if let [first, function, place, ..] = words[..]
            && first.starts_with('#')
        {
            let mut parts = place.rsplit('/').next().unwrap_or(place).split(':');
            if parts.next() == Some(name) {
                let line = parts.next().unwrap_or_default();
                // A compiler may add a hash to the name of a function.
                text += &format!("    {function} {name}:{line}\n");
            }
        } else if line.starts_with("fdtable: ") {
            for before in ["descriptor", "as"] {
                if let Some(at) = words.iter().position(|word| *word == before)
                    && let Some(word) = words.get_mut(at + 1)
                    && word.trim_end_matches(',').parse::<u32>().is_ok()
                {
                    *word = if word.ends_with(',') { "N," } else { "N" };
                }
            }
            let line = words[1..].join(" ");
            // Numbers of pipes and sockets, and ports.
            let line = match (line.find(":["), line.find(']')) {
                (Some(start), Some(end)) => format!("{}{}", &line[..start], &line[end + 1..]),
                _ => line,
            };
            text += line
                .split("127.0.0.1:")
                .next()
                .unwrap_or_default()
                .trim_end();
            // Some interpreters leave descriptors open.
            if let Some(at) = text.find("; ") {
                text.truncate(at);
            }
            text.push('\n');
        } else if !line.is_empty() && !line.starts_with("  in process") {
            let end = [" in thread ", " in process "].map(|place| line.find(place));
            let end = end.into_iter().flatten().min().unwrap_or(line.len());
            text += &line[..end];
            text.push('\n');
        }
    }
    text
}

/// Fails unless a program with a fault has the findings that are written beside it.
#[track_caller]
fn finds(name: &str) {
    let needs = match name.rsplit('.').next() {
        Some("go") => "go",
        Some("py") => "python3",
        _ => "sh",
    };
    if !is_installed(needs) {
        return eprintln!("skipped: {needs} is not installed");
    }
    let folder = folder(&name.replace('.', "-"));
    let program = built(name, &folder, &[]);
    let leaks = match name {
        "leak.c" | "limit.c" => "--leaks=full",
        _ => "--leaks=summary",
    };
    let options = [leaks, "--error-exitcode", "99"];
    let output = check(&options, &program, &folder);
    let report = errors(&output);
    let found = portable(&report, &folder, name);
    let expected_at = bug(&format!("{name}.txt"));
    if std::env::var_os("FDTABLE_WRITE_EXPECTED").is_some() {
        fs::write(&expected_at, &found).expect("the expected text");
    }
    let expected = fs::read_to_string(&expected_at).expect("the expected text");
    assert_eq!(found, expected, "{report}");
    assert_eq!(output.status.code(), Some(99), "{report}");
}

macro_rules! gallery {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            finds($name);
        })*

        #[test]
        fn each_program_of_the_gallery_has_a_test() {
            let mut known: Vec<&str> = vec![$($name),*];
            known.sort_unstable();
            let all = fs::read_dir(bug("")).expect("the gallery");
            let names = all.map(|entry| entry.expect("a file").file_name());
            let names = names.map(|name| name.to_str().expect("text").to_owned());
            let mut names: Vec<_> = names.filter(|name| !name.ends_with(".txt") && !name.ends_with(".md")).collect();
            names.sort_unstable();
            assert_eq!(names, known);
        }
    };
}

gallery! {
    a_double_close_is_found: "double_close.c",
    a_use_after_close_is_found: "use_after_close.c",
    waiting_for_a_closed_descriptor_is_found: "poll_after_close.c",
    sending_a_closed_descriptor_is_found: "send_after_close.c",
    a_lock_that_a_close_drops_is_found: "lost_lock.c",
    a_close_during_a_read_is_found: "close_during_read.c",
    a_dup2_during_a_read_is_found: "replace_during_read.c",
    a_listening_socket_that_a_helper_inherits_is_found: "inherited_socket.c",
    descriptors_that_are_left_open_are_found_by_place: "leak.c",
    the_place_that_has_taken_all_descriptors_is_found: "limit.c",
    a_double_close_in_a_child_is_found: "close_in_child.c",
    a_double_close_in_python_is_found: "double_close.py",
    a_use_after_close_in_a_shell_is_found: "use_after_close.sh",
    a_double_close_in_rust_is_found: "double_close.rs",
    a_double_close_in_go_is_found: "double_close.go",
    a_double_close_in_cpp_is_found: "double_close.cc",
    a_double_close_in_a_handler_is_found: "close_in_handler.c",
}

#[test]
fn nothing_is_found_in_programs_without_faults() {
    let folder = folder("clean");
    fs::write(
        folder.join("Makefile"),
        "all: a b\na b:\n\tls / | wc -l >$@\n",
    )
    .expect("a file");
    let programs: [&[&str]; 8] = [
        &[
            "sh",
            "-c",
            "ls / | wc; (cd /; ls) >list; exec 5<list; read x <&5; exec 5<&-",
        ],
        &[
            "bash",
            "-c",
            "ls / | wc; cat <(ls) <<<text; for i in 1 2 3; do ls | cat; done",
        ],
        &[
            "python3",
            "-c",
            "import subprocess; print(subprocess.run(['ls'], capture_output=True))",
        ],
        &["git", "init", "-q", "repository"],
        &["make", "-j2"],
        // It polls all descriptors of a range, to know which are open.
        &["xargs", "-a", "Makefile", "echo"],
        &[
            "perl",
            "-e",
            "open(my $f, '<', '/dev/null'); close $f; print `ls`",
        ],
        &[
            "find",
            "/usr/include",
            "-name",
            "std*.h",
            "-exec",
            "wc",
            "{}",
            "+",
        ],
    ];
    for program in programs.iter().filter(|words| is_installed(words[0])) {
        let words: Vec<String> = program.iter().map(|word| (*word).to_owned()).collect();
        let output = check(&["--leaks=no"], &words, &folder);
        let report = errors(&output);
        let summary = report.lines().last().unwrap_or_default();
        assert!(
            summary.starts_with("fdtable: no findings"),
            "{words:?}: {report}"
        );
        assert!(output.status.success(), "{words:?}: {report}");
    }
}

/// Code that is mapped is changed under a lock, and reports look it up.
#[test]
fn code_may_be_mapped_while_another_thread_has_findings() {
    let folder = folder("mapped");
    let source = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <fcntl.h>
        #include <pthread.h>
        #include <sched.h>
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        #ifdef LIBRARY
        static long leave_at(long fd) {
          long result;
          volatile char local[64];
          local[0] = 1;
          __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_close), "D"(fd) : "rcx", "r11", "memory");
          return result + local[0] - 1;
        }
        long leave(long fd) { volatile char local[256]; local[0] = 0; return leave_at(fd) + local[0]; }
        __asm__(".p2align 12\n.skip 8192, 0x90\n");
        #else
        static volatile int stop;
        static void pin(void) { cpu_set_t one; CPU_ZERO(&one); CPU_SET(sched_getcpu(), &one); sched_setaffinity(0, sizeof one, &one); }
        static void *maps(void *file) {
          nice(10);
          while (!stop) munmap(mmap(0, 0x9000, PROT_READ | PROT_EXEC, MAP_PRIVATE, *(int *)file, 0), 0x9000);
          return 0;
        }
        int main(void) {
          pthread_t thread;
          int file = open("./other.so", O_RDONLY);
          pin();
          if (file < 0 || pthread_create(&thread, 0, maps, &file)) return 1;
          for (int round = 0; round < 600; round++) {
            usleep(200);
            void *library = dlopen("./library.so", RTLD_NOW);
            long (*leave)(long) = (long (*)(long))dlsym(library, "leave");
            int fd = open("/dev/null", O_RDONLY);
            leave(fd);
            usleep(1);
            usleep(300);
            if (leave(fd) != -9) return 2;
            dlclose(library);
          }
          stop = 1;
          return pthread_join(thread, 0);
        }
        #endif
    "#;
    fs::write(folder.join("mapped.c"), source).expect("a file");
    for (name, options) in [
        ("library.so", &["-DLIBRARY", "-shared", "-fPIC"][..]),
        ("other.so", &["-DLIBRARY", "-shared", "-fPIC"]),
        ("mapped", &["-pthread"]),
    ] {
        let mut compiler = Command::new("cc");
        compiler
            .args(options)
            .args(["-w", "-o", name, "mapped.c", "-ldl"]);
        let output = compiler.current_dir(&folder).output().expect("a compiler");
        assert!(output.status.success(), "{output:?}");
    }
    let output = check(&[], &["./mapped".to_owned()], &folder);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert!(errors(&output).contains("600 double closes"));
}
