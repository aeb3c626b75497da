//! `--overlay`: no path of the program, whatever leads to it, changes the host's directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::overlay::{in_overlay, make_old, state, text};
use super::{OURS, compiled, folder, run, shown};

/// A folder with the directories `ov`, to be the overlay, and `out`.
fn beside(test: &str) -> [PathBuf; 3] {
    let top = folder(test);
    let [ov, out] = ["ov", "out"].map(|name| top.join(name));
    fs::create_dir_all(ov.join("a/b")).expect("a directory");
    fs::create_dir_all(out.join("a/b")).expect("a directory");
    for file in [ov.join("f"), ov.join("a/x"), out.join("x"), out.join("a/x")] {
        fs::write(&file, text(&file)).expect("a file");
    }
    symlink(&ov, out.join("a/l")).expect("a link");
    symlink(&out, ov.join("a/good")).expect("a link");
    make_old(&top);
    [top, ov, out]
}

/// Runs a script of perl in a directory, and returns what it prints.
#[track_caller]
fn perl(ov: &Path, directory: &Path, script: &str) -> String {
    in_overlay(ov, &["perl", "-e", script], directory)
}

/// The same, and the directory `out` of the host may not change either.
#[track_caller]
fn perl_keeps(out: &Path, ov: &Path, directory: &Path, script: &str) -> String {
    let before = state(out);
    let output = perl(ov, directory, script);
    assert_eq!(state(out), before, "{script} {output}");
    output
}

#[test]
fn links_below_a_renamed_directory_of_the_host_lead_into_the_overlay() {
    let [_, ov, out] = beside("overlay-renamed-host");
    let script = "rename '../a', '../b' or die; open F, '>l/f' or die; print F 'new'; close F;
        unlink 'l/a/x' or die; rmdir 'l/a/b' or die; print -s 'l/f', -e 'l/a/x' ? 1 : 0";
    assert_eq!(perl(&ov, &out.join("a"), script), "Some(0)\n30");
}

#[test]
fn dot_dot_in_a_renamed_directory_of_the_host_is_that_of_its_new_place() {
    let [top, ov, out] = beside("overlay-moved-host");
    let script = "rename '../b', '../../../c' or die; open F, '>../ov/f' or die; print F 'new';
        close F; print -s '../ov/f'";
    assert_eq!(perl(&ov, &out.join("a/b"), script), "Some(0)\n3");
    assert!(top.join("c").is_dir());
}

#[test]
fn a_renamed_directory_of_the_overlay_keeps_its_files() {
    let [_, ov, out] = beside("overlay-renamed-ours");
    let script = "rename '../a', '../b' or die; symlink '../out', '../a' or die;
        open F, '>x' or die; print F 'mine'; close F; print -s '../b/x';
        unlink 'x' or die; print -e '../b/x' ? 1 : 0, -e 'good/x' ? 1 : 0;
        mkdir '../d'; rename '../b', '../d/b'; print -s '../../f' ? 1 : 0";
    let output = perl_keeps(&out, &ov, &ov.join("a"), script);
    assert_eq!(output, "Some(0)\n4011");
}

#[test]
fn dot_dot_in_a_removed_directory_leads_nowhere() {
    let [_, ov, out] = beside("overlay-removed");
    for directory in [out.join("a/b"), ov.join("a/b")] {
        let script = "opendir D, '.'; rmdir '../b' or die; print -e '../x' ? 1 : 0;
            open F, '>../../../ov/f' and die; print $!;
            chdir '/'; open F, '>/proc/self/fd/'.fileno(D).'/../../../ov/f' and die; print $!";
        let output = perl(&ov, &directory, script);
        let expected = "0No such file or directory";
        assert!(
            output.starts_with(&format!("Some(0)\n{expected}")),
            "{output}"
        );
    }
}

#[test]
fn a_removed_directory_leads_nowhere_by_its_descriptor() {
    let [_, ov, out] = beside("overlay-removed-descriptor");
    // `openat` is system call 257.
    let script = "opendir D, 'b'; rmdir 'b' or die; my $path = '../../../ov/f';
        print syscall(257, fileno(D), $path, 01001, 0), $!";
    let output = perl(&ov, &out.join("a"), script);
    assert_eq!(output, "Some(0)\n-1No such file or directory");
}

