/* Devices, paths of descriptors, streams of libc, and system calls by number. */
#include "check.h"
#include <sys/pidfd.h>

static char page[4096];

static void null_device(void) {
    struct stat st = {0};
    CALL(open("/dev/null", O_RDWR));
    CALL(write(3, "x", 1));
    CALL(read(3, page, 10));
    CALL(lseek(3, 100, SEEK_SET));
    CALL(pread(3, page, 10, 5));
    CALL(pwrite(3, page, 10, 5));
    CALL(fstat(3, &st));
    VALUE(st.st_mode & S_IFMT);
    VALUE(st.st_rdev == 259);
    CALL(ftruncate(3, 0));
    CALL(fsync(3));
    CALL(isatty(3));
    VALUE(errno);
    CALL(ioctl(3, FIONREAD, page));
    CALL(open("/dev/null", O_RDONLY));
    CALL(write(4, "x", 1));
    CALL(open("/dev/null", O_WRONLY));
    CALL(read(5, page, 1));
    CALL(open("/dev/null", O_RDWR | O_CREAT | O_EXCL, 0644));
    CALL(open("/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0644));
    CALL(open("/dev/null/x", O_RDONLY));
    CALL(open("/dev/null", O_RDONLY | O_DIRECTORY));
}

static void zero_device(void) {
    CALL(open("/dev/zero", O_RDWR));
    memset(page, 1, sizeof page);
    CALL(read(3, page, sizeof page));
    VALUE(page[0] + page[4095]);
    CALL(write(3, page, 100));
    CALL(read(3, bad, 10));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(pread(3, page, 10, 100));
    CALL(lseek(3, 50, SEEK_SET));
}

static void names_of_descriptors(void) {
    char link[64];
    struct stat st = {0};
    make_file("file", "abcdef");
    CALL(open("file", O_RDONLY));
    CALL(lseek(3, 2, SEEK_SET));
    CALL(open("/proc/self/fd/3", O_RDONLY));
    TEXT(read_text(4));
    TEXT(read_text(3));
    CALL(open("/dev/fd/3", O_RDONLY));
    CALL(open("/proc/self/fd/3", O_RDWR));
    CALL(write(6, "AB", 2));
    memset(page, 0, sizeof page);
    CALL(readlink("/proc/self/fd/3", page, sizeof page) > 0);
    TEXT(page);
    CALL(open("/proc/self/fd/99", O_RDONLY));
    CALL(readlink("/proc/self/fd/99", page, sizeof page));
    CALL(stat("/proc/self/fd/3", &st));
    VALUE(st.st_size);
    CALL(lstat("/proc/self/fd/3", &st));
    VALUE(st.st_mode);
    CALL(unlink("file"));
    memset(page, 0, sizeof page);
    CALL(readlink("/proc/self/fd/3", page, sizeof page) > 0);
    TEXT(page);
    CALL(open("/proc/self/fd/3", O_RDONLY));
    int ends[2];
    CALL(pipe(ends));
    snprintf(link, sizeof link, "/proc/self/fd/%d", ends[0]);
    memset(page, 0, sizeof page);
    CALL(readlink(link, page, sizeof page) > 0);
    VALUE(strncmp(page, "pipe:[", 6));
    snprintf(link, sizeof link, "/proc/self/fd/%d", ends[1]);
    CALL(open(link, O_WRONLY));
    CALL(write(10, "again", 5));
    TEXT(read_text(ends[0]));
    int own = 0;
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL) {
        int fd = atoi(entry->d_name);
        own += fd > 2 && fd < 11;
    }
    VALUE(own);
    if (dir) {
        closedir(dir);
    }
    CALL(open("/proc/self/fdinfo/6", O_RDONLY));
    memset(page, 0, sizeof page);
    CALL(read(11, page, sizeof page) > 0);
    page[strcspn(page, "\n")] = 0;
    TEXT(page);
}

static void terminals(void) {
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(isatty(3));
    VALUE(errno);
    CALL(isatty(99));
    VALUE(errno);
    POINTER(ttyname(3));
}

/* Host files together with fdtable's files. */
static void host_files(void) {
    struct stat st = {0};
    CALL(open("/etc/passwd", O_RDONLY));
    CALL(read(3, page, 5));
    CALL(lseek(3, 0, SEEK_SET));
    CALL(pread(3, page, 5, 1));
    CALL(fstat(3, &st));
    VALUE(st.st_size > 0);
    CALL(dup(3));
    CALL(lseek(4, 7, SEEK_SET));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(fcntl(3, F_GETFD));
    VALUE(fcntl(3, F_GETFL) & O_ACCMODE);
    CALL(write(3, "x", 1));
    CALL(open("/etc/missing", O_RDONLY));
    CALL(open("/etc", O_RDONLY | O_DIRECTORY));
    CALL(openat(5, "passwd", O_RDONLY));
    CALL(access("/etc/passwd", R_OK));
    CALL(stat("/etc/passwd", &st));
    VALUE(st.st_mode & S_IFMT);
    struct pollfd one = {3, POLLIN, 0};
    CALL(poll(&one, 1, 0));
    VALUE(one.revents);
    DIR *dir = opendir("/etc");
    VALUE(dir != NULL);
    VALUE(readdir(dir) != NULL);
    CALL(closedir(dir));
    CALL(close(3));
    CALL(close(4));
    CALL(chdir("/etc"));
    CALL(open("passwd", O_RDONLY));
    CALL(chdir(check_root));
    CALL(access("host_files", F_OK));
    CALL(fsync(3));
    void *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0);
    VALUE(mapped != MAP_FAILED && memcmp(mapped, "root", 4) == 0);
}

