/* Signals that arrive while a call sleeps. Another thread or a timeout ends every sleep later.
 * So a call that is not interrupted shows in the output, and does not hang the test. */
#include "check.h"

static char page[262144];

struct rescue {
    void (*act)(void *);
    void *argument;
    pthread_t thread;
};

static void *act_later(void *argument) {
    struct rescue *rescue = argument;
    pause_ms(200);
    rescue->act(rescue->argument);
    return NULL;
}

/* Signals arrive from here on. The event that ends the sleep comes after some of them. */
static void sleep_begin(struct rescue *rescue, void (*act)(void *), void *argument) {
    sigset_t alarm, before;
    *rescue = (struct rescue){.act = act, .argument = argument};
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, &before);
    pthread_create(&rescue->thread, NULL, act_later, rescue);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    interrupt_begin(20);
}

static void sleep_end(struct rescue *rescue) {
    interrupt_end();
    pthread_join(rescue->thread, NULL);
}

static void put(void *fd) { write(*(int *)fd, "x", 1); }

static void drain(void *fd) {
    int flags = fcntl(*(int *)fd, F_GETFL);
    fcntl(*(int *)fd, F_SETFL, flags | O_NONBLOCK);
    while (read(*(int *)fd, page, sizeof page) > 0) {
    }
    fcntl(*(int *)fd, F_SETFL, flags);
}

static void of_pipes(void) {
    struct rescue rescue;
    int ends[2];
    CALL(pipe(ends));
    sleep_begin(&rescue, put, &ends[1]);
    CALL(read(ends[0], page, 1));
    sleep_end(&rescue);
    drain(&ends[0]);
    CALL(write(ends[1], page, 65536));
    sleep_begin(&rescue, drain, &ends[0]);
    CALL(write(ends[1], page, 1));
    sleep_end(&rescue);
    drain(&ends[0]);
    /* The result counts the bytes that were written before the signal. */
    CALL(write(ends[1], page, 65536 - 8192));
    sleep_begin(&rescue, drain, &ends[0]);
    CALL(write(ends[1], page, 20000));
    sleep_end(&rescue);
}

static void open_writer(void *path) { close(open(path, O_WRONLY | O_NONBLOCK)); }

static void open_reader(void *path) { close(open(path, O_RDONLY | O_NONBLOCK)); }

static void of_fifos(void) {
    struct rescue rescue;
    CALL(mkfifo("fifo", 0644));
    sleep_begin(&rescue, open_writer, "fifo");
    CALL(open("fifo", O_RDONLY));
    sleep_end(&rescue);
    close_range(3, ~0U, 0);
    sleep_begin(&rescue, open_reader, "fifo");
    CALL(open("fifo", O_WRONLY));
    sleep_end(&rescue);
}

static void connect_to(void *name) {
    connect(socket(AF_UNIX, SOCK_STREAM, 0), name, sizeof(struct sockaddr_un));
}

static void of_sockets(void) {
    struct rescue rescue;
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "sock"};
    int ends[2];
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(3, (struct sockaddr *)&name, sizeof name));
    CALL(listen(3, 1));
    sleep_begin(&rescue, connect_to, &name);
    CALL(accept(3, NULL, NULL));
    sleep_end(&rescue);
    close_range(4, ~0U, 0);
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    sleep_begin(&rescue, put, &ends[1]);
    CALL(recv(ends[0], page, 1, 0));
    sleep_end(&rescue);
    drain(&ends[0]);
    sleep_begin(&rescue, put, &ends[1]);
    CALL(read(ends[0], page, 1));
    sleep_end(&rescue);
    drain(&ends[0]);
    while (send(ends[1], page, 4096, MSG_DONTWAIT) > 0) {
    }
    sleep_begin(&rescue, drain, &ends[0]);
    CALL(send(ends[1], page, 4096, 0));
    sleep_end(&rescue);
    drain(&ends[0]);
    /* The result counts the bytes that were received before the signal. */
    CALL(write(ends[1], page, 100));
    sleep_begin(&rescue, put, &ends[1]);
    CALL(recv(ends[0], page, 101, MSG_WAITALL));
    sleep_end(&rescue);
}

static void of_waits(void) {
    struct timespec late = {0, 200000000};
    struct timeval late_too = {0, 200000};
    struct epoll_event event;
    int ends[2];
    fd_set in;
    CALL(pipe(ends));
    struct pollfd one = {ends[0], POLLIN, 0};
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    CALL(epoll_create1(0));
    interrupt_begin(20);
    CALL(poll(&one, 1, 200));
    CALL(ppoll(&one, 1, &late, NULL));
    CALL(select(4, &in, NULL, NULL, &late_too));
    FD_SET(ends[0], &in);
    CALL(pselect(4, &in, NULL, NULL, &late, NULL));
    CALL(epoll_wait(5, &event, 1, 200));
    CALL(epoll_pwait(5, &event, 1, 200, NULL));
    CALL(epoll_pwait2(5, &event, 1, &late, NULL));
    interrupt_end();
}

/* The masks of ppoll, pselect and epoll_pwait apply while they sleep. */
static void masks(void) {
    struct timespec late = {0, 200000000}, soon = {0, 60000000};
    struct epoll_event event;
    sigset_t alarm, none;
    int ends[2];
    fd_set in;
    CALL(pipe(ends));
    CALL(epoll_create1(0));
    struct pollfd one = {ends[0], POLLIN, 0};
    sigemptyset(&none);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    interrupt_begin(20);
    CALL(ppoll(&one, 1, &soon, &alarm));
    CALL(ppoll(&one, 1, &late, &none));
    pause_ms(30);
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    CALL(pselect(4, &in, NULL, NULL, &late, &none));
    pause_ms(30);
    CALL(epoll_pwait(5, &event, 1, 200, &none));
    interrupt_end();
    CALL(poll(&one, 1, 30));
}

