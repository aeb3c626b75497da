/* The descriptor table of a unikernel in C, rebuilt on the library. It was an array of files under
 * a lock, with bit sets, growth and a copy for fork of its own. Its files count their references
 * themselves, and still do: sockets, timers and the page cache hold them without a descriptor.
 * Ends with an error message and the line of the first check that fails. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "fdtable/table.h"

struct file {
    int count;                    /* References, of tables and of the kernel. */
    int position;
    void (*shut)(struct file *);  /* Called when the last reference is dropped. */
    struct fdt_deferred deferred; /* The memory outlives lookups that are under way. */
};

/* First the kernel's own part: the count. */
static int file_take(void *file, void *unused)
{
    int *count = &((struct file *)file)->count, before;
    int seen = __atomic_load_n(count, __ATOMIC_RELAXED);
    (void)unused;
    for (; seen; seen = before)
        if ((before = __sync_val_compare_and_swap(count, seen, seen + 1)) == seen)
            return 1;
    return 0;
}

static void file_free(struct fdt_deferred *deferred)
{
    free((char *)deferred - offsetof(struct file, deferred));
}

static void file_put(struct file *file)
{
    if (__atomic_sub_fetch(&file->count, 1, __ATOMIC_ACQ_REL) == 0) {
        file->shut(file);
        fdt_defer(&file->deferred, file_free);
    }
}

/* Then the table. A table has one reference to a file, for all of its descriptors. */

static void table_put(void *file, void *unused)
{
    (void)unused;
    file_put((struct file *)file);
}

static struct fdt_table *fd_table_new(unsigned int limit)
{
    return fdt_table_new(limit, table_put, NULL, NULL);
}

/* Takes over the reference of the caller, unless it fails. */
static int fd_install(struct fdt_table *table, struct file *file, int flags)
{
    int fd = fdt_table_open(table, file, flags & O_CLOEXEC ? FD_CLOEXEC : 0);
    return fd < 0 ? -errno : fd;
}

static struct file *fd_get(struct fdt_table *table, int fd)
{
    return (struct file *)fdt_table_acquire(table, fd, file_take, NULL);
}

static int fd_close(struct fdt_table *table, int fd)
{
    return fdt_table_close(table, fd) ? -errno : 0;
}

/* dup, fcntl, fork and exec are fdt_table_dup and so on. Last a test: two threads use files that
 * another one replaces. */

#define CHECK(holds)                                                        \
    do {                                                                    \
        if (!(holds)) {                                                     \
            fprintf(stderr, "line %d: %s, errno %d\n", __LINE__, #holds, errno); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

#ifndef ROUNDS
#define ROUNDS 20000
#endif

static int made, shut;

static void on_shut(struct file *file)
{
    CHECK(file->count == 0 && file->position >= 0);
    file->position = -1;
    __atomic_add_fetch(&shut, 1, __ATOMIC_RELAXED);
}

static struct file *file_new(void)
{
    struct file *file = (struct file *)calloc(1, sizeof *file);
    CHECK(file);
    file->count = 1;
    file->shut = on_shut;
    return __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED) ? file : NULL;
}

static void *reading(void *table)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct file *file = fd_get((struct fdt_table *)table, i % 2);
        if (!file)
            continue;
        CHECK(__atomic_add_fetch(&file->position, 1, __ATOMIC_RELAXED) > 0);
        file_put(file);
    }
    return NULL;
}

static void *replacing(void *table)
{
    for (int i = 0; i < ROUNDS; i++)
        CHECK(fdt_table_replace((struct fdt_table *)table, 0, file_new(), NULL, NULL, NULL) == 0);
    return NULL;
}

int main(void)
{
    struct fdt_table *table = fd_table_new(64), *child;
    void *(*const work[])(void *) = {reading, reading, replacing};
    pthread_t threads[3];
    CHECK(fd_install(table, file_new(), O_CLOEXEC) == 0 && fd_install(table, file_new(), 0) == 1);
    struct file *file = fd_get(table, 1);
    CHECK(file && file->count == 2);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, work[i], table) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(shut == ROUNDS && file->count == 2);
    CHECK((child = fdt_table_fork(table)) && fd_close(table, 1) == 0);
    CHECK(fd_close(table, 1) == -EBADF && file->count == 2 && fd_get(child, 1) == file && file->count == 3);
    fdt_table_free(child);
    fdt_table_free(table);
    CHECK(shut == made - 1 && file->count == 2);
    file_put(file);
    file_put(file);
    CHECK(shut == made && fdt_barrier() == 0);
    return 0;
}
