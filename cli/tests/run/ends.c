/* Ends of processes and threads: `exit` as a system call, and a signal for another process by the
   id of its thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int leave(void *code)
{
    return (int)(long)code;
}

/* Exits by the system call, after the first thread. */
static void *leave_late(void *code)
{
    usleep(100000);
    if (code)
        syscall(SYS_exit, (int)(long)code);
    return NULL;
}

static void *leave_now(void *code)
{
    syscall(SYS_exit, (int)(long)code);
    return NULL;
}

static void with_thread(void *run(void *), void *code, int joins)
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, code);
    if (joins)
        pthread_join(thread, NULL);
}

static void wait_for(const char *what, pid_t child)
{
    int status = 0;
    pid_t found = waitpid(child, &status, __WALL);
    printf("%s: %s %#x\n", what, found == child ? "ended" : strerror(errno), status);
}

static void kill_thread(int signal)
{
    int ends[2];
    pipe(ends);
    pid_t child = fork();
    if (!child)
        for (;;)
            pause();
    long sent = syscall(SYS_tkill, child, signal);
    long written = write(ends[1], "x", 1);
    printf("tkill %ld write %ld\n", sent, written);
    wait_for("tkill", child);
}

int main(void)
{
    char *stack = (char *)malloc(1 << 16) + (1 << 16);
    pid_t child;

    setbuf(stdout, NULL);
    if (!(child = fork()))
        syscall(SYS_exit, 5);
    wait_for("a child", child);
    if (!(child = vfork()))
        syscall(SYS_exit, 6);
    wait_for("a child of vfork", child);
    for (int flags = 0; flags < 3; flags++) {
        const int all[] = { 0, CLONE_FILES, CLONE_VM | CLONE_VFORK };
        wait_for("a function", clone(leave, stack, all[flags] | SIGCHLD, (void *)7L));
    }
    if (!(child = fork())) {
        with_thread(leave_now, (void *)8L, 1);
        syscall(SYS_exit, 9);
    }
    wait_for("the last of two threads", child);
    for (long code = 0; code < 2; code++) {
        if (!(child = fork())) {
            with_thread(leave_late, (void *)code, 0);
            syscall(SYS_exit, 9);
        }
        wait_for("the first of two threads", child);
    }
    kill_thread(SIGKILL);
    kill_thread(SIGTERM);
    syscall(SYS_exit, 10);
}
