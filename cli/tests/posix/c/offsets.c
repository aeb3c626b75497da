/* Offsets and sizes: seeking, positioned transfers, holes, truncation, allocation. */
#include "check.h"

#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20
#endif

static void seeking(void) {
    int ends[2];
    make_file("a", "abcdefgh");
    CALL(open("a", O_RDWR));
    CALL(lseek(3, 3, SEEK_SET));
    CALL(lseek(3, 2, SEEK_CUR));
    CALL(lseek(3, -1, SEEK_CUR));
    CALL(lseek(3, -1, SEEK_END));
    CALL(lseek(3, 10, SEEK_END));
    CALL(lseek(3, -1, SEEK_SET));
    CALL(lseek(3, -100, SEEK_CUR));
    CALL(lseek(3, -9, SEEK_END));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(lseek(3, 0, 5));
    CALL(lseek(3, 0, -1));
    CALL(lseek(3, INT64_MAX, SEEK_SET) == INT64_MAX);
    CALL(lseek(3, 1, SEEK_CUR));
    CALL(lseek(3, INT64_MAX, SEEK_END));
    CALL(lseek(99, 0, SEEK_SET));
    CALL(lseek(99, 0, 77));
    CALL(pipe(ends));
    CALL(lseek(ends[0], 0, SEEK_SET));
    CALL(lseek(ends[1], 0, SEEK_CUR));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(lseek(ends[0], 0, SEEK_SET));
}

static void holes(void) {
    make_file("a", "");
    CALL(open("a", O_RDWR));
    CALL(lseek(3, 0, SEEK_DATA));
    CALL(lseek(3, 0, SEEK_HOLE));
    CALL(ftruncate(3, 16384));
    CALL(lseek(3, 0, SEEK_DATA));
    CALL(lseek(3, 0, SEEK_HOLE));
    CALL(pwrite(3, "x", 1, 8192));
    CALL(lseek(3, 0, SEEK_DATA));
    CALL(lseek(3, 8192, SEEK_DATA));
    CALL(lseek(3, 8193, SEEK_DATA));
    CALL(lseek(3, 8192, SEEK_HOLE));
    CALL(lseek(3, 100, SEEK_HOLE));
    CALL(lseek(3, 12288, SEEK_DATA));
    CALL(lseek(3, 16384, SEEK_HOLE));
    CALL(lseek(3, -1, SEEK_DATA));
    CALL(lseek(3, 99999, SEEK_HOLE));
}

static long blocks(int fd) {
    struct stat stat;
    return fstat(fd, &stat) == 0 ? (long)stat.st_blocks : -1;
}

static void large(void) {
    char buffer[8] = {0};
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(ftruncate(3, 1L << 40));
    CALL(blocks(3));
    CALL(pread(3, buffer, 8, 1L << 39));
    CALL(pwrite(3, "xy", 2, (1L << 35) + 4095));
    CALL(blocks(3));
    CALL(lseek(3, 0, SEEK_DATA));
    CALL(lseek(3, 1L << 35, SEEK_HOLE));
    CALL(pread(3, buffer, 4, (1L << 35) + 4094));
    CALL(buffer[0] == 0 && buffer[1] == 'x' && buffer[2] == 'y' && buffer[3] == 0);
    CALL(fallocate(3, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1L << 35, 4096));
    CALL(blocks(3));
    CALL(lseek(3, 0, SEEK_DATA));
    CALL(lseek(3, 0, SEEK_END));
    CALL(ftruncate(3, 4000));
    CALL(blocks(3));
    CALL(fallocate(3, FALLOC_FL_KEEP_SIZE, 4096, 8192));
    CALL(blocks(3));
    CALL(lseek(3, 0, SEEK_END));
    CALL(fallocate(3, 0, 0, 8192));
    CALL(blocks(3));
    CALL(lseek(3, 0, SEEK_END));
    CALL(ftruncate(3, INT64_MAX));
    CALL(pwrite(3, "xy", 2, INT64_MAX - 1));
    CALL(pwrite(3, "xy", 2, INT64_MAX));
    CALL(ftruncate(3, 0));
    CALL(blocks(3));
}

