//! `--overlay` and `--root`: the program sees the host's directory, and changes stay in memory.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{OURS, compiled, folder, is_installed, left_in, run, shown};

/// A tree whose files have old times, so that each change shows.
fn fill(top: &Path) {
    for directory in ["d0/d2", "d1", "empty"] {
        fs::create_dir_all(top.join(directory)).expect("a directory");
    }
    for (index, name) in ["f0", "f1", "f2", "d0/f0", "d0/f3", "d0/d2/f4", "d1/f1"]
        .iter()
        .enumerate()
    {
        let text = format!("{name} below\n").repeat(index * 300 + 1);
        fs::write(top.join(name), text).expect("a file");
        let mode = Permissions::from_mode(0o600 + index as u32 * 8);
        fs::set_permissions(top.join(name), mode).expect("the mode");
    }
    fs::hard_link(top.join("f2"), top.join("d1/linked")).expect("a hard link");
    symlink("d0/f3", top.join("link")).expect("a link");
    symlink("missing", top.join("d1/dangling")).expect("a link");
    make_old(top);
}

/// Gives all files of a tree times of 2001.
pub(super) fn make_old(top: &Path) {
    let arguments = ["-h", "-d", "2001-02-03 04:05:06.789"];
    let mut touch = Command::new("find");
    touch.arg(top).args(["-depth", "-exec", "touch"]);
    touch.args(arguments).args(["{}", "+"]);
    assert!(touch.status().expect("find").success());
}

/// Everything about a tree that a change would leave a trace in.
pub(super) fn state(top: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut waiting = vec![top.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let meta = fs::symlink_metadata(&path).expect("a file");
        let contents = match meta.file_type() {
            kind if kind.is_dir() => {
                let entries = fs::read_dir(&path).expect("a directory");
                waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
                Vec::new()
            }
            kind if kind.is_file() => fs::read(&path).expect("a file"),
            _ => fs::read_link(&path)
                .map_or(Vec::new(), |to| to.into_os_string().into_encoded_bytes()),
        };
        let times = [
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec(),
        ];
        let links = (meta.mode(), meta.nlink(), meta.size());
        let mut hasher = DefaultHasher::new();
        contents.hash(&mut hasher);
        all.push(format!(
            "{path:?} {links:?} {times:?} {:x}",
            hasher.finish()
        ));
    }
    all.sort();
    all
}

/// Runs words in a folder with a directory as an overlay, and fails if that has changed.
#[track_caller]
pub(super) fn in_overlay(top: &Path, words: &[&str], folder: &Path) -> String {
    let before = state(top);
    let prefix = [&OURS[..], &["--overlay", text(top)]].concat();
    let output = run(&prefix, words, folder);
    assert_eq!(state(top), before, "{words:?} {}", shown(&output));
    shown(&output)
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Two folders of a test, of the same contents: for the host, and for us.
pub(super) fn pair(test: &str, fill: impl Fn(&Path)) -> [PathBuf; 2] {
    let top = folder(test);
    ["host", "ours"].map(|name| {
        let one = top.join(name);
        fs::create_dir(&one).expect("a folder");
        fill(&one);
        one
    })
}

#[test]
fn the_working_directory_may_be_deep_in_an_overlay() {
    let top = folder("overlay-deep");
    fill(&top);
    let script = "pwd; echo new >f4; cd ..; read l <d2/f4; echo $l; rm f0; exec pwd";
    let output = in_overlay(&top, &["sh", "-c", script], &top.join("d0/d2"));
    let directory = top.join("d0");
    let expected = format!("Some(0)\n{0}/d2\nnew\n{0}\n", directory.display());
    assert_eq!(output, expected);
    let words = [
        "perl",
        "-MCwd",
        "-e",
        "rename '../d2', '../../d9'; print getcwd",
    ];
    let output = in_overlay(&top, &words, &top.join("d0/d2"));
    assert_eq!(output, format!("Some(0)\n{}/d9", top.display()));
}

#[test]
fn changes_are_seen_by_the_program_and_not_by_the_host() {
    let top = folder("overlay-changes");
    fill(&top);
    let script = "echo new >f0; echo more >>f1; read line <f0; echo $line; cd d1; echo x >y; pwd
        exec tail -n 1 ../f0 ../f1 y linked";
    let output = in_overlay(&top, &["sh", "-c", script], &top);
    let expected = format!(
        "Some(0)\nnew\n{}/d1\n==> ../f0 <==\nnew\n\n==> ../f1 <==\nmore\n\n==> y <==\nx\n\n\
         ==> linked <==\nf2 below\n",
        top.display()
    );
    assert_eq!(output, expected);
}

#[test]
fn the_options_take_relative_paths_and_several_overlays() {
    let top = folder("overlay-several");
    for name in ["one", "two", "three"] {
        fs::create_dir(top.join(name)).expect("a folder");
        fs::write(top.join(name).join("file"), name).expect("a file");
    }
    let options = [
        "--overlay",
        "one/",
        "--overlay",
        "./two",
        "--mount",
        "two/m",
    ];
    let prefix = [&OURS[..], &options].concat();
    let script = "echo 1 >one/file; echo 2 >two/new; echo 3 >three/file; echo 4 >two/m/x
        exec cat one/file two/new two/file three/file two/m/x";
    let output = run(&prefix, &["sh", "-c", script], &top);
    assert_eq!(shown(&output), "Some(0)\n1\n2\ntwo3\n4\n");
    let left = [
        ("one/file", "one"),
        ("three/file", "3\n"),
        ("two/file", "two"),
    ];
    let left = left.map(|(name, text)| (PathBuf::from(name), text.into()));
    assert_eq!(left_in(&top), left);
}

/// Numbers that look random, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }

    fn path(&mut self) -> String {
        let parents = ["", "", "d0/", "d1/", "d0/d2/", "empty/", "n0/"];
        let names = [
            "f0", "f1", "f2", "f3", "f4", "d0", "d1", "d2", "empty", "link", "linked", "n0", "n1",
        ];
        format!("{}{}", self.of(&parents), self.of(&names))
    }
}

