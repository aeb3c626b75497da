//! Places in the guest: return addresses on its stack, and the mappings that they are in.
//!
//! Debian's programs have no frame pointers, so the stack is searched: a word is taken for a return
//! address if it leads into executable memory of a file, directly behind a call. A stale word of a
//! function that has returned looks the same, so a stack may show too many places, and only its
//! first ones are recorded.

use std::ops::Range;

use fdtable_posix::runner::maps;

use super::observers::Call;
use crate::guarded::Guarded;
use crate::memory;

/// How many places of a stack are recorded.
const DEPTH: usize = 6;
/// How many bytes of the stack are searched.
const SEARCHED: usize = 4096;

/// Return addresses, the innermost first.
pub(super) type Stack = Vec<u64>;

/// Executable memory of a file.
struct Executable {
    range: Range<u64>,
    offset: u64,
    file: String,
}

/// The executable mappings; `None` if they have changed since they were read.
static MAPPINGS: Guarded<Option<Vec<Executable>>> = Guarded::new(None);

/// Notes that executable memory may have changed.
pub(super) fn forget_mappings() {
    *MAPPINGS.lock() = None;
}

/// Runs `f` with the mapping of an address, if there is one.
fn with_mapping<R>(address: u64, f: impl FnOnce(&Executable) -> R) -> Option<R> {
    let mut mappings = MAPPINGS.lock();
    let all = mappings.get_or_insert_with(read_mappings);
    let found = all.iter().find(|mapping| mapping.range.contains(&address));
    found.map(f)
}

fn read_mappings() -> Vec<Executable> {
    let list = maps::read();
    let of_files = maps::parse(&list).filter(|mapping| {
        mapping.permissions.as_bytes().get(2) == Some(&b'x') && mapping.name.starts_with('/')
    });
    let owned = of_files.map(|mapping| Executable {
        range: mapping.range,
        offset: mapping.offset,
        file: mapping.name.to_owned(),
    });
    owned.collect()
}

/// Returns true if the instruction before an address is a call.
fn follows_call(address: u64) -> bool {
    let Ok(before) = memory::get::<[u8; 7]>(address.wrapping_sub(7)) else {
        return false;
    };
    // `call` of a distance, or of a register or a place in memory, in forms of 2 to 7 bytes.
    let is_indirect =
        |length: usize| before[7 - length] == 0xFF && before[8 - length] & 0x38 == 0x10;
    before[2] == 0xE8 || [2, 3, 4, 6, 7].into_iter().any(is_indirect)
}

/// Returns the stack of a call.
pub(super) fn stack(call: &Call) -> Stack {
    let mut stack = Vec::new();
    // The site itself: a call at a rewritten site returns to its stub, which is no file.
    if with_mapping(call.rip, |_| ()).is_some() {
        stack.push(call.rip);
    }
    for word in memory::read(call.rsp, SEARCHED).as_chunks::<8>().0 {
        let address = u64::from_ne_bytes(*word);
        if with_mapping(address, |_| ()).is_some() && follows_call(address) {
            stack.push(address);
        }
        if stack.len() == DEPTH {
            break;
        }
    }
    stack
}

/// Returns an address as the file and the offset in it.
pub(super) fn name(address: u64) -> String {
    let named = with_mapping(address, |mapping| {
        let offset = address - mapping.range.start + mapping.offset;
        format!("{}+{offset:#x}", mapping.file)
    });
    named.unwrap_or_else(|| format!("{address:#x}"))
}

/// Returns the first place that is not in a C library or a dynamic loader.
pub(super) fn caller(stack: &Stack) -> Option<String> {
    let is_library = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        file.starts_with("libc.so") || file.starts_with("libc-") || file.starts_with("ld-")
    };
    let names: Vec<_> = stack.iter().map(|&address| name(address)).collect();
    let of_program = names.iter().find(|name| !is_library(name));
    of_program.or(names.first()).cloned()
}
