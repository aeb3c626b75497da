// SIGSYS, SIGSTKFLT and signals of faults, which the runner uses itself: sent by the program, by its
// threads and by other processes; handled, blocked, waited for, ignored.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile sig_atomic_t seen, code, value, was_blocked, depth, by_self, on_thread;
static sigjmp_buf out;
static const int kept[] = {SIGSYS, SIGSTKFLT, SIGSEGV, SIGTRAP};

static void note(int signal, siginfo_t *info, void *context) {
  sigset_t now;
  seen++;
  code = info->si_code;
  value = info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
  by_self = info->si_pid == getpid() && info->si_signo == signal && info->si_uid == getuid();
  on_thread = gettid() != getpid();
  sigprocmask(SIG_BLOCK, 0, &now);
  was_blocked = sigismember(&now, signal) + 2 * sigismember(&((ucontext_t *)context)->uc_sigmask, signal);
}
static void nested(int signal, siginfo_t *info, void *context) { if (depth++ == 0) { raise(signal); printf("in the handler: %d\n", depth); } (void)info, (void)context; }
static void jump(int signal, siginfo_t *info, void *context) { siglongjmp(out, signal); (void)info, (void)context; }
static void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
  if (sigaction(signal, &action, 0)) perror("sigaction");
}
static void show(const char *what, long result) {
  printf("  %s: %ld%s%s, %d handlers, code %d, value %d, by itself %d, blocked %d, on a thread %d\n", what, result, result < 0 ? " " : "", result < 0 ? strerrorname_np(errno) : "", (int)seen, (int)code, (int)value, (int)by_self, (int)was_blocked, (int)on_thread);
  seen = code = value = by_self = was_blocked = on_thread = 0;
}
static void change(int how, int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(how, &set, 0);
}
// Sends a signal from another process after some milliseconds.
static pid_t later(int signal, int milliseconds, int times) {
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < times; i++) {
      struct timespec time = {0, milliseconds * 1000000 + 100000};
      nanosleep(&time, 0);
      kill(parent, signal);
    }
    _exit(0);
  }
  return child;
}
// Sends a signal from another process again and again, until that is killed.
static pid_t often(int signal, int microseconds) {
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent) {
      kill(parent, signal);
      usleep(microseconds);
    }
    _exit(0);
  }
  return child;
}
static void ended(pid_t child) { while (waitpid(child, 0, 0) < 0 && errno == EINTR) {} }

static atomic_int ready, stop, taken;
static void *spins(void *unused) { ready = 1; while (!stop) {} return unused; }
static void *takes(void *signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, (int)(long)signal);
  ready = 1;
  int got;
  sigwait(&set, &got);
  taken = got;
  return 0;
}
static void *empty(void *unused) { return unused; }
static void *pauses(void *signal) {
  change(SIG_UNBLOCK, (int)(long)signal);
  ready = 1;
  while (!stop) pause();
  return 0;
}
static void *starts(void *count) {
  for (long i = 0; i < (long)count; i++) {
    pthread_t thread;
    if (pthread_create(&thread, 0, empty, 0)) exit(1);
    pthread_join(thread, 0);
  }
  return 0;
}
static void *reads(void *end) {
  char byte;
  ready = 1;
  long result = read((int)(long)end, &byte, 1);
  return (void *)(result < 0 ? -(long)errno : result);
}
static pthread_t start(void *(*body)(void *), long argument) {
  pthread_t thread;
  ready = stop = taken = 0;
  if (pthread_create(&thread, 0, body, (void *)argument)) exit(1);
  while (!ready) sched_yield();
  usleep(10000);
  return thread;
}

