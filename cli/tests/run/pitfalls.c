// What breaks runners that rewrite call sites: code that changes, branches into sites, page 0, the
// vDSO, odd numbers of calls, masks with SIGSYS, clone3, shadow stacks.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, OFTEN = 40 };
static unsigned char *page;
static sigjmp_buf out;
static volatile sig_atomic_t seen;

typedef long (*Code)(long);

static void put(const unsigned char *code, size_t size) {
  mprotect(page, PAGE, PROT_READ | PROT_WRITE);
  memcpy(page, code, size);
  mprotect(page, PAGE, PROT_READ | PROT_EXEC);
}

// Calls often enough for the site to be rewritten; returns the result minus the expected one, the
// same each time.
static long difference(long number, long expected) {
  long first = ((Code)page)(number) - expected;
  for (int i = 0; i < OFTEN; i++)
    if (((Code)page)(number) - expected != first) return -1000;
  return first;
}

static unsigned char behind[] = {0x89, 0xF8, 0x0F, 0x05, 0x48, 0x83, 0xC0, 1, 0xC3};
static unsigned char front[] = {0xB8, 39, 0, 0, 0, 0x0F, 0x05, 0x48, 0x83, 0xC0, 3, 0xC3};

static unsigned char *volatile newest;
static void *runs_the_newest(void *stop) {
  while (!*(volatile int *)stop) ((Code)newest)(SYS_getpid);
  return 0;
}

static void code_that_changes(void) {
  page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int round = 1; round < 5; round++) {
    behind[7] = round;
    put(behind, sizeof behind);
    printf("behind a call, round %d: %ld\n", round, difference(SYS_getpid, getpid()));
    printf("its bytes are its own again: ");
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    printf("%d\n", memcmp(page, behind, sizeof behind));
    front[10] = round;
    put(front, sizeof front);
    printf("in front of a call, round %d: %ld\n", round, difference(0, getpid()));
    // One byte of it: another call.
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    page[1] = SYS_getppid;
    mprotect(page, PAGE, PROT_READ | PROT_EXEC);
    printf("another number: %ld\n", difference(0, getppid()));
    // Another mapping at the address.
    munmap(page, PAGE);
    page = mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    behind[7] = round + 50;
    put(behind, sizeof behind);
    printf("mapped again: %ld\n", difference(SYS_getpid, getpid()));
    page = mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    behind[7] = round + 70;
    put(behind, sizeof behind);
    printf("mapped over: %ld\n", difference(SYS_getpid, getpid()));
  }
}

static void code_that_runs_while_it_becomes_writable(void) {
  enum { SIZE = 16, COUNT = PAGE / SIZE };
  memcpy(behind + 4, "\x48\x83\xC0\x00", 4);
  mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
  for (int i = 0; i < COUNT; i++) memcpy(page + i * SIZE, behind, sizeof behind);
  newest = page;
  volatile int stop = 0;
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, runs_the_newest, (void *)&stop);
  int bad = 0;
  for (int i = 0; i < COUNT; i++) {
    newest = page + i * SIZE;
    mprotect(page, PAGE, PROT_READ | PROT_EXEC);
    for (int call = 0; call < 10; call++) bad += ((Code)newest)(SYS_getpid) != getpid();
    mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
    bad += memcmp(newest, behind, sizeof behind) != 0;
  }
  stop = 1;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  printf("while it runs: %d bad\n", bad);
}

// Entered at its start, at its call, and behind its call by a branch.
__asm__(".text; .balign 64; entered: mov $39,%eax; entered_at_call: syscall; ret");
__asm__(".text; .balign 64; loops: mov %edi,%eax; xor %edx,%edx; syscall; 1: inc %edx; cmp $3,%edx; jne 1b; lea (%rax,%rdx,1),%rax; ret");
extern char entered[], entered_at_call[], loops[];
static long call_with(void *code, long rax) {
  long result;
  __asm__ volatile("call *%2" : "=a"(result) : "0"(rax), "r"(code), "D"(rax) : "rcx", "r11", "rdx", "memory");
  return result;
}

static void faulted(int signal, siginfo_t *info, void *context) {
  printf("signal %d, code %d, at %p\n", signal, info->si_code, info->si_addr);
  (void)context;
  siglongjmp(out, 1);
}
static void note(int signal) { seen++; (void)signal; }

static void *empty_thread(void *unused) { return unused; }

int main(void) {
  setvbuf(stdout, 0, _IONBF, 0);
  code_that_changes();
  code_that_runs_while_it_becomes_writable();

  int bad = 0;
  for (int i = 0; i < OFTEN; i++) {
    bad += call_with(entered, 0) != getpid();
    bad += call_with(entered_at_call, SYS_getppid) != getppid();
    bad += call_with(loops, SYS_getpid) != getpid() + 3;
    // The upper half of the number does not count.
    bad += call_with(entered_at_call, 0x5EADBEEF00000000 | SYS_getppid) != getppid();
    bad += call_with(entered_at_call, -1) != -ENOSYS;
    bad += call_with(entered_at_call, INT32_MIN) != -ENOSYS;
    bad += call_with(entered_at_call, 0x40000000 | SYS_getpid) != -ENOSYS;
  }
  printf("branches into sites: %d bad\n", bad);

  struct sigaction fault = {.sa_sigaction = faulted, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &fault, 0);
  if (!sigsetjmp(out, 1)) printf("%d\n", *(volatile char *)0);
  if (!sigsetjmp(out, 1)) printf("%d\n", *(volatile char *)39);
  if (!sigsetjmp(out, 1)) ((void (*)(void))0)();
  if (!sigsetjmp(out, 1)) ((void (*)(void))SYS_getpid)();

  printf("vDSO: %d\n", memcmp((void *)getauxval(AT_SYSINFO_EHDR), "\177ELF", 4));
  struct timespec by_vdso, by_call;
  clock_gettime(CLOCK_MONOTONIC, &by_vdso);
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &by_call);
  printf("its clock: %d\n", by_call.tv_sec - by_vdso.tv_sec < 100 && by_call.tv_sec >= by_vdso.tv_sec);

  // SIGSYS in the mask of a wait, and in that of a handler that makes calls.
  sigset_t all_but_alarm;
  sigfillset(&all_but_alarm);
  sigdelset(&all_but_alarm, SIGALRM);
  struct sigaction alarm_action = {.sa_handler = note, .sa_mask = all_but_alarm};
  sigaction(SIGALRM, &alarm_action, 0);
  for (int i = 0; i < 20; i++) {
    struct itimerval timer = {{0, 0}, {0, 40000}};
    setitimer(ITIMER_REAL, &timer, 0);
    sigsuspend(&all_but_alarm);
    bad += call_with(entered_at_call, SYS_getpid) != getpid();
  }
  printf("sigsuspend without SIGSYS: %d, %d bad\n", seen, bad);

  struct clone_args arguments = {.exit_signal = SIGCHLD};
  pid_t child = syscall(SYS_clone3, &arguments, sizeof arguments);
  int status;
  if (child == 0) _exit(call_with(entered, 0) == getpid() ? 21 : 22);
  waitpid(child, &status, 0);
  printf("clone3: %d\n", WEXITSTATUS(status));
  pthread_t thread;
  pthread_create(&thread, 0, empty_thread, 0);
  pthread_join(thread, 0);

  // Shadow stacks are refused: the runner changes stacks.
  printf("shadow stack: %ld\n", syscall(SYS_arch_prctl, 0x5001, 1));
  return 0;
}
