/* epoll, poll and select with files of the host: sockets on the loopback interface. */
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static char page[65536];
static struct epoll_event events[64];

static int control(int epoll, int operation, int fd, uint32_t mask) {
    struct epoll_event event = {.events = mask, .data.fd = fd};
    return epoll_ctl(epoll, operation, fd, &event);
}

static int add(int epoll, int fd, uint32_t mask) { return control(epoll, EPOLL_CTL_ADD, fd, mask); }

static int modify(int epoll, int fd, uint32_t mask) {
    return control(epoll, EPOLL_CTL_MOD, fd, mask);
}

/* Returns the ready events as "fd:events", sorted by their data, and waits as long. */
static const char *ready_within(int epoll, int milliseconds) {
    static char text[256];
    int count = epoll_wait(epoll, events, 64, milliseconds);
    snprintf(text, sizeof text, "%d", count);
    for (int fd = 0; fd < 64; fd++) {
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == fd) {
                sprintf(text + strlen(text), " %d:%x", fd, events[i].events);
            }
        }
    }
    return text;
}

static const char *ready(int epoll) { return ready_within(epoll, 0); }

static struct sockaddr_in loopback(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* Connects two UDP sockets with each other. */
static int datagrams(int ends[2]) {
    struct sockaddr_in names[2];
    for (int i = 0; i < 2; i++) {
        socklen_t length = sizeof names[i];
        names[i] = loopback();
        ends[i] = socket(AF_INET, SOCK_DGRAM, 0);
        if (bind(ends[i], (struct sockaddr *)&names[i], length) < 0 ||
            getsockname(ends[i], (struct sockaddr *)&names[i], &length) < 0) {
            return -1;
        }
    }
    connect(ends[0], (struct sockaddr *)&names[1], sizeof names[1]);
    return connect(ends[1], (struct sockaddr *)&names[0], sizeof names[0]);
}

static int listener(struct sockaddr_in *name) {
    socklen_t length = sizeof *name;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *name = loopback();
    bind(fd, (struct sockaddr *)name, length);
    listen(fd, 8);
    getsockname(fd, (struct sockaddr *)name, &length);
    return fd;
}

/* Connects two TCP sockets. */
static int streams(int ends[2]) {
    struct sockaddr_in name;
    int listening = listener(&name);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    connect(ends[0], (struct sockaddr *)&name, sizeof name);
    ends[1] = accept(listening, NULL, NULL);
    return close(listening);
}

static void controlling(void) {
    int ends[2];
    struct epoll_event event = {.events = EPOLLIN};
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(modify(3, 4, EPOLLIN));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 4, NULL));
    CALL(add(3, 4, EPOLLIN));
    CALL(add(3, 4, EPOLLIN));
    CALL(modify(3, 5, EPOLLIN));
    CALL(modify(3, 4, EPOLLIN | EPOLLEXCLUSIVE));
    CALL(epoll_ctl(3, 77, 4, &event));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 5, bad));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 5, null));
    CALL(epoll_ctl(99, EPOLL_CTL_ADD, 4, &event));
    CALL(epoll_ctl(4, EPOLL_CTL_ADD, 5, &event));
    CALL(epoll_ctl(4, EPOLL_CTL_ADD, 4, &event));
    CALL(add(3, 5, EPOLLOUT | EPOLLEXCLUSIVE));
    CALL(modify(3, 5, EPOLLOUT));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 5, bad));
    CALL(add(3, 5, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 4, NULL));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 4, NULL));
    CALL(open("/etc/passwd", O_RDONLY));
    CALL(add(3, 6, EPOLLIN));
    CALL(open("/proc/mounts", O_RDONLY));
    CALL(add(3, 7, EPOLLPRI));
    CALL(open("/etc", O_PATH));
    CALL(add(3, 8, EPOLLIN));
    CALL(add(3, 5, EPOLLOUT));
    CALL(epoll_wait(3, events, 0, 0));
    CALL(epoll_wait(3, events, -1, 0));
    CALL(epoll_wait(3, events, INT_MAX, 0));
    CALL(epoll_wait(3, bad, 16, 0));
    CALL(epoll_wait(3, high, 16, 0));
    CALL(epoll_wait(3, events, 16, 0));
    CALL(epoll_wait(4, events, 16, 0));
}