static void positioned(void) {
    char buffer[8] = {0};
    int ends[2];
    make_file("a", "abcdefgh");
    CALL(open("a", O_RDWR));
    CALL(pread(3, buffer, 4, 2));
    VALUE(memcmp(buffer, "cdef", 4));
    CALL(pread(3, buffer, 4, 6));
    CALL(pread(3, buffer, 4, 8));
    CALL(pread(3, buffer, 4, 1000));
    CALL(pread(3, buffer, 4, -1));
    CALL(pread(3, bad, 4, 0));
    CALL(pread(3, buffer, 0, 0));
    CALL(pread(3, buffer, 4, INT64_MAX));
    CALL(pwrite(3, "xy", 2, 1));
    CALL(pwrite(3, "xy", 2, -1));
    CALL(pwrite(3, bad, 2, 0));
    CALL(pwrite(3, "xy", 2, INT64_MAX));
    CALL(lseek(3, 0, SEEK_CUR));
    TEXT(read_text(3));
    CALL(pread(99, buffer, 4, 0));
    CALL(pwrite(99, buffer, 4, 0));
    CALL(pipe(ends));
    CALL(pread(ends[0], buffer, 4, 0));
    CALL(pwrite(ends[1], buffer, 4, 0));
    CALL(open("a", O_WRONLY));
    CALL(pread(6, buffer, 4, 0));
    CALL(open("a", O_RDONLY));
    CALL(pwrite(7, buffer, 4, 0));
    CALL(open(".", O_RDONLY));
    CALL(pread(8, buffer, 4, 0));
}

static void positioned_vectors(void) {
    char first[3] = "...", second[4] = "....";
    struct iovec in[2] = {{first, 3}, {second, 4}};
    struct iovec out[2] = {{"AB", 2}, {"CD", 2}};
    int ends[2];
    make_file("a", "abcdefgh");
    CALL(open("a", O_RDWR));
    CALL(preadv(3, in, 2, 1));
    VALUE(memcmp(first, "bcd", 3));
    VALUE(memcmp(second, "efgh", 4));
    CALL(pwritev(3, out, 2, 2));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(preadv(3, in, 2, -1));
    CALL(pwritev(3, out, 2, -1));
    CALL(preadv(3, in, -1, 0));
    CALL(preadv(3, in, 1025, 0));
    CALL(preadv(3, bad, 1, 0));
    CALL(preadv(99, in, 2, 0));
    CALL(pwritev(99, out, 2, 0));
    CALL(pipe(ends));
    CALL(preadv(ends[0], in, 2, 0));
    CALL(pwritev(ends[1], out, 2, 0));
    CALL(preadv2(3, in, 2, 0, 0));
    CALL(preadv2(3, in, 2, -1, 0));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(pwritev2(3, out, 2, -1, 0));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(preadv2(3, in, 2, 0, RWF_HIPRI));
    CALL(preadv2(3, in, 2, 0, 0x40000000));
    CALL(pwritev2(3, out, 2, 0, RWF_APPEND));
    CALL(pwritev2(3, out, 2, -1, RWF_APPEND));
    CALL(pwritev2(3, out, 2, 0, RWF_SYNC | RWF_DSYNC));
    CALL(preadv2(3, in, 2, 0, RWF_NOWAIT));
    CALL(preadv2(ends[0], in, 2, -1, RWF_NOWAIT));
    CALL(pwritev2(ends[1], out, 2, -1, 0));
    CALL(preadv2(ends[0], in, 2, -1, 0));
    CALL(preadv2(3, in, 2, -2, 0));
    /* Unknown flags are found last. */
    CALL(preadv2(3, in, 2, -2, 0x40000000));
    CALL(preadv2(99, in, 2, 0, 0x40000000));
    CALL(preadv2(ends[0], in, 2, 0, 0x40000000));
    CALL(preadv2(ends[1], in, 2, -1, 0x40000000));
    CALL(preadv2(3, in, 2000, 0, 0x40000000));
    CALL(preadv2(3, bad, 2, 0, 0x40000000));
    CALL(preadv2(3, in, 0, 0, 0x40000000));
    CALL(pwritev2(ends[1], out, 2, 0, 0x40000000));
    CALL(pwritev2(3, out, 0, 0, 0x40000000));
    TEXT(file_text("a"));
}

