//! The crates of the library, and a copy of them that is a workspace of its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::Process;
use crate::{Result, root};

/// A crate of the library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its name and version, as those of its archive.
    pub(crate) versioned: String,
    pub(crate) folder: PathBuf,
}

/// Returns the crates of the library, the lowest first: those that the workspace publishes.
pub(crate) fn crates() -> Result<Vec<Package>> {
    let metadata = Process::cargo("metadata").words("--no-deps --format-version 1");
    let published = published(&metadata.read()?);
    if published.is_empty() {
        return Err("the workspace publishes nothing".into());
    }
    Ok(published)
}

/// Returns the packages in cargo's description of a workspace that have no `publish = false`.
fn published(metadata: &str) -> Vec<Package> {
    // The name and the version of a package are the last ones before its manifest, and its
    // `publish` is the first one behind it.
    let parts: Vec<&str> = metadata.split(r#""manifest_path":""#).collect();
    let package = |parts: &[&str]| {
        let (before, version) = parts[0].rsplit_once(r#"","version":""#)?;
        let (_, name) = before.rsplit_once('"')?;
        let (version, _) = version.split_once('"')?;
        let (manifest, rest) = parts[1].split_once('"')?;
        let is_published = rest.contains(r#""publish":null"#);
        is_published.then_some(Package {
            name: name.to_owned(),
            versioned: format!("{name}-{version}"),
            folder: Path::new(manifest).parent()?.to_owned(),
        })
    };
    parts.windows(2).filter_map(package).collect()
}

/// Replaces `workspace` by a copy of the sources as they are now, with the same versions of all
/// dependencies, and returns the crates in it.
pub(crate) fn copy_to(workspace: &Path) -> Result<Vec<Package>> {
    if workspace.exists() {
        fs::remove_dir_all(workspace)?;
    }
    let packages = crates()?;
    let mut members = Vec::new();
    for package in &packages {
        let folder = package.folder.strip_prefix(root())?;
        copy_all(&package.folder, &workspace.join(folder))?;
        members.push(format!("{:?}", folder.display().to_string()));
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
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
    fs::copy(root().join("Cargo.lock"), workspace.join("Cargo.lock"))?;
    Ok(packages)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_without_publish_false_is_published() {
        let package = |name: &str, publish: &str| {
            format!(
                "{{\"name\":\"{name}\",\"version\":\"0.1.0\",\"dependencies\":[{{\"name\":\"libc\",\
                 \"req\":\"^0.2\"}}],\"manifest_path\":\"/w/{name}/Cargo.toml\",\"publish\":{publish}}}"
            )
        };
        let metadata = [
            package("a", "null"),
            package("b", "[]"),
            package("c", "null"),
        ]
        .join(",");
        let of = |name: &str| Package {
            name: name.to_owned(),
            versioned: format!("{name}-0.1.0"),
            folder: Path::new("/w").join(name),
        };
        assert_eq!(published(&metadata), [of("a"), of("c")]);
    }
}
