// Registers and memory that a system call leaves as they are, at sites of both forms.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <cpuid.h>

// Makes the call of a site between known registers, and stores all of them.
// in: 0 rax 1 rbx 2 rdx 3 rsi 4 rdi 5 rbp 6.. r8 to r15, 14 flags
#define PROBE(name, number, call)                                                   \
  void name(uint64_t in[16], uint64_t out[20]);                                     \
  __asm__(".text\n" #name ":\n"                                                     \
          "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"      \
          "push %rsi\n"                                                             \
          "mov 8(%rdi),%rbx; mov 16(%rdi),%rdx; mov 24(%rdi),%rsi\n"                \
          "mov 40(%rdi),%rbp; mov 48(%rdi),%r8; mov 56(%rdi),%r9\n"                 \
          "mov 64(%rdi),%r10; mov 80(%rdi),%r12\n"                                  \
          "mov 88(%rdi),%r13; mov 96(%rdi),%r14; mov 104(%rdi),%r15\n"              \
          "pushq 112(%rdi); popfq; mov 32(%rdi),%rdi\n"                             \
          "movq $0x1122334455667788,%r11; mov %r11,-8(%rsp); mov %r11,-64(%rsp); mov %r11,-128(%rsp)\n" \
          call                                                                      \
          "mov %rsp,%rsp\n"                                                         \
          "xchg %rax,(%rsp)\n"                                                      \
          "mov %rbx,8(%rax); mov %rdx,16(%rax); mov %rsi,24(%rax); mov %rdi,32(%rax)\n" \
          "mov %rbp,40(%rax); mov %r8,48(%rax); mov %r9,56(%rax); mov %r10,64(%rax)\n" \
          "mov %r12,80(%rax); mov %r13,88(%rax); mov %r14,96(%rax); mov %r15,104(%rax)\n" \
          "mov %rcx,120(%rax); mov %r11,128(%rax)\n"                                \
          "mov -8(%rsp),%rcx; mov %rcx,136(%rax); mov -64(%rsp),%rcx; mov %rcx,144(%rax)\n" \
          "mov -128(%rsp),%rcx; mov %rcx,152(%rax)\n"                               \
          "pushfq; popq 112(%rax); cld\n"                                           \
          "pop %rcx; mov %rcx,(%rax)\n"                                             \
          "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n");

PROBE(in_front, 39, "mov $39,%eax\nsyscall\nin_front_ret:\n")
PROBE(behind, 39, "mov $39,%eax; nop\nsyscall\nbehind_ret:\nlea 0(%rdx),%rdx; lea 0(%rsi),%rsi\n")
PROBE(left, 39, "mov $-1,%rax; mov $39,%eax; nop\nsyscall\nleft_ret:\njmp 1f\n1:\n")
extern char in_front_ret[], behind_ret[], left_ret[];

static int failures;
static void check(const char *name, int round, const char *what, uint64_t got, uint64_t wanted) {
  if (got != wanted) {
    printf("%s, call %d: %s is %lx, not %lx\n", name, round, what, got, wanted);
    failures++;
  }
}

