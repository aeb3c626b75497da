/* Workers that do calls of all kinds until they are killed from outside, and a parent that looks at
 * what each has left behind.
 *
 * The parent prints the id of each worker, and starts another one for each that dies. It ends when
 * its input ends, and prints "done" if nothing was wrong. Its argument is a directory in memory. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4 };

/* What a worker writes to the pipe and to the log: parts of a whole. */
struct record {
    int worker, life, number, check;
};

static struct record last_in_pipe[WORKERS], last_in_log[WORKERS];
static int life_line[WORKERS]; /* Reading ends of pipes whose writing end a worker alone has. */
static pid_t worker[WORKERS];
static int life[WORKERS];
static int queue[2], log_end, locked, counter;

static void fail(const char *what, int which)
{
    int of = which < 0 ? 0 : life[which];
    printf("wrong: %s (worker %d, life %d, errno %d)\n", what, which, of, errno);
    fflush(stdout);
    exit(1);
}

static int check_of(const struct record *r)
{
    return r->worker * 31 + r->life * 17 + r->number * 7 + 12345;
}

/* A name of a worker has one of two forms at any time. */
static void names(int which, char one[32], char other[32])
{
    snprintf(one, 32, "one%d", which);
    snprintf(other, 32, "other%d", which);
}

static void work(int which)
{
    unsigned state = (unsigned)(getpid() * 2654435761u);
    struct record mine = {which, life[which], 0, 0};
    char one[32], other[32], own[32], buffer[70000];
    memset(buffer, 'x', sizeof buffer);
    names(which, one, other);
    snprintf(own, sizeof own, "own%d", which);
    for (;;) {
        state = state * 1103515245u + 12345u;
        switch (state >> 16 & 15) {
        case 0:
        case 1: /* All or nothing, as it is short. The parent may be slow. */
            mine.number++;
            mine.check = check_of(&mine);
            if (write(queue[1], &mine, sizeof mine) < 0)
                mine.number--;
            break;
        case 2: {
            struct record logged = mine;
            logged.check = check_of(&logged);
            (void)!write(log_end, &logged, sizeof logged);
            break;
        }
        case 3: /* A lock of a record, and two values that belong together. */
        case 4: {
            struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 16};
            long pair[2];
            if (fcntl(counter, F_SETLKW, &lock) == 0) {
                pread(counter, pair, sizeof pair, 0);
                pair[0]++, pair[1]--;
                pwrite(counter, pair, sizeof pair, 0);
                lock.l_type = F_UNLCK;
                fcntl(counter, F_SETLK, &lock);
            }
            break;
        }
        case 5: {
            int fd = open("locked", O_RDWR);
            flock(fd, LOCK_EX);
            close(fd);
            break;
        }
        case 6:
            if (rename(one, other) != 0)
                rename(other, one);
            break;
        case 7: {
            int fd = open(own, O_RDWR | O_CREAT | O_TRUNC, 0600);
            write(fd, buffer, state >> 8 & 0xFFFF);
            ftruncate(fd, state >> 12 & 0xFFF);
            close(fd);
            unlink(own);
            break;
        }
        case 8: {
            int ends[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0) {
                write(ends[0], buffer, 5000);
                read(ends[1], buffer, 5000);
                close(ends[0]);
                close(ends[1]);
            }
            break;
        }
        case 9: {
            int set = epoll_create1(0), event = eventfd(1, 0);
            struct epoll_event wanted = {.events = EPOLLIN};
            epoll_ctl(set, EPOLL_CTL_ADD, event, &wanted);
            epoll_wait(set, &wanted, 1, 0);
            close(event);
            close(set);
            break;
        }
        case 10: {
            int fds[40];
            for (int i = 0; i < 40; i++)
                fds[i] = dup(log_end);
            for (int i = 0; i < 40; i++)
                close(fds[i]);
            break;
        }
        case 11: {
            int ends[2];
            if (pipe(ends) == 0) {
                write(ends[1], buffer, sizeof buffer / 2);
                read(ends[0], buffer, sizeof buffer);
                close(ends[0]);
                close(ends[1]);
            }
            break;
        }
        case 12:
            mkdir(own, 0700);
            rmdir(own);
            break;
        case 13: { /* Waits, as nothing comes. */
            struct pollfd none = {.fd = life_line[which], .events = POLLIN};
            poll(&none, 1, 1);
            break;
        }
        case 14: {
            pid_t child = fork();
            if (child == 0)
                _exit(0);
            if (child > 0)
                waitpid(child, NULL, 0);
            break;
        }
        case 15: {
            struct stat found;
            stat("locked", &found);
            lseek(counter, 0, SEEK_END);
            getcwd(buffer, 100);
            buffer[0] = 'x';
            break;
        }
        }
    }
}

