/* Memory that cannot be accessed: the end of a mapping within an argument, a page without access,
 * and a page that is read-only. */
#include "check.h"

#include <setjmp.h>

#define PAGE 4096

/* The end of accessible memory; there is none for some pages behind it. */
static char *end;
/* The end of a page that can only be read, and behind which there is no access. */
static char *fixed;
static char big[200000];

static void begin(void) {
    char *place = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    end = place + 20 * PAGE;
    memset(place, 'x', 20 * PAGE);
    mprotect(end, 10 * PAGE, PROT_NONE);
    fixed = end + 11 * PAGE;
    memset(fixed - PAGE, 'y', PAGE);
    mprotect(fixed - PAGE, PAGE, PROT_READ);
    mprotect(fixed, 10 * PAGE, PROT_NONE);
}

static void of_files(void) {
    struct iovec cut[2] = {{end - 4, 4}, {end, 4}};
    struct iovec bad_first[2] = {{end, 4}, {end - 4, 4}};
    struct iovec long_one[2] = {{NULL, 0}, {end - 4, 8}};
    begin();
    cut[0].iov_base = end - 4;
    cut[1].iov_base = bad_first[0].iov_base = end;
    bad_first[1].iov_base = long_one[1].iov_base = end - 4;
    CALL(open("file", O_RDWR | O_CREAT | O_TRUNC, 0600));
    CALL(write(3, end - 4, 8));
    CALL(write(3, end, 8));
    CALL(write(3, null, 8));
    CALL(write(3, bad, 8));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(lseek(3, 0, SEEK_SET));
    CALL(read(3, end - 2, 8));
    CALL(read(3, end, 8));
    CALL(read(3, fixed - 8, 8));
    CALL(read(3, null, 8));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(lseek(3, 0, SEEK_END));
    CALL(read(3, end, 8));
    CALL(read(3, null, 8));
    CALL(read(3, high, 8));
    CALL(read(3, end, 0));
    CALL(write(3, end, 0));
    CALL(pread(3, end - 2, 8, 1));
    CALL(pread(3, end, 8, 1));
    CALL(pread(3, end, 8, 100));
    CALL(pwrite(3, end, 8, 1));
    CALL(pwrite(3, fixed - 8, 100, 1));
    CALL(write(3, end - PAGE - 4, 3 * PAGE));
    CALL(writev(3, cut, 2));
    CALL(writev(3, bad_first, 2));
    CALL(writev(3, long_one, 2));
    CALL(pwritev(3, cut, 2, 0));
    CALL(preadv(3, cut, 2, 0));
    CALL(preadv(3, bad_first, 2, 0));
    CALL(readv(3, bad_first, 2));
    CALL(writev(3, (struct iovec *)end, 1));
    CALL(writev(3, (struct iovec *)(end - 16), 2));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(open("file", O_RDONLY));
    CALL(write(4, end, 8));
    CALL(read(99, end, 8));
    CALL(write(99, end, 8));
    CALL(readv(99, cut, 2));
    CALL(open(".", O_RDONLY));
    CALL(read(5, end, 8));
    CALL(getdents64(5, end - 8, 1000));
    CALL(getdents64(5, end, 1000));
}

static void of_devices(void) {
    begin();
    CALL(open("/dev/zero", O_RDWR));
    CALL(open("/dev/null", O_RDWR));
    CALL(open("/dev/full", O_RDWR));
    CALL(read(3, end - 4, 8));
    CALL(read(3, end, 8));
    CALL(write(3, end, 8));
    CALL(read(4, end, 8));
    CALL(write(4, end, 8));
    CALL(write(4, end - 4, 8));
    CALL(read(5, end - 4, 8));
    CALL(write(5, end, 8));
    CALL(write(5, end - 4, 8));
}

