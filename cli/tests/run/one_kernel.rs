//! Processes that share one kernel: shells and their pipelines, files, deaths.

use std::fs;

use super::{OURS, compiled, folder, is_installed, run, shown};

/// Fails unless a script of `bash` does on one kernel what it does on the host. Each runs in a
/// folder of its own, and `MEMORY` is a directory: in memory with us. `needs` lists programs
/// without which it is left out.
#[track_caller]
pub(super) fn same_script(test: &str, needs: &[&str], script: &str) {
    if let Some(missing) = needs.iter().find(|program| !is_installed(program)) {
        eprintln!("not installed: {missing}");
        return;
    }
    let here = folder(test);
    let host = format!("MEMORY={}; {script}", here.display());
    let ours = format!("MEMORY=/fdt; {script}");
    let expected = shown(&run(&[], &["bash", "-c", &host], &here));
    let found = shown(&run(&OURS, &["bash", "-c", &ours], &here));
    assert_eq!(found, expected, "{script}");
}

#[test]
fn pipelines_connect_processes() {
    same_script(
        "one-pipelines",
        &["rev"],
        "echo a b | tr a-z A-Z | wc -c
         for i in 3 1 2; do echo $i; done | sort | tail -1
         x=$(echo hello | rev); echo $x
         yes | head -2
         seq 20000 | awk '{ s += $1 } END { print s }'
         (echo out; echo err >&2; exit 3) 2>&1 | cat; echo ${PIPESTATUS[0]}
         head -c 3000000 /dev/zero | gzip | gunzip | wc -c
         read -r line < <(echo substituted); echo $line",
    );
}

#[test]
fn files_positions_and_names_are_those_of_all_processes() {
    same_script(
        "one-files",
        &["flock"],
        "cd $MEMORY
         (echo one; bash -c 'echo two'; echo three) >log; cat log
         exec 5>out; (echo a >&5); bash -c 'echo b >&5'; echo c >&5; cat out
         (mkdir -p d/e; echo deep >d/e/f); cat d/e/f; rm -r d; ls
         mkfifo p; (cat p >through) & echo fifo >p; wait; cat through
         (flock -n 9 && sleep 0.2 && echo held) 9>lock & sleep 0.1
         (flock 9; echo then) 9>lock; wait",
    );
}

#[test]
fn the_end_of_a_process_closes_its_files() {
    same_script(
        "one-ends",
        &["flock", "pgrep"],
        "exec 2>/dev/null
         sleep 100 | cat & pid=$(jobs -p); sleep 0.1; kill -9 $(pgrep -P $$ sleep); wait; echo EOF
         bash -c 'kill -9 $$'; echo $?
         bash -c 'kill $$'; echo $?
         (exec 8>$MEMORY/x; flock 8; kill -9 $BASHPID); flock $MEMORY/x echo free
         (trap 'exit 4' TERM; sleep 0.1; kill $BASHPID; sleep 1); echo $?",
    );
}

