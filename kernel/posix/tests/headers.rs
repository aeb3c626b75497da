//! Checks that the headers and the list for `objcopy` match the sources and `names.txt`.
//!
//! `FDTABLE_BLESS=1 cargo test -p fdtable-posix --test headers` writes them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// One line of the table.
struct Name {
    /// The name, and its aliases with their functions.
    plain: String,
    others: Vec<String>,
}

/// When `posix.h` includes a header.
#[derive(Clone, Copy, PartialEq)]
enum Include {
    Always,
    IfRedirected,
    Never,
}

struct Header {
    file: String,
    include: Include,
    names: Vec<Name>,
}

#[test]
fn headers_are_those_of_the_sources() {
    let headers = table();
    let fdtable_h = fdtable_h();
    let prototypes = prototypes(&fdtable_h);
    let sources = sources();
    for name in headers.iter().flat_map(|header| &header.names) {
        let function = format!("fdt_{}", name.plain);
        assert!(prototypes.contains_key(&function), "{function} is missing");
        for other in &name.others {
            let is_there = |end| sources.contains(&format!("fdt_{other}{end}"));
            assert!(is_there("(") || is_there(" = "), "fdt_{other} is missing");
        }
    }
    compare("include/fdtable.h", &fdtable_h);
    compare("include/fdtable/posix.h", &posix_h(&headers, &prototypes));
    compare("include/fdtable/redefine.syms", &redefine_syms(&headers));
}

/// A C compiler accepts the headers in every mode of the system headers, and the layouts are equal.
#[test]
fn headers_compile() {
    let modes: [&[&str]; 5] = [
        &[],
        &["-std=c99"],
        &["-D_GNU_SOURCE"],
        &["-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64"],
        &[
            "-D_GNU_SOURCE",
            "-D_FILE_OFFSET_BITS=64",
            "-O2",
            "-D_FORTIFY_SOURCE=2",
        ],
    ];
    for mode in modes {
        compile("both_headers.c", &["-include", "fdtable/posix.h"], mode);
        compile(
            "both_headers.c",
            &["-xc++", "-include", "fdtable/posix.h"],
            mode.get(1..).unwrap_or(&[]),
        );
    }
    compile("layout.c", &[], &[]);
}

fn compile(source: &str, how: &[&str], mode: &[&str]) {
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-Iinclude"])
        .args(mode)
        .args(how)
        .arg(Path::new("tests").join(source))
        .current_dir(path(""))
        .status();
    assert!(
        compiled.expect("a C compiler").success(),
        "{source} {how:?} {mode:?}"
    );
}

/// Returns the source files whose functions no header declares.
fn sources() -> String {
    ["src/aliases/lfs64.rs", "src/aliases/fortify.rs"]
        .map(|file| fs::read_to_string(path(file)).unwrap())
        .concat()
}

/// Reads `names.txt`.
fn table() -> Vec<Header> {
    let mut headers: Vec<Header> = Vec::new();
    for line in fs::read_to_string(path("names.txt")).unwrap().lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            headers.push(begun(header));
        } else {
            headers
                .last_mut()
                .expect("a header comes first")
                .names
                .push(parsed(line));
        }
    }
    headers
}

fn begun(header: &str) -> Header {
    let (file, when) = header.split_once(']').expect("a header ends with ]");
    let include = match when.trim() {
        "" => Include::Always,
        "if redirected" => Include::IfRedirected,
        "never" => Include::Never,
        other => panic!("{other} is no condition"),
    };
    Header {
        file: file.into(),
        include,
        names: Vec::new(),
    }
}

fn parsed(line: &str) -> Name {
    let mut words = line.split_whitespace().map(String::from);
    let plain = words.next().expect("a line has a name");
    Name {
        plain,
        others: words.collect(),
    }
}

