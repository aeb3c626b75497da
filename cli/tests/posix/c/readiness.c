/* poll and select. */
#include "check.h"

static char page[65536];

/* Returns the events of one descriptor as a string. */
static const char *events_of(int fd, short events) {
    static char text[64];
    struct pollfd one = {fd, events, 0};
    int ready = poll(&one, 1, 0);
    static const struct {
        short bit;
        const char *name;
    } names[] = {
        {POLLIN, "IN"},   {POLLOUT, "OUT"}, {POLLPRI, "PRI"},     {POLLRDNORM, "RDNORM"},
        {POLLWRNORM, "WRNORM"}, {POLLRDHUP, "RDHUP"}, {POLLERR, "ERR"}, {POLLHUP, "HUP"},
        {POLLNVAL, "NVAL"},
    };
    snprintf(text, sizeof text, "%d", ready);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (one.revents & names[i].bit) {
            strcat(strcat(text, " "), names[i].name);
        }
    }
    return text;
}

#define ALL (POLLIN | POLLOUT | POLLPRI | POLLRDNORM | POLLWRNORM | POLLRDHUP)

static void of_pipes(void) {
    int ends[2];
    CALL(pipe(ends));
    TEXT(events_of(3, ALL));
    TEXT(events_of(4, ALL));
    TEXT(events_of(3, 0));
    CALL(write(4, "x", 1));
    TEXT(events_of(3, ALL));
    TEXT(events_of(3, POLLOUT));
    CALL(close(4));
    TEXT(events_of(3, ALL));
    CALL(read(3, page, 1));
    TEXT(events_of(3, ALL));
    TEXT(events_of(3, 0));
    CALL(pipe(ends));
    CALL(fcntl(5, F_SETFL, O_NONBLOCK));
    CALL(write(5, page, 65536));
    TEXT(events_of(5, ALL));
    CALL(read(4, page, 100));
    TEXT(events_of(5, ALL));
    CALL(read(4, page, 4096));
    TEXT(events_of(5, ALL));
    CALL(close(4));
    TEXT(events_of(5, ALL));
    TEXT(events_of(5, 0));
    CALL(mkfifo("fifo", 0644));
    CALL(open("fifo", O_RDONLY | O_NONBLOCK));
    TEXT(events_of(4, ALL));
    CALL(open("fifo", O_WRONLY | O_NONBLOCK));
    TEXT(events_of(4, ALL));
    TEXT(events_of(6, ALL));
    CALL(close(6));
    TEXT(events_of(4, ALL));
}

static void of_sockets(void) {
    int ends[2];
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "sock"};
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    TEXT(events_of(3, ALL));
    CALL(write(4, "x", 1));
    TEXT(events_of(3, ALL));
    CALL(shutdown(4, SHUT_WR));
    TEXT(events_of(3, ALL));
    TEXT(events_of(4, ALL));
    CALL(read(3, page, 1));
    TEXT(events_of(3, ALL));
    CALL(shutdown(3, SHUT_WR));
    TEXT(events_of(3, ALL));
    CALL(close(4));
    TEXT(events_of(3, ALL));
    CALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends));
    while (write(4, page, 65536) > 0) {
    }
    TEXT(events_of(4, ALL));
    CALL(close(5));
    TEXT(events_of(4, ALL));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    TEXT(events_of(5, ALL));
    CALL(bind(5, (struct sockaddr *)&name, sizeof name));
    CALL(listen(5, 1));
    TEXT(events_of(5, ALL));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(connect(6, (struct sockaddr *)&name, sizeof name));
    TEXT(events_of(5, ALL));
    TEXT(events_of(6, ALL));
    CALL(accept(5, NULL, NULL));
    TEXT(events_of(5, ALL));
    CALL(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    TEXT(events_of(8, ALL));
    CALL(write(9, "", 0));
    TEXT(events_of(8, ALL));
    CALL(close(9));
    TEXT(events_of(8, ALL));
    CALL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    CALL(close(ends[1]));
    TEXT(events_of(ends[0], ALL));
}

static void of_files(void) {
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    TEXT(events_of(3, ALL));
    TEXT(events_of(3, 0));
    CALL(open(".", O_RDONLY));
    TEXT(events_of(4, ALL));
    CALL(open("file", O_PATH));
    TEXT(events_of(5, ALL));
    TEXT(events_of(99, ALL));
    TEXT(events_of(99, 0));
    TEXT(events_of(-1, ALL));
    CALL(open("/dev/null", O_RDWR));
    TEXT(events_of(6, ALL));
    CALL(open("/dev/zero", O_RDWR));
    TEXT(events_of(7, ALL));
    CALL(eventfd(0, 0));
    TEXT(events_of(8, ALL));
    CALL(eventfd_write(8, UINT64_MAX - 1));
    TEXT(events_of(8, ALL));
    CALL(epoll_create1(0));
    TEXT(events_of(9, ALL));
}

