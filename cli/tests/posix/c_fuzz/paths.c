/* Calls on paths, and the start and the end of a script. */
#include "fuzz.h"

#include <grp.h>

#define FD(i) ((int)NUMBER(i))
#define MODE(i) ((mode_t)NUMBER(i))
#define OP(name, ...) \
    static long do_##name(struct call *call) { return name(__VA_ARGS__); }

OP(open, TEXT(0), FD(1), MODE(2))
OP(openat, FD(0), TEXT(1), FD(2), MODE(3))
OP(truncate, TEXT(0), NUMBER(1))
OP(mkdir, TEXT(0), MODE(1))
OP(mkdirat, FD(0), TEXT(1), MODE(2))
OP(rmdir, TEXT(0))
OP(unlink, TEXT(0))
OP(unlinkat, FD(0), TEXT(1), FD(2))
OP(remove, TEXT(0))
OP(rename, TEXT(0), TEXT(1))
OP(renameat, FD(0), TEXT(1), FD(2), TEXT(3))
OP(renameat2, FD(0), TEXT(1), FD(2), TEXT(3), (unsigned)NUMBER(4))
OP(link, TEXT(0), TEXT(1))
OP(linkat, FD(0), TEXT(1), FD(2), TEXT(3), FD(4))
OP(symlink, TEXT(0), TEXT(1))
OP(symlinkat, TEXT(0), FD(1), TEXT(2))
OP(mkfifo, TEXT(0), MODE(1))
OP(mkfifoat, FD(0), TEXT(1), MODE(2))
OP(mknod, TEXT(0), MODE(1), 0)
OP(chmod, TEXT(0), MODE(1))
OP(fchmod, FD(0), MODE(1))
OP(fchmodat, FD(0), TEXT(1), MODE(2), FD(3))
OP(chown, TEXT(0), (uid_t)NUMBER(1), (gid_t)NUMBER(2))
OP(lchown, TEXT(0), (uid_t)NUMBER(1), (gid_t)NUMBER(2))
OP(fchown, FD(0), (uid_t)NUMBER(1), (gid_t)NUMBER(2))
OP(fchownat, FD(0), TEXT(1), (uid_t)NUMBER(2), (gid_t)NUMBER(3), FD(4))
OP(access, TEXT(0), FD(1))
OP(faccessat, FD(0), TEXT(1), FD(2), FD(3))
OP(umask, MODE(0))
OP(seteuid, (uid_t)NUMBER(0))
OP(setegid, (gid_t)NUMBER(0))
OP(setreuid, (uid_t)NUMBER(0), (uid_t)NUMBER(1))

/* Without O_NONBLOCK, it would wait for a reader of a pipe. */
static long do_creat(struct call *call) {
    struct stat st;
    bool waits = stat(TEXT(0), &st) == 0 && S_ISFIFO(st.st_mode);
    errno = 0;
    return waits ? -2 : creat(TEXT(0), MODE(1));
}

static long do_setgroups(struct call *call) {
    gid_t groups[] = {(gid_t)NUMBER(0)};
    return setgroups(NUMBER(0) == INT_MIN ? 0 : 1, groups);
}

/* Returns to the start if a script left the file system that it may change. */
static long come_back(long result) {
    char path[PATH_MAX];
    int error = errno;
    bool is_outside = getcwd(path, sizeof path) && strncmp(path, ROOT "/up", strlen(ROOT "/up"));
    if (is_outside && chdir(BASE) != 0) {
        show(" cannot return");
        return -3;
    }
    errno = error;
    return result;
}

static long do_chdir(struct call *call) { return come_back(chdir(TEXT(0))); }

static long do_fchdir(struct call *call) { return come_back(fchdir(FD(0))); }

static long do_getcwd(struct call *call) {
    if (!getcwd(room, (size_t)NUMBER(0))) {
        return -1;
    }
    show_path(room, (long)strlen(room));
    return 0;
}

