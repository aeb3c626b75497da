/* The start of the machine, by the PVH protocol, which QEMU speaks without a boot loader: from
 * 32-bit mode to 64-bit mode, with the addresses below one gibibyte mapped to themselves. */

    .section .note.Xen, "a", @note
    .balign 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad entry

    .section .boot, "ax", @progbits
    .code32
    .global entry
entry:
    cli
    movl $stack_end, %esp
    /* 512 pages of two mebibytes. */
    movl $page_directory, %eax
    orl $3, %eax
    movl %eax, page_directory_pointers
    movl $page_directory_pointers, %eax
    orl $3, %eax
    movl %eax, page_map
    movl $page_directory, %edi
    movl $0x83, %eax
    movl $512, %ecx
1:  movl %eax, (%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop 1b
    /* Large addresses, vector registers, long mode, paging. */
    movl $page_map, %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orl $0x620, %eax
    movl %eax, %cr4
    movl $0xC0000080, %ecx
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl %cr0, %eax
    andl $0xFFFFFFFB, %eax
    orl $0x80000003, %eax
    movl %eax, %cr0
    lgdt segments_pointer
    ljmp $8, $in_64_bits

    .code64
in_64_bits:
    xorl %eax, %eax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl $stack_end, %esp
    call kernel
    hlt

    .balign 8
segments:
    .quad 0, 0x00AF9A000000FFFF
segments_end:
segments_pointer:
    .word segments_end - segments - 1
    .long segments

    .section .bss
    .balign 4096
page_map:
    .skip 4096
page_directory_pointers:
    .skip 4096
page_directory:
    .skip 4096
    .skip 65536
stack_end:

    .section .note.GNU-stack, "", @progbits
