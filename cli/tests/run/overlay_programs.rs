//! Programs of a Debian system in an overlay, beside the host: what they print, how they end, and
//! the tree that they leave, which is not on the host. The host's directory does not change.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::overlay::{make_old, state, text};
use super::{OURS, compiled, folder, is_installed, run, shown};

/// Programs and their arguments, as a shell reads them. None starts another process, because the
/// changes of that one would not be seen.
const PROGRAMS: &str = r"
find tree -type f -name 't*' -delete
find tree -newer text -o -type l -printf '%p %l\n'
find -L tree -maxdepth 4 -printf '%p %y %m %s %U %G\n'
cp -a tree copy
cp -rL tree/a copy
cp -al tree copy
cp -b text tree/one
cp --sparse=always tree/sparse other
cp --parents tree/a/b/three tree/empty
cp text /proc/self/cwd/here
cp text tree/dangling
mv tree moved
mv -b text old
mv text tree/a/
mv tree tree/a
mv tree/one tree/hard
mv tree/a ../beside/a
mv ../beside/archive.tar tree/dir
tar -xf ../beside/archive.tar
tar -xf ../beside/archive.tar --overwrite -C tree
tar --remove-files -cf ../beside/new.tar tree
sed -i.bak s/1/2/ text tree/one
sed -i --follow-symlinks s/1/9/ tree/link
sed -n 1,5w\ out text
perl -pi -e s/line/x/ text tree/a/two
rm -rf tree
rm -rf tree/dir/
rmdir -p tree/empty
ln -sfn b tree/dir
ln -f text tree/one
ln -L tree/link hard
ln -rs tree/a/b/three relative
stat -c '%n %F %s %h %a %U %G %Y %N' tree text tree/link tree/fifo
du -ab tree
install -D -m 2750 text p/q/r
install text tree/link
truncate -s 100 text
truncate -s +1M tree/link
truncate -s 10 tree/dangling
split -n 3 text tree/part
csplit -s text 100 200
sort -T . -S 100k -n lines -o sorted
sort -n lines -o lines
patch -b -p0 -i p.diff
patch -p0 -o result -i p.diff
make -n
make clean
ar rcs tree/lib.a text old
touch -d 2010-01-02 text tree/link tree/a
touch -hr old tree/link
chmod -R go-rwx tree
chown -R 1:2 tree
chown -h 5:6 tree/link
mkfifo -m 600 fifo
dd if=text of=tree/one bs=100 seek=3 conv=notrunc status=none
dd if=text of=text bs=10 count=1 status=none
shred -n 1 -zu old
tee a tree/one
gzip -r tree/a
fallocate -p -o 0 -l 4096 text
ls -laR --time-style=+ tree
realpath tree/dir/../text /proc/self/cwd tree/link
readlink /proc/self/cwd
sh -c 'cd tree/a; umask 077; >new; >../one; exec ls -lo --time-style=+ .. /proc/self/cwd/'
git config -f tree/config a.b c
git diff --no-index --name-status tree/a tree/empty
unzip -v
zip -qm tree/z.zip fifo
bzip2 text
xz -T1 text
";

/// A tree with each kind of file, and an archive of it beside.
fn fill(top: &Path) {
    let tree = top.join("t/tree");
    fs::create_dir_all(tree.join("a/b")).expect("a directory");
    fs::create_dir(top.join("beside")).expect("a directory");
    let lines: String = (0..500)
        .map(|line| format!("line {line} of {}\n", line * 7919 % 1000))
        .collect();
    let numbers: String = (0..20_000)
        .map(|line| format!("{}\n", line * 7919 % 100_003))
        .collect();
    for (name, contents) in [
        ("text", &lines[..]),
        ("lines", &numbers),
        ("new", "1\ntwo\n3\n"),
        ("old", "1\n2\n3\n"),
        (
            "p.diff",
            "--- old\n+++ old\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n",
        ),
        (
            "Makefile",
            "all: x\nx: text\n\tcp text x\nclean:\n\trm -f x\n",
        ),
        ("tree/one", "1\n"),
        ("tree/a/two", "22\n"),
        ("tree/a/b/three", "333\n"),
    ] {
        fs::write(top.join("t").join(name), contents).expect("a file");
    }
    for (to, link) in [("one", "link"), ("a", "dir"), ("nowhere", "dangling")] {
        symlink(to, tree.join(link)).expect("a link");
    }
    fs::hard_link(tree.join("one"), tree.join("hard")).expect("a link");
    fs::create_dir(tree.join("empty")).expect("a directory");
    let sparse = fs::File::create(tree.join("sparse")).expect("a file");
    sparse.set_len(1 << 20).expect("its size");
    for (name, mode) in [("a/two", 0o640), ("empty", 0o2755), ("a/b/three", 0o755)] {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).expect("the mode");
    }
    // Only root may.
    let _ = chown(tree.join("a/two"), Some(1000), Some(100));
    let made = Command::new("mkfifo").arg(tree.join("fifo")).status();
    assert!(made.expect("mkfifo").success());
    make_old(top);
    let mut archive = Command::new("tar");
    archive.arg("-cf").arg(top.join("beside/archive.tar"));
    archive
        .args(["--sort=name", "--format=ustar", "-C"])
        .arg(top.join("t"))
        .arg("tree");
    assert!(archive.status().expect("tar").success());
    make_old(top);
}

/// What a program prints, how it ends, and the tree at its end.
fn left(prefix: &[&str], program: &str, shower: &Path, top: &Path) -> (String, String) {
    // The host's: it is not below the tree.
    let name = top.file_name().expect("a name").display();
    let into = format!("/dev/shm/fdtable-{}-{name}", std::process::id());
    let into = Path::new(&into);
    let _ = fs::remove_file(into);
    let environment = [
        format!("LD_PRELOAD={}", text(shower)),
        format!("TREE={}", text(&top.join("t"))),
        format!("TREE_INTO={}", text(into)),
    ];
    let script = format!("exec {program}");
    let mut words = vec!["env"];
    words.extend(environment.iter().map(String::as_str));
    words.extend(["sh", "-c", &script]);
    let output = shown(&run(prefix, &words, &top.join("t")));
    let tree = fs::read_to_string(into).unwrap_or_default();
    let _ = fs::remove_file(into);
    (output, tree)
}

#[track_caller]
fn same_trees(test: &str, options: &[&str]) {
    static SHOWER: OnceLock<PathBuf> = OnceLock::new();
    let shower = SHOWER.get_or_init(|| compiled("tree", &["-shared", "-fPIC"]));
    for program in PROGRAMS.lines().filter(|line| !line.is_empty()) {
        if !is_installed(program.split(' ').next().unwrap_or_default()) {
            eprintln!("not installed: {program}");
            continue;
        }
        let top = folder(test);
        fill(&top);
        let host = left(&[], program, shower, &top);
        assert!(host.1.contains("./p.diff"), "{program}: {}", host.0);
        let top = folder(test);
        fill(&top);
        let before = state(&top.join("t"));
        let ours = left(&[&OURS[..], options].concat(), program, shower, &top);
        assert_eq!(ours, host, "{program}");
        assert_eq!(state(&top.join("t")), before, "{program}");
    }
}

#[test]
fn programs_leave_the_trees_of_the_host_in_an_overlay() {
    let test = "overlay-programs";
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{test}/t"));
    same_trees(test, &["--overlay", text(&directory)]);
}

#[test]
fn programs_leave_the_trees_of_the_host_in_another_root() {
    same_trees("root-programs", &["--root", "/"]);
}
