//! `budget`: how much code there is, and how much there may be.
//!
//! A line counts that has code of the product, as rustfmt leaves it: no comment, no blank, and
//! nothing that is compiled only for tests or models. `budgets.txt` has the largest accepted value
//! of each count. More than that fails; fewer asks for a smaller budget.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{Result, fail_with, no_arguments, root, source};

mod shape;

const BUDGETS: &str = "xtask/budgets.txt";

/// The crates of the library.
const LIBRARY: &[&str] = &[
    "crates/sync",
    "crates/slab",
    "crates/objects",
    "crates/fdtable",
    "crates/listing",
];

/// The counts: a name in the file of budgets, its folders, and how to count.
const COUNTS: &[(&str, &[&str], Kind)] = &[
    ("library", LIBRARY, Kind::Lines),
    ("crates/sync", &["crates/sync"], Kind::Lines),
    ("crates/slab", &["crates/slab"], Kind::Lines),
    ("crates/objects", &["crates/objects"], Kind::Lines),
    ("crates/fdtable", &["crates/fdtable"], Kind::Lines),
    ("crates/listing", &["crates/listing"], Kind::Lines),
    ("crates/interests", &["crates/interests"], Kind::Lines),
    ("crates/capi", &["crates/capi"], Kind::Lines),
    ("kernel", &["kernel"], Kind::Lines),
    ("lab+xtask", &["lab", "xtask"], Kind::Lines),
    ("cfg-attributes", LIBRARY, Kind::CfgAttributes),
    ("long-files", &["crates", "kernel"], Kind::LongFiles),
    ("long-functions", &["crates", "kernel"], Kind::LongFunctions),
    ("circles", &["crates"], Kind::Circles),
    ("circles-of-kernel", &["kernel"], Kind::Circles),
    ("methods-of-files", &["crates/fdtable"], Kind::Methods),
    ("exported-types", &["crates/fdtable"], Kind::Types),
];

/// A file is long that has more lines than this, comments included.
const LONG_FILE: usize = 800;

/// A function is long that has more lines of code than this.
const LONG_FUNCTION: usize = 100;

#[derive(Clone, Copy)]
enum Kind {
    Lines,
    CfgAttributes,
    LongFiles,
    LongFunctions,
    /// Files that name each other.
    Circles,
    /// Documented methods of `Files`.
    Methods,
    /// Types that the crate exports.
    Types,
}

/// The code of a file, without what is compiled for tests or models alone.
struct Product {
    path: PathBuf,
    /// How many lines the file has.
    length: usize,
    /// The lines with code.
    code: Vec<String>,
}

pub(crate) fn run(arguments: &[String]) -> Result {
    no_arguments(arguments)?;
    for (name, found) in all()? {
        println!("{name:<16} {:>6}", found.len());
        if name.starts_with("long-") || name.starts_with("circles") {
            found.iter().for_each(|what| println!("    {what}"));
        }
    }
    check()
}

/// Compares each count with its budget.
pub(crate) fn check() -> Result {
    let text = source::read(&root().join(BUDGETS))?;
    let mut wrong = Vec::new();
    for (name, found) in all()? {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .ok_or_else(|| format!("{BUDGETS} has no line for {name}"))?;
        let budget: usize = line.trim().parse()?;
        if found.len() > budget {
            wrong.push(format!(
                "{name}: {} where {budget} are allowed",
                found.len()
            ));
        } else if found.len() < budget {
            println!(
                "{name}: {}, {budget} allowed: lower it in {BUDGETS}",
                found.len()
            );
        }
    }
    fail_with(&wrong)
}

/// Each name, and what was found for it.
fn all() -> Result<Vec<(&'static str, Vec<String>)>> {
    let mut products = Vec::new();
    for folder in ["crates", "kernel", "lab", "xtask"] {
        products.extend(products_of(folder)?);
    }
    let is_in = |product: &Product, folder: &&str| product.path.starts_with(root().join(folder));
    let of = |&(name, folders, kind): &(&'static str, &[&str], Kind)| {
        let counted = products
            .iter()
            .filter(|product| folders.iter().any(|folder| is_in(product, folder)));
        let found = match kind {
            Kind::Circles => shape::circles(&counted.collect::<Vec<_>>()),
            _ => counted.flat_map(|product| count(product, kind)).collect(),
        };
        (name, found)
    };
    Ok(COUNTS.iter().map(of).collect())
}