static void levels(void) {
    int ends[2];
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(add(3, 4, EPOLLIN));
    CALL(add(3, 5, EPOLLOUT));
    TEXT(ready(3));
    TEXT(ready(3));
    CALL(write(5, "ab", 2));
    TEXT(ready_within(3, 1000));
    TEXT(ready(3));
    CALL(modify(3, 5, 0));
    TEXT(ready(3));
    CALL(read(4, page, 8));
    TEXT(ready(3));
    CALL(modify(3, 5, EPOLLOUT | EPOLLIN));
    TEXT(ready(3));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 5, NULL));
    TEXT(ready(3));
}

static void edges(void) {
    int ends[2];
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(add(3, 4, EPOLLIN | EPOLLET));
    TEXT(ready(3));
    CALL(write(5, "a", 1));
    TEXT(ready_within(3, 1000));
    TEXT(ready(3));
    CALL(write(5, "b", 1));
    TEXT(ready_within(3, 1000));
    TEXT(ready(3));
    CALL(modify(3, 4, EPOLLIN | EPOLLET));
    TEXT(ready(3));
    TEXT(ready(3));
}

static void once(void) {
    int ends[2];
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(add(3, 4, EPOLLIN | EPOLLONESHOT));
    CALL(write(5, "a", 1));
    TEXT(ready_within(3, 1000));
    TEXT(ready(3));
    CALL(write(5, "b", 1));
    TEXT(ready_within(3, 10));
    CALL(modify(3, 4, EPOLLIN | EPOLLONESHOT));
    TEXT(ready(3));
    TEXT(ready(3));
}

static void hangups(void) {
    int ends[2];
    CALL(epoll_create1(0));
    CALL(streams(ends));
    CALL(add(3, ends[0], EPOLLIN | EPOLLRDHUP));
    CALL(shutdown(ends[1], SHUT_WR));
    TEXT(ready_within(3, 1000));
    CALL(modify(3, ends[0], EPOLLRDHUP | EPOLLET));
    TEXT(ready(3));
    TEXT(ready(3));
    CALL(close(ends[1]));
    CALL(shutdown(ends[0], SHUT_WR));
    CALL(modify(3, ends[0], 0));
    TEXT(ready_within(3, 1000));
}

static void accepting(void) {
    struct sockaddr_in name;
    int listening, client;
    CALL(epoll_create1(0));
    CALL(listening = listener(&name));
    CALL(add(3, listening, EPOLLIN));
    TEXT(ready(3));
    CALL(client = socket(AF_INET, SOCK_STREAM, 0));
    CALL(connect(client, (struct sockaddr *)&name, sizeof name));
    TEXT(ready_within(3, 1000));
    CALL(accept(listening, NULL, NULL));
    TEXT(ready(3));
}

/* The key of a member is the descriptor and the open file. */
static void duplicates(void) {
    int ends[2], others[2];
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(add(3, 4, EPOLLIN));
    CALL(dup(4));
    CALL(modify(3, 6, EPOLLIN));
    CALL(add(3, 6, EPOLLIN));
    CALL(add(3, 6, EPOLLIN));
    CALL(write(5, "x", 1));
    TEXT(ready_within(3, 1000));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 6, NULL));
    TEXT(ready(3));
    CALL(close(4));
    TEXT(ready(3));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 4, NULL));
    CALL(modify(3, 6, EPOLLIN));
    /* The same file at the same number is the old member. */
    CALL(dup(6));
    CALL(add(3, 4, EPOLLIN));
    CALL(modify(3, 4, EPOLLIN | EPOLLOUT));
    TEXT(ready(3));
    CALL(close(4));
    /* Another file at that number is another member. */
    CALL(datagrams(others));
    CALL(add(3, 4, EPOLLOUT));
    CALL(epoll_wait(3, events, 16, 0));
    CALL(close(6));
    TEXT(ready(3));
    CALL(close(4));
    TEXT(ready(3));
}

