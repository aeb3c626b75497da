//! Maps ELF files into memory, as the host's kernel does.

use std::ffi::c_int;

use fdtable_posix::{fdt_mmap, fdt_pread};
use object::LittleEndian;
use object::elf::{
    EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PF_R, PF_W, PF_X, PT_INTERP, PT_LOAD, ProgramHeader64,
};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::calls::{checked, checked_address};
use crate::memory;

const PAGE: u64 = 4096;
/// The most program headers. The host has the same limit: a page of them.
const HEADERS: usize = 64 << 10;

/// An ELF file in memory.
pub(crate) struct Image {
    pub(crate) entry: u64,
    /// Where its program headers are.
    pub(crate) headers: u64,
    pub(crate) header_size: u64,
    pub(crate) header_count: u64,
    /// How far it is from the addresses in the file.
    pub(crate) base: u64,
    /// The dynamic loader that it asks for.
    pub(crate) interpreter: Option<Vec<u8>>,
}

/// Maps the file at a descriptor of ours. `start` has its first bytes.
///
/// # Errors
/// `ENOEXEC` for what is no program for x86-64; those of the calls.
pub(crate) fn load(fd: c_int, start: &[u8]) -> Result<Image, i32> {
    let refused = |_| libc::ENOEXEC;
    let header = FileHeader64::<LittleEndian>::parse(start).map_err(refused)?;
    let endian = header.endian().map_err(refused)?;
    let kind = header.e_type(endian);
    if header.e_machine(endian) != EM_X86_64 || !matches!(kind, ET_DYN | ET_EXEC) {
        return Err(libc::ENOEXEC);
    }
    let (count, offset) = (header.e_phnum(endian), header.e_phoff(endian));
    let size = usize::from(count) * size_of::<ProgramHeader64<LittleEndian>>();
    if size > HEADERS
        || usize::from(header.e_phentsize(endian)) != size_of::<ProgramHeader64<LittleEndian>>()
    {
        return Err(libc::ENOEXEC);
    }
    let bytes = read(fd, offset, size)?;
    let (headers, _) =
        object::pod::slice_from_bytes::<ProgramHeader64<LittleEndian>>(&bytes, count.into())
            .map_err(|()| libc::ENOEXEC)?;
    let loads = || headers.iter().filter(|one| one.p_type(endian) == PT_LOAD);
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
    let reserved = memory::reserve((kind == ET_EXEC).then_some(first), end - first)?;
    let base = reserved.wrapping_sub(first);
    for one in loads() {
        segment(fd, one, base)?;
    }
    let holds = |one: &&ProgramHeader64<LittleEndian>| {
        let begin = one.p_offset(endian);
        (begin..begin + one.p_filesz(endian)).contains(&offset)
    };
    let holder = loads().find(holds);
    let headers_at = holder.map_or(0, |one| {
        base.wrapping_add(one.p_vaddr(endian) + offset - one.p_offset(endian))
    });
    let interpreter = headers.iter().find(|one| one.p_type(endian) == PT_INTERP);
    let interpreter = match interpreter {
        None => None,
        Some(one) if one.p_filesz(endian) > 4096 => return Err(libc::ENOEXEC),
        Some(one) => {
            let mut path = read(fd, one.p_offset(endian), one.p_filesz(endian) as usize)?;
            path.pop_if(|last| *last == 0);
            Some(path)
        }
    };
    Ok(Image {
        entry: base.wrapping_add(header.e_entry(endian)),
        headers: headers_at,
        header_size: header.e_phentsize(endian).into(),
        header_count: count.into(),
        base,
        interpreter,
    })
}

/// Maps a segment, and zeroes what is behind its bytes in the file.
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
    }
    let end = at + in_memory;
    let zeroes_from = if in_file > 0 { mapped_end } else { page };
    if end > zeroes_from {
        // SAFETY: as above.
        checked_address(unsafe {
            libc::mmap(
                memory::pointer(zeroes_from),
                (end - zeroes_from) as usize,
                protection,
                libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        })?;
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
