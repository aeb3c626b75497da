//! Which files of a crate name which, and what a crate exports.
//!
//! A file names another by a path that begins with `crate` or `super`. Names of its ancestors do
//! not count: a module is part of its parent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Product, parts};
use crate::source;

/// The modules of a crate: their path, and the modules that each names.
type Arrows = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Returns the circles of files that name each other, directly or by others.
pub(super) fn circles(products: &[&Product]) -> Vec<String> {
    let mut crates: BTreeMap<&Path, Vec<(Vec<String>, &Product)>> = BTreeMap::new();
    for product in products {
        let mut ancestors = product.path.ancestors();
        if let Some(root) = ancestors.find(|part| part.ends_with("src")) {
            let module = module_of(product.path.strip_prefix(root).unwrap_or(root));
            crates.entry(root).or_default().push((module, product));
        }
    }
    let mut found = Vec::new();
    for (root, files) in crates {
        for circle in circles_of(&arrows(&files)) {
            let names: Vec<_> = circle.iter().map(|module| module.join("/")).collect();
            found.push(format!("{}: {}", source::shown(root), names.join(", ")));
        }
    }
    found
}

/// The path of the module in a file.
fn module_of(file: &Path) -> Vec<String> {
    let path = file.with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy().into_owned());
    parts
        .filter(|part| !["lib", "main", "mod"].contains(&part.as_str()))
        .collect()
}

fn arrows(files: &[(Vec<String>, &Product)]) -> Arrows {
    let modules: BTreeSet<&Vec<String>> = files.iter().map(|(module, _)| module).collect();
    let named = |module: &Vec<String>, product: &Product| {
        let paths = paths(&product.code.join("\n"), module).into_iter();
        let known = paths.filter_map(|mut path| {
            while !modules.contains(&path) {
                path.pop()?;
            }
            Some(path)
        });
        known.filter(|path| !module.starts_with(path)).collect()
    };
    let arrows = files
        .iter()
        .map(|(module, product)| (module.clone(), named(module, product)));
    arrows.collect()
}

/// Returns the paths from the root of the crate that the code of a module names.
fn paths(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for word in ["crate::", "super::"] {
        for (at, _) in code.match_indices(word) {
            let before = &code[..at];
            let is_whole = !before.ends_with(|c: char| c.is_alphanumeric() || "_$:".contains(c));
            if !is_whole {
                continue;
            }
            let (mut base, mut rest) = (Vec::new(), &code[at..]);
            if let Some(after) = rest.strip_prefix("crate::") {
                rest = after;
            } else {
                base = module.to_vec();
                while let Some(after) = rest.strip_prefix("super::") {
                    base.pop();
                    rest = after;
                }
            }
            tree(rest, base, &mut found);
        }
    }
    found
}

/// Adds the paths of a tree of imports, which begin with `base`.
fn tree(text: &str, mut base: Vec<String>, found: &mut Vec<Vec<String>>) {
    let text = text.trim_start();
    if text.starts_with('{') {
        let inner = &text[1..super::group(text) - 1];
        for part in parts(inner) {
            tree(part, base.clone(), found);
        }
        return;
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    if !name.is_empty() {
        base.push(name.to_owned());
    }
    match rest.strip_prefix("::") {
        Some(rest) => tree(rest, base, found),
        None => found.push(base),
    }
}

/// Returns the sets of modules each of which reaches all others of its set.
fn circles_of(arrows: &Arrows) -> Vec<Vec<&Vec<String>>> {
    let reached = |from| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            let new = arrows.get(module).into_iter().flatten();
            next.extend(new.filter(|&to| reached.insert(to)));
        }
        reached
    };
    let reach: BTreeMap<_, _> = arrows.keys().map(|from| (from, reached(from))).collect();
    let circle_of = |from| -> Vec<_> {
        let back = reach[from].iter().copied();
        back.filter(|to| reach.get(to).is_some_and(|of| of.contains(from)))
            .collect()
    };
    let circles: BTreeSet<_> = arrows.keys().map(circle_of).collect();
    circles.into_iter().filter(|set| !set.is_empty()).collect()
}

/// Returns the names of the documented methods of a type.
pub(super) fn methods<'p>(product: &'p Product, of: &str) -> Vec<&'p str> {
    let (mut is_in, mut is_hidden) = (false, false);
    let mut methods = Vec::new();
    for line in &product.code {
        if line.starts_with("impl") {
            is_in = !is_hidden && line.contains(&format!("> {of}<"));
        }
        is_hidden = line.contains("doc(hidden)");
        let function = line.strip_prefix("    pub ");
        let name = function.and_then(|it| it.trim_start_matches("const ").strip_prefix("fn "));
        if let Some(name) = name.filter(|_| is_in) {
            methods.push(name.split(['(', '<']).next().unwrap_or(name));
        }
    }
    methods
}

/// Returns the types that the root of a crate exports.
pub(super) fn types(product: &Product) -> Vec<String> {
    let code = product.code.join("\n");
    let exports = code.split("pub use ").skip(1);
    let names = exports.flat_map(|export| {
        let export = export.split(';').next().unwrap_or(export);
        let words = export.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        words.filter(|word| word.starts_with(char::is_uppercase))
    });
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(path: &str, code: &str) -> Product {
        Product {
            path: crate::root().join(path),
            length: 0,
            code: code.lines().map(str::to_owned).collect(),
        }
    }

    #[test]
    fn files_that_name_each_other_by_a_third_are_a_circle() {
        let files = [
            product("x/src/lib.rs", "use crate::a::A;"),
            product(
                "x/src/a.rs",
                "use crate::{\n    b::{B, C},\n};\nuse crate::Root;",
            ),
            product("x/src/b.rs", "fn f() { super::d::e() }"),
            product("x/src/d.rs", "use crate::a;"),
            product("x/src/d/inner.rs", "use super::super::d::E;"),
            product("y/src/a.rs", "use crate::b;"),
        ];
        let files: Vec<&Product> = files.iter().collect();
        assert_eq!(circles(&files), ["x/src: a, b, d"]);
    }

    #[test]
    fn methods_and_types_are_those_that_users_see() {
        let code = "impl<T> Files<T> {\n    pub fn a<B>(b: B) {\n    pub(crate) fn c() {\n}\n\
                    #[doc(hidden)]\nimpl<T> Files<T> {\n    pub fn d() {\n}\nimpl<T> E for Files<T> {\n";
        assert_eq!(methods(&product("x/src/a.rs", code), "Files"), ["a"]);
        let root = product(
            "x/src/lib.rs",
            "pub use a::{B, c};\npub use d::E;\nuse f::G;",
        );
        assert_eq!(types(&root), ["B", "E"]);
    }
}