static void of_pipes(void) {
    struct iovec cut[3] = {{0}};
    int ends[2];
    begin();
    cut[0] = (struct iovec){end - 4, 4};
    cut[1] = (struct iovec){end, 4};
    cut[2] = (struct iovec){big, 4};
    CALL(pipe(ends));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    CALL(read(ends[0], end, 8));
    CALL(write(ends[1], end - 4, 8));
    CALL(read(ends[0], big, 100));
    CALL(write(ends[1], end - PAGE - 4, PAGE + 8));
    CALL(read(ends[0], big, 10000));
    CALL(write(ends[1], end - 2 * PAGE - 4, 3 * PAGE));
    CALL(read(ends[0], big, 100000));
    CALL(write(ends[1], "abcdefgh", 8));
    CALL(read(ends[0], end - 4, 8));
    CALL(read(ends[0], fixed - 8, 8));
    CALL(read(ends[0], end - 8, 100));
    CALL(write(ends[1], big, 3 * PAGE));
    CALL(read(ends[0], end - PAGE - 10, 3 * PAGE));
    CALL(read(ends[0], big, 100000));
    CALL(write(ends[1], big, 20));
    CALL(readv(ends[0], cut, 3));
    CALL(read(ends[0], big, 100));
    CALL(writev(ends[1], cut, 3));
    CALL(pwrite(ends[1], end, 8, 0));
    CALL(pread(ends[0], end, 8, 0));
    CALL(write(ends[0], end, 8));
    CALL(read(ends[1], end, 8));
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], big, PAGE) > 0) {
    }
    CALL(write(ends[1], end, 8));
    close(ends[0]);
    CALL(write(ends[1], end, 8));
    CALL(pipe(ends));
    close(ends[1]);
    CALL(read(ends[0], end, 8));
}

static void of_streams(void) {
    int ends[2];
    begin();
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    CALL(read(ends[0], end, 8));
    CALL(write(ends[1], end - 4, 8));
    CALL(read(ends[0], big, 100));
    CALL(write(ends[1], end - 20 * PAGE + 1000, 20 * PAGE));
    CALL(read(ends[0], big, sizeof big));
    CALL(write(ends[1], "abcdefgh", 8));
    CALL(read(ends[0], end - 4, 8));
    CALL(recv(ends[0], fixed - 8, 8, MSG_PEEK));
    CALL(recv(ends[0], end - 4, 4, MSG_PEEK));
    CALL(read(ends[0], end - 8, 100));
    CALL(write(ends[1], big, 10 * PAGE));
    CALL(read(ends[0], end - 9 * PAGE, 11 * PAGE));
    CALL(read(ends[0], big, sizeof big));
    close(ends[0]);
    CALL(write(ends[1], end, 8));
    CALL(read(ends[1], end, 8));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(write(3, end, 8));
    CALL(read(3, end, 8));
}

