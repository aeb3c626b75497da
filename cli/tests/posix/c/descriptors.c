/* Descriptors: allocation, what duplicates share, and the errors of each call. */
#include "check.h"

static int file(void) { return open("file", O_RDWR | O_CREAT, 0644); }

static void lowest(void) {
    CALL(file());
    CALL(file());
    CALL(file());
    CALL(close(4));
    CALL(file());
    CALL(close(3));
    CALL(close(4));
    CALL(dup(5));
    CALL(dup(5));
    CALL(file());
    CALL(close(1000));
    CALL(close(-1));
    CALL(close(INT_MAX));
    CALL(close(INT_MIN));
    CALL(close(5));
    CALL(close(5));
}

static void duplicates(void) {
    int fd = file();
    CALL(write(fd, "abcdef", 6));
    CALL(dup(fd));
    CALL(lseek(3, 2, SEEK_SET));
    CALL(lseek(4, 0, SEEK_CUR));
    CALL(fcntl(3, F_SETFL, O_APPEND | O_NONBLOCK));
    VALUE(fcntl(4, F_GETFL) & (O_APPEND | O_NONBLOCK | O_ACCMODE));
    CALL(fcntl(3, F_SETFD, FD_CLOEXEC));
    CALL(fcntl(3, F_GETFD));
    CALL(fcntl(4, F_GETFD));
    CALL(dup(3));
    CALL(fcntl(5, F_GETFD));
    CALL(close(3));
    CALL(write(4, "gh", 2));
    CALL(dup(3));
    CALL(dup(-1));
    CALL(dup(INT_MAX));
    CALL(dup2(3, 6));
    CALL(dup2(3, 3));
    CALL(dup2(4, 4));
    CALL(dup2(4, 9));
    CALL(dup2(4, 9));
    CALL(dup2(4, -1));
    CALL(dup2(4, INT_MAX));
    CALL(fcntl(4, F_SETFD, FD_CLOEXEC));
    CALL(dup2(4, 4));
    CALL(fcntl(4, F_GETFD));
    CALL(dup2(4, 10));
    CALL(fcntl(10, F_GETFD));
    CALL(dup3(4, 11, O_CLOEXEC));
    CALL(fcntl(11, F_GETFD));
    CALL(dup3(4, 11, 0));
    CALL(fcntl(11, F_GETFD));
    CALL(dup3(4, 4, 0));
    CALL(dup3(4, 4, O_CLOEXEC));
    CALL(dup3(99, 99, 0));
    CALL(dup3(99, 5, 0));
    CALL(dup3(4, 12, O_NONBLOCK));
    CALL(dup3(4, 12, O_APPEND));
    CALL(dup3(4, -1, 0));
}

/* dup2 closes the previous file, and the descriptor is never free in between. */
static void replaced(void) {
    int ends[2];
    CALL(pipe(ends));
    CALL(file());
    CALL(write(4, "x", 1));
    CALL(dup2(5, 4));
    TEXT(read_text(3));
    TEXT(read_text(3));
    CALL(write(4, "xy", 2));
    TEXT(file_text("file"));
}

static void fcntl_duplicates(void) {
    file();
    CALL(fcntl(3, F_DUPFD, 0));
    CALL(fcntl(3, F_DUPFD, 10));
    CALL(fcntl(3, F_DUPFD, 10));
    CALL(fcntl(3, F_DUPFD_CLOEXEC, 10));
    CALL(fcntl(12, F_GETFD));
    CALL(fcntl(11, F_GETFD));
    CALL(fcntl(3, F_DUPFD, -1));
    CALL(fcntl(3, F_DUPFD_CLOEXEC, -1));
    CALL(fcntl(3, F_DUPFD, INT_MAX));
    CALL(fcntl(99, F_DUPFD, 0));
    CALL(fcntl(99, F_DUPFD, -1));
    CALL(fcntl(99, F_DUPFD_CLOEXEC, 0));
}