static void *write_slowly(void *argument) {
    pause_ms(30);
    write(*(int *)argument, "x", 1);
    return NULL;
}

static void *close_slowly(void *argument) {
    pause_ms(30);
    close(*(int *)argument);
    return NULL;
}

static void polling(void) {
    int ends[2];
    pthread_t thread;
    struct pollfd set[3] = {{3, POLLIN, 0}, {-5, POLLIN, 7}, {4, POLLIN, 0}};
    struct timespec soon = {0, 20000000}, wrong = {0, 1000000000}, negative = {-1, 0};
    sigset_t none;
    sigemptyset(&none);
    CALL(pipe(ends));
    CALL(poll(set, 3, 0));
    VALUE(set[1].revents);
    long start = now_ms();
    CALL(poll(set, 3, 30));
    VALUE(now_ms() - start >= 29);
    CALL(poll(NULL, 0, 10));
    CALL(poll(bad, 1, 0));
    CALL(poll(null, 1, 0));
    CALL(ppoll(set, 3, &soon, NULL));
    CALL(ppoll(set, 3, &soon, &none));
    CALL(ppoll(set, 3, &wrong, NULL));
    CALL(ppoll(set, 3, &negative, NULL));
    pthread_create(&thread, NULL, write_slowly, &ends[1]);
    CALL(poll(set, 3, -1));
    VALUE(set[0].revents);
    pthread_join(thread, NULL);
    TEXT(read_text(3));
    pthread_create(&thread, NULL, close_slowly, &ends[1]);
    CALL(poll(set, 1, -1));
    VALUE(set[0].revents);
    pthread_join(thread, NULL);
    struct pollfd twice[2] = {{3, POLLIN, 0}, {3, POLLIN, 0}};
    CALL(poll(twice, 2, 0));
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    CALL(poll(set, limit.rlim_cur + 1, 0));
}

static void selecting(void) {
    int ends[2];
    pthread_t thread;
    fd_set in, out, except;
    struct timeval now = {0}, soon = {0, 20000}, negative = {-1, 0}, wrong = {0, -1};
    struct timespec soon_too = {0, 20000000}, wrong_too = {0, -1};
    CALL(pipe(ends));
    FD_ZERO(&in); FD_ZERO(&out); FD_ZERO(&except);
    FD_SET(3, &in); FD_SET(4, &out); FD_SET(3, &except);
    CALL(select(5, &in, &out, &except, &now));
    VALUE(FD_ISSET(3, &in));
    VALUE(FD_ISSET(4, &out));
    VALUE(FD_ISSET(3, &except));
    FD_ZERO(&in); FD_SET(3, &in);
    long start = now_ms();
    CALL(select(4, &in, NULL, NULL, &soon));
    VALUE(now_ms() - start >= 19);
    VALUE(FD_ISSET(3, &in));
    VALUE(soon.tv_sec == 0 && soon.tv_usec == 0);
    CALL(select(0, NULL, NULL, NULL, &now));
    FD_SET(3, &in);
    CALL(select(3, &in, NULL, NULL, &now));
    VALUE(FD_ISSET(3, &in) != 0);
    FD_ZERO(&in); FD_SET(3, &in);
    CALL(write(4, "x", 1));
    CALL(select(4, &in, NULL, NULL, NULL));
    VALUE(FD_ISSET(3, &in) != 0);
    CALL(select(-1, &in, NULL, NULL, &now));
    CALL(select(4, &in, NULL, NULL, &negative));
    CALL(select(4, &in, NULL, NULL, &wrong));
    CALL(select(4, bad, NULL, NULL, &now));
    FD_ZERO(&in); FD_SET(99, &in);
    CALL(select(100, &in, NULL, NULL, &now));
    CALL(select(99, &in, NULL, NULL, &now));
    FD_ZERO(&in); FD_SET(3, &in);
    CALL(pselect(4, &in, NULL, NULL, &soon_too, NULL));
    TEXT(read_text(3));
    FD_SET(3, &in);
    CALL(pselect(4, &in, NULL, NULL, &soon_too, NULL));
    VALUE(soon_too.tv_nsec);
    CALL(pselect(4, &in, NULL, NULL, &wrong_too, NULL));
    FD_SET(3, &in);
    FD_ZERO(&in); FD_SET(3, &in);
    pthread_create(&thread, NULL, write_slowly, &ends[1]);
    CALL(select(4, &in, NULL, NULL, NULL));
    pthread_join(thread, NULL);
    TEXT(read_text(3));
    CALL(close(4));
    FD_ZERO(&out);
    FD_SET(3, &in); FD_SET(3, &out); FD_SET(3, &except);
    CALL(select(4, &in, &out, &except, &now));
    VALUE(FD_ISSET(3, &in) != 0);
}

static const struct section sections[] = {
    {"of_pipes", of_pipes}, {"of_sockets", of_sockets}, {"of_files", of_files},
    {"polling", polling},   {"selecting", selecting},  
    {NULL, NULL},
};
const struct theme readiness = {"readiness", sections};
