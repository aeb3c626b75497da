/* Processes wait for an epoll with a file of the host and a pipe, which another process writes to:
   a child that has made the epoll, a child of the process that has, and a parent. The argument is the
   path of a FIFO. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int fifo, ends[2];

static int made(void) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fifo};
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, fifo, &event);
    event.data.fd = ends[0];
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    return epoll;
}

/* Waits for three bytes, one after the other. Returns how many woke it: not those that it finds at
   the end of the time. */
static int woken(int epoll) {
    int count = 0;
    for (int i = 0; i < 3; i++) {
        struct epoll_event event;
        char byte;
        time_t begun = time(NULL);
        if (epoll_wait(epoll, &event, 1, 10000) == 1 && event.data.fd == ends[0])
            count += read(ends[0], &byte, 1) == 1 && time(NULL) < begun + 8;
    }
    return count;
}

static void write_three(void) {
    for (int i = 0; i < 3; i++) {
        usleep(100000);
        write(ends[1], "!", 1);
    }
}

int main(int count, char **words) {
    fifo = open(words[1], O_RDWR);
    pipe(ends);
    int status;
    if (fork() == 0)
        _exit(woken(made()));
    write_three();
    wait(&status);
    printf("a child that has made it: %d\n", WEXITSTATUS(status));
    int epoll = made();
    fflush(stdout);
    if (fork() == 0)
        _exit(woken(epoll));
    write_three();
    wait(&status);
    printf("a child of the process that has: %d\n", WEXITSTATUS(status));
    fflush(stdout);
    if (fork() == 0) {
        write_three();
        _exit(0);
    }
    printf("the parent: %d\n", woken(epoll));
    return 0;
}
