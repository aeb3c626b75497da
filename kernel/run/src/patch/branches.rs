//! The search for branches into bytes that a change replaces.

use std::ops::Range;

use super::code::{JUMP, byte_at};
use crate::memory::{self, PAGE};

/// Returns true if bytes that look like a direct branch lead to one of the addresses. Bytes that
/// cannot be read are no branch: another thread may unmap pages beside the site, and a file may end
/// before its mapping.
pub(super) fn has_branch_to(code: &Range<u64>, targets: Range<u64>) -> bool {
    let leads = |next: u64, distance: i64| targets.contains(&next.wrapping_add_signed(distance));
    let first = targets.start.saturating_sub(256).max(code.start);
    let near: Vec<_> = (first..code.end.min(targets.start + 256))
        .map(byte_at)
        .collect();
    let is_short = |byte: u8| matches!(byte, 0x70..=0x7F | 0xE0..=0xE3 | 0xEB);
    let leads_shortly = |(at, pair): (u64, &[Option<u8>])| match *pair {
        [Some(byte), Some(distance)] => is_short(byte) && leads(at + 2, (distance as i8).into()),
        _ => false,
    };
    if (first..).zip(near.windows(2)).any(leads_shortly) {
        return true;
    }
    // The comparison modulo 2^32 comes first, for many places at once: it holds for few.
    let in_code = |at: u64| at.wrapping_sub(code.start) as u32;
    let among = in_code(targets.start)..in_code(targets.end);
    let leads_far = |at: u64, block: &[u8]| {
        may_branch_to(block, in_code(at), &among)
            && (at..).zip(block.windows(5)).any(|(at, window)| {
                let [first, d0, d1, d2, d3] = *window else {
                    return false;
                };
                matches!(first, 0xE8 | JUMP | 0x80..=0x8F)
                    && leads(at + 5, i32::from_le_bytes([d0, d1, d2, d3]).into())
            })
    };
    // A block, and in front of it the last bytes of the one before, if they could be read.
    let mut bytes = Vec::with_capacity(4 + BLOCK);
    (code.start..code.end).step_by(BLOCK).any(|at| {
        let last = bytes.len().saturating_sub(4);
        bytes.drain(..last);
        let before = bytes.len() as u64;
        if code.end - at >= BLOCK as u64 {
            match memory::get::<[u8; BLOCK]>(at) {
                Ok(block) => bytes.extend_from_slice(&block),
                Err(_) => bytes.clear(),
            }
        } else {
            bytes.extend((at..code.end).map_while(byte_at));
        }
        leads_far(at - before, &bytes)
    })
}

/// How many bytes are read at once: a page, which is readable or not as a whole.
const BLOCK: usize = PAGE as usize;

/// Returns false if no instruction of five bytes in a block can lead to the targets, modulo 2³².
/// Its loop has no branches, so that the compiler uses vectors: a child of a fork runs it for each
/// site that it rewrites, over a whole library.
fn may_branch_to(block: &[u8], begin: u32, targets: &Range<u32>) -> bool {
    let count = targets.end - targets.start;
    let mut leads = false;
    for phase in 0..4 {
        let distances = block.get(phase + 1..).unwrap_or_default().chunks_exact(4);
        let from = begin
            .wrapping_add(phase as u32 + 5)
            .wrapping_sub(targets.start);
        for (index, distance) in distances.enumerate() {
            let distance = u32::from_le_bytes([distance[0], distance[1], distance[2], distance[3]]);
            leads |= distance.wrapping_add(from).wrapping_add(4 * index as u32) < count;
        }
    }
    leads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_at_any_place_is_seen() {
        let mut code = vec![0x90; 2 * BLOCK + 7];
        let start = code.as_ptr().addr() as u64;
        let all = start..start + code.len() as u64;
        let target = start + 5000;
        assert!(!has_branch_to(&all, target..target + 4));
        let last = code.len() - 5;
        let edges = [0, 1, BLOCK - 5, BLOCK - 1, BLOCK, BLOCK + 1, last - 1, last];
        for at in (0..8).chain((0..last).step_by(97)).chain(edges) {
            for (to, is_found) in [(-1, false), (0, true), (3, true), (4, false)] {
                let distance = 5000 + to - (at as i32 + 5);
                code[at] = 0xE8;
                code[at + 1..at + 5].copy_from_slice(&distance.to_le_bytes());
                assert_eq!(
                    has_branch_to(&all, target..target + 4),
                    is_found,
                    "{at} {to}"
                );
                code[at..at + 5].fill(0x90);
            }
        }
    }
}
