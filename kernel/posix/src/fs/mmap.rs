//! Memory and files: `memfd_create`, and `mmap` of descriptors.
//!
//! The host maps pages, and it does not know our files. When one of them is mapped shared for the
//! first time, its bytes move into memory of the host, a `memfd` (see
//! [`Object::share_memory`](fdtable_vfs::Object::share_memory)). From then on the file and its
//! mappings are the same bytes, and the host does what mappings need: pages that are written later,
//! `SIGBUS` after the end, `msync`, a fork.
//!
//! A private mapping of a file that never was mapped shared is a *copy*: anonymous memory that is
//! filled with the bytes of the file, or a `memfd` of its own if the mapping reaches beyond the end
//! of the file. Later changes of the file do not appear there, which POSIX leaves open.
//!
//! A file whose bytes are in a lower file is mapped from there, without a copy, if the mapping
//! cannot write them: it is private, or the file is open only for reading. Such a shared mapping
//! does not show later changes of the file, as on Linux' `overlayfs`.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::slice;
use std::sync::Arc;

use fdtable_vfs::{Errno, FileKind, MemfdFlags, Object, SharedMemory};
use libc::off_t;

use crate::abi::call::call;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host;
use crate::host::file::HostFile;
use crate::host::lower::HostBytes;
use crate::host::memfd::{Mapping, Memfd};

/// Maximum length of the name of an anonymous file.
const MFD_NAME_MAX: usize = 249;

/// Creates an anonymous file: `memfd_create(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_memfd_create(name: *const c_char, flags: c_uint) -> c_int {
    call(|system| {
        let flags = MemfdFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
        // SAFETY: as the caller promises.
        let name = unsafe { uaccess::string_below(name, MFD_NAME_MAX + 1) }?;
        let name = name.ok_or(Errno::EINVAL)?;
        system.process.memfd_create(name.to_bytes(), flags)
    })
}

/// Maps memory: `mmap(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mmap(
    at: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS != 0 {
        // SAFETY: as the caller promises.
        return unsafe { libc::mmap(at, length, protection, flags, fd, offset) };
    }
    let mapping = Mapping {
        at,
        length,
        protection,
        flags,
        offset,
    };
    call(|system| system.map(fd, &mapping))
}

impl System {
    fn map(&self, fd: c_int, mapping: &Mapping) -> Result<*mut c_void, Errno> {
        if mapping.offset % host::page_size() != 0 {
            return Err(Errno::EINVAL);
        }
        let file = self.opened_file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            return mapping.of(host_file.fd().get());
        }
        let is_shared = check(mapping, &**file)?;
        if is_zero_device(&**file) {
            // Anonymous memory cannot have its flags checked.
            let kind = match is_shared {
                true => libc::MAP_SHARED,
                false => libc::MAP_PRIVATE,
            };
            let flags = mapping.flags & !libc::MAP_TYPE | kind | libc::MAP_ANONYMOUS;
            return Mapping { flags, ..*mapping }.of(-1);
        }
        if !is_shared || !file.status().can_write() {
            let lower = file.lower_bytes();
            if let Some(bytes) = lower.as_deref().and_then(HostBytes::below) {
                return mapping.of(bytes.fd()?.get());
            }
        }
        let memory = match is_shared {
            true => Some(file.share_memory(&Memfd::make)?),
            false => file.shared_memory(),
        };
        match memory.as_deref().and_then(Memfd::below) {
            Some(memfd) => memfd.map(mapping, file.status().can_write()),
            None => copy(mapping, &**file),
        }
    }
}

