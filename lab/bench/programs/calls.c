/* Times one kind of system call, and prints the nanoseconds of one: "calls WHAT COUNT FOLDER". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char path[4096];
static char buffer[4096];

static void must(int works, const char *what)
{
    if (!works) {
        perror(what);
        exit(1);
    }
}

static void one(const char *what, int fd)
{
    if (strcmp(what, "getfd") == 0) {
        must(fcntl(fd, F_GETFD) >= 0, "fcntl");
    } else if (strcmp(what, "pread") == 0) {
        must(pread(fd, buffer, sizeof buffer, 0) == sizeof buffer, "pread");
    } else if (strcmp(what, "open_close") == 0) {
        int other = open(path, O_RDONLY);
        must(other >= 0 && close(other) == 0, "open and close");
    } else if (strcmp(what, "stat") == 0) {
        struct stat stat_buffer;
        must(stat(path, &stat_buffer) == 0, "stat");
    } else if (strcmp(what, "create_unlink") == 0) {
        int other = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
        must(other >= 0 && close(other) == 0 && unlink(path) == 0, "create and unlink");
    }
}

int main(int count_of_words, char **words)
{
    must(count_of_words == 4, "three words");
    const char *what = words[1];
    long count = atol(words[2]);
    snprintf(path, sizeof path, "%s/calls.%d", words[3], (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    must(fd >= 0 && write(fd, buffer, sizeof buffer) == sizeof buffer, path);
    if (strcmp(what, "create_unlink") == 0)
        must(unlink(path) == 0, "unlink");
    struct timespec begin, end;
    /* The first ones find the call sites. */
    for (long i = 0; i < 100; i++)
        one(what, fd);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < count; i++)
        one(what, fd);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec);
    printf("%.2f\n", ns / count);
    unlink(path);
    return 0;
}
