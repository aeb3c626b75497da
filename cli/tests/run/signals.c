// Signals: masks that hide SIGSYS, calls that are interrupted or repeated, stacks, jumps.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile sig_atomic_t seen, depth;
static int pipe_fds[2];
static sigjmp_buf out;
static char stack[64 * 1024];
static volatile int on_stack;

static void note(int signal) { seen++; (void)signal; }
static void note_place(int signal) { char here; on_stack = &here >= stack && &here < stack + sizeof stack; seen++; (void)signal; }
// With SS_AUTODISARM, a handler may leave its stack, and find it disabled.
static volatile unsigned flags_within, set_within;
static void note_disarmed(int signal) {
  stack_t now = {0};
  note_place(signal);
  set_within = sigaltstack(0, &now) == 0 && sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, 0) == 0;
  flags_within = now.ss_flags;
}
// Which alternate stack there is, and what a handler finds and leaves in its context.
static const struct { const char *what; size_t size; int flags; } wanted[] = {
  {"disabled", 999, SS_DISABLE}, {"disabled and used", sizeof stack, SS_DISABLE | SS_ONSTACK}, {"used", sizeof stack, SS_ONSTACK},
  {"small", 100, 0}, {"odd", sizeof stack, 16}, {"half", sizeof stack / 2, 0},
};
enum { WANTED = sizeof wanted / sizeof *wanted };
static void show_stack(const char *what, long result, const stack_t *is) {
  printf("  %s: %ld, at %td, size %zu, flags %x\n", what, result, is->ss_sp ? (char *)is->ss_sp - stack : -1, is->ss_size, is->ss_flags);
}
static int change;
static void change_stack(int signal, siginfo_t *info, void *at) {
  ucontext_t *context = at;
  (void)signal, (void)info;
  show_stack("context", 0, &context->uc_stack);
  context->uc_stack = (stack_t){stack, wanted[change].flags, wanted[change].size};
}
static void stacks(void) {
  stack_t now;
  for (int i = 0; i < WANTED; i++) {
    long result = sigaltstack(&(stack_t){stack, wanted[i].flags, wanted[i].size}, 0);
    sigaltstack(0, &now);
    show_stack(wanted[i].what, result, &now);
  }
  for (int i = 0; i < WANTED * 4; i++) {
    change = i / 4;
    sigaltstack(&(stack_t){stack, i & 1 ? 1u << 31 : 0, sizeof stack}, 0);
    struct sigaction action = {.sa_sigaction = change_stack, .sa_flags = SA_SIGINFO | (i & 2 ? SA_ONSTACK : 0)};
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    sigaltstack(0, &now);
    show_stack(wanted[change].what, i & 3, &now);
  }
}
static volatile int wrong_masks;
static void note_mask(int signal) {
  sigset_t now;
  seen++;
  sigprocmask(SIG_BLOCK, 0, &now);
  wrong_masks += sigismember(&now, SIGUSR2) || !sigismember(&now, signal);
}
static void jump(int signal) { siglongjmp(out, signal); }
static void refill(int signal) { seen++; (void)signal; if (write(pipe_fds[1], "x", 1) != 1) abort(); }
static void nested(int signal) { if (depth++ == 0) raise(signal); if (getpid() <= 0) abort(); seen++; }

static void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigfillset(&action.sa_mask);
  if (flags & SA_NODEFER) sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, 0)) perror("sigaction");
}
static void after(int milliseconds) {
  struct itimerval timer = {{0, 0}, {0, milliseconds * 1000}};
  setitimer(ITIMER_REAL, &timer, 0);
}
static void show(const char *what, long result) {
  printf("%s: %ld%s%s, %d handlers\n", what, result, result < 0 ? " " : "", result < 0 ? strerrorname_np(errno) : "", (int)seen);
  seen = 0;
}
static void *reads_forever(void *unused) {
  char byte;
  (void)unused;
  if (read(pipe_fds[0], &byte, 1) == 1) puts("read a byte");
  return 0;
}

