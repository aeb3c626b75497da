// execve while other threads run: they end wherever they are, the process keeps its id, and a call
// that fails leaves them running.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *myself;

// What parent and child share.
struct shared {
  pthread_mutex_t robust[3];
  atomic_int cleared, kept, held, seen;
} *shared;

static int ends[2];
static atomic_int started, alive;
static volatile int forever = 1;

static void *reads(void *unused) { char byte; started++; for (;;) if (read(ends[0], &byte, 1) < 0) abort(); return unused; }
static void *polls(void *unused) { struct pollfd end = {ends[0], POLLIN}; started++; for (;;) poll(&end, 1, -1); return unused; }
static void *waits_for_events(void *unused) {
  struct epoll_event event = {EPOLLIN};
  int set = epoll_create1(EPOLL_CLOEXEC);
  epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
  started++;
  for (;;) epoll_wait(set, &event, 1, -1);
  return unused;
}
static void *sleeps(void *unused) { started++; for (;;) sleep(100); return unused; }
static void *pauses(void *unused) { started++; for (;;) pause(); return unused; }
static void *takes_signals(void *unused) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigprocmask(SIG_BLOCK, &set, 0);
  started++;
  for (;;) sigwaitinfo(&set, 0);
  return unused;
}
static void *suspends(void *unused) { sigset_t none; sigemptyset(&none); started++; for (;;) sigsuspend(&none); return unused; }
static void *spins(void *unused) { started++; while (forever) alive++; return unused; }
static void *calls(void *unused) {
  int own[2];
  char byte = 0;
  if (pipe(own)) abort();
  started++;
  for (;;) {
    if (write(own[1], &byte, 1) != 1 || read(own[0], &byte, 1) != 1) abort();
    if (syscall(SYS_getpid) != getpid()) abort();
    alive++;
  }
  return unused;
}
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static void *waits(void *unused) { started++; pthread_mutex_lock(&mutex); for (;;) pthread_cond_wait(&never, &mutex); return unused; }
static void *empty(void *unused) { return unused; }
static void *starts_threads(void *unused) {
  started++;
  for (;;) {
    pthread_t thread;
    if (pthread_create(&thread, 0, empty, 0) == 0) pthread_join(thread, 0);
  }
  return unused;
}
static void *forks(void *unused) {
  started++;
  for (;;) {
    pid_t child = fork();
    if (child == 0) { prctl(PR_SET_PDEATHSIG, SIGKILL); _exit(0); }
    if (child > 0) waitpid(child, 0, 0);
  }
  return unused;
}
static void *waits_for_child(void *unused) {
  started++;
  pid_t child = vfork();
  if (child == 0) {
    struct timespec time = {0, 300000000};
    nanosleep(&time, 0);
    _exit(0);
  }
  for (;;) pause();
  return unused;
}
static void *opens(void *path) { started++; for (;;) if (open(path, O_RDONLY) >= 0) abort(); return 0; }
static void *locks(void *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600), other = open(path, O_RDWR);
  flock(fd, LOCK_EX);
  started++;
  for (;;) if (flock(other, LOCK_EX) == 0) abort();
  return 0;
}
static void *exits_soon(void *unused) { started++; return unused; }

static void *(*const bodies[])(void *) = {reads, polls, waits_for_events, sleeps, pauses, takes_signals, suspends, spins, calls, waits, starts_threads, forks, waits_for_child, exits_soon};
enum { BODIES = sizeof bodies / sizeof *bodies };

static pthread_t start(void *(*body)(void *), void *argument) {
  pthread_t thread;
  int error = pthread_create(&thread, 0, body, argument);
  if (error) printf("no thread: %s\n", strerrorname_np(error)), exit(1);
  return thread;
}
static void begin(int count) {
  if (pipe(ends)) abort();
  started = 0;
  for (int i = 0; i < count; i++) start(bodies[i], 0);
  while (started < count) sched_yield();
}
static void execute(const char *stage) {
  char id[20];
  sprintf(id, "%d", getpid());
  execl(myself, myself, stage, id, (char *)0);
  printf("not executed: %s\n", strerrorname_np(errno));
}
static void *executes(void *stage) { execute(stage); return 0; }

