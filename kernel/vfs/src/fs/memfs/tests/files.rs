//! The contents of files.

use super::*;

#[test]
fn a_file_is_there_once_it_was_created() {
    let fs = MemFs::default();
    assert_eq!(open_error(&fs, "a", OpenFlags::RDONLY), Errno::ENOENT);
    fs.open("a", OpenFlags::CREAT).unwrap();
    fs.open("a", OpenFlags::RDONLY).unwrap();
    assert_eq!(open_error(&fs, "b", OpenFlags::RDONLY), Errno::ENOENT);
}

#[test]
fn an_exclusive_creation_refuses_what_exists() {
    let fs = tree(&["a", "d/"]);
    let exclusive = OpenFlags::CREAT | OpenFlags::EXCL;
    for path in ["a", "d", "/", "d/."] {
        assert_eq!(open_error(&fs, path, exclusive), Errno::EEXIST, "{path}");
    }
    fs.open("a", OpenFlags::CREAT).unwrap();
}

#[test]
fn two_opens_of_a_name_see_the_same_bytes() {
    let fs = MemFs::default();
    let one = fs.open("a", OpenFlags::CREAT | OpenFlags::WRONLY).unwrap();
    one.write(b"same").unwrap();
    for flags in [OpenFlags::RDONLY, OpenFlags::CREAT] {
        let mut buf = [0; 8];
        assert_eq!(fs.open("a", flags).unwrap().read(&mut buf), Ok(4));
        assert_eq!(&buf[..4], b"same");
    }
}

#[test]
fn truncation_empties_the_file_and_its_absence_does_not() {
    let fs = MemFs::default();
    let file = fs.open("a", OpenFlags::CREAT | OpenFlags::RDWR).unwrap();
    file.write(b"old").unwrap();
    fs.open("a", OpenFlags::CREAT | OpenFlags::RDWR).unwrap();
    assert_eq!(fs.stat("a").unwrap().size, 3);
    fs.open("a", OpenFlags::RDWR | OpenFlags::TRUNC).unwrap();
    assert_eq!(fs.stat("a").unwrap().size, 0);
}

#[test]
fn a_refused_open_creates_nothing() {
    let fs = MemFs::default();
    let unnamed = OpenFlags::TMPFILE | OpenFlags::RDONLY;
    assert_eq!(open_error(&fs, "a", unnamed), Errno::EINVAL);
    let both = OpenFlags::CREAT | OpenFlags::DIRECTORY;
    assert_eq!(open_error(&fs, "a", both), Errno::EINVAL);
    assert_eq!(open_error(&fs, "", OpenFlags::CREAT), Errno::ENOENT);
    assert_eq!(open_error(&fs, "a/", OpenFlags::CREAT), Errno::EISDIR);
    assert_eq!(list(&fs, "/"), [""; 0]);
}

#[test]
fn an_open_directory_has_names_and_no_bytes() {
    let fs = tree(&["d/", "d/a", "d/b"]);
    for flags in [
        OpenFlags::WRONLY,
        OpenFlags::RDWR,
        OpenFlags::CREAT,
        OpenFlags::TRUNC,
    ] {
        assert_eq!(open_error(&fs, "d", flags), Errno::EISDIR, "{flags:?}");
    }
    let open = fs.open("d/", OpenFlags::RDONLY).unwrap();
    assert_eq!(open.read(&mut [0]), Err(Errno::EISDIR));
    assert_eq!(open.write(b"x"), Err(Errno::EBADF));
    assert_eq!(entries(&**open).unwrap().len(), 2);
    assert_eq!(open.stat(), fs.stat("d"));
    assert_eq!(open_error(&fs, "d/a", OpenFlags::DIRECTORY), Errno::ENOTDIR);
}

#[test]
fn an_open_file_keeps_the_bytes() {
    let fs = tree(&["a"]);
    let open = fs.open("a", OpenFlags::RDWR).unwrap();
    open.write(b"kept").unwrap();
    fs.unlink("a").unwrap();
    create(&fs, "a");
    assert_eq!(open.read_at(&mut [0; 8], 0), Ok(4));
    assert_eq!(fs.stat("a").unwrap().size, 0);
}

#[test]
fn the_bytes_are_freed_with_the_name_however_it_is_removed() {
    let ways: [fn(&MemFs); 4] = [
        |fs| fs.unlink("d/a").unwrap(),
        |fs| fs.rename("d/b", "d/a").unwrap(),
        |fs| fs.rename("c", "d/a").unwrap(),
        |fs| fs.remove_tree("d").unwrap(),
    ];
    for (nth, way) in ways.into_iter().enumerate() {
        let fs = tree(&["d/", "d/a", "d/b", "c"]);
        let inode = file(&fs, "d/a");
        let open = fs.open("d/a", OpenFlags::RDWR).unwrap();
        open.write(b"bytes").unwrap();
        way(&fs);
        assert_eq!(inode.len(), 5, "way {nth}: it is open");
        drop(open);
        assert_eq!(inode.len(), 0, "way {nth}");
    }
}

#[test]
fn operations_on_a_revoked_file_return_eio() {
    let fs = tree(&["d/", "d/a"]);
    let file = fs.open("d/a", OpenFlags::RDWR).unwrap();
    let directory = fs.open("d", OpenFlags::RDONLY).unwrap();
    let other = fs.open("d/a", OpenFlags::RDWR).unwrap();
    file.revoke();
    directory.revoke();
    let eio = Errno::EIO;
    assert_eq!(file.read(&mut [0]), Err(eio));
    assert_eq!(file.try_write(b"x"), Err(eio));
    assert_eq!(file.read_at(&mut [0], 0), Err(eio));
    assert_eq!(file.write_at(b"x", 0), Err(eio));
    assert_eq!(file.seek(crate::SeekTo::Start(0)), Err(eio));
    assert_eq!(file.set_len(0), Err(eio));
    assert_eq!(file.stat(), Err(eio));
    assert_eq!(file.sync(), Err(eio));
    assert_eq!(entries(&**directory), Err(eio));
    assert_eq!(directory.stat(), Err(eio));
    assert_eq!(other.write(b"x"), Ok(1), "another open file goes on");
}
