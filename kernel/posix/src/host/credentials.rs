//! Credentials of the host process.

use fdtable_vfs::fs::{Capabilities, Credentials};
use fdtable_vfs::{Errno, Process};

use super::check::check;

/// Returns the umask. The host returns it only from a call that sets it.
pub(crate) fn current_umask() -> libc::mode_t {
    // SAFETY: the call takes no pointer.
    let mask = unsafe { libc::umask(0o77) };
    // SAFETY: as above.
    unsafe { libc::umask(mask) };
    mask
}

/// Returns the supplementary groups of the host process.
pub(crate) fn groups() -> Result<Vec<libc::gid_t>, Errno> {
    // SAFETY: without room, the call returns the number of groups.
    let count = check(unsafe { libc::getgroups(0, std::ptr::null_mut()) })?;
    let mut groups = vec![0; count as usize];
    // SAFETY: there is room for `count` groups.
    let count = check(unsafe { libc::getgroups(count, groups.as_mut_ptr()) })?;
    groups.truncate(count as usize);
    Ok(groups)
}

/// Returns the real user and group.
fn real_ids() -> (libc::uid_t, libc::gid_t) {
    // SAFETY: the calls take no pointer.
    (unsafe { libc::getuid() }, unsafe { libc::getgid() })
}

/// Returns the user and group that permissions of files are checked for.
fn ids_for_files() -> (libc::uid_t, libc::gid_t) {
    // -1 is no ID, so that the calls change nothing, and return the current ones.
    // SAFETY: the calls take no pointer.
    let user = unsafe { libc::setfsuid(libc::uid_t::MAX) };
    // SAFETY: as above.
    let group = unsafe { libc::setfsgid(libc::gid_t::MAX) };
    (user.cast_unsigned(), group.cast_unsigned())
}

/// Effective, permitted and inheritable capabilities: 32 of them, and the others.
type CapabilitySets = [[u32; 3]; 2];

const CAPABILITIES_VERSION_3: u32 = 0x2008_0522;

/// Returns the capabilities of the calling thread.
fn capability_sets() -> CapabilitySets {
    let mut header = [CAPABILITIES_VERSION_3, 0];
    let mut sets = [[0_u32; 3]; 2];
    let (header, place) = (header.as_mut_ptr(), sets.as_mut_ptr());
    // SAFETY: both have the layout that this version has. It cannot fail for the calling thread.
    unsafe { libc::syscall(libc::SYS_capget, header, place) };
    sets
}

/// Runs a lookup of the calling thread with the rights that `access` has: those of the real user.
/// If the user for files is neither the real nor the effective one, it could not be set again, and
/// the lookup has its rights.
pub(crate) fn with_rights_of_access<R>(lookup: impl FnOnce() -> R) -> R {
    let before = capability_sets();
    let (user, group) = real_ids();
    let (user_before, group_before) = ids_for_files();
    // SAFETY: the calls take no pointer.
    let effective = (unsafe { libc::geteuid() }, unsafe { libc::getegid() });
    if effective != (user_before, group_before) {
        return lookup();
    }
    let mut sets = before;
    if !keeps_capabilities_of_access() {
        for set in &mut sets {
            set[0] = if user == 0 { set[1] } else { 0 };
        }
    }
    set_rights((user, group), &sets);
    let result = lookup();
    set_rights(effective, &before);
    result
}

/// Sets the user, the group and the capabilities that permissions of files are checked for. The
/// thread may always take those that it has as real, effective and permitted ones.
fn set_rights((user, group): (libc::uid_t, libc::gid_t), sets: &CapabilitySets) {
    let mut header = [CAPABILITIES_VERSION_3, 0];
    // SAFETY: the pointers are to what has the layout of this version.
    unsafe {
        libc::setfsgid(group);
        libc::setfsuid(user);
        // A change of the user may have changed them.
        libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr());
    }
}

/// Returns true if `access` uses the effective capabilities: `SECBIT_NO_SETUID_FIXUP`.
pub(crate) fn keeps_capabilities_of_access() -> bool {
    // SAFETY: the call takes no pointer.
    let bits = unsafe { libc::prctl(libc::PR_GET_SECUREBITS) };
    bits != -1 && bits & libc::SECBIT_NO_SETUID_FIXUP != 0
}

/// Copies the host's credentials to a process of ours.
pub(crate) fn copy_credentials(process: &Process) {
    let [[effective, permitted, _], _] = capability_sets();
    let (user, group) = ids_for_files();
    let effective = Credentials {
        uid: user,
        gid: group,
        capabilities: Capabilities::from_bits_truncate(effective),
    };
    let (user, group) = real_ids();
    let of_access = match user {
        _ if keeps_capabilities_of_access() => effective.capabilities,
        0 => Capabilities::from_bits_truncate(permitted),
        _ => Capabilities::empty(),
    };
    let real = Credentials {
        uid: user,
        gid: group,
        capabilities: of_access,
    };
    process.set_credentials(effective, real);
    // Without memory for them, the permissions of groups do not hold.
    process.set_groups(groups().unwrap_or_default());
}
