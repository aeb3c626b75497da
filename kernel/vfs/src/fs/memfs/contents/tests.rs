use super::super::limits::{FileLimits, MemFsLimits};
use super::*;

const LIMIT: u64 = i64::MAX as u64;
const KIB: u64 = 1 << 10;

fn contents() -> Contents {
    limited(u64::MAX)
}

fn limited(memory: u64) -> Contents {
    let limits = MemFsLimits {
        memory,
        ..MemFsLimits::NONE
    };
    Contents::new(FileLimits::new(limits).space)
}

fn read(contents: &Contents, at: u64, count: usize) -> Vec<u8> {
    let mut buf = vec![7; count];
    let count = contents.copy_out(at, &mut buf);
    buf.truncate(count);
    buf
}

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[test]
fn a_hole_takes_no_memory_and_reads_as_zeros() {
    let mut contents = contents();
    assert_eq!(contents.copy_in(LIMIT, LIMIT - 2, b"abc"), Ok(2));
    assert_eq!(contents.len(), LIMIT);
    assert_eq!(contents.pages(), 1);
    assert!(contents.capacity() < 2 * PAGE as usize);
    assert_eq!(read(&contents, LIMIT - 4, 9), b"\0\0ab");
    assert_eq!(read(&contents, 1 << 40, 3), [0; 3]);
    assert_eq!(contents.next_data(0), Some(LIMIT / PAGE * PAGE));
    assert_eq!(contents.next_hole(LIMIT - 1), Some(LIMIT));
    assert_eq!(contents.copy_in(LIMIT, LIMIT, b"c"), Err(Errno::EFBIG));
}

#[test]
fn a_file_that_is_written_from_front_to_back_is_cut_at_the_longest_extent() {
    let mut contents = contents();
    let chunk = vec![1; 3 << 20];
    while contents.len() < 2 * EXTENT {
        let end = contents.len();
        assert_eq!(contents.copy_in(LIMIT, end, &chunk), Ok(chunk.len()));
    }
    assert_eq!(contents.rest.len() as u64, (contents.len() - 1) / EXTENT);
    assert_eq!(contents.pages(), contents.len() / PAGE);
    assert_eq!(read(&contents, EXTENT - 2, 4), [1; 4]);
    assert_eq!(contents.next_hole(5), Some(contents.len()));
    contents.punch(4 * KIB, EXTENT + 8 * KIB).unwrap();
    assert_eq!(contents.next_hole(5), Some(4 * KIB));
    assert_eq!(contents.next_data(4 * KIB), Some(EXTENT + 8 * KIB));
    assert_eq!(read(&contents, EXTENT + 8 * KIB - 1, 2), [0, 1]);
}

#[test]
fn memory_ends_at_the_limit_of_the_file_system() {
    let mut contents = limited(16 * KIB + 5);
    assert_eq!(contents.copy_in(LIMIT, 1 << 30, &[1; 4096]), Ok(4096));
    assert_eq!(contents.copy_in(LIMIT, 0, &[1; 30 << 10]), Ok(12 << 10));
    assert_eq!(contents.copy_in(LIMIT, 12 << 10, b"x"), Err(Errno::ENOSPC));
    assert_eq!(contents.copy_in(LIMIT, 5, b"over"), Ok(4), "needs no page");
    assert_eq!(contents.allocate(0, 1 << 20), Err(Errno::ENOSPC));
    contents.punch(4 * KIB, 8 * KIB).unwrap();
    assert_eq!(contents.space.pages(), Some((4, 1)));
    assert_eq!(contents.allocate(4 * KIB, 8 * KIB), Ok(()));
    contents.set_len(1);
    assert_eq!(contents.space.pages(), Some((4, 3)));
    let space = contents.space.clone();
    drop(contents);
    assert_eq!(space.pages(), Some((4, 4)));
}

/// Compares with a plain vector and the set of its pages that have memory.
#[test]
fn random_changes_leave_the_bytes_and_the_holes_of_a_plain_vector() {
    const SIZE: u64 = 128 << 10;
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut contents = contents();
        let mut bytes = Vec::new();
        let mut has_memory = [false; (2 * SIZE / PAGE) as usize];
        for step in 0..200_u64 {
            let at = random.below(SIZE);
            let end = at + 1 + random.below(if step % 4 == 0 { SIZE } else { 9 * KIB });
            let (first, last) = (at as usize, end as usize);
            let whole = (at / PAGE) as usize..end.div_ceil(PAGE) as usize;
            match random.below(6) {
                0 => {
                    contents.set_len(at);
                    bytes.resize(first, 0);
                    has_memory[at.div_ceil(PAGE) as usize..].fill(false);
                }
                1 => {
                    contents.punch(at, end).unwrap();
                    let len = bytes.len();
                    bytes[first.min(len)..last.min(len)].fill(0);
                    let inner = at.div_ceil(PAGE) as usize..(end / PAGE) as usize;
                    if inner.start < inner.end {
                        has_memory[inner].fill(false);
                    }
                }
                2 => {
                    contents.allocate(at, end).unwrap();
                    has_memory[whole].fill(true);
                }
                _ => {
                    let new = vec![step as u8 | 1; last - first];
                    assert_eq!(contents.copy_in(LIMIT, at, &new), Ok(new.len()));
                    bytes.resize(bytes.len().max(last), 0);
                    bytes[first..last].copy_from_slice(&new);
                    has_memory[whole].fill(true);
                }
            }
            assert_eq!(contents.len(), bytes.len() as u64);
            assert_eq!(read(&contents, 0, bytes.len() + 1), bytes);
            let from = random.below(SIZE);
            let expected = bytes.get(from as usize..).unwrap_or_default();
            assert_eq!(read(&contents, from, bytes.len() + 1), expected);
            let pages = has_memory.iter().filter(|&&has| has).count();
            assert_eq!(contents.pages(), pages as u64);
            let find = |wanted: bool| {
                let at = |at: &u64| has_memory[(at / PAGE) as usize] == wanted;
                let pages = (from / PAGE + 1..).map(|page| page * PAGE);
                let positions = iter::once(from).chain(pages);
                let mut inside = positions.take_while(|&at| at < bytes.len() as u64);
                inside.find(at)
            };
            assert_eq!(contents.next_data(from), find(true));
            let end = Some(bytes.len() as u64).filter(|&end| from < end);
            assert_eq!(contents.next_hole(from), find(false).or(end));
        }
    }
}
