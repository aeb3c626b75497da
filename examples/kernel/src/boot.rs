//! The start of the machine: by the PVH protocol, which QEMU speaks without a boot loader.
//!
//! The first CPU begins in 32-bit mode, the others in 16-bit mode at a page below one mebibyte.
//! Each is brought to 64-bit mode with the same page tables: all addresses below 4 GiB are those
//! of physical memory.

use alloc::vec;
use core::arch::global_asm;
use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use x86_64::instructions::port::Port;

use crate::{clock, cpu, heap, interrupts, pages, threads};

/// Address at which the other CPUs begin.
const TRAMPOLINE: usize = 0x8000;

global_asm!(
    // Tells where the first CPU begins.
    ".section .note.Xen, \"a\", @note; .balign 4",
    ".long 4, 8, 18; .asciz \"Xen\"; .quad entry",
    ".section .boot, \"ax\", @progbits; .code32; .global entry",
    "entry: cli; movl %ebx, start_info; movl $boot_stack_end, %esp",
    // Page tables: four gibibytes in pages of two mebibytes.
    "movl $page_directories, %eax; orl $3, %eax; movl $page_directory_pointers, %edi; movl $4, %ecx",
    "1: movl %eax, (%edi); addl $4096, %eax; addl $8, %edi; loop 1b",
    "movl $page_directory_pointers, %eax; orl $3, %eax; movl %eax, page_map",
    "movl $page_directories, %edi; movl $0x83, %eax; movl $2048, %ecx",
    "2: movl %eax, (%edi); addl $0x200000, %eax; addl $8, %edi; loop 2b",
    "movl $first_cpu, %ebp",
    // Large addresses, and the registers that compiled code uses.
    "to_64_bits: movl $page_map, %eax; movl %eax, %cr3",
    "movl %cr4, %eax; orl $0x620, %eax; movl %eax, %cr4",
    "movl $0xC0000080, %ecx; rdmsr; orl $0x100, %eax; wrmsr",
    "movl %cr0, %eax; andl $0xFFFFFFFB, %eax; orl $0x80000003, %eax; movl %eax, %cr0",
    "lgdt segments_pointer; ljmp $8, $in_64_bits",
    ".code64",
    "in_64_bits: xorl %eax, %eax; movw %ax, %ds; movw %ax, %es; movw %ax, %ss",
    "movw %ax, %fs; movw %ax, %gs; jmpq *%rbp",
    // The others: copied to the trampoline.
    ".code16",
    "trampoline: cli; xorw %ax, %ax; movw %ax, %ds",
    "lgdtl {trampoline} + (segments_32 - trampoline)",
    "movl %cr0, %eax; orl $1, %eax; movl %eax, %cr0; ljmpl $16, $other_32",
    ".balign 8; segments_32: .word segments_end - segments - 1; .long segments; trampoline_end:",
    ".code32",
    "other_32: movw $24, %ax; movw %ax, %ds; movw %ax, %es; movw %ax, %ss",
    // Each takes a stack of 16 KiB: they start at the same time.
    "movl $1, %eax; lock xaddl %eax, next_stack; incl %eax; shll $14, %eax",
    "movl other_stacks, %esp; addl %eax, %esp; movl $other_cpu, %ebp; jmp to_64_bits",
    ".code64",
    "first_cpu: movl $boot_stack_end, %esp; call start_first",
    "other_cpu: call start_other",
    // Nothing; 64-bit code; 32-bit code; data.
    ".balign 8",
    "segments: .quad 0, 0x00AF9A000000FFFF, 0x00CF9A000000FFFF, 0x00CF92000000FFFF; segments_end:",
    "segments_pointer: .word segments_end - segments - 1; .long segments; .long 0",
    ".section .bss; .balign 4096",
    "page_map: .skip 4096; page_directory_pointers: .skip 4096; page_directories: .skip 4 * 4096",
    "boot_stack: .skip 65536; boot_stack_end:",
    ".global start_info, next_stack, other_stacks, trampoline, trampoline_end",
    "start_info: .skip 8; next_stack: .skip 8; other_stacks: .skip 8",
    trampoline = const TRAMPOLINE,
    options(att_syntax),
);

