/* A library for LD_PRELOAD: at the end of a process, writes all about the tree TREE to the file
 * TREE_INTO. So the changes that are in the memory of the process are seen. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char *lines[10000];
static int count;

static unsigned long sum(const char *path)
{
    unsigned long hash = 5381;
    char buffer[65536];
    int fd = open(path, O_RDONLY);
    for (long got; (got = read(fd, buffer, sizeof buffer)) > 0;)
        for (long i = 0; i < got; i++)
            hash = hash * 33 + (unsigned char)buffer[i];
    close(fd);
    return hash;
}

static int add(const char *path, const struct stat *at, int type, struct FTW *place)
{
    char target[4096] = "";
    if (S_ISLNK(at->st_mode))
        target[readlink(path, target, sizeof target - 1)] = 0;
    /* A time of now is another one each time. */
    long time_of = at->st_mtime < time(0) - 86400 ? at->st_mtime : 0;
    asprintf(&lines[count++], "%s %o %ld %d:%d %ld %ld %lx %s", path, at->st_mode, (long)at->st_nlink,
             at->st_uid, at->st_gid, S_ISDIR(at->st_mode) ? 0 : (long)at->st_size, time_of,
             S_ISREG(at->st_mode) ? sum(path) : 0, target);
    return 0;
}

static int order(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }

__attribute__((destructor)) static void show(void)
{
    if (!getenv("TREE") || !getenv("TREE_INTO"))
        return;
    fflush(0);
    FILE *into = fopen(getenv("TREE_INTO"), "w");
    if (!into || chdir(getenv("TREE")))
        return;
    count = 0;
    nftw(".", add, 50, FTW_PHYS);
    qsort(lines, count, sizeof *lines, order);
    for (int i = 0; i < count; i++)
        fprintf(into, "%s\n", lines[i]);
    fclose(into);
}
