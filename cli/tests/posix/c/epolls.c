/* epoll. */
#include "check.h"

static char page[65536];
static struct epoll_event events[16];

static int add(int epoll, int fd, uint32_t mask) {
    struct epoll_event event = {.events = mask, .data.fd = fd};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static int modify(int epoll, int fd, uint32_t mask) {
    struct epoll_event event = {.events = mask, .data.fd = fd};
    return epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
}

/* Returns the ready events as "fd:events", sorted by descriptor. */
static const char *ready(int epoll) {
    static char text[256];
    int count = epoll_wait(epoll, events, 16, 0);
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

static void creating(void) {
    CALL(epoll_create(1));
    CALL(epoll_create(0));
    CALL(epoll_create(-1));
    CALL(epoll_create1(EPOLL_CLOEXEC));
    CALL(fcntl(4, F_GETFD));
    CALL(fcntl(3, F_GETFD));
    VALUE(fcntl(3, F_GETFL) & O_ACCMODE);
    CALL(epoll_create1(1));
    CALL(read(3, page, 1));
    CALL(write(3, page, 1));
    CALL(lseek(3, 0, SEEK_SET));
}

static void controlling(void) {
    int ends[2];
    struct epoll_event event = {.events = EPOLLIN};
    CALL(epoll_create1(0));
    CALL(pipe(ends));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 4, &event));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 4, &event));
    CALL(epoll_ctl(3, EPOLL_CTL_MOD, 5, &event));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 5, &event));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 4, NULL));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 4, NULL));
    CALL(epoll_ctl(3, EPOLL_CTL_MOD, 4, &event));
    CALL(epoll_ctl(3, 77, 4, &event));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 4, bad));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 4, null));
    CALL(epoll_ctl(99, EPOLL_CTL_ADD, 4, &event));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 99, &event));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 99, &event));
    CALL(epoll_ctl(4, EPOLL_CTL_ADD, 5, &event));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 3, &event));
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 6, &event));
    CALL(open(".", O_RDONLY));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 7, &event));
    CALL(open("/dev/null", O_RDWR));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 8, &event));
    CALL(dup(4));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 4, &event));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 9, &event));
    CALL(add(3, 5, EPOLLOUT | EPOLLEXCLUSIVE));
    CALL(modify(3, 5, EPOLLOUT));
    CALL(modify(3, 4, EPOLLIN | EPOLLEXCLUSIVE));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 5, &event));
    CALL(add(3, 5, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT));
}

static void waiting_errors(void) {
    int ends[2];
    struct timespec wrong = {0, -1}, soon = {0, 10000000};
    CALL(epoll_create1(0));
    CALL(pipe(ends));
    CALL(epoll_wait(3, events, 0, 0));
    CALL(epoll_wait(3, events, -1, 0));
    CALL(epoll_wait(3, events, 16, 0));
    CALL(epoll_wait(3, events, INT_MAX, 0));
    CALL(epoll_wait(99, events, 16, 0));
    CALL(epoll_wait(4, events, 16, 0));
    CALL(epoll_wait(3, bad, 16, 0));
    CALL(epoll_wait(3, high, 16, 0));
    CALL(add(3, 5, EPOLLOUT));
    CALL(epoll_wait(3, bad, 16, 0));
    CALL(epoll_wait(3, events, 16, 0));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 5, NULL));
    long start = now_ms();
    CALL(epoll_wait(3, events, 16, 20));
    VALUE(now_ms() - start >= 19);
    CALL(epoll_pwait(3, events, 16, 10, NULL));
    CALL(epoll_pwait2(3, events, 16, &soon, NULL));
    CALL(epoll_pwait2(3, events, 16, &wrong, NULL));
}

static void levels(void) {
    int ends[2];
    CALL(epoll_create1(0));
    CALL(pipe(ends));
    CALL(add(3, 4, EPOLLIN));
    CALL(add(3, 5, EPOLLOUT));
    TEXT(ready(3));
    TEXT(ready(3));
    CALL(write(5, "ab", 2));
    TEXT(ready(3));
    CALL(read(4, page, 1));
    TEXT(ready(3));
    CALL(read(4, page, 1));
    TEXT(ready(3));
    CALL(modify(3, 5, 0));
    TEXT(ready(3));
    CALL(close(5));
    TEXT(ready(3));
    CALL(close(4));
    TEXT(ready(3));
}

static void edges(void) {
    int ends[2];
    CALL(epoll_create1(0));
    CALL(pipe(ends));
    CALL(add(3, 4, EPOLLIN | EPOLLET));
    TEXT(ready(3));
    CALL(write(5, "a", 1));
    TEXT(ready(3));
    TEXT(ready(3));
    CALL(write(5, "b", 1));
    TEXT(ready(3));
    TEXT(ready(3));
    CALL(read(4, page, 1));
    TEXT(ready(3));
    CALL(modify(3, 4, EPOLLIN | EPOLLET));
    TEXT(ready(3));
    TEXT(ready(3));
    CALL(close(5));
    TEXT(ready(3));
    TEXT(ready(3));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(add(3, 5, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET));
    TEXT(ready(3));
    TEXT(ready(3));
    CALL(write(6, "x", 1));
    TEXT(ready(3));
    CALL(shutdown(6, SHUT_WR));
    TEXT(ready(3));
    TEXT(ready(3));
}

