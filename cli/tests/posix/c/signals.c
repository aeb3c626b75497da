/* Signals about input and output: F_SETOWN, F_SETSIG, O_ASYNC. All are blocked, so that each check
 * takes what was sent. */
#include "check.h"

#include <asm/sockios.h>

static sigset_t all;

/* Blocks SIGIO and the first real-time signals, alone in a group of processes. */
static void begin(void) {
    setpgid(0, 0);
    sigemptyset(&all);
    sigaddset(&all, SIGIO);
    for (int at = 0; at < 8; at++) {
        sigaddset(&all, SIGRTMIN + at);
    }
    sigprocmask(SIG_BLOCK, &all, NULL);
}

/* Has a file send a signal to this process. */
static void arm(int fd, int signal) {
    fcntl(fd, F_SETOWN, getpid());
    fcntl(fd, F_SETSIG, signal);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC);
}

/* Returns the pending signals as "name code band fd". */
static const char *pending(void) {
    static char text[256];
    siginfo_t info;
    size_t length = 0;
    text[0] = 0;
    while (length < sizeof text - 40) {
        memset(&info, 0, sizeof info);
        int signal = sigtimedwait(&all, &info, &(struct timespec){0, 0});
        if (signal < 0) {
            break;
        }
        const char *name = signal == SIGIO ? "IO " : signal == SIGRTMIN ? "A " : "B ";
        length += snprintf(text + length, sizeof text - length, "%s%d %lx %d, ", name,
                           info.si_code, info.si_band, info.si_fd);
    }
    return text;
}

/* Returns the kind and the ID of an owner: 1 for this process, 2 for its group. */
static long owner(int fd) {
    struct f_owner_ex ex = {-1, -1};
    if (fcntl(fd, F_GETOWN_EX, &ex) != 0) {
        return -1;
    }
    return ex.type * 10 + (ex.pid == getpid()) + (ex.pid == getpgrp()) * 2;
}

static long set_owner(int fd, int type, pid_t pid) {
    struct f_owner_ex ex = {type, pid};
    return fcntl(fd, F_SETOWN_EX, &ex);
}

static long request(int fd, unsigned long request, int argument) {
    return ioctl(fd, request, &argument);
}

static void of_owners(void) {
    int fds[2];
    begin();
    CALL(pipe(fds));
    CALL(fcntl(3, F_GETOWN));
    VALUE(owner(3));
    CALL(fcntl(3, F_GETSIG));
    CALL(fcntl(3, F_SETSIG, -1));
    CALL(fcntl(3, F_SETSIG, 65));
    CALL(fcntl(3, F_SETSIG, 64));
    CALL(fcntl(3, F_GETSIG));
    CALL(fcntl(4, F_GETSIG));
    CALL(fcntl(3, F_SETOWN, 1 << 28));
    CALL(fcntl(3, F_SETOWN, -(1 << 28)));
    CALL(fcntl(3, F_SETOWN, INT_MIN));
    CALL(fcntl(3, F_SETOWN, getpid()));
    VALUE(fcntl(3, F_GETOWN) == getpid());
    VALUE(owner(3));
    CALL(fcntl(3, F_SETOWN, -getpgrp()));
    VALUE(fcntl(3, F_GETOWN) == -getpgrp());
    VALUE(owner(3));
    CALL(set_owner(3, F_OWNER_TID, getpid()));
    VALUE(fcntl(3, F_GETOWN) == getpid());
    VALUE(owner(3));
    CALL(set_owner(3, 3, getpid()));
    CALL(set_owner(3, -1, getpid()));
    CALL(set_owner(3, F_OWNER_PID, 1 << 28));
    CALL(set_owner(3, F_OWNER_PID, -1));
    CALL(fcntl(3, F_SETOWN_EX, NULL));
    CALL(fcntl(3, F_GETOWN_EX, NULL));
    CALL(fcntl(3, F_SETOWN, 0));
    CALL(fcntl(3, F_GETOWN));
    VALUE(owner(3));
    CALL(set_owner(3, F_OWNER_PGRP, 0));
    VALUE(owner(3));
    CALL(dup(3));
    CALL(fcntl(5, F_SETOWN, getpid()));
    VALUE(fcntl(3, F_GETOWN) == getpid());
    CALL(close(3));
    CALL(close(5));
    CALL(pipe(fds));
    CALL(fcntl(3, F_GETOWN));
    CALL(open(".", O_PATH));
    CALL(fcntl(6, F_GETOWN));
    CALL(fcntl(6, F_SETOWN, 0));
    CALL(fcntl(6, F_SETSIG, 0));
    CALL(fcntl(99, F_SETOWN, 0));
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(fcntl(7, F_SETOWN, getpid()));
    VALUE(fcntl(7, F_GETOWN) == getpid());
}