/* The flags of one transfer, for each kind of file. */
static void flagged_vectors(void) {
    static char text[70000];
    char word[8] = {1};
    int ends[2], pair[2];
    struct iovec three = {text, 3}, eight = {word, 8}, all = {text, 70000};
    make_file("a", "abcdef");
    CALL(open("a", O_RDWR | O_APPEND));
    memcpy(text, "XYZ", 3);
    CALL(pwritev2(3, &three, 1, 1, RWF_NOAPPEND));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(lseek(3, 4, SEEK_SET));
    CALL(pwritev2(3, &three, 1, -1, RWF_NOAPPEND));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(pwritev2(3, &three, 1, 0, 0));
    CALL(pwritev2(3, &three, 1, 0, RWF_APPEND | RWF_NOAPPEND));
    CALL(preadv2(3, &three, 1, 0, RWF_APPEND | RWF_NOAPPEND));
    CALL(preadv2(3, &three, 1, 0, RWF_APPEND));
    CALL(fcntl(3, F_SETFL, 0));
    CALL(lseek(3, 1, SEEK_SET));
    CALL(pwritev2(3, &three, 1, 0, RWF_APPEND | RWF_DSYNC));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(pwritev2(3, &three, 1, -1, RWF_APPEND));
    CALL(lseek(3, 0, SEEK_CUR));
    TEXT(file_text("a"));
    CALL(pipe(ends));
    CALL(pwritev2(ends[1], &three, 1, -1, RWF_NOWAIT | RWF_APPEND));
    CALL(preadv2(ends[0], &three, 1, -1, RWF_NOWAIT | RWF_SYNC));
    CALL(preadv2(ends[0], &three, 1, -1, RWF_NOWAIT));
    CALL(pwritev2(ends[1], &all, 1, -1, RWF_NOWAIT));
    CALL(pwritev2(ends[1], &three, 1, -1, RWF_NOWAIT));
    CALL(pwritev2(ends[0], &three, 1, -1, RWF_APPEND | RWF_NOAPPEND));
    CALL(mkfifo("fifo", 0600));
    CALL(open("fifo", O_RDWR));
    CALL(preadv2(6, &three, 1, -1, RWF_NOWAIT));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    CALL(preadv2(pair[0], &three, 1, -1, RWF_NOWAIT));
    CALL(pwritev2(pair[1], &three, 1, -1, RWF_NOWAIT));
    CALL(preadv2(pair[0], &three, 1, -1, RWF_NOWAIT));
    while (pwritev2(pair[1], &all, 1, -1, RWF_NOWAIT) > 0) {}
    CALL(pwritev2(pair[1], &all, 1, -1, RWF_NOWAIT));
    CALL(eventfd(0, 0));
    CALL(preadv2(9, &eight, 1, -1, RWF_NOWAIT));
    CALL(pwritev2(9, &eight, 1, -1, RWF_NOWAIT));
    CALL(pwritev2(9, &eight, 1, -1, RWF_DSYNC));
    CALL(pwritev2(9, &eight, 1, -1, RWF_HIPRI));
    CALL(preadv2(9, &eight, 1, -1, RWF_NOWAIT));
    CALL(open("/dev/zero", O_RDWR));
    CALL(preadv2(10, &three, 1, -1, RWF_NOWAIT));
    CALL(pwritev2(10, &three, 1, -1, RWF_APPEND));
    CALL(open(".", O_RDONLY));
    CALL(preadv2(11, &three, 1, -1, RWF_HIPRI));
    CALL(preadv2(11, &three, 1, -1, RWF_DSYNC));
}

