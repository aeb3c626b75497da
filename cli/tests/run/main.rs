//! Unmodified programs under `fdtable run`, beside the host: what they print and how they end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

mod corners;
mod host_files;
mod killed;
mod observing;
mod one_kernel;
mod overlay;
mod overlay_files;
mod overlay_links;
mod overlay_programs;
mod refused;
mod sockets;

/// Seconds after which a program counts as waiting forever.
const PATIENCE: &str = "300";

/// A new, empty folder for one test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{test}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Runs a program in a folder, on the host or under us.
fn run(prefix: &[&str], words: &[&str], folder: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args([PATIENCE]).args(prefix).args(words);
    command.current_dir(folder).stdin(Stdio::null());
    command
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env_remove("PWD");
    command.output().expect("timeout is installed")
}

const OURS: [&str; 2] = [env!("CARGO_BIN_EXE_fdtable"), "run"];

/// What a program left: status, output, errors.
fn shown(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    format!("{:?}\n{text}{errors}", output.status.code())
}

/// Fails unless a program does under us what it does on the host, each time in a new folder,
/// which `prepare` fills.
#[track_caller]
fn same(test: &str, words: &[&str], prepare: impl Fn(&Path)) {
    let [host, ours] = [&[][..], &OURS[..]].map(|prefix| {
        // The same path for both: some programs print it.
        let folder = folder(test);
        prepare(&folder);
        let output = run(prefix, words, &folder);
        (shown(&output), left_in(&folder))
    });
    assert_eq!(ours.0, host.0, "{words:?}");
    assert_eq!(ours.1, host.1, "the files of {words:?}");
}

/// The files in a folder, with their contents.
fn left_in(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(folder).expect("inside").to_path_buf();
            if path.is_symlink() {
                let target = fs::read_link(&path).expect("a link");
                all.push((name, target.into_os_string().into_encoded_bytes()));
            } else if path.is_dir() {
                folders.push(path);
            } else {
                all.push((name, fs::read(&path).expect("a file")));
            }
        }
    }
    all.sort();
    all
}

fn is_installed(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    found.is_ok_and(|output| output.status.success())
}