static long do_realpath(struct call *call) {
    char path[PATH_MAX];
    if (NUMBER(0) && NUMBER(0) < 4096) {
        return -2; /* the C library reads it */
    }
    if (!realpath(TEXT(0), path)) {
        return -1;
    }
    show_path(path, (long)strlen(path));
    return 0;
}

static long do_readlink(struct call *call) {
    long got = readlink(TEXT(0), room, (size_t)NUMBER(1));
    show_path(room, got);
    return got < 0 ? got : 0;
}

static long do_readlinkat(struct call *call) {
    long got = readlinkat(FD(0), TEXT(1), room, (size_t)NUMBER(2));
    show_path(room, got);
    return got < 0 ? got : 0;
}

static long told(long result, const struct stat *st) {
    if (result == 0) {
        show_stat(st);
    }
    return result;
}

static long do_stat(struct call *call) {
    struct stat st;
    return told(stat(TEXT(0), &st), &st);
}

static long do_lstat(struct call *call) {
    struct stat st;
    return told(lstat(TEXT(0), &st), &st);
}

static long do_fstatat(struct call *call) {
    struct stat st;
    return told(fstatat(FD(0), TEXT(1), &st, FD(2)), &st);
}

static long do_statx(struct call *call) {
    struct statx stx;
    long result = statx(FD(0), TEXT(1), FD(2), (unsigned)NUMBER(3), &stx);
    if (result == 0) {
        show(" mode=%o nlink=%u", stx.stx_mode, stx.stx_nlink);
        show(" uid=%u gid=%u", stx.stx_uid, stx.stx_gid);
        show(S_ISREG(stx.stx_mode) ? " size=%lu" : "", (unsigned long)stx.stx_size);
    }
    return result;
}

static long do_statfs(struct call *call) {
    struct statfs st;
    return statfs(TEXT(0), &st);
}

static struct timespec *times(struct call *call, int first) {
    static _Thread_local struct timespec times[2];
    times[0] = (struct timespec){NUMBER(first), NUMBER(first + 1)};
    times[1] = (struct timespec){NUMBER(first) * 2, NUMBER(first + 2)};
    return times;
}

OP(utimensat, FD(0), TEXT(1), times(call, 3), FD(2))
OP(futimens, FD(0), times(call, 1))

static int by_name(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void show_names(char **names, size_t count) {
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0; i < count; i++) {
        show(" %s", names[i]);
    }
}

/* Room for every entry, because the order of entries is the file system's own. */
static long do_getdents(struct call *call) {
    char *names[1024];
    size_t count = 0;
    long got = getdents64(FD(0), room, ROOM);
    for (long at = 0; at < got; at += ((struct dirent64 *)(room + at))->d_reclen) {
        names[count++ % 1024] = ((struct dirent64 *)(room + at))->d_name;
    }
    if (got > 0) {
        show_names(names, count);
    }
    return got < 0 ? got : (long)count;
}

/* Returns the names of a directory, or -1. They are in memory of the caller. */
static long list(const char *path, char **names, long most, char *space, size_t size) {
    struct dirent *entry;
    long count = 0;
    size_t used = 0;
    DIR *directory = opendir(path);
    if (!directory) {
        return -1;
    }
    while (count < most && (entry = readdir(directory)) != NULL && used + 300 < size) {
        names[count++] = space + used;
        used += (size_t)sprintf(space + used, "%s", entry->d_name) + 1;
    }
    closedir(directory);
    return count;
}

static long do_listing(struct call *call) {
    char *names[512];
    if (!TEXT(0) || NUMBER(0)) {
        return -2; /* the C library reads it */
    }
    long count = list(TEXT(0), names, 512, room, ROOM);
    if (count > 0) {
        show_names(names, (size_t)count);
    }
    return count;
}

static void show_file(const char *path) {
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    long got = fd < 0 ? -1 : read(fd, room, ROOM);
    if (fd < 0 || got < 0) {
        show(" %s", strerrorname_np(errno));
    } else {
        show_bytes(room, got);
    }
    close(fd);
}

