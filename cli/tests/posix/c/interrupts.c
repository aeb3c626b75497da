/* Signals that arrive while a call sleeps. Another thread or a timeout ends every sleep later.
 * So a call that is not interrupted shows in the output, and does not hang the test. */
#include "check.h"

#include <setjmp.h>

static char page[262144];

struct rescue {
    void (*act)(void *);
    void *argument;
    pthread_t thread;
};

static void *act_later(void *argument) {
    struct rescue *rescue = argument;
    /* On a busy machine the runner may take long to rewrite a call that is made for the first time. */
    pause_ms(600);
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

/* Opens the other end of a FIFO after the last signal: an open that a signal just interrupts, and
 * that begins again, does not see an end that came in between. */
static void open_end(const char *path, int flags) {
    interrupt_end();
    pause_ms(100);
    close(open(path, flags | O_NONBLOCK));
}

static void open_writer(void *path) { open_end(path, O_WRONLY); }

static void open_reader(void *path) { open_end(path, O_RDONLY); }

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

/* Made before the call that waits for it, whose number is free while the call begins again. */
static int client;

static void connect_to(void *name) { connect(client, name, sizeof(struct sockaddr_un)); }

static void of_sockets(void) {
    struct rescue rescue;
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "sock"};
    int ends[2];
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(3, (struct sockaddr *)&name, sizeof name));
    CALL(listen(3, 1));
    client = socket(AF_UNIX, SOCK_STREAM, 0);
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

static bool has(const sigset_t *set, int signal) { return sigismember(set, signal) == 1; }

static volatile int handled, failed;
static int shared[2];

/* The calls that a handler may make, on files that the interrupted call may be using. */
static void call_all(void) {
    char byte;
    int fd = dup(shared[0]);
    failed += fd < 0 || close(fd) != 0;
    failed += write(shared[1], "x", 1) != 1 || read(shared[0], &byte, 1) != 1;
    fd = open("file", O_RDWR | O_CREAT, 0644);
    failed += fd < 0 || write(fd, "x", 1) != 1 || close(fd) != 0;
    struct pollfd one = {shared[1], POLLOUT, 0};
    failed += poll(&one, 1, 0) != 1;
}

static void call_in_handler(int signal, siginfo_t *info, void *context) {
    int before = errno;
    (void)signal;
    failed += info->si_value.sival_int != 42 || context == NULL;
    call_all();
    handled++;
    errno = before;
}

/* A timer interrupts the thread in its calls. A handler that waited for what the call holds would
 * wait forever. */
static void call_under_handlers(int flags, long nanoseconds) {
    struct sigaction action = {.sa_sigaction = call_in_handler, .sa_flags = SA_SIGINFO | flags};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec each = {{0, nanoseconds}, {0, nanoseconds}};
    sigset_t user, before;
    timer_t timer;
    event.sigev_value.sival_int = 42;
    handled = failed = 0;
    sigaction(SIGUSR1, &action, NULL);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &each, NULL);
    /* Longer where other programs use the processors. */
    long end = now_ms() + 300, latest = end + 5000;
    while (now_ms() < end || (handled <= 50 && now_ms() < latest)) {
        call_all();
    }
    timer_delete(timer);
    VALUE(handled > 50);
    VALUE(failed);
    /* Nothing is blocked after the calls. */
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    sigemptyset(&user);
    bool blocked = has(&before, SIGUSR1) || has(&before, SIGTERM);
    VALUE(blocked);
}

static void *call_beside(void *end) {
    while (!*(volatile int *)end) {
        close(dup(shared[0]));
    }
    return NULL;
}

static void calls_in_handlers(void) {
    int end = 0;
    sigset_t user, before;
    pthread_t other;
    CALL(pipe(shared));
    call_under_handlers(SA_RESTART, 1000000);
    call_under_handlers(SA_RESTART, 100000);
    call_under_handlers(SA_RESTART | SA_NODEFER, 200000);
    /* Another thread makes the interrupted one wait for locks. */
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &user, &before);
    pthread_create(&other, NULL, call_beside, &end);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    call_under_handlers(SA_RESTART, 200000);
    end = 1;
    pthread_join(other, NULL);
}

static void write_in_handler(int signal) {
    (void)signal;
    int before = errno;
    failed += write(shared[1], "x", 1) != 1;
    handled++;
    errno = before;
}

