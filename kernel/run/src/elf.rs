//! Maps ELF files into memory, as the host's kernel does.

use std::ffi::c_int;
use std::ops::Range;

use fdtable_posix::{fdt_mmap, fdt_pread};
use object::LittleEndian;
use object::elf::{
    EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, FileType, PF_R, PF_W, PF_X, PT_GNU_STACK, PT_INTERP,
    PT_LOAD, ProgramHeader64,
};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::abi::{checked, checked_address};
use crate::memory::{self, PAGE};
use crate::patch;

/// The most program headers. The host has the same limit: a page of them.
const HEADERS: usize = 64 << 10;
/// The size of a program header.
const HEADER: usize = size_of::<ProgramHeader64<LittleEndian>>();

/// An ELF file in memory.
pub(crate) struct Image {
    pub(crate) entry: u64,
    /// Address of its program headers.
    pub(crate) headers: u64,
    pub(crate) header_size: u64,
    pub(crate) header_count: u64,
    /// Difference between its addresses in memory and in the file.
    pub(crate) base: u64,
}

/// An ELF file whose headers were read.
pub(crate) struct Headers {
    kind: FileType,
    entry: u64,
    /// Offset of the program headers in the file.
    offset: u64,
    all: Vec<ProgramHeader64<LittleEndian>>,
    /// The addresses of its segments in the file: whole pages at the start.
    extent: Range<u64>,
}

/// Reads the headers of the file at a descriptor. `start` has its first bytes.
///
/// # Errors
/// `ENOEXEC` if the file is no program for x86-64; errors of the calls.
pub(crate) fn headers(fd: c_int, start: &[u8]) -> Result<Headers, i32> {
    let refused = |_| libc::ENOEXEC;
    let header = FileHeader64::<LittleEndian>::parse(start).map_err(refused)?;
    let endian = header.endian().map_err(refused)?;
    let kind = header.e_type(endian);
    if header.e_machine(endian) != EM_X86_64 || !matches!(kind, ET_DYN | ET_EXEC) {
        return Err(libc::ENOEXEC);
    }
    let (count, offset) = (header.e_phnum(endian), header.e_phoff(endian));
    let size = usize::from(count) * HEADER;
    if size > HEADERS || usize::from(header.e_phentsize(endian)) != HEADER {
        return Err(libc::ENOEXEC);
    }
    let bytes = read(fd, offset, size)?;
    let (all, _) =
        object::pod::slice_from_bytes::<ProgramHeader64<LittleEndian>>(&bytes, count.into())
            .map_err(|()| libc::ENOEXEC)?;
    let loads = || all.iter().filter(|one| one.p_type(endian) == PT_LOAD);
    let first = loads()
        .map(|one| one.p_vaddr(endian))
        .min()
        .ok_or(libc::ENOEXEC)?;
    let end = loads()
        .map(|one| one.p_vaddr(endian).wrapping_add(one.p_memsz(endian)))
        .max()
        .ok_or(libc::ENOEXEC)?;
    let first = first & !(PAGE - 1);
    if end <= first || end > 1 << 47 {
        return Err(libc::ENOEXEC);
    }
    Ok(Headers {
        kind,
        entry: header.e_entry(endian),
        offset,
        all: all.to_vec(),
        extent: first..end,
    })
}

impl Headers {
    fn loads(&self) -> impl Iterator<Item = &ProgramHeader64<LittleEndian>> {
        let all = self.all.iter();
        all.filter(|one| one.p_type(LittleEndian) == PT_LOAD)
    }

    /// Returns true if the file asks for a stack whose contents can be executed.
    pub(crate) fn has_executable_stack(&self) -> bool {
        let mut all = self.all.iter();
        let found = all.find(|one| one.p_type(LittleEndian) == PT_GNU_STACK);
        found.is_some_and(|one| one.p_flags(LittleEndian).contains(PF_X))
    }

    /// Returns the path of the dynamic loader that the file asks for.
    ///
    /// # Errors
    /// `ENOEXEC` if the path is too long; errors of the calls.
    pub(crate) fn interpreter(&self, fd: c_int) -> Result<Option<Vec<u8>>, i32> {
        let mut all = self.all.iter();
        let found = all.find(|one| one.p_type(LittleEndian) == PT_INTERP);
        let Some(one) = found else {
            return Ok(None);
        };
        let size = one.p_filesz(LittleEndian);
        if size > 4096 {
            return Err(libc::ENOEXEC);
        }
        let mut path = read(fd, one.p_offset(LittleEndian), size as usize)?;
        path.pop_if(|last| *last == 0);
        Ok(Some(path))
    }

