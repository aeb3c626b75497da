/* Invalid arguments: every call with a closed descriptor, with an O_PATH descriptor, and with
 * addresses that cannot be mapped. */
#include "check.h"

static char page[64];
static struct iovec parts[1] = {{page, sizeof page}};

static void closed_descriptor(void) {
    int closed = 99, value = 0;
    socklen_t length = sizeof value;
    struct stat st = {0};
    struct timespec two[2] = {{0}};
    struct epoll_event event = {0};
    loff_t offset = 0;
    CALL(read(closed, page, 1));
    CALL(write(closed, page, 1));
    CALL(readv(closed, parts, 1));
    CALL(writev(closed, parts, 1));
    CALL(pread(closed, page, 1, 0));
    CALL(pwrite(closed, page, 1, 0));
    CALL(preadv(closed, parts, 1, 0));
    CALL(pwritev(closed, parts, 1, 0));
    CALL(preadv2(closed, parts, 1, 0, 0));
    CALL(pwritev2(closed, parts, 1, 0, 0));
    CALL(lseek(closed, 0, SEEK_SET));
    CALL(ftruncate(closed, 0));
    CALL(fallocate(closed, 0, 0, 1));
    CODE(posix_fallocate(closed, 0, 1));
    CODE(posix_fadvise(closed, 0, 1, 0));
    CALL(fsync(closed));
    CALL(fdatasync(closed));
    CALL(syncfs(closed));
    CALL(fstat(closed, &st));
    CALL(fchmod(closed, 0));
    CALL(fchown(closed, 0, 0));
    CALL(fchdir(closed));
    CALL(futimens(closed, two));
    CALL(flock(closed, LOCK_SH));
    CALL(lockf(closed, F_LOCK, 0));
    CALL(ioctl(closed, FIONREAD, &value));
    CALL(isatty(closed));
    VALUE(errno == EBADF);
    CALL(fcntl(closed, F_GETFL));
    CALL(dup(closed));
    CALL(dup2(closed, 4));
    CALL(dup3(closed, 4, 0));
    CALL(close(closed));
    CALL(bind(closed, bad, 0));
    CALL(connect(closed, bad, 0));
    CALL(listen(closed, 0));
    CALL(accept(closed, NULL, NULL));
    CALL(accept4(closed, NULL, NULL, 0));
    CALL(getsockname(closed, bad, bad));
    CALL(getpeername(closed, bad, bad));
    CALL(getsockopt(closed, SOL_SOCKET, SO_ERROR, &value, &length));
    CALL(setsockopt(closed, SOL_SOCKET, SO_ERROR, &value, length));
    CALL(shutdown(closed, SHUT_RD));
    CALL(send(closed, page, 1, 0));
    CALL(recv(closed, page, 1, 0));
    CALL(sendto(closed, page, 1, 0, NULL, 0));
    CALL(recvfrom(closed, page, 1, 0, NULL, NULL));
    CALL(sendmsg(closed, bad, 0));
    CALL(recvmsg(closed, bad, 0));
    CALL(epoll_ctl(closed, EPOLL_CTL_ADD, closed, &event));
    CALL(epoll_wait(closed, &event, 1, 0));
    CALL(timerfd_settime(closed, 0, bad, NULL));
    CALL(timerfd_gettime(closed, bad));
    CALL(sendfile(closed, closed, NULL, 1));
    CALL(copy_file_range(closed, &offset, closed, &offset, 1, 0));
    CALL(splice(closed, NULL, closed, NULL, 1, 0));
    CALL(tee(closed, closed, 1, 0));
    CALL(getdents64(closed, page, sizeof page));
    CALL(fstatat(closed, "x", &st, 0));
    CALL(openat(closed, "x", O_RDONLY));
    CALL(mkdirat(closed, "x", 0));
    CALL(unlinkat(closed, "x", 0));
    CALL(renameat(closed, "x", closed, "y"));
    CALL(linkat(closed, "x", closed, "y", 0));
    CALL(symlinkat("x", closed, "y"));
    CALL(readlinkat(closed, "x", page, 1));
    CALL(faccessat(closed, "x", 0, 0));
    CALL(fchmodat(closed, "x", 0, 0));
    CALL(fchownat(closed, "x", 0, 0, 0));
    CALL(utimensat(closed, "x", two, 0));
    CALL(mkfifoat(closed, "x", 0));
    CALL(mknodat(closed, "x", S_IFREG, 0));
}

