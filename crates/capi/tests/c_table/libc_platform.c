/* The services of a C library for a table without std, in small programs. Threads call
 * fdt_end_thread before they end. A fork of the process is not supported, and the end of the process
 * calls no free function. */

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "fdtable/platform.h"

static void *allocate(size_t size, size_t align)
{
    void *memory;
    if (align < sizeof memory)
        align = sizeof memory;
    return posix_memalign(&memory, align, size) ? NULL : memory;
}

static void free_memory(void *memory, size_t size, size_t align)
{
    (void)size;
    (void)align;
    free(memory);
}

static void panic(const char *text, size_t length)
{
    ssize_t written = write(STDERR_FILENO, text, length);
    (void)written;
    abort();
}

static void set_errno(int error)
{
    errno = error;
}

static __thread void *word;

static void *thread_word(void)
{
    return word;
}

static void set_thread_word(void *new_word)
{
    word = new_word;
}

/* A thread that holds a lock may be preempted: it gets the CPU, so enter_lock is not needed. */
static void relax(uint32_t attempts)
{
    if (attempts >= 64)
        sched_yield();
}

const struct fdt_platform fdt_platform = {
    .allocate = allocate,
    .free = free_memory,
    .panic = panic,
    .set_errno = set_errno,
    .thread_word = thread_word,
    .set_thread_word = set_thread_word,
    .relax = relax,
};