static void of_messages(void) {
    struct iovec cut[2], whole[1] = {{big, 8}};
    struct msghdr head = {.msg_iov = cut, .msg_iovlen = 2};
    struct mmsghdr heads[1];
    int ends[2];
    begin();
    cut[0] = (struct iovec){end - 4, 4};
    cut[1] = (struct iovec){end, 4};
    CALL(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    CALL(read(ends[0], end, 8));
    CALL(write(ends[1], end - 4, 8));
    CALL(sendmsg(ends[1], &head, 0));
    CALL(read(ends[0], big, 10));
    CALL(write(ends[1], "abcdefgh", 8));
    CALL(write(ends[1], "two", 3));
    CALL(recv(ends[0], end - 4, 8, MSG_PEEK));
    CALL(read(ends[0], end - 4, 8));
    CALL(recvmsg(ends[0], &head, 0));
    CALL(read(ends[0], end - 4, 8));
    CALL(sendmsg(ends[1], (struct msghdr *)end, 0));
    CALL(sendmsg(ends[1], (struct msghdr *)(end - 8), 0));
    CALL(recvmsg(ends[1], (struct msghdr *)end, 0));
    head.msg_iov = (struct iovec *)end;
    CALL(sendmsg(ends[1], &head, 0));
    head.msg_iov = whole;
    head.msg_iovlen = 1;
    head.msg_name = end;
    head.msg_namelen = 10;
    CALL(sendmsg(ends[1], &head, 0));
    head.msg_name = NULL;
    head.msg_namelen = 0;
    head.msg_control = end;
    head.msg_controllen = 20;
    CALL(sendmsg(ends[1], &head, 0));
    heads[0].msg_hdr = head;
    CALL(sendmmsg(ends[1], heads, 1, 0));
    CALL(sendmmsg(ends[1], (struct mmsghdr *)end, 1, 0));
    CALL(recvmmsg(ends[1], (struct mmsghdr *)end, 1, 0, NULL));
}

static void of_counters(void) {
    struct itimerspec soon = {{0, 0}, {0, 1}};
    begin();
    CALL(eventfd(5, EFD_NONBLOCK));
    CALL(read(3, end, 4));
    CALL(read(3, end - 4, 8));
    CALL(read(3, big, 8));
    CALL(read(3, end - 4, 8));
    CALL(write(3, end, 8));
    CALL(write(3, end, 4));
    CALL(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    CALL(read(4, end, 8));
    CALL(write(4, end, 8));
    CALL(timerfd_settime(4, 0, (struct itimerspec *)end, NULL));
    CALL(timerfd_settime(4, 0, &soon, (struct itimerspec *)end));
    CALL(timerfd_settime(4, 0, &soon, NULL));
    pause_ms(5);
    CALL(read(4, end, 8));
    CALL(read(4, big, 8));
    CALL(timerfd_gettime(4, (struct itimerspec *)(fixed - 64)));
}

static void of_paths(void) {
    struct stat st;
    char *path = end - 4;
    begin();
    path = end - 4;
    make_file("file", "text");
    strcpy(end - 5, "file");
    CALL(open(end - 5, O_RDONLY));
    memcpy(path, "file", 4);
    CALL(open(path, O_RDONLY));
    CALL(open(end, O_RDONLY));
    CALL(stat(path, &st));
    CALL(stat("file", (struct stat *)(end - 8)));
    CALL(stat("file", (struct stat *)(fixed - 1024)));
    CALL(fstat(3, (struct stat *)end));
    CALL(lstat(end, &st));
    CALL(statx(AT_FDCWD, "file", 0, STATX_ALL, (struct statx *)end));
    CALL(statfs(".", (struct statfs *)end));
    CALL(access(path, F_OK));
    CALL(unlink(path));
    CALL(mkdir(path, 0700));
    CALL(rename(path, "other"));
    CALL(rename("file", path));
    CALL(link("file", path));
    CALL(symlink(path, "link"));
    CALL(symlink("target", "link"));
    CALL(readlink("link", end - 3, 100));
    CALL(readlink("link", end - 6, 100));
    CALL(readlink("link", fixed - 100, 100));
    CALL(chdir(path));
    POINTER(getcwd(end - 1, 4096));
    POINTER(getcwd(fixed - PAGE, 4096));
    CALL(truncate(path, 0));
    CALL(utimensat(AT_FDCWD, "file", (struct timespec *)(end - 16), 0));
    CALL(memfd_create(path, 0));
    memset(big, 'a', 5000);
    CALL(open(big, O_RDONLY));
    memset(end - PAGE, 'a', PAGE);
    CALL(open(end - PAGE, O_RDONLY));
    CALL(open(end - PAGE + 1, O_RDONLY));
    memset(big, 'a', 251);
    big[250] = 0;
    CALL(memfd_create(big, 0));
    big[249] = 0;
    CALL(memfd_create(big, 0));
}

static void of_waits(void) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int ends[2], value = 1;
    socklen_t length = sizeof value;
    begin();
    CALL(pipe(ends));
    CALL(poll((struct pollfd *)end, 1, 0));
    CALL(poll((struct pollfd *)(end - 12), 2, 0));
    CALL(poll((struct pollfd *)(fixed - 64), 1, 0));
    CALL(select(4, (fd_set *)end, NULL, NULL, NULL));
    CALL(select(4, NULL, (fd_set *)(fixed - 128), NULL, NULL));
    CALL(epoll_create1(0));
    CALL(epoll_ctl(5, EPOLL_CTL_ADD, ends[0], (struct epoll_event *)end));
    CALL(epoll_ctl(5, EPOLL_CTL_ADD, ends[0], &event));
    CALL(epoll_wait(5, (struct epoll_event *)end, 1, 0));
    CALL(write(ends[1], "x", 1));
    CALL(epoll_wait(5, (struct epoll_event *)end, 1, 0));
    CALL(epoll_wait(5, (struct epoll_event *)(fixed - 64), 1, -1));
    CALL(epoll_wait(3, (struct epoll_event *)end, 1, 0));
    CALL(epoll_wait(99, (struct epoll_event *)end, 1, 0));
    CALL(epoll_wait(5, (struct epoll_event *)(end - 12), 10, 0));
    CALL(pipe((int *)end));
    CALL(pipe((int *)(end - 4)));
    CALL(pipe((int *)(fixed - 8)));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, (int *)(end - 4)));
    CALL(dup(0));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(7, (struct sockaddr *)end, 10));
    CALL(connect(7, (struct sockaddr *)(end - 2), 10));
    CALL(getsockopt(7, SOL_SOCKET, SO_TYPE, &value, (socklen_t *)end));
    CALL(getsockopt(7, SOL_SOCKET, SO_TYPE, end, &length));
    CALL(setsockopt(7, SOL_SOCKET, SO_REUSEADDR, end, sizeof value));
    CALL(getsockname(7, (struct sockaddr *)end, &length));
    CALL(getsockname(7, (struct sockaddr *)big, (socklen_t *)end));
    CALL(ioctl(ends[0], FIONREAD, end));
    CALL(fcntl(ends[0], F_GETLK, end));
    CALL(getrlimit(RLIMIT_NOFILE, (struct rlimit *)end));
    CALL(sendfile(ends[1], 3, (off_t *)end, 1));
}

