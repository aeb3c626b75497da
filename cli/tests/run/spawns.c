// Programs that are started, and programs that cannot be: what posix_spawn, system, popen and vfork
// return.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static char *const words[] = {"true", 0};

static void ended(pid_t child) {
  int status = 0;
  pid_t result = waitpid(child, &status, 0);
  if (result < 0) printf("  waitpid: %s\n", strerrorname_np(errno));
  else printf("  the child: %x\n", status);
}
static void spawn(const char *what, const char *path, int by_name, posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes) {
  pid_t child = -1;
  int result = (by_name ? posix_spawnp : posix_spawn)(&child, path, actions, attributes, words, environ);
  printf("%s: %d %s\n", what, result, result ? strerrorname_np(result) : "started");
  if (result == 0) ended(child);
  else printf("  no child: %d\n", waitpid(-1, 0, WNOHANG) < 0 && errno == ECHILD);
}
static void all(void) {
  spawn("a program", "/bin/true", 0, 0, 0);
  spawn("a program by its name", "true", 1, 0, 0);
  spawn("no program", "/no/such/program", 0, 0, 0);
  spawn("no program of that name", "no-such-program", 1, 0, 0);
  spawn("a folder", "/", 0, 0, 0);
  spawn("a text", "text", 0, 0, 0);
  spawn("a script without an interpreter", "./script", 0, 0, 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 7, "/no/such/file", O_RDONLY, 0);
  spawn("no file to open", "/bin/true", 0, &actions, 0);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, 99, 7);
  spawn("nothing to duplicate", "/bin/true", 0, &actions, 0);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, "/no/such/folder");
  spawn("no folder", "/bin/true", 0, &actions, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 1);
  spawn("a foreign group", "/bin/true", 0, 0, &attributes);
}
static void *on_thread(void *unused) { all(); return unused; }

// What a child of vfork stores in the frame of its parent.
static void stores(void) {
  volatile int failed = 0, big[1000] = {0};
  volatile long result = 0;
  pid_t child = vfork();
  if (child == 0) {
    result = execv("/no/such/program", words);
    failed = errno;
    for (int i = 0; i < 1000; i++) big[i] = i;
    _exit(3);
  }
  int sum = 0;
  for (int i = 0; i < 1000; i++) sum += big[i];
  printf("vfork: %ld %s %d\n", (long)result, failed ? strerrorname_np(failed) : "nothing", sum);
  ended(child);
  // A child of the child has a copy.
  failed = 0;
  child = vfork();
  if (child == 0) {
    pid_t other = fork();
    if (other == 0) failed = 5, _exit(0);
    int status;
    _exit(waitpid(other, &status, 0) != other || status != 0);
  }
  printf("fork below vfork: %d\n", failed);
  ended(child);
  child = fork();
  if (child == 0) failed = 6, _exit(0);
  ended(child);
  printf("fork: %d\n", failed);
  // A child that a signal ends.
  child = vfork();
  if (child == 0) kill(getpid(), SIGKILL);
  ended(child);
}

// Variables in the frame of a thread in vfork that another thread alone changes: one with a word of
// its own, and one that is in a word with a variable of the child.
static atomic_int stop;
struct beside {
  volatile unsigned of_child, half;
  volatile unsigned long whole;
} __attribute__((aligned(8)));
static void *counts(void *at) {
  struct beside *beside = at;
  unsigned count = 0, half = 0, whole = 0;
  while (!stop) {
    half += beside->half != count;
    whole += beside->whole != count;
    beside->half = beside->whole = ++count;
  }
  printf("a word beside vfork: %s\n", whole ? "changed back" : "as written");
  printf("half a word beside vfork: %s\n", half ? "changed back" : "as written");
  return 0;
}
static void beside(void) {
  struct beside beside = {0};
  pthread_t thread;
  pthread_create(&thread, 0, counts, &beside);
  for (int i = 0; i < 300; i++) {
    pid_t child = vfork();
    if (child == 0) beside.of_child++, _exit(0);
    waitpid(child, 0, 0);
  }
  printf("stored beside a thread: %u\n", beside.of_child);
  stop = 1;
  pthread_join(thread, 0);
}

