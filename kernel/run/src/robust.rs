//! Robust locks, which the host releases at the end of a thread that holds them: `robust_list`.

use crate::abi::host_now;
use crate::block::Block;
use crate::memory;

/// The most entries of a list of robust locks that the host reads.
const ROBUST: usize = 2048;

/// Releases the robust locks that the guest's thread holds, as the host does at the end of a
/// thread: for the leader, which stays. Locks with priority inheritance stay the leader's.
pub(crate) fn release_locks(block: &Block) {
    let head = block.robust_list.take();
    if head == 0 {
        return;
    }
    host_now(libc::SYS_set_robust_list, [0, 24, 0, 0, 0, 0]);
    // Addresses, but for the lowest bit: whether it is a lock with priority inheritance.
    const PRIORITY: u64 = 1;
    let Ok([first, offset, pending]) = memory::get::<[u64; 3]>(head) else {
        return;
    };
    let release = |entry: u64| {
        if entry != 0 && entry & PRIORITY == 0 {
            release_lock(block, entry.wrapping_add(offset));
        }
    };
    let mut entry = first;
    for _ in 0..ROBUST {
        if entry & !PRIORITY == head {
            break;
        }
        // Before the release: another thread may free the lock then.
        let next = memory::get(entry & !PRIORITY);
        if entry != pending {
            release(entry);
        }
        match next {
            Ok(next) => entry = next,
            Err(_) => break,
        }
    }
    release(pending);
}

/// Marks a lock as one whose owner has died, and wakes those that wait for it.
fn release_lock(block: &Block, at: u64) {
    const OWNER: u32 = 0x3FFF_FFFF;
    /// Sets the word to `1 << 30`, which is `FUTEX_OWNER_DIED`.
    const DIED: i64 = (libc::FUTEX_OP_SET as i64 | 8) << 28 | 30 << 12;
    let owner = memory::get::<u64>(at).map(|word| word as u32 & OWNER);
    if owner == Ok(block.id.get().cast_unsigned()) {
        let (at, all) = (at.cast_signed(), i64::from(i32::MAX));
        // The host checks the address. Waiters all try again, and mark the word anew.
        host_now(
            libc::SYS_futex,
            [at, libc::FUTEX_WAKE_OP.into(), all, 0, at, DIED],
        );
    }
}
