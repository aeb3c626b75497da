/* File locks: flock, process locks, and open-file-description locks. All requests are from one
 * process, so process locks never conflict; those of open file descriptions do. */
#include "check.h"

static struct flock part(short type, off_t start, off_t length) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
}

static int ask(int fd, int command, short type, off_t start, off_t length) {
    struct flock lock = part(type, start, length);
    return fcntl(fd, command, &lock);
}

/* Returns the lock that conflicts with one of the open file, as a string. */
static const char *obstacle(int fd, short type, off_t start, off_t length) {
    static char text[64];
    struct flock lock = part(type, start, length);
    if (fcntl(fd, F_OFD_GETLK, &lock) != 0) {
        return strerrorname_np(errno);
    }
    if (lock.l_type == F_UNLCK) {
        return "none";
    }
    snprintf(text, sizeof text, "%s %ld+%ld pid %d", lock.l_type == F_RDLCK ? "read" : "write",
             (long)lock.l_start, (long)lock.l_len, lock.l_pid);
    return text;
}

static void *unlock_slowly(void *argument) {
    pause_ms(30);
    flock(*(int *)argument, LOCK_UN);
    return NULL;
}

static void whole(void) {
    pthread_t thread;
    int ends[2];
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(open("file", O_RDONLY));
    CALL(flock(3, LOCK_SH));
    CALL(flock(4, LOCK_SH | LOCK_NB));
    CALL(flock(4, LOCK_EX | LOCK_NB));
    CALL(flock(3, LOCK_UN));
    CALL(flock(4, LOCK_EX | LOCK_NB));
    CALL(flock(3, LOCK_SH | LOCK_NB));
    CALL(dup(4));
    CALL(flock(5, LOCK_EX | LOCK_NB));
    CALL(close(4));
    CALL(flock(3, LOCK_SH | LOCK_NB));
    CALL(flock(5, LOCK_SH));
    CALL(flock(3, LOCK_SH | LOCK_NB));
    CALL(flock(5, LOCK_UN));
    CALL(flock(5, LOCK_UN));
    CALL(flock(3, LOCK_EX));
    int holder = 3;
    pthread_create(&thread, NULL, unlock_slowly, &holder);
    CALL(flock(5, LOCK_EX));
    pthread_join(thread, NULL);
    CALL(close(5));
    CALL(flock(3, LOCK_EX | LOCK_NB));
    CALL(flock(3, 0));
    CALL(flock(3, LOCK_NB));
    CALL(flock(3, LOCK_SH | LOCK_EX));
    CALL(flock(3, 77));
    CALL(flock(3, -1));
    CALL(flock(99, 32 | LOCK_SH));
    CALL(flock(99, LOCK_SH));
    CALL(flock(-1, LOCK_SH));
    CALL(flock(99, 77));
    CALL(pipe(ends));
    CALL(flock(ends[0], LOCK_EX | LOCK_NB));
    CALL(open(".", O_RDONLY));
    CALL(flock(6, LOCK_EX | LOCK_NB));
}

static void of_open_files(void) {
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(open("file", O_RDWR));
    CALL(ask(3, F_OFD_SETLK, F_WRLCK, 10, 10));
    TEXT(obstacle(4, F_RDLCK, 0, 0));
    TEXT(obstacle(4, F_RDLCK, 0, 10));
    TEXT(obstacle(3, F_RDLCK, 0, 0));
    CALL(ask(4, F_OFD_SETLK, F_RDLCK, 15, 1));
    CALL(ask(4, F_OFD_SETLK, F_RDLCK, 20, 5));
    CALL(ask(3, F_OFD_SETLK, F_RDLCK, 20, 5));
    CALL(ask(3, F_OFD_SETLK, F_WRLCK, 20, 5));
    CALL(ask(3, F_OFD_SETLK, F_UNLCK, 12, 4));
    TEXT(obstacle(4, F_WRLCK, 0, 12));
    TEXT(obstacle(4, F_WRLCK, 12, 100));
    TEXT(obstacle(4, F_WRLCK, 12, 4));
    CALL(ask(3, F_OFD_SETLK, F_RDLCK, 10, 1));
    TEXT(obstacle(4, F_WRLCK, 0, 0));
    TEXT(obstacle(4, F_WRLCK, 11, 0));
    CALL(dup(3));
    CALL(ask(5, F_OFD_SETLK, F_WRLCK, 0, 0));
    CALL(ask(4, F_OFD_SETLK, F_UNLCK, 0, 0));
    CALL(ask(5, F_OFD_SETLK, F_WRLCK, 0, 0));
    CALL(close(3));
    TEXT(obstacle(4, F_RDLCK, 0, 0));
    CALL(close(5));
    TEXT(obstacle(4, F_RDLCK, 0, 0));
    CALL(ask(99, F_OFD_SETLK, F_RDLCK, 0, 0));
    CALL(ask(4, F_OFD_SETLK, 77, 0, 0));
    struct flock lock = part(F_RDLCK, 0, 0);
    lock.l_pid = 1;
    CALL(fcntl(4, F_OFD_SETLK, &lock));
    CALL(fcntl(4, F_OFD_SETLK, bad));
    CALL(open("file", O_RDWR));
    CALL(ask(4, F_OFD_SETLKW, F_WRLCK, 0, 1));
}