static void truncating(void) {
    struct stat st = {0};
    char buffer[8];
    int ends[2];
    make_file("a", "abcdefgh");
    CALL(open("a", O_RDWR));
    CALL(ftruncate(3, 3));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CALL(ftruncate(3, 6));
    CALL(read(3, buffer, 8));
    VALUE(memcmp(buffer, "abc\0\0\0", 6));
    CALL(ftruncate(3, 0));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(read(3, buffer, 8));
    CALL(write(3, "x", 1));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CALL(ftruncate(3, -1));
    CALL(ftruncate(99, 0));
    CALL(ftruncate(99, -1));
    CALL(open("a", O_RDONLY));
    CALL(ftruncate(4, 0));
    CALL(pipe(ends));
    CALL(ftruncate(ends[1], 0));
    CALL(open(".", O_RDONLY));
    CALL(ftruncate(7, 0));
    CALL(truncate("a", 4));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CALL(truncate("a", -1));
    CALL(truncate("missing", 0));
    CALL(truncate("a/b", 0));
    CALL(truncate(".", 0));
    CALL(truncate("", 0));
    CALL(truncate(bad, 0));
    symlink("a", "link");
    symlink("loop", "loop");
    CALL(truncate("link", 2));
    CALL(truncate("loop", 2));
    CALL(stat("a", &st));
    VALUE(st.st_size);
}

static void allocating(void) {
    struct stat st = {0};
    int ends[2];
    make_file("a", "abcdefgh");
    CALL(open("a", O_RDWR));
    CALL(fallocate(3, 0, 4, 100));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CALL(fallocate(3, FALLOC_FL_KEEP_SIZE, 0, 1000));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CALL(fallocate(3, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 4));
    char buffer[9] = {0};
    CALL(pread(3, buffer, 8, 0));
    VALUE(memcmp(buffer, "ab\0\0\0\0gh", 8));
    CALL(fallocate(3, FALLOC_FL_PUNCH_HOLE, 2, 4));
    CALL(fallocate(3, 0, 0, 0));
    CALL(fallocate(3, 0, -1, 4));
    CALL(fallocate(3, 0, 0, -1));
    CALL(fallocate(3, 0, INT64_MAX, 10));
    CALL(fallocate(3, 0x8000, 0, 10));
    CALL(fallocate(99, 0, 0, 10));
    CALL(open("a", O_RDONLY));
    CALL(fallocate(4, 0, 0, 10));
    CALL(pipe(ends));
    CALL(fallocate(ends[1], 0, 0, 10));
    CALL(open(".", O_RDONLY));
    CALL(fallocate(7, 0, 0, 10));
    CODE(posix_fallocate(3, 0, 2000));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CODE(posix_fallocate(3, 0, 0));
    CODE(posix_fallocate(3, -1, 10));
    CODE(posix_fallocate(99, 0, 10));
    CODE(posix_fallocate(4, 0, 10));
    CODE(posix_fallocate(ends[1], 0, 10));
    CODE(posix_fadvise(3, 0, 0, POSIX_FADV_SEQUENTIAL));
    CODE(posix_fadvise(3, 0, 100, POSIX_FADV_DONTNEED));
    CODE(posix_fadvise(3, 0, 0, 99));
    CODE(posix_fadvise(3, 0, -1, POSIX_FADV_NORMAL));
    CODE(posix_fadvise(99, 0, 0, POSIX_FADV_NORMAL));
    CODE(posix_fadvise(ends[0], 0, 0, POSIX_FADV_NORMAL));
    CALL(readahead(3, 0, 100));
    CALL(readahead(99, 0, 100));
}