static void check(int signal) {
  int ends[2];
  char byte;
  if (pipe(ends)) exit(1);
  printf("signal %d\n", signal);
  handle(signal, note, 0);
  show("raise", raise(signal));
  show("kill", kill(getpid(), signal));
  union sigval number = {.sival_int = 42};
  show("sigqueue", sigqueue(getpid(), signal, number));
  show("pthread_kill", pthread_kill(pthread_self(), signal));
  show("pthread_sigqueue", pthread_sigqueue(pthread_self(), signal, number));
  show("no thread", syscall(SYS_tgkill, getpid(), 1 << 22, signal));

  change(SIG_BLOCK, signal);
  raise(signal);
  raise(signal);
  kill(getpid(), signal);
  sigset_t set, none, only;
  sigpending(&set);
  show("blocked", sigismember(&set, signal));
  change(SIG_UNBLOCK, signal);
  // For the thread, and for the process.
  show("unblocked", 0);
  sigpending(&set);
  show("pending", sigismember(&set, signal));

  sigemptyset(&none);
  sigemptyset(&only);
  sigaddset(&only, signal);
  siginfo_t info;
  struct timespec soon = {0, 20000000}, second = {5, 0}, at_once = {0, 0};
  change(SIG_BLOCK, signal);
  show("sigtimedwait of nothing", sigtimedwait(&only, &info, &soon));
  show("sigtimedwait at once", sigtimedwait(&only, &info, &at_once));
  sigqueue(getpid(), signal, number);
  show("sigtimedwait", sigtimedwait(&only, &info, &second));
  printf("  %d %d %d\n", info.si_code, info.si_value.sival_int, info.si_pid == getpid());
  pid_t child = later(signal, 20, 1);
  show("sigwaitinfo", sigwaitinfo(&only, &info));
  printf("  %d %d\n", info.si_code, info.si_pid == child);
  ended(child);
  child = later(SIGALRM, 20, 1);
  handle(SIGALRM, note, SA_RESTART);
  show("sigtimedwait and another one", sigtimedwait(&only, 0, &second));
  ended(child);
  raise(signal);
  show("sigsuspend", sigsuspend(&none));
  child = later(signal, 20, 1);
  show("sigsuspend and another process", sigsuspend(&none));
  ended(child);
  struct pollfd end = {ends[0], POLLIN};
  raise(signal);
  show("ppoll", ppoll(&end, 1, &second, &none));
  child = later(signal, 20, 1);
  show("ppoll and another process", ppoll(&end, 1, &second, &none));
  ended(child);

  // One that is blocked does not prolong a sleep.
  struct timespec tenth = {0, 100000000};
  int word = 0, events = epoll_create1(0);
  struct epoll_event event;
  for (int call = 0; call < 5; call++) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    child = later(signal, 20, 100);
    long result = call == 0 ? nanosleep(&tenth, 0)
      : call == 1 ? clock_nanosleep(CLOCK_MONOTONIC, 0, &tenth, 0)
      : call == 2 ? poll(&end, 1, 100)
      : call == 3 ? epoll_wait(events, &event, 1, 100)
      : syscall(SYS_futex, &word, FUTEX_WAIT, 0, &tenth, 0, 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    kill(child, SIGKILL);
    ended(child);
    long passed = (now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000;
    printf("  %d, %s: ", call, passed >= 99 && passed < 1500 ? "in time" : "not in time");
    show("sleep", result);
  }
  close(events);
  sigtimedwait(&only, 0, &at_once);
  change(SIG_UNBLOCK, signal);

  child = later(signal, 20, 1);
  show("read", read(ends[0], &byte, 1));
  ended(child);
  child = later(signal, 20, 1);
  while (!seen) {}
  show("while it computes", 0);
  ended(child);
  child = later(signal, 20, 1);
  show("nanosleep", nanosleep(&second, 0));
  ended(child);

  depth = 0;
  handle(signal, nested, 0);
  raise(signal);
  printf("  nested: %d\n", depth);
  depth = 0;
  handle(signal, nested, SA_NODEFER);
  raise(signal);
  printf("  nested, not blocked: %d\n", depth);
  for (int i = 0; i < 10; i++) {
    handle(signal, jump, 0);
    if (sigsetjmp(out, 1) == 0) raise(signal), puts("  not there");
    if (sigsetjmp(out, 1) == 0) { child = later(signal, 100, 1); for (;;) read(ends[0], &byte, 1); }
    ended(child);
  }
  sigprocmask(SIG_BLOCK, 0, &set);
  printf("  blocked after the jumps: %d\n", sigismember(&set, signal));
  handle(signal, note, SA_RESETHAND);
  raise(signal);
  struct sigaction action;
  sigaction(signal, 0, &action);
  show("reset", action.sa_handler == SIG_DFL);

  // Threads.
  handle(signal, note, SA_RESTART);
  pthread_t thread = start(spins, 0);
  pthread_kill(thread, signal);
  while (!seen) sched_yield();
  stop = 1;
  pthread_join(thread, 0);
  show("a thread that computes", 0);
  handle(signal, note, 0);
  thread = start(reads, ends[0]);
  pthread_kill(thread, signal);
  void *result;
  pthread_join(thread, &result);
  show("a thread that reads", (long)result == -EINTR);
  change(SIG_BLOCK, signal);
  thread = start(takes, signal);
  kill(getpid(), signal);
  pthread_join(thread, 0);
  show("a thread that waits", taken == signal);
  thread = start(takes, signal);
  child = later(signal, 20, 1);
  pthread_join(thread, 0);
  ended(child);
  show("a thread that waits, and another process", taken == signal);
  thread = start(spins, 0);
  change(SIG_UNBLOCK, signal);
  raise(signal);
  show("beside a thread that blocks it", 0);
  pthread_kill(thread, signal);
  stop = 1;
  pthread_join(thread, 0);
  show("it ends with it", 0);

  // For the only thread that lets it in, while others begin and end.
  change(SIG_BLOCK, signal);
  handle(signal, note, 0);
  thread = start(pauses, signal);
  pthread_t starter;
  int late = 0;
  pthread_create(&starter, 0, starts, (void *)2000L);
  for (int i = 0; i < 1000 && !late; i++) {
    int before = seen;
    struct timespec begin, now;
    for (volatile int spin = i * 7919 % 20000; spin > 0; spin--) {}
    kill(getpid(), signal);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (seen == before && !late) {
      sched_yield();
      clock_gettime(CLOCK_MONOTONIC, &now);
      late = now.tv_sec - begin.tv_sec > 5;
    }
  }
  stop = 1;
  while (pthread_tryjoin_np(thread, 0)) {
    pthread_kill(thread, signal);
    usleep(1000);
  }
  pthread_join(starter, 0);
  sigtimedwait(&only, 0, &at_once);
  change(SIG_UNBLOCK, signal);
  printf("  late: %d\n", late);
  seen = code = value = by_self = was_blocked = on_thread = 0;

  // Ignored, and the default.
  change(SIG_BLOCK, signal);
  raise(signal);
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  sigaction(signal, &ignore, 0);
  change(SIG_UNBLOCK, signal);
  raise(signal);
  struct timespec short_time = {0, 60000000};
  child = later(signal, 20, 1);
  show("nanosleep, ignored", nanosleep(&short_time, 0));
  ended(child);
  change(SIG_BLOCK, signal);
  sigaction(signal, &ignore, 0);
  raise(signal);
  sigpending(&set);
  change(SIG_UNBLOCK, signal);
  show("ignored and blocked", sigismember(&set, signal));
  handle(signal, note, 0);
  show("ignored", 0);
  child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(signal, &by_default, 0);
    raise(signal);
    _exit(1);
  }
  int status;
  waitpid(child, &status, 0);
  printf("  the default: %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);

  // In a new program, it stays blocked and pending.
  child = fork();
  if (child == 0) {
    change(SIG_BLOCK, signal);
    raise(signal);
    char name[20];
    sprintf(name, "%d", signal);
    execl("/proc/self/exe", "kept", name, (char *)0);
    _exit(1);
  }
  waitpid(child, &status, 0);
  printf("  a new program: %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));

  // A storm, while calls are made: at sites that are rewritten by then.
  handle(signal, note, SA_RESTART);
  int bad = 0;
  for (int i = 0; i < 20; i++) bad += write(ends[1], "a", 1) != 1 || read(ends[0], &byte, 1) != 1 || syscall(SYS_getpid) != getpid();
  child = often(signal, 100);
  time_t until = time(0) + 3;
  for (int i = 0; (i < 3000 || seen < 100) && time(0) < until; i++) {
    if (write(ends[1], "a", 1) != 1 || read(ends[0], &byte, 1) != 1) bad++;
    if (syscall(SYS_getpid) != getpid()) bad++;
  }
  kill(child, SIGKILL);
  ended(child);
  printf("  storm: %d bad\n", bad);

  // While threads begin and end.
  handle(signal, note, SA_RESTART);
  seen = 0;
  child = often(signal, 50);
  until = time(0) + 3;
  for (int i = 0; (i < 1500 || seen < 6) && time(0) < until; i++) {
    pthread_t all[4];
    for (int j = 0; j < 4; j++) if (pthread_create(&all[j], 0, empty, 0)) exit(1);
    for (int j = 0; j < 4; j++) pthread_join(all[j], 0);
  }
  kill(child, SIGKILL);
  ended(child);
  puts("  threads that end");
  seen = code = value = by_self = was_blocked = on_thread = 0;
  close(ends[0]);
  close(ends[1]);
}

// A call that always traps, while another process sends to the thread the signal that reports it.
static void trapped(void) {
  static const unsigned char code[] = {0xB8, SYS_getpid, 0, 0, 0, 0x0F, 0x05, 0xC3};
  unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) exit(1);
  memcpy(page, code, sizeof code);
  handle(SIGSYS, note, 0);
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (syscall(SYS_tgkill, parent, parent, SIGSYS) == 0) {}
    _exit(0);
  }
  int bad = 0;
  // A signal that is pending already hides the report of a call, which is repeated then: on some
  // machines there is hardly a moment without one.
  time_t end = time(0) + 5;
  for (int i = 0; (i < 20000 || seen < 500) && time(0) < end; i++) bad += ((int (*)(void))page)() != parent;
  kill(child, SIGKILL);
  ended(child);
  printf("calls that trap: %d bad, blocked %d\n", bad, was_blocked);
}

int main(int count, char **words) {
  setvbuf(stdout, 0, _IONBF, 0);
  if (count > 1) {
    int signal = atoi(words[1]);
    sigset_t pending, blocked;
    sigpending(&pending);
    sigprocmask(SIG_BLOCK, 0, &blocked);
    printf("  pending %d, blocked %d\n", sigismember(&pending, signal), sigismember(&blocked, signal));
    change(SIG_UNBLOCK, signal);
    return 1;
  }
  for (int i = 0; i < 4; i++) check(kept[i]);
  trapped();
  return 0;
}
