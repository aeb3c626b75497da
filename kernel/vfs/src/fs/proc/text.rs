//! The files of `fdinfo`, whose text is generated when they are read.

use std::io::IoSliceMut;
use std::sync::Arc;

use fdtable::FileRef;
use fdtable_shm::{Mutex, MutexGuard};

use super::{ProcessRef, fdinfo};
use crate::fs::{Inode, Opening, SeekTo, Stat, VfsPath};
use crate::vectored::scatter;
use crate::{Errno, Object, OpenFlags, RcuObject, Status, Transfer, TransferMode};

/// Inode of a generated text.
pub(super) struct TextInode {
    pub(super) stat: Stat,
    pub(super) shown: Arc<ProcessRef>,
    pub(super) fd: i32,
}

/// Open text. A read from the start generates it; the following reads return the same text.
/// In Linux: `seq_file`.
struct OpenText {
    path: VfsPath,
    inode: Arc<TextInode>,
    status: Status,
    cursor: Mutex<TextCursor>,
}

#[derive(Default)]
struct TextCursor {
    position: u64,
    text: Vec<u8>,
}

impl Inode for TextInode {
    fn stat(&self) -> Stat {
        self.stat
    }

    /// # Errors
    /// `EACCES` if it is opened for writing.
    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        let flags = opening.flags();
        if flags.can_write() || flags.contains(OpenFlags::TRUNC) {
            return Err(Errno::EACCES);
        }
        opening.file(OpenText {
            path: opening.path(self.clone()),
            inode: self,
            status: Status::new(flags),
            cursor: Mutex::default(),
        })
    }
}

impl OpenText {
    /// Locks the text for a read at a position. Generates it if the position is 0, or if there is
    /// none yet; without the lock, because the generator may look at this very file.
    fn prepare(
        &self,
        position: impl Fn(&TextCursor) -> u64,
    ) -> Result<MutexGuard<'_, TextCursor>, Errno> {
        let cursor = self.cursor.lock();
        if position(&cursor) > 0 && !cursor.text.is_empty() {
            return Ok(cursor);
        }
        drop(cursor);
        let text = fdinfo::text(&self.inode.shown, self.inode.fd)?;
        let mut cursor = self.cursor.lock();
        cursor.text = text;
        Ok(cursor)
    }
}

impl TextCursor {
    fn copy(&self, offset: u64, buf: &mut [u8]) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.text.get(start..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        count
    }
}

impl Object for OpenText {
    fn status_cell(&self) -> Option<&Status> {
        Some(&self.status)
    }

    /// No call blocks, but read-side sections are too short for all of them.
    fn is_nonblocking(&self) -> bool {
        false
    }

    fn path(&self) -> Option<VfsPath> {
        Some(self.path.clone())
    }

    fn read_to(&self, bufs: &mut [IoSliceMut<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        if how.mode == TransferMode::Section {
            return Err(Errno::EAGAIN);
        }
        scatter(bufs, |buf| {
            let mut cursor = self.prepare(|cursor| how.at.unwrap_or(cursor.position))?;
            let count = cursor.copy(how.at.unwrap_or(cursor.position), buf);
            if how.at.is_none() {
                cursor.position += count as u64;
            }
            Ok(count)
        })
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(self.inode.stat)
    }

    /// # Errors
    /// `EINVAL` if the position would be negative or above `i64::MAX`, or is relative to an end
    /// that is not known.
    fn seek(&self, to: SeekTo) -> Result<u64, Errno> {
        let mut cursor = self.cursor.lock();
        cursor.position = to.resolve(cursor.position, || None)?;
        Ok(cursor.position)
    }
}