static void of_pipes(void) {
    int fds[2];
    char bytes[8192] = {0};
    begin();
    CALL(pipe2(fds, O_NONBLOCK));
    arm(3, SIGRTMIN);
    arm(4, SIGRTMIN + 1);
    CALL(fcntl(3, F_GETFL));
    VALUE(strstr(file_text("/proc/self/fdinfo/3"), "flags:\t024000") != NULL);
    TEXT(pending());
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(write(4, "", 0));
    TEXT(pending());
    CALL(write(4, "xx", 2));
    TEXT(pending());
    CALL(read(3, bytes, 1));
    TEXT(pending());
    CALL(read(3, bytes, 10));
    TEXT(pending());
    CALL(read(3, bytes, 0));
    TEXT(pending());
    CALL(dup(3));
    CALL(fcntl(5, F_SETFL, O_ASYNC | O_NONBLOCK));
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(fcntl(3, F_SETFL, O_NONBLOCK));
    CALL(fcntl(3, F_GETFL));
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(fcntl(5, F_SETFL, O_ASYNC | O_NONBLOCK));
    CALL(close(5));
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(request(3, FIOASYNC, 0));
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(request(3, FIOASYNC, 1));
    CALL(request(3, FIOASYNC, 1));
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(fcntl(3, F_SETSIG, 0));
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(fcntl(3, F_SETSIG, SIGIO));
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(fcntl(3, F_SETOWN, 0));
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(set_owner(3, F_OWNER_TID, getpid()));
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(fcntl(3, F_SETOWN, -getpgrp()));
    CALL(write(4, "x", 1));
    VALUE(pending()[0] == 'I');
    CALL(fcntl(3, F_SETOWN, getpid()));
    CALL(close(4));
    TEXT(pending());
    CALL(close(3));
    CALL(pipe2(fds, O_ASYNC));
    CALL(pipe(fds));
    arm(3, SIGRTMIN);
    arm(4, SIGRTMIN + 1);
    CALL(close(3));
    TEXT(pending());
}

static void of_fifos(void) {
    begin();
    CALL(mkfifo("fifo", 0644));
    CALL(open("fifo", O_RDWR));
    arm(3, SIGRTMIN);
    CALL(write(3, "x", 1));
    TEXT(pending());
    CALL(read(3, (char[1]){0}, 1));
    TEXT(pending());
    CALL(close(3));
    CALL(open("fifo", O_RDWR | O_ASYNC));
    CALL(fcntl(3, F_GETFL));
    arm(3, SIGRTMIN);
    CALL(write(3, "x", 1));
    TEXT(pending());
    CALL(fcntl(3, F_SETFL, 0));
    CALL(fcntl(3, F_GETFL));
}

/* A connection, or two datagram sockets. */
static void of_pairs(void) {
    int types[3] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}, fds[2];
    char bytes[8];
    begin();
    for (int at = 0; at < 3; at++) {
        CALL(socketpair(AF_UNIX, types[at] | SOCK_NONBLOCK, 0, fds));
        arm(3, SIGRTMIN);
        arm(4, SIGRTMIN + 1);
        CALL(send(3, "x", 1, 0));
        TEXT(pending());
        CALL(send(3, "x", 1, 0));
        TEXT(pending());
        CALL(recv(4, bytes, 1, 0));
        CALL(recv(4, bytes, 1, 0));
        CALL(recv(4, bytes, 1, 0));
        TEXT(pending());
        CALL(shutdown(3, SHUT_WR));
        TEXT(pending());
        CALL(shutdown(3, SHUT_RD));
        TEXT(pending());
        CALL(close(3));
        TEXT(pending());
        CALL(close(4));
        CALL(socketpair(AF_UNIX, types[at] | SOCK_NONBLOCK, 0, fds));
        arm(3, SIGRTMIN);
        arm(4, SIGRTMIN + 1);
        CALL(shutdown(4, SHUT_RDWR));
        TEXT(pending());
        CALL(close(4));
        CALL(close(3));
    }
}

