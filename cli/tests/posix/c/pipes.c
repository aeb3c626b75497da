/* Pipes and FIFOs. */
#include "check.h"

static char page[65536 * 4];

static void creating(void) {
    int ends[2] = {-7, -7};
    struct stat st = {0};
    CALL(pipe(ends));
    VALUE(ends[0]);
    VALUE(ends[1]);
    VALUE(fcntl(3, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
    VALUE(fcntl(4, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
    CALL(fcntl(3, F_GETFD));
    CALL(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
    CALL(fcntl(5, F_GETFD));
    VALUE(fcntl(6, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
    CALL(pipe2(ends, O_APPEND));
    CALL(pipe2(ends, -1));
    CALL(pipe(bad));
    CALL(pipe(null));
    CALL(pipe2(bad, 0));
    CALL(dup(3));
    CALL(fstat(3, &st));
    VALUE(st.st_mode);
    CALL(read(4, page, 1));
    CALL(write(3, page, 1));
    CALL(read(4, page, 0));
    CALL(write(3, page, 0));
}

/* A packet pipe: each read takes one packet. */
static void packets(void) {
    int ends[2], waiting = -1;
    CALL(pipe2(ends, O_DIRECT));
    VALUE(fcntl(3, F_GETFL) & O_DIRECT);
    VALUE(fcntl(4, F_GETFL) & O_DIRECT);
    CALL(write(4, "one", 3));
    CALL(write(4, "two", 3));
    CALL(write(4, "three", 5));
    CALL(ioctl(3, FIONREAD, &waiting));
    VALUE(waiting);
    TEXT(read_text(3));
    CALL(read(3, page, 1));
    struct iovec in[2] = {{page, 2}, {page + 2, 2}}, out[2] = {{"he", 2}, {"llo", 3}};
    CALL(readv(3, in, 2));
    VALUE(page[3]);
    CALL(writev(4, out, 2));
    CALL(write(4, page, 0));
    CALL(write(4, page, 2 * 4096 + 10));
    TEXT(read_text(3));
    CALL(read(3, page, 5));
    CALL(read(3, page, 5000));
    CALL(read(3, page, 5000));
    CALL(fcntl(3, F_SETFL, O_NONBLOCK));
    CALL(read(3, page, 1));
}

static void transfer(void) {
    int ends[2], waiting = -1;
    CALL(pipe(ends));
    CALL(write(4, "hello", 5));
    CALL(ioctl(3, FIONREAD, &waiting));
    VALUE(waiting);
    CALL(ioctl(4, FIONREAD, &waiting));
    CALL(ioctl(3, FIONREAD, bad));
    CALL(read(3, page, 0));
    CALL(write(4, page, 0));
    CALL(read(3, bad, 5));
    CALL(write(4, bad, 5));
    CALL(ioctl(3, FIONREAD, &waiting));
    VALUE(waiting);
    CALL(read(3, page, 3));
    TEXT(read_text(3));
    struct iovec out[2] = {{"ab", 2}, {"cd", 2}};
    CALL(writev(4, out, 2));
    TEXT(read_text(3));
    CALL(close(4));
    CALL(read(3, page, 1));
    CALL(read(3, page, 1));
}

static void broken(void) {
    int ends[2];
    CALL(pipe(ends));
    CALL(write(4, "lost", 4));
    CALL(close(3));
    CALL(write(4, "x", 1));
    CALL(write(4, "x", 0));
}

static volatile int caught;

static void catch_it(int signal) { caught = signal; }

static void broken_signal(void) {
    int ends[2];
    signal(SIGPIPE, catch_it);
    CALL(pipe(ends));
    CALL(close(3));
    CALL(write(4, "x", 1));
    VALUE(caught == SIGPIPE);
}

static void filling(void) {
    int ends[2];
    CALL(pipe2(ends, O_NONBLOCK));
    CALL(read(3, page, 1));
    CALL(fcntl(4, F_GETPIPE_SZ));
    CALL(write(4, page, sizeof page));
    CALL(write(4, page, 1));
    CALL(read(3, page, 100));
    CALL(write(4, page, 1));
    CALL(write(4, page, 4096));
    CALL(read(3, page, 4096));
    CALL(write(4, page, 4096));
    CALL(write(4, page, 4097));
    CALL(read(3, page, 10000));
    CALL(write(4, page, 5000));
    CALL(fcntl(4, F_SETPIPE_SZ, 4096));
    CALL(fcntl(3, F_GETPIPE_SZ));
    while (read(3, page, sizeof page) > 0) {
    }
    CALL(fcntl(4, F_SETPIPE_SZ, 5000));
    CALL(fcntl(3, F_GETPIPE_SZ));
    CALL(write(4, page, sizeof page));
    CALL(fcntl(4, F_SETPIPE_SZ, 131072));
    CALL(fcntl(4, F_GETPIPE_SZ));
    CALL(fcntl(4, F_SETPIPE_SZ, -1));
    CALL(fcntl(4, F_SETPIPE_SZ, (1 << 20) + 1));
    CALL(fcntl(4, F_SETPIPE_SZ, (1u << 31) + 1));
    CALL(open("regular", O_RDWR | O_CREAT, 0644));
    CALL(fcntl(5, F_SETPIPE_SZ, -1));
    CALL(close(5));
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(fcntl(5, F_GETPIPE_SZ));
}

struct slow {
    int fd;
    const char *text;
};

static void *write_slowly(void *argument) {
    struct slow *slow = argument;
    pause_ms(30);
    ssize_t done = write(slow->fd, slow->text, strlen(slow->text));
    return (void *)done;
}

static void *close_slowly(void *argument) {
    pause_ms(30);
    close(*(int *)argument);
    return NULL;
}

static void *drain_slowly(void *argument) {
    static char drained[65536];
    pause_ms(30);
    for (size_t left = 100000; left > 0;) {
        left -= (size_t)read(*(int *)argument, drained, left < 65536 ? left : 65536);
    }
    return NULL;
}

static void woken(void) {
    int ends[2];
    pthread_t thread;
    CALL(pipe(ends));
    struct slow slow = {ends[1], "late"};
    pthread_create(&thread, NULL, write_slowly, &slow);
    CALL(read(ends[0], page, 10));
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, drain_slowly, &ends[0]);
    for (long done = CALL(write(ends[1], page, 100000)); done < 100000;) {
        done += write(ends[1], page, 100000 - done);
    }
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, close_slowly, &ends[1]);
    CALL(read(ends[0], page, 10));
    pthread_join(thread, NULL);
    CALL(pipe(ends));
    CALL(write(ends[1], page, 65536));
    pthread_create(&thread, NULL, close_slowly, &ends[0]);
    CALL(write(ends[1], page, 10));
    pthread_join(thread, NULL);
}

/* Packets beside other bytes, and the pages that they take. */
static void packets_and_bytes(void) {
    int ends[2], packets = 0;
    CALL(pipe2(ends, O_DIRECT | O_NONBLOCK));
    while (write(4, "x", 1) == 1) packets++;
    VALUE(packets);
    struct pollfd poll_out = {4, POLLOUT, 0};
    CALL(poll(&poll_out, 1, 0));
    CALL(fcntl(4, F_SETPIPE_SZ, 4096));
    CALL(fcntl(4, F_SETPIPE_SZ, 131072));
    CALL(write(4, page, 100000));
    CALL(read(3, page, 100));
    CALL(poll(&poll_out, 1, 0));
    while (read(3, page, sizeof page) > 0) {}
    CALL(fcntl(4, F_SETFL, O_NONBLOCK));
    CALL(write(4, "ab", 2));
    CALL(fcntl(4, F_SETFL, O_NONBLOCK | O_DIRECT));
    CALL(write(4, "cd", 2));
    CALL(write(4, page, 4096));
    CALL(write(4, "ef", 2));
    CALL(fcntl(4, F_SETFL, O_NONBLOCK));
    CALL(write(4, "gh", 2));
    CALL(write(4, "ij", 2));
    CALL(read(3, page, 10000));
    TEXT(read_text(3));
    TEXT(read_text(3));
    CALL(fcntl(4, F_SETFL, O_NONBLOCK | O_DIRECT));
    CALL(write(4, "12345", 5));
    CALL(open("file", O_RDWR | O_CREAT, 0600));
    CALL(splice(3, NULL, 5, NULL, 2, 0));
    TEXT(read_text(3));
    CALL(mkfifo("fifo", 0600));
    CALL(open("fifo", O_RDWR | O_DIRECT));
    CALL(open("fifo", O_RDWR));
    CALL(fcntl(6, F_SETFL, O_DIRECT));
    CALL(write(6, "one", 3));
    CALL(write(6, "two", 3));
    TEXT(read_text(6));
    TEXT(read_text(6));
    pthread_t thread;
    CALL(pipe2(ends, O_DIRECT));
    pthread_create(&thread, NULL, drain_slowly, &ends[0]);
    CALL(write(ends[1], page, 100000));
    pthread_join(thread, NULL);
}

static void *open_writer(void *argument) {
    pause_ms(30);
    long fd = open((char *)argument, O_WRONLY);
    return (void *)fd;
}

static void fifos(void) {
    pthread_t thread;
    void *result;
    CALL(mkfifo("fifo", 0644));
    CALL(open("fifo", O_WRONLY | O_NONBLOCK));
    CALL(open("fifo", O_RDONLY | O_NONBLOCK));
    CALL(read(3, page, 1));
    CALL(open("fifo", O_WRONLY | O_NONBLOCK));
    CALL(read(3, page, 1));
    CALL(write(4, "through", 7));
    TEXT(read_text(3));
    CALL(lseek(3, 0, SEEK_SET));
    CALL(close(4));
    CALL(read(3, page, 1));
    CALL(close(3));
    pthread_create(&thread, NULL, open_writer, "fifo");
    CALL(open("fifo", O_RDONLY) >= 3);
    pthread_join(thread, &result);
    VALUE((long)result >= 3);
    CALL(close(3));
    CALL(close(4));
    CALL(open("fifo", O_RDWR));
    CALL(write(3, "self", 4));
    TEXT(read_text(3));
    CALL(unlink("fifo"));
    CALL(write(3, "self", 4));
    TEXT(read_text(3));
}

static void splicing(void) {
    int first[2], second[2];
    CALL(pipe2(first, O_NONBLOCK));
    CALL(pipe2(second, O_NONBLOCK));
    make_file("file", "abcdefgh");
    CALL(open("file", O_RDWR));
    CALL(splice(7, NULL, first[1], NULL, 4, 0));
    CALL(tee(first[0], second[1], 100, 0));
    TEXT(read_text(first[0]));
    TEXT(read_text(second[0]));
    CALL(splice(first[0], NULL, second[1], NULL, 4, SPLICE_F_NONBLOCK));
    CALL(splice(7, NULL, 7, NULL, 4, 0));
    CALL(splice(99, NULL, first[1], NULL, 4, 0));
    struct iovec out = {"user", 4};
    CALL(vmsplice(first[1], &out, 1, 0));
    TEXT(read_text(first[0]));
}

/* The inode of a pipe, which all its ends share. */
static void inodes(void) {
    struct stat one = {0}, other = {0};
    struct statfs fs;
    if (geteuid() == 0 && setgid(1234) != 0) {
        printf("(cannot change the group)\n");
    }
    pipe((int[2]){0});
    fstat(3, &one);
    VALUE(one.st_uid == geteuid() && one.st_gid == getegid());
    CALL(fchmod(3, 0644));
    CALL(fstat(4, &other));
    VALUE(other.st_mode);
    VALUE(one.st_ino == other.st_ino);
    CALL(fchown(3, geteuid(), getegid()));
    CALL(futimens(3, (struct timespec[2]){{5, 0}, {6, 0}}));
    CALL(fstat(4, &other));
    VALUE(other.st_mtime);
    CALL(fstatfs(3, &fs));
    VALUE(fs.f_type);
}

static const char *link_of(int fd) {
    static char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return name;
}

/* Further ends, through /proc. */
static void reopened(void) {
    pipe2((int[2]){0}, O_NONBLOCK);
    CALL(open(link_of(4), O_RDONLY | O_NONBLOCK));
    CALL(write(4, "hello", 5));
    CALL(close(3));
    CALL(write(4, "!", 1));
    CALL(read(5, page, 2));
    CALL(close(5));
    signal(SIGPIPE, SIG_IGN);
    CALL(write(4, "x", 1));
    CALL(open(link_of(4), O_RDWR | O_NONBLOCK));
    CALL(close(4));
    TEXT(read_text(3));
    CALL(write(3, "self", 4));
    CALL(open(link_of(3), O_WRONLY));
    CALL(close(3));
    CALL(write(4, "x", 1));
    CALL(open(link_of(4), O_WRONLY | O_NONBLOCK));
    CALL(open(link_of(4), O_PATH));
    CALL(read(3, page, 1));
    CALL(openat(4, "name", O_RDONLY));
}

/* A descriptor of the path alone keeps no end open. */
static void paths(void) {
    pipe2((int[2]){0}, O_NONBLOCK);
    signal(SIGPIPE, SIG_IGN);
    CALL(open(link_of(3), O_PATH));
    CALL(close(3));
    CALL(write(4, "x", 1));
    VALUE(readlink(link_of(5), page, sizeof page) > 6);
    VALUE(memcmp(page, "pipe:[", 6));
}

/* Splices with files, with offsets, and with sockets. */
static void spliced(void) {
    int pair[2];
    off_t at = 2;
    pipe2((int[2]){0}, O_NONBLOCK);
    pipe2((int[2]){0}, O_NONBLOCK);
    make_file("file", "abcdefghij");
    int file = open("file", O_RDWR);
    signal(SIGPIPE, SIG_IGN);
    CALL(splice(file, &at, 4, NULL, 100, 0));
    VALUE(at);
    VALUE(lseek(file, 0, SEEK_CUR));
    TEXT(read_text(3));
    CALL(splice(file, &at, 4, NULL, 1, 0));
    at = -1;
    CALL(splice(file, &at, 4, NULL, 1, 0));
    CALL(splice(file, NULL, 4, &at, 1, 0));
    CALL(splice(3, &at, file, NULL, 1, 0));
    CALL(splice(3, NULL, file, NULL, 1, 0));
    CALL(splice(3, NULL, file, NULL, 1, 16));
    CALL(splice(99, NULL, 99, NULL, 0, 0));
    CALL(splice(3, NULL, 99, NULL, 1, 0));
    CALL(splice(4, NULL, file, NULL, 1, 0));
    CALL(splice(file, NULL, 3, NULL, 1, 0));
    CALL(splice(3, NULL, 4, NULL, 1, 0));
    CALL(write(4, "12345", 5));
    CALL(splice(3, NULL, 6, NULL, 3, 0));
    TEXT(read_text(5));
    at = 3;
    CALL(splice(3, NULL, file, &at, 100, 0));
    VALUE(at);
    TEXT(file_text("file"));
    CALL(fcntl(file, F_SETFL, O_APPEND));
    CALL(write(4, "x", 1));
    CALL(splice(3, NULL, file, NULL, 100, 0));
    TEXT(read_text(3));
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
    CALL(splice(pair[0], NULL, 4, NULL, 9, 0));
    CALL(write(pair[1], "socket", 6));
    CALL(splice(pair[0], NULL, 4, NULL, 4, 0));
    CALL(splice(3, NULL, pair[0], NULL, 100, 0));
    TEXT(read_text(pair[1]));
    at = 0;
    CALL(splice(pair[0], &at, 4, NULL, 4, 0));
    CALL(close(pair[1]));
    CALL(write(4, "kept", 4));
    CALL(splice(3, NULL, pair[0], NULL, 100, 0));
    TEXT(read_text(3));
    int counter = eventfd(1, 0);
    CALL(splice(counter, NULL, 4, NULL, 8, 0));
    CALL(splice(open(".", O_RDONLY), NULL, 4, NULL, 8, 0));
    CALL(close(5));
    CALL(write(4, "kept", 4));
    CALL(splice(3, NULL, 6, NULL, 4, 0));
    CALL(tee(3, 6, 4, 0));
    CALL(vmsplice(6, &(struct iovec){"x", 1}, 1, 0));
    TEXT(read_text(3));
    CALL(close(4));
    CALL(splice(3, NULL, file, &at, 4, 0));
    CALL(vmsplice(3, &(struct iovec){page, 4}, 1, 0));
}

/* Memory that can be accessed in part. */
static void faulty_memory(void) {
    int ends[2];
    char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 'm', 8192);
    mprotect(memory + 4096, 4096, PROT_NONE);
    struct iovec one = {memory + 4086, 500};
    struct iovec parts[] = {{memory, 5}, {memory + 4096, 10}, {memory, 10}};
    signal(SIGPIPE, SIG_IGN);
    CALL(pipe2(ends, O_NONBLOCK));
    CALL(vmsplice(4, &one, 1, 0));
    TEXT(read_text(3));
    CALL(vmsplice(4, parts, 3, 0));
    TEXT(read_text(3));
    CALL(vmsplice(4, parts + 1, 2, 0));
    TEXT(read_text(3));
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(vmsplice(5, parts + 1, 1, 0));
    while (write(4, page, 4096) > 0) {
    }
    CALL(vmsplice(4, parts, 2, SPLICE_F_NONBLOCK));
    CALL(vmsplice(4, parts + 1, 1, SPLICE_F_NONBLOCK));
    CALL(close(3));
    CALL(vmsplice(4, parts, 2, 0));
    CALL(vmsplice(4, parts + 1, 1, 0));
}

/* Two threads splice from one pipe: each page arrives once. */
#define PAGES 256

static int shared_ends[2], moved_to[2];
static long moved[2];

static void *move_pages(void *number) {
    long mine = (long)number;
    ssize_t count;
    while ((count = splice(shared_ends[0], NULL, moved_to[mine], NULL, 4096, 0)) > 0) {
        moved[mine] += count;
    }
    return NULL;
}

/* Reads all pages, and counts how often each number comes. */
static void count_pages(int fd, int *times) {
    int number[1024];
    size_t done = 0;
    ssize_t count;
    while ((count = read(fd, (char *)number + done, sizeof number - done)) > 0) {
        done += count;
        if (done == sizeof number) {
            done = 0;
            times[*number % PAGES]++;
        }
    }
}

static void *drain_pages(void *times) {
    count_pages(moved_to[0] - 1, times);
    return NULL;
}

static void splice_from_two_threads(int *times) {
    pthread_t movers[2];
    int number[1024];
    moved[0] = moved[1] = 0;
    for (long i = 0; i < 2; i++) {
        pthread_create(&movers[i], NULL, move_pages, (void *)i);
    }
    for (int i = 0; i < PAGES; i++) {
        *number = i;
        if (write(shared_ends[1], number, sizeof number) != sizeof number) {
            CALL(-1);
        }
    }
    close(shared_ends[1]);
    pthread_join(movers[0], NULL);
    pthread_join(movers[1], NULL);
}

static void print_times(const int *times) {
    int missing = 0, repeated = 0;
    for (int i = 0; i < PAGES; i++) {
        missing += times[i] == 0;
        repeated += times[i] > 1;
    }
    VALUE(moved[0] + moved[1]);
    VALUE(missing);
    VALUE(repeated);
}

static void shared_splices(void) {
    int times[PAGES] = {0};
    CALL(pipe(shared_ends));
    for (int i = 0; i < 2; i++) {
        moved_to[i] = open(i ? "b" : "a", O_RDWR | O_CREAT, 0644);
    }
    splice_from_two_threads(times);
    for (int i = 0; i < 2; i++) {
        lseek(moved_to[i], 0, SEEK_SET);
        count_pages(moved_to[i], times);
    }
    print_times(times);
}

/* The same, into one pipe. */
static void shared_splices_of_pipes(void) {
    int times[PAGES] = {0}, out[2];
    pthread_t reader;
    CALL(pipe(shared_ends));
    CALL(pipe(out));
    moved_to[0] = moved_to[1] = out[1];
    pthread_create(&reader, NULL, drain_pages, times);
    splice_from_two_threads(times);
    close(out[1]);
    pthread_join(reader, NULL);
    print_times(times);
}

static const struct section sections[] = {
    {"spliced", spliced},
    {"faulty_memory", faulty_memory},
    {"shared_splices", shared_splices},
    {"shared_splices_of_pipes", shared_splices_of_pipes},
    {"packets_and_bytes", packets_and_bytes},
    {"creating", creating}, {"packets", packets}, {"transfer", transfer}, {"broken", broken},
    {"inodes", inodes},     {"reopened", reopened}, {"paths", paths},
    {"broken_signal", broken_signal}, {"filling", filling},
    {"woken", woken},       {"fifos", fifos},       {"splicing", splicing},
    {NULL, NULL},
};
const struct theme pipes = {"pipes", sections};