/// Returns true if the mapping is shared.
///
/// # Errors
/// `EINVAL`, `EOVERFLOW`, `EACCES`, `EPERM`, `ENODEV`, in the order of Linux.
fn check(mapping: &Mapping, file: &dyn Object) -> Result<bool, Errno> {
    if mapping.length == 0 {
        return Err(Errno::EINVAL);
    }
    let stat = file.stat();
    let is_regular = stat.is_ok_and(|stat| stat.kind == FileKind::Regular);
    if is_regular && !ends_below_limit(mapping) {
        return Err(Errno::EOVERFLOW);
    }
    let is_shared = match mapping.flags & libc::MAP_TYPE {
        libc::MAP_PRIVATE => false,
        libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE => true,
        _ => return Err(Errno::EINVAL),
    };
    let status = file.status();
    let writes = is_shared && mapping.protection & libc::PROT_WRITE != 0;
    if !status.can_read() || writes && !status.can_write() {
        return Err(Errno::EACCES);
    }
    if is_regular || is_zero_device(file) {
        return Ok(is_shared);
    }
    // A file without a path is on a file system that allows no execution.
    let executes = mapping.protection & libc::PROT_EXEC != 0;
    match executes && file.path().is_none() {
        true => Err(Errno::EPERM),
        false => Err(Errno::ENODEV),
    }
}

/// Returns true for `/dev/zero`, whose mappings are anonymous memory.
fn is_zero_device(file: &dyn Object) -> bool {
    file.stat()
        .is_ok_and(|stat| stat.kind == FileKind::CharDevice && stat.rdev == libc::makedev(1, 5))
}

/// Returns true if a mapping begins and ends at offsets that a file can have. A mapping that is
/// longer than the address space is another error.
fn ends_below_limit(mapping: &Mapping) -> bool {
    let page = host::page_size().cast_unsigned();
    let length = (mapping.length as u64).checked_next_multiple_of(page);
    let length = i64::try_from(length.unwrap_or(0)).unwrap_or(0);
    mapping.offset >= 0 && mapping.offset.checked_add(length).is_some()
}

/// Maps a copy of a file.
fn copy(mapping: &Mapping, file: &dyn Object) -> Result<*mut c_void, Errno> {
    let length = mapping.length;
    let end = mapping.offset.cast_unsigned().saturating_add(length as u64);
    let size = file.stat()?.size;
    // Accesses to pages after the end of the file are faults.
    if end > size.next_multiple_of(host::page_size().cast_unsigned())
        && let Ok(memory) = copy_to_memfd(mapping, file)
        && let Some(memfd) = Memfd::below(&*memory)
    {
        let mapping = Mapping {
            offset: 0,
            ..*mapping
        };
        return memfd.map(&mapping, true);
    }
    let memory = Mapping {
        protection: libc::PROT_READ | libc::PROT_WRITE,
        flags: mapping.flags & !libc::MAP_TYPE | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        offset: 0,
        ..*mapping
    };
    let place = memory.of(-1)?;
    // Fill whole pages, like the host: bytes of the file after `length` appear too. The host
    // mapped the pages, so the sum does not overflow.
    let whole = length.next_multiple_of(host::page_size() as usize);
    // SAFETY: the memory was mapped above, and is not shared yet.
    let memory = unsafe { slice::from_raw_parts_mut(place.cast::<u8>(), whole) };
    // SAFETY: as above.
    let protect = |()| host::done(unsafe { libc::mprotect(place, length, mapping.protection) });
    let done = fill(file, memory, mapping.offset.cast_unsigned()).and_then(protect);
    // SAFETY: as above.
    done.inspect_err(|_| _ = unsafe { libc::munmap(place, length) })?;
    Ok(place)
}

/// Copies the bytes of a file after the offset of a mapping into memory of the host.
fn copy_to_memfd(mapping: &Mapping, file: &dyn Object) -> Result<Arc<dyn SharedMemory>, Errno> {
    const STEP: usize = 64 << 10;
    let memory = Memfd::make()?;
    let offset = mapping.offset.cast_unsigned();
    let mut buf = uaccess::vec_with_capacity::<u8>(STEP)?;
    buf.resize(STEP, 0);
    let mut done = 0;
    // The last step may copy more than the mapping shows.
    while done < mapping.length as u64 {
        match file.read_at(&mut buf, offset + done)? {
            0 => break,
            read => {
                memory.write_at(&buf[..read], done)?;
                done += read as u64;
            }
        }
    }
    Ok(memory)
}

/// Copies a file into memory, from an offset to the end of either.
fn fill(file: &dyn Object, memory: &mut [u8], offset: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < memory.len() {
        match file.read_at(&mut memory[done..], offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    Ok(())
}