    /// Maps the file.
    ///
    /// # Errors
    /// `ENOEXEC` for a segment that cannot be mapped; errors of the calls.
    pub(crate) fn load(&self, fd: c_int) -> Result<Image, i32> {
        let (first, offset) = (self.extent.start, self.offset);
        let fixed = (self.kind == ET_EXEC).then_some(first);
        let reserved = memory::reserve(fixed, self.extent.end - first)?;
        let base = reserved.wrapping_sub(first);
        for one in self.loads() {
            segment(fd, one, base)?;
        }
        let holds = |one: &&ProgramHeader64<LittleEndian>| {
            let begin = one.p_offset(LittleEndian);
            (begin..begin.saturating_add(one.p_filesz(LittleEndian))).contains(&offset)
        };
        let holder = self.loads().find(holds);
        let headers = holder.map_or(0, |one| {
            let within = offset - one.p_offset(LittleEndian);
            base.wrapping_add(one.p_vaddr(LittleEndian) + within)
        });
        Ok(Image {
            entry: base.wrapping_add(self.entry),
            headers,
            header_size: HEADER as u64,
            header_count: self.all.len() as u64,
            base,
        })
    }
}

/// Maps a segment, and zeroes the memory behind its bytes in the file.
fn segment(fd: c_int, one: &ProgramHeader64<LittleEndian>, base: u64) -> Result<(), i32> {
    let endian = LittleEndian;
    let flags = one.p_flags(endian);
    let bit = |flag, bit| if flags.contains(flag) { bit } else { 0 };
    let protection =
        bit(PF_R, libc::PROT_READ) | bit(PF_W, libc::PROT_WRITE) | bit(PF_X, libc::PROT_EXEC);
    let at = base.wrapping_add(one.p_vaddr(endian));
    let (page, within) = (at & !(PAGE - 1), at & (PAGE - 1));
    let (in_file, in_memory) = (one.p_filesz(endian), one.p_memsz(endian));
    if in_file > in_memory || one.p_offset(endian) < within {
        return Err(libc::ENOEXEC);
    }
    let file_end = at + in_file;
    let mapped_end = file_end.next_multiple_of(PAGE);
    if in_file > 0 {
        // SAFETY: the pages are in the reservation of this file.
        checked_address(unsafe {
            fdt_mmap(
                memory::pointer(page),
                (file_end - page) as usize,
                protection,
                libc::MAP_PRIVATE | libc::MAP_FIXED,
                fd,
                (one.p_offset(endian) - within).cast_signed(),
            )
        })?;
        let mapping = patch::FileMapping {
            protection,
            flags: libc::MAP_PRIVATE,
            fd,
            offset: one.p_offset(endian) - within,
        };
        patch::map(page, file_end - page, mapping);
    }
    let end = at + in_memory;
    let zeroes_from = if in_file > 0 { mapped_end } else { page };
    if end > zeroes_from {
        // SAFETY: as above.
        unsafe { memory::map_anonymous(zeroes_from..end, protection, libc::MAP_FIXED) }?;
    }
    if in_memory > in_file && in_file > 0 && flags.contains(PF_W) {
        // To the end of the page: a dynamic loader takes its first memory there.
        let count = (mapped_end - file_end) as usize;
        // SAFETY: mapped above, and writable.
        unsafe { memory::pointer::<u8>(file_end).write_bytes(0, count) };
    }
    Ok(())
}

/// Reads bytes of a file, all of them.
pub(crate) fn read(fd: c_int, offset: u64, count: usize) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0; count];
    let mut done = 0;
    while done < count {
        let rest = &mut bytes[done..];
        // SAFETY: the buffer has this length.
        let read = checked(unsafe {
            fdt_pread(
                fd,
                rest.as_mut_ptr().cast(),
                rest.len(),
                (offset + done as u64).cast_signed(),
            )
        } as i64)?;
        if read == 0 {
            return Err(libc::ENOEXEC);
        }
        done += read as usize;
    }
    Ok(bytes)
}
