//! Memory and files: `memfd_create`, and `mmap` of descriptors.
//!
//! The host maps pages, and it does not know our files. So `mmap` of one of our files *copies*: it
//! maps anonymous memory, and fills it with the content of the file. That equals a private mapping,
//! except that later changes of the file do not appear. It also suffices for most uses of a shared
//! read-only mapping. Writes to a shared writable mapping would be lost, so it fails with `ENODEV`.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::slice;

use fdtable_vfs::{Errno, FileKind, MemfdFlags, Object};
use libc::off_t;

use crate::abi::call::{call, errno};
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host;
use crate::host::file::HostFile;

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
        Ok(system.process.memfd_create(name.to_bytes(), flags)?.raw())
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
    let place = call(|system| system.map(fd, &mapping));
    // Unlike other calls, it does not report an error by null.
    if place.is_null() {
        libc::MAP_FAILED
    } else {
        place
    }
}

/// Arguments of `mmap`.
struct Mapping {
    at: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    offset: off_t,
}

impl System {
    fn map(&self, fd: c_int, mapping: &Mapping) -> Result<*mut c_void, Errno> {
        let file = self.file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            let &Mapping {
                at,
                length,
                protection,
                flags,
                offset,
            } = mapping;
            let host_fd = host_file.fd();
            // SAFETY: the program chose the address.
            let place = unsafe { libc::mmap(at, length, protection, flags, host_fd, offset) };
            return if place == libc::MAP_FAILED {
                Err(errno())
            } else {
                Ok(place)
            };
        }
        mapping.check(&**file)?;
        mapping.copy(&**file)
    }
}

impl Mapping {
    fn check(&self, file: &dyn Object) -> Result<(), Errno> {
        let is_page = self.offset >= 0 && self.offset % host::page_size() == 0;
        if self.length == 0 || !is_page {
            return Err(Errno::EINVAL);
        }
        let status = file.status();
        let is_shared = self.is_shared()?;
        let writes = is_shared && self.protection & libc::PROT_WRITE != 0;
        if !status.can_read() || writes && !status.can_write() {
            return Err(Errno::EACCES);
        }
        let is_regular = file.stat().is_ok_and(|stat| stat.kind == FileKind::Regular);
        if writes || !is_regular {
            return Err(Errno::ENODEV);
        }
        Ok(())
    }

    fn is_shared(&self) -> Result<bool, Errno> {
        match self.flags & libc::MAP_TYPE {
            libc::MAP_PRIVATE => Ok(false),
            libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE => Ok(true),
            _ => Err(Errno::EINVAL),
        }
    }

    fn copy(&self, file: &dyn Object) -> Result<*mut c_void, Errno> {
        let place = host::map_anonymous(self.at, self.length, self.flags & !libc::MAP_TYPE)?;
        // Fill whole pages, like the host: bytes of the file after `length` appear too. The host
        // mapped the pages, so the sum does not overflow.
        let whole = self.length.next_multiple_of(host::page_size() as usize);
        // SAFETY: the memory was mapped above, and is not shared yet.
        let memory = unsafe { slice::from_raw_parts_mut(place.cast::<u8>(), whole) };
        let done = fill(file, memory, self.offset.cast_unsigned())
            .and_then(|()| host::protect(place, self.length, self.protection));
        if let Err(errno) = done {
            host::unmap(place, self.length);
            return Err(errno);
        }
        Ok(place)
    }
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
