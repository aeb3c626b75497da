// Programs and scripts that are executed by a descriptor, with flags, and while they are open for writing.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void run(int fd, const char *path, int flags) {
    char *words[] = {"zero", "one", NULL}, *none[] = {NULL};
    printf("%d \"%s\" %#x: ", fd, path, flags);
    fflush(stdout);
    if (fork() == 0) {
        syscall(SYS_execveat, fd, path, words, none, flags);
        puts(strerrorname_np(errno));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

int main(void) {
    enum { FILE_FD = 40, CLOSED, DIRECTORY, PATH_FD };
    int file = open("script", O_CREAT | O_TRUNC | O_WRONLY, 0700);
    dprintf(file, "#!/bin/sh\nread name </proc/$$/comm; echo $name $0 $1\n");
    close(file);
    symlink("script", "link");
    dup2(open("script", O_RDONLY), FILE_FD);
    dup3(FILE_FD, CLOSED, O_CLOEXEC);
    dup2(open(".", O_RDONLY | O_DIRECTORY), DIRECTORY);
    dup2(open("script", O_PATH), PATH_FD);
    run(DIRECTORY, "script", 0);
    run(AT_FDCWD, "script", 0);
    run(AT_FDCWD, "./link", 0);
    run(DIRECTORY, "link", 0);
    run(DIRECTORY, "link", AT_SYMLINK_NOFOLLOW);
    run(DIRECTORY, "script", AT_SYMLINK_NOFOLLOW);
    run(CLOSED, "", AT_EMPTY_PATH);
    run(FILE_FD, "", 0);
    run(FILE_FD, "", 0x10000000);
    run(FILE_FD, "x", 0x10000000);
    run(FILE_FD, "x", 0);
    run(DIRECTORY, "", AT_EMPTY_PATH);
    run(99, "", AT_EMPTY_PATH);
    run(99, "script", 0);
    file = open("script", O_WRONLY);
    run(DIRECTORY, "script", 0);
    close(file);
    chmod("script", 0600);
    run(DIRECTORY, "script", 0);
    unlink("script");
    unlink("link");
}