static void standard_descriptors(void) {
    struct stat st = {0};
    CALL(fcntl(0, F_GETFD));
    CALL(fcntl(1, F_GETFD));
    CALL(fcntl(2, F_GETFD));
    CALL(fstat(1, &st));
    CALL(dup(1));
    CALL(write(3, "", 0));
    CALL(dup2(3, 9));
    CALL(close(9));
}

static void streams(void) {
    char line[64];
    FILE *file = fopen("file", "w");
    POINTER(file);
    VALUE(fileno(file));
    CALL(fputs("first\nsecond\n", file) >= 0);
    CALL(fprintf(file, "%d", 3));
    CALL(fflush(file));
    CALL(access("file", F_OK));
    CALL(fclose(file));
    CALL(fcntl(3, F_GETFD));
    TEXT(file_text("file"));
    file = fopen("file", "r+");
    POINTER(fgets(line, sizeof line, file));
    TEXT(line);
    CALL(ftell(file));
    CALL(fseek(file, -1, SEEK_END));
    VALUE(fgetc(file));
    VALUE(fgetc(file));
    VALUE(feof(file) != 0);
    CALL(fclose(file));
    file = fopen("file", "ae");
    CALL(fcntl(fileno(file), F_GETFD));
    CALL(fputs("4", file) >= 0);
    CALL(fclose(file));
    TEXT(file_text("file"));
    POINTER(fopen("missing", "r"));
    POINTER(fopen("missing/x", "w"));
    POINTER(fopen("file", "wx"));
    POINTER(fopen("file", "?"));
    CALL(open("file", O_RDONLY));
    file = fdopen(3, "r");
    POINTER(file);
    VALUE(fileno(file));
    POINTER(fgets(line, sizeof line, file));
    CALL(fclose(file));
    CALL(close(3));
    POINTER(fdopen(99, "r"));
    file = tmpfile();
    POINTER(file);
    CALL(fputs("temporary", file) >= 0);
    rewind(file);
    POINTER(fgets(line, sizeof line, file));
    TEXT(line);
    CALL(fclose(file));
}

static void by_number(void) {
    struct pollfd one = {3, POLLIN, 0};
    struct timespec none = {0};
    struct statx sx = {0};
    int ends[2];
    fd_set in;
    make_file("file", "text");
    CALL(syscall(SYS_openat, AT_FDCWD, "file", O_RDONLY));
    CALL(syscall(SYS_read, 3, page, 10));
    CALL(syscall(SYS_lseek, 3, 0L, SEEK_SET));
    CALL(syscall(SYS_poll, &one, 1L, 0L));
    CALL(syscall(SYS_ppoll, &one, 1L, &none, NULL, 8L));
    FD_ZERO(&in); FD_SET(3, &in);
    CALL(syscall(SYS_select, 4L, &in, NULL, NULL, &(struct timeval){0}));
    CALL(syscall(SYS_pselect6, 4L, &in, NULL, NULL, &none, NULL));
    CALL(syscall(SYS_statx, AT_FDCWD, "file", 0L, (long)STATX_SIZE, &sx));
    VALUE(sx.stx_size);
    CALL(syscall(SYS_pipe2, ends, 0L));
    VALUE(ends[0]);
    CALL(syscall(SYS_write, (long)ends[1], "x", 1L));
    CALL(syscall(SYS_dup, 3L));
    CALL(syscall(SYS_dup2, 3L, 8L));
    CALL(syscall(SYS_dup3, 3L, 8L, 0L));
    CALL(syscall(SYS_fcntl, 3L, F_GETFD));
    CALL(syscall(SYS_close, 8L));
    CALL(syscall(SYS_close_range, 6L, 6L, 0L));
    CALL(syscall(SYS_epoll_create1, 0L));
    CALL(syscall(SYS_eventfd2, 0L, 0L));
    CALL(syscall(SYS_timerfd_create, (long)CLOCK_MONOTONIC, 0L));
    CALL(syscall(SYS_memfd_create, "m", 0L));
    CALL(syscall(SYS_close, 99L));
    CALL(syscall(SYS_getpid) == getpid());
    CALL(syscall(100000L));
}

