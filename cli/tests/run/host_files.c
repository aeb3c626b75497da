// Record locks on files of the host, which end at a close.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHOW(...) show(#__VA_ARGS__, (errno = 0, (long)(__VA_ARGS__)))

static void show(const char *call, long result) {
    printf("%s: %ld %s\n", call, result, result == -1 ? strerrorname_np(errno) : "");
}

// Returns who has a lock on the whole file.
static const char *owner(int fd) {
    struct flock lock = {.l_type = F_WRLCK};
    if (fcntl(fd, F_OFD_GETLK, &lock))
        return strerrorname_np(errno);
    return lock.l_type == F_UNLCK ? "none" : lock.l_pid == getpid() ? "the process" : "an open file";
}

static void locks(void) {
    struct flock whole = {.l_type = F_WRLCK};
    int file = open("file", O_CREAT | O_RDWR, 0600), other = open("file", O_RDWR), on = open("file", O_RDWR);
#define OWNER(...) (__VA_ARGS__, printf("%s: %s\n", #__VA_ARGS__, owner(on)))
    OWNER(fcntl(file, F_SETLK, &whole));
    OWNER(close(open("file", O_PATH)));
    OWNER(close(dup(0)));
    OWNER(close(dup(other)));
    OWNER(fcntl(file, F_SETLK, &whole));
    int copy = dup(other);
    OWNER(dup2(0, copy));
    OWNER(fcntl(file, F_SETLK, &whole));
    copy = dup(file);
    OWNER(close_range(copy, copy, CLOSE_RANGE_CLOEXEC));
    OWNER(close_range(copy, copy, 0));
    OWNER(fcntl(file, F_OFD_SETLK, &whole));
    OWNER(close(dup(file)));
    copy = dup(file);
    OWNER(close(file));
    OWNER(close(copy));
    // Another process gets it.
    OWNER(fcntl(other, F_SETLKW, &whole));
    OWNER(close(dup(other)));
    fflush(stdout);
    if (fork() == 0)
        _exit(fcntl(other, F_SETLK, &whole) ? errno : 0);
    int status;
    SHOW(wait(&status) > 0);
    SHOW(WEXITSTATUS(status));
    SHOW(unlink("file"));
}

int main(void) {
    locks();
}
