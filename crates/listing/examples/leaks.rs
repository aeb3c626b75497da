//! Finds leaked files at shutdown: an unmount fails, and a listing shows why.
//!
//! `cargo run -p fdtable --example leaks`

use std::time::SystemTime;

use fdtable::{Access, Error, FdFlags, FileRef, Files, SuperBlock};
use fdtable_listing::{Describe, Description, List, Timestamp};

/// An open file. It records its owner and the time of its opening, since the library does not.
struct OpenFile {
    path: &'static str,
    access: Access,
    opened_by: &'static str,
    opened: Timestamp,
}

impl Describe for OpenFile {
    fn describe(&self) -> Description {
        Description::new("REG", self.path)
            .access(self.access)
            .owner(self.opened_by)
            .since(self.opened)
    }
}

fn open(
    superblock: &SuperBlock<OpenFile>,
    opened_by: &'static str,
    path: &'static str,
    access: Access,
) -> Result<FileRef<OpenFile>, Error> {
    let opened = Timestamp::from(SystemTime::now());
    let file = OpenFile {
        path,
        access,
        opened_by,
        opened,
    };
    FileRef::builder(file)
        .on(superblock, access)
        .on_release(|file, end| println!("{}: {end:?}", file.path))
        .try_build()
}

fn main() -> Result<(), Error> {
    let superblock = SuperBlock::new()?;
    let (syslogd, cat) = (Files::new(), Files::new());
    let log = open(
        &superblock,
        "pid 7 (syslogd)",
        "/var/messages",
        Access::Write,
    )?;
    syslogd.open(log, FdFlags::CLOEXEC)?;
    let motd = open(&superblock, "pid 8 (cat)", "/var/motd", Access::Read)?;
    let fd = cat.open(motd, FdFlags::empty())?;
    cat.dup(fd)?;

    // One process ends. The other one was forgotten.
    drop(syslogd);

    if let Err(busy) = superblock.unmount() {
        println!(
            "\ncannot unmount: {busy}; open are\n\n{}",
            superblock.list()?
        );
        println!(
            "\nunder the descriptors\n\n{}\n",
            cat.list()?.labelled("pid 8 (cat)")
        );
        superblock.revoke()?;
    }
    println!(
        "\nafter revoking\n\n{}",
        cat.list()?.labelled("pid 8 (cat)")
    );
    superblock.unmount()
}
