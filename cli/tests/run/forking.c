/* Makes processes, one after the other, that fork and fork while a thread of theirs waits in a call.
   The number of each is printed, and another program kills it: it is waited for. The argument says
   how many. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[2];

static void *reads(void *unused) {
    char byte;
    read(ends[0], &byte, 1);
    return unused;
}

static void fork_on(volatile int *begun) {
    pthread_t reader;
    pipe(ends);
    // Longer forks: there is more to copy.
    for (int i = 0; i < 200; i++)
        dup(ends[1]);
    // So each fork fails, and the next one begins at once. The limit is not root's.
    if (getuid() == 0)
        setuid(65534);
    pthread_create(&reader, NULL, reads, NULL);
    usleep(3000);
    setrlimit(RLIMIT_NPROC, &(struct rlimit){1, 1});
    for (;;) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child > 0)
            waitpid(child, NULL, 0);
        *begun = 1;
    }
}

int main(int count, char **words) {
    volatile int *begun = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < atoi(words[1]); i++) {
        *begun = 0;
        pid_t child = fork();
        if (child == 0)
            fork_on(begun);
        while (!*begun)
            usleep(300);
        printf("%d\n", child);
        fflush(stdout);
        waitpid(child, NULL, 0);
        puts("ended");
        fflush(stdout);
    }
    return 0;
}