/* A file cannot grow beyond the limit. SIGXFSZ is ignored here. */
static void size_limit(void) {
    struct rlimit limit = {100, RLIM_INFINITY};
    static char text[200];
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 100;
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(setrlimit(RLIMIT_FSIZE, &limit));
    CALL(write(3, text, 80));
    CALL(write(3, text, 80));
    CALL(write(3, text, 80));
    CALL(pwrite(3, text, 1, 100));
    CALL(ftruncate(3, 101));
    CALL(fallocate(3, 0, 0, 101));
}

static volatile int excesses;

static void count_excess(int signal) {
    (void)signal;
    excesses++;
}

/* Each call that would exceed the limit sends a signal. */
static void size_signals(void) {
    struct rlimit limit;
    int ends[2];
    signal(SIGXFSZ, count_excess);
    make_file("b", "0123456789");
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(open("b", O_RDWR));
    CALL(pipe(ends));
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 4;
    CALL(setrlimit(RLIMIT_FSIZE, &limit));
    CALL(write(3, "abcdef", 6));
    VALUE(excesses);
    CALL(write(3, "g", 1));
    VALUE(excesses);
    CALL(pwrite(3, "g", 1, 100));
    VALUE(excesses);
    struct iovec one = {"g", 1};
    CALL(writev(3, &one, 1));
    VALUE(excesses);
    CALL(ftruncate(3, 5));
    VALUE(excesses);
    CALL(truncate("a", 5));
    VALUE(excesses);
    CALL(fallocate(3, 0, 0, 5));
    VALUE(excesses);
    CALL(sendfile(3, 4, NULL, 1));
    VALUE(excesses);
    CALL(copy_file_range(4, NULL, 3, NULL, 1, 0));
    VALUE(excesses);
    CALL(write(ends[1], "abcdef", 6));
    CALL(splice(ends[0], NULL, 3, NULL, 1, 0));
    VALUE(excesses);
    CALL(lseek(3, INT64_MAX, SEEK_SET) == INT64_MAX);
    CALL(write(3, "g", 1));
    VALUE(excesses);
}

/* The limit is the one that the process begins with: a test of its own sets it. */
static void limited_sizes(void) {
    static char text[20000];
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    CALL(getrlimit(RLIMIT_FSIZE, &limit));
    VALUE(limit.rlim_cur);
    VALUE(limit.rlim_max);
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(write(3, text, 20000));
    CALL(pwrite(3, text, 20000, 100));
    CALL(ftruncate(3, 30000));
    CALL(fallocate(3, 0, 0, 30000));
    limit.rlim_cur = 40000;
    CALL(setrlimit(RLIMIT_FSIZE, &limit));
    CALL(ftruncate(3, 35000));
    CALL(ftruncate(3, 45000));
    VALUE(mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3, 0) == MAP_FAILED);
    CALL(pwrite(3, text, 20000, 30000));
    CALL(pwrite(3, text, 1, 40000));
    limit.rlim_cur = 10000;
    CALL(setrlimit(RLIMIT_FSIZE, &limit));
    CALL(open("b", O_RDWR | O_CREAT, 0644));
    CALL(write(4, text, 20000));
    CALL(ftruncate(3, 39000));
    CALL(ftruncate(3, 39001));
    VALUE(mmap(NULL, 4096, PROT_READ, MAP_SHARED, 4, 0) == MAP_FAILED);
    CALL(pwrite(4, text, 20000, 9000));
}

static const struct section sections[] = {
    {"limited_sizes", limited_sizes},
    {"seeking", seeking},
    {"holes", holes},
    {"large", large},
    {"positioned", positioned},
    {"positioned_vectors", positioned_vectors},
    {"flagged_vectors", flagged_vectors},
    {"truncating", truncating},
    {"allocating", allocating},
    {"size_limit", size_limit},
    {"size_signals", size_signals},
    {NULL, NULL},
};
const struct theme offsets = {"offsets", sections};
