/* Addresses that cannot be accessed, in calls about signals, threads and waits. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRY(...)                                                                          \
    do {                                                                                  \
        if (!fork()) {                                                                    \
            long result = syscall(__VA_ARGS__);                                           \
            printf(#__VA_ARGS__ ": %ld %s\n", result, result < 0 ? strerror(errno) : ""); \
            _exit(0);                                                                     \
        }                                                                                 \
        int status;                                                                       \
        wait(&status);                                                                    \
        if (status)                                                                       \
            printf(#__VA_ARGS__ ": status %#x\n", status);                                \
    } while (0)

static void all(void *bad, void *fixed)
{
    struct timespec time = { 0, 1000 };
    struct epoll_event event;
    int epoll = epoll_create1(0);
    sigset_t set;
    stack_t stack = { .ss_flags = SS_DISABLE };
    struct sigaction action = { .sa_handler = SIG_IGN };

    sigemptyset(&set);
    TRY(SYS_ppoll, 0, 0, &time, bad, 8);
    TRY(SYS_ppoll, 0, 0, bad, 0, 8);
    TRY(SYS_pselect6, 0, 0, 0, 0, &time, bad);
    TRY(SYS_pselect6, 0, 0, 0, 0, bad, 0);
    TRY(SYS_epoll_pwait, epoll, &event, 1, 0, bad, 8);
    TRY(SYS_epoll_pwait2, epoll, &event, 1, bad, 0, 8);
    TRY(SYS_epoll_pwait2, epoll, &event, 1, &time, bad, 8);
    TRY(SYS_rt_sigprocmask, SIG_BLOCK, bad, 0, 8);
    TRY(SYS_rt_sigprocmask, SIG_BLOCK, 0, fixed, 8);
    TRY(SYS_rt_sigaction, SIGUSR1, bad, 0, 8);
    TRY(SYS_rt_sigaction, SIGUSR1, 0, fixed, 8);
    TRY(SYS_rt_sigaction, SIGUSR1, &action, fixed, 8);
    TRY(SYS_rt_sigsuspend, bad, 8);
    TRY(SYS_rt_sigsuspend, 0, 8);
    TRY(SYS_rt_sigtimedwait, bad, 0, &time, 8);
    TRY(SYS_rt_sigtimedwait, &set, 0, bad, 8);
    TRY(SYS_rt_sigpending, fixed, 8);
    TRY(SYS_rt_sigqueueinfo, getpid(), SIGSEGV, bad);
    TRY(SYS_sigaltstack, bad, 0);
    TRY(SYS_sigaltstack, 0, fixed);
    TRY(SYS_sigaltstack, &stack, fixed);
    TRY(SYS_clone3, bad, 88);
    TRY(SYS_arch_prctl, 0x1003, fixed);
    TRY(SYS_signalfd4, -1, bad, 8, 0);
    TRY(SYS_nanosleep, bad, 0);
    TRY(SYS_wait4, -1, bad, 0, 0);
    TRY(SYS_execve, bad, 0, 0);
    TRY(SYS_getcwd, 0, 1);
    TRY(SYS_getcwd, 0, 4096);
    TRY(SYS_getcwd, fixed, 4096);
}

/* Words that the kernel writes for a new process: those that it cannot write, it leaves out. */
static void words(void *fixed)
{
    const long flags[] = { 0x00100000, 0x01000000, 0x00200000 };
    for (int index = 0; index < 3; index++) {
        long child = syscall(SYS_clone, flags[index] | SIGCHLD, 0, fixed, fixed, 0);
        int status = -1;
        if (!child)
            _exit(3);
        waitpid(child, &status, 0);
        printf("clone %#lx: %d %#x\n", flags[index], child > 0, status);
    }
}

int main(void)
{
    setbuf(stdout, NULL);
    void *fixed = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    all((void *)16, (void *)16);
    all(none, fixed);
    all((void *)-16L, (void *)-16L);
    words((void *)16);
    words(fixed);
    return 0;
}
