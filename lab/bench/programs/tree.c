/* Does one kind of work with processes, as UnixBench does, and prints the nanoseconds of one:
 * "tree WHAT COUNT FOLDER". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void must(int works, const char *what)
{
    if (!works) {
        perror(what);
        exit(1);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* A process writes 512 bytes to its own pipe, and reads them. */
static void through_a_pipe(long count)
{
    char bytes[512] = {0};
    int ends[2];
    must(pipe(ends) == 0, "pipe");
    while (count-- > 0) {
        must(write(ends[1], bytes, sizeof bytes) == sizeof bytes, "write");
        must(read(ends[0], bytes, sizeof bytes) == sizeof bytes, "read");
    }
}

/* Two processes pass a number to each other. */
static void between_two(long count)
{
    int to[2], back[2], number = 0;
    must(pipe(to) == 0 && pipe(back) == 0, "pipe");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        close(to[1]);
        while (read(to[0], &number, sizeof number) == sizeof number)
            must(write(back[1], &number, sizeof number) == sizeof number, "write");
        _exit(0);
    }
    while (count-- > 0) {
        must(write(to[1], &number, sizeof number) == sizeof number, "write");
        must(read(back[0], &number, sizeof number) == sizeof number, "read");
    }
    close(to[1]);
    must(waitpid(child, NULL, 0) == child, "waitpid");
}

static void processes(long count)
{
    while (count-- > 0) {
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0)
            _exit(0);
        must(waitpid(child, NULL, 0) == child, "waitpid");
    }
}

/* Writes, reads and copies 2 MB in parts of 1024 bytes. */
static void contents(long count, const char *folder)
{
    char one[4200], other[4200], bytes[1024] = {0};
    snprintf(one, sizeof one, "%s/one.%d", folder, (int)getpid());
    snprintf(other, sizeof other, "%s/other.%d", folder, (int)getpid());
    int from = open(one, O_RDWR | O_CREAT, 0600), to = open(other, O_RDWR | O_CREAT, 0600);
    must(from >= 0 && to >= 0, one);
    while (count-- > 0) {
        lseek(from, 0, SEEK_SET);
        for (int i = 0; i < 2000; i++)
            must(write(from, bytes, sizeof bytes) == sizeof bytes, "write");
        lseek(from, 0, SEEK_SET);
        for (int i = 0; i < 2000; i++)
            must(read(from, bytes, sizeof bytes) == sizeof bytes, "read");
        lseek(from, 0, SEEK_SET);
        lseek(to, 0, SEEK_SET);
        for (int i = 0; i < 2000; i++) {
            must(read(from, bytes, sizeof bytes) == sizeof bytes, "read");
            must(write(to, bytes, sizeof bytes) == sizeof bytes, "write");
        }
    }
    unlink(one);
    unlink(other);
}

/* Makes small files in 100 directories, asks for each, and removes all. */
static void small_files(long count, const char *folder)
{
    char path[4200];
    for (int step = 0; step < 3; step++)
        for (long i = 0; i < count; i++) {
            struct stat found;
            snprintf(path, sizeof path, "%s/tree%ld", folder, i % 100);
            if (step == 0 && i < 100)
                must(mkdir(path, 0700) == 0, path);
            snprintf(path, sizeof path, "%s/tree%ld/%ld", folder, i % 100, i);
            if (step == 0) {
                int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
                must(fd >= 0 && write(fd, "small", 5) == 5 && close(fd) == 0, path);
            } else if (step == 1) {
                must(stat(path, &found) == 0, path);
            } else {
                must(unlink(path) == 0, path);
            }
        }
    for (int i = 0; i < 100 && i < count; i++) {
        snprintf(path, sizeof path, "%s/tree%d", folder, i);
        must(rmdir(path) == 0, path);
    }
}

/* Returns the median time of a fork, in the parent. */
static double fork_time(void)
{
    double times[101];
    for (int i = 0; i < 101; i++) {
        double begun = now();
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0)
            _exit(0);
        double time = now() - begun;
        must(waitpid(child, NULL, 0) == child, "waitpid");
        int at = i;
        for (; at > 0 && times[at - 1] > time; at--)
            times[at] = times[at - 1];
        times[at] = time;
    }
    return times[50];
}

/* Returns what `count` more descriptors add to a fork, or as many as there may be. */
static double fork_with_files(long count)
{
    struct rlimit limit = {count + 100, count + 100};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    double before = fork_time();
    while (count-- > 0 && dup(1) >= 0)
        ;
    return fork_time() - before;
}

int main(int count_of_words, char **words)
{
    must(count_of_words >= 4, "three words");
    const char *what = words[1], *folder = words[3];
    long count = atol(words[2]);
    double begun = now();
    if (strcmp(what, "execl") == 0) {
        /* This program executes itself so often. The first one notes the time, and their number. */
        char left[32], from[32];
        double first = count_of_words > 4 ? atof(words[4]) : begun;
        long all = count_of_words > 5 ? atol(words[5]) : count;
        if (count > 0) {
            char number[32];
            snprintf(left, sizeof left, "%ld", count - 1);
            snprintf(from, sizeof from, "%.0f", first);
            snprintf(number, sizeof number, "%ld", all);
            execl(words[0], words[0], what, left, folder, from, number, NULL);
            must(0, "execl");
        }
        printf("%.2f\n", (begun - first) / all);
        return 0;
    }
    if (strcmp(what, "fork_with_files") == 0) {
        printf("%.2f\n", fork_with_files(count));
        return 0;
    }
    if (strcmp(what, "pipe") == 0)
        through_a_pipe(count);
    else if (strcmp(what, "context") == 0)
        between_two(count);
    else if (strcmp(what, "spawn") == 0)
        processes(count);
    else if (strcmp(what, "contents") == 0)
        contents(count, folder);
    else if (strcmp(what, "small_files") == 0)
        small_files(count, folder);
    else
        return 1;
    printf("%.2f\n", (now() - begun) / count);
    return 0;
}
