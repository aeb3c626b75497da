/* Calls on paths of the host that are looked up beforehand where there is an overlay: prints what
 * they return. The working directory is empty. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CALL(call)                                                                                 \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long result = (long)(call);                                                                \
        printf("%s: %ld %s\n", #call, result, errno ? strerrorname_np(errno) : "");                \
    } while (0)

/* The flags are those of the open. */
static void flags(void)
{
    CALL(mkdir("d", 0700));
    for (int i = 0; i < 2; i++) {
        int fd = open("d/new", O_RDWR | O_CREAT | O_APPEND, 0600);
        CALL(fcntl(fd, F_GETFL));
        CALL(fcntl(open("d/new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), F_GETFL));
        CALL(fcntl(open("d/new", O_RDONLY | O_NOFOLLOW), F_GETFL));
        CALL(fcntl(open("d", O_DIRECTORY | O_PATH), F_GETFL));
        CALL(fcntl(openat(open("d", O_PATH), "new", O_RDWR), F_GETFL));
        CALL(symlink("d", "to_d"));
        CALL(fcntl(open("to_d/new", O_RDWR | O_CREAT | O_NONBLOCK, 0600), F_GETFL));
        CALL(fcntl(open("to_d/../d/new", O_RDWR | O_CREAT, 0600), F_GETFL));
    }
}

/* access looks for the real user, other calls for the effective one. */
static void users(void)
{
    struct stat st;
    CALL(mkdir("secret", 0700));
    CALL(close(creat("secret/f", 0600)));
    CALL(symlink("secret", "to_secret"));
    CALL(seteuid(65534));
    for (int i = 0; i < 2; i++) {
        CALL(access("secret/f", R_OK));
        CALL(access("to_secret/f", R_OK));
        CALL(access("secret/none", F_OK));
        CALL(faccessat(AT_FDCWD, "secret/f", F_OK, AT_EACCESS));
        CALL(stat("secret/f", &st));
        CALL(open("secret/f", O_RDONLY) < 0);
        CALL(seteuid(0));
        CALL(setreuid(65534, 0));
    }
    CALL(setreuid(0, 0));
}

static _Atomic int is_over;

/* The file is a file and a link in turn. */
static void *exchange(void *unused)
{
    while (!is_over) {
        symlink("file", "next");
        rename("next", "turning");
        close(creat("next", 0600));
        rename("next", "turning");
    }
    return 0;
}

static void exchanged(void)
{
    int errors = 0;
    close(creat("file", 0600));
    close(creat("turning", 0600));
    pthread_t thread;
    pthread_create(&thread, 0, exchange, 0);
    for (int i = 0; i < 3000; i++) {
        int fd = open("turning", O_RDWR | O_CREAT, 0600);
        if (fd < 0)
            errors++;
        close(fd);
    }
    is_over = 1;
    pthread_join(thread, 0);
    printf("%d errors\n", errors);
}

int main(void)
{
    flags();
    exchanged();
    if (!geteuid())
        users();
    return 0;
}
