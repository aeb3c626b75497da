/* Calls on paths of the host that are looked up beforehand where there is an overlay: prints what
 * they return. The working directory is empty. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CALL(call)                                                                                 \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long result = (long)(call);                                                                \
        printf("%s: %ld %s\n", #call, result, errno ? strerrorname_np(errno) : "");                \
    } while (0)

/* A file that is not there, with arguments that are wrong too. */
static void errors(const char *path)
{
    struct timespec times[2] = {{0, -5}, {0, -5}};
    struct timeval small[2] = {{0, -5}, {0, -5}};
    struct stat st;
    char text[9], *bad = (char *)8;
    int watches = inotify_init();
    printf("%s\n", path);
    CALL(open(path, O_RDWR | O_CREAT | O_DIRECTORY, 0600));
    CALL(open(path, O_TMPFILE | O_RDONLY, 0600));
    CALL(open(path, O_RDONLY | 1 << 30));
    CALL(open(path, O_PATH | O_RDWR));
    CALL(syscall(SYS_openat2, AT_FDCWD, path, &(uint64_t[]){1 << 30, 0, 0}, 24));
    CALL(syscall(SYS_openat2, AT_FDCWD, path, &(uint64_t[]){0, 0600, 0}, 24));
    CALL(syscall(SYS_openat2, AT_FDCWD, path, &(uint64_t[]){0, 0, 1 << 20}, 24));
    CALL(syscall(SYS_faccessat2, AT_FDCWD, path, 64, 0));
    CALL(syscall(SYS_faccessat2, AT_FDCWD, path, 0, AT_SYMLINK_FOLLOW));
    CALL(syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_REMOVEDIR));
    CALL(syscall(SYS_newfstatat, AT_FDCWD, path, bad, 0));
    CALL(syscall(SYS_statx, AT_FDCWD, path, 0, 1u << 31, &st));
    CALL(syscall(SYS_fchownat, AT_FDCWD, path, 0, 0, AT_SYMLINK_FOLLOW));
    CALL(syscall(SYS_utimensat, AT_FDCWD, path, times, 0));
    CALL(syscall(SYS_utimensat, AT_FDCWD, path, 0, AT_SYMLINK_FOLLOW));
    CALL(syscall(SYS_utimes, path, small));
    CALL(truncate(path, -1));
    CALL(unlinkat(AT_FDCWD, path, 64));
    CALL(mknod(path, S_IFDIR | 0600, 0));
    CALL(syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, path, 64));
    CALL(renameat2(AT_FDCWD, path, AT_FDCWD, path, RENAME_EXCHANGE | RENAME_NOREPLACE));
    CALL(syscall(SYS_rename, path, bad));
    CALL(syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, path, 64));
    CALL(syscall(SYS_symlink, "", path));
    CALL(readlink(path, text, 0));
    CALL(setxattr(path, "user.a", "b", 1, 64));
    CALL(setxattr(path, "", "b", 1, 0));
    CALL(getxattr(path, "", text, 9));
    CALL(inotify_add_watch(watches, path, 0));
    CALL(inotify_add_watch(77, path, IN_OPEN));
    CALL(syscall(SYS_statfs, path, bad));
    CALL(syscall(SYS_name_to_handle_at, AT_FDCWD, path, bad, bad, 64));
    close(watches);
}

