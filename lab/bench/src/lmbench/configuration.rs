//! The configurations: with slabs and blocks, and without.

use anyhow::ensure;
use fdtable_slab::{self as slab, Backing};
use fdtable_vfs::{Object, Process};
use serde::{Deserialize, Serialize};

use super::work::PreparedRows;
use crate::baseline::FilesStruct;
use crate::calls::Locked;
use crate::table::RcuFile;

/// A process without blocks.
pub(super) type Plain = Locked<FilesStruct<RcuFile<dyn Object>>>;

named! {
    /// Measured configuration. Each runs in a process of its own.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Configuration {
        /// Coloured slabs, and descriptors in blocks.
        Ours = "slabs and blocks",
        /// Slabs that all begin alike.
        NoColours = "no colours",
        /// The heap of the C library.
        NoSlabs = "no slabs",
        /// That heap, and an array and bitmaps under a lock.
        Plain = "no slabs, no blocks",
    }
}

impl Configuration {
    fn backing(self) -> Backing {
        match self {
            Self::Ours => Backing::Coloured,
            Self::NoColours => Backing::Uncoloured,
            Self::NoSlabs | Self::Plain => Backing::GlobalHeap,
        }
    }

    /// Prepares the rows in this process, which must not have created an open file yet.
    pub(super) fn prepare(self) -> anyhow::Result<PreparedRows> {
        slab::choose(self.backing())?;
        let works = match self {
            Self::Plain => PreparedRows::new::<Plain>()?,
            _ => PreparedRows::new::<Process>()?,
        };
        let has_slabs = !slab::infos().is_empty();
        let wants_slabs = self.backing() != Backing::GlobalHeap;
        ensure!(
            has_slabs == wants_slabs,
            "{}: the process has another memory configuration",
            self.name()
        );
        Ok(works)
    }
}
