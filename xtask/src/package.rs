//! `package`: the crates that are published, as their users get them.
//!
//! Cargo makes the archives of all crates that the workspace publishes. Each must have its
//! licences, and a README without links to files of the repository. Then a program outside of the
//! workspace is built on the archives: one of edition 2021, for which cargo chooses the newest
//! versions of all dependencies, with today's compiler and with the oldest one that the library
//! promises.

use std::fs;
use std::path::PathBuf;

use crate::process::Process;
use crate::steps::Verdict;
use crate::{Result, library, no_arguments, root, source, target, toolchain};

/// The program, which is also the first package of its workspace. The archives are the others.
const PROGRAM: &str = "\
fn main() -> Result<(), fdtable::Error> {
    let files = fdtable::Files::new();
    let fd = files.open(fdtable::FileRef::new(\"motd\"), fdtable::FdFlags::CLOEXEC)?;
    files.close(fd).map(drop)
}
";

pub(crate) fn run(arguments: &[String]) -> Result {
    no_arguments(arguments)?;
    check().map(Verdict::show)
}

/// Does all that publishing does but the upload; then looks at the archives, and builds the program
/// on them.
pub(crate) fn check() -> Result<Verdict> {
    forget_archives()?;
    // It builds each archive on those of the other crates, and does not keep them.
    let publish = cargo("publish --workspace --dry-run --quiet");
    let publish = publish.env("CARGO_TARGET_DIR", target().join("publish"));
    publish.run()?;
    let packages = library::crates()?;
    let names = packages.iter().flat_map(|package| ["-p", &package.name]);
    cargo("package --no-verify --quiet").args(names).run()?;
    let directory = target().join("outside");
    let workspace = directory.join("workspace");
    if workspace.exists() {
        fs::remove_dir_all(&workspace)?;
    }
    fs::create_dir_all(workspace.join("src"))?;
    let mut paths = String::new();
    for package in &packages {
        let archive = target().join(format!("package/{}.crate", package.versioned));
        // Files that are as old as cargo says would not be built again.
        let unpack = Process::new("tar").arg("-xzmf").arg(archive);
        unpack.arg("-C").arg(&workspace).run()?;
        for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            let file = workspace.join(&package.versioned).join(file);
            if let Some(link) = dead_links(&source::read(&file)?).first() {
                return Err(format!("{}: {link} is not published", source::shown(&file)).into());
            }
        }
        paths += &format!("{} = {{ path = {:?} }}\n", package.name, package.versioned);
    }
    fs::write(
        workspace.join("Cargo.toml"),
        format!(
            "[package]\nname = \"outside\"\nedition = \"2021\"\n\n[workspace]\n\n\
             [dependencies]\n{paths}\n[patch.crates-io]\n{paths}"
        ),
    )?;
    fs::write(workspace.join("src/main.rs"), PROGRAM)?;

    let cargo = |words: &str| {
        let cargo = Process::new("cargo").words(words).directory(&workspace);
        cargo.env("CARGO_TARGET_DIR", directory.join("target"))
    };
    cargo("run --quiet").run()?;
    let version = promised()?;
    let Some(oldest) = toolchain::installed(&version) else {
        return Ok(Verdict::NotFinished(format!(
            "no toolchain {version} is installed (rustup toolchain install {version}); the lints \
             report items of the standard library that are newer"
        )));
    };
    let check = format!("+{oldest} check --workspace");
    let of_crates = format!("{check} --exclude outside");
    cargo(&check).run()?;
    cargo(&of_crates).arg("--all-features").run()?;
    cargo(&of_crates).arg("--no-default-features").run()?;
    Ok(Verdict::Passed)
}

/// Removes what cargo has unpacked and built of the archives of earlier runs. It takes them for
/// those of today, since they have the same versions. They are unpacked in a folder that has the
/// name of no registry's host.
fn forget_archives() -> Result {
    let home = std::env::var("CARGO_HOME").or_else(|_| {
        let home = std::env::var("HOME");
        home.map(|home| format!("{home}/.cargo"))
    })?;
    let built = target().join("publish/debug/.fingerprint");
    for (folder, prefix) in [
        (format!("{home}/registry/src").into(), "-"),
        (built, "fdtable"),
    ] {
        let Ok(entries) = fs::read_dir::<PathBuf>(folder) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                fs::remove_dir_all(entry.path())?;
            }
        }
    }
    Ok(())
}

/// Cargo, which packages changes only if it is told to. A clean clone has none.
fn cargo(words: &str) -> Process {
    let changes = Process::new("git").words("status --porcelain").read();
    let is_clean = changes.is_ok_and(|changes| changes.is_empty());
    let allow = if is_clean { "" } else { "--allow-dirty" };
    Process::new("cargo").words(words).words(allow)
}

/// Returns the links of a document to other files, which a registry does not have.
fn dead_links(document: &str) -> Vec<&str> {
    let links = document.split("](").skip(1);
    let links = links.filter_map(|rest| rest.split(')').next());
    let definitions = document.lines().filter(|line| line.starts_with('['));
    let definitions = definitions.filter_map(|line| Some(line.split_once("]: ")?.1));
    let is_dead = |link: &&str| !link.starts_with("https://") && !link.starts_with('#');
    links.chain(definitions).filter(is_dead).collect()
}

/// The version of Rust that the library promises.
fn promised() -> Result<String> {
    let manifest = source::read(&root().join("crates/fdtable/Cargo.toml"))?;
    let version = manifest.split("rust-version = \"").nth(1);
    let version = version.and_then(|rest| rest.split('"').next());
    let version = version.ok_or("crates/fdtable/Cargo.toml has no rust-version")?;
    Ok(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_file_of_the_repository_is_dead() {
        let document =
            "[a](https://a), ![b](docs/b.svg), [c](#c)\n[`d`](../d), [e][e]\n\n[e]: e.md\n";
        assert_eq!(dead_links(document), ["docs/b.svg", "../d", "e.md"]);
    }
}
