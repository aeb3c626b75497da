/* Checks of the POSIX calls, one line of output for each: "section: call -> result".
 *
 * The same binary runs twice: on the host, whose results are the reference, and under `fdtable run`.
 * Both print the same lines, except for those that differences.txt lists with a reason. So the
 * source has no expected results. Values that may differ from run to run (pointers, times, inode
 * numbers) are never printed, only compared.
 *
 * A theme is a file with a list of sections. A section starts in an empty directory of its own,
 * with only descriptors 0, 1 and 2 open. So its first new descriptor is 3, and a failure in one
 * section does not affect the next. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

/* Prints the source of the call, makes it, prints its result, and for -1 the name of errno. */
#define CALL(...) (check_begin(#__VA_ARGS__), check_call((long)(__VA_ARGS__)))
/* The same for a call that returns an error number. */
#define CODE(...) (check_begin(#__VA_ARGS__), check_code((long)(__VA_ARGS__)))
/* Prints a number that is not the result of a call: a size, a mode, a set of bits. */
#define VALUE(...) (check_begin(#__VA_ARGS__), check_value((long)(__VA_ARGS__)))
/* Prints a string. */
#define TEXT(...) (check_begin(#__VA_ARGS__), check_text(__VA_ARGS__))
/* Prints whether a pointer is NULL, and errno if it is. */
#define POINTER(...) (check_begin(#__VA_ARGS__), check_pointer(__VA_ARGS__))

void check_begin(const char *call);
long check_call(long result);
long check_code(long error);
long check_value(long value);
const char *check_text(const char *text);
void *check_pointer(const void *pointer);

struct section {
    const char *name;
    void (*run)(void);
};

struct theme {
    const char *name;
    const struct section *sections; /* ends with a NULL name */
};

/* The directory argument of the program, without a trailing slash. */
extern const char *check_root;

/* Addresses that no process can map: in the first page, and above user space. They are volatile,
 * so that the compiler does not know their values. */
extern void *volatile null;
extern void *volatile bad;
extern void *volatile high;

/* Creates a file with the content `text`. */
void make_file(const char *path, const char *text);
/* Reads up to 63 bytes at the descriptor's offset, as a string; "" at the end, "<errno>" on
 * failure. */
const char *read_text(int fd);
/* Returns the content of a file, read from a descriptor of its own. */
const char *file_text(const char *path);

/* Flags of the handler below. Without SA_RESTART, a call that sleeps must return EINTR. */
extern int interrupt_flags;
/* Interrupts the calling thread with SIGALRM, whose handler does nothing, every `milliseconds`
 * until `interrupt_end`. */
void interrupt_begin(int milliseconds);
void interrupt_end(void);

/* Sleeps. */
void pause_ms(int milliseconds);
/* Returns the milliseconds of the monotonic clock. */
long now_ms(void);
/* Waits for a child, and returns its exit status, or 256 plus its signal. */
int wait_for(pid_t child);

#endif