/// Compiles a program of this folder.
fn compiled(source: &str, options: &[&str]) -> PathBuf {
    let folder = folder(&format!("compiled-{source}-{}", options.join("-")));
    let program = folder.join(source);
    let source = format!("{}/tests/run/{source}.c", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("cc");
    command
        .args(["-O1", "-w", "-pthread", "-o"])
        .arg(&program)
        .arg(source);
    let output = command.args(options).output().expect("a C compiler");
    assert!(output.status.success(), "{}", shown(&output));
    program
}

#[track_caller]
fn same_program(source: &str, options: &[&str]) {
    let program = compiled(source, options);
    let words = [program.to_str().expect("a path")];
    same(&format!("{source}{}", options.join("")), &words, |_| ());
}

#[test]
fn registers_and_the_red_zone_are_as_the_kernel_leaves_them() {
    let program = compiled("registers", &[]);
    let output = run(
        &OURS,
        &[program.to_str().expect("a path")],
        &folder("registers"),
    );
    assert_eq!(shown(&output), "Some(0)\ndone\n");
}

#[test]
fn signals_arrive_as_on_the_host() {
    same_program("signals", &[]);
}

#[test]
fn signals_arrive_in_a_static_program_as_on_the_host() {
    same_program("signals", &["-static"]);
}

#[test]
fn signals_that_the_runner_uses_arrive_as_on_the_host() {
    same_program("kept", &[]);
}

#[test]
fn signals_that_the_runner_uses_arrive_in_a_static_program_as_on_the_host() {
    same_program("kept", &["-static"]);
}

/// The number of repetitions of a program whose threads meet by chance: more in the long checks,
/// which set the variable.
fn repetitions(in_long_checks: usize) -> usize {
    match std::env::var_os("FDTABLE_STRESS_SECONDS") {
        Some(_) => in_long_checks,
        None => 1,
    }
}

#[test]
fn threads_meet_at_fresh_sites() {
    for _ in 0..repetitions(20) {
        same_program("threads", &[]);
    }
}

#[test]
fn threads_of_a_static_program_at_a_fixed_address_meet_at_fresh_sites() {
    same_program("threads", &["-static", "-no-pie"]);
}

#[test]
fn a_program_that_a_thread_executes_ends_the_other_threads() {
    for _ in 0..repetitions(10) {
        same_program("executes", &[]);
    }
}

#[test]
fn a_program_that_a_thread_of_a_static_program_executes_ends_the_other_threads() {
    same_program("executes", &["-static"]);
}

#[test]
fn signals_that_arrive_while_a_program_is_executed_and_threads_end_are_not_lost() {
    for options in [&[][..], &["-static"]] {
        let program = compiled("arriving", options);
        let words = [program.to_str().expect("a path")];
        let output = run(&OURS, &words, &folder("arriving"));
        assert_eq!(shown(&output), "Some(0)\ndone\n", "{options:?}");
    }
}

#[test]
fn a_program_that_cannot_be_started_is_reported_to_the_parent() {
    same_program("spawns", &[]);
}

#[test]
fn a_program_that_a_static_program_cannot_start_is_reported_to_the_parent() {
    same_program("spawns", &["-static"]);
}

#[test]
fn what_breaks_rewritten_call_sites_is_as_on_the_host() {
    same_program("pitfalls", &[]);
}

#[test]
fn what_breaks_rewritten_call_sites_of_a_static_program_is_as_on_the_host() {
    same_program("pitfalls", &["-static", "-no-pie"]);
}

#[test]
fn code_on_the_stack_runs_if_the_program_asks_for_it() {
    same_program("stack", &["-Wl,-z,execstack"]);
}

#[test]
fn code_on_the_stack_of_a_static_program_runs_if_it_asks_for_it() {
    same_program("stack", &["-static", "-Wl,-z,execstack"]);
}

#[test]
fn the_leak_check_of_a_sanitizer_finds_what_it_finds_on_the_host() {
    let folder = folder("leaks");
    fs::write(folder.join("none.c"), "int main(void) { return 0; }\n").expect("a file");
    let sanitized = ["-fsanitize=address", "-o", "none", "none.c"];
    if !run(&["cc"], &sanitized, &folder).status.success() {
        eprintln!("not installed: the address sanitizer");
        return;
    }
    same(
        "leaks-none",
        &[folder.join("none").to_str().expect("a path")],
        |_| (),
    );
    let program = compiled("leaks", &["-fsanitize=address"]);
    let words = [program.to_str().expect("a path")];
    // Its reports have addresses.
    let [host, ours] = [&[][..], &OURS[..]].map(|prefix| {
        let output = run(prefix, &words, &folder);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    });
    assert_eq!(ours, host);
}

#[test]
fn a_process_that_shares_memory_is_refused() {
    let folder = folder("shares");
    let source = "#define _GNU_SOURCE\n#include <errno.h>\n#include <sched.h>\n
        static char stack[1 << 16];
        static int child(void *unused) { return 0; }
        int main(void) { return clone(child, stack + sizeof stack, CLONE_VM | 17, 0) < 0 ? errno : 0; }\n";
    fs::write(folder.join("shares.c"), source).expect("a file");
    let made = run(&["cc"], &["-w", "-o", "shares", "shares.c"], &folder);
    assert!(made.status.success(), "{}", shown(&made));
    // It would wait forever for a store in a copy of its memory.
    let output = run(&OURS, &["./shares"], &folder);
    assert_eq!(output.status.code(), Some(22), "EINVAL");
}

#[test]
fn proc_shows_the_program_and_not_the_runner() {
    same_program("shown", &[]);
}

/// A tree of files and texts, the same each time.
fn fill(folder: &Path) {
    let text: String = (0..500)
        .map(|line| format!("line {line} of {}\n", line * 7919 % 1000))
        .collect();
    fs::write(folder.join("text"), &text).expect("a file");
    // Clearly before the others: some programs compare.
    let file = fs::File::options().write(true).open(folder.join("text"));
    let before = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    file.expect("it").set_modified(before).expect("its time");
    fs::create_dir_all(folder.join("tree/a/b")).expect("a folder");
    for (name, contents) in [
        ("tree/one", "1"),
        ("tree/a/two", "22"),
        ("tree/a/b/three", "333"),
    ] {
        fs::write(folder.join(name), contents).expect("a file");
    }
    std::os::unix::fs::symlink("one", folder.join("tree/link")).expect("a link");
    fs::write(
        folder.join("script"),
        "#!/bin/sh -e\necho \"$0\" | tr a-z A-Z >/dev/null; echo script: $1 $#\nexit 5\n",
    )
    .expect("a file");
    fs::write(folder.join("main.c"), "int main(void) { return 3; }\n").expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.join("script"), mode).expect("the mode");
}

