//! System calls that only the host has, by number.
//!
//! Descriptors and paths are translated: a host file of our table becomes its host descriptor, and
//! a new host descriptor moves into our table. `ENOSYS` is the result of calls whose descriptors
//! are in structs or in memory shared with the kernel, and of calls that are newer than this
//! library.
//! A test of the runner has the list of the calls without descriptors, which are passed on.

use std::ffi::{c_int, c_long};
use std::ptr;

use fdtable::{FileRef, host_fork};
use fdtable_vfs::{Errno, RcuObject};

use crate::abi::call::call;
use crate::abi::path::{HostPath, Target};
use crate::abi::pin::LastLink;
use crate::abi::routing::Links;
use crate::abi::system::System;
use crate::host;
use crate::host::file::HostFile;
use crate::host::in_use::InUse;
use crate::process::credentials::{copied, prctl};
use crate::process::fork::unshare_files;

/// Makes a system call that is not ours. Fails with `EPERM`, as without the capability, if it could
/// lead around an overlay or another root, and with `EINVAL` if children would have other ids.
///
/// # Safety
/// The arguments are those that the system call expects.
pub unsafe fn host_call(number: c_long, a: [c_long; 6]) -> c_long {
    call(|system| {
        let crosses = || system.routes.load().links() == Links::Cross;
        if escapes_overlays(number, a[0]) && crosses() {
            return Err(Errno::EPERM);
        }
        // The kernel's locks know the threads of all processes by their ids.
        if host_fork::shares_memory() && changes_ids(number, a) {
            return Err(Errno::EINVAL);
        }
        if number == libc::SYS_unshare && a[0] & c_long::from(libc::CLONE_FILES) != 0 {
            unshare_files()?;
        }
        match number {
            // SAFETY: as the caller promises.
            libc::SYS_prctl => unsafe { prctl(a) },
            // SAFETY: as the caller promises.
            libc::SYS_setgroups => copied(|| unsafe { host::syscall(number, a) }),
            // A descriptor of a lower file would be one of the host's file.
            libc::SYS_pidfd_getfd if crosses() => Err(Errno::EPERM),
            // SAFETY: as the caller promises.
            _ => unsafe { shape(number, &a)?.call(system, number, a) },
        }
    })
}

/// Returns true for calls after which children may be in another namespace of processes.
fn changes_ids(number: c_long, a: [c_long; 6]) -> bool {
    const PROCESSES: c_long = libc::CLONE_NEWPID as c_long;
    match number {
        libc::SYS_unshare => a[0] & PROCESSES != 0,
        libc::SYS_setns => a[1] == 0 || a[1] & PROCESSES != 0,
        _ => false,
    }
}

/// Returns true for calls after which the host's directory below an overlay has another name, and
/// for those that lead to files of the host without a path that can be judged. All need a
/// capability.
fn escapes_overlays(number: c_long, first: c_long) -> bool {
    match number {
        libc::SYS_unshare => first & c_long::from(libc::CLONE_NEWNS) != 0,
        number => matches!(
            number,
            libc::SYS_chroot
                | libc::SYS_pivot_root
                | libc::SYS_mount
                | libc::SYS_umount2
                | libc::SYS_setns
                | libc::SYS_open_tree
                | libc::SYS_move_mount
                | libc::SYS_mount_setattr
                | libc::SYS_fsopen
                | libc::SYS_fsconfig
                | libc::SYS_fsmount
                | libc::SYS_fspick
                | libc::SYS_open_by_handle_at
                | libc::SYS_acct
                | libc::SYS_swapon
                | libc::SYS_swapoff
                | libc::SYS_quotactl
                | libc::SYS_quotactl_fd
        ),
    }
}

/// The descriptors of a call, as indices of its arguments.
#[derive(Default)]
struct Shape {
    /// Descriptors. A negative one stays.
    fds: &'static [usize],
    /// Paths, each with the descriptor of a directory, or relative to the working directory.
    paths: &'static [(Option<usize>, usize)],
    /// For a call that returns a descriptor: 0 if that has no `FD_CLOEXEC`.
    opens: Option<c_long>,
}

