// The leak check of the sanitizers, beside threads in and outside of calls. To be compiled with
// -fsanitize=address.
#define _GNU_SOURCE
#include <alloca.h>
#include <poll.h>
#include <pthread.h>
#include <sanitizer/lsan_interface.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[2];
static atomic_int started, stop;

// Each has a block of its own, which its stack alone leads to.
static void *reads(void *unused) {
  char *volatile block = malloc(101), byte;
  started++;
  while (read(ends[0], &byte, 1) != 1) {}
  free(block);
  return unused;
}
static void *polls(void *unused) {
  char *volatile block = malloc(102);
  struct pollfd end = {ends[0], POLLIN};
  started++;
  while (!stop) poll(&end, 1, 10);
  free(block);
  return unused;
}
static void *spins(void *unused) {
  char *volatile block = malloc(103);
  started++;
  while (!stop) {}
  free(block);
  return unused;
}
static void *calls(void *unused) {
  char *volatile block = malloc(104);
  int own[2];
  char byte = 0;
  if (pipe(own)) abort();
  started++;
  while (!stop) {
    if (write(own[1], &byte, 1) != 1 || read(own[0], &byte, 1) != 1) abort();
    if (syscall(SYS_getpid) != getpid()) abort();
  }
  free(block);
  return unused;
}
static void *maps(void *unused) {
  started++;
  while (!stop) free(malloc(1 << 20));
  return unused;
}
static void *(*const bodies[])(void *) = {reads, polls, spins, calls, maps};
enum { BODIES = sizeof bodies / sizeof *bodies };

__attribute__((noinline)) static void lose(size_t size) { *(void *volatile *)alloca(8) = malloc(size); }
__attribute__((noinline)) static void wipe(void) { char volatile stack[4096]; for (unsigned i = 0; i < sizeof stack; i++) stack[i] = 0; }

int main(void) {
  setvbuf(stdout, 0, _IONBF, 0);
  pthread_t threads[BODIES];
  if (pipe(ends)) return 9;
  for (int i = 0; i < BODIES; i++) if (pthread_create(&threads[i], 0, bodies[i], 0)) return 9;
  while (started < BODIES) sched_yield();
  for (int i = 0; i < 20; i++) {
    int found = __lsan_do_recoverable_leak_check();
    if (found) printf("check %d: %d\n", i, found);
  }
  puts("checked");
  pid_t child = fork();
  if (child == 0) exit(0);
  int status;
  waitpid(child, &status, 0);
  printf("a child: %x\n", status);
  stop = 1;
  if (write(ends[1], "x", 1) != 1) return 9;
  for (int i = 0; i < BODIES; i++) pthread_join(threads[i], 0);
  lose(105);
  wipe();
  printf("a leak: %d\n", __lsan_do_recoverable_leak_check());
  return 0;
}