static void closed_and_reused(void) {
    int ends[2], others[2];
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(add(3, 4, EPOLLIN));
    CALL(write(5, "x", 1));
    TEXT(ready_within(3, 1000));
    CALL(close(4));
    TEXT(ready(3));
    CALL(datagrams(others));
    VALUE(others[0]);
    CALL(write(others[1], "x", 1));
    TEXT(ready_within(3, 10));
    CALL(modify(3, 4, EPOLLIN));
    CALL(add(3, 4, EPOLLIN));
    TEXT(ready_within(3, 1000));
    CALL(eventfd(1, 0));
    CALL(dup2(7, 4));
    TEXT(ready(3));
    CALL(add(3, 4, EPOLLIN));
    TEXT(ready(3));
}

/* Files of both kinds in one set. */
static void mixed(void) {
    int ends[2], ours[2], seen = 0;
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(pipe(ours));
    CALL(add(3, 4, EPOLLIN));
    CALL(add(3, 6, EPOLLIN));
    TEXT(ready(3));
    TEXT(ready_within(3, 10));
    CALL(write(7, "x", 1));
    TEXT(ready(3));
    CALL(write(5, "x", 1));
    TEXT(ready_within(3, 1000));
    for (int i = 0; i < 8; i++) {
        epoll_wait(3, events, 1, 0);
        seen |= 1 << events[0].data.fd;
    }
    VALUE(seen);
    CALL(read(6, page, 1));
    TEXT(ready(3));
    CALL(read(4, page, 1));
    TEXT(ready(3));
    CALL(add(3, 7, EPOLLOUT | EPOLLET));
    CALL(add(3, 5, EPOLLOUT | EPOLLET));
    TEXT(ready(3));
    TEXT(ready(3));
}

static void timers(void) {
    int ends[2];
    struct itimerspec soon = {.it_value.tv_nsec = 20000000};
    struct timespec time = {0, 1500000}, none = {0, 0}, wrong = {0, -1};
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(add(3, 4, EPOLLIN));
    CALL(timerfd_create(CLOCK_MONOTONIC, 0));
    CALL(add(3, 6, EPOLLIN));
    CALL(timerfd_settime(6, 0, &soon, NULL));
    TEXT(ready_within(3, 2000));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 6, NULL));
    long start = now_ms();
    TEXT(ready_within(3, 20));
    VALUE(now_ms() - start >= 19);
    CALL(epoll_pwait2(3, events, 16, &time, NULL));
    CALL(epoll_pwait2(3, events, 16, &none, NULL));
    CALL(epoll_pwait2(3, events, 16, &wrong, NULL));
}

static void nested(void) {
    int ends[2];
    struct pollfd one = {3, POLLIN, 0};
    CALL(epoll_create1(0));
    CALL(epoll_create1(0));
    CALL(add(3, 4, EPOLLIN));
    CALL(datagrams(ends));
    CALL(add(4, 5, EPOLLIN));
    TEXT(ready(3));
    CALL(poll(&one, 1, 0));
    CALL(write(6, "x", 1));
    TEXT(ready_within(3, 1000));
    CALL(poll(&one, 1, 1000));
    VALUE(one.revents);
    TEXT(ready(4));
    CALL(read(5, page, 1));
    TEXT(ready(3));
    CALL(add(3, 6, EPOLLOUT | EPOLLET));
    TEXT(ready(3));
    TEXT(ready(3));
}

struct later {
    int fd, operation;
    pthread_t thread;
};

static void *act_later(void *argument) {
    struct later *later = argument;
    pause_ms(30);
    if (later->operation == 0) {
        write(later->fd, "12345678", 8);
    } else {
        add(3, later->fd, later->operation);
    }
    return NULL;
}

static void begin(struct later *later, int fd, int operation) {
    *later = (struct later){.fd = fd, .operation = operation};
    pthread_create(&later->thread, NULL, act_later, later);
}