/// Flags and commands that the `libc` crate does not define.
const OPEN_TREE_CLOEXEC: c_long = libc::O_CLOEXEC as c_long;
const FSOPEN_CLOEXEC: c_long = 1;
const FSMOUNT_CLOEXEC: c_long = 1;
const FSPICK_CLOEXEC: c_long = 1;
const FSCONFIG_SET_PATH: c_int = 3;
const FSCONFIG_SET_PATH_EMPTY: c_int = 4;
const FSCONFIG_SET_FD: c_int = 5;
const PERF_FLAG_PID_CGROUP: c_long = 4;
const PERF_FLAG_FD_CLOEXEC: c_long = 8;

const FD: &[usize] = &[0];
const AT: &[(Option<usize>, usize)] = &[(Some(0), 1)];

/// `SYS_io_pgetevents`, which the `libc` crate does not define.
const IO_PGETEVENTS: c_long = 333;

/// The newest call that is known here.
const NEWEST: c_long = libc::SYS_set_mempolicy_home_node;

/// Returns the descriptors of a call.
///
/// # Errors
/// `ENOSYS` if the call is not made.
fn shape(number: c_long, a: &[c_long; 6]) -> Result<Shape, Errno> {
    let o_cloexec = c_long::from(libc::O_CLOEXEC);
    Ok(match number {
        // The kernel gives these descriptors the flag always.
        libc::SYS_pidfd_open | libc::SYS_mq_open => Shape::default().opens(1),
        libc::SYS_pidfd_getfd => Shape::of_fds(FD).opens(1),
        libc::SYS_pidfd_send_signal
        | libc::SYS_process_madvise
        | libc::SYS_process_mrelease
        | libc::SYS_setns
        | libc::SYS_finit_module
        | libc::SYS_quotactl_fd
        | libc::SYS_mq_timedsend
        | libc::SYS_mq_timedreceive
        | libc::SYS_mq_notify
        | libc::SYS_mq_getsetattr
        | libc::SYS_fsetxattr
        | libc::SYS_fgetxattr
        | libc::SYS_flistxattr
        | libc::SYS_fremovexattr => Shape::of_fds(FD),
        libc::SYS_setxattr
        | libc::SYS_lsetxattr
        | libc::SYS_getxattr
        | libc::SYS_lgetxattr
        | libc::SYS_listxattr
        | libc::SYS_llistxattr
        | libc::SYS_removexattr
        | libc::SYS_lremovexattr => Shape::of_paths(&[(None, 0)]),
        libc::SYS_waitid if a[0] == libc::P_PIDFD.into() => Shape::of_fds(&[1]),
        libc::SYS_perf_event_open => {
            let fds: &[usize] = match a[4] & PERF_FLAG_PID_CGROUP {
                0 => &[3],
                _ => &[1, 3],
            };
            Shape::of_fds(fds).opens(a[4] & PERF_FLAG_FD_CLOEXEC)
        }
        libc::SYS_userfaultfd | libc::SYS_memfd_secret => Shape::default().opens(a[0] & o_cloexec),
        libc::SYS_fsopen => Shape::default().opens(a[1] & FSOPEN_CLOEXEC),
        libc::SYS_fsmount => Shape::of_fds(FD).opens(a[1] & FSMOUNT_CLOEXEC),
        libc::SYS_fspick => Shape::of_paths(AT).opens(a[2] & FSPICK_CLOEXEC),
        libc::SYS_open_tree => Shape::of_paths(AT).opens(a[2] & OPEN_TREE_CLOEXEC),
        libc::SYS_open_by_handle_at => Shape::of_fds(FD).opens(a[2] & o_cloexec),
        libc::SYS_fsconfig => match a[1] as c_int {
            FSCONFIG_SET_PATH | FSCONFIG_SET_PATH_EMPTY => return Err(Errno::ENOSYS),
            FSCONFIG_SET_FD => Shape::of_fds(&[0, 4]),
            _ => Shape::of_fds(FD),
        },
        libc::SYS_move_mount => Shape::of_paths(&[(Some(0), 1), (Some(2), 3)]),
        libc::SYS_mount_setattr | libc::SYS_name_to_handle_at => Shape::of_paths(AT),
        libc::SYS_seccomp if returns_listener(a) => return Err(Errno::ENOSYS),
        libc::SYS_io_setup
        | libc::SYS_io_destroy
        | libc::SYS_io_getevents
        | libc::SYS_io_submit
        | libc::SYS_io_cancel
        | IO_PGETEVENTS
        | libc::SYS_io_uring_setup
        | libc::SYS_io_uring_enter
        | libc::SYS_io_uring_register
        | libc::SYS_bpf
        | libc::SYS_fanotify_init
        | libc::SYS_fanotify_mark
        | libc::SYS_landlock_create_ruleset
        | libc::SYS_landlock_add_rule
        | libc::SYS_landlock_restrict_self
        | libc::SYS_kcmp
        | libc::SYS_kexec_file_load
        | libc::SYS_lookup_dcookie
        | libc::SYS_uselib
        | ..0 => return Err(Errno::ENOSYS),
        number if number > NEWEST => return Err(Errno::ENOSYS),
        _ => Shape::default(),
    })
}