#[test]
fn a_removed_file_of_the_host_is_found_by_its_descriptor() {
    let [_, ov, out] = beside("overlay-removed-host");
    let path = ov.join("gone");
    fs::write(&path, "removed\n").expect("a file");
    let file = fs::File::open(&path).expect("the file");
    fs::remove_file(&path).expect("the file");
    // The host shows `.../gone (deleted)`, which is no name in the overlay.
    let script = "open F, '<', qq{/proc/$$/fd/0} or die $!; print <F>";
    let before = state(&ov);
    let mut command = std::process::Command::new(OURS[0]);
    command.args(&OURS[1..]).arg("--overlay").arg(&ov);
    let output = command
        .args(["perl", "-e", script])
        .current_dir(&out)
        .stdin(file)
        .output();
    assert_eq!(shown(&output.expect("the program")), "Some(0)\nremoved\n");
    assert_eq!(state(&ov), before);
}

#[test]
fn a_directory_whose_name_looks_removed_is_none() {
    let [top, ov, out] = beside("overlay-named-deleted");
    for side in [&ov, &out] {
        fs::create_dir(side.join("d (deleted)")).expect("a directory");
    }
    make_old(&top);
    let script = "opendir D, 'd (deleted)' or die; my $path = '../../ov/f';
        my $fd = syscall(257, fileno(D), $path, 01001, 0); print $fd > 2 ? 'open ' : $!;
        open my $f, '>&=', $fd or die $!; syswrite $f, 'new' or die $!; print -s '../ov/f'";
    for directory in [&ov, &out] {
        assert_eq!(
            perl(&ov, directory, script),
            "Some(0)\nopen 3",
            "{directory:?}"
        );
    }
}

#[test]
fn paths_too_long_to_be_judged_are_refused() {
    let [_, ov, out] = beside("overlay-long");
    let script = "my $ov = shift; my $d = 'd' x 100;
        for (1 .. 45) { mkdir $d or die; chdir $d or die; }
        symlink $ov, 'l' or die; mkdir 'e' or die; rename 'e', 'g' or die;
        open F, '>g/own' or die; opendir D, 'g' or die;
        for my $path ('l/f', 'l/new', ('../' x 46) . 'ov/f') {
            print open(F, '>', $path) ? 1 : 0, $!{ENAMETOOLONG} ? 1 : 0;
        }
        print unlink('l/f'), mkdir('l/new') ? 1 : 0, rmdir('l/a/b') ? 1 : 0;
        my $path = '../l/f'; print syscall(257, fileno(D), $path, 01001, 0);
        chdir '..' or die; print -d $d ? 1 : 0; chdir '../' x 44 or die; print -e 'x' ? 1 : 0;
        open F, '>../ov/f' or die; print F 'new'; close F; print -s '../ov/f'";
    let words = ["perl", "-MErrno", "-e", script, text(&ov)];
    let output = in_overlay(&ov, &words, &out);
    assert_eq!(output, "Some(0)\n010101000-1113");
    // Trees below an overlay may be as deep.
    let script = "my $d = 'd' x 100; for (1 .. 45) { mkdir $d or die; chdir $d or die; }
        open F, '>file' or die; symlink 'file', 'l' or die; open F, '>l' or die;
        mkdir 'e' or die; open F, '>e/../l' or die; print -e 'file' ? 1 : 0; chdir '..' or die;
        print -d $d ? 1 : 0";
    assert_eq!(perl(&ov, &ov, script), "Some(0)\n11");
}

