// What /proc shows a program of itself.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *program_path;

static void text(const char *path) {
  char buffer[65536];
  int fd = open(path, O_RDONLY);
  ssize_t count = read(fd, buffer, sizeof buffer);
  close(fd);
  printf("%s: %zd bytes: ", path, count);
  for (ssize_t i = 0; i < count && i < 400; i++) putchar(buffer[i] ? buffer[i] : '|');
  puts("");
}

static void program(const char *name, const char *path, const char *own) {
  char link[4096];
  struct stat by_link, by_path, itself;
  ssize_t count = readlink(path, link, sizeof link);
  printf("%s: leads to %.*s\n", name, (int)count, link);
  printf("stat: %d %d\n", stat(path, &by_link), stat(own, &by_path));
  printf("same file: %d\n", by_link.st_ino == by_path.st_ino && by_link.st_dev == by_path.st_dev);
  printf("lstat: %d, a link: %d\n", lstat(path, &itself), S_ISLNK(itself.st_mode));
  printf("access: %d\n", access(path, X_OK));
  int fd = open(path, O_RDONLY);
  char magic[4] = "";
  read(fd, magic, 4);
  printf("open: %d, %d bytes differ\n", fd >= 0, memcmp(magic, "\177ELF", 4));
  fstat(fd, &by_link);
  printf("same file: %d\n", by_link.st_ino == by_path.st_ino);
  close(fd);
}

// What is shown of the memory of a program, and what is not.
static void mappings(const char *path) {
  static char line[4096];
  unsigned long begin, end, before = 0, offset;
  int code = 0, stack = 0, heap = 0, vdso = 0, named = 0, unordered = 0, foreign = 0, anonymous = 0;
  char permissions[8], name[1024], own[64];
  char *on_heap = malloc(100), *large = malloc(1 << 20);
  FILE *file = fopen(path, "r");
  snprintf(own, sizeof own, "%s", strrchr(program_path, '/'));
  while (file && fgets(line, sizeof line, file)) {
    *name = 0;
    if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %1023[^\n]", &begin, &end, permissions, &offset, name) < 4) printf("odd line: %s", line);
    unordered += begin < before || end <= begin;
    before = end;
    unsigned long here = (unsigned long)mappings, local = (unsigned long)&here;
    if (begin <= here && here < end) code = !strcmp(permissions, "r-xp") && strstr(name, own) && offset == 0x1000;
    if (begin <= local && local < end) stack = !strcmp(name, "[stack]") && permissions[1] == 'w';
    if (begin <= (unsigned long)on_heap && (unsigned long)on_heap < end) heap = !strcmp(name, "[heap]");
    if (begin <= (unsigned long)large && (unsigned long)large < end) anonymous = !*name;
    vdso += !strcmp(name, "[vdso]");
    named += !strcmp(name, "[stack]") + !strcmp(name, "[heap]");
    foreign += strstr(line, "fdtable") != 0 && !strstr(name, "run-compiled");
  }
  printf("%s: code %d, stack %d, heap %d, large %d, vdso %d, named %d, unordered %d, foreign %d\n", path, code, stack, heap, anonymous, vdso, named, unordered, foreign);
  if (file) fclose(file);
  free(on_heap);
  free(large);
}

// What the program maps where another thread has just unmapped something is shown.
enum { SIZE = 1 << 16, MAPPED = 100 };
static atomic_int stop;
static char *map(void) { return mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void *unmaps(void *unused) {
  while (!stop) munmap(map(), SIZE);
  return unused;
}
static void beside_threads(void) {
  static char text[1 << 20];
  pthread_t threads[2];
  int missing = 0;
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, unmaps, 0);
  for (int round = 0; round < 100; round++) {
    char *mapped[MAPPED];
    for (int i = 0; i < MAPPED; i++) mapped[i] = map();
    int fd = open("/proc/self/maps", O_RDONLY);
    ssize_t size = 0, count;
    while ((count = read(fd, text + size, sizeof text - 1 - size)) > 0) size += count;
    text[size] = 0;
    close(fd);
    for (int i = 0; i < MAPPED; i++) {
      unsigned long begin = 0, end = 0, at = (unsigned long)mapped[i];
      for (char *line = text; *line && end <= at; line = strchr(line, '\n') + 1) {
        begin = strtoul(line, &line, 16);
        end = strtoul(line + 1, 0, 16);
      }
      missing += begin > at || end <= at;
      munmap(mapped[i], SIZE);
    }
  }
  stop = 1;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  printf("mapped beside threads that unmap: %s\n", missing ? "not all is shown" : "shown");
}

int main(int count, char **arguments) {
  program_path = arguments[0];
  setvbuf(stdout, 0, _IONBF, 0);
  if (count == 1) {
    char own[64];
    snprintf(own, sizeof own, "/proc/%d/exe", getpid());
    program("self", "/proc/self/exe", arguments[0]);
    program("by number", own, arguments[0]);
    program("thread-self", "/proc/thread-self/exe", arguments[0]);
    char maps[64];
    snprintf(maps, sizeof maps, "/proc/%d/maps", getpid());
    mappings("/proc/self/maps");
    beside_threads();
    text("/proc/self/cmdline");
    text("/proc/self/comm");
    printf("of a thread: ");
    mappings("/proc/thread-self/maps");
    printf("by number: %d\n", access(maps, R_OK));
    char *child[] = {"a name", "-x", "", "three words here", 0}, *environment[] = {"A=1", "B=two", 0};
    if (fork() == 0) execve("/proc/self/exe", child, environment);
    int status;
    wait(&status);
    printf("child: %d\n", WEXITSTATUS(status));
    return 0;
  }
  text("/proc/self/cmdline");
  text("/proc/self/environ");
  text("/proc/self/comm");
  int fd = open("/proc/self/auxv", O_RDONLY);
  unsigned long pair[2], found = 0;
  while (read(fd, pair, sizeof pair) == sizeof pair && pair[0])
    if (pair[0] == 9) found = pair[1]; // AT_ENTRY
  extern char _start[];
  printf("entry: %d\n", found == (unsigned long)_start);
  char own[4096];
  ssize_t length = readlink("/proc/self/exe", own, sizeof own);
  printf("executed: %.*s\n", (int)length, own);
  return 7;
}
