/* Calls on paths of the host while another thread exchanges what leads there for links into an
 * overlay: DIRECTORY is below the working directory, and has `f`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static _Atomic int is_over;

/* A directory and a file are exchanged for links, and the working directory for the one above and
 * for a removed one. */
static void *exchange(void *above)
{
    int here = open(".", O_RDONLY), there = open(above, O_RDONLY);
    mkdir("gone", 0700);
    int gone = open("gone", O_RDONLY);
    rmdir("gone");
    while (!is_over) {
        renameat2(here, "place", here, "link", RENAME_EXCHANGE);
        renameat2(here, "file", here, "to_f", RENAME_EXCHANGE);
        fchdir(there);
        fchdir(here);
        fchdir(gone);
        fchdir(here);
    }
    return 0;
}

static void put(int fd)
{
    if (fd >= 0 && write(fd, "bad", 3) == 3)
        close(fd);
}

int main(int count, char **words)
{
    const char *name = words[2];
    char path[100], other[100];
    int here = open(".", O_RDONLY);
    pthread_t thread;
    pthread_create(&thread, 0, exchange, words[1]);
    for (int i = 0; i < atoi(words[3]); i++) {
        const char *files[] = {"place/f", "file", path, "./file", "link/../file", "link/f",
                               "/proc/self/cwd/place/f"};
        snprintf(path, sizeof path, "%s/f", name);
        lchown(name, i % 5, i % 5);
        utimensat(AT_FDCWD, name, 0, AT_SYMLINK_NOFOLLOW);
        for (int j = 0; j < 7; j++) {
            const char *file = files[j];
            put(openat(here, file, O_WRONLY | O_TRUNC | O_NONBLOCK));
            put(open(file, O_RDWR | O_NONBLOCK));
            put(open(file, O_WRONLY | O_CREAT | O_NONBLOCK, 0600));
            chmod(file, 0600 + i % 8);
            truncate(file, i % 3);
            chown(file, i % 5, i % 5);
            utimensat(here, file, 0, 0);
            setxattr(file, "user.a", "b", 1, 0);
        }
        for (int j = 0; j < 2; j++) {
            const char *directory = j ? name : "place";
            snprintf(path, sizeof path, "%s/new", directory);
            snprintf(other, sizeof other, "%s/other", directory);
            put(openat(here, path, O_WRONLY | O_CREAT | O_EXCL, 0600));
            rename(path, other);
            renameat(here, path, here, other);
            link(other, path);
            unlink(other);
            unlinkat(here, path, 0);
            mkdir(path, 0700);
            rmdir(path);
            symlink("to", path);
            unlink(path);
            mkfifo(path, 0600);
            unlink(path);
            snprintf(path, sizeof path, "%s/f", directory);
            rename(path, other);
            rename(other, path);
        }
    }
    is_over = 1;
    pthread_join(thread, 0);
    return 0;
}
