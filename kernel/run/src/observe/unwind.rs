//! Stacks of the guest, by the unwind tables of its files (`.eh_frame`).
//!
//! Most programs and the C library have no frame pointers. Their tables have a row for each range
//! of code, which says where the caller's registers are. A row is parsed once for each address: the
//! frames of a known stack cost a lookup and two reads each. Code without a table, such as that of
//! a JIT compiler, is taken to have frame pointers.
//!
//! The tables are copied from the guest's memory when the first frame of their file is met, because
//! the guest may unmap them.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use fdtable_posix::runner::maps;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Operation, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, X86_64,
};
use object::LittleEndian;
use object::elf::{FileHeader64, PT_GNU_EH_FRAME, PT_LOAD, ProgramHeader64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use super::call::Call;
use crate::guarded::Guarded;
use crate::{memory, patch};

/// The most frames of a stack that are recorded.
const DEPTH: usize = 32;
/// The most rows that are kept.
const ROWS: usize = 1 << 16;
/// The most bytes of a table that are copied.
const TABLE: u64 = 64 << 20;

/// The frames of a stack, the innermost first.
pub(super) type Stack = Arc<[Place]>;

/// Code of the guest. It stays valid when the file is unmapped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Index of the file in [`Unwinder::names`]; `None` for code of no file.
    file: Option<u32>,
    /// Address in the file, as its symbols have it, or in memory.
    pub(super) address: u64,
}

/// Code of a file in memory.
struct Module {
    range: Range<u64>,
    /// Difference between addresses in memory and in the file.
    bias: u64,
    name: u32,
    /// The header of its tables, and the segments, of which one has their rows.
    header: Range<u64>,
    segments: Vec<Range<u64>>,
    tables: Option<Tables>,
    /// True once the tables were looked for.
    has_looked: bool,
}

/// Copies of unwind tables, with their addresses in memory.
struct Tables {
    header: Vec<u8>,
    frames: Vec<u8>,
    bases: BaseAddresses,
}

/// A register of a row; CFA is the caller's stack pointer.
#[derive(Clone, Copy)]
enum Base {
    Rsp,
    Rbp,
    Cfa,
}

/// An address: a register and an offset, or the word that is there.
#[derive(Clone, Copy)]
struct Sum {
    base: Base,
    offset: i64,
    is_indirect: bool,
}

/// The way to the registers of the caller.
#[derive(Clone, Copy)]
struct Row {
    cfa: Sum,
    /// `None` for the first function of a thread.
    rip: Option<Sum>,
    /// `None` if the frame has not changed it.
    rbp: Option<Sum>,
    /// True if a signal has interrupted the caller: its address is not behind a call.
    is_signal: bool,
}

/// The registers of a frame.
struct Registers {
    rip: u64,
    rsp: u64,
    rbp: u64,
}

struct Unwinder {
    /// Paths of files, each once.
    names: Vec<String>,
    modules: Vec<Module>,
    /// False if the guest may have mapped code since the list was read.
    is_current: bool,
    rows: HashMap<u64, (Place, Option<Row>)>,
    context: UnwindContext<usize>,
    /// The stack that is being recorded.
    stack: Vec<Place>,
}

static UNWINDER: Guarded<Option<Unwinder>> = Guarded::new(None);

/// Runs `f` with the state of this process.
fn with<R>(f: impl FnOnce(&mut Unwinder) -> R) -> R {
    f(UNWINDER.lock().get_or_insert_with(|| Unwinder {
        names: Vec::new(),
        modules: Vec::new(),
        is_current: false,
        rows: HashMap::new(),
        context: UnwindContext::new(),
        stack: Vec::new(),
    }))
}

/// Returns the stack of a call.
pub(super) fn stack(call: &Call) -> Stack {
    with(|unwinder| unwinder.stack(call))
}

/// Returns the path of the file of a place, if it has one.
pub(super) fn file(place: Place) -> Option<String> {
    with(|unwinder| Some(unwinder.names.get(place.file? as usize)?.clone()))
}