/// Returns what a call does with a symbolic link at the end of its path.
fn last_link(number: c_long, a: &[c_long; 6]) -> LastLink {
    match number {
        libc::SYS_lsetxattr
        | libc::SYS_lgetxattr
        | libc::SYS_llistxattr
        | libc::SYS_lremovexattr => LastLink::Keep,
        libc::SYS_name_to_handle_at if a[4] as c_int & libc::AT_SYMLINK_FOLLOW == 0 => {
            LastLink::Keep
        }
        // Others with flags are refused where links lead from one side to the other.
        _ => LastLink::Follow,
    }
}

fn returns_listener(a: &[c_long; 6]) -> bool {
    a[0] == libc::SECCOMP_SET_MODE_FILTER.into()
        && a[1].cast_unsigned() & libc::SECCOMP_FILTER_FLAG_NEW_LISTENER != 0
}

impl Shape {
    fn of_fds(fds: &'static [usize]) -> Self {
        Shape {
            fds,
            ..Shape::default()
        }
    }

    fn of_paths(paths: &'static [(Option<usize>, usize)]) -> Self {
        Shape {
            paths,
            ..Shape::default()
        }
    }

    /// The same, of a call that returns a descriptor: without `FD_CLOEXEC` if `cloexec` is 0.
    fn opens(self, cloexec: c_long) -> Self {
        Shape {
            opens: Some(cloexec),
            ..self
        }
    }

    /// Translates the arguments, makes the call, and translates its result.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for a descriptor or path of ours; `EBADF`; `EFAULT`; those of the call.
    ///
    /// # Safety
    /// As [`host_call`].
    unsafe fn call(
        &self,
        system: &System,
        number: c_long,
        mut a: [c_long; 6],
    ) -> Result<c_long, Errno> {
        // They keep the host descriptors open during the call.
        let mut files: Vec<(InUse, FileRef<RcuObject>)> = Vec::new();
        let mut paths: Vec<(InUse, HostPath<'_>)> = Vec::new();
        for &index in self.fds {
            let fd = a[index] as c_int;
            if fd >= 0 {
                let file = system.file(fd)?;
                let host_fd = HostFile::with_inode_below(&**file)
                    .ok_or(Errno::EOPNOTSUPP)?
                    .fd();
                a[index] = host_fd.get().into();
                files.push((host_fd, file));
            }
        }
        for &(at, index) in self.paths {
            let directory = at.map_or(libc::AT_FDCWD, |at| a[at] as c_int);
            let path = ptr::with_exposed_provenance(a[index] as usize);
            // SAFETY: as the caller promises.
            let path = match unsafe { system.target(directory, path, last_link(number, &a)) }? {
                Target::Host(path) => path,
                Target::Ours(libc::AT_FDCWD, _) => return Err(Errno::EOPNOTSUPP),
                Target::Ours(at, _) => {
                    return Err(system.file(at).err().unwrap_or(Errno::EOPNOTSUPP));
                }
            };
            let used = path.directory();
            if let Some(at) = at {
                a[at] = used.get().into();
            }
            a[index] = path.as_ptr().expose_provenance() as c_long;
            paths.push((used, path));
        }
        // SAFETY: as the caller promises; what was replaced is of the same kind.
        let result = unsafe { host::syscall(number, a) }?;
        match self.opens {
            None => Ok(result),
            Some(cloexec) => {
                let fd = system.adopt_new(result as c_int, cloexec as c_int)?;
                Ok(fd.raw().into())
            }
        }
    }
}
