/* Code of a file that is mapped in parts, is not readable any more, or is gone; and code that is
 * changed while a handler has interrupted it. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, SITE = 64, TAKEN = 128, NOT_TAKEN = 192 };

/* SPLIT is at the border of two pages. */
enum { SPLIT = PAGE - 5, BRANCH = 2 * PAGE, PAGES = 3 };

static int fd;
static int is_wrong;

/* At 0: getpid by `mov`; at SITE: getpid by `push`, with instructions behind the call; at BRANCH: a
 * jump to those, with 1 in the register of the result. At TAKEN: getpid, and -1 if its result is 0;
 * at NOT_TAKEN: 7 if the result of sched_yield is 0. At SPLIT: as at SITE. */
static const unsigned char front[] = {0xB8, 39, 0, 0, 0, 0x0F, 0x05, 0xC3};
static const unsigned char behind[] = {0x6A, 39,   0x58, 0x0F, 0x05, 0x48,
                                       0x83, 0xF8, 0x00, 0x90, 0xC3};
static const unsigned char taken[] = {0x6A, 39,   0x58, 0x0F, 0x05, 0x85, 0xC0, 0x75,
                                      0x05, 0xB8, 0xFF, 0xFF, 0xFF, 0xFF, 0xC3};
static const unsigned char not_taken[] = {0x6A, 24,   0x58, 0x0F, 0x05, 0x85, 0xC0, 0x75,
                                          0x05, 0xB8, 7,    0,    0,    0,    0xC3};
static unsigned char branch[] = {0xB8, 1, 0, 0, 0, 0xE9, 0, 0, 0, 0};

static char *map(int pages, int protection) {
    char *at = mmap(NULL, pages * PAGE, protection, MAP_PRIVATE, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static long run(char *at) {
    return ((long (*)(void))at)();
}

static void calls(char *at) {
    for (int i = 0; i < 12; i++)
        if (run(at) != getpid() || run(at + SITE) != getpid() ||
            run(at + TAKEN) != getpid() || run(at + NOT_TAKEN) != 7)
            is_wrong = 1;
}

/* Runs what a mode says in a child, and tells how that has ended. */
static void in_child(const char *name, void (*mode)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        mode();
        _exit(is_wrong);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%s: %d\n", name, status);
}

static void part(void) {
    calls(map(1, PROT_READ | PROT_EXEC));
}

static void whole(void) {
    char *at = map(PAGES, PROT_READ | PROT_EXEC);
    calls(at);
    if (run(at + BRANCH) != 1)
        is_wrong = 1;
}

static void only_executed(void) {
    calls(map(PAGES, PROT_EXEC));
}

static void hidden(void) {
    char *at = map(PAGES, PROT_READ | PROT_EXEC);
    calls(at);
    mprotect(at, PAGE, PROT_NONE);
    if (fork() == 0)
        _exit(0);
    wait(NULL);
    munmap(at, PAGES * PAGE);
}

static void changed(void) {
    char *at = map(PAGES, PROT_READ | PROT_EXEC);
    mprotect(at + BRANCH, PAGE, PROT_READ | PROT_WRITE);
    at[BRANCH + PAGE - 1] = 1;
    mprotect(at + BRANCH, PAGE, PROT_READ | PROT_EXEC);
    calls(at);
    if (run(at + BRANCH) != 1)
        is_wrong = 1;
}

static void again(void) {
    for (int i = 0; i < 3000; i++) {
        char *at = map(PAGES, PROT_READ | PROT_EXEC);
        if (run(at) != getpid())
            is_wrong = 1;
        munmap(at, PAGES * PAGE);
    }
}

static void cut(void) {
    char *at = map(PAGES, PROT_READ | PROT_EXEC);
    calls(at);
    ftruncate(fd, 0);
    if (fork() == 0)
        _exit(0);
    wait(NULL);
    munmap(at, PAGES * PAGE);
}

/* The mapping is longer than the file. */
static void behind_the_end(void) {
    calls(map(16, PROT_READ | PROT_EXEC));
}

static void later(void) {
    char *at = map(PAGES, PROT_NONE);
    for (int i = 0; i < PAGES; i++) {
        mmap(at + i * PAGE, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, i * PAGE);
        calls(at);
    }
    if (run(at + BRANCH) != 1)
        is_wrong = 1;
}

static void discarded(void) {
    char *at = map(PAGES, PROT_READ | PROT_EXEC);
    for (int page = 1; page >= 0; page--) {
        for (int i = 0; i < 12; i++)
            if (run(at + SPLIT) != getpid())
                is_wrong = 1;
        madvise(at + page * PAGE, PAGE, MADV_DONTNEED);
    }
    if (run(at + SPLIT) != getpid())
        is_wrong = 1;
}

/* kill, and getpid + 16. */
static const unsigned char kills[] = {0x6A, 62,   0x58, 0x0F, 0x05, 0x48,
                                      0x3D, 0x00, 0xF0, 0xFF, 0xFF, 0xC3};
static const unsigned char adds[] = {0x6A, 39, 0x58, 0x0F, 0x05, 0x48, 0x05, 16, 0, 0, 0, 0xC3};
static char *page;

static char *page_with(const unsigned char *code, size_t size) {
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, code, size);
    mprotect(at, PAGE, PROT_READ | PROT_EXEC);
    return at;
}

static void on_signal(int signal) {
    (void)signal;
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    mprotect(page, PAGE, PROT_READ | PROT_EXEC);
    char *other = page_with(adds, sizeof adds);
    for (int i = 0; i < 12; i++)
        if (run(other) != getpid() + 16)
            is_wrong = 1;
}

/* A handler returns behind a call, whose site is not the same any more. */
static void changed_by_a_handler(void) {
    page = page_with(kills, sizeof kills);
    long (*call)(int, int) = (long (*)(int, int))page;
    for (int i = 0; i < 12; i++)
        if (call(getpid(), 0) != 0)
            is_wrong = 1;
    signal(SIGUSR1, on_signal);
    if (call(getpid(), SIGUSR1) != 0)
        is_wrong = 1;
}

/* A segment takes the place of code. */
static void replaced(void) {
    page = page_with(kills, sizeof kills);
    for (int i = 0; i < 12; i++)
        ((long (*)(int, int))page)(getpid(), 0);
    int id = shmget(IPC_PRIVATE, PAGE, 0700 | IPC_CREAT);
    unsigned char *segment = shmat(id, NULL, 0);
    memset(segment, 0xE9, PAGE);
    if (shmat(id, page, SHM_REMAP) != page)
        is_wrong = 1;
    munmap(page, PAGE);
    for (int i = 0; i < PAGE; i++)
        if (segment[i] != 0xE9)
            is_wrong = 1;
    shmctl(id, IPC_RMID, NULL);
}

static volatile int stops;

static void *maps(void *unused) {
    while (!stops) {
        size_t size = 1 << 20;
        char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(at, 1, size);
        mprotect(at, PAGE, PROT_READ);
        munmap(at, size);
    }
    return unused;
}

static void forks(int count) {
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0) {
            munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0)
            is_wrong = 1;
    }
}

