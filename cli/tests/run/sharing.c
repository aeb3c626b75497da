/* Processes that share a table of descriptors: `clone` with `CLONE_FILES` alone. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int *step;

static pid_t shares(void) {
    return syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
}

static void await(int number) {
    while (*step < number)
        usleep(500);
}

static void show(const char *what, int fd) {
    char bytes[16] = {0};
    ssize_t count = pread(fd, bytes, 5, 0);
    printf("%s: %d %s %s\n", what, fd, bytes, count < 0 ? strerror(errno) : "");
    fflush(stdout);
}

/* One process opens files, and the other one closes them: more than may be open at once. */
static int opens_and_closes(void) {
    enum { COUNT = 400 };
    int child = shares();
    if (child == 0) {
        for (int i = 0; i < COUNT; i++) {
            while (step[0] == i)
                sched_yield();
            close(step[1]);
            step[2] = i + 1;
        }
        _exit(0);
    }
    int opened = 0;
    for (int i = 0; i < COUNT; i++) {
        step[1] = open("before", O_RDONLY);
        opened += step[1] >= 0;
        step[0] = i + 1;
        while (step[2] == i)
            sched_yield();
    }
    waitpid(child, NULL, 0);
    printf("opened: %d\n", opened);
    return 0;
}

/* The last one that shares a table closes its files, also if no process has waited for the others:
 * the first one is waited for after the pipe was read. */
static void end_in_turn(void) {
    int ends[2];
    pipe(ends);
    *step = 0;
    pid_t first = fork();
    if (first == 0) {
        close(ends[0]);
        pid_t parent = getpid();
        pid_t last = shares();
        if (last == 0) {
            while (getppid() == parent)
                usleep(500);
            _exit(0);
        }
        *step = last;
        _exit(0);
    }
    close(ends[1]);
    await(1);
    /* It becomes a child of this process when the first one ends. */
    while (waitpid(*step, NULL, 0) < 0)
        usleep(500);
    char byte;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ssize_t count = read(ends[0], &byte, 1);
    printf("after the last one: %s\n", count == 0 ? "EOF" : strerror(errno));
    waitpid(first, NULL, 0);
    close(ends[0]);
}

int main(void) {
    step = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int before = open("before", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    write(before, "first", 5);
    int child = shares();
    if (child == 0) {
        show("the child, opened before", before);
        int fd = open("inside", O_RDWR | O_CREAT, 0600);
        write(fd, "child", 5);
        int pipes[2];
        pipe(pipes);
        write(pipes[1], "bytes", 5);
        *step = 1;
        await(2);
        show("the child, opened by the parent", fd + 3);
        close(fd + 3);
        *step = 3;
        await(4);
        if (shares() == 0)
            execl("/bin/true", "true", NULL);
        wait(NULL);
        if (shares() == 0) {
            close_range(3, ~0U, CLOSE_RANGE_UNSHARE);
            _exit(0);
        }
        wait(NULL);
        if (shares() == 0) {
            unshare(CLONE_FILES);
            close(before);
            _exit(0);
        }
        wait(NULL);
        _exit(0);
    }
    await(1);
    show("the parent, opened by the child", before + 1);
    char bytes[6] = {0};
    read(before + 2, bytes, 5);
    printf("a pipe of the child: %s\n", bytes);
    int fd = open("before", O_RDONLY);
    *step = 2;
    await(3);
    show("the parent, closed by the child", fd);
    *step = 4;
    int status;
    waitpid(child, &status, 0);
    show("the parent, after the child", before);
    printf("%d %d\n", status, fcntl(before, F_GETFD));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 0; i < 5; i++)
        end_in_turn();
    *step = 0;
    return opens_and_closes();
}