static void once(void) {
    int ends[2];
    CALL(epoll_create1(0));
    CALL(pipe(ends));
    CALL(add(3, 4, EPOLLIN | EPOLLONESHOT));
    CALL(write(5, "a", 1));
    TEXT(ready(3));
    TEXT(ready(3));
    CALL(write(5, "b", 1));
    TEXT(ready(3));
    CALL(modify(3, 4, EPOLLIN | EPOLLONESHOT));
    TEXT(ready(3));
    TEXT(ready(3));
}

/* The open file is watched: it stays while any duplicate is open. */
static void duplicates(void) {
    int ends[2];
    CALL(epoll_create1(0));
    CALL(pipe(ends));
    CALL(add(3, 4, EPOLLIN));
    CALL(dup(4));
    CALL(write(5, "x", 1));
    CALL(close(4));
    TEXT(ready(3));
    CALL(epoll_ctl(3, EPOLL_CTL_DEL, 4, NULL));
    CALL(close(6));
    TEXT(ready(3));
    CALL(eventfd(1, 0));
    CALL(add(3, 4, EPOLLIN));
    TEXT(ready(3));
}

static void nested(void) {
    int ends[2];
    struct pollfd one = {3, POLLIN, 0};
    CALL(epoll_create1(0));
    CALL(epoll_create1(0));
    CALL(pipe(ends));
    CALL(add(4, 5, EPOLLIN));
    CALL(add(3, 4, EPOLLIN));
    CALL(add(4, 3, EPOLLIN));
    TEXT(ready(3));
    CALL(poll(&one, 1, 0));
    CALL(write(6, "x", 1));
    TEXT(ready(3));
    CALL(poll(&one, 1, 0));
    VALUE(one.revents);
    TEXT(ready(4));
    CALL(read(5, page, 1));
    TEXT(ready(3));
    CALL(epoll_create1(0));
    CALL(epoll_create1(0));
    CALL(epoll_create1(0));
    CALL(epoll_create1(0));
    CALL(add(7, 3, EPOLLIN));
    CALL(add(8, 7, EPOLLIN));
    CALL(add(9, 8, EPOLLIN));
    CALL(add(10, 9, EPOLLIN));
}

static void *write_slowly(void *argument) {
    pause_ms(30);
    write(*(int *)argument, "x", 1);
    return NULL;
}

static void *add_slowly(void *argument) {
    pause_ms(30);
    add(3, *(int *)argument, EPOLLOUT);
    return NULL;
}

static void woken(void) {
    int ends[2];
    pthread_t thread;
    CALL(epoll_create1(0));
    CALL(pipe(ends));
    CALL(add(3, 4, EPOLLIN));
    pthread_create(&thread, NULL, write_slowly, &ends[1]);
    CALL(epoll_wait(3, events, 16, -1));
    VALUE(events[0].data.fd);
    pthread_join(thread, NULL);
    CALL(read(4, page, 1));
    pthread_create(&thread, NULL, add_slowly, &ends[1]);
    CALL(epoll_wait(3, events, 16, -1));
    VALUE(events[0].data.fd);
    pthread_join(thread, NULL);
}

/* More files are ready than fit: each is reported in turn. */
static void turns(void) {
    int seen = 0;
    CALL(epoll_create1(0));
    for (int i = 0; i < 6; i++) {
        add(3, eventfd(1, 0), EPOLLIN);
    }
    for (int i = 0; i < 3; i++) {
        int count = epoll_wait(3, events, 2, 0);
        for (int j = 0; j < count; j++) {
            seen |= 1 << events[j].data.fd;
        }
    }
    VALUE(seen);
}

static void data(void) {
    int ends[2];
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x123456789abcdef0};
    CALL(epoll_create1(0));
    CALL(pipe(ends));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 4, &event));
    CALL(write(5, "x", 1));
    CALL(epoll_wait(3, events, 16, 0));
    VALUE(events[0].data.u64 == 0x123456789abcdef0);
    event.data.u64 = 42;
    CALL(epoll_ctl(3, EPOLL_CTL_MOD, 4, &event));
    CALL(epoll_wait(3, events, 16, 0));
    VALUE(events[0].data.u64);
}

static void many(void) {
    static struct epoll_event all[5000];
    int ends[2];
    struct rlimit before, more;
    getrlimit(RLIMIT_NOFILE, &before);
    more = before;
    more.rlim_cur = 4000;
    CALL(setrlimit(RLIMIT_NOFILE, &more));
    CALL(epoll_create1(0));
    CALL(pipe(ends));
    for (int i = 0; i < 3000; i++) {
        add(3, dup(5), EPOLLOUT);
    }
    VALUE(epoll_wait(3, all, 5000, 0));
    VALUE(epoll_wait(3, all, 2999, 0));
    close_range(3, 4000, 0);
    CALL(setrlimit(RLIMIT_NOFILE, &before));
}

static const struct section sections[] = {
    {"many", many},
    {"creating", creating},     {"controlling", controlling}, {"waiting_errors", waiting_errors},
    {"levels", levels},         {"edges", edges},             {"once", once},
    {"duplicates", duplicates}, {"nested", nested},           {"woken", woken},
    {"turns", turns},           {"data", data},               {NULL, NULL},
};
const struct theme epolls = {"epolls", sections};