/* The handler writes to the pipe that the interrupted call reads. */
static void pipes_in_handlers(void) {
    struct sigaction action = {.sa_handler = write_in_handler};
    struct itimerval once = {.it_value.tv_usec = 20000};
    struct pollfd one;
    CALL(pipe(shared));
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &once, NULL);
    CALL(read(shared[0], page, 1));
    CALL(read(shared[0], page, 1));
    one = (struct pollfd){shared[0], POLLIN, 0};
    setitimer(ITIMER_REAL, &once, NULL);
    CALL(poll(&one, 1, 200));
    CALL(poll(&one, 1, 200));
    CALL(read(shared[0], page, 1));
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &once, NULL);
    CALL(read(shared[0], page, 1));
    setitimer(ITIMER_REAL, &once, NULL);
    CALL(poll(&one, 1, 200));
    VALUE(handled);
    VALUE(failed);
}

static sigjmp_buf away;

static void jump(int signal) {
    (void)signal;
    siglongjmp(away, 1);
}

/* The handler leaves the call. */
static void jumps(void) {
    struct sigaction action = {.sa_handler = jump};
    struct itimerval once = {.it_value.tv_usec = 20000};
    struct pollfd one;
    CALL(pipe(shared));
    sigaction(SIGALRM, &action, NULL);
    for (volatile int round = 0; round < 3; round++) {
        if (sigsetjmp(away, 1) == 0) {
            setitimer(ITIMER_REAL, &once, NULL);
            CALL(read(shared[0], page, 1));
        }
        one = (struct pollfd){shared[0], POLLIN, 0};
        if (sigsetjmp(away, 1) == 0) {
            setitimer(ITIMER_REAL, &once, NULL);
            CALL(poll(&one, 1, -1));
        }
    }
    /* The thread goes on, and no signal interrupts this. */
    CALL(poll(&one, 1, 30));
    CALL(write(shared[1], "x", 1));
    CALL(poll(&one, 1, 30));
    CALL(read(shared[0], page, 1));
    pid_t child = fork();
    if (child == 0) {
        _exit(write(shared[1], "x", 1) != 1 || read(shared[0], page, 1) != 1);
    }
    VALUE(wait_for(child));
}

static void count(int signal) {
    (void)signal;
    handled++;
}

/* Prints the action of SIGUSR1. */
static void show_action(void (*handler)(int)) {
    struct sigaction now;
    CALL(sigaction(SIGUSR1, NULL, &now));
    VALUE(now.sa_handler == handler);
    VALUE(now.sa_flags & (SA_SIGINFO | SA_RESTART | SA_NODEFER | SA_ONSTACK | (int)SA_RESETHAND));
    int mask = has(&now.sa_mask, SIGUSR1) * 2 + has(&now.sa_mask, SIGUSR2);
    VALUE(mask);
}

static void actions(void) {
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESETHAND | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    show_action(SIG_DFL);
    CALL(sigaction(SIGUSR1, &action, NULL));
    show_action(count);
    raise(SIGUSR1);
    VALUE(handled);
    show_action(SIG_DFL);
    VALUE(signal(SIGUSR1, count) == SIG_DFL);
    show_action(count);
    CALL(siginterrupt(SIGUSR1, 1));
    show_action(count);
    VALUE(signal(SIGUSR1, SIG_IGN) == count);
    raise(SIGUSR1);
    show_action(SIG_IGN);
    VALUE(signal(SIGUSR1, count) == SIG_IGN);
    show_action(count);
    CALL(siginterrupt(SIGUSR1, 0));
    show_action(count);
    raise(SIGUSR1);
    VALUE(handled);
    CALL(sigaction(SIGKILL, &action, NULL));
    CALL(sigaction(0, &action, NULL));
    CALL(sigaction(65, &action, NULL));
    VALUE(signal(SIGKILL, count) == SIG_ERR);
}

/* A signal that is pending before the call, and that only the mask lets in. */
static void pending(void) {
    struct sigaction action = {.sa_handler = count};
    struct timespec late = {0, 50000000}, now = {0, 0};
    struct epoll_event event = {.events = EPOLLOUT};
    sigset_t user, none, before;
    int ends[2];
    fd_set in;
    CALL(pipe(ends));
    CALL(epoll_create1(0));
    struct pollfd one = {ends[0], POLLIN, 0}, ready = {ends[1], POLLOUT, 0};
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&none);
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &user, NULL);
    raise(SIGUSR1);
    CALL(ppoll(&one, 1, &late, &user));
    CALL(ppoll(&ready, 1, &late, &none));
    VALUE(handled);
    CALL(ppoll(&one, 1, &late, &none));
    VALUE(handled);
    CALL(ppoll(&one, 1, &late, &none));
    raise(SIGUSR1);
    CALL(ppoll(&one, 1, &now, &none));
    VALUE(handled);
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    raise(SIGUSR1);
    CALL(pselect(ends[0] + 1, &in, NULL, NULL, &now, &none));
    VALUE(FD_ISSET(ends[0], &in));
    raise(SIGUSR1);
    CALL(pselect(ends[0] + 1, &in, NULL, NULL, &late, &none));
    raise(SIGUSR1);
    CALL(epoll_pwait(5, &event, 1, 50, &none));
    VALUE(handled);
    CALL(epoll_pwait(5, &event, 1, 50, &none));
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    int blocked = has(&before, SIGUSR1) * 2 + has(&before, SIGUSR2);
    VALUE(blocked);
}