unsafe extern "C" {
    static start_info: u64;
    static next_stack: AtomicUsize;
    static other_stacks: AtomicU64;
    static kernel_end: [u8; 0];
    static trampoline: [u8; 0];
    static trampoline_end: [u8; 0];
}

#[unsafe(no_mangle)]
extern "C" fn start_first() -> ! {
    add_memory();
    cpu::set_count(count_cpus().min(interrupts::MOST));
    cpu::prepare(0);
    clock::prepare();
    interrupts::prepare();
    interrupts::prepare_cpu();
    interrupts::come_online();
    crate::start();
    start_others();
    threads::idle()
}

#[unsafe(no_mangle)]
extern "C" fn start_other() -> ! {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    cpu::prepare(NEXT.fetch_add(1, Ordering::Relaxed));
    interrupts::prepare_cpu();
    interrupts::come_online();
    threads::idle()
}

/// Gives the memory behind the kernel to the heap, and the rest to the page allocator.
fn add_memory() {
    // The address of the map and the number of its entries are at 40 and 48.
    // SAFETY: the entry stored the address, and the boot loader filled what it leads to.
    let info = unsafe { ptr::with_exposed_provenance::<[u64; 7]>(start_info as usize).read() };
    let map = ptr::with_exposed_provenance::<[u64; 3]>(info[5] as usize);
    let behind = (&raw const kernel_end).addr().next_multiple_of(4096);
    for index in 0..info[6] as u32 as usize {
        // SAFETY: the map has so many entries.
        let [start, size, kind] = unsafe { map.add(index).read() };
        let end = (start + size).min(1 << 32) as usize;
        let start = start as usize;
        if kind as u32 != 1 || end <= behind {
            continue;
        }
        // SAFETY: the map says that it is memory, and it is behind the kernel.
        unsafe {
            if start <= behind {
                heap::prepare(behind);
                pages::add(behind + heap::SIZE, end);
            } else {
                pages::add(start, end);
            }
        }
    }
}

/// Asks QEMU for the number of CPUs.
fn count_cpus() -> usize {
    // SAFETY: the device of QEMU's configuration: a selector, and bytes.
    unsafe {
        Port::<u16>::new(0x510).write(5);
        let mut data = Port::<u8>::new(0x511);
        usize::from(u16::from_le_bytes([data.read(), data.read()]))
    }
}

/// Starts the other CPUs, all at once.
fn start_others() {
    const STACK: usize = 16 * 1024;
    let others = cpu::count() - 1;
    if others == 0 {
        return;
    }
    let stacks = vec![0_u128; others * STACK / 16].leak();
    let code = (&raw const trampoline).cast::<u8>();
    let length = (&raw const trampoline_end).addr() - code.addr();
    // SAFETY: the page is below the kernel, and no part of the allocator.
    unsafe {
        other_stacks.store(stacks.as_ptr() as u64, Ordering::SeqCst);
        next_stack.store(0, Ordering::SeqCst);
        ptr::copy_nonoverlapping(code, ptr::with_exposed_provenance_mut(TRAMPOLINE), length);
    }
    interrupts::send(interrupts::RESET);
    clock::spin(10_000);
    interrupts::send(interrupts::START | (TRAMPOLINE >> 12) as u32);
    clock::spin(200);
    if cpu::online() <= others {
        // Lost on some machines; CPUs that run do not see it.
        interrupts::send(interrupts::START | (TRAMPOLINE >> 12) as u32);
    }
}

/// Waits until all CPUs run.
pub fn wait_for_cpus() {
    while cpu::online() < cpu::count() {
        threads::sleep(1);
    }
}
