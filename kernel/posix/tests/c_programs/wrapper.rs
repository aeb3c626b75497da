//! Builds a project with `fdt-cc`, as its makefile would with `cc`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compile;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Makes a directory like that of `scripts/install`, with the libraries that cargo built.
fn installed(at: &Path) -> PathBuf {
    let _ = fs::remove_dir_all(at);
    for directory in ["bin", "lib"] {
        fs::create_dir_all(at.join(directory)).unwrap();
    }
    let source = Path::new(CRATE);
    let shared = compile::static_library().with_extension("so");
    symlink(source.join("include"), at.join("include")).unwrap();
    symlink(&shared, at.join("lib").join(compile::soname())).unwrap();
    symlink(&shared, at.join("lib/libfdtable.so")).unwrap();
    for name in ["fdt-cc", "fdt-c++"] {
        fs::copy(source.join("bin/fdt-cc"), at.join("bin").join(name)).unwrap();
    }
    at.join("bin/fdt-cc")
}

fn output(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{command:?}: {}, {said}",
        done.status
    );
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_makefile_project_builds_with_the_wrapper() {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrapper");
    let wrapper = installed(&base);
    let project = base.join("a project");
    fs::create_dir_all(&project).unwrap();
    for file in fs::read_dir(Path::new(CRATE).join("tests/project")).unwrap() {
        let file = file.unwrap().path();
        fs::copy(&file, project.join(file.file_name().unwrap())).unwrap();
    }
    let make = |compiler: &str, targets: &[&str]| {
        let compiler = format!("CC={compiler}");
        output(
            Command::new("make")
                .current_dir(&project)
                .arg(compiler)
                .args(targets),
        )
    };
    let expect_ours = |program: &str| {
        let said = output(&mut Command::new(project.join(program)));
        assert_eq!(said, "6 bytes, ours: 1\n", "{program}");
    };
    let with = wrapper.to_str().unwrap();
    make(with, &["program", "at_once"]);
    expect_ours("program");
    expect_ours("at_once");
    // Objects and an archive of the plain compiler are renamed when they are linked.
    make("cc", &["-B", "main.o", "libcopy.a"]);
    fs::remove_file(project.join("program")).unwrap();
    make(with, &["program"]);
    expect_ours("program");
}

#[test]
fn the_wrapper_passes_on_what_makes_no_object() {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrapper-text");
    let wrapper = installed(&base);
    let source = Path::new(CRATE).join("tests/project/copy.c");
    for option in ["-E", "-M", "-fsyntax-only"] {
        let mut ours = Command::new(&wrapper);
        let mut plain = Command::new("cc");
        let [ours, plain] = [&mut ours, &mut plain].map(|it| output(it.arg(option).arg(&source)));
        assert_eq!(ours, plain, "{option}");
    }
    let library = base.join("libcopy.so");
    let mut shared = Command::new(&wrapper);
    output(
        shared
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&source),
    );
    let imported = output(Command::new("nm").arg("-D").arg(&library));
    assert!(imported.contains("U fdt_open"), "{imported}");
}