fn count(product: &Product, kind: Kind) -> Vec<String> {
    let shown = source::shown(&product.path);
    match kind {
        Kind::Lines => product.code.clone(),
        Kind::CfgAttributes => product
            .code
            .iter()
            .filter(|line| line.contains("#[cfg") || line.contains("#![cfg"))
            .cloned()
            .collect(),
        Kind::LongFiles if product.length > LONG_FILE => {
            vec![format!("{shown}: {} lines", product.length)]
        }
        Kind::LongFiles => Vec::new(),
        Kind::LongFunctions => functions(&product.code)
            .into_iter()
            .filter(|(_, lines)| *lines > LONG_FUNCTION)
            .map(|(name, lines)| format!("{shown}: {name}, {lines} lines"))
            .collect(),
        Kind::Methods => shape::methods(product, "Files")
            .into_iter()
            .map(str::to_owned)
            .collect(),
        Kind::Types if product.path.ends_with("lib.rs") => shape::types(product),
        Kind::Types | Kind::Circles => Vec::new(),
    }
}

/// The product in the sources of the crates below a folder.
fn products_of(folder: &str) -> Result<Vec<Product>> {
    let mut products = Vec::new();
    let mut left_out = BTreeSet::new();
    for path in source::files(folder, "rs")? {
        let is_source = path.components().any(|part| part.as_os_str() == "src");
        let is_test = path.components().any(|part| part.as_os_str() == "tests");
        // Attributes give these their paths, whose text is no code.
        let is_model = path.ends_with("model.rs");
        if !is_source || is_test || is_model {
            continue;
        }
        let text = source::read(&path)?;
        let lines = source::lines(&text);
        let length = lines.len();
        let code: String = lines.iter().flat_map(|line| [&line.code, "\n"]).collect();
        let mut product = String::new();
        for module in without_tests(&code, &mut product) {
            let place = place_of_modules(&path);
            left_out.insert(place.join(format!("{module}.rs")));
            left_out.insert(place.join(module));
        }
        let code = product
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(str::to_owned)
            .collect();
        products.push(Product { path, length, code });
    }
    products.retain(|product| !product.path.ancestors().any(|part| left_out.contains(part)));
    Ok(products)
}

/// The folder of the modules that a file declares.
fn place_of_modules(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default();
    if ["lib", "main", "mod"].iter().any(|root| stem == *root) {
        file.with_file_name("")
    } else {
        file.with_extension("")
    }
}

/// Copies code without the items that are compiled for tests or models alone. Returns the modules
/// among them that have files.
fn without_tests(code: &str, product: &mut String) -> Vec<String> {
    let mut modules = Vec::new();
    let mut rest = code;
    while let Some(start) = rest.find("#[cfg(").or_else(|| rest.find("#![cfg(")) {
        let condition = start + rest[start..].find('(').unwrap_or(0);
        let end = condition + group(&rest[condition..]);
        let after = end + rest[end..].find(']').map_or(0, |bracket| bracket + 1);
        if can_be(&rest[condition..end], true) {
            product.push_str(&rest[..after]);
            rest = &rest[after..];
            continue;
        }
        product.push_str(&rest[..start]);
        if rest[start..].starts_with("#!") {
            product.clear();
            return modules;
        }
        let length = item(&rest[after..]);
        let skipped = &rest[after..after + length];
        if let Some(name) = skipped
            .trim_end_matches(';')
            .split_once("mod ")
            .filter(|_| skipped.ends_with(';'))
        {
            modules.push(name.1.trim().to_owned());
        }
        rest = &rest[after + length..];
    }
    product.push_str(rest);
    modules
}

/// The length of a group with brackets of any kind, with which the text begins.
fn group(text: &str) -> usize {
    let mut depth = 0;
    for (index, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + c.len_utf8();
        }
    }
    text.len()
}

/// The length of an item, a statement, a field or an arm, with the attributes before it.
fn item(text: &str) -> usize {
    let mut at = 0;
    let is_item = has_keyword(text);
    while let Some(c) = text[at..].chars().next() {
        match c {
            '(' | '[' | '{' => {
                at += group(&text[at..]);
                let after = text[at..].trim_start();
                let goes_on = after.starts_with([';', ',', '.', '=', '?']);
                if c == '{' && !goes_on {
                    return at;
                }
            }
            ';' => return at + 1,
            ',' if !is_item => return at + 1,
            // The end of what the item is in.
            ')' | ']' | '}' => return at,
            _ => at += c.len_utf8(),
        }
    }
    at
}