static void of_room(void) {
    int fds[2];
    static char bytes[4096];
    begin();
    CALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds));
    arm(3, SIGRTMIN);
    while (write(3, bytes, sizeof bytes) > 0) {
    }
    TEXT(pending());
    while (read(4, bytes, sizeof bytes) > 0) {
    }
    TEXT(pending());
}

static void of_listeners(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int owner = 0;
    begin();
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(3, (struct sockaddr *)&name, sizeof name));
    CALL(listen(3, 5));
    CALL(request(3, FIOSETOWN, getpid()));
    CALL(ioctl(3, FIOGETOWN, &owner));
    VALUE(owner == getpid());
    CALL(request(3, SIOCSPGRP, -getpgrp()));
    CALL(ioctl(3, SIOCGPGRP, &owner));
    VALUE(owner == -getpgrp());
    CALL(request(3, SIOCSPGRP, 1 << 28));
    CALL(ioctl(3, SIOCSPGRP, NULL));
    CALL(ioctl(3, SIOCGPGRP, NULL));
    arm(3, SIGRTMIN);
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    arm(4, SIGRTMIN + 1);
    CALL(connect(4, (struct sockaddr *)&name, sizeof name));
    TEXT(pending());
    CALL(accept(3, NULL, NULL));
    CALL(fcntl(5, F_GETFL));
    CALL(fcntl(5, F_GETOWN));
    CALL(write(5, "x", 1));
    TEXT(pending());
    CALL(close(5));
    TEXT(pending());
}

/* Files that send no signals. */
static void of_others(void) {
    begin();
    CALL(eventfd(0, EFD_NONBLOCK));
    CALL(fcntl(3, F_SETOWN, getpid()));
    CALL(fcntl(3, F_SETFL, O_ASYNC | O_NONBLOCK));
    CALL(fcntl(3, F_GETFL));
    CALL(request(3, FIOASYNC, 0));
    CALL(request(3, FIOASYNC, 1));
    CALL(ioctl(3, FIOASYNC, NULL));
    CALL(request(3, FIOSETOWN, 0));
    CALL(request(3, SIOCGPGRP, 0));
    CALL(open("file", O_RDWR | O_CREAT | O_ASYNC, 0644));
    CALL(fcntl(4, F_GETFL));
    CALL(request(4, FIOASYNC, 1));
    CALL(request(4, FIOASYNC, 0));
    CALL(fcntl(4, F_SETFL, 0));
    CALL(fcntl(4, F_GETFL));
    CALL(request(4, FIOSETOWN, 0));
}

/* An owner that has ended. */
static void of_ended_owners(void) {
    int fds[2];
    struct f_owner_ex ex = {-1, -1};
    begin();
    CALL(pipe(fds));
    arm(3, SIGRTMIN);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(8);
        pause();
        _exit(0);
    }
    CALL(fcntl(3, F_SETOWN, child));
    VALUE(fcntl(3, F_GETOWN) == child);
    kill(child, SIGKILL);
    VALUE(wait_for(child));
    CALL(fcntl(3, F_GETOWN));
    CALL(fcntl(3, F_GETOWN_EX, &ex));
    VALUE(ex.type);
    VALUE(ex.pid);
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(fcntl(3, F_SETOWN, getpid()));
    CALL(write(4, "x", 1));
    TEXT(pending());
}

/* If no more signals can be queued, SIGIO is sent instead. */
static void of_full_queues(void) {
    int fds[2];
    struct rlimit limit;
    begin();
    CALL(pipe(fds));
    arm(3, SIGRTMIN);
    CALL(getrlimit(RLIMIT_SIGPENDING, &limit));
    limit.rlim_cur = 0;
    CALL(setrlimit(RLIMIT_SIGPENDING, &limit));
    CALL(write(4, "x", 1));
    TEXT(pending());
    CALL(set_owner(3, F_OWNER_TID, gettid()));
    CALL(write(4, "x", 1));
    TEXT(pending());
}

static const struct section sections[] = {
    {"of_ended_owners", of_ended_owners}, {"of_full_queues", of_full_queues},
    {"of_owners", of_owners}, {"of_pipes", of_pipes},         {"of_fifos", of_fifos},
    {"of_pairs", of_pairs},   {"of_room", of_room},           {"of_listeners", of_listeners},
    {"of_others", of_others}, {NULL, NULL},
};
const struct theme signals = {"signals", sections};