static void of_processes(void) {
    int ends[2];
    struct flock lock;
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(write(3, "0123456789", 10));
    CALL(ask(3, F_SETLK, F_WRLCK, 0, 5));
    CALL(ask(3, F_SETLK, F_RDLCK, 2, 1));
    CALL(open("file", O_RDWR));
    CALL(ask(4, F_SETLK, F_WRLCK, 0, 0));
    lock = part(F_WRLCK, 0, 0);
    CALL(fcntl(4, F_GETLK, &lock));
    VALUE(lock.l_type == F_UNLCK);
    /* A lock of an open file description sees a process lock. */
    TEXT(strstr(obstacle(4, F_RDLCK, 0, 0), "write 0+0 pid ") ? "the process" : "no");
    CALL(ask(3, F_OFD_SETLK, F_WRLCK, 0, 1));
    /* A process lock is released when any descriptor of the file is closed. */
    CALL(close(4));
    CALL(open("file", O_RDWR));
    CALL(ask(4, F_OFD_SETLK, F_WRLCK, 0, 1));
    CALL(ask(3, F_SETLK, F_WRLCK, 0, 1));
    lock = part(F_WRLCK, 0, 0);
    CALL(fcntl(3, F_GETLK, &lock));
    VALUE(lock.l_type == F_WRLCK);
    VALUE(lock.l_pid);
    VALUE(lock.l_len);
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -2, .l_len = 1};
    CALL(fcntl(3, F_SETLK, &lock));
    TEXT(strstr(obstacle(4, F_RDLCK, 0, 0), "write 8+1") ? "8+1" : "no");
    CALL(lseek(3, 5, SEEK_SET));
    lock = (struct flock){.l_type = F_UNLCK, .l_whence = SEEK_CUR, .l_start = 4, .l_len = -2};
    CALL(fcntl(3, F_SETLK, &lock));
    TEXT(strstr(obstacle(4, F_RDLCK, 0, 0), "write 8+1") ? "8+1" : "no");
    CALL(ask(3, F_SETLK, F_WRLCK, -1, 0));
    CALL(ask(3, F_SETLK, F_WRLCK, 0, -1));
    CALL(ask(3, F_SETLK, F_WRLCK, INT64_MAX, 2));
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = 77};
    CALL(fcntl(3, F_SETLK, &lock));
    CALL(ask(3, F_SETLK, 77, 0, 0));
    CALL(ask(3, F_GETLK, F_UNLCK, 0, 0));
    CALL(ask(99, F_SETLK, F_WRLCK, 0, 0));
    CALL(fcntl(3, F_SETLK, bad));
    CALL(fcntl(3, F_GETLK, bad));
    CALL(open("file", O_RDONLY));
    CALL(ask(5, F_SETLK, F_WRLCK, 0, 0));
    CALL(ask(5, F_SETLK, F_RDLCK, 50, 1));
    CALL(open("file", O_WRONLY));
    CALL(ask(6, F_SETLK, F_RDLCK, 60, 1));
    CALL(ask(6, F_SETLK, F_WRLCK, 60, 1));
    CALL(pipe(ends));
    CALL(ask(ends[0], F_SETLK, F_RDLCK, 0, 0));
}

static void of_lockf(void) {
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(open("file", O_RDWR));
    CALL(lseek(3, 10, SEEK_SET));
    CALL(lockf(3, F_LOCK, 10));
    TEXT(strstr(obstacle(4, F_RDLCK, 0, 0), "write 10+10") ? "10+10" : "no");
    CALL(lockf(3, F_TEST, 10));
    CALL(lockf(3, F_TLOCK, -5));
    TEXT(strstr(obstacle(4, F_RDLCK, 0, 0), "write 5+15") ? "5+15" : "no");
    CALL(lockf(3, F_ULOCK, 0));
    TEXT(strstr(obstacle(4, F_RDLCK, 0, 0), "write 5+5") ? "5+5" : "no");
    CALL(ask(4, F_OFD_SETLK, F_WRLCK, 30, 1));
    CALL(lockf(3, F_TLOCK, 0));
    CALL(lockf(3, F_TEST, 0));
    CALL(lockf(3, F_TEST, 5));
    CALL(lockf(3, 77, 0));
    CALL(lockf(99, F_LOCK, 0));
    CALL(open("file", O_RDONLY));
    CALL(lockf(5, F_TLOCK, 1));
}