static void flags(void) {
    CALL(open("a", O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    CALL(fcntl(3, F_GETFD));
    CALL(fcntl(3, F_SETFD, 0));
    CALL(fcntl(3, F_GETFD));
    CALL(fcntl(3, F_SETFD, ~FD_CLOEXEC));
    CALL(fcntl(3, F_GETFD));
    CALL(fcntl(3, F_SETFD, -1));
    CALL(fcntl(3, F_GETFD));
    CALL(fcntl(99, F_GETFD));
    CALL(fcntl(99, F_SETFD, 0));
    CALL(fcntl(99, F_GETFL));
    CALL(fcntl(99, F_SETFL, 0));
    CALL(fcntl(-1, F_GETFD));
    CALL(fcntl(3, 12345));
    CALL(fcntl(3, -1));
    CALL(fcntl(99, 12345));
    VALUE(fcntl(3, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_CREAT | O_CLOEXEC));
    CALL(open("a", O_RDONLY));
    VALUE(fcntl(4, F_GETFL) & O_ACCMODE);
    CALL(open("a", O_WRONLY | O_APPEND | O_TRUNC));
    VALUE(fcntl(5, F_GETFL) & (O_ACCMODE | O_APPEND | O_TRUNC));
    CALL(fcntl(5, F_SETFL, O_RDWR | O_CREAT | O_EXCL));
    VALUE(fcntl(5, F_GETFL) & (O_ACCMODE | O_APPEND | O_CREAT | O_EXCL));
    CALL(fcntl(3, F_SETFL, O_NOATIME));
    VALUE((fcntl(3, F_GETFL) & O_NOATIME) == O_NOATIME);
}

static void ioctl_flags(void) {
    int on = 1, off = 0;
    file();
    CALL(ioctl(3, FIOCLEX));
    CALL(fcntl(3, F_GETFD));
    CALL(ioctl(3, FIONCLEX));
    CALL(fcntl(3, F_GETFD));
    CALL(ioctl(3, FIONBIO, &on));
    VALUE(fcntl(3, F_GETFL) & O_NONBLOCK);
    CALL(ioctl(3, FIONBIO, &off));
    VALUE(fcntl(3, F_GETFL) & O_NONBLOCK);
    CALL(ioctl(3, FIONBIO, bad));
    CALL(ioctl(99, FIOCLEX));
    CALL(ioctl(99, FIONBIO, &on));
    CALL(ioctl(-1, FIONREAD, &on));
}

static int open_numbers(void) {
    int bits = 0;
    for (int fd = 3; fd < 16; fd++) {
        bits |= (fcntl(fd, F_GETFD) >= 0) << (fd - 3);
    }
    return bits;
}

static int cloexec_numbers(void) {
    int bits = 0;
    for (int fd = 3; fd < 16; fd++) {
        bits |= (fcntl(fd, F_GETFD) == FD_CLOEXEC) << (fd - 3);
    }
    return bits;
}

static void fill(void) {
    file();
    for (int fd = 4; fd < 12; fd++) {
        dup2(3, fd);
    }
}

static void ranges(void) {
    fill();
    VALUE(open_numbers());
    CALL(close_range(5, 6, 0));
    VALUE(open_numbers());
    CALL(close_range(5, 6, 0));
    CALL(close_range(7, 6, 0));
    CALL(close_range(4, 5, CLOSE_RANGE_CLOEXEC));
    VALUE(open_numbers());
    VALUE(cloexec_numbers());
    CALL(close_range(8, ~0U, CLOSE_RANGE_CLOEXEC));
    VALUE(cloexec_numbers());
    CALL(close_range(10, ~0U, 0));
    VALUE(open_numbers());
    CALL(close_range(3, 3, CLOSE_RANGE_UNSHARE));
    VALUE(open_numbers());
    CALL(close_range(3, 3, 8));
    CALL(close_range(3, 3, CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC));
    CALL(close_range(3, ~0U, ~0U));
    CALL(close_range(~0U, ~0U, 0));
    CALL(close_range(3, ~0U, 0));
    VALUE(open_numbers());
}

static void close_from(void) {
    fill();
    closefrom(6);
    VALUE(open_numbers());
    closefrom(100);
    VALUE(open_numbers());
    closefrom(3);
    VALUE(open_numbers());
}

static void limit(void) {
    struct rlimit limit, small = {0};
    int ends[2] = {-7, -7};
    getrlimit(RLIMIT_NOFILE, &limit);
    VALUE(sysconf(_SC_OPEN_MAX) == (long)limit.rlim_cur);
    VALUE(getdtablesize() == (int)limit.rlim_cur);
    file();
    CALL(dup2(3, (int)limit.rlim_cur));
    CALL(dup2(3, (int)limit.rlim_cur - 1) == (int)limit.rlim_cur - 1);
    CALL(fcntl(3, F_DUPFD, (int)limit.rlim_cur));
    CALL(fcntl(3, F_DUPFD, (int)limit.rlim_cur - 1));
    small.rlim_cur = 6;
    small.rlim_max = limit.rlim_max;
    CALL(setrlimit(RLIMIT_NOFILE, &small));
    VALUE(sysconf(_SC_OPEN_MAX));
    VALUE(getdtablesize());
    CALL(dup(3));
    CALL(open("b", O_RDWR | O_CREAT, 0644));
    CALL(open("c", O_RDWR | O_CREAT, 0644));
    CALL(access("c", F_OK));
    CALL(dup(3));
    CALL(dup2(3, 5));
    CALL(dup2(3, 6));
    CALL(dup3(3, 6, 0));
    CALL(dup2(99, 6));
    CALL(fcntl(3, F_DUPFD, 5));
    CALL(fcntl(3, F_DUPFD, 6));
    CALL(fcntl(3, F_DUPFD_CLOEXEC, 0));
    CALL(pipe(ends));
    CALL(close(5));
    CALL(pipe(ends));
    VALUE(ends[0]);
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(dup(3));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(eventfd(0, 0));
    CALL(timerfd_create(CLOCK_MONOTONIC, 0));
    CALL(epoll_create1(0));
    CALL(memfd_create("m", 0));
    CALL(fcntl((int)limit.rlim_cur - 1, F_GETFD));
    CALL(close((int)limit.rlim_cur - 1));
    small.rlim_cur = 7;
    CALL(prlimit(0, RLIMIT_NOFILE, &small, &limit));
    VALUE(limit.rlim_cur);
    CALL(dup(3));
    small.rlim_cur = small.rlim_max + 1;
    CALL(setrlimit(RLIMIT_NOFILE, &small));
    small.rlim_cur = 0;
    CALL(setrlimit(RLIMIT_NOFILE, &small));
    CALL(dup(3));
    CALL(fcntl(3, F_DUPFD, 0));
    CALL(fcntl(3, F_GETFD));
}

/* A descriptor opened with O_PATH. */
static void names_only(void) {
    struct stat st = {0};
    make_file("a", "text");
    CALL(open("a", O_PATH));
    CALL(read(3, &st, 1));
    CALL(write(3, "x", 1));
    CALL(lseek(3, 0, SEEK_SET));
    CALL(ftruncate(3, 0));
    CALL(fchmod(3, 0600));
    CALL(fsync(3));
    CALL(ioctl(3, FIONREAD, &st));
    CALL(flock(3, LOCK_SH));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CALL(dup(3));
    CALL(fcntl(4, F_GETFD));
    VALUE(fcntl(4, F_GETFL) == O_PATH);
    CALL(fcntl(3, F_SETFL, O_APPEND));
    CALL(fcntl(3, F_DUPFD, 8));
    CALL(openat(3, "b", O_RDONLY));
    CALL(open("missing", O_PATH | O_CREAT, 0644));
    CALL(open(".", O_PATH | O_DIRECTORY));
    CALL(openat(5, "a", O_RDONLY));
    CALL(open("a", O_PATH | O_DIRECTORY));
    CALL(close(3));
}

/* What no O_PATH descriptor does. */
static void refused_by_names(void) {
    struct epoll_event event = {.events = EPOLLIN};
    char buffer[64];
    make_file("a", "text");
    CALL(open("a", O_PATH));
    CALL(ioctl(3, FIOCLEX));
    CALL(fcntl(3, F_GETFD));
    CALL(fcntl(3, F_GETOWN));
    CALL(fcntl(3, F_GETLEASE));
    CODE(posix_fadvise(3, 0, 1, POSIX_FADV_NORMAL));
    CALL(syncfs(3));
    CALL(getdents64(3, buffer, sizeof buffer));
    CALL(epoll_create1(0));
    CALL(epoll_ctl(4, EPOLL_CTL_ADD, 3, &event));
}

/* All bits of the status flags. */
static void all_flags(void) {
    make_file("a", "text");
    CALL(open("a", O_RDWR | O_TRUNC | O_NOCTTY));
    VALUE(fcntl(3, F_GETFL));
    CALL(open("a", O_RDONLY | O_NOFOLLOW | O_SYNC | O_CLOEXEC));
    VALUE(fcntl(4, F_GETFL));
    CALL(open("a", O_WRONLY | O_DIRECT | O_APPEND));
    VALUE(fcntl(5, F_GETFL));
    CALL(fcntl(5, F_SETFL, O_NONBLOCK | O_SYNC | O_CREAT));
    VALUE(fcntl(5, F_GETFL));
    CALL(fcntl(5, F_SETFL, O_DIRECT | O_RDWR));
    VALUE(fcntl(5, F_GETFL));
    CALL(open(".", O_RDONLY | O_DIRECTORY));
    VALUE(fcntl(6, F_GETFL));
    CALL(open(".", O_RDWR | O_TMPFILE, 0600));
    VALUE(fcntl(7, F_GETFL));
    CALL(open("/dev/null", O_RDWR));
    VALUE(fcntl(8, F_GETFL));
    CALL(memfd_create("m", 0));
    VALUE(fcntl(9, F_GETFL));
}

/* Status by descriptor and empty path, of files without a path too. */
static void status_without_path(void) {
    struct stat st;
    struct statx all;
    int ends[2];
    CALL(epoll_create1(0));
    CALL(eventfd(0, 0));
    CALL(timerfd_create(CLOCK_MONOTONIC, 0));
    CALL(pipe(ends));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    for (int fd = 3; fd < 8; fd++) {
        CALL(fstatat(fd, "", &st, AT_EMPTY_PATH));
        VALUE(st.st_mode);
        CALL(fstatat(fd, "", &st, 0));
        CALL(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &all));
        VALUE(all.stx_mode);
        VALUE(all.stx_nlink);
    }
}

static const struct section sections[] = {
    {"lowest", lowest},
    {"duplicates", duplicates},
    {"replaced", replaced},
    {"fcntl_duplicates", fcntl_duplicates},
    {"flags", flags},
    {"ioctl_flags", ioctl_flags},
    {"ranges", ranges},
    {"close_from", close_from},
    {"limit", limit},
    {"names_only", names_only},
    {"refused_by_names", refused_by_names},
    {"all_flags", all_flags},
    {"status_without_path", status_without_path},
    {NULL, NULL},
};
const struct theme descriptors = {"descriptors", sections};
