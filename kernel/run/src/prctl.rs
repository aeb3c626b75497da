//! Attributes of the thread and of the process: `arch_prctl(2)` and `prctl(2)`.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::abi::{answer, host_now, on_host};
use crate::block::Request;
use crate::thread::PR_SET_SYSCALL_USER_DISPATCH;
use crate::{code, memory, patch};

/// Returns and sets the base of a segment: `arch_prctl(2)`.
pub(crate) fn set_base(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    const ARCH_SET_FS: i64 = 0x1002;
    const ARCH_GET_FS: i64 = 0x1003;
    const ARCH_SET_GS: i64 = 0x1001;
    const ARCH_GET_GS: i64 = 0x1004;
    const SHADOW_STACK_FIRST: i64 = 0x5001;
    const SHADOW_STACK_LAST: i64 = 0x5005;
    patch::cpuid::end();
    match a[0] {
        ARCH_SET_FS => {
            r.block.guest_fs.set(a[1].cast_unsigned());
            0
        }
        ARCH_GET_FS => {
            let written = memory::put(a[1].cast_unsigned(), r.block.guest_fs.get());
            answer(written.map(|()| 0))
        }
        // Shadow stacks do not cover the runner's stacks: as on a CPU without them.
        SHADOW_STACK_FIRST..=SHADOW_STACK_LAST => -i64::from(libc::EOPNOTSUPP),
        // The runner uses `gs`.
        ARCH_SET_GS | ARCH_GET_GS => -i64::from(libc::EPERM),
        _ => host_now(r.number, *a),
    }
}

/// Serves `prctl(2)`.
pub(crate) fn prctl(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    match a[0] as i32 {
        PR_SET_SYSCALL_USER_DISPATCH => -i64::from(libc::EINVAL),
        libc::PR_SET_SECCOMP => with_filter(r, a),
        libc::PR_SET_DUMPABLE => set_dumpable(a),
        libc::PR_GET_DUMPABLE => IS_DUMPABLE.load(Ordering::SeqCst).into(),
        _ => on_host(r.number, *a),
    }
}

/// Makes a call that may install a filter of calls.
pub(crate) fn with_filter(r: &mut Request<'_>, a: &[i64; 6]) -> i64 {
    code::pin();
    on_host(r.number, *a)
}

/// Value that the guest has set by `PR_SET_DUMPABLE`. The host does not get it: the host would no
/// longer let the supervisor read the memory of the process.
static IS_DUMPABLE: AtomicBool = AtomicBool::new(true);

/// Sets whether other processes may inspect this one: `PR_SET_DUMPABLE`.
fn set_dumpable(a: &[i64; 6]) -> i64 {
    if !matches!(a[1], 0 | 1) {
        return -i64::from(libc::EINVAL);
    }
    IS_DUMPABLE.store(a[1] == 1, Ordering::SeqCst);
    0
}

/// Resets the value for a new program.
pub(crate) fn begin_program() {
    IS_DUMPABLE.store(true, Ordering::SeqCst);
}