#[test]
fn calls_that_change_a_name_do_not_follow_a_link_before_a_slash() {
    let [top, ov, out] = beside("overlay-slash");
    for name in ["hd", "h2"] {
        fs::create_dir(out.join(name)).expect("a directory");
    }
    for (to, link) in [("../out/hd", "lnk"), ("../out/nodir", "dl")] {
        symlink(to, ov.join(link)).expect("a link");
    }
    symlink("../ov/a", out.join("lnk")).expect("a link");
    symlink("../ov/nodir", out.join("dl")).expect("a link");
    symlink(&out, ov.join("up")).expect("a link");
    make_old(&top);
    for (directory, other) in [(&ov, "../out"), (&out, "../ov")] {
        let script = format!(
            "sub e {{ print ' ', $_[0] ? 'ok' : $!{{ENOTDIR}} ? 'ENOTDIR' : $!{{EEXIST}} ? 'EEXIST'
                : $!{{EINVAL}} ? 'EINVAL' : $!{{ENOENT}} ? 'ENOENT' : $!{{EBUSY}} ? 'EBUSY' : $!; }}
            e(rmdir 'lnk/'); my $lnk = 'lnk/'; e(syscall(87, $lnk) == 0); e(mkdir 'dl/'); e(rename 'lnk/', 'ren');
            e(symlink 'x', 'dl/'); e(-d 'lnk/'); e(-d 'lnk/.');
            e(rmdir '{other}/a/b/.'); e(rename '{other}/a/b/..', '{other}/ren');"
        );
        let words = ["perl", "-MErrno", "-e", &script];
        let before = state(&out);
        let ours = in_overlay(&ov, &words, directory);
        assert_eq!(state(&out), before, "{ours}");
        let expected = "Some(0)\n ENOTDIR ENOTDIR EEXIST ENOTDIR EEXIST ok ok EINVAL EBUSY";
        assert_eq!(ours, expected, "in {directory:?}");
    }
    let script = "print rmdir('up/h2/.') ? 1 : 0, rmdir('up/h2/') ? 1 : 0, mkdir('up/h3/') ? 1 : 0";
    assert_eq!(perl(&ov, &ov, script), "Some(0)\n011");
    assert!(!out.join("h2").exists() && out.join("h3").is_dir());
}

#[test]
fn calls_that_lead_around_an_overlay_are_not_permitted() {
    let [_, ov, out] = beside("overlay-chroot");
    // From the system header; the arguments are invalid, but for the first of `unshare`.
    let script = "my $ov = shift; my @all = (155, 161, 163, 165, 166, 167, 168, 179, 304, 308, 428,
            429, 430, 431, 432, 433, 442, 443);
        for (@all) { print syscall($_, -1, -1, -1, -1, -1) == -1 && $!{EPERM} ? 1 : \" $_: $! \"; }
        print ' ', syscall(272, 0x20000), $!{EPERM} ? 1 : 0;
        print ' ', chroot($ov) ? 1 : 0, $!{EPERM} ? 1 : 0; open F, '>/f'; open F, '>/created'";
    for prefix in [vec!["--overlay", text(&ov)], vec!["--root", "/"]] {
        let words = ["perl", "-MErrno", "-e", script, text(&ov)];
        let before = state(&ov);
        let output = shown(&run(&[&OURS[..], &prefix].concat(), &words, &out));
        assert_eq!(state(&ov), before, "{output}");
        assert_eq!(output, format!("Some(0)\n{} -11 01", "1".repeat(18)));
    }
}