/* Files without a name have locks too. */
static void of_others(void) {
    int ends[2];
    CALL(pipe(ends));
    CALL(flock(3, LOCK_EX | LOCK_NB));
    CALL(flock(4, LOCK_SH | LOCK_NB));
    CALL(flock(3, LOCK_UN));
    CALL(flock(4, LOCK_SH | LOCK_NB));
    CALL(ask(3, F_SETLK, F_RDLCK, 0, 5));
    CALL(ask(3, F_SETLK, F_WRLCK, 0, 5));
    CALL(ask(4, F_SETLK, F_WRLCK, 0, 5));
    CALL(ask(3, F_OFD_SETLK, F_RDLCK, 4, 5));
    CALL(ask(3, F_OFD_SETLK, F_RDLCK, 5, 5));
    CALL(lockf(4, F_TLOCK, 0));
    CALL(ask(3, F_OFD_GETLK, F_RDLCK, 0, 1));
    CALL(close(4));
    CALL(ask(3, F_OFD_SETLK, F_RDLCK, 0, 5));
    CALL(close(3));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(flock(3, LOCK_EX | LOCK_NB));
    CALL(flock(4, LOCK_EX | LOCK_NB));
    CALL(ask(3, F_SETLK, F_WRLCK, 0, 0));
    CALL(ask(4, F_OFD_SETLK, F_WRLCK, 0, 0));
    CALL(fcntl(3, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_CUR}));
    CALL(fcntl(3, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_END}));
    CALL(eventfd(0, 0));
    CALL(timerfd_create(CLOCK_MONOTONIC, 0));
    CALL(epoll_create1(0));
    CALL(flock(5, LOCK_EX | LOCK_NB));
    CALL(flock(6, LOCK_SH | LOCK_NB));
    CALL(flock(5, LOCK_UN));
    CALL(flock(6, LOCK_EX | LOCK_NB));
    CALL(flock(7, LOCK_SH | LOCK_NB));
    CALL(ask(5, F_OFD_SETLK, F_WRLCK, 0, 1));
    CALL(ask(7, F_OFD_SETLK, F_RDLCK, 0, 1));
    CALL(fcntl(7, F_OFD_SETLK, &(struct flock){.l_type = F_RDLCK, .l_whence = SEEK_END}));
    CALL(close(5));
    CALL(ask(7, F_OFD_SETLK, F_RDLCK, 0, 1));
    CALL(mkfifo("fifo", 0644));
    CALL(open("fifo", O_RDWR));
    CALL(open("fifo", O_RDWR));
    CALL(flock(5, LOCK_EX | LOCK_NB));
    CALL(flock(8, LOCK_SH | LOCK_NB));
}

/* lockf over a read lock of its own, and of another open file. */
static void of_own_read_locks(void) {
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(open("file", O_RDWR));
    CALL(ask(3, F_SETLK, F_RDLCK, 0, 10));
    CALL(lockf(3, F_TEST, 10));
    CALL(lockf(3, F_TLOCK, 5));
    CALL(ask(4, F_OFD_GETLK, F_RDLCK, 2, 1));
    CALL(ask(4, F_OFD_GETLK, F_RDLCK, 7, 1));
    CALL(ask(4, F_OFD_GETLK, F_WRLCK, 7, 1));
    CALL(lockf(3, F_ULOCK, 2));
    CALL(ask(4, F_OFD_GETLK, F_WRLCK, 0, 1));
    CALL(ask(4, F_OFD_GETLK, F_WRLCK, 0, 0));
    CALL(ask(3, F_SETLK, F_UNLCK, 0, 0));
    CALL(ask(4, F_OFD_SETLK, F_RDLCK, 0, 10));
    CALL(lockf(3, F_TEST, 10));
    CALL(lockf(3, F_TLOCK, 10));
    CALL(ask(4, F_OFD_SETLK, F_WRLCK, 0, 10));
    CALL(lockf(3, F_TEST, 10));
}

static void leases(void) {
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(fcntl(3, F_GETOWN));
    CALL(fcntl(3, F_SETOWN, getpid()));
    CALL(fcntl(3, F_GETSIG));
    CALL(fcntl(3, F_GETLEASE));
    CALL(fcntl(3, F_NOTIFY, 0));
}

static const struct section sections[] = {
    {"whole", whole},
    {"of_open_files", of_open_files},
    {"of_processes", of_processes},
    {"of_lockf", of_lockf},
    {"of_others", of_others},
    {"of_own_read_locks", of_own_read_locks},
    {"leases", leases},
    {NULL, NULL},
};
const struct theme locks = {"locks", sections};