#[test]
fn signals_that_end_a_process_leave_nothing_behind() {
    // A reader that is killed in its read leaves the pipe without readers, and a writer leaves it
    // without writers, as soon as they are told to end.
    same_script(
        "one-signals",
        &["python3"],
        "python3 -c '
import os, signal, time
def default(sig):
    if sig != signal.SIGKILL:
        signal.signal(sig, signal.SIG_DFL)
    os.write(begun[1], b\"x\")
def kill(child):
    os.read(begun[0], 1)
    time.sleep(0.05)
    os.kill(child, sig)
    print(os.waitpid(child, 0)[1])
begun = os.pipe()
for sig in [signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGRTMIN + 1, signal.SIGKILL]:
    r, w = os.pipe()
    reader = os.fork()
    if reader == 0:
        default(sig)
        os.close(w)
        os.read(r, 1)
        os._exit(0)
    os.close(r)
    kill(reader)
    try:
        os.write(w, b\"x\")
    except BrokenPipeError:
        print(\"no reader\")
    r, w = os.pipe()
    writer = os.fork()
    if writer == 0:
        default(sig)
        os.close(r)
        while True:
            os.write(w, b\"x\" * 5000)
    os.close(w)
    kill(writer)
    while os.read(r, 65536):
        pass
    print(\"no writer\")'",
    );
}

#[test]
fn an_exit_ends_threads_that_wait_in_calls() {
    // A thread that reads the pipe has a reference to it.
    same_script(
        "one-threads-end",
        &["python3"],
        "python3 -c '
import os, threading, time
for end in [os._exit, lambda code: os.kill(os.getpid(), 15), lambda code: os.execv(\"/bin/true\", [\"true\"])]:
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(w)
        threading.Thread(target=os.read, args=(r, 1), daemon=True).start()
        time.sleep(0.05)
        end(0)
    os.close(r)
    print(os.waitpid(child, 0)[1])
    try:
        os.write(w, b\"x\")
        print(\"a reader\")
    except BrokenPipeError:
        print(\"no reader\")'",
    );
}

#[test]
fn a_death_that_no_parent_waits_for_is_seen() {
    // The parent does not wait, so the supervisor closes the writing end.
    same_script(
        "one-unwaited",
        &["python3"],
        "python3 -c '
import os, signal
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(r)
    signal.pause()
os.close(w)
os.kill(pid, signal.SIGKILL)
print(os.read(r, 1))
print(os.waitpid(pid, 0)[1])'",
    );
}

#[test]
fn nginx_ends_with_its_workers() {
    same_script(
        "one-nginx",
        &["nginx", "curl"],
        "cat >conf <<END
           daemon off; worker_processes 2; pid pid; error_log stderr crit; events {}
           http { access_log off; server { listen unix:socket; return 200 served; } }
END
         for signal in QUIT TERM; do
           rm -f socket pid; nginx -p $PWD -c conf &
           until [ -S socket ] && [ -s pid ]; do sleep 0.05; done
           curl -s --unix-socket socket http://x/; echo
           kill -$signal $(cat pid); wait $!; echo $signal $?
         done",
    );
}

#[test]
fn pythons_processes_talk() {
    same_script(
        "one-python",
        &["python3"],
        "python3 -c '
import multiprocessing as mp, os, socket, subprocess
def square(x):
    return x * x
with mp.Pool(3) as pool:
    print(sum(pool.map(square, range(100))))
q = mp.Queue()
p = mp.Process(target=q.put, args=(\"from the child\",))
p.start()
print(q.get())
p.join()
a, b = socket.socketpair()
if os.fork() == 0:
    b.sendall(b\"x\" * 1000000)
    os._exit(0)
b.close()
n = 0
while data := a.recv(65536):
    n += len(data)
print(n, os.wait()[1])
cat = subprocess.Popen([\"cat\"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(cat.communicate(b\"y\" * 300000)[0] == b\"y\" * 300000)
print(subprocess.run([\"false\"]).returncode)
try:
    subprocess.run([\"/nowhere\"])
except FileNotFoundError as error:
    print(error)'",
    );
}

#[test]
fn mapped_files_are_shared_with_processes_that_come_later_and_earlier() {
    same_script(
        "one-mapped",
        &["python3"],
        "cd $MEMORY; python3 -c '
import mmap, os
f = os.open(\"m\", os.O_RDWR | os.O_CREAT)
os.ftruncate(f, 8192)
r, w = os.pipe()
s, t = os.pipe()
if os.fork() == 0:
    m = mmap.mmap(f, 8192)
    m[0:5] = b\"child\"
    os.write(w, b\"1\")
    os.read(s, 1)
    print(m[4096:4102], flush=True)
    os._exit(0)
os.read(r, 1)
m = mmap.mmap(f, 8192)
print(m[0:5], os.pread(f, 5, 0), flush=True)
m[4096:4102] = b\"parent\"
os.write(t, b\"1\")
os.wait()'
         python3 -c 'print(open(\"m\", \"rb\").read()[4096:4102])'",
    );
}

#[test]
fn files_below_an_overlay_are_read_by_processes_at_once() {
    // Each has a host descriptor of its own, and one number may be another file elsewhere.
    let here = folder("one-overlay");
    fs::create_dir(here.join("below")).expect("a folder");
    fs::write(here.join("below/one"), "right contents\n").expect("a file");
    fs::write(here.join("below/two"), "others\n").expect("a file");
    let script = "for i in $(seq 15); do cat below/one below/two & done; wait
         exec 5<below/two; (read -r x <below/one; echo $x); cat below/one; cat <&5
         for i in 1 2 3; do (echo $i >>below/one) & done; wait; sort below/one";
    let expected = shown(&run(&[], &["bash", "-c", script], &here));
    fs::write(here.join("below/one"), "right contents\n").expect("a file");
    let below = here.join("below");
    let below = below.to_str().expect("a path");
    let prefix = [OURS[0], OURS[1], "--overlay", below];
    let sorted = |text: String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let found = shown(&run(&prefix, &["bash", "-c", script], &here));
    assert_eq!(sorted(found), sorted(expected));
    let left = fs::read_to_string(here.join("below/one")).expect("a file");
    assert_eq!(left, "right contents\n", "the host's file");
}

#[test]
fn a_program_reads_its_own_file_and_reports_children_by_waitid() {
    same_script(
        "one-own",
        &["python3"],
        "head -c 4 /proc/self/exe | od -c | head -1
         python3 -c '
import os
for options in [os.WEXITED, os.WEXITED | os.WNOWAIT]:
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), 9)
    os.close(w)
    os.set_blocking(r, False)
    info = os.waitid(os.P_PID, child, options)
    print(info.si_code, os.read(r, 1))'",
    );
}

#[test]
fn a_server_forks_for_each_connection() {
    // The parent closes its copy of a connection, and the peer sees the end when the child has
    // closed it.
    same_script(
        "one-server",
        &["python3"],
        "python3 -c '
import os, socket
server = socket.create_server((\"127.0.0.1\", 0))
port = server.getsockname()[1]
client = os.fork()
if client == 0:
    for i in range(5):
        c = socket.create_connection((\"127.0.0.1\", port))
        c.sendall(b\"ping%d\" % i)
        c.shutdown(socket.SHUT_WR)
        print(b\"\".join(iter(lambda: c.recv(100), b\"\")), flush=True)
    os._exit(0)
for i in range(5):
    connection, _ = server.accept()
    if os.fork() == 0:
        connection.sendall(b\"pong \" + connection.recv(100))
        os._exit(0)
    connection.close()
while True:
    try:
        os.wait()
    except ChildProcessError:
        break'",
    );
}

#[test]
fn make_and_git_work_on_memory() {
    same_script(
        "one-make",
        &["git", "make", "gcc"],
        "cd $MEMORY; mkdir src; cd src
         for i in 1 2 3 4 5 6 7 8; do echo \"int f$i(void) { return $i; }\" >f$i.c; done
         printf 'all: f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o\\n%%.o: %%.c\\n\\t@gcc -c $< -o $@\\n' >Makefile
         make -s -j4; md5sum *.o
         git init -q . 2>/dev/null; git add *.c
         GIT_AUTHOR_DATE=@1 GIT_COMMITTER_DATE=@1 git -c user.name=a -c user.email=b commit -qm m
         git clone -q . ../clone; cd ../clone; git gc -q; git fsck; git log --format=%H; ls",
    );
}

#[test]
fn a_tree_of_hundreds_of_processes_ends() {
    same_script(
        "one-many",
        &[],
        "for i in $(seq 200); do (read -r x; echo $((x + i))) <<<$i & done | sort -n | tail -1; wait",
    );
}

#[test]
fn threads_use_pipes_while_others_fork() {
    let program = compiled("one_kernel", &[]);
    let program = program.to_str().expect("a path");
    let here = folder("one-threads");
    let expected = shown(&run(&[], &[program], &here));
    assert_eq!(shown(&run(&OURS, &[program], &here)), expected);
}

#[test]
fn a_program_does_not_trap_where_those_before_it_did() {
    let here = folder("one-traps");
    let prefix = [OURS[0], OURS[1], "--stats=report"];
    let each = "for i in 1 2 3 4 5 6 7 8 9 10; do /usr/bin/wc -c /dev/null; done >out";
    let output = run(&prefix, &["bash", "-c", each], &here);
    assert_eq!(shown(&output), "Some(0)\n");
    let report = fs::read_to_string(here.join("report")).expect("a report");
    let shares: Vec<f64> = report
        .lines()
        .filter(|line| line.ends_with(" total"))
        .map(|line| line.split_whitespace().nth(5).expect("a share").parse())
        .map(|share| share.expect("a number"))
        .collect();
    // Ten programs, and the shell.
    assert_eq!(shares.len(), 11, "{report}");
    let (first, last) = (shares[0], shares[9]);
    assert!(first > 4.0 && last < 1.0, "{first} {last} {report}");
}

#[test]
fn groups_that_are_killed_while_they_make_processes_and_threads_end() {
    let program = compiled("grouped", &[]);
    let words = [program.to_str().expect("a path"), "40"];
    let output = run(&OURS, &words, &folder("one-groups"));
    assert_eq!(shown(&output), "Some(0)\ndone\n");
}

#[test]
fn calls_of_processes_that_use_nearly_all_descriptors_are_completed() {
    let program = compiled("many_open", &[]);
    // A limit of the supervisor too.
    let words = ["sh", "-c", "ulimit -n 128; exec \"$@\"", "sh"];
    let words = [&words[..], &OURS].concat();
    let found = run(
        &words,
        &[program.to_str().expect("a path")],
        &folder("one-open"),
    );
    assert_eq!(
        shown(&found),
        format!("Some(0)\n{}", "9: Broken pipe\n".repeat(5))
    );
}

#[test]
fn a_tree_runs_where_the_ends_of_children_are_ignored() {
    let ignores = "trap '' CHLD; exec \"$0\" \"$@\"";
    let script = "echo a | cat; sh -c 'kill -9 $$'; echo $?";
    let words = ["bash", "-c", ignores, OURS[0], OURS[1]];
    let output = run(&words, &["bash", "-c", script], &folder("one-ignored"));
    assert!(
        shown(&output).starts_with("Some(0)\na\n"),
        "{}",
        shown(&output)
    );
}

#[test]
fn a_process_that_others_may_not_look_at_forks() {
    same_script(
        "one-dumpable",
        &["python3"],
        "python3 -c '
import ctypes, os
prctl = ctypes.CDLL(None).prctl
print(prctl(3), prctl(4, 0), prctl(3), flush=True)
if os.fork() == 0:
    print(prctl(3), flush=True)
    os.execlp(\"python3\", \"python3\", \"-c\", \"import ctypes; print(ctypes.CDLL(None).prctl(3))\")
print(os.wait()[1])'",
    );
}

#[test]
fn another_user_reads_a_file_that_is_mapped() {
    // Without the privilege both fail to become another user, and read the file.
    same_script(
        "one-user",
        &["python3"],
        "cd $MEMORY; python3 -c '
import mmap, os
fd = os.open(\"mapped\", os.O_RDWR | os.O_CREAT, 0o644)
os.write(fd, bytes(4096))
r, w = os.pipe()
if os.fork() == 0:
    try:
        os.setresuid(65534, 65534, 65534)
    except PermissionError:
        pass
    os.read(r, 1)
    print(os.pread(os.open(\"mapped\", os.O_RDONLY), 5, 0), flush=True)
    os._exit(0)
memory = mmap.mmap(fd, 4096)
memory[:5] = b\"bytes\"
os.write(w, b\"x\")
print(os.wait()[1])'",
    );
}

#[test]
fn a_process_without_proc_reads_a_file_that_is_mapped() {
    // Without the privilege both fail to change the root, and read the file.
    same_script(
        "one-root",
        &["python3"],
        "mkdir -p empty; export ROOT=$PWD/empty; cd $MEMORY; python3 -c '
import mmap, os
fd = os.open(\"mapped\", os.O_RDWR | os.O_CREAT, 0o644)
os.write(fd, bytes(4096))
r, w = os.pipe()
if os.fork() == 0:
    try:
        os.chroot(os.environ[\"ROOT\"])
    except PermissionError:
        pass
    os.read(r, 1)
    print(os.pread(fd, 5, 0), mmap.mmap(fd, 4096, prot=mmap.PROT_READ)[:5], flush=True)
    os._exit(0)
memory = mmap.mmap(fd, 4096)
memory[:5] = b\"bytes\"
os.write(w, b\"x\")
print(os.wait()[1])'",
    );
}

#[test]
fn a_socket_is_connected_that_a_child_has_too() {
    same_script(
        "one-connect",
        &["python3"],
        "python3 -c '
import os, socket
server = socket.socket(socket.AF_UNIX)
server.bind(\"socket\")
server.listen()
client = socket.socket(socket.AF_UNIX)
if os.fork() == 0:
    os.read(0, 1)
    os._exit(0)
client.connect(\"socket\")
os.unlink(\"socket\")
client.send(b\"bytes\")
print(server.accept()[0].recv(5), os.wait()[1])'",
    );
}

#[test]
fn files_of_the_host_are_used_by_processes_that_get_them_in_messages() {
    same_script(
        "one-messages",
        &["python3"],
        "python3 -c '
import os, select, socket
ours, theirs = socket.socketpair(socket.AF_UNIX)
child = os.fork()
if child == 0:
    ours.close()
    _, (file, tcp), _, _ = socket.recv_fds(theirs, 1, 2)
    os.write(file, b\"written by the child\")
    os.close(file)
    select.select([tcp], [], [])
    print(os.read(tcp, 100), flush=True)
    if os.fork() == 0:
        os.write(tcp, b\"from a grandchild\")
        os._exit(0)
    os.wait()
    os._exit(0)
theirs.close()
file = os.open(\"sent\", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
server = socket.create_server((\"127.0.0.1\", 0))
client = socket.create_connection(server.getsockname())
accepted, _ = server.accept()
socket.send_fds(ours, [b\"x\"], [file, accepted.fileno()])
accepted.close()
client.send(b\"from the parent\")
print(os.waitpid(child, 0)[1])
print(client.recv(100), client.recv(100))
print(os.lseek(file, 0, os.SEEK_CUR), os.pread(file, 100, 0))
# To itself, with the last descriptor.
a, b = socket.socketpair(socket.AF_UNIX)
socket.send_fds(a, [b\"x\"], [file])
os.close(file)
(file,) = socket.recv_fds(b, 1, 1)[1]
print(os.pread(file, 7, 0))'",
    );
}

/// Runs the words behind it with room for 256 descriptors.
const FEW_DESCRIPTORS: [&str; 3] = ["bash", "-c", "ulimit -n 256; exec \"$0\" \"$@\""];

#[test]
fn threads_read_more_files_of_others_than_may_be_open() {
    let program = compiled("cached", &[]);
    let here = folder("one-cached");
    let below = here.join("below");
    fs::create_dir(&below).expect("a folder");
    for number in 0..300 {
        fs::write(below.join(number.to_string()), number.to_string()).expect("a file");
    }
    let below = below.to_str().expect("a path");
    let ours = [OURS[0], OURS[1], "--overlay", below];
    let prefix = [&FEW_DESCRIPTORS[..], &ours].concat();
    for threads in ["1", "4"] {
        let words = [program.to_str().expect("a path"), below, threads];
        let expected = "Some(0)\nheld: 150 150\nfailed: 0\n";
        assert_eq!(shown(&run(&prefix, &words, &here)), expected, "{threads}");
    }
}

#[test]
fn a_file_of_the_host_that_finds_no_number_is_lost_as_on_the_host() {
    if !is_installed("python3") {
        return eprintln!("not installed: python3");
    }
    let script = "
import os, socket
ours, theirs = socket.socketpair(socket.AF_UNIX)
child = os.fork()
if child == 0:
    ours.close()
    try:
        while True:
            os.open(\"/bin/sh\", os.O_RDONLY)
    except OSError as error:
        print(error.strerror, flush=True)
    data, files, flags, _ = socket.recv_fds(theirs, 1, 1)
    print(data, files, bool(flags & socket.MSG_CTRUNC), flush=True)
    os._exit(0)
socket.send_fds(ours, [b\"x\"], [os.open(\"/bin/sh\", os.O_RDONLY)])
print(os.waitpid(child, 0)[1])";
    let here = folder("one-lost");
    let expected = "Some(0)\nToo many open files\nb'x' [] True\n0\n";
    for prefix in [
        &FEW_DESCRIPTORS[..],
        &[&FEW_DESCRIPTORS[..], &OURS].concat(),
    ] {
        let out = shown(&run(prefix, &["python3", "-c", script], &here));
        assert_eq!(out, expected, "{prefix:?}");
    }
}

#[test]
fn messages_with_more_files_of_the_host_than_the_supervisor_has_room_for_fail() {
    if !is_installed("python3") {
        return eprintln!("not installed: python3");
    }
    let script = "
import errno, os, socket, time
a, b = socket.socketpair(socket.AF_UNIX)
def send():
    fd = os.open(\"/bin/sh\", os.O_RDONLY)
    try:
        socket.send_fds(a, [b\"x\"], [fd])
        return 0
    except OSError as error:
        return error.errno
    finally:
        os.close(fd)
sent = 0
while (error := send()) == 0:
    sent += 1
print(sent, errno.errorcode[error])
for _ in range(sent):
    os.close(socket.recv_fds(b, 1, 1)[1][0])
# The supervisor closes them soon.
while send() != 0:
    time.sleep(0.001)
";
    let words = ["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"];
    let words = [&words[..], &OURS].concat();
    let found = run(&words, &["python3", "-c", script], &folder("one-in-flight"));
    assert_eq!(shown(&found), "Some(0)\n32 ETOOMANYREFS\n");
}

#[test]
fn processes_share_a_table_of_descriptors() {
    let program = compiled("sharing", &[]);
    let words = [program.to_str().expect("a path")];
    let prefix = [&FEW_DESCRIPTORS[..], &OURS].concat();
    let [host, ours] =
        [&[][..], &prefix].map(|prefix| shown(&run(prefix, &words, &folder("one-sharing"))));
    assert_eq!(ours, host);
}

#[test]
fn a_file_that_a_thread_moves_to_other_descriptors_stays_open() {
    let program = compiled("moved", &[]);
    let words = [program.to_str().expect("a path")];
    let output = run(&OURS, &words, &folder("one-moved"));
    assert_eq!(shown(&output), "Some(0)\nthe file stays\n");
}

#[test]
fn a_process_with_threads_closes_the_files_that_its_children_use() {
    let program = compiled("given_up", &[]);
    let here = folder("one-given-up");
    let words = [&program, &here].map(|path| path.to_str().expect("a path"));
    let prefix = [&FEW_DESCRIPTORS[..], &OURS].concat();
    assert_eq!(
        shown(&run(&prefix, &words, &here)),
        "Some(0)\nfailed: 0\nread: late, poll: 1\nopen: 0\n"
    );
}

#[test]
fn a_process_wakes_one_that_waits_for_files_of_both_kinds() {
    let program = compiled("woken", &[]);
    let words = [program.to_str().expect("a path"), "fifo"];
    let script = ["bash", "-c", "mkfifo fifo; exec \"$0\" \"$@\""];
    let found = run(&[&script[..], &OURS].concat(), &words, &folder("one-woken"));
    let expected = "Some(0)\na child that has made it: 3\na child of the process that has: 3\n\
                    the parent: 3\n";
    assert_eq!(shown(&found), expected);
}

#[test]
fn threads_change_their_user_together() {
    let program = compiled("users", &[]);
    let words = [program.to_str().expect("a path")];
    let here = folder("one-users");
    let expected = shown(&run(&[], &words, &here));
    assert_eq!(shown(&run(&OURS, &words, &here)), expected);
}

#[test]
fn a_file_of_the_host_is_whole_in_the_process_that_inherits_it() {
    let program = compiled("inherited", &[]);
    let words = [program.to_str().expect("a path"), "file", "fifo"];
    let script = ["bash", "-c", "mkfifo fifo; exec \"$0\" \"$@\""];
    let found = run(
        &[&script[..], &OURS].concat(),
        &words,
        &folder("one-inherited"),
    );
    let expected = "Some(0)\nlock: 0, seen: 1\nadded: 0, changed: 0, removed: 0\nbroken: 0\n";
    assert_eq!(shown(&found), expected);
}

#[test]
fn code_of_files_is_called_in_parts_and_when_it_is_gone() {
    let program = compiled("code", &[]);
    let words = [program.to_str().expect("a path")];
    let output = run(&OURS, &words, &folder("one-code"));
    let report = shown(&output);
    let lines: Vec<_> = report.lines().skip(1).collect();
    assert_eq!(lines.len(), 17, "{report}");
    assert!(lines.iter().all(|line| line.ends_with(": 0")), "{report}");
}

#[test]
fn the_loader_finds_the_same_cpu_when_it_is_answered_from_memory() {
    // The third program finds the sites of `cpuid` in the loader. The first leaf has the number of
    // the CPU.
    same_script(
        "one-cpuid",
        &["getconf"],
        "for i in 1 2 3 4 5 6; do getconf LEVEL1_DCACHE_SIZE; done
         getconf -a | grep CACHE
         loader=/lib64/ld-linux-x86-64.so.2
         $loader --list-diagnostics | grep ^x86 | grep -v 'features.0x0..cpuid.0x1.='",
    );
}

#[test]
fn the_runners_code_is_in_large_pages_after_some_forks_and_works() {
    // The last program and its shell have it from a shell that has forked as often.
    let script = "for i in $(seq 20); do /bin/true || echo failed; done
        bash -c 'grep -c memfd:fdtable-code /proc/self/smaps; exit 0'
        (for i in $(seq 20); do (exit 3) || /bin/true; done; seq 3 | tail -1)";
    let output = run(&OURS, &["bash", "-c", script], &folder("one-large"));
    assert_eq!(shown(&output).trim_end(), "Some(0)\n1\n3");
}