static sigjmp_buf back;
static volatile int caught;

static void jump(int signal) {
    caught = signal;
    siglongjmp(back, 1);
}

static void jump_with_info(int signal, siginfo_t *info, void *context) {
    (void)context;
    caught = info->si_addr == end ? signal : -1;
    siglongjmp(back, 1);
}

static void count(int signal) {
    (void)signal;
    caught++;
}

/* Makes a fault of the program's own. */
static void fault(void) {
    caught = 0;
    if (sigsetjmp(back, 1) == 0) {
        *(volatile char *)end = 1;
    }
    VALUE(caught == SIGSEGV);
}

/* The program's actions, installed before the first call and after it. */
static void actions(void) {
    struct sigaction action = {.sa_handler = jump}, old;
    char *place = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    end = place + PAGE;
    mprotect(end, PAGE, PROT_NONE);
    CALL(sigaction(SIGSEGV, &action, NULL));
    fault();
    CALL(open("/dev/zero", O_RDONLY));
    CALL(read(3, end, 1));
    fault();
    fault();
    CALL(sigaction(SIGSEGV, NULL, &old));
    VALUE(old.sa_handler == jump);
    VALUE(old.sa_flags & ~0x04000000);
    action.sa_sigaction = jump_with_info;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaddset(&action.sa_mask, SIGUSR1);
    CALL(sigaction(SIGSEGV, &action, &old));
    VALUE(old.sa_handler == jump);
    fault();
    CALL(read(3, end, 1));
    VALUE(signal(SIGSEGV, jump) == (void *)jump_with_info);
    fault();
    CALL(sigaction(SIGSEGV, NULL, &old));
    VALUE(old.sa_handler == jump);
    VALUE((old.sa_flags & SA_RESTART) != 0);
    bool blocks = sigismember(&old.sa_mask, SIGSEGV);
    VALUE(blocks);
    CALL(siginterrupt(SIGSEGV, 1));
    CALL(sigaction(SIGSEGV, NULL, &old));
    VALUE((old.sa_flags & SA_RESTART) != 0);
    VALUE(signal(SIGBUS, SIG_IGN) == SIG_DFL);
    VALUE(signal(SIGBUS, SIG_DFL) == SIG_IGN);
    VALUE(signal(SIGSEGV, SIG_ERR) == SIG_ERR);
    VALUE(sigset(SIGBUS, count) == SIG_DFL);
    caught = 0;
    raise(SIGBUS);
    VALUE(caught);
    VALUE(sigset(SIGBUS, SIG_HOLD) == count);
    VALUE(sigset(SIGBUS, count) == SIG_HOLD);
    action.sa_handler = count;
    action.sa_flags = SA_RESETHAND;
    CALL(sigaction(SIGBUS, &action, NULL));
    raise(SIGBUS);
    VALUE(caught);
    CALL(sigaction(SIGBUS, NULL, &old));
    VALUE(old.sa_handler == SIG_DFL);
    CALL(sigignore(SIGBUS));
    raise(SIGBUS);
    CALL(sigaction(9, &action, NULL));
}