static void add_one(void *fd) { eventfd_write(*(int *)fd, 1); }

static void of_events(void) {
    struct rescue rescue;
    struct itimerspec late = {.it_value.tv_nsec = 200000000};
    uint64_t value;
    int fd = eventfd(0, 0);
    sleep_begin(&rescue, add_one, &fd);
    CALL(read(fd, &value, 8));
    sleep_end(&rescue);
    CALL(timerfd_create(CLOCK_MONOTONIC, 0));
    CALL(timerfd_settime(4, 0, &late, NULL));
    interrupt_begin(20);
    CALL(read(4, &value, 8));
    interrupt_end();
}

static void unlock(void *fd) { flock(*(int *)fd, LOCK_UN); }

static void unlock_part(void *fd) {
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(*(int *)fd, F_OFD_SETLK, &lock);
}

static void of_locks(void) {
    struct rescue rescue;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int holder = open("file", O_RDWR | O_CREAT, 0644);
    CALL(open("file", O_RDWR));
    CALL(flock(holder, LOCK_EX));
    sleep_begin(&rescue, unlock, &holder);
    CALL(flock(4, LOCK_EX));
    sleep_end(&rescue);
    CALL(flock(4, LOCK_UN));
    CALL(fcntl(holder, F_OFD_SETLK, &lock));
    sleep_begin(&rescue, unlock_part, &holder);
    CALL(fcntl(4, F_OFD_SETLKW, &lock));
    sleep_end(&rescue);
    unlock_part(&(int){4});
    CALL(fcntl(holder, F_OFD_SETLK, &lock));
    sleep_begin(&rescue, unlock_part, &holder);
    CALL(fcntl(4, F_SETLKW, &lock));
    sleep_end(&rescue);
}

static void of_splices(void) {
    struct rescue rescue;
    int from[2], to[2];
    CALL(pipe(from));
    CALL(pipe(to));
    sleep_begin(&rescue, put, &from[1]);
    CALL(splice(from[0], NULL, to[1], NULL, 10, 0));
    sleep_end(&rescue);
    drain(&from[0]);
    drain(&to[0]);
    sleep_begin(&rescue, put, &from[1]);
    CALL(tee(from[0], to[1], 10, 0));
    sleep_end(&rescue);
    drain(&from[0]);
    sleep_begin(&rescue, put, &from[1]);
    CALL(vmsplice(from[0], &(struct iovec){page, 10}, 1, 0));
    sleep_end(&rescue);
}

/* A socket with a timeout is never restarted. */
static void of_timeouts(void) {
    struct timeval late = {0, 200000};
    int ends[2];
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &late, sizeof late));
    CALL(setsockopt(ends[1], SOL_SOCKET, SO_SNDTIMEO, &late, sizeof late));
    while (send(ends[1], page, 4096, MSG_DONTWAIT) > 0) {
    }
    interrupt_begin(20);
    CALL(send(ends[1], page, 4096, 0));
    interrupt_end();
    drain(&ends[0]);
    interrupt_begin(20);
    CALL(recv(ends[0], page, 1, 0));
    CALL(read(ends[0], page, 1));
    interrupt_end();
}

/* A handler with SA_RESTART: the calls that sleep continue, except for those that wait for
 * several descriptors, or have a timeout. */
static void restarted_pipes(void) {
    interrupt_flags = SA_RESTART;
    of_pipes();
}

static void restarted_fifos(void) {
    interrupt_flags = SA_RESTART;
    of_fifos();
}

static void restarted_sockets(void) {
    interrupt_flags = SA_RESTART;
    of_sockets();
}

static void restarted_waits(void) {
    interrupt_flags = SA_RESTART;
    of_waits();
}

static void restarted_masks(void) {
    interrupt_flags = SA_RESTART;
    masks();
}

static void restarted_events(void) {
    interrupt_flags = SA_RESTART;
    of_events();
}

static void restarted_locks(void) {
    interrupt_flags = SA_RESTART;
    of_locks();
}

static void restarted_splices(void) {
    interrupt_flags = SA_RESTART;
    of_splices();
}

static void restarted_timeouts(void) {
    interrupt_flags = SA_RESTART;
    of_timeouts();
}

static const struct section sections[] = {
    {"of_pipes", of_pipes}, {"of_fifos", of_fifos},   {"of_sockets", of_sockets},
    {"of_waits", of_waits}, {"masks", masks},         {"of_events", of_events},
    {"of_locks", of_locks}, {"of_splices", of_splices}, {"of_timeouts", of_timeouts},
    {"restarted_pipes", restarted_pipes}, {"restarted_fifos", restarted_fifos},
    {"restarted_sockets", restarted_sockets}, {"restarted_waits", restarted_waits},
    {"restarted_masks", restarted_masks}, {"restarted_events", restarted_events},
    {"restarted_locks", restarted_locks}, {"restarted_splices", restarted_splices},
    {"restarted_timeouts", restarted_timeouts}, {NULL, NULL},
};
const struct theme interrupts = {"interrupts", sections};
