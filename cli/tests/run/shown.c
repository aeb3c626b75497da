// What /proc shows a program of itself.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

int main(int count, char **arguments) {
  setvbuf(stdout, 0, _IONBF, 0);
  if (count == 1) {
    char own[64];
    snprintf(own, sizeof own, "/proc/%d/exe", getpid());
    program("self", "/proc/self/exe", arguments[0]);
    program("by number", own, arguments[0]);
    program("thread-self", "/proc/thread-self/exe", arguments[0]);
    text("/proc/self/cmdline");
    text("/proc/self/comm");
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
