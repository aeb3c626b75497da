/* Calls on descriptors: transfers, offsets, flags, copies of descriptors, locks, events. */
#include "fuzz.h"

#define FD(i) ((int)NUMBER(i))
#define OP(name, ...) \
    static long do_##name(struct call *call) { return name(__VA_ARGS__); }

OP(close, FD(0))
OP(dup, FD(0))
OP(dup2, FD(0), FD(1))
OP(dup3, FD(0), FD(1), FD(2))
OP(write, FD(0), BUFFER(1, some_data()), (size_t)NUMBER(2))
OP(pwrite, FD(0), BUFFER(1, some_data()), (size_t)NUMBER(2), NUMBER(3))
OP(lseek, FD(0), NUMBER(1), FD(2))
OP(ftruncate, FD(0), NUMBER(1))
OP(fallocate, FD(0), FD(1), NUMBER(2), NUMBER(3))
OP(fsync, FD(0))
OP(fdatasync, FD(0))
OP(posix_fadvise, FD(0), NUMBER(1), NUMBER(2), FD(3))
OP(flock, FD(0), FD(1))
OP(close_range, (unsigned)NUMBER(0), (unsigned)NUMBER(1), FD(2))
OP(memfd_create, TEXT(0), (unsigned)NUMBER(1))
OP(isatty, FD(0))
OP(eventfd, (unsigned)NUMBER(0), FD(1))
OP(eventfd_write, FD(0), (eventfd_t)NUMBER(1))
OP(timerfd_create, FD(0), FD(1))
OP(epoll_create1, FD(0))

static long do_read(struct call *call) {
    long got = read(FD(0), BUFFER(1, room), (size_t)NUMBER(2));
    show_bytes(room, got);
    return got;
}

static long do_pread(struct call *call) {
    long got = pread(FD(0), BUFFER(1, room), (size_t)NUMBER(2), NUMBER(3));
    show_bytes(room, got);
    return got;
}

/* Two parts, the second one at a place of its own. */
static struct iovec *parts(const char *start, long first, long second) {
    static _Thread_local struct iovec vector[2];
    vector[0] = (struct iovec){(void *)start, (size_t)first};
    vector[1] = (struct iovec){(void *)(start + ROOM / 2), (size_t)second};
    return vector;
}

static void show_parts(const struct iovec *vector, long got) {
    long first = got < (long)vector[0].iov_len ? got : (long)vector[0].iov_len;
    show_bytes(vector[0].iov_base, first);
    show_bytes(vector[1].iov_base, got - first);
}

static long do_readv(struct call *call) {
    struct iovec *vector = parts(room, NUMBER(1), NUMBER(2));
    long got = readv(FD(0), vector, FD(3));
    if (got > 0) {
        show_parts(vector, got);
    }
    return got;
}

static long do_preadv(struct call *call) {
    struct iovec *vector = parts(room, NUMBER(1), NUMBER(2));
    long got = preadv(FD(0), vector, FD(3), NUMBER(4));
    if (got > 0) {
        show_parts(vector, got);
    }
    return got;
}

OP(writev, FD(0), parts(some_data(), NUMBER(1), NUMBER(2)), FD(3))
OP(pwritev, FD(0), parts(some_data(), NUMBER(1), NUMBER(2)), FD(3), NUMBER(4))

static long ask_lock(struct call *call) {
    struct flock lock = {.l_type = (short)NUMBER(2),
                         .l_whence = (short)NUMBER(3),
                         .l_start = NUMBER(4),
                         .l_len = NUMBER(5)};
    long result = fcntl(FD(0), FD(1), &lock);
    if (result == 0 && (FD(1) == F_GETLK || FD(1) == F_OFD_GETLK)) {
        show(" type=%d", lock.l_type);
        if (lock.l_type != F_UNLCK) {
            show(" whence=%d start=%ld len=%ld pid=%s", lock.l_whence, (long)lock.l_start,
                 (long)lock.l_len, lock.l_pid == -1 ? "-1" : "of a process");
        }
    }
    return result;
}

static long do_fcntl(struct call *call) {
    if (call->count == 6) {
        return ask_lock(call);
    }
    long result = fcntl(FD(0), FD(1), NUMBER(2));
    return FD(1) == F_GETFL && result != -1 ? result & ~KEPT_FLAGS : result;
}

