// Signals for the process that arrive while it executes a program, and while threads end: each one
// runs its handler in the old program, or is pending in the new one. On the host a thread may end
// after it has taken a signal, and before the handler begins: it loses some of them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

// Of all processes: a file, so that it survives a program. At a fixed address, so that the first
// instruction of the handler counts.
struct shared { atomic_int seen, ready, sent; } *const shared = (struct shared *)0x60000000;
void note(int signal);
__asm__(".text\nnote: lock incl 0x60000000\nret\n");
static const char *myself;
static volatile int forever = 1;

static void change(int how, int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(how, &set, 0);
}
static int is_pending(int signal) {
  sigset_t set;
  sigpending(&set);
  return sigismember(&set, signal);
}
static void execute(int signal, const char *stage) {
  char number[20];
  sprintf(number, "%d", signal);
  execl(myself, myself, stage, number, (char *)0);
  abort();
}

static int of_round;
static atomic_int started;
static void *spins(void *unused) { change(SIG_UNBLOCK, of_round); started++; while (forever) {} return unused; }
static void *calls(void *unused) {
  change(SIG_UNBLOCK, of_round);
  started++;
  for (;;) if (syscall(SYS_getpid) != getpid()) abort();
  return unused;
}
static void *pauses(void *unused) { change(SIG_UNBLOCK, of_round); started++; for (;;) pause(); return unused; }
static void skip(int signal, siginfo_t *info, void *context) {
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
  (void)signal, (void)info;
}
static void *faults(void *unused) { for (;; started++) __asm__ volatile("ud2"); return unused; }
static void *executes(void *unused) { execute(of_round, "storm"); return unused; }
static void *executes_with_pending(void *unused) {
  raise(of_round);
  execute(of_round, "of the caller");
  return unused;
}
static pthread_t start(void *(*body)(void *)) {
  pthread_t thread;
  if (pthread_create(&thread, 0, body, 0)) abort();
  return thread;
}

// While threads run that let it in, and one executes a program that blocks it.
static void storm(int signal, int rounds) {
  int lost = 0, wrong = 0;
  for (int round = 0; round < rounds; round++) {
    shared->ready = shared->sent = shared->seen = 0;
    pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(60);
      of_round = signal;
      struct sigaction action = {.sa_handler = note};
      sigaction(signal, &action, 0);
      change(SIG_BLOCK, signal);
      start(spins);
      start(calls);
      start(pauses);
      while (started < 3) sched_yield();
      shared->ready = 1;
      for (volatile int spin = round * 7919 % 30000; spin > 0; spin--) {}
      if (round % 2) start(executes);
      else execute(signal, "storm");
      for (;;) pause();
    }
    while (!shared->ready) sched_yield();
    for (volatile int spin = round * 6047 % 400000; spin > 0; spin--) {}
    kill(child, signal);
    shared->sent = 1;
    int status;
    waitpid(child, &status, 0);
    lost += WIFEXITED(status) && WEXITSTATUS(status) == 1;
    wrong += !WIFEXITED(status) || WEXITSTATUS(status) > 1;
  }
  if (lost || wrong) printf("signal %d: %d lost, %d wrong\n", signal, lost, wrong);
}

// The C library blocks all signals before it ends a thread.
static void *ends(void *unused) { change(SIG_UNBLOCK, SIGRTMIN); syscall(SYS_exit, 0); return unused; }

int main(int count, char **words) {
  setvbuf(stdout, 0, _IONBF, 0);
  myself = words[0];
  int fd = open("shared", O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *shared)) return 9;
  if (mmap(shared, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) != shared) return 9;
  close(fd);
  if (count > 2) {
    int signal = atoi(words[2]);
    if (strcmp(words[1], "beside faults") == 0) return 0;
    if (strcmp(words[1], "storm")) {
      if (!is_pending(signal)) printf("%s: signal %d is not pending\n", words[1], signal);
      return is_pending(signal) ? 0 : 1;
    }
    while (!shared->sent) sched_yield();
    return shared->seen == 0 && !is_pending(signal);
  }
  const int storms[] = {SIGUSR1, SIGSEGV, SIGSYS};
  for (int i = 0; i < 3; i++) storm(storms[i], 10);

  // A fault of a thread that ends is not for the next program.
  int ended_by_fault = 0;
  for (int round = 0; round < 30; round++) {
    pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(60);
      struct sigaction action = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO};
      sigaction(SIGILL, &action, 0);
      for (int i = 0; i < 4; i++) start(faults);
      while (started < 100) sched_yield();
      for (volatile int spin = round * 997 % 20000; spin > 0; spin--) {}
      execute(SIGILL, "beside faults");
    }
    int status;
    waitpid(child, &status, 0);
    ended_by_fault += status != 0;
  }
  if (ended_by_fault) printf("beside faults: %d programs ended\n", ended_by_fault);

  // What is pending when a program begins.
  const int pending[] = {SIGUSR1, SIGCHLD, SIGURG, SIGFPE, SIGSYS};
  for (int i = 0; i < 15; i++) {
    pid_t child = fork();
    if (child == 0) {
      of_round = pending[i / 3];
      struct sigaction action = {.sa_handler = note};
      sigaction(of_round, &action, 0);
      change(SIG_BLOCK, of_round);
      if (i % 3 == 0) raise(of_round), execute(of_round, "of the thread");
      if (i % 3 == 1) kill(getpid(), of_round), execute(of_round, "of the process");
      start(executes_with_pending);
      for (;;) pause();
    }
    int status;
    waitpid(child, &status, 0);
    if (status) printf("pending signal %d: status %d\n", pending[i / 3], status);
  }

  // While threads end. The host queues each of them.
  shared->seen = 0;
  struct sigaction action = {.sa_handler = note};
  sigaction(SIGRTMIN, &action, 0);
  change(SIG_BLOCK, SIGRTMIN);
  pid_t parent = getpid(), child = fork();
  enum { SENT = 3000 };
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    union sigval value = {0};
    for (int i = 0; i < SENT; i++) {
      for (volatile int spin = i * 7919 % 50000; spin > 0; spin--) {}
      while (sigqueue(parent, SIGRTMIN, value)) usleep(100);
    }
    _exit(0);
  }
  while (waitpid(child, 0, WNOHANG) == 0) {
    pthread_t all[4];
    for (int i = 0; i < 4; i++) all[i] = start(ends);
    for (int i = 0; i < 4; i++) pthread_join(all[i], 0);
  }
  change(SIG_UNBLOCK, SIGRTMIN);
  if (shared->seen != SENT) printf("threads that end: %d of %d lost\n", SENT - shared->seen, SENT);
  puts("done");
  return 0;
}
