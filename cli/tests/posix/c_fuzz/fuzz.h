/* The program of the fuzzer: it executes scripts of calls, and prints one line for each call.
 *
 * A script is text, one call in each line, as C would write it:
 *
 *     s3 = open("a", O_RDWR|O_CREAT|O_NONBLOCK, 0644)
 *     write(s3, data, 100)
 *
 * A slot (s0 to s31) is a variable with a descriptor, so a script keeps its meaning when a call is
 * removed. The same binary runs on the host and under `fdtable run`. */
#ifndef FUZZ_H
#define FUZZ_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
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
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* The directory that is a file system of its own, and the one in it where a script starts. */
#define ROOT "/mnt"
#define BASE ROOT "/up/base"

/* Descriptors are below this limit, so that some calls return EMFILE. */
#define LIMIT 64
#define SLOTS 32
#define ARGUMENTS 12

struct value {
    long number;
    const char *text; /* of a string, otherwise the number as a pointer */
};

struct call {
    int into[2]; /* slots of the descriptors that it returns, or -1 */
    int count;
    struct value arguments[ARGUMENTS];
};

#define NUMBER(i) (call->arguments[i].number)
#define TEXT(i) (call->arguments[i].text)
/* A pointer to a buffer of the program, unless the script has an invalid pointer there. */
#define BUFFER(i, buffer) (NUMBER(i) ? (void *)NUMBER(i) : (void *)(buffer))

/* Flags that Linux keeps and F_GETFL returns; fdtable does not. The first is O_LARGEFILE. */
#define KEPT_FLAGS (0100000 | O_DIRECTORY | O_NOFOLLOW | O_DIRECT | O_TMPFILE)

/* Makes a call, and returns its result. */
typedef long operation(struct call *call);

struct operation {
    const char *name;
    operation *run;
    int arguments;
};

/* Each table ends with a NULL name. */
extern const struct operation descriptor_operations[], path_operations[], socket_operations[];

/* Prepares the table and the directory of a script. */
void prepare(void);
/* Closes everything. Returns false, and shows why, if the table is not empty afterwards. */
bool close_all(void);

/* Adds text to the line of the current call, after its result. */
void show(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds the first bytes, and a hash of all. */
void show_bytes(const void *bytes, long length);
/* Adds a path. Numbers of inodes in it are left out. */
void show_path(const char *path, long length);
/* Adds the fields of a file that both sides can have in common. */
void show_stat(const struct stat *st);
/* Ends the line of the current call, and begins another one of the same call. */
void next_line(void);

void set_slot(int slot, int fd);
/* Bytes to write, which differ from call to call. */
const char *some_data(void);

/* The thread's buffer for whatever is read. */
#define ROOM (1 << 18)
extern _Thread_local char room[ROOM];

/* script.c */
extern _Thread_local int script_thread;
void run_script(const char *script);
void run_threads(char **scripts, int count);
void emit(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Memory that the process of a script shares with the server. */
#define OUTPUT (8 << 20)
#define THREADS 8
struct shared {
    size_t length;
    char output[OUTPUT];
    /* The call that each thread makes. */
    char current[THREADS][256];
};
extern struct shared *shared;

#endif