// A signal may be pending for the thread that executes a program and for the process: both are
// pending in the program.
static const int twice[] = {SIGUSR1, SIGCHLD, SIGSEGV, SIGSYS};
enum { TWICE = sizeof twice / sizeof *twice };
static void send_twice(void) {
  for (int i = 0; i < TWICE; i++) {
    if (kill(getpid(), twice[i])) abort();
    if (pthread_kill(pthread_self(), twice[i])) abort();
  }
}
static void *executes_with_signals(void *stage) { send_twice(); execute(stage); return 0; }
static void take_twice(void) {
  for (int i = 0; i < TWICE; i++) {
    const struct timespec none = {0, 0};
    siginfo_t info;
    unsigned long set = 1ul << (twice[i] - 1);
    printf("  %s:", sigabbrev_np(twice[i]));
    // Not by the C library, which hides that a signal was for the thread.
    while (syscall(SYS_rt_sigtimedwait, &set, &info, &none, sizeof set) == twice[i])
      printf(" %d from %d", info.si_code, info.si_pid == getpid());
    puts("");
  }
}

// Holds a robust lock until its end.
static void *holds(void *lock) {
  if (pthread_mutex_lock(lock)) abort();
  shared->held++;
  for (;;) pause();
  return 0;
}
static int thread_with_word(void *unused) { (void)unused; shared->held++; for (;;) syscall(SYS_pause); return 0; }
static char stack[2][1 << 16];
static int executes_with_word(void *unused) {
  char id[20];
  (void)unused;
  sprintf(id, "%d", getpid());
  char *arguments[] = {(char *)myself, "done", id, 0};
  syscall(SYS_execve, myself, arguments, environ);
  return 0;
}
static void clone_with_word(int (*body)(void *), char *top, atomic_int *word) {
  int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
  if (clone(body, top, flags, 0, 0, 0, word) < 0) abort();
}

static void failures(void) {
  begin(BODIES);
  char *none[] = {0}, *one[] = {"x", 0};
  int before;
  execve("/no/such/program", one, none);
  printf("no program: %s\n", strerrorname_np(errno));
  execve("/", one, none);
  printf("a folder: %s\n", strerrorname_np(errno));
  execve("text", one, none);
  printf("a text: %s\n", strerrorname_np(errno));
  execve("broken", one, none);
  printf("a broken program: %s\n", strerrorname_np(errno));
  execve("script", one, none);
  printf("no interpreter: %s\n", strerrorname_np(errno));
  static char *many[100000];
  static char word[100];
  memset(word, 'a', 99);
  for (int i = 0; i < 99999; i++) many[i] = word;
  execve("/bin/true", many, none);
  printf("too many arguments: %s\n", strerrorname_np(errno));
  char *bad = (char *)8, *bad_element[] = {"x", bad, 0}, *kernel = (char *)0xffff800000000000;
  static char longest[131072 + 1], path[6000];
  memset(longest, 'a', sizeof longest - 1);
  memset(path, '/', sizeof path - 1);
  char *long_element[] = {"x", longest, 0};
  const struct { const char *what, *path; void *arguments, *environment; } wrong[] = {
    {"a bad path", bad, one, none}, {"no path", 0, one, none}, {"bad arguments", "/bin/true", bad, none},
    {"a bad argument", "/bin/true", bad_element, none}, {"a bad environment", "/bin/true", one, bad},
    {"a bad variable", "/bin/true", one, bad_element}, {"the kernel's", "/bin/true", kernel, none},
    {"a path of the kernel", kernel, one, none}, {"a long path", path, one, none}, {"a long argument", "/bin/true", long_element, none},
  };
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    long result = syscall(SYS_execve, wrong[i].path, wrong[i].arguments, wrong[i].environment);
    printf("%s: %ld %s\n", wrong[i].what, result, strerrorname_np(errno));
  }
  before = alive;
  struct timespec time = {0, 1000000};
  for (int i = 0; i < 5000 && alive == before; i++) nanosleep(&time, 0);
  printf("threads run: %d\n", alive != before);
}

static void note(int signal) { (void)signal; }

