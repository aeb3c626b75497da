// Files of the host by the links to their descriptors, and record locks on them at a close.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHOW(...) show(#__VA_ARGS__, (errno = 0, (long)(__VA_ARGS__)))

static void show(const char *call, long result) {
    printf("%s: %ld %s\n", call, result, result == -1 ? strerrorname_np(errno) : "");
}

// Returns the link to a descriptor, in a directory of links.
static const char *in(const char *directory, int fd) {
    static char names[4][60];
    static int next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof names[0], "%s/%d", directory, fd);
    return name;
}

static const char *of(int fd) {
    return in("/proc/self/fd", fd);
}

// Prints where a link leads, without the numbers in brackets.
static void leads(const char *path) {
    char text[4096] = "";
    SHOW(readlink(path, text, sizeof text - 1) > 0);
    printf("%s leads to %.*s\n", path, (int)strcspn(text, "["), text);
}

static void reopen(void) {
    char text[20] = "";
    int file = open("file", O_CREAT | O_TRUNC | O_RDWR, 0600), copy = dup(file), ends[2];
    SHOW(write(file, "abcdef", 6));
    SHOW(lseek(file, 2, SEEK_SET));
    leads(of(file));
    int reader = open(of(file), O_RDONLY), appender = open(in("/dev/fd", file), O_WRONLY | O_APPEND);
    SHOW(lseek(copy, 0, SEEK_CUR));
    SHOW(lseek(reader, 0, SEEK_CUR));
    SHOW(read(reader, text, 4));
    SHOW(lseek(file, 0, SEEK_CUR));
    SHOW(write(reader, "x", 1));
    SHOW(write(appender, "XY", 2));
    SHOW(fcntl(file, F_SETFL, O_APPEND));
    SHOW(fcntl(copy, F_GETFL) & O_APPEND);
    SHOW(fcntl(reader, F_GETFL) & O_APPEND);
    SHOW(unlink("file"));
    leads(of(file));
    int emptied = open(of(file), O_RDWR | O_TRUNC);
    SHOW(lseek(emptied, 0, SEEK_END));
    SHOW(open(of(file), O_CREAT | O_EXCL | O_RDWR, 0600));
    SHOW(open(of(file), O_NOFOLLOW));
    SHOW(open(of(99), O_RDONLY));
    SHOW(open("/proc/self/fd/00", O_RDONLY));
    SHOW(access(of(file), R_OK));
    SHOW(unlink(of(file)));
    SHOW(linkat(AT_FDCWD, of(file), AT_FDCWD, "other", AT_SYMLINK_FOLLOW));
    int nameless = open(".", O_TMPFILE | O_RDWR, 0600);
    SHOW(linkat(AT_FDCWD, of(nameless), AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    dup2(open("named", O_RDONLY), 0);
    SHOW(fchmod(nameless, 0400));
    leads("/dev/stdin");
    SHOW(open("/dev/stdin", O_RDONLY) >= 0);
    SHOW(unlink("named"));
    SHOW(open("/dev/stdin/below", O_RDONLY));
}

static void directories(void) {
    char text[4096], fds[60], process[60];
    struct stat status;
    SHOW(mkdir("directory", 0700));
    SHOW(close(open("directory/inside", O_CREAT, 0600)));
    int directory = open("directory", O_RDONLY), inside = open("directory/inside", O_RDONLY);
    snprintf(text, sizeof text, "%s/inside", of(directory));
    SHOW(access(text, F_OK));
    SHOW(readlink(text, fds, sizeof fds));
    snprintf(text, sizeof text, "%s/new", of(directory));
    SHOW(mkdir(text, 0700));
    SHOW(rename(text, "directory/renamed"));
    SHOW(rmdir("directory/renamed"));
    snprintf(text, sizeof text, "%s/", of(inside));
    SHOW(stat(text, &status));
    // The C library reads one link after another.
    for (int i = 0; i < 2; i++) {
        int fd = i ? inside : directory;
        SHOW(realpath(of(fd), text) != NULL);
        puts(text);
    }
    // Under other names of the process, and from open directories.
    snprintf(process, sizeof process, "/proc/%d", getpid());
    snprintf(fds, sizeof fds, "/proc/%d/fd", getpid());
    const char *all[] = {fds, "/proc/thread-self/fd", "//proc/./self//fd"};
    for (int i = 0; i < 3; i++) {
        SHOW(readlink(in(all[i], inside), text, sizeof text) > 0);
        puts(strstr(text, "directory/inside") ? "inside" : text);
    }
    int own = open(process, O_RDONLY), links = open(fds, O_RDONLY);
    SHOW(readlinkat(links, in("", inside) + 1, text, sizeof text) > 0);
    SHOW(openat(own, in("fd", inside), O_WRONLY) >= 0);
    SHOW(readlinkat(own, in("fd", inside), text, sizeof text) > 0);
    puts(strstr(text, "directory/inside") ? "inside" : text);
    SHOW(unlink("directory/inside"));
    SHOW(rmdir("directory"));
}

// Prints the lines of `fdinfo` that are no numbers of the host.
static void information(int fd) {
    char line[200];
    FILE *file = fopen(in("/proc/self/fdinfo", fd), "r");
    while (file && fgets(line, sizeof line, file)) {
        char owner[20], kind[20];
        long first, last;
        if (!strncmp(line, "pos", 3) || !strncmp(line, "flags", 5))
            printf("%s", line);
        if (sscanf(line, "lock: %*d: %19s ADVISORY %19s %*d %*s %ld %ld", owner, kind, &first, &last) == 4)
            printf("%s %s %ld %ld\n", owner, kind, first, last);
    }
    if (file)
        fclose(file);
}

static void informations(void) {
    int file = open("file", O_CREAT | O_RDWR | O_APPEND, 0600), copy = fcntl(file, F_DUPFD_CLOEXEC, 0);
    struct flock part = {.l_type = F_WRLCK, .l_start = 2, .l_len = 3};
    SHOW(write(file, "12345", 5));
    SHOW(fcntl(file, F_SETLK, &part));
    information(file);
    information(copy);
    information(open("file", O_PATH));
    SHOW(unlink("file"));
}

// Returns who has a lock on the whole file.
static const char *owner(int fd) {
    struct flock lock = {.l_type = F_WRLCK};
    if (fcntl(fd, F_OFD_GETLK, &lock))
        return strerrorname_np(errno);
    return lock.l_type == F_UNLCK ? "none" : lock.l_pid == getpid() ? "the process" : "an open file";
}

static void locks(void) {
    struct flock whole = {.l_type = F_WRLCK};
    int file = open("file", O_CREAT | O_RDWR, 0600), other = open("file", O_RDWR), on = open("file", O_RDWR);
#define OWNER(...) (__VA_ARGS__, printf("%s: %s\n", #__VA_ARGS__, owner(on)))
    OWNER(fcntl(file, F_SETLK, &whole));
    OWNER(close(open("file", O_PATH)));
    OWNER(close(dup(0)));
    OWNER(close(open(of(file), O_RDONLY)));
    OWNER(fcntl(file, F_SETLK, &whole));
    OWNER(close(dup(other)));
    OWNER(fcntl(file, F_SETLK, &whole));
    int copy = dup(other);
    OWNER(dup2(0, copy));
    OWNER(fcntl(file, F_SETLK, &whole));
    copy = dup(file);
    OWNER(close_range(copy, copy, CLOSE_RANGE_CLOEXEC));
    OWNER(close_range(copy, copy, 0));
    OWNER(fcntl(file, F_OFD_SETLK, &whole));
    OWNER(close(dup(file)));
    copy = dup(file);
    OWNER(close(file));
    OWNER(close(copy));
    // Another process gets it.
    OWNER(fcntl(other, F_SETLKW, &whole));
    OWNER(close(dup(other)));
    fflush(stdout);
    if (fork() == 0)
        _exit(fcntl(other, F_SETLK, &whole) ? errno : 0);
    int status;
    SHOW(wait(&status) > 0);
    SHOW(WEXITSTATUS(status));
    SHOW(unlink("file"));
}

int main(void) {
    reopen();
    directories();
    informations();
    locks();
}
