/* Code of a file that is mapped in parts, is not readable any more, or is gone. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, SITE = 64, BRANCH = PAGE };

static int fd;

/* At 0: getpid by `mov`; at SITE: getpid by `push`, with instructions behind the call; at BRANCH: a
 * jump to those, with 1 in the register of the result. */
static const unsigned char front[] = {0xB8, 39, 0, 0, 0, 0x0F, 0x05, 0xC3};
static const unsigned char behind[] = {0x6A, 39,   0x58, 0x0F, 0x05, 0x48,
                                       0x83, 0xF8, 0x00, 0x90, 0xC3};
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
        if (run(at) != getpid() || run(at + SITE) != getpid())
            puts("wrong");
}

/* Runs what a mode says in a child, and tells how that has ended. */
static void in_child(const char *name, void (*mode)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        mode();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%s: %d\n", name, status);
}

static void part(void) {
    calls(map(1, PROT_READ | PROT_EXEC));
}

static void whole(void) {
    char *at = map(2, PROT_READ | PROT_EXEC);
    calls(at);
    if (run(at + BRANCH) != 1)
        puts("wrong");
}

static void only_executed(void) {
    calls(map(2, PROT_EXEC));
}

static void hidden(void) {
    char *at = map(2, PROT_READ | PROT_EXEC);
    calls(at);
    mprotect(at, PAGE, PROT_NONE);
    if (fork() == 0)
        _exit(0);
    wait(NULL);
    munmap(at, 2 * PAGE);
}

static void changed(void) {
    char *at = map(2, PROT_READ | PROT_EXEC);
    mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE);
    at[2 * PAGE - 1] = 1;
    mprotect(at + PAGE, PAGE, PROT_READ | PROT_EXEC);
    calls(at);
    if (run(at + BRANCH) != 1)
        puts("wrong");
}

static void again(void) {
    for (int i = 0; i < 3000; i++) {
        char *at = map(2, PROT_READ | PROT_EXEC);
        if (run(at) != getpid())
            puts("wrong");
        munmap(at, 2 * PAGE);
    }
}

static void cut(void) {
    char *at = map(2, PROT_READ | PROT_EXEC);
    calls(at);
    ftruncate(fd, 0);
    if (fork() == 0)
        _exit(0);
    wait(NULL);
    munmap(at, 2 * PAGE);
}

int main(void) {
    unlink("code");
    fd = open("code", O_RDWR | O_CREAT, 0700);
    int distance = SITE + 5 - (BRANCH + (int)sizeof branch);
    memcpy(branch + 6, &distance, sizeof distance);
    ftruncate(fd, 2 * PAGE);
    pwrite(fd, front, sizeof front, 0);
    pwrite(fd, behind, sizeof behind, SITE);
    pwrite(fd, branch, sizeof branch, BRANCH);
    /* What is known of sites is about files that were not changed lately. */
    sleep(4);
    in_child("part", part);
    in_child("whole", whole);
    in_child("part", part);
    in_child("whole", whole);
    in_child("only executed", only_executed);
    in_child("hidden", hidden);
    in_child("changed", changed);
    in_child("again", again);
    in_child("cut", cut);
    return 0;
}
