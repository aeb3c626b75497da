/* Rare arguments of calls on files and paths, and signals that are ignored. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRY(call)                                                                   \
    do {                                                                            \
        long result = (call);                                                       \
        printf(#call ": %ld %s\n", result, result < 0 ? strerror(errno) : "");     \
    } while (0)

static void show_flags(const char *path, int flags)
{
    int fd = open(path, flags);
    printf("open(%s, %#x): %#x\n", path, flags, fcntl(fd, F_GETFL));
    close(fd);
}

static void execute(int folder, const char *path, int flags)
{
    char *const words[] = { "program", NULL };
    if (!fork()) {
        syscall(SYS_execveat, folder, path, words, words, flags);
        printf("execveat(%s, %#x): %s\n", path, flags, strerror(errno));
        _exit(9);
    }
    int status;
    wait(&status);
    printf("execveat(%s, %#x): status %#x\n", path, flags, status);
}

/* A signal that arrives while `sigtimedwait` waits for it. */
static void await(int signal, int how, void (*action)(int))
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(how, &set, NULL);
    sigaction(signal, &(struct sigaction){ .sa_handler = action }, NULL);
    pid_t child = fork();
    if (!child) {
        usleep(50000);
        kill(getppid(), signal);
        _exit(0);
    }
    int taken = sigtimedwait(&set, NULL, &(struct timespec){ 0, 500000000 });
    waitpid(child, NULL, 0);
    sigtimedwait(&set, NULL, &(struct timespec){ 0 });
    printf("signal %d, mask %d, action %d: %d\n", signal, how, action == SIG_IGN, taken);
}

int main(void)
{
    char bytes[4096];

    setbuf(stdout, NULL);
    mkdir("folder", 0700);
    close(open("file", O_CREAT | O_RDWR, 0600));
    symlink("file", "link");
    show_flags(".", O_PATH);
    show_flags("folder", O_PATH | O_DIRECTORY | O_CLOEXEC);
    show_flags("file", O_PATH | O_NOFOLLOW | O_RDWR | O_APPEND);
    show_flags("link", O_PATH | O_NOFOLLOW);

    int folder = open(".", O_RDONLY), file = open("file", O_RDWR), none = -1;
    TRY(syscall(SYS_getdents64, folder, bytes, 0x80000000u));
    TRY(syscall(SYS_getdents64, folder, bytes, 0x100000000ul));
    TRY(syscall(SYS_getdents64, folder, bytes, 0x100000000ul + sizeof bytes) > 0);
    TRY(linkat(none, "", AT_FDCWD, "name", AT_EMPTY_PATH));
    TRY(linkat(file, "", AT_FDCWD, "name", AT_EMPTY_PATH));
    TRY(linkat(file, "", AT_FDCWD, "name", AT_EMPTY_PATH));
    TRY(linkat(file, "", AT_FDCWD, "missing/name", AT_EMPTY_PATH));

    symlink("/bin/true", "program");
    symlink("/bin", "programs");
    execute(folder, "program", 0);
    execute(folder, "program", AT_SYMLINK_NOFOLLOW);
    execute(folder, "programs/true", AT_SYMLINK_NOFOLLOW);
    execute(folder, "program", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
    execute(folder, "program", 0x10);
    execute(none, "", AT_EMPTY_PATH);
    execute(none, "program", 0);
    execute(open("/bin/true", O_RDONLY), "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);

    await(SIGUSR1, SIG_UNBLOCK, SIG_IGN);
    await(SIGUSR1, SIG_BLOCK, SIG_IGN);
    await(SIGURG, SIG_UNBLOCK, SIG_DFL);
    await(SIGURG, SIG_BLOCK, SIG_DFL);
    await(SIGTRAP, SIG_UNBLOCK, SIG_IGN);
    await(SIGTRAP, SIG_BLOCK, SIG_IGN);
    return 0;
}