static void woken(void) {
    int ends[2], ours[2];
    struct later later, other;
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(pipe(ours));
    CALL(add(3, 4, EPOLLIN));
    begin(&later, 5, 0);
    TEXT(ready_within(3, -1));
    pthread_join(later.thread, NULL);
    CALL(read(4, page, 64));
    /* A file of another kind comes while the thread waits, ready or not. */
    begin(&later, ours[1], EPOLLOUT | EPOLLONESHOT);
    TEXT(ready_within(3, -1));
    pthread_join(later.thread, NULL);
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, ours[1], NULL));
    begin(&later, ours[0], EPOLLIN);
    begin(&other, ours[1], 0);
    TEXT(ready_within(3, 5000));
    pthread_join(later.thread, NULL);
    pthread_join(other.thread, NULL);
    CALL(read(6, page, 64));
    begin(&later, ours[1], 0);
    TEXT(ready_within(3, 5000));
    pthread_join(later.thread, NULL);
    CALL(read(6, page, 64));
    begin(&later, 5, 0);
    TEXT(ready_within(3, 5000));
    pthread_join(later.thread, NULL);
}

/* The first host file comes while a thread waits. */
static void begun_while_waiting(void) {
    int ends[2], ours[2];
    struct later later;
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(pipe(ours));
    CALL(add(3, 6, EPOLLIN));
    begin(&later, 5, EPOLLOUT);
    TEXT(ready_within(3, 5000));
    pthread_join(later.thread, NULL);
}

static void *wait_in_thread(void *argument) {
    struct epoll_event one;
    long count = epoll_wait(3, &one, 1, 5000);
    (void)argument;
    return (void *)(count == 1 ? (long)one.data.fd : -count);
}

/* Each of two waiting threads gets an event of its own, and one of them of each kind. */
static void two_waiters(void) {
    int ends[2], ours[2];
    pthread_t threads[2];
    void *found[2];
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(pipe(ours));
    CALL(add(3, 4, EPOLLIN | EPOLLET));
    CALL(add(3, 6, EPOLLIN | EPOLLET));
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, wait_in_thread, NULL);
    }
    pause_ms(30);
    CALL(write(7, "x", 1));
    CALL(write(5, "x", 1));
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &found[i]);
    }
    VALUE((long)found[0] + (long)found[1]);
}

static void many(void) {
    int ends[2];
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    for (int i = 0; i < 150; i++) {
        int fd = dup(4);
        add(3, fd, EPOLLOUT);
    }
    struct epoll_event all[200];
    CALL(epoll_wait(3, all, 200, 0));
    CALL(epoll_wait(3, all, 100, 0));
    CALL(eventfd(1, 0));
    CALL(add(3, 156, EPOLLIN));
    CALL(epoll_wait(3, all, 200, 0));
    CALL(close(156));
    CALL(close_range(6, 200, 0));
    CALL(close(4));
    CALL(epoll_wait(3, all, 200, 0));
}

static void standard_input(void) {
    int ends[2];
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(add(3, 4, EPOLLIN));
    CALL(add(3, 4, EPOLLIN));
    CALL(close(0));
    CALL(dup(5));
    CALL(add(3, 0, EPOLLOUT));
    TEXT(ready(3));
    CALL(close(0));
    TEXT(ready(3));
}

static void in_child(void) {
    int ends[2], ours[2];
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(pipe(ours));
    CALL(add(3, 4, EPOLLIN));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(8);
        struct later later;
        CALL(write(5, "x", 1));
        TEXT(ready_within(3, 1000));
        CALL(read(4, page, 8));
        TEXT(ready(3));
        /* A file of its own wakes it, in a set that was the parent's. */
        int own[2];
        CALL(pipe(own));
        CALL(add(3, own[0], EPOLLIN));
        begin(&later, own[1], 0);
        TEXT(ready_within(3, 5000));
        pthread_join(later.thread, NULL);
        CALL(close(4));
        CALL(close(3));
        fflush(stdout);
        _exit(0);
    }
    int status = wait_for(child);
    VALUE(status);
    /* The child's close of its descriptors removes nothing here. */
    TEXT(ready(3));
    CALL(write(5, "y", 1));
    TEXT(ready_within(3, 1000));
    CALL(read(4, page, 8));
    struct later later;
    CALL(add(3, 6, EPOLLIN));
    begin(&later, 7, 0);
    TEXT(ready_within(3, 5000));
    pthread_join(later.thread, NULL);
}

