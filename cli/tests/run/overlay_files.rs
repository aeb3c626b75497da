//! Files of an overlay that are more than bytes and names: devices, what a crash leaves, links of
//! `/proc`.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::overlay::in_overlay;
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
