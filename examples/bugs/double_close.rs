//! Two owners are made of one raw descriptor.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

fn borrowed(file: &File) -> File {
    unsafe { File::from_raw_fd(file.as_raw_fd()) }
}

fn main() {
    let file = File::open("/dev/null").unwrap();
    let copy = borrowed(&file);
    drop(copy);
    drop(file);
}
