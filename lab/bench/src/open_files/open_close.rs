//! Files that one thread opens and closes by descriptor: in a bare table, and by the vfs.

use std::hint::black_box;

use anyhow::ensure;
use fdtable::{FdFlags, Files, SuperBlock, rcu};
use fdtable_vfs::{OpenFlags, Process};
use serde::Serialize;

use super::Sample;
use super::lists::{File, FileList, Lists};
use crate::turn;

/// Pairs between two reads of the clock.
const CHUNK: usize = 256;

/// File that the vfs opens. Its one directory is fewer than most paths have.
const PATH: &str = "/include/stdio.h";

/// Layers that an open passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Layer {
    /// A table allocates a descriptor for a new file.
    Table,
    /// The vfs walks a path to an inode too.
    Vfs,
}

/// A table, and a file to open.
pub(super) struct Opener {
    lists: Lists,
    opens: Opens,
}

enum Opens {
    InTable {
        files: Box<Files<File>>,
        superblock: Option<SuperBlock<File>>,
    },
    ByVfs(Process),
}

/// Creates an opener of each layer with each kind of lists.
pub(super) fn all() -> anyhow::Result<Vec<Opener>> {
    let of = |lists| [Opener::with_table(lists), Opener::with_vfs(lists)];
    Lists::ALL.into_iter().flat_map(of).collect()
}

/// Measures the turns of an opener: nanoseconds per pair.
pub(super) fn sample(opener: &Opener) -> Sample<'_> {
    Box::new(move |turn| {
        let ns = turn::turn(1, turn, &|_| Box::new(|| opener.pairs()))?;
        // One subject must not free the memory that another left.
        rcu::barrier()?;
        ensure!(
            ns.is_finite(),
            "{}: a file did not open",
            opener.lists.name()
        );
        Ok(ns)
    })
}

impl Opener {
    fn with_table(lists: Lists) -> anyhow::Result<Self> {
        let opens = Opens::InTable {
            files: Box::default(),
            superblock: lists.superblock()?,
        };
        Ok(Opener { lists, opens })
    }

    fn with_vfs(lists: Lists) -> anyhow::Result<Self> {
        let process = Process::with(Files::new(), lists.file_system()?);
        process.mkdir("/include")?;
        let made = process.open(PATH, OpenFlags::CREAT | OpenFlags::WRONLY)?;
        process.close(made)?;
        Ok(Opener {
            lists,
            opens: Opens::ByVfs(process),
        })
    }

    pub(super) fn lists(&self) -> Lists {
        self.lists
    }

    pub(super) fn layer(&self) -> Layer {
        match self.opens {
            Opens::InTable { .. } => Layer::Table,
            Opens::ByVfs(_) => Layer::Vfs,
        }
    }

    /// Opens and closes, and returns the number of pairs.
    fn pairs(&self) -> usize {
        let done = match &self.opens {
            Opens::InTable { files, superblock } => in_table(files, superblock),
            Opens::ByVfs(process) => by_vfs(process),
        };
        done.map_or(0, |()| CHUNK)
    }
}

/// Opens a new file and closes it: the measured loop.
#[inline(never)]
fn in_table(files: &Files<File>, superblock: &Option<SuperBlock<File>>) -> Option<()> {
    for _ in 0..CHUNK {
        let fd = files.open(superblock.open()?, FdFlags::empty()).ok()?;
        drop(files.close(black_box(fd)).ok()?);
    }
    Some(())
}

/// Opens a path and closes its descriptor: the measured loop.
#[inline(never)]
fn by_vfs(process: &Process) -> Option<()> {
    for _ in 0..CHUNK {
        let fd = process.open(PATH, OpenFlags::RDONLY).ok()?;
        process.close(black_box(fd)).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_layer_is_listed_with_every_kind_of_lists() {
        let openers = all().unwrap();
        for lists in Lists::ALL {
            for layer in [Layer::Table, Layer::Vfs] {
                let same = |it: &&Opener| it.lists() == lists && it.layer() == layer;
                assert_eq!(
                    openers.iter().filter(same).count(),
                    1,
                    "{lists:?} {layer:?}"
                );
            }
        }
    }

    #[test]
    fn an_opened_file_joins_the_lists_of_its_kind() {
        for opener in all().unwrap() {
            assert_eq!(opener.pairs(), CHUNK);
            let (superblock, made) = match &opener.opens {
                Opens::InTable { superblock, .. } => {
                    (superblock.as_ref().map(SuperBlock::statistics), 0)
                }
                Opens::ByVfs(process) => {
                    let superblock = process.fs().superblock();
                    (superblock.map(SuperBlock::statistics), 1)
                }
            };
            let counted = superblock.map(|counted| (counted.joined, counted.left));
            let expected = (CHUNK + made) as u64;
            let expected = (opener.lists() != Lists::None).then_some((expected, expected));
            assert_eq!(counted, expected, "{:?}", opener.layer());
        }
    }

    #[test]
    fn a_file_that_does_not_open_is_an_error() {
        let opener = Opener::with_vfs(Lists::PerCpu).unwrap();
        let Opens::ByVfs(process) = &opener.opens else {
            panic!("not the vfs");
        };
        process.unlink(PATH).unwrap();
        assert!(sample(&opener)(Duration::from_millis(1)).is_err());
    }
}