/* The flags are those of the open. */
static void flags(void)
{
    CALL(mkdir("d", 0700));
    for (int i = 0; i < 2; i++) {
        int fd = open("d/new", O_RDWR | O_CREAT | O_APPEND, 0600);
        CALL(fcntl(fd, F_GETFL));
        CALL(fcntl(open("d/new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), F_GETFL));
        CALL(fcntl(open("d/new", O_RDONLY | O_NOFOLLOW), F_GETFL));
        CALL(fcntl(open("d", O_DIRECTORY | O_PATH), F_GETFL));
        CALL(fcntl(openat(open("d", O_PATH), "new", O_RDWR), F_GETFL));
        CALL(symlink("d", "to_d"));
        CALL(fcntl(open("to_d/new", O_RDWR | O_CREAT | O_NONBLOCK, 0600), F_GETFL));
        CALL(fcntl(open("to_d/../d/new", O_RDWR | O_CREAT, 0600), F_GETFL));
    }
}

/* A thread that waits while another one changes the user of all. */
static void *wait_for_byte(void *fd)
{
    char byte;
    CALL(read(*(int *)fd, &byte, 1));
    CALL(geteuid());
    return 0;
}

/* access looks for the real user, other calls for the effective one. */
static void users(void)
{
    struct stat st;
    int ends[2];
    pthread_t reader;
    pipe(ends);
    pthread_create(&reader, 0, wait_for_byte, ends);
    CALL(mkdir("secret", 0700));
    CALL(close(creat("secret/f", 0600)));
    CALL(symlink("secret", "to_secret"));
    CALL(seteuid(65534));
    for (int i = 0; i < 2; i++) {
        CALL(access("secret/f", R_OK));
        CALL(access("to_secret/f", R_OK));
        CALL(access("secret/none", F_OK));
        CALL(faccessat(AT_FDCWD, "secret/f", F_OK, AT_EACCESS));
        CALL(stat("secret/f", &st));
        CALL(open("secret/f", O_RDONLY) < 0);
        CALL(seteuid(0));
        CALL(setreuid(65534, 0));
    }
    write(ends[1], "b", 1);
    pthread_join(reader, 0);
    CALL(setreuid(0, 0));
}

static _Atomic int is_over;

/* The file is a file and a link in turn. */
static void *exchange(void *unused)
{
    while (!is_over) {
        symlink("file", "next");
        rename("next", "turning");
        close(creat("next", 0600));
        rename("next", "turning");
    }
    return 0;
}

static void exchanged(void)
{
    int errors = 0;
    close(creat("file", 0600));
    close(creat("turning", 0600));
    pthread_t thread;
    pthread_create(&thread, 0, exchange, 0);
    for (int i = 0; i < 3000; i++) {
        int fd = open("turning", O_RDWR | O_CREAT, 0600);
        if (fd < 0)
            errors++;
        close(fd);
    }
    is_over = 1;
    pthread_join(thread, 0);
    printf("%d errors\n", errors);
}

static const struct sockaddr_un server = {AF_UNIX, "server"};
static pthread_barrier_t barrier;
static int sender, failed;

/* Sends a message from a new socket each time, together with another thread. */
static void *send_first(void *unused)
{
    for (int i = 0; i < 200; i++) {
        pthread_barrier_wait(&barrier);
        if (sendto(sender, "text", 4, 0, (void *)&server, sizeof server) != 4)
            __atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
        pthread_barrier_wait(&barrier);
    }
    return 0;
}

static void first_messages(void)
{
    char text[9];
    pthread_t threads[2];
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0), received = 0;
    CALL(bind(fd, (void *)&server, sizeof server));
    pthread_barrier_init(&barrier, 0, 3);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, send_first, 0);
    for (int i = 0; i < 200; i++) {
        sender = socket(AF_UNIX, SOCK_DGRAM, 0);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        while (recv(fd, text, 9, MSG_DONTWAIT) == 4)
            received++;
        close(sender);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    printf("%d failed, %d received\n", failed, received);
}

/* A socket of the host, at a path or not, to a pipe. */
static void splices(void)
{
    struct sockaddr_in at = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    char text[9] = "";
    int ends[2];
    pipe(ends);
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    CALL(bind(listener, (void *)&at, length));
    getsockname(listener, (void *)&at, &length);
    CALL(listen(listener, 1));
    CALL(connect(client, (void *)&at, length));
    int server = accept(listener, 0, 0);
    CALL(fcntl(server, F_SETFL, O_NONBLOCK));
    CALL(splice(server, 0, ends[1], 0, 9, SPLICE_F_NONBLOCK));
    CALL(write(client, "text", 4));
    struct pollfd ready = {server, POLLIN};
    CALL(poll(&ready, 1, -1));
    CALL(splice(server, 0, ends[1], 0, 9, SPLICE_F_NONBLOCK));
    CALL(read(ends[0], text, 9));
    puts(text);
}

int main(void)
{
    errors("none");
    errors("none/f");
    flags();
    errors("d/new/f");
    exchanged();
    first_messages();
    splices();
    if (!geteuid())
        users();
    return 0;
}
