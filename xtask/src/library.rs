//! The crates of the library, in a copy that is a workspace of its own.

use std::fs;
use std::path::Path;

use crate::{Result, root};

/// The crates and their packages: folders below `crates`, the lowest first.
pub(crate) const CRATES: [(&str, &str); 5] = [
    ("sync", "fdtable-sync"),
    ("slab", "fdtable-slab"),
    ("objects", "fdtable-objects"),
    ("fdtable", "fdtable"),
    ("listing", "fdtable-listing"),
];

/// Choice of the lock file of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockFile {
    /// The same versions of all dependencies as here.
    Copied,
    /// Cargo chooses the versions, by the `rust-version` of the crates in the copy.
    Absent,
}

/// Replaces `workspace` by a copy of the sources as they are now.
pub(crate) fn copy_to(workspace: &Path, lock_file: LockFile) -> Result {
    if workspace.exists() {
        fs::remove_dir_all(workspace)?;
    }
    for (folder, _) in CRATES {
        let folder = Path::new("crates").join(folder);
        copy_all(&root().join(&folder), &workspace.join(folder))?;
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let members = CRATES.map(|(folder, _)| format!("\"crates/{folder}\""));
    let members = members.join(", ");
    let line = |line: &str| {
        if line.starts_with("members = ") {
            format!("members = [{members}]\n")
        } else if line.starts_with("default-members = ") {
            String::new()
        } else {
            format!("{line}\n")
        }
    };
    let manifest: String = manifest.lines().map(line).collect();
    fs::write(workspace.join("Cargo.toml"), manifest)?;
    if lock_file == LockFile::Copied {
        fs::copy(root().join("Cargo.lock"), workspace.join("Cargo.lock"))?;
    }
    Ok(())
}

/// Copies a directory with everything in it. Links are followed.
fn copy_all(from: &Path, to: &Path) -> Result {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
