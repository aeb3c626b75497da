//! Functions and lines of places, by the debug information of files.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::{Object, ReadCache};

use super::message::Place;

/// A function at a place. A place has several if functions are inlined there.
#[derive(Debug, Default, Clone)]
pub(super) struct Frame {
    pub(super) function: Option<String>,
    pub(super) source: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
    /// The program or library, and the address in it.
    pub(super) module: Option<String>,
    pub(super) address: u64,
    pub(super) is_inlined: bool,
}

/// The symbols of a file, and those of its debug file.
struct Module {
    file: Option<Loader>,
    debug: Option<Loader>,
}

/// The symbols of all files that have occurred.
#[derive(Default)]
pub(super) struct Symbols {
    modules: HashMap<String, Module>,
    known: HashMap<Place, Vec<Frame>>,
}

impl Symbols {
    /// Returns the functions at a place of a process, the innermost first: at least one.
    pub(super) fn frames(&mut self, process: i32, place: &Place) -> Vec<Frame> {
        if let Some(known) = self.known.get(place) {
            return known.clone();
        }
        let frames = self.find(process, place);
        if place.file.is_some() {
            self.known.insert(place.clone(), frames.clone());
        }
        frames
    }

    fn find(&mut self, process: i32, place: &Place) -> Vec<Frame> {
        let plain = Frame {
            module: place.file.clone(),
            address: place.address,
            ..Frame::default()
        };
        let Some(file) = &place.file else {
            let function = compiled_function(process, place.address);
            return vec![Frame { function, ..plain }];
        };
        let modules = &mut self.modules;
        let module = modules
            .entry(file.clone())
            .or_insert_with(|| Module::load(Path::new(file)));
        let loaders = [module.debug.as_ref(), module.file.as_ref()];
        let mut loaders = loaders.into_iter().flatten();
        if let Some(frames) = loaders.find_map(|loader| frames(loader, &plain)) {
            return frames;
        }
        let symbol = module
            .file
            .as_ref()
            .and_then(|it| it.find_symbol(place.address));
        let function = symbol.map(|name| demangled(name).into_owned());
        vec![Frame { function, ..plain }]
    }
}

/// Returns the functions at a place by debug information, if there is some about it.
fn frames(loader: &Loader, plain: &Frame) -> Option<Vec<Frame>> {
    let mut found = loader.find_frames(plain.address).ok()?;
    let mut all: Vec<Frame> = Vec::new();
    while let Ok(Some(frame)) = found.next() {
        if let Some(inner) = all.last_mut() {
            inner.is_inlined = true;
        }
        let name = frame.function.as_ref().and_then(|it| it.demangle().ok());
        let location = frame.location.as_ref();
        all.push(Frame {
            function: name.map(|name| demangled(&name).into_owned()),
            source: location.and_then(|it| it.file).map(str::to_owned),
            line: location.and_then(|it| it.line),
            column: location
                .and_then(|it| it.column)
                .filter(|column| *column > 0),
            ..plain.clone()
        });
    }
    // The symbol table names a function of which only lines are known.
    let last = all.last_mut()?;
    if last.function.is_none() {
        let symbol = loader.find_symbol(plain.address);
        last.function = symbol.map(|name| demangled(name).into_owned());
    }
    (last.function.is_some() || last.source.is_some()).then_some(all)
}

/// Returns a name as it is in the source.
fn demangled(name: &str) -> Cow<'_, str> {
    // The C library has a second name for its own calls.
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    addr2line::demangle_auto(Cow::Borrowed(name), None)
}

impl Module {
    fn load(path: &Path) -> Self {
        let debug = debug_file(path).and_then(|debug| {
            let shared = shared_debug_file(&debug);
            Loader::new_with_sup(&debug, shared.as_ref()).ok()
        });
        Self {
            file: Loader::new(path).ok(),
            debug,
        }
    }
}

/// Directory of debug files.
const DEBUG: &str = "/usr/lib/debug";

/// Returns the file with the debug information of another one, if it has none itself.
fn debug_file(path: &Path) -> Option<PathBuf> {
    let cache = ReadCache::new(BufReader::new(File::open(path).ok()?));
    let file = object::File::parse(&cache).ok()?;
    if file.section_by_name(".debug_info").is_some() {
        return None;
    }
    let mut candidates = Vec::new();
    if let Some([first, rest @ ..]) = file.build_id().ok()? {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        candidates.push(format!("{DEBUG}/.build-id/{first:02x}/{rest}.debug").into());
    }
    if let Ok(Some((name, _))) = file.gnu_debuglink()
        && let Ok(name) = std::str::from_utf8(name)
        && let Some(folder) = path.parent()
    {
        candidates.push(folder.join(name));
        candidates.push(folder.join(".debug").join(name));
        let below = folder.strip_prefix("/").unwrap_or(folder);
        candidates.push(Path::new(DEBUG).join(below).join(name));
    }
    // A link to the file itself is none to debug information.
    let is_other = |found: &PathBuf| found.is_file() && found != path;
    candidates.into_iter().find(is_other)
}

/// Returns the file with the debug information that several debug files share.
fn shared_debug_file(path: &Path) -> Option<PathBuf> {
    let cache = ReadCache::new(BufReader::new(File::open(path).ok()?));
    let file = object::File::parse(&cache).ok()?;
    let (name, _) = file.gnu_debugaltlink().ok()??;
    let shared = path.parent()?.join(std::str::from_utf8(name).ok()?);
    shared.is_file().then_some(shared)
}

/// Returns the name of a function that a process has compiled at run time, by the list that JIT
/// compilers write for `perf`.
fn compiled_function(process: i32, address: u64) -> Option<String> {
    let list = fs::read_to_string(format!("/tmp/perf-{process}.map")).ok()?;
    let name = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let (start, size) = (number()?, number()?);
        let is_in = (start..start.saturating_add(size)).contains(&address);
        is_in.then(|| words.next().unwrap_or_default().to_owned())
    };
    list.lines().find_map(name)
}