/* The same calls with a file of the wrong type. */
static void wrong_kind(void) {
    struct epoll_event event = {0};
    struct stat st = {0};
    struct termios *none = (void *)page;
    make_file("file", "text");
    CALL(open("file", O_RDWR));
    CALL(isatty(3));
    VALUE(errno);
    CALL(ioctl(3, TCGETS, none));
    CALL(ioctl(3, 0x12345678, none));
    CALL(ioctl(3, FIONREAD, none));
    VALUE(*(int *)page);
    CALL(bind(3, (void *)page, sizeof(struct sockaddr_un)));
    CALL(connect(3, (void *)page, sizeof(struct sockaddr_un)));
    CALL(listen(3, 0));
    CALL(accept(3, NULL, NULL));
    CALL(shutdown(3, SHUT_RD));
    CALL(send(3, page, 1, 0));
    CALL(recv(3, page, 1, 0));
    CALL(epoll_ctl(3, EPOLL_CTL_ADD, 3, &event));
    CALL(epoll_wait(3, &event, 1, 0));
    CALL(tee(3, 3, 1, 0));
    CALL(fchdir(3));
    CALL(fstatat(3, "x", &st, 0));
    CALL(openat(3, "x", O_RDONLY));
    CALL(mkdirat(3, "x", 0));
    CALL(unlinkat(3, "x", 0));
    CALL(renameat(3, "x", 3, "y"));
    CALL(linkat(3, "x", 3, "y", 0));
    CALL(symlinkat("x", 3, "y"));
    CALL(readlinkat(3, "x", page, 1));
    CALL(faccessat(3, "x", 0, 0));
    CALL(fchmodat(3, "x", 0, 0));
    CALL(mkfifoat(3, "x", 0));
    CALL(getdents64(3, page, sizeof page));
}

static void wild_addresses(void) {
    struct timespec two[2] = {{0}};
    int ends[2];
    make_file("file", "text");
    CALL(open("file", O_RDWR));
    CALL(pipe(ends));
    CALL(write(ends[1], "bytes", 5));
    CALL(read(3, high, 1));
    CALL(write(3, high, 1));
    CALL(read(ends[0], high, 1));
    CALL(read(ends[0], null, 1));
    CALL(write(ends[1], null, 1));
    CALL(readv(3, high, 1));
    CALL(writev(3, high, 1));
    CALL(pread(3, high, 1, 0));
    CALL(pwrite(3, high, 1, 0));
    CALL(fstat(3, high));
    CALL(stat("file", high));
    CALL(lstat(high, null));
    CALL(open(high, O_RDONLY));
    CALL(creat(high, 0));
    CALL(access(high, 0));
    CALL(chdir(high));
    CALL(chmod(high, 0));
    CALL(chown(high, 0, 0));
    CALL(lchown(high, 0, 0));
    CALL(link(high, "x"));
    CALL(symlink(high, "x"));
    CALL(readlink(high, page, 1));
    CALL(rename(high, "x"));
    CALL(mkdir(high, 0));
    CALL(rmdir(high));
    CALL(unlink(high));
    CALL(truncate(high, 0));
    CALL(mkfifo(high, 0));
    CALL(mknod(high, S_IFREG, 0));
    CALL(statfs(high, (void *)page));
    CALL(statfs("file", high));
    CALL(fstatfs(3, high));
    CALL(utimensat(AT_FDCWD, high, two, 0));
    CALL(utimensat(AT_FDCWD, "file", high, 0));
    CALL(pipe(high));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, high));
    CALL(poll(high, 1, 0));
    CALL(select(4, high, NULL, NULL, NULL));
    CALL(epoll_create1(0));
    CALL(epoll_ctl(6, EPOLL_CTL_ADD, ends[0], high));
    CALL(epoll_wait(6, high, 1, 0));
    CALL(memfd_create(high, 0));
    CALL(ioctl(ends[0], FIONREAD, high));
    CALL(fcntl(3, F_SETLK, high));
    CALL(getdents64(3, high, 100));
    CALL(sendfile(ends[1], 3, high, 1));
    POINTER(getcwd(high, 4096));
    /* The bytes are still there. */
    TEXT(read_text(ends[0]));
}

/* Lengths beyond the result type of a call. */
static void long_lengths(void) {
    make_file("file", "text");
    CALL(open("file", O_RDWR));
    CALL(read(3, page, 64));
    CALL(read(3, page, (size_t)SSIZE_MAX));
    CALL(read(3, page, (size_t)-1));
    CALL(write(3, high, (size_t)-1));
    CALL(pread(3, page, (size_t)-1, 1000));
    CALL(readlink("file", page, (size_t)-1));
}

/* Masks have the kernel's length, which is shorter than that of the C library: here nothing can be
 * read behind one. */
static void kernel_masks(void) {
    int protection = PROT_READ | PROT_WRITE;
    char *pages = mmap(NULL, 2 * 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    void *mask = pages + 4096 - 8;
    struct timespec now = {0};
    struct {
        void *at;
        size_t length;
    } behind = {mask, 8};
    CALL(syscall(SYS_ppoll, NULL, 0, &now, mask, 8));
    CALL(syscall(SYS_ppoll, NULL, 0, &now, mask, 128));
    CALL(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &now, &behind));
    CALL(syscall(SYS_signalfd4, -1, mask, 8, 0));
}

static const struct section sections[] = {
    {"closed_descriptor", closed_descriptor},
    {"wrong_kind", wrong_kind},
    {"wild_addresses", wild_addresses},
    {"long_lengths", long_lengths},
    {"kernel_masks", kernel_masks},
    {NULL, NULL},
};
const struct theme arguments = {"arguments", sections};