static void walk(const char *path, int depth) {
    char *names[256], space[8192];
    long count = depth > 6 ? 0 : list(path, names, 256, space, sizeof space);
    if (count < 0) {
        show(" %s", strerrorname_np(errno));
        return;
    }
    qsort(names, (size_t)count, sizeof *names, by_name);
    for (long i = 0; i < count; i++) {
        char below[1024], target[256];
        struct stat st;
        if (strcmp(names[i], ".") == 0 || strcmp(names[i], "..") == 0) {
            continue;
        }
        snprintf(below, sizeof below, "%s/%s", path, names[i]);
        next_line();
        show(" %s", below + strlen(ROOT "/up"));
        if (lstat(below, &st) != 0) {
            show(" %s", strerrorname_np(errno));
            continue;
        }
        show_stat(&st);
        if (S_ISREG(st.st_mode)) {
            show_file(below);
        } else if (S_ISLNK(st.st_mode)) {
            show_path(target, readlink(below, target, sizeof target));
        } else if (S_ISDIR(st.st_mode)) {
            walk(below, depth + 1);
        }
    }
}

/* Shows every file. */
static long do_tree(struct call *call) {
    (void)call;
    walk(ROOT "/up", 0);
    return 0;
}

void prepare(void) {
    struct rlimit limit = {LIMIT, LIMIT};
    close_range(0, ~0U, 0);
    umask(0);
    mkdir(ROOT "/up", 0777);
    mkdir(BASE, 0777);
    umask(022);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || chdir(BASE) != 0) {
        emit("(no start: %s)\n", strerrorname_np(errno));
        _exit(4); /* do not change files in an unknown directory */
    }
}

bool close_all(void) {
    for (int fd = 0; fd < LIMIT; fd++) {
        bool is_open = fcntl(fd, F_GETFD) >= 0;
        if ((close(fd) == 0) != is_open) {
            show(" close(%d): %s, open: %d", fd, strerrorname_np(errno), is_open);
            return false;
        }
    }
    for (int fd = 0; fd < LIMIT; fd++) {
        int opened = epoll_create1(0);
        if (opened != fd) {
            show(" opened %d, not %d", opened, fd);
            return false;
        }
    }
    if (epoll_create1(0) >= 0 || errno != EMFILE) {
        show(" no limit");
        return false;
    }
    return close_range(0, ~0U, 0) == 0 && fcntl(0, F_GETFD) < 0;
}

#define TABLE(name, count) {#name, do_##name, count}

const struct operation path_operations[] = {
    TABLE(open, 3),      TABLE(openat, 4),    TABLE(creat, 2),     TABLE(truncate, 2),
    TABLE(mkdir, 2),     TABLE(mkdirat, 3),   TABLE(rmdir, 1),     TABLE(unlink, 1),
    TABLE(unlinkat, 3),  TABLE(remove, 1),    TABLE(rename, 2),    TABLE(renameat, 4),
    TABLE(renameat2, 5), TABLE(link, 2),      TABLE(linkat, 5),    TABLE(symlink, 2),
    TABLE(symlinkat, 3), TABLE(mkfifo, 2),    TABLE(mkfifoat, 3),  TABLE(mknod, 2),
    TABLE(chmod, 2),     TABLE(fchmod, 2),    TABLE(fchmodat, 4),  TABLE(chown, 3),
    TABLE(lchown, 3),    TABLE(fchown, 3),    TABLE(fchownat, 5),  TABLE(access, 2),
    TABLE(faccessat, 4), TABLE(umask, 1),     TABLE(seteuid, 1),   TABLE(setegid, 1),
    TABLE(setreuid, 2),  TABLE(setgroups, 1), TABLE(chdir, 1),     TABLE(fchdir, 1),
    TABLE(getcwd, 1),    TABLE(realpath, 1),  TABLE(readlink, 2),  TABLE(readlinkat, 3),
    TABLE(stat, 1),      TABLE(lstat, 1),     TABLE(fstatat, 3),   TABLE(statx, 4),
    TABLE(statfs, 1),    TABLE(utimensat, 6), TABLE(futimens, 4),  TABLE(getdents, 1),
    TABLE(listing, 1),   TABLE(tree, 0),      {0},
};