/// What the scripts of operations begin with: a listing of all files, with what is the same on both
/// sides.
const LISTING: &str = r#"
use strict; use Fcntl; my %open;
sub sum { my $t = shift; length($t) . "/" . unpack("%32C*", $t) }
sub contents { open(my $f, "<", shift) or return "e" . ($!+0); local $/; my $t = <$f>; sum($t // "") }
sub show {
    my ($d) = @_;
    opendir(my $h, $d) or return print "$d: ", $!+0, "\n";
    for my $n (sort grep { !/^\.\.?$/ } readdir $h) {
        my $p = "$d/$n"; my @s = lstat $p; my $old = $s[9] < 1500000000 ? $s[9] : "new";
        printf "%s %o %d %d %s", $p, $s[2], $s[4], $s[5], $old;
        if (-l _) { print " -> ", readlink($p) }
        elsif (-d _) { print "\n"; show($p); next }
        else { print " $s[3] $s[7] ", contents($p) }
        print "\n";
    }
}
sub did { print shift, " ", (shift) ? "ok" : "e" . ($!+0), "\n" }
"#;

/// Returns a script in Perl of random operations, each of which prints its result.
fn operations(seed: u64, count: usize) -> String {
    let mut random = Random(seed);
    let mut script = LISTING.to_owned();
    for number in 0..count {
        let (one, other) = (random.path(), random.path());
        let amount = random.below(9000);
        let line = match random.below(17) {
            0 => format!(
                "my $f; did('write', open($f, '>', '{one}') && print($f 'w' x {amount}) && close($f))"
            ),
            1 => format!(
                "my $f; did('append', open($f, '>>', '{one}') && print($f 'a{number}') && close($f))"
            ),
            2 => format!(
                "my $f; did('over', open($f, '+<', '{one}') && seek($f, {amount}, 0) && print($f 'o{number}') && close($f))"
            ),
            3 => format!("did('truncate', truncate('{one}', {amount}))"),
            4 => format!("did('chmod', chmod({}, '{one}'))", 0o400 + amount % 0o377),
            5 => format!("did('utime', utime(1000000000, 1000000000 + {number}, '{one}'))"),
            6 | 7 => format!("did('rename', rename('{one}', '{other}'))"),
            8 => format!("did('link', link('{one}', '{other}'))"),
            9 => format!("did('symlink', symlink('{other}', '{one}'))"),
            10 => format!("did('mkdir', mkdir('{one}'))"),
            11 => format!("did('rmdir', rmdir('{one}'))"),
            12 => format!("did('unlink', unlink('{one}'))"),
            13 => format!("did('new', sysopen(my $f, '{one}', O_CREAT | O_EXCL | O_RDWR))"),
            14 => format!(
                "did('keep', open($open{{{}}}, '{}', '{one}'))",
                amount % 4,
                random.of(&["<", "+<", ">>"])
            ),
            15 => format!(
                "if (my $f = $open{{{0}}}) {{ did('kept', syswrite($f, 'k{number}')); sysseek($f, 0, 0); \
                 my $r = sysread($f, my $t, 99999); print defined $r ? sum($t) : $!+0, ' ', -d $f ? 'd' : -s _, \"\\n\" }}",
                amount % 4
            ),
            _ => format!(
                "print '{one} ', contents('{one}'), \"\\n\"; show('{one}') if -d '{one}' && !-l '{one}'"
            ),
        };
        writeln!(script, "{{ print '{number} '; {line} }}").expect("memory");
    }
    script + "print \"---\\n\"; show('.');\n"
}

#[test]
fn random_operations_do_what_they_do_on_the_host() {
    for seed in 1..=12 {
        let [host, ours] = pair("overlay-random", fill);
        let script = operations(seed, 120);
        let words = ["perl", "-e", &script];
        let expected = shown(&run(&[], &words, &host));
        assert!(expected.starts_with("Some(0)"), "{expected}");
        let output = in_overlay(&ours, &words, &ours);
        let differs = output.lines().zip(expected.lines()).find(|(a, b)| a != b);
        assert_eq!(output, expected, "seed {seed}: {differs:?}");
    }
}

#[test]
fn a_removal_from_above_and_by_links_of_the_host_does_not_reach_the_host() {
    let top = folder("overlay-ways");
    let below = top.join("here/below");
    fs::create_dir_all(&below).expect("a folder");
    fill(&below);
    symlink("here/below/d0", top.join("into")).expect("a link");
    symlink(top.join("here"), top.join("absolute")).expect("a link");
    for words in [
        // By descriptors of directories above.
        &["rm", "-rf", "here"][..],
        &["find", ".", "-delete"],
        &[
            "sh",
            "-c",
            "cd here/below/d0/d2; rm f4; echo x >../f0; exec rm -r ../../d1",
        ],
        &[
            "perl",
            "-e",
            "rename 'here', 'moved'; system 'rm -r moved absolute/below'",
        ],
        &["rm", "-r", "absolute/below"],
        &["rm", "into/f3", "into/../f1"],
        &["mv", "absolute/below/d0", "absolute/below/d1/moved"],
        &[
            "sh",
            "-c",
            "cd into; echo x >f0; echo y >d2/f4; >../f0; exec chmod 0 f3",
        ],
        &["truncate", "-s", "0", "into/f0", "absolute/below/f0"],
        &[
            "perl",
            "-e",
            "chdir 'here'; for (<below/*>, </proc/self/cwd/below/*>) { unlink; chmod 0, $_ }",
        ],
    ] {
        in_overlay(&below, words, &top);
        // Links of the host outside may go.
        let _ = symlink("here/below/d0", top.join("into"));
        let _ = symlink(top.join("here"), top.join("absolute"));
    }
    // And what one way changes, the other shows.
    let script = "echo changed >into/f0; exec cat absolute/below/d0/f0 here/below/d0/f0";
    let output = in_overlay(&below, &["sh", "-c", script], &top);
    assert_eq!(output, "Some(0)\nchanged\nchanged\n");
    let listed = in_overlay(&below, &["find", ".", "-name", "f4"], &top);
    assert_eq!(listed, "Some(0)\n./here/below/d0/d2/f4\n");
}

#[test]
fn links_lead_out_of_an_overlay_and_back() {
    let top = folder("overlay-out");
    let below = top.join("below");
    fs::create_dir_all(below.join("d")).expect("a folder");
    fs::create_dir(top.join("host")).expect("a folder");
    fs::write(top.join("outside"), "outside\n").expect("a file");
    fs::write(below.join("d/file"), "inside\n").expect("a file");
    for (target, name) in [
        ("/usr/bin/env", "below/env"),
        ("../outside", "below/out"),
        ("../host", "below/host"),
        ("/proc/self/fd", "below/fds"),
        ("/proc/self/fd", "fds"),
        ("../back", "below/there-and-back"),
        ("below/d", "back"),
        ("b", "below/a"),
        ("../c", "below/b"),
        ("below/a", "c"),
    ] {
        symlink(target, top.join(name)).expect("a link");
    }
    let script = r#"
        sub line { open(my $f, "<", shift) or return $!+0; my $l = <$f>; chomp $l; $l }
        print line("out"), "\n"; open(F, ">", "out"); print F "changed\n"; close F;
        print line("there-and-back/file"), " ", line("a"), "\n";
        mkdir "new"; print line("new/../../outside"), " ", line("../below/new/../d/file"), "\n";
        print join(" ", map { lstat($_); -l _ ? "link" : -d _ ? "directory" : $!+0 } "host", "host/", "host/."), "\n";
        open(D, "+<", "d/file"); unlink "d/file"; print line("fds/" . fileno(D)), "\n";
        print line("../fds/" . fileno(D)), " ", line("d/file"), "\n";
        chdir ".."; print line("below/new/../../outside"), " ", -d "below/new/../host" ? 1 : 0, "\n";
        exec "below/env", "cat", "below/out"
    "#;
    let output = in_overlay(&below, &["perl", "-e", script], &below);
    let expected = "outside\ninside 40\nchanged inside\nlink directory directory\ninside\ninside 2\n\
                    changed 1\nchanged\n";
    assert_eq!(output, format!("Some(0)\n{expected}"));
    let written = fs::read_to_string(top.join("outside")).expect("a file");
    assert_eq!(written, "changed\n");
}

#[test]
fn attributes_are_those_of_the_host() {
    let top = folder("overlay-attributes");
    fill(&top);
    let format = "%p %y %m %U %G %s %b %n %i %T@ %C@ %l\n";
    let others = ["/usr/lib/x86_64-linux-gnu", "/usr/share/doc"].map(Path::new);
    let others = others.into_iter().filter(|path| path.is_dir());
    for directory in std::iter::once(top.as_path()).chain(others) {
        let words = ["find", ".", "-printf", format];
        let expected = shown(&run(&[], &words, directory));
        let prefix = [&OURS[..], &["--overlay", "."]].concat();
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let output = shown(&run(&prefix, &words, directory));
        assert_eq!(sorted(&output), sorted(&expected), "{directory:?}");
    }
}

#[test]
fn reads_leave_the_times_of_the_host() {
    let top = folder("overlay-times");
    fill(&top);
    let times = || {
        ["f0", "d0", "d0/f3"].map(|name| {
            let meta = fs::metadata(top.join(name)).expect("a file");
            (meta.atime(), meta.atime_nsec())
        })
    };
    let before = times();
    let prefix = [&OURS[..], &["--overlay", text(&top)]].concat();
    let output = run(&prefix, &["grep", "-rc", "below", "."], &top);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    assert_eq!(times(), before);
}

#[test]
fn programs_and_libraries_below_an_overlay_are_mapped_and_run() {
    let top = folder("overlay-programs");
    let program = compiled("mapped", &[]);
    fs::copy(&program, top.join("program")).expect("a copy");
    fs::write(top.join("data"), "below ".repeat(5000)).expect("a file");
    let words = [text(&top.join("program")).to_owned(), "data".to_owned()];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = in_overlay(&top, &words, &top);
    let program = top.join("program");
    assert_eq!(
        output,
        format!("Some(0)\n{0}\n{0}\ndone\n", program.display())
    );
    let source = "#include <unistd.h>
        __attribute__((constructor)) void load(void) { write(1, \"loaded\\n\", 7); }";
    fs::write(top.join("library.c"), source).expect("a file");
    let options = ["-w", "-shared", "-fPIC", "-o", "library.so", "library.c"];
    let made = Command::new("cc").args(options).current_dir(&top).status();
    assert!(made.expect("a C compiler").success());
    let preload = format!("LD_PRELOAD={}/library.so", top.display());
    let output = in_overlay(&top, &["env", &preload, "echo", "x"], &top);
    assert_eq!(output, "Some(0)\nloaded\nx\n");
}

#[test]
fn a_large_file_is_read_and_mapped_without_memory() {
    let top = folder("overlay-large");
    let file = fs::File::create(top.join("large")).expect("a file");
    file.set_len(300 << 20).expect("a length");
    let script =
        "open(F, '<', 'large'); my $n = 0; while (my $r = sysread(F, $b, 1 << 20)) { $n += $r }
        open(S, '/proc/self/status'); while (<S>) { print \"$n $1\\n\" if /VmHWM:\\s+(\\d+)/ }";
    let program = compiled("mapped", &["-DLARGE"]);
    for words in [
        &["perl", "-e", script][..],
        &[text(&program), "large", "whole"],
    ] {
        let output = in_overlay(&top, words, &top);
        let fields: Vec<&str> = output.split_whitespace().collect();
        assert_eq!(fields[1], (300 << 20).to_string(), "{output}");
        let kilobytes: u64 = fields[2].parse().expect("a number");
        assert!(kilobytes < 100 << 10, "{output}");
    }
}

#[test]
fn a_database_below_an_overlay_changes_in_memory() {
    if !is_installed("sqlite3") {
        return eprintln!("not installed: sqlite3");
    }
    let rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
        insert into t select i, hex(i) from n;";
    let [host, ours] = pair("overlay-database", |one| {
        let sql = format!("create table t(a, b); {rows} create index i on t(b);");
        let made = Command::new("sqlite3")
            .arg(one.join("db"))
            .arg(sql)
            .status();
        assert!(made.expect("sqlite3").success());
    });
    for mode in ["delete", "wal"] {
        let sql = format!(
            "pragma mmap_size = 1000000; pragma journal_mode = {mode}; {rows}
             delete from t where a % 7 = 1; select count(*), sum(a), max(b) from t;
             pragma integrity_check; vacuum; select count(*) from t;"
        );
        let words = ["sqlite3", "db", &sql];
        let output = in_overlay(&ours, &words, &ours);
        // In a new copy each time.
        fs::copy(ours.join("db"), host.join("db")).expect("a copy");
        assert_eq!(output, shown(&run(&[], &words, &host)), "{mode}");
        assert!(output.contains("ok"), "{output}");
    }
}

#[test]
fn sources_below_an_overlay_are_compiled_as_on_the_host() {
    if !is_installed("gcc") || !is_installed("make") {
        return eprintln!("not installed: gcc, make");
    }
    let top = folder("overlay-sources");
    let sources = top.join("sources");
    fs::create_dir_all(sources.join("include")).expect("a folder");
    fs::write(sources.join("include/one.h"), "#define ONE 1\n").expect("a file");
    for name in ["a", "b"] {
        let code = format!(
            "#include \"one.h\"\n#include <stdio.h>\nint {name}(void) {{ return puts(\"{name}\") + ONE; }}\n"
        );
        fs::write(sources.join(format!("{name}.c")), code).expect("a file");
    }
    let makefile = "all: $(OUT)/a.o $(OUT)/b.o\n$(OUT)/%.o: %.c include/one.h\n\tgcc -c -g -O1 -Iinclude $< -o $@\n";
    fs::write(sources.join("Makefile"), makefile).expect("a file");
    // Each process has its own changes, so the objects go to the host.
    let out = top.join("out");
    let make = |prefix: &[&str]| {
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).expect("a folder");
        let output = run(
            prefix,
            &["make", "-s", &format!("OUT={}", out.display())],
            &sources,
        );
        assert_eq!(shown(&output), "Some(0)\n");
        left_in(&out)
    };
    let host = make(&[]);
    assert_eq!(host.len(), 2);
    let before = state(&sources);
    let ours = make(&[&OURS[..], &["--overlay", text(&sources)]].concat());
    assert!(host == ours, "the objects differ");
    assert_eq!(state(&sources), before);
}

#[test]
fn a_repository_below_an_overlay_takes_commits_in_memory() {
    if !is_installed("git") {
        return eprintln!("not installed: git");
    }
    let [host, ours] = pair("overlay-repository", |one| {
        fill(one);
        let hook = one.join("hook");
        // A child of the commit sees what it has changed.
        fs::write(
            &hook,
            "#!/bin/sh\ngit --no-pager log --stat --format=%s%n%T\n",
        )
        .expect("a file");
        fs::set_permissions(&hook, Permissions::from_mode(0o755)).expect("the mode");
        let script =
            "git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm one
            mv hook .git/hooks/post-commit; echo changed >f0; rm d1/f1";
        let made = run(&[], &["sh", "-c", script], one);
        assert_eq!(made.status.code(), Some(0), "{}", shown(&made));
    });
    let commit = [
        "git",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "gc.auto=0",
        "commit",
    ];
    let words = [&commit[..], &["-q", "-a", "-m", "two"]].concat();
    let output = in_overlay(&ours, &words, &ours);
    assert_eq!(output, shown(&run(&[], &words, &host)));
    assert!(output.contains("two") && output.contains("one"), "{output}");
    let status = ["git", "status", "--short"];
    let output = in_overlay(&ours, &status, &ours);
    assert_eq!(output, "Some(0)\n D d1/f1\n M f0\n D hook\n");
}

/// Makes a tree with programs and their libraries, to be a root.
fn make_root(top: &Path) {
    for program in ["sh", "ls", "cat", "readlink", "env"] {
        let found = run(
            &[],
            &["sh", "-c", &format!("readlink -f $(command -v {program})")],
            top,
        );
        let found = String::from_utf8(found.stdout).expect("a path");
        let found = found.trim();
        fs::create_dir_all(top.join("bin")).expect("a folder");
        fs::copy(found, top.join("bin").join(program)).expect("a copy");
        let libraries = run(&[], &["ldd", found], top);
        let libraries = String::from_utf8(libraries.stdout).expect("text");
        for library in libraries
            .split_whitespace()
            .filter(|word| word.starts_with('/'))
        {
            let to = top.join(&library[1..]);
            fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            fs::copy(library, to).expect("a copy");
        }
    }
    fs::create_dir_all(top.join("etc")).expect("a folder");
    fs::write(top.join("etc/name"), "inside\n").expect("a file");
    symlink("/etc/name", top.join("etc/absolute")).expect("a link");
    symlink("/proc/self/mounts", top.join("etc/mtab")).expect("a link");
}

#[test]
fn a_root_is_all_that_the_program_sees() {
    let top = folder("root");
    make_root(&top);
    let before = state(&top);
    let prefix = [&OURS[..], &["--root", text(&top), "env", "-i", "PATH=/bin"]].concat();
    for (script, expected) in [
        (
            "pwd; exec ls / /etc",
            "/\n/:\nbin\ndev\netc\nfdt\nlib\nlib64\nproc\nsys\n\n/etc:\nabsolute\nmtab\nname\n",
        ),
        (
            "exec cat /etc/name /etc/absolute /../etc/name",
            "inside\ninside\ninside\n",
        ),
        (
            "echo new >/etc/name; cd etc; pwd; exec cat name absolute",
            "/etc\nnew\nnew\n",
        ),
        (
            "[ -e /etc/mtab ] && [ -e /proc/self/stat ] && [ -c /dev/zero ] && [ -d /sys ] && echo host",
            "host\n",
        ),
        (
            "cd /proc; pwd; cd ..; pwd; exec ls -d etc",
            "/proc\n/\netc\n",
        ),
        ("echo x >/fdt/x; exec cat fdt/x dev/null /dev/null", "x\n"),
        ("exec readlink /proc/self/exe", "/bin/readlink\n"),
        ("[ -e /usr/bin/env ] || [ -e /home ] || echo no", "no\n"),
        (
            "exec ./bin/ls -d proc/self etc/absolute",
            "etc/absolute\nproc/self\n",
        ),
    ] {
        let output = run(&prefix, &["sh", "-c", script], Path::new("/usr"));
        assert_eq!(shown(&output), format!("Some(0)\n{expected}"), "{script}");
        assert_eq!(state(&top), before, "{script}");
    }
}

#[test]
fn a_working_directory_below_the_root_stays() {
    let top = folder("root-directory");
    make_root(&top);
    for (directory, expected) in [(top.join("etc"), "/etc\n"), (top.clone(), "/\n")] {
        let output = run(
            &[&OURS[..], &["--root", text(&top)]].concat(),
            &["sh", "-c", "pwd"],
            &directory,
        );
        assert_eq!(shown(&output), format!("Some(0)\n{expected}"));
    }
}

#[test]
fn mounts_and_overlays_are_on_top_of_a_root() {
    let top = folder("root-mounts");
    make_root(&top);
    let other = folder("root-mounts-other");
    fs::write(other.join("file"), "other\n").expect("a file");
    let before = (state(&top), state(&other));
    let options = [
        "--mount",
        "/etc/new",
        "--overlay",
        text(&other),
        "--root",
        text(&top),
    ];
    let prefix = [&OURS[..], &options].concat();
    let script = format!(
        "echo a >/etc/new/a; cd {}; echo more >>file; exec cat /etc/new/a file /etc/name",
        other.display()
    );
    let output = run(&prefix, &["sh", "-c", &script], &top);
    assert_eq!(shown(&output), "Some(0)\na\nother\nmore\ninside\n");
    assert_eq!((state(&top), state(&other)), before);
}

#[test]
fn the_root_of_the_host_can_be_the_root() {
    let top = folder("root-host");
    fill(&top);
    let before = state(&top);
    let script = "pwd; rm f0 2>/dev/null; echo new >f1; exec cat f1 d1/f1";
    let prefix = [&OURS[..], &["--root", "/"]].concat();
    let output = run(
        &prefix,
        &["sh", "-c", &script.replace("rm f0 2>/dev/null; ", "")],
        &top,
    );
    let below = fs::read_to_string(top.join("d1/f1")).expect("a file");
    assert_eq!(
        shown(&output),
        format!("Some(0)\n{}\nnew\n{below}", top.display())
    );
    assert_eq!(state(&top), before);
}

/// Returns words before a program that has no privileges, and is in the supplementary group 4321;
/// nothing if this process cannot give them up.
pub(super) fn without_privileges() -> Option<[&'static str; 7]> {
    let user = ["--reuid", "1234", "--regid", "1234", "--groups", "4321"];
    let mut words = ["setpriv"; 7];
    words[1..].copy_from_slice(&user);
    let done = Command::new(words[0]).args(user).arg("true").output();
    done.is_ok_and(|output| output.status.success())
        .then_some(words)
}

#[test]
fn an_ordinary_user_has_the_rights_of_the_host() {
    let Some(user) = without_privileges() else {
        return eprintln!("not as this user: setpriv");
    };
    let [host, ours] = pair("overlay-user", |one| {
        fill(one);
        for (name, mode) in [
            ("f0", 0o604),
            ("f1", 0o600),
            ("f2", 0o606),
            ("d1", 0o700),
            ("empty", 0o777),
        ] {
            fs::set_permissions(one.join(name), Permissions::from_mode(mode)).expect("the mode");
        }
        chown(one.join("d0/f0"), None, Some(4321)).expect("the group");
        fs::set_permissions(one.join("d0/f0"), Permissions::from_mode(0o640)).expect("the mode");
    });
    let script = "for (qw(f0 f1 f2 d1/f1 d0/f0)) {
            for my $m ('<', '>>', '+<') { print \"$_ $m \", open(my $f, $m, $_) ? 'ok' : $!+0, \"\\n\" }
            print join(' ', map { $_ ? 'ok' : $!+0 } chmod(0777, $_), rename($_, 'x'), unlink($_)), \"\\n\"
        }
        print open(my $f, '>', 'empty/new') ? 'ok' : $!+0, opendir(my $d, 'd1') ? 'ok' : $!+0, \"\\n\"";
    let words = ["perl", "-e", script];
    let expected = shown(&run(&user, &words, &host));
    let before = state(&ours);
    let prefix = [&user[..], &OURS, &["--overlay", text(&ours)]].concat();
    assert_eq!(shown(&run(&prefix, &words, &ours)), expected);
    assert_eq!(state(&ours), before);
    assert!(
        expected.contains("13") && expected.contains("ok"),
        "{expected}"
    );
    // A user that may change its groups, by the call of this number.
    let script = "sub try { print open(my $f, '<', 'd0/f0') ? 'ok ' : 'no ' }
        try; my $g = pack 'L', 4321; syscall(116, 1, $g); try";
    let may = [
        "--clear-groups",
        "--inh-caps",
        "+setgid",
        "--ambient-caps",
        "+setgid",
    ];
    let overlay = ["--overlay", text(&ours), "perl", "-e", script];
    let words = [&user[..5], &may, &OURS, &overlay].concat();
    assert_eq!(shown(&run(&[], &words, &ours)), "Some(0)\nno ok ");
    let mounted = [
        &user[..],
        &OURS,
        &[
            "--mount",
            "/tmp/new",
            "sh",
            "-c",
            "echo x >/tmp/new/x; exec cat /tmp/new/x",
        ],
    ]
    .concat();
    assert_eq!(shown(&run(&[], &mounted, &ours)), "Some(0)\nx\n");
}