static void probe(const char *name, void (*call)(uint64_t *, uint64_t *), char *ret, int is_moved) {
  static const char *names[] = {"rax", "rbx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "", "r12", "r13", "r14", "r15"};
  for (int round = 0; round < 4; round++) {
    uint64_t in[16], out[20];
    memset(out, 0, sizeof out);
    for (int i = 0; i < 16; i++) in[i] = 0xA5A5000000000000 + i * 0x1111 + round;
    in[14] = round % 2 ? 0xAD7 : 0x202; // with CF, PF, AF, ZF, SF, OF, and without; DF stays clear
    in[14] &= ~0x400ull;
    call(in, out);
    if ((int64_t)out[0] <= 0) check(name, round, "rax", out[0], 1);
    for (int i = 1; i < 14; i++)
      if (i != 9) check(name, round, names[i], out[i], in[i]);
    check(name, round, "flags", out[14] & 0xCD5, in[14] & 0xCD5);
    check(name, round, "r11", out[16] & 0xCD5, in[14] & 0xCD5);
    if (!is_moved) check(name, round, "rcx", out[15], (uint64_t)ret);
    for (int i = 17; i < 20; i++) check(name, round, "the red zone", out[i], 0x1122334455667788);
  }
}

typedef unsigned char bytes32 __attribute__((vector_size(32)));
__attribute__((target("avx"))) static void vectors(void) {
  static uint8_t before[16][32], after[16][32];
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 32; j++) before[i][j] = i * 32 + j + 1;
  for (int round = 0; round < 3; round++) {
    // A call that copies, with the C library of the runner: clock_getres has an argument to fill.
    static long spec[2];
    long result;
    register uint8_t(*b)[32] __asm__("r12") = before;
    register uint8_t(*a)[32] __asm__("r13") = after;
    __asm__ volatile(
        "vmovdqu (%2),%%ymm0; vmovdqu 32(%2),%%ymm1; vmovdqu 64(%2),%%ymm2; vmovdqu 96(%2),%%ymm3\n"
        "vmovdqu 128(%2),%%ymm4; vmovdqu 160(%2),%%ymm5; vmovdqu 192(%2),%%ymm6; vmovdqu 224(%2),%%ymm7\n"
        "vmovdqu 256(%2),%%ymm8; vmovdqu 288(%2),%%ymm9; vmovdqu 320(%2),%%ymm10; vmovdqu 352(%2),%%ymm11\n"
        "vmovdqu 384(%2),%%ymm12; vmovdqu 416(%2),%%ymm13; vmovdqu 448(%2),%%ymm14; vmovdqu 480(%2),%%ymm15\n"
        "mov $79,%%eax\nsyscall\n"
        "vmovdqu %%ymm0,(%3); vmovdqu %%ymm1,32(%3); vmovdqu %%ymm2,64(%3); vmovdqu %%ymm3,96(%3)\n"
        "vmovdqu %%ymm4,128(%3); vmovdqu %%ymm5,160(%3); vmovdqu %%ymm6,192(%3); vmovdqu %%ymm7,224(%3)\n"
        "vmovdqu %%ymm8,256(%3); vmovdqu %%ymm9,288(%3); vmovdqu %%ymm10,320(%3); vmovdqu %%ymm11,352(%3)\n"
        "vmovdqu %%ymm12,384(%3); vmovdqu %%ymm13,416(%3); vmovdqu %%ymm14,448(%3); vmovdqu %%ymm15,480(%3)\n"
        : "=a"(result)
        : "D"(spec), "r"(b), "r"(a), "S"(0L)
        : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    if (memcmp(before, after, sizeof before)) {
      for (int i = 0; i < 512; i++)
        if (before[0][i] != after[0][i]) { printf("vector register %d, byte %d: call %d\n", i / 32, i % 32, round); break; }
      failures++;
    }
  }
}

__attribute__((target("avx512f"))) static void wide_vectors(void) {
  static uint8_t before[2048], after[2048];
  static uint64_t masks[8];
  for (int i = 0; i < 32 * 64; i++) before[i] = i * 7 + i / 256 + 1;
  for (int round = 0; round < 3; round++) {
    static long spec[2];
    long result;
    register uint8_t *b __asm__("r12") = before;
    register uint8_t *a __asm__("r13") = after;
    register uint64_t *m __asm__("r14") = masks;
    __asm__ volatile(
        "vmovdqu64 0(%2),%%zmm0\n"
        "vmovdqu64 64(%2),%%zmm1\n"
        "vmovdqu64 128(%2),%%zmm2\n"
        "vmovdqu64 192(%2),%%zmm3\n"
        "vmovdqu64 256(%2),%%zmm4\n"
        "vmovdqu64 320(%2),%%zmm5\n"
        "vmovdqu64 384(%2),%%zmm6\n"
        "vmovdqu64 448(%2),%%zmm7\n"
        "vmovdqu64 512(%2),%%zmm8\n"
        "vmovdqu64 576(%2),%%zmm9\n"
        "vmovdqu64 640(%2),%%zmm10\n"
        "vmovdqu64 704(%2),%%zmm11\n"
        "vmovdqu64 768(%2),%%zmm12\n"
        "vmovdqu64 832(%2),%%zmm13\n"
        "vmovdqu64 896(%2),%%zmm14\n"
        "vmovdqu64 960(%2),%%zmm15\n"
        "vmovdqu64 1024(%2),%%zmm16\n"
        "vmovdqu64 1088(%2),%%zmm17\n"
        "vmovdqu64 1152(%2),%%zmm18\n"
        "vmovdqu64 1216(%2),%%zmm19\n"
        "vmovdqu64 1280(%2),%%zmm20\n"
        "vmovdqu64 1344(%2),%%zmm21\n"
        "vmovdqu64 1408(%2),%%zmm22\n"
        "vmovdqu64 1472(%2),%%zmm23\n"
        "vmovdqu64 1536(%2),%%zmm24\n"
        "vmovdqu64 1600(%2),%%zmm25\n"
        "vmovdqu64 1664(%2),%%zmm26\n"
        "vmovdqu64 1728(%2),%%zmm27\n"
        "vmovdqu64 1792(%2),%%zmm28\n"
        "vmovdqu64 1856(%2),%%zmm29\n"
        "vmovdqu64 1920(%2),%%zmm30\n"
        "vmovdqu64 1984(%2),%%zmm31\n"
        "mov $0x1235,%%eax; kmovw %%eax,%%k1; kmovw %%eax,%%k4; kmovw %%eax,%%k7\n"
        "mov $79,%%eax\nsyscall\n"
        "vmovdqu64 %%zmm0,0(%3)\n"
        "vmovdqu64 %%zmm1,64(%3)\n"
        "vmovdqu64 %%zmm2,128(%3)\n"
        "vmovdqu64 %%zmm3,192(%3)\n"
        "vmovdqu64 %%zmm4,256(%3)\n"
        "vmovdqu64 %%zmm5,320(%3)\n"
        "vmovdqu64 %%zmm6,384(%3)\n"
        "vmovdqu64 %%zmm7,448(%3)\n"
        "vmovdqu64 %%zmm8,512(%3)\n"
        "vmovdqu64 %%zmm9,576(%3)\n"
        "vmovdqu64 %%zmm10,640(%3)\n"
        "vmovdqu64 %%zmm11,704(%3)\n"
        "vmovdqu64 %%zmm12,768(%3)\n"
        "vmovdqu64 %%zmm13,832(%3)\n"
        "vmovdqu64 %%zmm14,896(%3)\n"
        "vmovdqu64 %%zmm15,960(%3)\n"
        "vmovdqu64 %%zmm16,1024(%3)\n"
        "vmovdqu64 %%zmm17,1088(%3)\n"
        "vmovdqu64 %%zmm18,1152(%3)\n"
        "vmovdqu64 %%zmm19,1216(%3)\n"
        "vmovdqu64 %%zmm20,1280(%3)\n"
        "vmovdqu64 %%zmm21,1344(%3)\n"
        "vmovdqu64 %%zmm22,1408(%3)\n"
        "vmovdqu64 %%zmm23,1472(%3)\n"
        "vmovdqu64 %%zmm24,1536(%3)\n"
        "vmovdqu64 %%zmm25,1600(%3)\n"
        "vmovdqu64 %%zmm26,1664(%3)\n"
        "vmovdqu64 %%zmm27,1728(%3)\n"
        "vmovdqu64 %%zmm28,1792(%3)\n"
        "vmovdqu64 %%zmm29,1856(%3)\n"
        "vmovdqu64 %%zmm30,1920(%3)\n"
        "vmovdqu64 %%zmm31,1984(%3)\n"
        "kmovw %%k1,%%ecx; mov %%rcx,8(%4); kmovw %%k4,%%ecx; mov %%rcx,32(%4); kmovw %%k7,%%ecx; mov %%rcx,56(%4)\n"
        : "=a"(result) : "D"(spec), "r"(b), "r"(a), "r"(m), "S"(0L) : "rcx", "r11", "memory", "k1", "k4", "k7", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31");
    for (int i = 0; i < 32 * 64; i++)
      if (before[i] != after[i]) { printf("vector register %d, byte %d: call %d\n", i / 64, i % 64, round); failures++; break; }
    if (masks[1] != 0x1235 || masks[4] != 0x1235 || masks[7] != 0x1235) { printf("mask registers: call %d\n", round); failures++; }
  }
}

int main(void) {
  probe("in front", in_front, in_front_ret, 0);
  probe("behind", behind, behind_ret, 1);
  probe("left", left, left_ret, 0);
  if (__builtin_cpu_supports("avx")) vectors();
  if (__builtin_cpu_supports("avx512f")) wide_vectors();
  puts(failures ? "failed" : "done");
  return failures != 0;
}