/// Notes that the guest may have mapped code.
pub(super) fn map_code() {
    with(|unwinder| {
        unwinder.is_current = false;
        unwinder.rows.retain(|_, (place, _)| place.file.is_some());
    });
}

/// Notes that the guest has unmapped a range.
pub(super) fn unmap(unmapped: &Range<u64>) {
    with(|unwinder| {
        let before = unwinder.modules.len();
        unwinder.modules.retain(|module| {
            module.range.end <= unmapped.start || module.range.start >= unmapped.end
        });
        if unwinder.modules.len() < before {
            unwinder.rows.clear();
            // A part may still be there, or another thread has mapped a file in its place since.
            unwinder.is_current = false;
        }
    });
}

impl Unwinder {
    fn stack(&mut self, call: &Call) -> Stack {
        self.stack.clear();
        let mut registers = Registers {
            rip: call.rip,
            rsp: call.rsp,
            rbp: call.rbp,
        };
        // The address of a caller is behind its call, which may be the last of its function.
        let mut behind = 0;
        while self.stack.len() < DEPTH {
            let (place, row) = self.row(registers.rip - behind);
            self.stack.push(place);
            behind = match row {
                Some(row) if row.is_signal => 0,
                _ => 1,
            };
            match registers.caller(row.as_ref()) {
                Some(caller) if caller.rsp > registers.rsp && caller.rip > 1 => registers = caller,
                _ => break,
            }
        }
        Arc::from(&*self.stack)
    }

    /// Returns the place of an address, and its row if it has one.
    fn row(&mut self, address: u64) -> (Place, Option<Row>) {
        if let Some(&known) = self.rows.get(&address) {
            return known;
        }
        // A call at a rewritten site continues in its stub.
        let at = patch::original(address).unwrap_or(address);
        let mut place = Place {
            file: None,
            address: at,
        };
        let mut row = None;
        if let Some(index) = self.module(at) {
            let module = &mut self.modules[index];
            place.file = Some(module.name);
            place.address = at.wrapping_sub(module.bias);
            let path = &self.names[module.name as usize];
            row = module.row(at, path, &mut self.context);
        }
        if self.rows.len() >= ROWS {
            self.rows.clear();
        }
        self.rows.insert(address, (place, row));
        (place, row)
    }

    /// Returns the index of the module with an address.
    fn module(&mut self, address: u64) -> Option<usize> {
        let find = |unwinder: &Self| {
            let mut modules = unwinder.modules.iter();
            modules.position(|module| module.range.contains(&address))
        };
        let found = find(self);
        if found.is_some() || self.is_current {
            return found;
        }
        self.read_modules();
        find(self)
    }

    /// Adds the modules that are mapped and not known.
    fn read_modules(&mut self) {
        self.is_current = true;
        let list = maps::read();
        // The path of a file, and where its first bytes are.
        let mut file = ("", 0);
        for mapping in maps::parse(&list) {
            if mapping.offset == 0 && mapping.name.starts_with('/') {
                file = (mapping.name, mapping.range.start);
            }
            let is_code = mapping.permissions.as_bytes().get(2) == Some(&b'x');
            let mut known = self.modules.iter();
            if is_code
                && file.0 == mapping.name
                && !known.any(|module| module.range == mapping.range)
            {
                let name = self.name(mapping.name);
                self.modules.push(Module::new(mapping.range, file.1, name));
            }
        }
    }

    /// Returns the index of a path.
    fn name(&mut self, path: &str) -> u32 {
        let found = self.names.iter().position(|name| name == path);
        let index = found.unwrap_or_else(|| {
            self.names.push(path.to_owned());
            self.names.len() - 1
        });
        index as u32
    }
}