/// Programs of every Debian system. Each line is a program and its arguments.
const ALWAYS: &str = "
true
false
echo a -n \\x
printf %05d\\n%s 42 text
cat text
cat -n text missing
tac text
head -n 7 text
tail -n 3 text
head -c 100 text
tail -c +5900 text
wc text
sort -n -k 4 text
sort -R --random-source=text text
uniq -c text
cut -d\x20 -f2,4 text
paste text text
join text text
nl text
fold -w 11 text
fmt text
expand text
od -A x -t x1z text
base64 text
md5sum text tree/one
sha256sum text
sum text
cksum text
comm text text
csplit text 100 200
split -n 4 text part
shuf --random-source=text text
tr -d 0 
seq 1 3 20
factor 123456789
expr 6 * 7
test -f text
stat -c %n:%s:%F tree text
ls tree
ls -R tree
dir tree
readlink tree/link
realpath --relative-to=. tree/a/b/../..
basename a/b.c .c
dirname a/b
pwd -L
mkdir -p new/folder
rmdir tree
rm -r tree
cp -r tree copy
cp -a tree copy
mv tree moved
ln -s text soft
ln text hard
touch -d 2001-02-03 fresh
truncate -s 10000 text
dd if=text of=out bs=17 count=9 skip=3 status=none
install -m 640 text installed
mktemp -u -p . aXXX --suffix=z -q --dry-run missing/XXXX
tee copy
du -b tree/one
df missing
chmod 600 text
date -d 2020-01-02 +%s
env -i A=1 env
nice -n 1 true
nohup true
timeout 5 true
sleep 0.05
sync text
yes --version
uname -s
id -u
whoami
groups missing
nproc --all
grep -n 7 text
grep -rc 2 tree
grep -E (1|2)+$ missing
sed -n s/line/LINE/p text
sed -i s/1/one/g text
find tree -type f -newer text
find tree -name t* -printf %p:%s\\n
find tree -delete
xargs -a text -n 100 echo
tar cf out.tar --sort=name --mtime=@0 --owner=0 --group=0 tree
gzip -n text
gzip -c -n -9 text
diff text tree/one
cmp text tree/one
bash -c for((i=0;i<300;i++));do\x20a=$a$i;done;echo\x20${#a}
bash -c echo\x20a\x20>x;cat\x20x\x20x\x20>>y;wc\x20y;exit\x204
bash -c trap\x20'echo\x20caught'\x20TERM;kill\x20$$;echo\x20on
sh -c cd\x20tree/a;pwd\x20>../p;ls;false||exit\x2012
sh -c kill\x20-9\x20$$
./script argument
perl -e print\x20join(',',map{$_*2}1..50),\"\\n\"
perl -ne print\x20if\x20/7/ text
perl -e open(F,'>f');print\x20F\x20$_\x20for\x201..1000;close\x20F;print\x20-s\x20'f'
";

/// Programs that a developer's system may have.
const SOMETIMES: &str = "
busybox ls -R tree
busybox sha1sum text
busybox sed s/line/x/ text
busybox sort -n text
sqlite3 db create\x20table\x20t(a,b);with\x20recursive\x20n(i)\x20as(select\x201\x20union\x20all\x20select\x20i+1\x20from\x20n\x20where\x20i<5000)\x20insert\x20into\x20t\x20select\x20i,hex(i)\x20from\x20n;select\x20sum(a),max(b)\x20from\x20t;pragma\x20integrity_check
sqlite3 db pragma\x20journal_mode=wal;create\x20table\x20t(a,b);with\x20recursive\x20n(i)\x20as(select\x201\x20union\x20all\x20select\x20i+1\x20from\x20n\x20where\x20i<100000)\x20insert\x20into\x20t\x20select\x20i,hex(i)\x20from\x20n;select\x20sum(a),max(b)\x20from\x20t;pragma\x20integrity_check
sqlite3 :memory: select\x201+1
/usr/bin/python3 -c import\x20os,json,threading;print(sorted(os.listdir('.')),json.dumps({'a':[1,2]}))
/usr/bin/python3 -c import\x20threading;l=[];t=[threading.Thread(target=l.append,args=(i,))for\x20i\x20in\x20range(20)];[x.start()for\x20x\x20in\x20t];[x.join()for\x20x\x20in\x20t];print(sorted(l))
/usr/bin/python3 -c import\x20socket;a,b=socket.socketpair();a.send(b'x'*9);print(b.recv(99))
/usr/bin/python3 -c import\x20selectors,os;r,w=os.pipe();s=selectors.DefaultSelector();s.register(r,1);os.write(w,b'1');print(len(s.select(1)))
/usr/bin/python3 -c import\x20subprocess;subprocess.run(['/no/such/program'],close_fds=False,restore_signals=False)
lua5.4 -e print(2^10)
git init -q repository
git -c alias.all=!git\x20init\x20-q\x20&&\x20git\x20add\x20text\x20tree\x20&&\x20git\x20-c\x20user.name=a\x20-c\x20user.email=a@b\x20-c\x20gc.auto=0\x20commit\x20-qm\x20one\x20&&\x20git\x20--no-pager\x20log\x20--stat\x20--format=%s%n%T\x20&&\x20rm\x20-r\x20.git all
git -c core.pager=cat diff --no-index --stat text tree/one
gcc -c main.c -o main.o
node -e console.log([1,2,3].map(x=>x*2))
openssl sha256 text
xz -k -T1 text
bc --version
file text
";

/// Splits a line into words, in which `\x20` stands for a space.
fn words(line: &str) -> Vec<String> {
    let words = line.split(' ').filter(|word| !word.is_empty());
    words.map(|word| word.replace("\\x20", " ")).collect()
}

fn run_list(test: &str, list: &str, may_be_missing: bool) {
    let lines: Vec<_> = list.lines().filter(|line| !line.is_empty()).collect();
    let mut ran = 0;
    for (number, line) in lines.iter().enumerate() {
        let words = words(line);
        if may_be_missing && !is_installed(&words[0]) {
            eprintln!("not installed: {}", words[0]);
            continue;
        }
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        same(&format!("{test}-{number}"), &words, fill);
        ran += 1;
    }
    println!("{ran} of {} programs", lines.len());
}

#[test]
fn programs_do_what_they_do_on_the_host() {
    run_list("always", ALWAYS, false);
}

#[test]
fn further_programs_do_what_they_do_on_the_host() {
    run_list("sometimes", SOMETIMES, true);
}

#[test]
fn files_in_memory_are_not_the_hosts() {
    let output = run(
        &OURS,
        &["sh", "-c", "echo text >/fdt/file; cd /fdt; cat file; pwd"],
        &folder("memory"),
    );
    assert_eq!(shown(&output), "Some(0)\ntext\n/fdt\n");
    assert!(!Path::new("/fdt/file").exists());
}

#[test]
fn each_mount_is_in_memory_and_survives_an_exec() {
    let folder = folder("mounts");
    fs::create_dir(folder.join("there")).expect("a folder");
    fs::write(folder.join("there/hidden"), "the host's").expect("a file");
    let (there, new) = (folder.join("there"), folder.join("new"));
    let mounts = [
        "--mount",
        there.to_str().expect("a path"),
        "--mount",
        "new/",
    ];
    let script = "ls there; echo 1 >there/a; echo 2 >new/b; echo 3 >/fdt/c; echo 4 >d
        cd new; exec sh -c 'pwd; cat ../there/a b /fdt/c ../d'";
    let prefix = [&OURS[..], &mounts].concat();
    let output = run(&prefix, &["sh", "-c", script], &folder);
    let expected = format!("Some(0)\n{}\n1\n2\n3\n4\n", new.display());
    assert_eq!(shown(&output), expected);
    let left = [("d", "4\n"), ("there/hidden", "the host's")];
    let left = left.map(|(name, text)| (PathBuf::from(name), text.into()));
    assert_eq!(left_in(&folder), left);
    assert!(!new.exists());
}

#[test]
fn options_after_the_program_are_its_own() {
    let output = run(&OURS, &["echo", "--mount", "x"], &folder("own-options"));
    assert_eq!(shown(&output), "Some(0)\n--mount x\n");
}

#[test]
fn a_mount_that_cannot_be_made_is_reported() {
    let folder = folder("no-mount");
    fs::write(folder.join("file"), "").expect("a file");
    for (path, text) in [
        ("missing/new", "cannot mount missing/new: No such file"),
        ("file/new", "cannot mount file/new: Not a directory"),
        (
            "/fdt/",
            "cannot mount /fdt/: files are in memory there already",
        ),
        ("/", "cannot mount /: Invalid argument"),
        ("", "cannot mount : No such file"),
    ] {
        let prefix = [&OURS[..], &["--mount", path]].concat();
        let output = run(&prefix, &["true"], &folder);
        assert_eq!(output.status.code(), Some(125), "{path}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(text), "{errors}");
    }
}

#[test]
fn what_cannot_be_run_has_the_exit_code_of_a_shell() {
    let folder = folder("errors");
    fill(&folder);
    fs::write(folder.join("other"), b"\x7fELF\x01\x01").expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.join("other"), mode).expect("the mode");
    for (words, code, text) in [
        (
            &["no-such-program"][..],
            127,
            "no-such-program: No such file",
        ),
        (&["./text"], 126, "./text: Permission denied"),
        (&["./tree"], 126, "./tree: Permission denied"),
        (&["./other"], 126, "./other: not a program for x86-64 Linux"),
        (&["/bin/su"], 126, "/bin/su: it would run as another user"),
    ] {
        let output = run(&OURS, words, &folder);
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(text), "{errors}");
    }
}
