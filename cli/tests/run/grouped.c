/* Kills process groups in which threads are made, and processes are forked: grouped ROUNDS. Each
 * process that was forked by one that is killed writes to a pipe, and the pipe gives EOF. */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int *begun;
static int pipe_ends[2];
static int silent[2];

static void *uses_files(void *name) {
    for (int i = 0; i < 10; i++) {
        int fd = open(name, O_RDWR | O_CREAT, 0600);
        close(dup(fd));
        close(fd);
        unlink(name);
    }
    return NULL;
}

static void *waits(void *unused) {
    char byte;
    read(silent[0], &byte, 1);
    return unused;
}

static void makes_threads(void) {
    for (;;) {
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, uses_files, "/fdt/grouped");
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
    }
}

/* Has a process fork others, each of which tells that it has begun, and then writes. */
static void forks(int round) {
    pthread_t thread;
    if (round % 2)
        pthread_create(&thread, NULL, waits, NULL);
    for (;;) {
        if (fork() == 0) {
            setpgid(0, 0);
            __sync_fetch_and_add(begun, 1);
            usleep(2000);
            write(pipe_ends[1], "x", 1);
            _exit(0);
        }
    }
}

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 10;
    begun = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pipe(silent);
    srand(1);
    for (int round = 0; round < rounds; round++) {
        pid_t process = fork();
        if (process == 0) {
            setpgid(0, 0);
            makes_threads();
        }
        setpgid(process, process);
        usleep(1000 + rand() % 8000);
        kill(-process, SIGKILL);
        waitpid(process, NULL, 0);

        pipe(pipe_ends);
        *begun = 0;
        process = fork();
        if (process == 0) {
            setpgid(0, 0);
            close(pipe_ends[0]);
            forks(round);
        }
        setpgid(process, process);
        close(pipe_ends[1]);
        usleep(1000 + rand() % 4000);
        kill(-process, SIGKILL);
        waitpid(process, NULL, 0);
        char bytes[999];
        ssize_t some;
        int written = 0;
        while ((some = read(pipe_ends[0], bytes, sizeof bytes)) > 0)
            written += some;
        close(pipe_ends[0]);
        /* One that was killed with its maker, before it had a group of its own, has not begun. */
        if (written != *begun) {
            printf("%d of %d\n", written, *begun);
            return 1;
        }
    }
    puts("done");
    return 0;
}