int main(int count, char **words) {
  setvbuf(stdout, 0, _IONBF, 0);
  myself = words[0];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char *stage = count > 1 ? words[1] : "";
  if (count > 2) {
    sigset_t mask;
    sigprocmask(SIG_BLOCK, 0, &mask);
    struct sigaction handled, ignored;
    sigaction(SIGUSR1, 0, &handled);
    sigaction(SIGHUP, 0, &ignored);
    char status[4096], *threads = 0;
    int fd = open("/proc/self/status", O_RDONLY);
    ssize_t size = read(fd, status, sizeof status - 1);
    status[size < 0 ? 0 : size] = 0;
    close(fd);
    threads = strstr(status, "\nThreads:");
    printf("%s: same id %d, leader %d, blocked %d %d, reset %d, ignored %d%s\n", stage, getpid() == atoi(words[2]), getpid() == gettid(), sigismember(&mask, SIGUSR2), sigismember(&mask, SIGTERM),
           handled.sa_handler == SIG_DFL, ignored.sa_handler == SIG_IGN, threads && atoi(threads + 9) < 4 ? "" : ", threads left");
    if (strcmp(stage, "with a timer") == 0) usleep(300000);
    if (strncmp(stage, "with signals", 12) == 0) take_twice();
    if (isdigit(stage[0]) && atoi(stage) > 0) {
      // Again and again, from another thread each time.
      char next[20];
      sprintf(next, "%d", atoi(stage) - 1);
      begin(atoi(stage) % (BODIES + 1));
      pthread_join(start(executes, next), 0);
      sleep(60);
    }
    return 7;
  }
  mkfifo("fifo", 0600);
  int fd = open("text", O_CREAT | O_WRONLY, 0700);
  if (write(fd, "text\n", 5) != 5) return 1;
  close(fd);
  fd = open("broken", O_CREAT | O_WRONLY, 0700);
  if (write(fd, "\177ELF\2\1\1", 7) != 7) return 1;
  close(fd);
  fd = open("script", O_CREAT | O_WRONLY, 0700);
  if (write(fd, "#!/no/such/interpreter\n", 23) != 23) return 1;
  close(fd);

  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  signal(SIGHUP, SIG_IGN);
  struct sigaction action = {.sa_handler = note};
  sigaction(SIGUSR1, &action, 0);
  shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  for (int i = 0; i < 3; i++) pthread_mutex_init(&shared->robust[i], &attributes);

  for (int test = 0; test < 12; test++) {
    if (count == 2 && atoi(stage) != test) continue;
    shared->held = 0;
    pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(60);
      switch (test) {
      case 0:
        failures();
        // Signals for a thread keep its mask, not the leader's.
        execute("by the leader");
        break;
      case 1:
        begin(BODIES);
        sigprocmask(SIG_BLOCK, &set, 0);
        start(executes, "by another thread");
        sigprocmask(SIG_UNBLOCK, &set, 0);
        for (;;) pause();
      case 2:
        begin(BODIES);
        start(executes, "without the leader");
        pthread_exit(0);
      case 3:
        begin(3);
        for (int i = 0; i < 4; i++) start(executes, "by several");
        execute("by several");
        break;
      case 4:
        start(executes, "29");
        for (;;) alive++;
      case 5: {
        // Of the caller, of the leader, and of another one.
        pthread_t holder = start(holds, &shared->robust[0]);
        (void)holder;
        pthread_mutex_lock(&shared->robust[1]);
        shared->cleared = shared->kept = 1;
        clone_with_word(thread_with_word, stack[0] + sizeof stack[0], &shared->cleared);
        while (shared->held < 2) sched_yield();
        clone_with_word(executes_with_word, stack[1] + sizeof stack[1], &shared->kept);
        for (;;) pause();
      }
      case 6:
        pthread_mutex_lock(&shared->robust[2]);
        execute("with a lock");
        break;
      case 7:
        begin(0);
        start(opens, "fifo");
        start(locks, "lock");
        while (started < 2) sched_yield();
        usleep(20000);
        execute("beside an open and a lock");
        break;
      case 8:
        start(sleeps, 0);
        syscall(SYS_exit, 3);
      case 9: {
        // The new program would end by its signal.
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        struct itimerspec often = {{0, 100000000}, {0, 100000000}};
        timer_t timer;
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, 0)) abort();
        execute("with a timer");
      }
      case 10:
      case 11:
        for (int i = 0; i < TWICE; i++) sigaddset(&set, twice[i]);
        sigprocmask(SIG_BLOCK, &set, 0);
        start(sleeps, 0);
        if (test == 10) executes_with_signals("with signals of the leader");
        start(executes_with_signals, "with signals of another thread");
        for (;;) pause();
      }
      _exit(99);
    }
    int status = 0;
    if (test == 8) {
      usleep(50000);
      printf("a process without its leader: %d\n", waitpid(child, &status, WNOHANG));
      kill(child, SIGTERM);
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) printf("%d: signal %d\n", test, WTERMSIG(status));
    else printf("%d: status %d\n", test, WEXITSTATUS(status));
    if (test == 5) {
      struct timespec soon;
      clock_gettime(CLOCK_REALTIME, &soon);
      soon.tv_sec += 2;
      for (int i = 0; i < 2; i++) printf("robust lock %d: %d\n", i, pthread_mutex_timedlock(&shared->robust[i], &soon) == EOWNERDEAD);
      printf("words: %d %d\n", shared->cleared, shared->kept);
    }
    if (test == 6) printf("robust lock of the caller: %d\n", pthread_mutex_trylock(&shared->robust[2]) == EOWNERDEAD);
  }
  pid_t child = fork();
  if (child == 0) syscall(SYS_exit, 5);
  int status;
  waitpid(child, &status, 0);
  unlink("fifo");
  printf("exit of the only thread: %d\n", WEXITSTATUS(status));
  return 0;
}