static void polling(void) {
    int ends[2];
    struct later later;
    struct timespec soon = {0, 20000000};
    CALL(datagrams(ends));
    struct pollfd set[4] = {{3, POLLIN, 0}, {-5, POLLIN, 7}, {4, POLLIN | POLLOUT, 9}};
    CALL(poll(set, 2, 0));
    CALL(poll(set, 2, 10));
    CALL(ppoll(set, 2, &soon, NULL));
    CALL(poll(set, 3, -1));
    VALUE(set[0].revents);
    VALUE(set[1].revents);
    VALUE(set[2].revents);
    begin(&later, 4, 0);
    CALL(poll(set, 2, 5000));
    VALUE(set[0].revents);
    pthread_join(later.thread, NULL);
    set[3] = (struct pollfd){99, POLLIN, 0};
    CALL(poll(set, 4, -1));
    VALUE(set[3].revents);
    CALL(open("/etc/passwd", O_RDONLY));
    set[0] = (struct pollfd){5, POLLIN | POLLOUT, 0};
    CALL(poll(set, 1, -1));
    VALUE(set[0].revents);
}

static const char *bits(const fd_set *set) {
    static char text[128];
    text[0] = 0;
    for (int fd = 0; fd < 40; fd++) {
        if (FD_ISSET(fd, set)) {
            sprintf(text + strlen(text), "%d ", fd);
        }
    }
    return text;
}

static void selecting(void) {
    int ends[2], pair[2];
    struct later later;
    struct timeval soon = {0, 20000}, long_time = {5, 0};
    fd_set in, out, except;
    CALL(datagrams(ends));
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_ZERO(&except);
    FD_SET(3, &in);
    FD_SET(30, &in);
    CALL(select(20, &in, NULL, NULL, &soon));
    TEXT(bits(&in));
    FD_SET(3, &in);
    FD_SET(3, &out);
    FD_SET(4, &out);
    FD_SET(4, &except);
    CALL(select(5, &in, &out, &except, NULL));
    TEXT(bits(&in));
    TEXT(bits(&out));
    TEXT(bits(&except));
    FD_SET(3, &in);
    begin(&later, 4, 0);
    CALL(select(5, &in, NULL, NULL, &long_time));
    TEXT(bits(&in));
    pthread_join(later.thread, NULL);
    FD_SET(9, &in);
    CALL(select(10, &in, NULL, NULL, NULL));
    /* A hangup alone stands for no set of writers. */
    CALL(streams(pair));
    FD_ZERO(&in);
    FD_SET(pair[0], &except);
    CALL(shutdown(pair[0], SHUT_RDWR));
    CALL(shutdown(pair[1], SHUT_RDWR));
    soon = (struct timeval){0, 20000};
    CALL(select(20, NULL, NULL, &except, &soon));
    TEXT(bits(&except));
}

static void of_signal(int signal) { (void)signal; }