impl Module {
    /// `start` is where the first bytes of the file are.
    fn new(range: Range<u64>, start: u64, name: u32) -> Self {
        let mut module = Self {
            range,
            bias: start,
            name,
            header: 0..0,
            segments: Vec::new(),
            tables: None,
            has_looked: false,
        };
        let bytes = memory::read(start, 4096);
        let headers = headers(&bytes).unwrap_or_default();
        let of = |kind| {
            headers
                .iter()
                .filter(move |one| one.p_type(LittleEndian) == kind)
        };
        if let Some(load) = of(PT_LOAD).next() {
            let first = load.p_vaddr(LittleEndian) & !(memory::PAGE - 1);
            module.bias = start.wrapping_sub(first);
        }
        let range = |one: &ProgramHeader64<LittleEndian>| {
            let start = module.bias.wrapping_add(one.p_vaddr(LittleEndian));
            start..start.saturating_add(one.p_filesz(LittleEndian))
        };
        module.header = of(PT_GNU_EH_FRAME).next().map_or(0..0, range);
        module.segments = of(PT_LOAD).map(range).collect();
        module
    }

    /// Returns the row of an address. `path` is that of the file.
    fn row(&mut self, address: u64, path: &str, context: &mut UnwindContext<usize>) -> Option<Row> {
        if !std::mem::replace(&mut self.has_looked, true) {
            self.tables = self.copy_tables().or_else(|| self.read_table(path));
        }
        self.tables.as_ref()?.row(address, context)
    }

    /// Finds the table of a file without a header, as some static programs are.
    fn read_table(&self, path: &str) -> Option<Tables> {
        // A path that the guest has given to a pipe must not block.
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = file.open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let file = ReadCache::new(file);
        let header = FileHeader64::<LittleEndian>::parse(&file).ok()?;
        let sections = header.sections(LittleEndian, &file).ok()?;
        let (_, section) = sections.section_by_name(LittleEndian, b".eh_frame")?;
        if section.sh_size(LittleEndian) > TABLE {
            return None;
        }
        let frames_at = self.bias.wrapping_add(section.sh_addr(LittleEndian));
        Some(Tables {
            header: Vec::new(),
            frames: section.data(LittleEndian, &file).ok()?.to_vec(),
            bases: BaseAddresses::default().set_eh_frame(frames_at),
        })
    }

    /// Copies the tables from the guest's memory.
    fn copy_tables(&self) -> Option<Tables> {
        let copy = |range: Range<u64>| {
            memory::read(range.start, (range.end - range.start).min(TABLE) as usize)
        };
        let header_at = self.header.start;
        // It is read in whole words.
        let header = copy(header_at..self.header.end.next_multiple_of(8));
        let bases = BaseAddresses::default().set_eh_frame_hdr(header_at);
        let parsed = EhFrameHdr::new(&header, gimli::LittleEndian).parse(&bases, 8);
        let frames_at = parsed.ok()?.eh_frame_ptr().direct().ok()?;
        let segment = self
            .segments
            .iter()
            .find(|range| range.contains(&frames_at))?;
        let frames = copy(frames_at..segment.end);
        Some(Tables {
            header,
            frames,
            bases: bases.set_eh_frame(frames_at),
        })
    }
}

/// Returns the program headers of a file by its first bytes.
fn headers(bytes: &[u8]) -> Option<Vec<ProgramHeader64<LittleEndian>>> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let all = header.program_headers(LittleEndian, bytes).ok()?;
    Some(all.to_vec())
}

type Frames<'t> = EhFrame<EndianSlice<'t, gimli::LittleEndian>>;