/* A fault of the program's own ends it, and so does a signal that was sent. */
static void endings(void) {
    begin();
    for (int how = 0; how < 4; how++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            struct rlimit none = {0, 0};
            int fd = open("/dev/zero", O_RDONLY);
            setrlimit(RLIMIT_CORE, &none);
            if (read(fd, end, 1) >= 0) {
                _exit(1);
            }
            if (how == 1) {
                signal(SIGSEGV, SIG_IGN);
                raise(SIGSEGV);
            } else if (how == 2) {
                raise(SIGSEGV);
                _exit(2);
            } else if (how == 3) {
                sigset_t all;
                sigfillset(&all);
                sigprocmask(SIG_BLOCK, &all, NULL);
            }
            *(volatile char *)end = 1;
            _exit(3);
        }
        VALUE(wait_for(child));
    }
}

/* Returns whether a read has touched memory far after its bytes. */
static bool is_touched(const char *buf) {
    unsigned char pages[256] = {0};
    mincore((void *)(buf + (1 << 20)), sizeof pages * 4096, pages);
    for (size_t i = 0; i < sizeof pages; i++) {
        if (pages[i] & 1) {
            return true;
        }
    }
    return false;
}

/* A program may reserve a large buffer for what seldom is long. */
static void reserved(void) {
    int ends[2];
    size_t large = 1 << 24;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *buf = mmap(NULL, large, PROT_READ | PROT_WRITE, flags, -1, 0);
    struct iovec parts[] = {{buf, 4}, {buf + 4, large - 4}};
    make_file("a", "text of a file");
    CALL(open("a", O_RDWR));
    CALL(read(3, buf, large));
    VALUE(is_touched(buf));
    CALL(pread(3, buf, large, 4));
    VALUE(is_touched(buf));
    CALL(preadv(3, parts, 2, 1));
    VALUE(is_touched(buf));
    CALL(readv(3, parts, 2));
    VALUE(is_touched(buf));
    CALL(pipe(ends));
    CALL(write(ends[1], "in a pipe", 9));
    CALL(read(ends[0], buf, large));
    VALUE(is_touched(buf));
    CALL(write(ends[1], "in a pipe", 9));
    CALL(readv(ends[0], parts, 2));
    VALUE(is_touched(buf));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(send(ends[1], "sent", 4, 0));
    CALL(recv(ends[0], buf, large, 0));
    VALUE(is_touched(buf));
    CALL(send(ends[1], "sent", 4, 0));
    CALL(read(ends[0], buf, large));
    VALUE(is_touched(buf));
    struct msghdr head = {.msg_iov = parts, .msg_iovlen = 2};
    CALL(send(ends[1], "sent", 4, 0));
    CALL(recvmsg(ends[0], &head, 0));
    VALUE(is_touched(buf));
    /* All that there is comes at once. */
    CALL(write(ends[1], buf, 100000));
    CALL(recv(ends[0], buf, large, 0));
    CALL(write(ends[1], buf, 100000));
    CALL(recv(ends[0], buf, 100000, MSG_WAITALL));
    munmap(buf, large);
}

static const struct section sections[] = {
    {"of_files", of_files},       {"of_devices", of_devices},
    {"of_pipes", of_pipes},       {"of_streams", of_streams},
    {"of_messages", of_messages}, {"of_counters", of_counters},
    {"of_paths", of_paths},       {"of_waits", of_waits},
    {"actions", actions},         {"endings", endings},
    {"reserved", reserved},
    {NULL, NULL},
};
const struct theme faults = {"faults", sections};