/* A signal that is blocked, and arrives in the wait alone. */
static void masks(void) {
    int ends[2];
    sigset_t alarm_set, none;
    struct sigaction action = {.sa_handler = of_signal, .sa_flags = SA_RESTART};
    struct pollfd one;
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(add(3, 4, EPOLLIN));
    sigemptyset(&none);
    sigemptyset(&alarm_set);
    sigaddset(&alarm_set, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    sigprocmask(SIG_BLOCK, &alarm_set, NULL);
    raise(SIGALRM);
    CALL(epoll_wait(3, events, 16, 10));
    CALL(epoll_pwait(3, events, 16, 5000, &none));
    raise(SIGALRM);
    one = (struct pollfd){4, POLLIN, 0};
    CALL(poll(&one, 1, 10));
    CALL(ppoll(&one, 1, NULL, &none));
    CALL(epoll_wait(3, events, 16, 10));
}

static volatile int handled;

static void count_signal(int signal) {
    (void)signal;
    handled++;
}

/* Blocks SIGALRM, and counts the runs of its handler. */
static void begin_masks(void) {
    sigset_t set;
    struct sigaction action = {.sa_handler = count_signal};
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Sends SIGALRM, which stays pending. */
static void send_signal(void) {
    handled = 0;
    raise(SIGALRM);
}

/* Returns how often the handler has run, and whether the signal is pending. Takes the signal. */
static int seen_signals(void) {
    struct timespec none = {0, 0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    bool is_pending = sigtimedwait(&set, NULL, &none) == SIGALRM;
    return 10 * is_pending + handled;
}

/* The mask applies also if a member of ours was ready before the wait. */
static void masks_after_events(void) {
    int ends[2], ours[2];
    sigset_t none;
    struct timespec long_time = {2, 0};
    sigemptyset(&none);
    begin_masks();
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(pipe(ours));
    CALL(add(3, 4, EPOLLIN));
    CALL(add(3, 6, EPOLLIN));
    CALL(write(7, "x", 1));
    TEXT(ready(3));
    CALL(read(6, page, 1));
    send_signal();
    CALL(epoll_pwait(3, events, 16, 2000, &none));
    VALUE(seen_signals());
    CALL(write(7, "x", 1));
    TEXT(ready(3));
    CALL(read(6, page, 1));
    send_signal();
    CALL(epoll_pwait2(3, events, 16, &long_time, &none));
    VALUE(seen_signals());
}

/* Waits for `fd` in all ways with a pending signal that the mask unblocks. */
static void wait_with_signal(int epoll, int fd, long nanoseconds) {
    sigset_t none;
    struct timespec time = {0, nanoseconds};
    struct pollfd one = {fd, POLLIN, 0};
    fd_set in;
    sigemptyset(&none);
    send_signal();
    CALL(epoll_pwait2(epoll, events, 16, &time, &none));
    VALUE(seen_signals());
    send_signal();
    CALL(ppoll(&one, 1, &time, &none));
    VALUE(seen_signals());
    FD_ZERO(&in);
    FD_SET(fd, &in);
    send_signal();
    CALL(pselect(fd + 1, &in, NULL, NULL, &time, &none));
    VALUE(seen_signals());
}

/* Without time to sleep, files of the host, of ours, and an epoll with both. */
static void masks_without_sleep(void) {
    int ends[2], ours[2];
    begin_masks();
    CALL(epoll_create1(0));
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(pipe(ours));
    CALL(add(3, 5, EPOLLIN));
    CALL(add(3, 7, EPOLLIN));
    CALL(add(4, 7, EPOLLIN));
    for (int nanoseconds = 0; nanoseconds < 2; nanoseconds++) {
        wait_with_signal(3, 5, nanoseconds);
        wait_with_signal(4, 7, nanoseconds);
        wait_with_signal(3, 3, nanoseconds);
        CALL(write(6, "x", 1));
        CALL(write(8, "x", 1));
        wait_with_signal(3, 5, nanoseconds);
        wait_with_signal(4, 7, nanoseconds);
        wait_with_signal(3, 3, nanoseconds);
        CALL(read(5, page, 1));
        CALL(read(7, page, 1));
    }
}

static volatile int is_held, is_let_go;

static void hold_thread(int signal) {
    (void)signal;
    is_held = 1;
    while (!is_let_go) {
        pause_ms(1);
    }
}

/* Begins a thread in epoll_wait that a signal handler keeps from taking a wake-up. */
static void begin_held_waiter(pthread_t *thread) {
    struct sigaction action = {.sa_handler = hold_thread};
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(thread, NULL, wait_in_thread, NULL);
    pause_ms(50);
    pthread_kill(*thread, SIGUSR1);
    while (!is_held) {
        pause_ms(1);
    }
}

/* A call takes the event meanwhile. The next event wakes another thread. */
static void wake_up_not_taken(void) {
    int ends[2], ours[2];
    pthread_t held;
    struct later later;
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(pipe(ours));
    CALL(add(3, 4, EPOLLIN));
    CALL(add(3, 6, EPOLLIN));
    begin_held_waiter(&held);
    CALL(write(7, "x", 1));
    TEXT(ready(3));
    CALL(read(6, page, 8));
    long start = now_ms();
    begin(&later, 7, 0);
    TEXT(ready_within(3, 3000));
    VALUE(now_ms() - start < 2000);
    pthread_join(later.thread, NULL);
    is_let_go = 1;
    pthread_join(held, NULL);
}

/* A wake-up that is left over does not take the room of an event. */
static void wake_up_in_small_room(void) {
    int ends[2], ours[2];
    pthread_t held;
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(pipe(ours));
    CALL(add(3, 4, EPOLLIN));
    CALL(add(3, 6, EPOLLIN));
    begin_held_waiter(&held);
    CALL(write(7, "x", 1));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 6, NULL));
    CALL(write(5, "x", 1));
    CALL(epoll_wait(3, events, 1, 0));
    VALUE(events[0].data.fd);
    is_let_go = 1;
    pthread_join(held, NULL);
}

/* A wake-up that is on its way at a fork is the parent's. */
static void wake_up_at_fork(void) {
    int ends[2], ours[2];
    pthread_t held;
    struct later later;
    sigset_t set;
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(pipe(ours));
    CALL(add(3, 4, EPOLLIN));
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    CALL(add(3, 6, EPOLLIN | EPOLLET));
    begin_held_waiter(&held);
    CALL(write(7, "x", 1));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int own[2];
        struct timespec patience = {5, 0};
        alarm(8);
        sigtimedwait(&set, NULL, &patience);
        CALL(pipe(own));
        CALL(add(3, own[0], EPOLLIN));
        CALL(epoll_ctl(3, EPOLL_CTL_DEL, 6, NULL));
        long start = now_ms();
        begin(&later, own[1], 0);
        TEXT(ready_within(3, 3000));
        VALUE(now_ms() - start < 2000);
        pthread_join(later.thread, NULL);
        fflush(stdout);
        _exit(0);
    }
    is_let_go = 1;
    pthread_join(held, NULL);
    /* Silently: the child writes its lines first. */
    read(6, page, 8);
    for (int i = 0; i < 3; i++) {
        epoll_wait(3, events, 16, 0);
    }
    kill(child, SIGUSR2);
    int status = wait_for(child);
    VALUE(status);
}