static void process_descriptors(void) {
    struct pollfd one = {3, POLLIN, 0};
    CALL(syscall(SYS_pidfd_open, getpid(), 0L));
    CALL(fcntl(3, F_GETFD));
    CALL(poll(&one, 1, 0));
    CALL(pidfd_send_signal(3, 0, NULL, 0));
    CALL(pidfd_open(getpid(), 0));
    CALL(pidfd_open(getpid(), 99));
    CALL(pidfd_open(-1, 0));
    CALL(pidfd_getfd(4, 0, 0));
    CALL(fcntl(5, F_GETFD));
    CALL(write(5, "", 0));
    CALL(close(3));
    CALL(pidfd_send_signal(3, 0, NULL, 0));
    CALL(pidfd_send_signal(4, 0, NULL, 0));
    pid_t child = fork();
    if (child == 0) {
        pause_ms(20);
        _exit(7);
    }
    siginfo_t info = {0};
    one.fd = pidfd_open(child, 0);
    CALL(poll(&one, 1, 5000));
    CALL(syscall(SYS_waitid, (long)P_PIDFD, (long)one.fd, &info, (long)WEXITED, NULL));
    VALUE(info.si_status);
    CALL(syscall(SYS_waitid, (long)P_PIDFD, 99L, &info, (long)WEXITED, NULL));
}

static void opened_by_struct(void) {
    struct { unsigned long flags, mode, resolve, more; } how = {0};
    struct stat st = {0};
    make_file("file", "text");
    mkdir("directory", 0755);
    how.flags = O_RDONLY | O_CLOEXEC;
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", &how, 24L));
    CALL(fcntl(3, F_GETFD));
    TEXT(read_text(3));
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", &how, 32L));
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", &how, 23L));
    how.more = 1;
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", &how, 32L));
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", null, 24L));
    CALL(syscall(SYS_openat2, AT_FDCWD, null, &how, 24L));
    how.mode = 0600;
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", &how, 24L));
    how.flags = O_WRONLY | O_CREAT;
    CALL(syscall(SYS_openat2, AT_FDCWD, "new", &how, 24L));
    CALL(stat("new", &st));
    VALUE(st.st_mode);
    how.mode = 010600;
    CALL(syscall(SYS_openat2, AT_FDCWD, "new", &how, 24L));
    how.mode = 0;
    how.flags = O_RDONLY | 1L << 40;
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", &how, 24L));
    how.flags = O_RDONLY;
    how.resolve = 1L << 40;
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", &how, 24L));
    how.resolve = 0;
    how.flags = O_RDONLY | O_DIRECTORY;
    CALL(syscall(SYS_openat2, AT_FDCWD, "directory", &how, 24L));
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", &how, 24L));
}

static void kernels_own_results(void) {
    char path[4096];
    struct timespec left = {0, 30000000};
    CALL(syscall(SYS_ppoll, NULL, 0L, &left, NULL, 8L));
    VALUE(left.tv_sec == 0 && left.tv_nsec == 0);
    left = (struct timespec){20, 0};
    struct pollfd one = {3, POLLOUT, 0};
    CALL(eventfd(0, 0));
    CALL(syscall(SYS_ppoll, &one, 1L, &left, NULL, 8L));
    VALUE(left.tv_sec);
    left = (struct timespec){0, 30000000};
    CALL(syscall(SYS_pselect6, 0L, NULL, NULL, NULL, &left, NULL));
    VALUE(left.tv_nsec);
    left.tv_nsec = 30000000;
    CALL(ppoll(NULL, 0, &left, NULL));
    VALUE(left.tv_nsec);
    make_file("file", "text");
    CALL(open(".", O_RDONLY));
#ifdef SYS_getdents
    long size = CALL(syscall(SYS_getdents, 4L, path, 4096L));
    char type = 0;
    for (long at = 0; at < size; at += *(unsigned short *)(path + at + 16)) {
        if (strcmp(path + at + 18, "file") == 0) {
            type = path[at + *(unsigned short *)(path + at + 16) - 1];
        }
    }
    VALUE(type == DT_REG);
    CALL(syscall(SYS_getdents, 4L, path, 4096L));
#endif
    memset(path, 0, sizeof path);
    VALUE(syscall(SYS_getcwd, path, 4096L) == (long)strlen(path) + 1);
    CALL(syscall(SYS_getcwd, path, 1L));
    CALL(syscall(SYS_getcwd, path, 0L));
    CALL(syscall(SYS_inotify_init1, 0L));
}

static void file_handles(void) {
    struct { struct file_handle head; char more[128]; } handle = {.head.handle_bytes = 128};
    int mount = 0;
    CALL(open("/dev", O_RDONLY | O_DIRECTORY));
    CALL(name_to_handle_at(99, "x", &handle.head, &mount, 0));
    CALL(name_to_handle_at(3, "missing", &handle.head, &mount, 0));
    CALL(open_by_handle_at(99, &handle.head, O_RDONLY));
}

static const struct section sections[] = {
    {"null_device", null_device},
    {"zero_device", zero_device},
    {"names_of_descriptors", names_of_descriptors},
    {"terminals", terminals},
    {"host_files", host_files},
    {"standard_descriptors", standard_descriptors},
    {"streams", streams},
    {"by_number", by_number},
    {"process_descriptors", process_descriptors},
    {"opened_by_struct", opened_by_struct},
    {"kernels_own_results", kernels_own_results},
    {"file_handles", file_handles},
    {NULL, NULL},
};
const struct theme devices = {"devices", sections};
