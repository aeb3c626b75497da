//! Files of an overlay that are more than bytes and names: devices, what a crash leaves, links of
//! `/proc`, directories that cannot be listed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::overlay::{in_overlay, pair, state, text, without_privileges};
use super::{OURS, folder, left_in, run, shown};

/// Makes a node of `/dev/null`, and returns true if it can be opened.
fn make_null(path: &Path) -> bool {
    let made = Command::new("mknod")
        .arg(path)
        .args(["c", "1", "3"])
        .output();
    made.is_ok_and(|output| output.status.success()) && fs::File::open(path).is_ok()
}

#[test]
fn changes_of_an_open_device_stay_in_memory() {
    let top = folder("overlay-device");
    if !make_null(&top.join("null")) {
        eprintln!("skipped: this process cannot make a device");
        return;
    }
    let script = r#"
        open(my $f, '+<', 'null') or die $!;
        sub show { my @s = @_; printf "%o %d %d %d\n", $s[2] & 07777, $s[4], $s[5], $s[9] }
        print join(' ', map { ($_ // 'undef') . '' } chmod(0613, $f), chown(7, 8, $f),
            utime(1000000000, 1000000001, $f)), "\n";
        show(stat $f); show(stat 'null'); show(stat '/proc/self/fd/' . fileno $f);
        print join(' ', map { "$_" } (stat $f)[0, 1, 6]) eq
            join(' ', map { "$_" } (stat 'null')[0, 1, 6]) ? "same\n" : "other\n";
        # fsetxattr; fchownat and utimensat of the descriptor itself.
        my ($name, $value, $empty) = ('trusted.x', 'v', '');
        print syscall(190, fileno $f, $name, $value, 1, 0), ' ', $!+0, "\n";
        print syscall(260, fileno $f, $empty, 9, 9, 0x1000), "\n";
        print syscall(280, fileno $f, 0, 0, 0), "\n";
        show((stat $f)[0 .. 8], 0);
        print syswrite($f, 'abc'), ' ', -c $f ? 'device' : 'other', "\n";
        print sysopen(my $again, 'null', 01102) ? 'opened' : $!+0, "\n";
    "#;
    let output = in_overlay(&top, &["perl", "-e", script], &top);
    let shown = "613 7 8 1000000001\n".repeat(3);
    let expected =
        format!("Some(0)\n1 1 1\n{shown}same\n-1 95\n0\n0\n613 9 9 0\n3 device\nopened\n");
    assert_eq!(output, expected);
}

#[test]
fn a_crash_leaves_no_core_below_an_overlay() {
    let top = folder("overlay-core");
    fs::create_dir(top.join("inner")).expect("a folder");
    let script = "ulimit -c unlimited; kill -QUIT $$";
    for inside in [top.clone(), top.join("inner")] {
        let output = in_overlay(&top, &["sh", "-c", script], &inside);
        assert_eq!(output, "None\n");
    }
    // The working directory of the program and relative paths of options stay as they were.
    let script = "ulimit -c unlimited; /bin/pwd; kill -SEGV $$";
    let prefix = [&OURS[..], &["--stats=stats", "--root", "root"]].concat();
    fs::create_dir(top.join("root")).expect("a folder");
    let output = run(&prefix, &["true"], &top);
    assert_eq!(output.status.code(), Some(127));
    assert!(top.join("stats").exists());
    let prefix = [&OURS[..], &["--root", "/"]].concat();
    let output = run(&prefix, &["sh", "-c", script], &top);
    assert_eq!(shown(&output), format!("None\n{}\n", top.display()));
    assert!(!left_in(&top).iter().any(|(name, _)| name.ends_with("core")));
}

#[test]
fn host_descriptors_of_lower_files_do_not_lead_to_the_host() {
    let top = folder("overlay-descriptors");
    for name in ["plain", "x (deleted)"] {
        fs::write(top.join(name), "below\n").expect("a file");
        let script = r#"
            use Fcntl;
            my $name = shift;
            open(my $f, '<', $name) or die $!;
            for my $n (glob "/proc/$$/fd/*") {
                next if (readlink($n) // '') !~ m{/\Q$name\E$};
                print chmod(0777, $n) ? 'chmod ' : $!+0;
                sysopen(my $h, $n, O_RDWR | O_APPEND) or print $!+0;
                print syswrite($h, "new\n") ? "write\n" : $!+0;
            }
            print <$f>;
            # pidfd_open and pidfd_getfd.
            my $process = syscall(434, $$, 0);
            my @taken = grep { $_ >= 0 } map { syscall(438, $process, $_, 0) } 0 .. 3000;
            print scalar @taken, ' ', $!+0, "\n";
        "#;
        let output = in_overlay(&top, &["perl", "-e", script, name], &top);
        let expected = "Some(0)\nchmod write\nbelow\nnew\n0 1\n";
        assert_eq!(output, expected, "{name}");
    }
}

#[test]
fn directories_that_can_only_be_searched_are_used_as_on_the_host() {
    let Some(user) = without_privileges() else {
        return eprintln!("not as this user: setpriv");
    };
    let [host, ours] = pair("overlay-search", |one| {
        for (name, mode) in [("search", 0o711), ("drop", 0o733)] {
            let directory = one.join(name);
            fs::create_dir_all(directory.join("sub")).expect("a folder");
            for file in ["file", "known", "sub/file"] {
                fs::write(directory.join(file), file).expect("a file");
            }
            fs::set_permissions(directory, Permissions::from_mode(mode)).expect("the mode");
        }
    });
    let script = "
        use Fcntl;
        sub did { print shift, ' ', (shift) ? 'ok' : 'e' . ($!+0), qq{\n} }
        for my $d ('search', 'drop') {
            for ('file', 'sub/file', 'none', 'none/file') {
                did(qq{$d/$_}, open(my $f, '<', qq{$d/$_}));
                print join(' ', (stat qq{$d/$_})[2, 3, 7]), qq{\n};
            }
            did('list', opendir(my $h, $d));
            did('new', sysopen(my $n, qq{$d/new}, O_CREAT | O_EXCL | O_WRONLY));
            did('known', sysopen(my $k, qq{$d/known}, O_CREAT | O_EXCL | O_WRONLY));
            did('rename', rename(qq{$d/new}, qq{$d/known}));
            did('gone', open(my $g, '<', qq{$d/new}));
            did('unlink', unlink(qq{$d/known}));
            did('again', open(my $a, '<', qq{$d/known}));
            did('made', mkdir(qq{$d/known}));
            did('exists', mkdir(qq{$d/sub}));
            did('cd', chdir qq{$d/sub});
            did('here', open(my $c, '<', 'file'));
            chdir '../..';
        }";
    let words = ["perl", "-e", script];
    let expected = shown(&run(&user, &words, &host));
    assert!(expected.starts_with("Some(0)"), "{expected}");
    let before = state(&ours);
    let prefix = [&user[..], &OURS, &["--overlay", text(&ours)]].concat();
    assert_eq!(shown(&run(&prefix, &words, &ours)), expected);
    assert_eq!(state(&ours), before);
}

#[test]
fn a_tree_may_be_deeper_than_the_longest_path() {
    let top = folder("overlay-deepest");
    let make = "for (1 .. 60) { mkdir 'd' x 100 or die $!; chdir 'd' x 100 or die $!;
        open(my $f, '>', qq{leaf$_}) or die $!; print $f qq{$_\n} }";
    let output = run(&[], &["perl", "-e", make], &top);
    assert_eq!(shown(&output), "Some(0)\n");
    // The host's tree cannot be compared by paths: a listing by steps has to do.
    let list = ["find", ".", "-printf", "%d %f %s %T@ %C@\\n"];
    let before = shown(&run(&[], &list, &top));
    assert_eq!(before.lines().count(), 122);
    let prefix = [&OURS[..], &["--overlay", text(&top)]].concat();
    let found = ["find", ".", "-name", "leaf*"];
    let expected = shown(&run(&[], &found, &top));
    assert_eq!(shown(&run(&prefix, &found, &top)), expected);
    let walk = "for (1 .. 60) { chdir 'd' x 100 or die $!; open(my $f, '<', qq{leaf$_}) or die $!;
        print <$f>; open(my $n, '>', qq{new$_}) or die $!; unlink qq{leaf$_} or die $! }";
    let output = shown(&run(&prefix, &["perl", "-e", walk], &top));
    let lines: String = (1..=60).map(|line| format!("{line}\n")).collect();
    assert_eq!(output, format!("Some(0)\n{lines}"));
    let directory = "d".repeat(100);
    let output = shown(&run(&prefix, &["rm", "-r", &directory], &top));
    assert_eq!(output, "Some(0)\n");
    assert_eq!(shown(&run(&[], &list, &top)), before);
    fs::remove_dir_all(&top).expect("a folder");
}