static long do_ioctl(struct call *call) {
    int value = FD(2);
    long result = ioctl(FD(0), (unsigned long)NUMBER(1), &value);
    if (result == 0 && (NUMBER(1) == FIONREAD || NUMBER(1) == TIOCOUTQ)) {
        show(" %d", value);
    }
    return result;
}

/* An offset argument: "none" passes no pointer. */
static off_t *place(struct call *call, int i, off_t *offset) {
    *offset = NUMBER(i);
    return NUMBER(i) == INT_MIN ? NULL : offset;
}

static void show_place(struct call *call, int i, off_t offset) {
    if (NUMBER(i) != INT_MIN) {
        show(" at %ld", (long)offset);
    }
}

/* Returns true for two ranges of one file that overlap. Linux copies pages there, and no order of
 * the bytes is defined. */
static bool overlaps(struct call *call) {
    struct stat in, out;
    if (fstat(FD(0), &out) != 0 || fstat(FD(1), &in) != 0 || !S_ISREG(in.st_mode) ||
        in.st_ino != out.st_ino || in.st_dev != out.st_dev) {
        return false;
    }
    off_t from = NUMBER(2) == INT_MIN ? lseek(FD(1), 0, SEEK_CUR) : NUMBER(2);
    off_t to = lseek(FD(0), 0, SEEK_CUR);
    return (from < to ? to - from : from - to) < NUMBER(3);
}

static long do_sendfile(struct call *call) {
    off_t from;
    if (overlaps(call)) {
        return -2;
    }
    errno = 0;
    long moved = sendfile(FD(0), FD(1), place(call, 2, &from), (size_t)NUMBER(3));
    show_place(call, 2, from);
    return moved;
}

static long do_copy_file_range(struct call *call) {
    off_t from, to;
    off_t *in = place(call, 1, &from), *out = place(call, 3, &to);
    long moved = copy_file_range(FD(0), in, FD(2), out, (size_t)NUMBER(4), (unsigned)NUMBER(5));
    show_place(call, 1, from);
    show_place(call, 3, to);
    return moved;
}

static long do_splice(struct call *call) {
    off_t from, to;
    off_t *in = place(call, 1, &from), *out = place(call, 3, &to);
    return splice(FD(0), in, FD(2), out, (size_t)NUMBER(4), (unsigned)NUMBER(5));
}

OP(tee, FD(0), FD(1), (size_t)NUMBER(2), (unsigned)NUMBER(3))

static long do_mmap(struct call *call) {
    size_t length = (size_t)NUMBER(0);
    struct stat st = {0};
    unsigned char *map = mmap(NULL, length, FD(1), FD(2), FD(3), NUMBER(4));
    if (map == MAP_FAILED) {
        return -1;
    }
    bool is_readable = (FD(1) & PROT_READ) && fstat(FD(3), &st) == 0;
    long left = st.st_size - NUMBER(4);
    if (is_readable && left > 0 && (FD(1) & PROT_WRITE)) {
        map[0] = 'M';
    }
    if (is_readable && left > 0) {
        show_bytes(map, left < (long)length ? left : (long)length);
    }
    munmap(map, length);
    return 0;
}

static long do_fstat(struct call *call) {
    struct stat st;
    long result = fstat(FD(0), &st);
    if (result == 0) {
        show_stat(&st);
    }
    return result;
}

static long do_eventfd_read(struct call *call) {
    eventfd_t value = 0;
    long result = eventfd_read(FD(0), &value);
    if (result == 0) {
        show(" %lu", (unsigned long)value);
    }
    return result;
}

static void show_timer(const char *name, const struct itimerspec *timer) {
    bool is_set = timer->it_value.tv_sec || timer->it_value.tv_nsec;
    show(" %s=%s interval=%ld", name, is_set ? "set" : "off", (long)timer->it_interval.tv_sec);
}

/* Timers that never expire while a script runs. */
static long do_timerfd_settime(struct call *call) {
    struct itimerspec timer = {{NUMBER(3), 0}, {NUMBER(2), 0}}, old;
    long result = timerfd_settime(FD(0), FD(1), &timer, &old);
    if (result == 0) {
        show_timer("old", &old);
    }
    return result;
}

