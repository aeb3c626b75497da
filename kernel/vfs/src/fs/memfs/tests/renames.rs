//! Tests of `rename`: its effects and its errors.

use super::*;

#[test]
fn a_file_gets_its_new_name_and_keeps_its_inode() {
    let fs = tree(&["d/", "d/a", "e/"]);
    let inode = fs.stat("d/a").unwrap().inode;
    for (old, new) in [("d/a", "d/b"), ("d/b", "e/b"), ("e/b", "c")] {
        fs.rename(old, new).unwrap();
        assert_eq!(fs.stat(old), Err(Errno::ENOENT), "{old}");
        assert_eq!(fs.stat(new).unwrap().inode, inode, "{new}");
    }
}

#[test]
fn a_file_is_replaced_in_one_step() {
    let fs = tree(&["d/", "d/a", "d/b", "c"]);
    let inode = fs.stat("d/a").unwrap().inode;
    fs.rename("d/a", "d/b").unwrap();
    assert_eq!(list(&fs, "d"), ["b"]);
    fs.rename("d/b", "c").unwrap();
    assert_eq!(list(&fs, "d"), [""; 0]);
    assert_eq!(fs.stat("c").unwrap().inode, inode);
}

#[test]
fn a_directory_moves_with_all_that_is_in_it() {
    let fs = tree(&["d/", "d/e/", "d/e/a", "f/"]);
    fs.rename("d/e", "f/g").unwrap();
    assert_eq!(list(&fs, "f/g"), ["a"]);
    assert_eq!(fs.stat("f/g/.."), fs.stat("f"));
    fs.rmdir("d").unwrap();
    fs.rename("f/", "h/").unwrap();
    assert_eq!(list(&fs, "h/g"), ["a"]);
}

#[test]
fn a_directory_replaces_an_empty_one() {
    let fs = tree(&["d/", "d/a", "e/", "f/", "f/b"]);
    let replaced = directory(&fs, "e");
    fs.rename("d", "e").unwrap();
    assert_eq!(list(&fs, "/"), ["e", "f"]);
    assert_eq!(list(&fs, "e"), ["a"]);
    assert!(replaced.lock().is_err(), "nothing can be created inside");
    assert_eq!(fs.rename("e", "f"), Err(Errno::ENOTEMPTY));
    assert_eq!(list(&fs, "e"), ["a"]);
}

#[test]
fn a_rename_between_two_names_of_one_inode_changes_nothing() {
    let fs = tree(&["a", "d/"]);
    fs.rename("a", "./a").unwrap();
    fs.rename("a", "a").unwrap();
    fs.rename("d", "d/").unwrap();
    fs.rename("d", "d/../d").unwrap();
    assert_eq!(list(&fs, "/"), ["a", "d"]);
}

#[test]
fn a_rename_that_would_break_the_tree_is_refused() {
    let fs = tree(&["a", "d/", "d/e/", "d/e/f/", "g/"]);
    for (old, new, errno) in [
        ("none", "b", Errno::ENOENT),
        ("d/none", "b", Errno::ENOENT),
        ("a", "none/b", Errno::ENOENT),
        ("a", "a/b", Errno::ENOTDIR),
        ("a", "d", Errno::EISDIR),
        ("a", "d/e", Errno::EISDIR),
        ("d", "a", Errno::ENOTDIR),
        ("a", "b/", Errno::ENOTDIR),
        ("a/", "b", Errno::ENOTDIR),
        ("d", "d/e/x", Errno::EINVAL),
        ("d", "d/x", Errno::EINVAL),
        ("d/e/f", "d", Errno::ENOTEMPTY),
        ("d/e", "d", Errno::ENOTEMPTY),
        ("g", "d/e", Errno::ENOTEMPTY),
        ("/", "x", Errno::EBUSY),
        ("d", "/", Errno::EBUSY),
        ("d/.", "x", Errno::EBUSY),
        ("d/..", "x", Errno::EBUSY),
    ] {
        assert_eq!(fs.rename(old, new), Err(errno), "{old} to {new}");
    }
    assert_eq!(list(&fs, "/"), ["a", "d", "g"]);
    assert_eq!(list(&fs, "d/e"), ["f"]);
}
