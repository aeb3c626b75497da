//! The functions that compiled code calls for memory, where the target is the host's own: there the
//! C library has them. And the one that continues an unwinding, which never happens here.

use core::arch::global_asm;

global_asm!(
    ".text; .global memcpy, memmove, memset, memcmp, bcmp, _Unwind_Resume",
    "memmove: mov rax, rdi; mov rcx, rdi; sub rcx, rsi; cmp rcx, rdx; jae memcpy",
    // The destination is inside of the source, behind its start: from the end.
    "lea rdi, [rdi + rdx - 1]; lea rsi, [rsi + rdx - 1]",
    "mov rcx, rdx; std; rep movsb; cld; ret",
    "memcpy: mov rax, rdi; mov rcx, rdx; rep movsb; ret",
    "memset: mov r8, rdi; mov eax, esi; mov rcx, rdx; rep stosb; mov rax, r8; ret",
    "bcmp: memcmp: xor eax, eax; mov rcx, rdx; test rcx, rcx; jz 1f; repe cmpsb; je 1f",
    "movzx eax, byte ptr [rdi - 1]; movzx ecx, byte ptr [rsi - 1]; sub ecx, eax; mov eax, ecx",
    "1: ret",
    "_Unwind_Resume: ud2",
);
