// Threads that meet at fresh call sites, of both forms; clone, brk, and code made at run time.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void start(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument) {
  int error = pthread_create(thread, attributes, main, argument);
  if (error) printf("a thread was not started: %s\n", strerrorname_np(error)), exit(1);
}

#define SITES 300
// 2 * SITES functions of each form, 32 bytes each.
__asm__(".text; .balign 32; front_sites: .rept 600; .balign 32; mov $39,%eax; syscall; ret; .endr");
__asm__(".text; .balign 32; behind_sites: .rept 600; .balign 32; mov %edi,%eax; syscall; cmp $-4095,%rax; mov %rax,%rdx; mov %rdx,%rax; ret; .endr");
extern char front_sites[], behind_sites[];

enum { THREADS = 4 };
static pthread_barrier_t barrier;
static void *meet(void *forms) {
  long bad = 0;
  pid_t process = getpid();
  for (int site = 0; site < SITES; site++) {
    if (site % 8 == 0) pthread_barrier_wait(&barrier);
    long (*call)(long) = (long (*)(long))((char *)forms + site * 32);
    for (int i = 0; i < 20; i++)
      if (call(39) != process) bad++;
  }
  return (void *)bad;
}

static void meet_at(const char *name, char *sites) {
  pthread_t threads[THREADS];
  long bad = 0;
  pthread_barrier_init(&barrier, 0, THREADS);
  for (int i = 0; i < THREADS; i++) start(&threads[i], 0, meet, sites);
  for (int i = 0; i < THREADS; i++) {
    void *result;
    pthread_join(threads[i], &result);
    bad += (long)result;
  }
  printf("%s: %ld bad\n", name, bad);
}

static __thread int local = 5;
static void *starts_more(void *depth) {
  local += (int)(long)depth;
  if ((long)depth > 0) {
    pthread_t next;
    start(&next, 0, starts_more, (void *)((long)depth - 1));
    pthread_join(next, 0);
  }
  return (void *)(long)local;
}

int main(void) {
  setvbuf(stdout, 0, _IONBF, 0);
  meet_at("in front", front_sites);
  meet_at("behind", behind_sites);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  meet_at("in front, with signals blocked", front_sites + SITES * 32);
  meet_at("behind, with signals blocked", behind_sites + SITES * 32);
  sigprocmask(SIG_SETMASK, &before, 0);

  void *result;
  pthread_t thread;
  for (int i = 0; i < 50; i++) {
    start(&thread, 0, starts_more, (void *)3L);
    pthread_join(thread, &result);
  }
  printf("thread-local: %ld %d\n", (long)result, local);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 16384);
  start(&thread, &small, starts_more, (void *)1L);
  pthread_join(thread, &result);
  printf("small stack: %ld\n", (long)result);

  char *begin = sbrk(0);
  char *grown = sbrk(1 << 20);
  memset(grown, 7, 1 << 20);
  void *blocks[64];
  for (int i = 0; i < 64; i++) blocks[i] = malloc(3000 + i);
  printf("brk: %d %d\n", grown == begin, grown[12345]);
  for (int i = 0; i < 64; i++) free(blocks[i]);
  sbrk(-(1 << 20));
  printf("brk again: %d\n", *(char *)sbrk(4096));

  unsigned char code[] = {0xB8, 39, 0, 0, 0, 0x0F, 0x05, 0xC3};
  unsigned char *made = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(made, code, sizeof code);
  int first = ((int (*)(void))made)() == getpid();
  made[1] = 110; // getppid
  int second = ((int (*)(void))made)() == getppid();
  printf("made at run time: %d %d %d\n", first, second, ((int (*)(void))made)() == getppid());
  mprotect(made, 4096, PROT_READ | PROT_EXEC);
  printf("and fixed: %d\n", ((int (*)(void))made)() == getppid());

  errno = 0;
  long wild = syscall(0x7fffffff);
  printf("a wild number: %ld %s\n", wild, strerrorname_np(errno));

  pid_t child = vfork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "exit 9", (char *)0);
    _exit(1);
  }
  int status;
  waitpid(child, &status, 0);
  printf("vfork and exec: %d\n", WEXITSTATUS(status));
  start(&thread, 0, starts_more, (void *)0L);
  child = fork();
  if (child == 0) {
    start(&thread, 0, starts_more, (void *)2L);
    pthread_join(thread, &result);
    _exit((int)(long)result);
  }
  waitpid(child, &status, 0);
  printf("threads of a child: %d\n", WEXITSTATUS(status));
  pthread_join(thread, 0);
  return 0;
}