/* A call that succeeds leaves errno unchanged, also if it sleeps until its timeout. */
static void errno_of_sleeps(void) {
    struct timespec late = {0, 20000000};
    struct timeval late_too = {0, 20000};
    struct epoll_event event;
    uint64_t value;
    int ends[2];
    CALL(pipe(ends));
    struct pollfd one = {ends[0], POLLIN, 0};
    int epoll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    errno = EXDEV;
    int done = poll(&one, 1, 20) == 0 && errno == EXDEV;
    VALUE(done);
    errno = EXDEV;
    done = ppoll(&one, 1, &late, NULL) == 0 && errno == EXDEV;
    VALUE(done);
    errno = EXDEV;
    done = select(0, NULL, NULL, NULL, &late_too) == 0 && errno == EXDEV;
    VALUE(done);
    errno = EXDEV;
    done = epoll_wait(epoll, &event, 1, 20) == 0 && errno == EXDEV;
    VALUE(done);
    timerfd_settime(timer, 0, &(struct itimerspec){.it_value = late}, NULL);
    errno = EXDEV;
    done = read(timer, &value, 8) == 8 && errno == EXDEV;
    VALUE(done);
}

static void *put_later(void *fd) {
    pause_ms(50);
    put(fd);
    return NULL;
}

static volatile pid_t forked;

/* The parent ends its own sleep, after the child. */
static void fork_in_handler(int signal) {
    (void)signal;
    pthread_t writer;
    forked = fork();
    if (forked == 0) {
        alarm(3);
        pthread_create(&writer, NULL, put_later, &shared[1]);
        return;
    }
    failed = wait_for(forked);
    put(&shared[1]);
}

/* The interrupted call continues in both processes, and a thread of the child wakes its own. */
static void forks_in_handlers(void) {
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    CALL(pipe(shared));
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGALRM, SIG_DFL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec soon = {.it_value.tv_nsec = 20000000};
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &soon, NULL);
    long count = read(shared[0], page, 1);
    if (forked == 0) {
        _exit(count != 1);
    }
    VALUE(count);
    VALUE(failed);
    timer_delete(timer);
}

/* The signals of faults interrupt sleeps too, if they are sent. */
static void pending_faults(void) {
    struct sigaction action = {.sa_handler = count};
    struct timespec late = {0, 50000000}, now = {0, 0};
    sigset_t faults, none;
    int ends[2];
    CALL(pipe(ends));
    struct pollfd one = {ends[0], POLLIN, 0};
    sigemptyset(&none);
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    sigaddset(&faults, SIGBUS);
    sigaction(SIGSEGV, &action, NULL);
    action.sa_flags = SA_RESTART;
    sigaction(SIGBUS, &action, NULL);
    pthread_sigmask(SIG_BLOCK, &faults, NULL);
    raise(SIGSEGV);
    CALL(ppoll(&one, 1, &late, &none));
    VALUE(handled);
    raise(SIGBUS);
    CALL(ppoll(&one, 1, &late, &none));
    VALUE(handled);
    raise(SIGSEGV);
    CALL(ppoll(&one, 1, &now, &none));
    VALUE(handled);
}

static const struct section sections[] = {
    {"of_pipes", of_pipes}, {"of_fifos", of_fifos},   {"of_sockets", of_sockets},
    {"of_waits", of_waits}, {"masks", masks},         {"of_events", of_events},
    {"of_locks", of_locks}, {"of_splices", of_splices}, {"of_timeouts", of_timeouts},
    {"restarted_pipes", restarted_pipes}, {"restarted_fifos", restarted_fifos},
    {"restarted_sockets", restarted_sockets}, {"restarted_waits", restarted_waits},
    {"restarted_masks", restarted_masks}, {"restarted_events", restarted_events},
    {"restarted_locks", restarted_locks}, {"restarted_splices", restarted_splices},
    {"restarted_timeouts", restarted_timeouts}, {"calls_in_handlers", calls_in_handlers},
    {"pipes_in_handlers", pipes_in_handlers}, {"jumps", jumps}, {"actions", actions}, {"pending", pending},
    {"errno_of_sleeps", errno_of_sleeps}, {"forks_in_handlers", forks_in_handlers},
    {"pending_faults", pending_faults},
    {NULL, NULL},
};
const struct theme interrupts = {"interrupts", sections};