static long do_timerfd_gettime(struct call *call) {
    struct itimerspec timer;
    long result = timerfd_gettime(FD(0), &timer);
    if (result == 0) {
        show_timer("timer", &timer);
    }
    return result;
}

static long do_poll(struct call *call) {
    struct pollfd files[] = {{FD(0), (short)NUMBER(1), 0}, {FD(2), (short)NUMBER(3), 0}};
    long result = poll(files, 2, 0);
    if (result >= 0) {
        show(" %#x %#x", files[0].revents, files[1].revents);
    }
    return result;
}

static long do_select(struct call *call) {
    struct timeval now = {0};
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    for (int i = 0; i < 2; i++) {
        if (FD(i) < 0 || FD(i) >= FD_SETSIZE) {
            return -2;
        }
        FD_SET(FD(i), &in);
        FD_SET(FD(i), &out);
    }
    long result = select((FD(0) > FD(1) ? FD(0) : FD(1)) + 1, &in, &out, NULL, &now);
    for (int i = 0; result >= 0 && i < 2; i++) {
        show(" %d%d", FD_ISSET(FD(i), &in), FD_ISSET(FD(i), &out));
    }
    return result;
}

static long do_epoll_ctl(struct call *call) {
    struct epoll_event event = {(uint32_t)NUMBER(3), {.u64 = (uint64_t)NUMBER(2)}};
    return epoll_ctl(FD(0), FD(1), FD(2), &event);
}

static int by_data(const void *one, const void *other) {
    const struct epoll_event *a = one, *b = other;
    return a->data.u64 < b->data.u64 ? -1 : a->data.u64 > b->data.u64;
}

static long do_epoll_wait(struct call *call) {
    struct epoll_event events[LIMIT];
    long result = epoll_wait(FD(0), events, FD(1), 0);
    if (result > 0) {
        qsort(events, (size_t)result, sizeof *events, by_data);
    }
    for (long i = 0; i < result; i++) {
        show(" %lu:%#x", (unsigned long)events[i].data.u64, events[i].events);
    }
    return result;
}

/* Shows every open descriptor. */
static long do_descriptors(struct call *call) {
    int count = 0;
    (void)call;
    for (int fd = 0; fd < LIMIT; fd++) {
        struct stat st;
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0) {
            continue;
        }
        count++;
        next_line();
        show(" %d: flags=%d status=%o", fd, flags, fcntl(fd, F_GETFL) & ~KEPT_FLAGS);
        bool is_known = fstat(fd, &st) == 0;
        if (is_known) {
            show_stat(&st);
        }
        if (is_known && S_ISREG(st.st_mode)) {
            show(" at %ld", (long)lseek(fd, 0, SEEK_CUR));
        }
    }
    return count;
}

#define TABLE(name, count) {#name, do_##name, count}

const struct operation descriptor_operations[] = {
    TABLE(close, 1),          TABLE(dup, 1),           TABLE(dup2, 2),
    TABLE(dup3, 3),           TABLE(read, 3),          TABLE(pread, 4),
    TABLE(write, 3),          TABLE(pwrite, 4),        TABLE(readv, 4),
    TABLE(preadv, 5),         TABLE(writev, 4),        TABLE(pwritev, 5),
    TABLE(lseek, 3),          TABLE(ftruncate, 2),     TABLE(fallocate, 4),
    TABLE(fsync, 1),          TABLE(fdatasync, 1),     TABLE(posix_fadvise, 4),
    TABLE(flock, 2),          TABLE(close_range, 3),   TABLE(memfd_create, 2),
    TABLE(isatty, 1),         TABLE(fcntl, -1),        TABLE(ioctl, 3),
    TABLE(sendfile, 4),       TABLE(copy_file_range, 6), TABLE(splice, 6),
    TABLE(tee, 4),            TABLE(mmap, 5),         TABLE(fstat, 1),
    TABLE(eventfd, 2),        TABLE(eventfd_read, 1),  TABLE(eventfd_write, 2),
    TABLE(timerfd_create, 2), TABLE(timerfd_settime, 4), TABLE(timerfd_gettime, 1),
    TABLE(poll, 4),           TABLE(select, 2),        TABLE(epoll_create1, 1),
    TABLE(epoll_ctl, 4),      TABLE(epoll_wait, 2),    TABLE(descriptors, 0),
    {0},
};