// A thread in vfork whose stack ends where another mapping begins, whatever that is for: it keeps
// what is there, which a child changes in its copy.
static __thread volatile int handled;
static void handles(int unused) { handled++; }
static void starts_one(void) {
  pid_t child = vfork();
  if (child == 0) _exit(0);
  waitpid(child, 0, 0);
}
static void *below(void *unused) {
  enum { SIZE = 1 << 16, MOST = 100 };
  char path[64], line[256], *stacks[MOST];
  int count = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/maps", gettid());
  FILE *maps = fopen(path, "r");
  while (count < MOST && fgets(line, sizeof line, maps)) {
    char *at = (char *)strtoul(line, 0, 16) - SIZE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap(at, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED) stacks[count++] = at;
  }
  fclose(maps);
  for (int i = 0; i < count; i++) {
    ucontext_t here, there;
    getcontext(&there);
    there.uc_stack.ss_sp = stacks[i];
    there.uc_stack.ss_size = SIZE;
    there.uc_link = &here;
    makecontext(&there, starts_one, 0);
    swapcontext(&here, &there);
  }
  pthread_kill(pthread_self(), SIGUSR1);
  printf("stacks below other mappings: %s, %d\n", count ? "some" : "none", handled);
  return unused;
}

// Children that last, which a thread starts, do not keep other threads in vfork.
static void *starts(void *unused) {
  while (!stop) starts_one();
  return unused;
}
static void beside_lasting(void) {
  enum { THREADS = 4, CHILDREN = 20 };
  pid_t children[CHILDREN];
  pthread_t threads[THREADS];
  stop = 0;
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, starts, 0);
  for (int i = 0; i < CHILDREN; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
  }
  stop = 1;
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
  for (int i = 0; i < CHILDREN; i++) {
    kill(children[i], SIGKILL);
    waitpid(children[i], 0, 0);
  }
  puts("beside children that last");
}

// Whether there is a program, before what it gets.
static void without_words(void) {
  const char *paths[] = {"/no/such/program", "text", "/bin/true"};
  for (int i = 0; i < 3; i++) {
    execve(paths[i], (char **)8, environ);
    printf("%s without arguments: %s\n", paths[i], strerrorname_np(errno));
  }
}

static char stack[1 << 16];
static int fails(void *at) { *(int *)at = 7; _exit(1); }

int main(void) {
  setvbuf(stdout, 0, _IONBF, 0);
  int fd = open("text", O_CREAT | O_WRONLY, 0700);
  if (write(fd, "text\n", 5) != 5) return 1;
  close(fd);
  fd = open("script", O_CREAT | O_WRONLY, 0700);
  if (write(fd, "#!/no/such/interpreter\n", 23) != 23) return 1;
  close(fd);
  all();
  without_words();
  pthread_t thread;
  pthread_create(&thread, 0, on_thread, 0);
  pthread_join(thread, 0);
  stores();
  beside();
  signal(SIGUSR1, handles);
  pthread_create(&thread, 0, below, 0);
  pthread_join(thread, 0);
  beside_lasting();
  volatile int word = 0;
  pid_t child = clone(fails, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)&word);
  printf("clone: %d\n", word);
  ended(child);
  word = 0;
  child = clone(fails, stack + sizeof stack, CLONE_VFORK | SIGCHLD, (void *)&word);
  printf("clone without shared memory: %d\n", word);
  ended(child);
  printf("system: %x\n", system("no-such-program 2>/dev/null"));
  printf("system: %x\n", system("exit 5"));
  FILE *pipe = popen("no-such-program 2>/dev/null", "w");
  printf("popen: %x\n", pclose(pipe));
  pipe = popen("exit 6", "r");
  printf("popen: %x\n", pclose(pipe));
  return 0;
}
