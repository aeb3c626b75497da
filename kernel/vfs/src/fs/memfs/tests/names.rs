//! Names, paths, and directories that are created and removed.

use super::*;
use crate::FileKind;

#[test]
fn a_path_starts_at_the_root_however_it_is_written() {
    let fs = tree(&["d/", "d/e/", "d/e/a"]);
    let inode = fs.stat("d/e/a").unwrap().inode;
    for path in ["/d/e/a", "//d//e/a", "./d/./e/a", "d/e/../e/a", "../d/e/a"] {
        assert_eq!(fs.stat(path).unwrap().inode, inode, "{path}");
    }
    let directory = fs.stat("d/e").unwrap();
    assert_eq!(directory.kind, FileKind::Directory);
    for path in ["d/e/", "d/e/.", "d/e/../../d/e/.."] {
        let expected = if path.ends_with("..") { "d" } else { "d/e" };
        assert_eq!(fs.stat(path), fs.stat(expected), "{path}");
    }
    assert_eq!(fs.stat("/.."), fs.stat("/"));
}

#[test]
fn a_failed_lookup_returns_the_reason() {
    let fs = tree(&["d/", "a"]);
    for (path, errno) in [
        ("", Errno::ENOENT),
        ("none", Errno::ENOENT),
        ("none/a", Errno::ENOENT),
        ("none/../a", Errno::ENOENT),
        ("d/none", Errno::ENOENT),
        ("a/b", Errno::ENOTDIR),
        ("a/..", Errno::ENOTDIR),
        ("a/", Errno::ENOTDIR),
    ] {
        assert_eq!(fs.stat(path), Err(errno), "{path}");
    }
    let long = "x".repeat(256);
    assert_eq!(fs.stat(&long), Err(Errno::ENAMETOOLONG));
    assert_eq!(fs.stat(format!("{long}/a")), Err(Errno::ENAMETOOLONG));
    assert_eq!(fs.mkdir(&long), Err(Errno::ENAMETOOLONG));
}

#[test]
fn a_directory_lists_what_is_in_it() {
    let fs = tree(&["d/", "d/a", "d/e/", "d/e/deep", "b"]);
    assert_eq!(list(&fs, "/"), ["b", "d"]);
    assert_eq!(list(&fs, "d"), ["a", "e"]);
    let entries = entries(&**fs.open("d", OpenFlags::RDONLY).unwrap()).unwrap();
    for entry in entries {
        let stat = fs.stat([b"d/", &*entry.name].concat()).unwrap();
        assert_eq!((entry.inode, entry.kind), (stat.inode, stat.kind));
    }
    assert_eq!(fs.stat("d").unwrap().size, 2);
}

#[test]
fn no_two_inodes_have_the_same_number() {
    let fs = tree(&["a", "b", "d/", "d/a"]);
    let numbers = ["/", "a", "b", "d", "d/a"].map(|path| fs.stat(path).unwrap().inode);
    let distinct: std::collections::HashSet<_> = numbers.into_iter().collect();
    assert_eq!(distinct.len(), 5);
}

#[test]
fn a_name_is_taken_once() {
    let fs = tree(&["d/", "a"]);
    for path in ["d", "a", "d/", "/", ".", "d/.."] {
        assert_eq!(fs.mkdir(path), Err(Errno::EEXIST), "{path}");
    }
    fs.mkdir("new/").unwrap();
    assert_eq!(fs.mkdir("none/d"), Err(Errno::ENOENT));
    assert_eq!(fs.mkdir("a/d"), Err(Errno::ENOTDIR));
}

#[test]
fn only_an_empty_directory_is_removed() {
    let fs = tree(&["d/", "d/e/", "a"]);
    for (path, errno) in [
        ("d", Errno::ENOTEMPTY),
        ("none", Errno::ENOENT),
        ("a", Errno::ENOTDIR),
        ("/", Errno::EBUSY),
        ("d/.", Errno::EINVAL),
        ("d/e/..", Errno::ENOTEMPTY),
    ] {
        assert_eq!(fs.rmdir(path), Err(errno), "{path}");
    }
    fs.rmdir("d/e").unwrap();
    fs.rmdir("d/").unwrap();
    assert_eq!(list(&fs, "/"), ["a"]);
}

#[test]
fn only_a_file_is_unlinked() {
    let fs = tree(&["d/", "d/a"]);
    for (path, errno) in [
        ("d", Errno::EISDIR),
        ("d/", Errno::EISDIR),
        ("/", Errno::EISDIR),
        ("d/..", Errno::EISDIR),
        ("d/a/", Errno::ENOTDIR),
        ("none", Errno::ENOENT),
    ] {
        assert_eq!(fs.unlink(path), Err(errno), "{path}");
    }
    fs.unlink("d/a").unwrap();
    assert_eq!(list(&fs, "d"), [""; 0]);
}

#[test]
fn nothing_is_created_in_a_directory_that_was_removed() {
    let fs = tree(&["d/"]);
    let directory = directory(&fs, "d");
    fs.rmdir("d").unwrap();
    assert!(directory.lock().is_err());
    assert!(directory.lookup(b"a", &fs.path_context()).is_err());
    assert_eq!(directory.list(), Ok(Vec::new()));
}

#[test]
fn a_tree_is_removed_with_everything_in_it() {
    let fs = tree(&["d/", "d/a", "d/e/", "d/e/a", "b"]);
    let inner = directory(&fs, "d/e");
    let open = fs.open("d/e", OpenFlags::RDONLY).unwrap();
    fs.remove_tree("d").unwrap();
    assert_eq!(list(&fs, "/"), ["b"]);
    assert!(inner.lock().is_err(), "nothing can be created inside");
    assert_eq!(entries(&**open), Ok(vec![]));
    fs.remove_tree("b").unwrap();
    for (path, errno) in [
        ("d", Errno::ENOENT),
        ("/", Errno::EBUSY),
        (".", Errno::EINVAL),
    ] {
        assert_eq!(fs.remove_tree(path), Err(errno), "{path}");
    }
    create(&fs, "a");
    assert_eq!(fs.remove_tree("a/"), Err(Errno::ENOTDIR));
}

/// Makes a tree too deep for one stack frame per level. A path cannot be as long: it takes renames.
fn deep() -> MemFs {
    let fs = MemFs::default();
    let new = || {
        Directory::new(
            fs.root.meta().device,
            fs.limits.clone(),
            fs.root.permissions(),
        )
    };
    let put = |parent: &Directory, directory: Arc<Directory>| {
        let mut names = parent.lock().unwrap();
        let entry = names.prepare(b"d", directory).unwrap();
        parent.insert(&mut names, entry);
    };
    let mut top = new();
    for _ in 0..200_000 {
        let parent = new();
        put(&parent, top);
        top = parent;
    }
    put(&fs.root, top);
    fs
}

#[test]
fn depth_takes_no_stack() {
    deep().remove_tree("d").unwrap();
    drop(deep());
}