/// Returns true if the text is an item or a statement, in which a comma ends nothing.
fn has_keyword(text: &str) -> bool {
    const KEYWORDS: &str = " fn impl mod use struct enum trait static const type extern let \
                            macro_rules unsafe union ";
    let mut rest = text.trim_start();
    while rest.starts_with("#[") {
        rest = rest[1 + group(&rest[1..])..].trim_start();
    }
    if let Some(public) = rest.strip_prefix("pub") {
        rest = public.trim_start();
        if rest.starts_with('(') {
            rest = rest[group(rest)..].trim_start();
        }
    }
    let mut words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let is_keyword = |word: &str| KEYWORDS.contains(&format!(" {word} "));
    words.next().is_some_and(is_keyword)
}

/// Returns true if a condition can have this value where neither tests nor models are compiled.
fn can_be(condition: &str, value: bool) -> bool {
    let condition = condition.trim();
    let inner = |name: &str| {
        let inner = condition
            .strip_prefix(name)?
            .trim_start()
            .strip_prefix('(')?;
        inner.strip_suffix(')')
    };
    if let Some(inner) = inner("not") {
        return can_be(inner, !value);
    }
    if let Some(inner) = inner("") {
        return can_be(inner, value);
    }
    let every = inner("all");
    if let Some(inner) = every.or_else(|| inner("any")) {
        let mut parts = parts(inner).into_iter();
        return if every.is_some() == value {
            parts.all(|part| can_be(part, value))
        } else {
            parts.any(|part| can_be(part, value))
        };
    }
    !matches!(condition, "test" | "doctest" | "loom") || !value
}

/// The parts between the commas of a list.
fn parts(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(c) = list[at..].chars().next() {
        match c {
            '(' | '{' => at += group(&list[at..]),
            ',' => {
                parts.push(&list[start..at]);
                at += 1;
                start = at;
            }
            _ => at += c.len_utf8(),
        }
    }
    parts.push(&list[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The functions in lines of code, with the number of lines of each.
fn functions(code: &[String]) -> Vec<(String, usize)> {
    let text: String = code.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    let mut functions = Vec::new();
    for (start, _) in text.match_indices("fn ") {
        let is_word = !text[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let name: String = text[start + 3..]
            .chars()
            .take_while(|&c| c.is_alphanumeric() || c == '_')
            .collect();
        let body = &text[start..];
        let length = item(body);
        if is_word && !name.is_empty() && body[..length].ends_with('}') {
            functions.push((name, body[..length].lines().count()));
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(code: &str) -> (String, Vec<String>) {
        let mut product = String::new();
        let modules = without_tests(code, &mut product);
        (product, modules)
    }

    #[test]
    fn tests_and_models_are_left_out() {
        let code = "a;\n#[cfg(test)]\nmod tests;\n#[cfg(not(loom))]\nb;\n#[cfg(all(loom, x))]\n\
                    fn f(a: [u8; 2], b: ()) -> C {\n    d;\n}\ne;\n";
        let (product, modules) = product(code);
        let left: Vec<&str> = product.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(left, ["a;", "#[cfg(not(loom))]", "b;", "e;"]);
        assert_eq!(modules, ["tests"]);
    }

    #[test]
    fn a_field_and_an_import_are_left_out_alone() {
        let code = "struct A {\n    #[cfg(loom)]\n    pub(super) b: C<D>,\n    e: F,\n}\n\
                    #[cfg(test)]\nuse g::{h, i};\nj;\n";
        let (product, _) = product(code);
        let left: Vec<&str> = product
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        assert_eq!(left, ["struct A {", "e: F,", "}", "j;"]);
    }

    #[test]
    fn a_condition_that_others_meet_too_is_no_test() {
        assert!(can_be("(any(test, unix))", true));
        assert!(!can_be("(any(test, all(loom, unix)))", true));
        assert!(can_be("(not(all(test, unix)))", true));
        assert!(!can_be("(not(not(test)))", true));
    }

    #[test]
    fn functions_have_their_lines() {
        let code = [
            "fn a() {",
            "    b;",
            "}",
            "fn c(d: &dyn Fn(u8) -> u8) {",
            "}",
        ];
        let code = code.map(str::to_owned);
        assert_eq!(functions(&code), [("a".to_owned(), 3), ("c".to_owned(), 2)]);
    }
}
