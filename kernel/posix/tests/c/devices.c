/* Devices, paths of descriptors, streams of libc, and system calls by number. */
#include "check.h"

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

static const struct section sections[] = {
    {"null_device", null_device},
    {"zero_device", zero_device},
    {"names_of_descriptors", names_of_descriptors},
    {"terminals", terminals},
    {"host_files", host_files},
    {"standard_descriptors", standard_descriptors},
    {"streams", streams},
    {"by_number", by_number},
    {NULL, NULL},
};
const struct theme devices = {"devices", sections};
