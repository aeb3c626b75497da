/* Flags of `clone` and `clone3`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* For older headers. */
#define CLEAR_SIGHAND (1ull << 32)
#define SPARE (1ull << 40)

static void handle(int signal)
{
}

static long begin(struct clone_args *args, size_t size)
{
    long child = syscall(SYS_clone3, args, size);
    if (!child) {
        struct sigaction usr1, usr2;
        sigaction(SIGUSR1, NULL, &usr1);
        sigaction(SIGUSR2, NULL, &usr2);
        _exit((usr1.sa_handler == SIG_DFL) | (usr2.sa_handler == SIG_IGN) << 1);
    }
    return child;
}

static void end(const char *what, long child)
{
    int status = 0;
    const char *error = child < 0 ? strerror(errno) : "";
    if (child > 0)
        waitpid(child, &status, __WALL);
    printf("%s: %d %s %#x\n", what, child > 0, error, status);
}

static void try(const char *what, uint64_t flags, int signal)
{
    struct clone_args args = { .flags = flags, .exit_signal = signal };
    end(what, begin(&args, sizeof args));
}

static void show_pidfd(const char *what, int fd, pid_t child)
{
    struct pollfd poller = { fd, POLLIN };
    siginfo_t info = { 0 };
    printf("%s: flags %d\n", what, fcntl(fd, F_GETFD));
    printf("poll %d\n", poll(&poller, 1, 10000));
    int result = waitid(P_PIDFD, fd, &info, WEXITED | __WALL);
    printf("wait %d %d code %d\n", result, info.si_pid == child, info.si_status);
    printf("close %d\n", close(fd));
    printf("lowest %d\n", dup(0));
}

static void pidfds(void)
{
    int fd = -1;
    struct clone_args args = { .flags = CLONE_PIDFD, .pidfd = (uintptr_t)&fd,
                               .exit_signal = SIGCHLD };
    long child = begin(&args, sizeof args);
    show_pidfd("clone3", fd, child);
    args.flags |= CLONE_VFORK;
    child = begin(&args, sizeof args);
    show_pidfd("and waits", fd, child);
    args.flags = CLONE_PIDFD | CLONE_FILES;
    child = begin(&args, sizeof args);
    show_pidfd("and shares files", fd, child);
    child = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &fd, 0, 0);
    if (!child)
        _exit(fcntl(3, F_GETFD) < 0);
    show_pidfd("clone", fd, child);
    args.flags = CLONE_PIDFD | CLONE_PARENT_SETTID;
    args.parent_tid = args.pidfd;
    end("one word for both", begin(&args, sizeof args));
    args.flags = CLONE_PIDFD;
    args.pidfd = 16;
    end("a word that cannot be written", begin(&args, sizeof args));
    printf("lowest %d\n", dup(0));
}

int main(void)
{
    struct {
        struct clone_args known;
        uint64_t more;
    } args = { .known.exit_signal = SIGCHLD };

    setbuf(stdout, NULL);
    signal(SIGUSR1, handle);
    signal(SIGUSR2, SIG_IGN);
    try("plain", 0, SIGCHLD);
    try("an unknown flag", SPARE, SIGCHLD);
    try("default actions", CLEAR_SIGHAND, SIGCHLD);
    try("CLONE_PARENT with a signal", CLONE_PARENT, SIGCHLD);
    try("a signal that does not exist", 0, 65);
    try("a signal in the flags", SIGCHLD, 0);
    try("CLONE_DETACHED", CLONE_DETACHED, SIGCHLD);
    try("CLONE_SIGHAND", CLONE_SIGHAND, SIGCHLD);
    try("CLONE_THREAD", CLONE_THREAD, 0);
    try("CLONE_THREAD | CLONE_VM", CLONE_THREAD | CLONE_VM, 0);
    try("shared and default actions", CLEAR_SIGHAND | CLONE_SIGHAND | CLONE_VM, SIGCHLD);
    pidfds();
    args.known.stack = 4096;
    end("a stack without a size", begin(&args.known, 88));
    args.known.stack = 0;
    args.known.stack_size = 4096;
    end("a size without a stack", begin(&args.known, 88));
    args.known.stack_size = 0;
    args.known.set_tid_size = 1;
    end("a number of ids without ids", begin(&args.known, 88));
    args.known.set_tid_size = 0;
    end("a longer struct", begin(&args.known, 96));
    args.more = 1;
    end("a word that is unknown", begin(&args.known, 96));
    end("a short struct", begin(&args.known, 56));
    end("a struct above a page", begin(&args.known, 4104));
    end("flags of clone", syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0));
    return 0;
}