#[test]
fn dot_dot_needs_a_directory() {
    let [_, ov, out] = beside("overlay-dot-dot");
    let script = "my ($ov, $out) = @ARGV;
        sub e { print ' ', $_[0] ? 'ok' : $!{ENOTDIR} ? 'ENOTDIR' : $!{ENOENT} ? 'ENOENT' : $!; }
        for my $top ('..', \"$out/..\") {
            e(-e \"$top/out/nonexist/../../ov/f\"); e(-e \"$top/out/x/../../ov/f\");
            e(-e \"$top/ov/nonexist/../../out/x\"); e(-e \"$top/ov/f/../../out/x\");
            e(-e \"$top/ov/a/../../out/a/../x\"); e(-e \"$top/out/a/l/../ov/f\");
        }
        opendir D, 'a/b'; rmdir 'a/b' or die;
        for my $path (\"/proc/$$/fd/\" . fileno(D), '/proc/self/fd/' . fileno(D)) {
            e(open F, '>', \"$path/../../../ov/f\");
        }
        e(-e '/proc/self/../version'); e(-e \"/proc/$$/cwd/../ov/f\")";
    let words = ["perl", "-MErrno", "-e", script, text(&ov), text(&out)];
    let output = in_overlay(&ov, &words, &out);
    let each = " ENOENT ENOTDIR ENOENT ENOTDIR ok ok";
    let proc = output.strip_prefix(&format!("Some(0)\n{each}{each}"));
    let proc = proc.unwrap_or_else(|| panic!("{output}"));
    assert!(
        proc.starts_with(" ENO") && proc.ends_with(" ok ok"),
        "{proc}"
    );
    assert_eq!(proc.matches(" ENO").count(), 2, "{proc}");
}

#[test]
fn calls_by_number_keep_a_link_as_the_call_asks() {
    let [_, ov, out] = beside("overlay-attributes");
    symlink("../out/a", ov.join("lk")).expect("a link");
    symlink("../ov/lk/x", out.join("chain")).expect("a link");
    symlink("../ov/f", out.join("into")).expect("a link");
    // `lsetxattr`, `lgetxattr`, `name_to_handle_at`: a link has no attributes of users.
    let script = "my ($name, $value, $chain, $into) = ('user.x', 'v' x 9, 'chain', 'into');
        print syscall(189, $chain, $name, $value, 1, 0), $!{EPERM} ? 1 : 0, ' ';
        print syscall(192, $into, $name, $value, 9), $!{ENODATA} ? 1 : 0, ' ';
        my ($handle, $mount) = (pack('Ll', 0, 0) . 'x' x 128, 'x' x 8);
        print syscall(303, -100, $into, $handle, $mount, 0), $!{EOVERFLOW} ? 1 : 0";
    let before = state(&out);
    let host = shown(&run(&[], &["perl", "-MErrno", "-e", script], &out));
    let ours = in_overlay(&ov, &["perl", "-MErrno", "-e", script], &out);
    assert_eq!(state(&out), before, "{ours}");
    assert_eq!(ours, host);
}

#[test]
fn renames_beside_a_call_do_not_lead_it_to_the_host() {
    let [top, ov, out] = beside("overlay-races");
    fs::create_dir(out.join("place")).expect("a directory");
    for file in ["place/f", "file"] {
        fs::write(out.join(file), "f").expect("a file");
    }
    symlink(&ov, out.join("link")).expect("a link");
    symlink(ov.join("f"), out.join("to_f")).expect("a link");
    make_old(&top);
    let program = compiled("renamed", &[]);
    let output = in_overlay(&ov, &[text(&program), "..", "ov", "300"], &out);
    assert_eq!(output, "Some(0)\n");
}

#[test]
fn calls_beside_an_overlay_return_what_they_return_on_the_host() {
    let program = compiled("beside", &[]);
    let [_, ov, _] = beside("overlay-beside");
    let host = shown(&run(&[], &[text(&program)], &folder("beside-host")));
    assert!(host.starts_with("Some(0)\n"), "{host}");
    let ours = in_overlay(&ov, &[text(&program)], &folder("beside-ours"));
    let pairs = || host.lines().zip(ours.lines());
    let differences: Vec<_> = pairs().filter(|(host, ours)| host != ours).collect();
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(ours, host);
}

#[test]
fn the_working_directory_in_proc_is_the_same_from_each_directory() {
    let [_, ov, _] = beside("overlay-proc-cwd");
    let script = "opendir D, '../out' or die; my $path = '/proc/self/cwd/f';
        open my $f, '<&=', syscall(257, fileno(D), $path, 0, 0) or die $!; print <$f>";
    let output = perl(&ov, &ov, script);
    assert_eq!(output, format!("Some(0)\n{}", text(&ov.join("f"))));
}

#[test]
fn a_directory_above_an_overlay_is_not_renamed_where_no_descriptor_is_left() {
    let [top, ov, out] = beside("overlay-full");
    let script = "my $top = shift; my (@files, @how);
        while (open my $file, '<', 'x') { push @files, $file }
        for (0 .. 9) {
            my $moved = rename $top, \"$top.moved\";
            push @how, $moved ? 'moved' : $!{EBUSY} ? 'busy' : $!{EMFILE} ? 'full' : $!;
            pop @files;
        }
        print \"@how\"";
    let limited = "ulimit -n 64; exec \"$@\"";
    let ours = [OURS[0], OURS[1], "--overlay", text(&ov)];
    let perl = ["perl", "-MErrno", "-e", script, text(&top)];
    let output = shown(&run(
        &["sh", "-c", limited, "sh"],
        &[&ours[..], &perl].concat(),
        &out,
    ));
    assert!(output.starts_with("Some(0)\nfull full"), "{output}");
    assert!(output.ends_with(" busy busy"), "{output}");
    assert!(!output.contains("moved"), "{output}");
}
