/* Transfers and handlers that are cut short: a pipe that loses its reader, a pipe that is spliced
   to a file without transfers, and a signal stack that is exhausted. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int signals;
static int ends[2];
static char bytes[1 << 20];

static void count(int signal)
{
    signals++;
}

static void show(const char *what, long result)
{
    const char *error = result < 0 ? strerror(errno) : "";
    printf("%s: %s %s, SIGPIPE %d\n", what, result > 0 ? "some" : "none", error, signals);
}

static void *write_much(void *vectored)
{
    struct iovec two[] = { { bytes, 1 }, { bytes, sizeof bytes - 1 } };
    long result = vectored ? writev(ends[1], two, 2) : write(ends[1], bytes, sizeof bytes);
    show("a write that is cut", result);
    show("the next", write(ends[1], bytes, 10));
    return NULL;
}

static void lose_reader(int makes_socket, int vectored)
{
    pthread_t thread;
    signals = 0;
    if (makes_socket)
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    else
        pipe(ends);
    pthread_create(&thread, NULL, write_much, vectored ? ends : NULL);
    struct pollfd full = { ends[0], POLLIN };
    poll(&full, 1, -1);
    usleep(200000);
    close(ends[0]);
    pthread_join(thread, NULL);
    close(ends[1]);
}

static void splice_to(const char *what, int target)
{
    pipe(ends);
    alarm(5);
    errno = 0;
    long moved = splice(ends[0], NULL, target, NULL, 1, 0);
    printf("an empty pipe to %s: %ld %s\n", what, moved, strerror(errno));
    write(ends[1], "x", 1);
    errno = 0;
    moved = splice(ends[0], NULL, target, NULL, 1, 0);
    printf("a pipe to %s: %ld %s\n", what, moved, strerror(errno));
    alarm(0);
}

static void fault(int signal)
{
    *(volatile int *)16 = 1;
}

/* A handler that faults again and again fills the stack. */
static void exhaust(int flags)
{
    pid_t child = fork();
    if (!child) {
        const struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        char *memory = malloc(1 << 17);
        stack_t stack = { .ss_sp = memory + (1 << 16), .ss_size = 1 << 16 };
        sigaltstack(&stack, NULL);
        struct sigaction action = { .sa_handler = fault, .sa_flags = flags | SA_NODEFER };
        sigaction(SIGSEGV, &action, NULL);
        alarm(5);
        fault(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("a stack that is exhausted: %d\n", WTERMSIG(status));
}

int main(void)
{
    sigset_t none;
    setbuf(stdout, NULL);
    signal(SIGPIPE, count);
    for (int kind = 0; kind < 4; kind++)
        lose_reader(kind & 1, kind & 2);
    sigemptyset(&none);
    splice_to("a signalfd", signalfd(-1, &none, 0));
    splice_to("a timerfd", timerfd_create(CLOCK_MONOTONIC, 0));
    splice_to("a pidfd", syscall(SYS_pidfd_open, getpid(), 0));
    splice_to("a directory", open("/", O_RDONLY));
    exhaust(SA_ONSTACK);
    return 0;
}