int main(void) {
  setvbuf(stdout, 0, _IONBF, 0);
  if (pipe(pipe_fds)) return 1;
  char byte;
  sigset_t all, none, old;
  sigfillset(&all);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &all, &old);
  struct timespec now;
  clock_getres(CLOCK_MONOTONIC, &now);
  printf("SIGSYS is %s\n", sigismember(&all, SIGSYS) ? "in the set" : "not in the set");
  signal(SIGSYS, SIG_DFL);
  printf("%d\n", access("/", F_OK));
  signal(SIGSYS, SIG_IGN);
  printf("%d\n", access("/tmp", F_OK));
  sigprocmask(SIG_SETMASK, &old, 0);

  handle(SIGALRM, note, 0);
  after(100);
  show("read", read(pipe_fds[0], &byte, 1));
  handle(SIGALRM, refill, SA_RESTART);
  after(100);
  show("read with SA_RESTART", read(pipe_fds[0], &byte, 1));
  handle(SIGALRM, note, SA_RESTART);
  after(100);
  struct pollfd polled = {pipe_fds[0], POLLIN, 0};
  show("poll", poll(&polled, 1, 2000));
  after(100);
  struct timespec second = {1, 0};
  show("nanosleep", nanosleep(&second, 0));
  after(100);
  show("pause", pause());

  // The handler runs with the mask of the wait alone.
  sigset_t alarm_set;
  sigemptyset(&alarm_set);
  sigaddset(&alarm_set, SIGALRM);
  sigprocmask(SIG_BLOCK, &alarm_set, 0);
  after(100);
  show("sigsuspend", sigsuspend(&none));
  raise(SIGALRM);
  show("raise, blocked", 0);
  struct timespec long_time = {2, 0};
  show("ppoll", ppoll(&polled, 1, &long_time, &none));
  after(100);
  fd_set set;
  FD_ZERO(&set);
  FD_SET(pipe_fds[0], &set);
  show("pselect", pselect(pipe_fds[0] + 1, &set, 0, 0, &long_time, &none));
  after(100);
  int number = sigtimedwait(&alarm_set, 0, &long_time);
  show("sigtimedwait", number);
  sigprocmask(SIG_UNBLOCK, &alarm_set, 0);

  stack_t alternate = {stack, 0, sizeof stack}, before;
  show("sigaltstack", sigaltstack(&alternate, &before));
  printf("before: %d\n", before.ss_flags);
  handle(SIGUSR1, note_place, SA_ONSTACK);
  raise(SIGUSR1);
  printf("on the alternate stack: %d\n", on_stack);
  handle(SIGUSR1, note_place, 0);
  raise(SIGUSR1);
  printf("on the alternate stack: %d\n", on_stack);
  sigaltstack(0, &before);
  printf("flags: %d\n", before.ss_flags);
  alternate.ss_flags = 1u << 31;
  sigaltstack(&alternate, 0);
  sigaltstack(0, &before);
  handle(SIGUSR1, note_disarmed, SA_ONSTACK);
  raise(SIGUSR1);
  printf("flags: %x, %x in the handler, changed there %d, on the stack %d\n", before.ss_flags, flags_within, set_within, on_stack);
  sigaltstack(0, &before);
  printf("flags: %x\n", before.ss_flags);
  stacks();
  alternate.ss_flags = 0;
  sigaltstack(&alternate, 0);
  handle(SIGUSR1, note_place, 0);
  seen = 0;

  handle(SIGUSR2, nested, SA_NODEFER);
  raise(SIGUSR2);
  show("nested", depth);
  handle(SIGUSR2, note, SA_RESETHAND);
  raise(SIGUSR2);
  struct sigaction action;
  sigaction(SIGUSR2, 0, &action);
  show("reset", action.sa_handler == SIG_DFL);

  for (int round = 0; round < 20; round++) {
    handle(SIGALRM, jump, 0);
    if (sigsetjmp(out, 1) == 0) {
      after(40);
      read(pipe_fds[0], &byte, 1);
      puts("not interrupted");
    }
  }
  sigprocmask(SIG_SETMASK, 0, &old);
  printf("blocked after the jumps: %d\n", sigismember(&old, SIGALRM));
  // Nothing stays locked: the pipe works.
  show("write", write(pipe_fds[1], "y", 1));
  show("read", read(pipe_fds[0], &byte, 1));

  pthread_t thread;
  void *result;
  pthread_create(&thread, 0, reads_forever, 0);
  usleep(20000);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  printf("cancelled: %d\n", result == PTHREAD_CANCELED);
  show("write", write(pipe_fds[1], "z", 1));
  show("read", read(pipe_fds[0], &byte, 1));

  // A fault has the guest's handler.
  handle(SIGSEGV, jump, SA_NODEFER);
  if (sigsetjmp(out, 1) == 0) *(volatile char *)0 = 1;
  puts("a null pointer faults");
  errno = 0;
  show("write from nowhere", write(pipe_fds[1], (void *)16, 4));

  // Signals at any instruction.
  handle(SIGALRM, note, SA_RESTART);
  struct itimerval often = {{0, 150}, {0, 150}};
  setitimer(ITIMER_REAL, &often, 0);
  int bad = 0;
  for (int i = 0; i < 100000; i++) {
    if (write(pipe_fds[1], "a", 1) != 1 || read(pipe_fds[0], &byte, 1) != 1 || byte != 'a') bad++;
    if (i % 16 == 0 && getppid() <= 0) bad++;
  }
  struct itimerval off = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &off, 0);
  printf("under fire: %d bad, %s\n", bad, seen > 5 ? "many handlers" : "few handlers");
  seen = 0;

  // Calls that do not wait never fail for a signal.
  handle(SIGALRM, note, 0);
  setitimer(ITIMER_REAL, &often, 0);
  bad = 0;
  int word = 0;
  for (int i = 0; i < 20000; i++) {
    bad += syscall(SYS_getpid) < 0;
    bad += syscall(SYS_sched_yield) < 0;
    bad += syscall(SYS_futex, &word, 1, 1, 0, 0, 0) < 0;
    int fd = open("/dev/null", O_RDONLY);
    bad += fd < 0 || close(fd) < 0;
    // Nor does a transfer that finds what it wants.
    bad += write(pipe_fds[1], "a", 1) != 1 || read(pipe_fds[0], &byte, 1) != 1;
  }
  setitimer(ITIMER_REAL, &off, 0);
  printf("calls that do not wait: %d bad, %s\n", bad, seen > 5 ? "many handlers" : "few handlers");
  seen = 0;

  // A storm of signals of faults, from another process: each thread of the runner may get them.
  handle(SIGFPE, note, SA_RESTART);
  pid_t parent = getpid(), sender = fork();
  if (sender == 0) {
    while (getppid() == parent) kill(parent, SIGFPE);
    _exit(0);
  }
  while (seen < 2000) sched_yield();
  kill(sender, SIGKILL);
  while (waitpid(sender, 0, 0) < 0) {}
  printf("storm: %s\n", seen > 5 ? "many handlers" : "few handlers");
  seen = 0;

  // Signals of faults that are sent.
  handle(SIGSEGV, note, 0);
  show("raise SIGSEGV", raise(SIGSEGV));
  handle(SIGFPE, note, 0);
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  sigaddset(&faults, SIGFPE);
  sigprocmask(SIG_BLOCK, &faults, &old);
  raise(SIGSEGV);
  raise(SIGFPE);
  show("blocked", 0);
  sigprocmask(SIG_SETMASK, &old, 0);
  show("unblocked", 0);

  // While the program blocks them they stay pending, whoever has sent them.
  struct timespec at_once = {0, 0};
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &old);
  const int of_faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
  for (int i = 0; i < 10; i++) {
    signal(of_faults[i % 5], SIG_DFL);
    sigset_t pending, only;
    sigemptyset(&only);
    sigaddset(&only, of_faults[i % 5]);
    pid_t self = getpid(), other = i < 5 ? fork() : -1;
    if (other == 0) {
      kill(self, of_faults[i % 5]);
      _exit(0);
    }
    if (other < 0) kill(self, of_faults[i % 5]);
    else waitpid(other, 0, 0);
    sigpending(&pending);
    printf("signal %d: pending %d, ", of_faults[i % 5], sigismember(&pending, of_faults[i % 5]));
    show("taken", sigtimedwait(&only, 0, &at_once));
  }
  handle(SIGSEGV, note, 0);
  handle(SIGFPE, note, 0);
  sigprocmask(SIG_SETMASK, &old, 0);

  // Nor does one that is blocked hide a bad address, and a fault of the program ends it.
  void *nowhere = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sigprocmask(SIG_SETMASK, &all, &old);
  show("write from nowhere, blocked", write(pipe_fds[1], nowhere, 4));
  for (int i = 0; i < 3; i++) {
    pid_t faults_in = fork();
    if (faults_in == 0) {
      if (i == 1) sigprocmask(SIG_SETMASK, &old, 0), signal(SIGSEGV, SIG_IGN);
      if (i == 2) sigdelset(&all, SIGBUS), sigprocmask(SIG_SETMASK, &all, 0);
      *(volatile char *)nowhere = 1;
      _exit(1);
    }
    int status;
    while (waitpid(faults_in, &status, 0) < 0) {}
    printf("a fault: %x\n", status & 0x7f);
  }
  sigprocmask(SIG_SETMASK, &old, 0);

  // A mask that lets in what is pending ends a wait without a time. With events it does not.
  sigemptyset(&none);
  sigemptyset(&all);
  sigaddset(&all, SIGUSR1);
  sigprocmask(SIG_BLOCK, &all, &old);
  handle(SIGUSR1, note, 0);
  struct pollfd empty = {pipe_fds[0], POLLIN, 0};
  raise(SIGUSR1);
  show("ppoll of nothing", ppoll(&empty, 1, &at_once, &none));
  raise(SIGSEGV);
  sigaddset(&none, SIGUSR1);
  show("ppoll without a signal", ppoll(&empty, 1, &at_once, &none));
  sigprocmask(SIG_SETMASK, &old, 0);

  // A wait with a mask ends with EINTR only if a handler has run, and leaves the mask as it was.
  static const int sent_often[] = {SIGFPE, SIGUSR1, SIGSYS};
  int events = epoll_create1(0);
  for (int i = 0; i < 24; i++) {
    int number = sent_often[i % 3], call = i / 3 % 4, is_blocked = i < 12;
    sigset_t only, before, after;
    sigemptyset(&only);
    sigemptyset(&none);
    sigaddset(&only, number);
    struct sigaction action = {.sa_handler = note_mask};
    sigaction(number, &action, 0);
    wrong_masks = 0;
    sigprocmask(SIG_BLOCK, is_blocked ? &only : &none, &old);
    sigprocmask(SIG_BLOCK, 0, &before);
    sender = fork();
    if (sender == 0) {
      while (getppid() == parent) kill(parent, number), sched_yield();
      _exit(0);
    }
    int ended = 0, bad = 0;
    for (int j = 0; j < 1000 || ended < 50; j++) {
      int was = seen;
      struct timespec short_time = {0, j % 2 * 100000};
      struct epoll_event event;
      FD_ZERO(&set);
      FD_SET(pipe_fds[0], &set);
      int result = call == 0 ? ppoll(&empty, 1, &short_time, &none)
        : call == 1 ? pselect(pipe_fds[0] + 1, &set, 0, 0, &short_time, &none)
        : call == 2 ? epoll_pwait(events, &event, 1, j % 2, &none)
        : sigsuspend(&none);
      int interrupted = result < 0 && errno == EINTR;
      ended += interrupted;
      sigprocmask(SIG_BLOCK, 0, &after);
      bad += interrupted && seen == was || is_blocked && !interrupted && seen > was || memcmp(&before, &after, 8);
    }
    kill(sender, SIGKILL);
    waitpid(sender, 0, 0);
    struct timespec at_once = {0, 0};
    if (is_blocked) sigtimedwait(&only, 0, &at_once);
    sigprocmask(SIG_SETMASK, &old, 0);
    printf("call %d, signal %d, blocked %d: %d bad, %d wrong masks\n", call, number, is_blocked, bad, wrong_masks);
  }
  seen = 0;

  // A signal for the process stays for other threads if it arrives while one blocks it.
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGUSR1);
  handle(SIGUSR1, note, 0);
  sigprocmask(SIG_BLOCK, 0, &old);
  sender = fork();
  if (sender == 0) {
    for (unsigned i = 0; getppid() == parent; i++) {
      for (volatile int spin = i * 7919 % 20000; spin > 0; spin--) {}
      kill(parent, SIGUSR1);
    }
    _exit(0);
  }
  int for_thread = 0;
  for (int i = 0; i < 500 || seen < 100; i++) {
    static char status[4096];
    for (int j = 0; j < 5; j++) sigprocmask(j % 2 ? SIG_UNBLOCK : SIG_BLOCK, &only, 0);
    int fd = open("/proc/thread-self/status", O_RDONLY);
    ssize_t size = read(fd, status, sizeof status - 1);
    close(fd);
    status[size < 0 ? 0 : size] = 0;
    char *own = strstr(status, "SigPnd:");
    for_thread += own && strtoull(own + 7, 0, 16) != 0;
  }
  kill(sender, SIGKILL);
  while (waitpid(sender, 0, 0) < 0) {}
  sigprocmask(SIG_SETMASK, &old, 0);
  printf("pending for the thread alone: %d\n", for_thread);
  seen = 0;

  // A socket with a timeout is not read again.
  int ends[2];
  struct timeval timeout = {1, 0};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout)) return 1;
  handle(SIGALRM, note, SA_RESTART);
  after(100);
  show("recv with a timeout", recv(ends[0], &byte, 1, 0));
  after(100);
  show("read with a timeout", read(ends[0], &byte, 1));

  pid_t child = fork();
  if (child == 0) {
    signal(SIGBUS, SIG_DFL);
    raise(SIGBUS);
    _exit(0);
  }
  int ended;
  waitpid(child, &ended, 0);
  printf("ended by its own SIGBUS: %d\n", WIFSIGNALED(ended) && WTERMSIG(ended) == SIGBUS);
  child = fork();
  if (child == 0) {
    raise(SIGALRM);
    _exit(seen);
  }
  int status;
  waitpid(child, &status, 0);
  printf("child: %d\n", WEXITSTATUS(status));
  handle(SIGCHLD, note, SA_RESTART);
  sigaddset(&all, SIGCHLD);
  sigprocmask(SIG_BLOCK, &all, &old);
  if (fork() == 0) _exit(7);
  while (!seen) sigsuspend(&old);
  sigprocmask(SIG_SETMASK, &old, 0);
  show("wait", wait(&status) > 0);
  fflush(stdout);
  signal(SIGTERM, SIG_DFL);
  raise(SIGTERM);
}