impl Tables {
    /// Returns the row of an address.
    fn row(&self, address: u64, context: &mut UnwindContext<usize>) -> Option<Row> {
        let frames: Frames<'_> = EhFrame::new(&self.frames, gimli::LittleEndian);
        let header = EhFrameHdr::new(&self.header, gimli::LittleEndian);
        let header = header.parse(&self.bases, 8).ok();
        let cie = Frames::cie_from_offset;
        let entry = match header.as_ref().and_then(|header| header.table()) {
            Some(table) => table.fde_for_address(&frames, &self.bases, address, cie),
            None => frames.fde_for_address(&self.bases, address, cie),
        };
        let entry = entry.ok()?;
        let row = entry
            .unwind_info_for_address(&frames, &self.bases, context, address)
            .ok()?;
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Sum::of(*register, *offset)?,
            CfaRule::Expression(expression) => Sum::by(expression, &frames)?,
        };
        let saved = |register| match row.register(register) {
            Some(RegisterRule::Offset(offset)) => Some(Sum::from(Base::Cfa, offset)),
            Some(RegisterRule::Expression(expression)) => Sum::by(&expression, &frames),
            _ => None,
        };
        Some(Row {
            cfa,
            rip: saved(X86_64::RA),
            rbp: saved(X86_64::RBP),
            is_signal: entry.is_signal_trampoline(),
        })
    }
}

impl Sum {
    fn from(base: Base, offset: i64) -> Self {
        Self {
            base,
            offset,
            is_indirect: false,
        }
    }

    fn of(register: Register, offset: i64) -> Option<Self> {
        match register {
            X86_64::RSP => Some(Self::from(Base::Rsp, offset)),
            X86_64::RBP => Some(Self::from(Base::Rbp, offset)),
            _ => None,
        }
    }

    /// Returns the value of an expression of a register, and perhaps a word in memory: what
    /// compilers write for realigned stacks, and the C library for signals.
    fn by(expression: &UnwindExpression<usize>, frames: &Frames<'_>) -> Option<Self> {
        let encoding = gimli::Encoding {
            address_size: 8,
            format: gimli::Format::Dwarf32,
            version: 4,
        };
        let mut operations = expression.get(frames).ok()?.operations(encoding);
        let Operation::RegisterOffset {
            register, offset, ..
        } = operations.next().ok()??
        else {
            return None;
        };
        let sum = Self::of(register, offset)?;
        match operations.next().ok()? {
            None => Some(sum),
            Some(Operation::Deref { size: 8, .. }) => Some(Self {
                is_indirect: true,
                ..sum
            }),
            Some(_) => None,
        }
    }
}

impl Registers {
    /// Returns the registers of the caller.
    fn caller(&self, row: Option<&Row>) -> Option<Self> {
        let word = |at| memory::get::<u64>(at).ok();
        let Some(row) = row else {
            return Some(Self {
                rip: word(self.rbp.wrapping_add(8))?,
                rsp: self.rbp.wrapping_add(16),
                rbp: word(self.rbp)?,
            });
        };
        let value = |sum: Sum, cfa: u64| {
            let base = match sum.base {
                Base::Rsp => self.rsp,
                Base::Rbp => self.rbp,
                Base::Cfa => cfa,
            };
            let sum_of = base.wrapping_add_signed(sum.offset);
            match sum.is_indirect {
                true => word(sum_of),
                false => Some(sum_of),
            }
        };
        let cfa = value(row.cfa, 0)?;
        Some(Self {
            rip: word(value(row.rip?, cfa)?)?,
            rsp: cfa,
            rbp: match row.rbp {
                Some(rbp) => word(value(rbp, cfa)?)?,
                None => self.rbp,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;

    fn code() -> u64 {
        a_part_of_a_file_that_is_unmapped_is_found_again as fn() as usize as u64
    }

    #[test]
    fn a_part_of_a_file_that_is_unmapped_is_found_again() {
        let known = || {
            with(|unwinder| {
                let found = unwinder.module(code())?;
                Some(unwinder.modules[found].range.clone())
            })
        };
        let range = known().expect("code of this file");
        unmap(&(range.start..range.start + 1));
        assert_eq!(known(), Some(range));
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_has_no_table() {
        let path = std::env::temp_dir().join(format!("fdtable-unwind-{}", std::process::id()));
        let text = path.to_str().expect("a path");
        let name = CString::new(text).expect("a path");
        // SAFETY: the path is a string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let table = Module::new(0..0, code() & !4095, 0).read_table(text);
        std::fs::remove_file(&path).expect("it is there");
        assert!(table.is_none());
    }
}