/* A process is forked while a thread changes the memory. A child that hangs is ended. */
static void forks_beside_maps(void) {
    alarm(30);
    pthread_t thread;
    pthread_create(&thread, NULL, maps, NULL);
    forks(200);
    stops = 1;
    pthread_join(thread, NULL);
}

/* The program has a filter for what it does not do itself. */
static void filtered(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        is_wrong = 1;
    forks(20);
}

/* The loader of a new program asks for the CPU, whatever the one before has set. */
static void without_cpuid(void) {
    const long arch_cpuid = 0x1012;
    syscall(SYS_arch_prctl, arch_cpuid, 0);
    execl("/proc/self/exe", "code", "again", NULL);
    is_wrong = 1;
}

int main(int count, char **words) {
    (void)words;
    if (count > 1)
        return 0;
    unlink("code");
    fd = open("code", O_RDWR | O_CREAT, 0700);
    int distance = SITE + 5 - (BRANCH + (int)sizeof branch);
    memcpy(branch + 6, &distance, sizeof distance);
    ftruncate(fd, PAGES * PAGE);
    pwrite(fd, front, sizeof front, 0);
    pwrite(fd, behind, sizeof behind, SITE);
    pwrite(fd, taken, sizeof taken, TAKEN);
    pwrite(fd, not_taken, sizeof not_taken, NOT_TAKEN);
    pwrite(fd, behind, sizeof behind, SPLIT);
    pwrite(fd, branch, sizeof branch, BRANCH);
    /* What is known of sites is about files that were not changed lately. */
    sleep(4);
    in_child("part", part);
    in_child("later", later);
    in_child("behind the end", behind_the_end);
    in_child("whole", whole);
    in_child("part", part);
    in_child("whole", whole);
    in_child("only executed", only_executed);
    in_child("hidden", hidden);
    in_child("changed", changed);
    in_child("again", again);
    in_child("discarded", discarded);
    in_child("changed by a handler", changed_by_a_handler);
    in_child("replaced", replaced);
    in_child("forks beside maps", forks_beside_maps);
    in_child("filtered", filtered);
    in_child("without cpuid", without_cpuid);
    in_child("cut", cut);
    return 0;
}
