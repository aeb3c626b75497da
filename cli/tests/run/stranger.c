/* A program with the faults that the reports find. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static int close_it(int fd)
{
    int result = close(fd);
    __asm__ volatile("");
    return result;
}

static void *in_thread(void *fd)
{
    for (int i = 0; i < 100; i++)
        fcntl(*(int *)fd, F_GETFD);
    return 0;
}

static int calls(void)
{
    int fd = open("/dev/null", O_RDWR);
    for (int i = 0; i < 1000; i++)
        fcntl(fd, F_GETFD);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, in_thread, &fd);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    for (int i = 0; i < 5; i++)
        fcntl(999, F_GETFD);
    return fd;
}

static int many(int count)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 3; i < count; i++) {
        int fd = dup(0);
        if (fd != i) {
            printf("%d is %d: %s\n", i, fd, strerror(errno));
            return 1;
        }
    }
    int over = dup(0);
    printf("limit %lu, open %d, then %s\n", (unsigned long)limit.rlim_cur, count, strerror(errno));
    return over != -1;
}

static int accepted(int domain)
{
    struct sockaddr_storage address = {.ss_family = domain};
    /* A free port, or a free abstract name. */
    socklen_t length = domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(sa_family_t);
    if (domain == AF_INET)
        ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(domain, SOCK_STREAM, 0), client = socket(domain, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, length);
    listen(listener, 1);
    length = sizeof address;
    getsockname(listener, (struct sockaddr *)&address, &length);
    connect(client, (struct sockaddr *)&address, length);
    return accept(listener, 0, 0);
}

int main(int count, char **words)
{
    const char *what = words[1];
    if (!strcmp(what, "calls")) {
        calls();
        return 7;
    }
    if (!strcmp(what, "killed")) {
        calls();
        kill(getpid(), SIGTERM);
    }
    if (!strcmp(what, "alarm")) {
        alarm(1);
        for (;;)
            pause();
    }
    if (!strcmp(what, "fork")) {
        calls();
        if (!fork())
            _exit(3);
        int status;
        wait(&status);
        return WEXITSTATUS(status);
    }
    if (!strcmp(what, "trace")) {
        int fd = openat(AT_FDCWD, "traced", O_RDWR | O_CREAT | O_CLOEXEC, 0640);
        write(fd, "text", 4);
        lseek(fd, 1, SEEK_END);
        close(77);
        syscall(SYS_io_uring_setup, 1, 0);
        return 0;
    }
    if (!strcmp(what, "closed")) {
        char byte;
        int fd = open("/dev/null", O_RDWR);
        close_it(fd);
        int other = open("/dev/zero", O_RDWR);
        int twice = close_it(fd);
        int error = errno;
        printf("%d %d %d\n", other != fd, twice, error);
        fd = open("/dev/null", O_RDWR);
        close_it(fd);
        int used = read(fd, &byte, 1);
        printf("%d %d\n", used, errno);
        return 0;
    }
    if (!strcmp(what, "tree")) {
        int fd = open("/dev/null", O_RDWR);
        if (!fork()) {
            close_it(fd);
            int twice = close_it(fd);
            printf("%d %d\n", twice, errno);
            return 4;
        }
        int status;
        wait(&status);
        int once = close_it(fd);
        printf("%d\n", once);
        open("/dev/zero", O_RDONLY);
        return WEXITSTATUS(status);
    }
    if (!strcmp(what, "list")) {
        open("/dev/zero", O_RDONLY);
        open("/fdt/memory", O_RDWR | O_CREAT, 0600);
        printf("open\n");
        fflush(stdout);
        char byte;
        read(0, &byte, 1);
        return 5;
    }
    if (!strcmp(what, "any")) {
        int host = open("/dev/null", O_RDONLY), ours = open("/fdt/any", O_RDWR | O_CREAT, 0600);
        int lowest = dup(0), at = fcntl(0, F_DUPFD, 10), to = dup2(0, 20);
        int flags = fcntl(open("/dev/null", O_RDONLY | O_CLOEXEC), F_GETFD);
        int ends[2], pair[2];
        pipe(ends);
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        int made[] = {ends[0], ends[1], pair[0], pair[1], socket(AF_UNIX, SOCK_STREAM, 0), socket(AF_INET, SOCK_STREAM, 0), eventfd(0, 0), timerfd_create(CLOCK_REALTIME, 0), epoll_create1(0), memfd_create("a", 0), accepted(AF_UNIX), accepted(AF_INET)};
        int count = sizeof made / sizeof *made, high = 0;
        for (int i = 0; i < count; i++) high += made[i] > 30;
        lowest += dup(0) > 30;
        close(0);
        int zero = open("/dev/null", O_RDONLY);
        close(1);
        int one = socket(AF_UNIX, SOCK_STREAM, 0);
        dup2(2, 1);
        printf("%d %d %d %d %d %d %d %d %d of %d\n", host > 3, ours > 3, lowest, at, to, flags, zero, one, high, count);
        return 0;
    }
    if (!strcmp(what, "many"))
        return many(atoi(words[2]));
    return 99;
}
