/* A thread moves a file of the host between the lowest and the highest descriptor, while another
   one duplicates it and closes the duplicate. A child has the file too. */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOW = 6, COUNT = 3000, HIGH = LOW + COUNT + 1, ROUNDS = 1500 };

static volatile int ends, failed;

static int reads(int fd) {
    char byte;
    return pread(fd, &byte, 1, 0) == 1;
}

static void *moves(void *unused) {
    while (!ends && !failed) {
        failed = dup2(HIGH, LOW) != LOW || close(HIGH) || !reads(LOW)
            || dup2(LOW, HIGH) != HIGH || close(LOW) || !reads(HIGH);
    }
    return unused;
}

int main(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < 2 * COUNT ? limit.rlim_max : 2 * COUNT;
    setrlimit(RLIMIT_NOFILE, &limit);
    int ends_of_pipe[2];
    pipe(ends_of_pipe);
    // What a search passes between the two.
    for (int fd = LOW + 1; fd < HIGH; fd++)
        dup2(ends_of_pipe[0], fd);
    int fd = open("/bin/sh", O_RDONLY);
    dup2(fd, HIGH);
    close(fd);
    int child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    pthread_t mover;
    pthread_create(&mover, NULL, moves, NULL);
    for (int i = 0; i < ROUNDS && !failed; i++) {
        int copy = fcntl(HIGH, F_DUPFD, HIGH + 1);
        if (copy < 0)
            copy = fcntl(LOW, F_DUPFD, HIGH + 1);
        if (copy >= 0)
            close(copy);
    }
    ends = 1;
    pthread_join(mover, NULL);
    kill(child, SIGKILL);
    wait(NULL);
    puts(failed ? "the file is lost" : "the file stays");
    return 0;
}