/// Generates the header with cbindgen.
fn fdtable_h() -> String {
    let root = path("");
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_crate(&root)
        .with_config(config)
        .generate()
        .unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    // cbindgen writes another name of this type, and C programs use this one.
    let text = String::from_utf8(text)
        .unwrap()
        .replace("ptrdiff_t", "ssize_t");
    text.replace("[`", "`").replace("`]", "`")
}

/// Returns the prototype of each function.
fn prototypes(header: &str) -> HashMap<String, String> {
    let statements = header
        .lines()
        .filter(|line| !line.starts_with("//") && !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = HashMap::new();
    for statement in statements.split(';') {
        let statement = statement.rsplit(['{', '}']).next().unwrap_or_default();
        let words = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((before, _)) = words.split_once('(') {
            let name = before.rsplit([' ', '*']).next().unwrap_or_default();
            found.insert(name.to_string(), format!("{words};"));
        }
    }
    found
}

fn posix_h(headers: &[Header], prototypes: &HashMap<String, String>) -> String {
    let checked_in = fs::read_to_string(path("include/fdtable/posix.h")).unwrap();
    let (head, rest) = checked_in
        .split_once("/* Generated. */\n")
        .expect("a place for it");
    let (_, tail) = rest
        .split_once("/* End of what is generated. */\n")
        .expect("its end");
    let mut block = String::new();
    includes(&mut block, headers);
    declarations(&mut block, headers, prototypes);
    macros(&mut block, headers);
    format!("{head}/* Generated. */\n{block}/* End of what is generated. */\n{tail}")
}

fn includes(block: &mut String, headers: &[Header]) {
    let of = |include| {
        headers
            .iter()
            .filter(move |header| header.include == include)
    };
    block.push('\n');
    for header in of(Include::Always) {
        writeln!(block, "#include <{}>", header.file).unwrap();
    }
    block.push_str("#ifdef FDTABLE_REDIRECTED\n");
    for header in of(Include::IfRedirected) {
        writeln!(block, "#include <{}>", header.file).unwrap();
    }
    block.push_str("#endif\n");
}

/// Writes declarations of the functions that the included headers declare under the plain name.
fn declarations(block: &mut String, headers: &[Header], prototypes: &HashMap<String, String>) {
    block.push_str("\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    for include in [Include::Always, Include::IfRedirected] {
        if include == Include::IfRedirected {
            block.push_str("#ifdef FDTABLE_REDIRECTED\n");
        }
        let headers = headers.iter().filter(|header| header.include == include);
        for name in headers.flat_map(|header| &header.names) {
            let prototype = &prototypes[&format!("fdt_{}", name.plain)];
            writeln!(block, "{prototype}").unwrap();
        }
        if include == Include::IfRedirected {
            block.push_str("#endif\n");
        }
    }
    block.push_str("#ifdef __cplusplus\n}\n#endif\n\n");
}

fn macros(block: &mut String, headers: &[Header]) {
    for name in headers.iter().flat_map(|header| &header.names) {
        writeln!(block, "#undef {0}\n#define {0} fdt_{0}", name.plain).unwrap();
        for other in name.others.iter().filter(|other| !other.starts_with('_')) {
            writeln!(block, "#undef {other}\n#define {other} fdt_{}", name.plain).unwrap();
        }
    }
    block.push('\n');
}

fn redefine_syms(headers: &[Header]) -> String {
    let mut list = String::new();
    for name in headers.iter().flat_map(|header| &header.names) {
        for name in std::iter::once(&name.plain).chain(&name.others) {
            writeln!(list, "{name} fdt_{name}").unwrap();
        }
    }
    list
}

fn compare(file: &str, made: &str) {
    let file = path(file);
    if env::var_os("FDTABLE_BLESS").is_some() {
        fs::write(&file, made).unwrap();
    }
    let checked_in = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        checked_in == made,
        "{} is old: FDTABLE_BLESS=1 cargo test -p fdtable-posix --test headers",
        file.display()
    );
}

fn path(file: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}