/* Returns the lines of the members, without the numbers that differ. */
static const char *shown(int fd) {
    static char text[1024];
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    int file = open(path, O_RDONLY);
    long count = read(file, page, sizeof page - 1);
    page[count < 0 ? 0 : count] = 0;
    close(file);
    text[0] = 0;
    for (char *line = strtok(page, "\n"); line; line = strtok(NULL, "\n")) {
        char *end = strstr(line, " pos:");
        if (strncmp(line, "tfd:", 4) == 0 && end) {
            strncat(text, line, end - line);
        }
    }
    return text;
}

static void described(void) {
    int ends[2];
    CALL(epoll_create1(0));
    CALL(datagrams(ends));
    CALL(add(3, 4, EPOLLIN));
    TEXT(shown(3));
    CALL(dup(5));
    CALL(close(4));
    CALL(add(3, 5, EPOLLIN | EPOLLET));
    TEXT(shown(3));
}

static const struct section sections[] = {
    {"controlling", controlling},
    {"levels", levels},
    {"edges", edges},
    {"once", once},
    {"hangups", hangups},
    {"accepting", accepting},
    {"duplicates", duplicates},
    {"closed_and_reused", closed_and_reused},
    {"mixed", mixed},
    {"timers", timers},
    {"nested", nested},
    {"woken", woken},
    {"begun_while_waiting", begun_while_waiting},
    {"two_waiters", two_waiters},
    {"many", many},
    {"standard_input", standard_input},
    {"in_child", in_child},
    {"polling", polling},
    {"selecting", selecting},
    {"masks", masks},
    {"masks_after_events", masks_after_events},
    {"masks_without_sleep", masks_without_sleep},
    {"wake_up_not_taken", wake_up_not_taken},
    {"wake_up_in_small_room", wake_up_in_small_room},
    {"wake_up_at_fork", wake_up_at_fork},
    {"described", described},
    {NULL, NULL},
};
const struct theme host_epolls = {"host_epolls", sections};
