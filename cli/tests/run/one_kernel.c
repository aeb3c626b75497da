// Threads that use pipes and files while another thread makes processes that use them too.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 2000, CHILDREN = 60, WRITES = 50 };

static int pipes[THREADS][2];
static int common[2];

static void check(int ok, const char *what) {
    if (!ok) {
        perror(what);
        abort();
    }
}

// Sends numbers to itself, and opens and closes files.
static void *talk(void *argument) {
    int *both = argument;
    for (int round = 0; round < ROUNDS; round++) {
        int answer = -1;
        check(write(both[1], &round, sizeof round) == sizeof round, "write");
        check(read(both[0], &answer, sizeof answer) == sizeof answer, "read");
        check(answer == round, "the number");
        int copy = dup(both[0]);
        check(copy >= 0 && close(copy) == 0, "dup");
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    check(pipe(common) == 0, "pipe");
    for (int i = 0; i < THREADS; i++) {
        check(pipe(pipes[i]) == 0, "pipe");
        check(pthread_create(&threads[i], NULL, talk, pipes[i]) == 0, "thread");
    }
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        check(child >= 0, "fork");
        if (child == 0) {
            for (int j = 0; j < WRITES; j++)
                check(write(common[1], "x", 1) == 1, "write of a child");
            // Some end in good order, and some do not.
            if (i % 3 == 0)
                kill(getpid(), 9);
            _exit(0);
        }
    }
    close(common[1]);
    long sum = 0;
    char buffer[1000];
    for (ssize_t n; (n = read(common[0], buffer, sizeof buffer)) > 0;)
        sum += n;
    int ended = 0, killed = 0, status;
    while (wait(&status) > 0) {
        ended++;
        killed += WIFSIGNALED(status);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%ld bytes of %d children, %d killed\n", sum, ended, killed);
    return 0;
}