static void start(int which)
{
    int ends[2];
    if (pipe(ends) != 0)
        fail("pipe", which);
    life[which]++;
    pid_t child = fork();
    if (child < 0)
        fail("fork", which);
    if (child == 0) {
        for (int i = 0; i < WORKERS; i++)
            if (i != which && worker[i])
                close(life_line[i]);
        life_line[which] = ends[0];
        work(which);
    }
    close(ends[1]);
    life_line[which] = ends[0];
    worker[which] = child;
    printf("%d\n", child);
    fflush(stdout);
}

/* Reads what workers have written, and fails if a record is torn, doubled or out of order. A worker
 * counts what it has written, so none is left out before its last. */
static void take(struct record *last, const struct record *r, int is_complete)
{
    if (r->worker < 0 || r->worker >= WORKERS || r->check != check_of(r))
        fail("torn record", -1);
    struct record *before = &last[r->worker];
    if (r->life < before->life)
        fail("record after death", r->worker);
    int next = r->life == before->life ? before->number + 1 : 1;
    if (is_complete && r->number != next)
        fail("lost or doubled record", r->worker);
    if (!is_complete && r->life == before->life && r->number < before->number)
        fail("order of the log", r->worker);
    *before = *r;
}

static void empty_queue(void)
{
    struct record r;
    ssize_t size;
    while ((size = read(queue[0], &r, sizeof r)) > 0) {
        if (size != sizeof r)
            fail("part of a record", -1);
        take(last_in_pipe, &r, 1);
    }
}

static void read_log(void)
{
    struct record r;
    int fd = open("log", O_RDONLY);
    while (read(fd, &r, sizeof r) == sizeof r)
        take(last_in_log, &r, 0);
    struct stat found;
    fstat(fd, &found);
    if (found.st_size % (off_t)sizeof r != 0)
        fail("size of the log", -1);
    close(fd);
    ftruncate(log_end, 0);
}

/* Looks at what a worker has left, which is dead. */
static void look(int which)
{
    char byte, one[32], other[32];
    /* A child of it may live for a moment. */
    struct pollfd ended = {.fd = life_line[which], .events = POLLIN};
    if (poll(&ended, 1, 20000) != 1 || read(life_line[which], &byte, 1) != 0)
        fail("a pipe of the dead is open", which);
    close(life_line[which]);
    names(which, one, other);
    if ((access(one, F_OK) == 0) == (access(other, F_OK) == 0))
        fail("a name is lost or doubled", which);
    char own[32];
    snprintf(own, sizeof own, "own%d", which);
    unlink(own);
    rmdir(own);
}

int main(int count, char **arguments)
{
    signal(SIGPIPE, SIG_IGN);
    if (count != 2 || chdir(arguments[1]) != 0 || pipe2(queue, O_NONBLOCK) != 0)
        fail("start", -1);
    log_end = open("log", O_RDWR | O_CREAT | O_APPEND, 0600);
    locked = open("locked", O_RDWR | O_CREAT, 0600);
    counter = open("counter", O_RDWR | O_CREAT, 0600);
    long pair[2] = {0, 0};
    write(counter, pair, sizeof pair);
    for (int i = 0; i < WORKERS; i++) {
        char one[32], other[32];
        names(i, one, other);
        close(open(one, O_RDWR | O_CREAT, 0600));
        start(i);
    }
    for (unsigned turn = 0;; turn++) {
        struct pollfd watched[2] = {{.fd = 0, .events = POLLIN},
                                    {.fd = queue[0], .events = POLLIN}};
        poll(watched, 2, 1);
        if (watched[0].revents)
            break;
        empty_queue();
        if (turn % 64 == 0)
            read_log();
        for (int i = 0; i < WORKERS; i++) {
            int status;
            if (waitpid(worker[i], &status, WNOHANG) != worker[i])
                continue;
            if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
                printf("status %x\n", status);
                fail("a worker ended by itself", i);
            }
            look(i);
            start(i);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        kill(worker[i], SIGKILL);
        waitpid(worker[i], NULL, 0);
        look(i);
    }
    empty_queue();
    /* The locks of the dead are free. */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 16};
    if (fcntl(counter, F_SETLK, &lock) != 0)
        fail("a record lock of the dead", -1);
    if (flock(locked, LOCK_EX | LOCK_NB) != 0)
        fail("a lock of the dead", -1);
    pread(counter, pair, sizeof pair, 0);
    if (pair[0] != -pair[1])
        fail("a pair of values", -1);
    if (pair[0] == 0)
        fail("no work", -1);
    printf("done\n");
    return 0;
}
