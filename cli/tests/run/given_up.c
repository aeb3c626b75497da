/* A process with threads closes files of the host that its children have open: more than it may
   have open at once. Two threads of it wait for FIFOs meanwhile, in `read` and in `poll`, and all
   processes close those. The argument is a directory. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIFOS = 2, CHILDREN = 30, EACH = 20 };

static int fifos[FIFOS];
static char got[8];
static struct pollfd polled;

static void *reads(void *unused) {
    read(fifos[0], got, sizeof got - 1);
    return unused;
}

static void *polls(void *unused) {
    polled = (struct pollfd){.fd = fifos[1], .events = POLLIN};
    poll(&polled, 1, 10000);
    return unused;
}

int main(int count, char **words) {
    char path[FIFOS][4096], byte;
    int ends[2], closed[2];
    pipe(ends);
    pipe(closed);
    void *(*waits[])(void *) = {reads, polls};
    pthread_t waiting[FIFOS];
    for (int i = 0; i < FIFOS; i++) {
        snprintf(path[i], sizeof path[i], "%s/fifo%d", words[1], i);
        mkfifo(path[i], 0600);
        fifos[i] = open(path[i], O_RDWR);
        pthread_create(&waiting[i], NULL, waits[i], NULL);
    }
    usleep(200000); // so they wait when the children are made
    pid_t children[CHILDREN];
    int failed = 0;
    for (int i = 0; i < CHILDREN; i++) {
        int fds[EACH];
        for (int j = 0; j < EACH; j++)
            failed += (fds[j] = open("/bin/sh", O_RDONLY)) < 0;
        children[i] = fork();
        if (children[i] == 0) {
            if (i == 0)
                read(ends[0], &byte, 1);
            for (int j = 0; j < FIFOS; j++) {
                if (i == 0)
                    write(fifos[j], "late", 4);
                close(fifos[j]);
            }
            write(closed[1], "!", 1);
            pause();
        }
        for (int j = 0; j < EACH; j++)
            close(fds[j]);
    }
    printf("failed: %d\n", failed);
    fflush(stdout);
    for (int i = 0; i < FIFOS; i++)
        close(fifos[i]);
    write(ends[1], "!", 1);
    for (int i = 0; i < FIFOS; i++)
        pthread_join(waiting[i], NULL);
    // The host looks the descriptor up again, and has POLLNVAL.
    printf("read: %s, poll: %d\n", got, polled.revents == POLLIN);
    for (int i = 0; i < CHILDREN; i++)
        read(closed[0], &byte, 1);
    int open_ends = 0;
    for (int i = 0; i < FIFOS; i++)
        open_ends += open(path[i], O_WRONLY | O_NONBLOCK) >= 0 || errno != ENXIO;
    printf("open: %d\n", open_ends);
    fflush(stdout);
    for (int i = 0; i < CHILDREN; i++)
        kill(children[i], SIGKILL), waitpid(children[i], NULL, 0);
    return 0;
}
