//! Listings for programs, as JSON.

#![cfg(all(feature = "serde", not(loom)))]

use std::time::Duration;

use fdtable::{Access, FdFlags, FileRef, Files, PrivateFiles, SuperBlock};
use fdtable_listing::{Describe, Description, List, Timestamp};
use serde_json::{Value, json};

struct Log;

impl Describe for Log {
    fn describe(&self) -> Description {
        Description::new("REG", "a \"log\"\n")
            .access(Access::Write)
            .owner("pid 7")
            .since(Timestamp::from_unix(Duration::from_millis(1_500)))
            .inode(u64::MAX)
            .size(4096)
            .position(0)
    }
}

struct Pipe;

impl Describe for Pipe {
    fn describe(&self) -> Description {
        Description::new("FIFO", "[pipe]").access(Access::Read)
    }
}

fn log() -> Value {
    json!({
        "kind": "REG", "name": "a \"log\"\n", "access": "write", "owner": "pid 7",
        "since": "1970-01-01T00:00:01.5Z", "inode": u64::MAX, "size": 4096, "position": 0,
    })
}

fn pipe() -> Value {
    json!({
        "kind": "FIFO", "name": "[pipe]", "access": "read", "owner": null,
        "since": null, "inode": null, "size": null, "position": null,
    })
}

#[test]
fn a_table_is_a_sequence_of_rows() {
    let files: Files<dyn DescribeSync> = Files::new();
    files
        .open(FileRef::new_dyn(Log, |log| log), FdFlags::CLOEXEC)
        .unwrap();
    let pipe_file = FileRef::new_dyn(Pipe, |pipe| pipe as &dyn DescribeSync);
    files.open(pipe_file.clone(), FdFlags::empty()).unwrap();
    FileRef::revoke(&pipe_file);
    let listing = files.list().unwrap().labelled("pid 8");
    let expected = json!([
        {
            "label": "pid 8", "fd": 0, "cloexec": true, "private_fd": null,
            "references": 1, "revoked": false, "description": log(),
        },
        {
            "label": "pid 8", "fd": 1, "cloexec": false, "private_fd": null,
            "references": 2, "revoked": true, "description": pipe(),
        },
    ]);
    assert_eq!(serde_json::to_value(&listing).unwrap(), expected);
    assert_eq!(
        serde_json::to_value(&listing.rows()[0]).unwrap(),
        expected[0]
    );
}

trait DescribeSync: Describe + Send + Sync {}
impl<T: Describe + Send + Sync> DescribeSync for T {}

#[test]
fn a_private_descriptor_is_a_text() {
    let files = PrivateFiles::new();
    let fd = files.open(FileRef::new(Pipe)).unwrap();
    let expected = json!([{
        "label": null, "fd": null, "cloexec": null, "private_fd": fd.to_string(),
        "references": 1, "revoked": false, "description": pipe(),
    }]);
    assert_eq!(
        serde_json::to_value(files.list().unwrap()).unwrap(),
        expected
    );
}

#[test]
fn a_file_of_a_superblock_has_no_descriptor() {
    let superblock = SuperBlock::new().unwrap();
    let _file = FileRef::builder(Log)
        .on(&superblock, Access::Write)
        .try_build()
        .unwrap();
    let expected = json!([{
        "label": null, "fd": null, "cloexec": null, "private_fd": null,
        "references": 1, "revoked": false, "description": log(),
    }]);
    assert_eq!(
        serde_json::to_value(superblock.list().unwrap()).unwrap(),
        expected
    );
}
