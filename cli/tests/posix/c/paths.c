/* Paths: resolution, file status, and creating and removing names. */
#include "check.h"

static void files_of_all_kinds(void) {
    make_file("file", "text");
    mkdir("dir", 0755);
    mkdir("dir/inner", 0755);
    symlink("file", "to_file");
    symlink("dir", "to_dir");
    symlink("missing", "to_nothing");
    symlink("loop", "loop");
}

static const char *long_name(size_t length) {
    static char name[8192];
    memset(name, 'n', length);
    name[length] = 0;
    return name;
}

static void status(void) {
    struct stat st = {0}, other = {0};
    files_of_all_kinds();
    CALL(stat("file", &st));
    VALUE(st.st_mode);
    VALUE(st.st_nlink);
    VALUE(st.st_size);
    VALUE(st.st_uid == geteuid());
    VALUE(st.st_gid == getegid());
    CALL(stat("dir", &st));
    VALUE(st.st_mode);
    VALUE(st.st_nlink);
    CALL(lstat("to_file", &st));
    VALUE(st.st_mode);
    VALUE(st.st_size);
    CALL(stat("to_file", &st));
    VALUE(st.st_mode);
    CALL(stat("file", &other));
    VALUE(st.st_ino == other.st_ino && st.st_dev == other.st_dev);
    CALL(stat("dir/../file", &other));
    VALUE(st.st_ino == other.st_ino);
    CALL(stat("./dir//.././/file", &other));
    VALUE(st.st_ino == other.st_ino);
    CALL(stat("to_dir/../file", &other));
    VALUE(st.st_ino == other.st_ino);
    CALL(stat("missing", &st));
    CALL(stat("", &st));
    CALL(stat(null, &st));
    CALL(stat(bad, &st));
    CALL(stat("file", bad));
    CALL(stat("file", null));
    CALL(stat("file/", &st));
    CALL(stat("file/x", &st));
    CALL(stat("missing/x", &st));
    CALL(stat("dir/", &st));
    CALL(lstat("to_dir/", &st));
    VALUE(st.st_mode);
    CALL(lstat("to_file/", &st));
    CALL(stat("to_nothing", &st));
    CALL(lstat("to_nothing", &st));
    CALL(stat("loop", &st));
    CALL(stat("loop/x", &st));
    CALL(lstat("loop", &st));
    CALL(stat(long_name(255), &st));
    CALL(stat(long_name(256), &st));
    CALL(stat(long_name(5000), &st));
    CALL(lstat("missing", &st));
    CALL(lstat("file/x", &st));
    CALL(lstat(bad, &st));
    CALL(lstat(long_name(256), &st));
}

static void status_of_descriptors(void) {
    struct stat st = {0};
    int ends[2];
    files_of_all_kinds();
    CALL(open("file", O_RDWR));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CALL(fstat(99, &st));
    CALL(fstat(-1, &st));
    CALL(fstat(3, bad));
    CALL(fstat(3, null));
    CALL(pipe(ends));
    CALL(fstat(ends[0], &st));
    VALUE(st.st_mode & S_IFMT);
    VALUE(st.st_size);
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(fstat(ends[0], &st));
    VALUE(st.st_mode & S_IFMT);
    CALL(eventfd(0, 0));
    CALL(fstat(8, &st));
    VALUE(st.st_mode);
    CALL(epoll_create1(0));
    CALL(fstat(9, &st));
    VALUE(st.st_mode);
    CALL(timerfd_create(CLOCK_MONOTONIC, 0));
    CALL(fstat(10, &st));
    VALUE(st.st_mode);
    CALL(fstatat(3, "", &st, AT_EMPTY_PATH));
    VALUE(st.st_mode);
    CALL(fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH));
    VALUE(st.st_mode);
    CALL(fstatat(3, "", &st, 0));
    CALL(fstatat(3, "x", &st, 0));
    CALL(fstatat(99, "x", &st, 0));
    CALL(fstatat(99, "", &st, AT_EMPTY_PATH));
    CALL(fstatat(AT_FDCWD, "to_file", &st, AT_SYMLINK_NOFOLLOW));
    VALUE(st.st_mode);
    CALL(fstatat(AT_FDCWD, "to_file", &st, 0));
    VALUE(st.st_mode);
    CALL(fstatat(AT_FDCWD, "file", &st, AT_NO_AUTOMOUNT));
    CALL(fstatat(AT_FDCWD, "file", &st, 0x40000000));
    CALL(fstatat(AT_FDCWD, "file", bad, 0));
    CALL(fstatat(AT_FDCWD, bad, &st, 0));
}

static void extended_status(void) {
    struct statx sx = {0};
    files_of_all_kinds();
    CALL(statx(AT_FDCWD, "file", 0, STATX_BASIC_STATS, &sx));
    VALUE((sx.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
    VALUE(sx.stx_mode);
    VALUE(sx.stx_size);
    VALUE(sx.stx_nlink);
    VALUE(sx.stx_uid == geteuid());
    CALL(statx(AT_FDCWD, "to_file", AT_SYMLINK_NOFOLLOW, STATX_MODE, &sx));
    VALUE(sx.stx_mode);
    CALL(open("file", O_RDONLY));
    CALL(statx(3, "", AT_EMPTY_PATH, STATX_SIZE, &sx));
    VALUE(sx.stx_size);
    CALL(statx(3, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_SIZE, &sx));
    CALL(statx(3, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE, &sx));
    CALL(statx(3, "", AT_EMPTY_PATH | AT_STATX_SYNC_TYPE, STATX_SIZE, &sx));
    CALL(statx(3, "", 0, STATX_SIZE, &sx));
    CALL(statx(99, "x", 0, STATX_SIZE, &sx));
    CALL(statx(3, "x", 0, STATX_SIZE, &sx));
    CALL(statx(AT_FDCWD, "missing", 0, STATX_SIZE, &sx));
    CALL(statx(AT_FDCWD, "file", 0x40000000, STATX_SIZE, &sx));
    CALL(statx(AT_FDCWD, "file", 0, STATX__RESERVED, &sx));
    CALL(statx(AT_FDCWD, "file", 0, STATX_SIZE, bad));
    CALL(statx(AT_FDCWD, bad, 0, STATX_SIZE, &sx));
    CALL(statx(AT_FDCWD, long_name(256), 0, STATX_SIZE, &sx));
}

static bool same_time(struct timespec a, struct timespec b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool later(struct timespec a, struct timespec b) {
    return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

static void times(void) {
    struct stat before = {0}, after = {0}, dir = {0};
    char byte;
    stat(".", &dir);
    pause_ms(20);
    make_file("file", "text");
    CALL(stat("file", &before));
    VALUE(same_time(before.st_mtim, before.st_ctim));
    CALL(stat(".", &after));
    VALUE(later(after.st_mtim, dir.st_mtim));
    CALL(open("file", O_RDWR));
    pause_ms(20);
    CALL(write(3, "x", 1));
    CALL(fstat(3, &after));
    VALUE(later(after.st_mtim, before.st_mtim));
    VALUE(later(after.st_ctim, before.st_ctim));
    VALUE(same_time(after.st_atim, before.st_atim));
    pause_ms(20);
    CALL(read(3, &byte, 1));
    CALL(fstat(3, &before));
    VALUE(later(before.st_atim, after.st_atim));
    VALUE(same_time(before.st_mtim, after.st_mtim));
    pause_ms(20);
    CALL(fchmod(3, 0600));
    CALL(fstat(3, &after));
    VALUE(later(after.st_ctim, before.st_ctim));
    VALUE(same_time(after.st_mtim, before.st_mtim));
    pause_ms(20);
    CALL(ftruncate(3, 0));
    CALL(fstat(3, &before));
    VALUE(later(before.st_mtim, after.st_mtim));
    pause_ms(20);
    CALL(link("file", "other"));
    CALL(fstat(3, &after));
    VALUE(later(after.st_ctim, before.st_ctim));
    pause_ms(20);
    CALL(unlink("other"));
    CALL(fstat(3, &before));
    VALUE(later(before.st_ctim, after.st_ctim));
}

static void setting_times(void) {
    struct stat st = {0};
    struct timespec two[2] = {{1000, 111}, {2000, 222}};
    struct timespec omit[2] = {{0, UTIME_OMIT}, {3000, 333}};
    struct timespec none[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
    struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    struct timespec wrong[2] = {{0, 1000000000}, {0, 0}};
    struct timespec negative[2] = {{0, -5}, {0, 0}};
    struct timeval micro[2] = {{4000, 4}, {5000, 5}};
    struct timeval wrong_micro[2] = {{4000, 1000000}, {5000, 5}};
    struct utimbuf whole = {6000, 7000};
    files_of_all_kinds();
    CALL(utimensat(AT_FDCWD, "file", two, 0));
    CALL(stat("file", &st));
    VALUE(st.st_atim.tv_sec);
    VALUE(st.st_atim.tv_nsec);
    VALUE(st.st_mtim.tv_sec);
    VALUE(st.st_mtim.tv_nsec);
    CALL(utimensat(AT_FDCWD, "file", omit, 0));
    CALL(stat("file", &st));
    VALUE(st.st_atim.tv_sec);
    VALUE(st.st_mtim.tv_sec);
    CALL(utimensat(AT_FDCWD, "file", none, 0));
    CALL(utimensat(AT_FDCWD, "missing", none, 0));
    CALL(utimensat(AT_FDCWD, "file", wrong, 0));
    CALL(utimensat(AT_FDCWD, "file", negative, 0));
    CALL(utimensat(AT_FDCWD, "missing", two, 0));
    CALL(utimensat(AT_FDCWD, "file/x", two, 0));
    CALL(utimensat(99, "file", two, 0));
    CALL(utimensat(AT_FDCWD, "file", two, 0x40000000));
    CALL(utimensat(AT_FDCWD, "file", bad, 0));
    CALL(utimensat(AT_FDCWD, bad, two, 0));
    CALL(utimensat(AT_FDCWD, "", two, 0));
    CALL(utimensat(AT_FDCWD, "to_file", two, AT_SYMLINK_NOFOLLOW));
    CALL(lstat("to_file", &st));
    VALUE(st.st_mtim.tv_sec);
    CALL(stat("file", &st));
    VALUE(st.st_mtim.tv_sec);
    CALL(utimensat(AT_FDCWD, "file", now, 0));
    CALL(stat("file", &st));
    VALUE(labs(st.st_mtim.tv_sec - time(NULL)) < 5);
    CALL(open("file", O_RDONLY));
    CALL(futimens(3, two));
    CALL(fstat(3, &st));
    VALUE(st.st_mtim.tv_sec);
    CALL(futimens(3, NULL));
    CALL(fstat(3, &st));
    VALUE(labs(st.st_mtim.tv_sec - time(NULL)) < 5);
    CALL(futimens(99, two));
    CALL(futimens(-1, two));
    CALL(futimens(3, wrong));
    CALL(utimes("file", micro));
    CALL(fstat(3, &st));
    VALUE(st.st_atim.tv_sec);
    VALUE(st.st_mtim.tv_nsec);
    CALL(utimes("missing", micro));
    CALL(utimes("file", wrong_micro));
    CALL(lutimes("to_file", micro));
    CALL(futimes(3, micro));
    CALL(futimes(99, micro));
    CALL(futimesat(AT_FDCWD, "file", micro));
    CALL(utime("file", &whole));
    CALL(fstat(3, &st));
    VALUE(st.st_atim.tv_sec);
    VALUE(st.st_mtim.tv_sec);
    CALL(utime("file", NULL));
    CALL(utime("missing", NULL));
}

static void modes(void) {
    struct stat st = {0};
    int ends[2];
    files_of_all_kinds();
    CALL(chmod("file", 0640));
    CALL(stat("file", &st));
    VALUE(st.st_mode);
    CALL(chmod("file", 07777));
    CALL(stat("file", &st));
    VALUE(st.st_mode);
    CALL(chmod("file", 0170644));
    CALL(stat("file", &st));
    VALUE(st.st_mode);
    CALL(chmod("dir", 01700));
    CALL(stat("dir", &st));
    VALUE(st.st_mode);
    CALL(chmod("to_file", 0600));
    CALL(stat("file", &st));
    VALUE(st.st_mode);
    CALL(chmod("missing", 0600));
    CALL(chmod("to_nothing", 0600));
    CALL(chmod("loop", 0600));
    CALL(chmod("file/x", 0600));
    CALL(chmod("", 0600));
    CALL(chmod(bad, 0600));
    CALL(chmod(long_name(256), 0600));
    CALL(open("file", O_RDONLY));
    CALL(fchmod(3, 0444));
    CALL(fstat(3, &st));
    VALUE(st.st_mode);
    CALL(fchmod(99, 0444));
    CALL(pipe(ends));
    CALL(fchmod(ends[0], 0444));
    CALL(fchmodat(AT_FDCWD, "file", 0600, 0));
    CALL(fchmodat(AT_FDCWD, "file", 0600, 0x40000000));
    CALL(fchmodat(99, "file", 0600, 0));
    CALL(fchmodat(3, "file", 0600, 0));
    CALL(fchmodat(AT_FDCWD, "to_file", 0600, AT_SYMLINK_NOFOLLOW));
}

/* The call itself, because the C library has the flags only since 2.39. */
static long change_mode(int directory, const char *path, mode_t mode, int flags) {
    return syscall(452, directory, path, mode, flags);
}

static void modes_with_flags(void) {
    struct stat st = {0};
    int ends[2], pair[2];
    files_of_all_kinds();
    CALL(open("file", O_PATH));
    CALL(open("to_file", O_PATH | O_NOFOLLOW));
    CALL(open("file", O_RDONLY));
    CALL(change_mode(AT_FDCWD, "to_file", 0640, 0));
    CALL(stat("file", &st));
    VALUE(st.st_mode);
    CALL(change_mode(AT_FDCWD, "to_file", 0640, AT_SYMLINK_NOFOLLOW));
    CALL(change_mode(AT_FDCWD, "file", 0600, AT_SYMLINK_NOFOLLOW));
    CALL(change_mode(3, "", 0641, AT_EMPTY_PATH));
    CALL(stat("file", &st));
    VALUE(st.st_mode);
    CALL(change_mode(4, "", 0641, AT_EMPTY_PATH));
    CALL(change_mode(5, "", 0642, AT_EMPTY_PATH));
    CALL(change_mode(5, "", 0642, 0));
    CALL(stat("file", &st));
    VALUE(st.st_mode);
    CALL(change_mode(AT_FDCWD, "missing", 0600, AT_SYMLINK_NOFOLLOW));
    CALL(change_mode(AT_FDCWD, "file", 0600, 0x40000000));
    CALL(change_mode(99, "", 0600, AT_EMPTY_PATH));
    CALL(change_mode(AT_FDCWD, bad, 0600, 0));
    CALL(pipe(ends));
    CALL(change_mode(ends[0], "", 0600, AT_EMPTY_PATH));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    CALL(change_mode(pair[0], "", 0600, AT_EMPTY_PATH));
}

static void owners(void) {
    struct stat st = {0};
    uid_t me = geteuid();
    gid_t mine = getegid();
    files_of_all_kinds();
    CALL(chown("file", me, mine));
    CALL(chown("file", -1, -1));
    CALL(chown("missing", -1, -1));
    CALL(chown("file/x", -1, -1));
    CALL(chown("loop", -1, -1));
    CALL(chown(bad, -1, -1));
    CALL(chown("", me, mine));
    CALL(lchown("to_nothing", me, mine));
    CALL(lchown("missing", me, mine));
    CALL(open("file", O_RDONLY));
    CALL(fchown(3, me, mine));
    CALL(fchown(99, me, mine));
    CALL(fchownat(AT_FDCWD, "file", me, mine, 0));
    CALL(fchownat(AT_FDCWD, "to_nothing", me, mine, AT_SYMLINK_NOFOLLOW));
    CALL(fchownat(AT_FDCWD, "to_nothing", me, mine, 0));
    CALL(fchownat(3, "", me, mine, AT_EMPTY_PATH));
    CALL(fchownat(99, "file", me, mine, 0));
    CALL(fchownat(AT_FDCWD, "file", me, mine, 0x40000000));
    CALL(chmod("file", 06755));
    CALL(chown("file", me, mine));
    CALL(stat("file", &st));
    VALUE(st.st_mode);
}

static void accessible(void) {
    files_of_all_kinds();
    CALL(access("file", F_OK));
    CALL(access("file", R_OK | W_OK));
    CALL(access("file", X_OK));
    CALL(access("dir", R_OK | W_OK | X_OK));
    CALL(access("missing", F_OK));
    CALL(access("file", 8));
    CALL(access("file", -1));
    CALL(access("file/x", F_OK));
    CALL(access("loop", F_OK));
    CALL(access("to_nothing", F_OK));
    CALL(access("", F_OK));
    CALL(access(bad, F_OK));
    CALL(access(long_name(256), F_OK));
    CALL(faccessat(AT_FDCWD, "file", F_OK, 0));
    CALL(faccessat(AT_FDCWD, "file", R_OK, AT_EACCESS));
    CALL(faccessat(AT_FDCWD, "to_nothing", F_OK, AT_SYMLINK_NOFOLLOW));
    CALL(faccessat(AT_FDCWD, "file", F_OK, 0x40000000));
    CALL(faccessat(99, "file", F_OK, 0));
    CALL(open("file", O_RDONLY));
    CALL(faccessat(3, "file", F_OK, 0));
    CALL(open("dir", O_RDONLY));
    CALL(faccessat(4, "inner", F_OK, 0));
    CALL(euidaccess("file", R_OK));
}

static void making_directories(void) {
    struct stat st = {0};
    files_of_all_kinds();
    CALL(mkdir("new", 0777));
    CALL(stat("new", &st));
    VALUE(st.st_mode);
    VALUE(st.st_nlink);
    CALL(mkdir("new", 0777));
    CALL(mkdir("new/", 0777));
    CALL(mkdir("slash/", 0777));
    CALL(mkdir("sticky", 01777));
    CALL(stat("sticky", &st));
    VALUE(st.st_mode);
    CALL(mkdir("file", 0777));
    CALL(mkdir("to_dir", 0777));
    CALL(mkdir("to_nothing", 0777));
    CALL(mkdir("to_nothing/", 0777));
    CALL(mkdir("missing/x", 0777));
    CALL(mkdir("file/x", 0777));
    CALL(mkdir("loop/x", 0777));
    CALL(mkdir("", 0777));
    CALL(mkdir(".", 0777));
    CALL(mkdir("..", 0777));
    CALL(mkdir("new/.", 0777));
    CALL(mkdir("/", 0777));
    CALL(mkdir(bad, 0777));
    CALL(mkdir(long_name(255), 0777));
    CALL(mkdir(long_name(256), 0777));
    CALL(mkdir(long_name(5000), 0777));
    CALL(open("new", O_RDONLY));
    CALL(mkdirat(3, "below", 0700));
    CALL(stat("new/below", &st));
    VALUE(st.st_mode);
    CALL(stat("new", &st));
    VALUE(st.st_nlink);
    CALL(mkdirat(99, "x", 0700));
    CALL(mkdirat(AT_FDCWD, "at", 0700));
    CALL(rmdir("new/below"));
    CALL(rmdir("new"));
    CALL(mkdirat(3, "x", 0700));
}

static void removing_directories(void) {
    files_of_all_kinds();
    CALL(rmdir("dir"));
    CALL(rmdir("dir/inner/"));
    CALL(rmdir("dir"));
    CALL(rmdir("dir"));
    CALL(rmdir("file"));
    CALL(rmdir("to_file"));
    CALL(rmdir("to_dir"));
    CALL(rmdir("file/x"));
    CALL(rmdir("."));
    CALL(rmdir("./"));
    CALL(rmdir(".."));
    CALL(mkdir("dir", 0755));
    CALL(rmdir("dir/."));
    CALL(rmdir("dir/.."));
    CALL(rmdir("to_dir/"));
    CALL(rmdir(""));
    CALL(rmdir("/"));
    CALL(rmdir(bad));
    CALL(rmdir("loop/x"));
    CALL(rmdir(long_name(256)));
    CALL(unlinkat(AT_FDCWD, "dir", AT_REMOVEDIR));
    CALL(unlinkat(AT_FDCWD, "file", AT_REMOVEDIR));
}

static void unlinking(void) {
    files_of_all_kinds();
    CALL(unlink("to_file"));
    CALL(access("file", F_OK));
    CALL(unlink("file"));
    CALL(unlink("file"));
    CALL(unlink("dir"));
    CALL(unlink("dir/"));
    CALL(unlink("to_dir/"));
    CALL(unlink("to_dir"));
    CALL(unlink("missing"));
    CALL(unlink("missing/x"));
    CALL(unlink(""));
    CALL(unlink("."));
    CALL(unlink("/"));
    CALL(unlink(bad));
    CALL(unlink("loop"));
    make_file("file", "");
    CALL(unlink("file/x"));
    CALL(unlink("file/"));
    CALL(unlink(long_name(256)));
    CALL(unlinkat(AT_FDCWD, "file", 0x40000000));
    CALL(unlinkat(99, "file", 0));
    CALL(open("dir", O_RDONLY));
    make_file("dir/below", "");
    CALL(unlinkat(3, "below", 0));
    CALL(unlinkat(3, "inner", 0));
    CALL(unlinkat(3, "inner", AT_REMOVEDIR));
    CALL(open("file", O_RDONLY));
    CALL(unlinkat(4, "x", 0));
    CALL(remove("file"));
    CALL(remove("dir"));
    CALL(remove("dir"));
}

static void renaming(void) {
    struct stat st = {0};
    files_of_all_kinds();
    make_file("other", "other");
    mkdir("empty", 0755);
    CALL(rename("file", "moved"));
    TEXT(file_text("moved"));
    CALL(access("file", F_OK));
    CALL(rename("moved", "other"));
    TEXT(file_text("other"));
    CALL(rename("other", "other"));
    CALL(link("other", "twin"));
    CALL(rename("other", "twin"));
    CALL(access("other", F_OK));
    CALL(rename("missing", "other"));
    CALL(rename("other", "missing/x"));
    CALL(rename("other", "twin/x"));
    CALL(rename("other", "dir"));
    CALL(rename("dir", "other"));
    CALL(rename("empty", "dir"));
    CALL(rename("dir", "empty"));
    CALL(access("dir", F_OK));
    CALL(stat("empty/inner", &st));
    CALL(rename("empty", "empty/inner/below"));
    CALL(rename("empty", "empty"));
    CALL(rename("empty/inner", "empty"));
    CALL(rename("other", ""));
    CALL(rename("", "other"));
    CALL(rename(".", "x"));
    CALL(rename("x", "."));
    CALL(rename("empty", ".."));
    CALL(rename("other", "empty/."));
    CALL(rename("other/", "x"));
    CALL(rename("other", "x/"));
    CALL(rename("empty/", "renamed/"));
    CALL(access("renamed/inner", F_OK));
    CALL(rename("to_nothing", "link"));
    CALL(lstat("link", &st));
    CALL(rename("loop", "link"));
    CALL(rename("link/x", "y"));
    CALL(rename(bad, "x"));
    CALL(rename("other", bad));
    CALL(rename(long_name(256), "x"));
    CALL(rename("other", long_name(256)));
    CALL(rename("other", long_name(5000)));
    CALL(rename("renamed", "/"));
    CALL(stat(".", &st));
    VALUE(st.st_nlink);
    CALL(rename("renamed/inner", "up"));
    CALL(stat(".", &st));
    VALUE(st.st_nlink);
    CALL(stat("renamed", &st));
    VALUE(st.st_nlink);
}

static void renaming_at(void) {
    files_of_all_kinds();
    make_file("other", "other");
    CALL(open("dir", O_RDONLY));
    CALL(renameat(AT_FDCWD, "file", 3, "file"));
    CALL(access("dir/file", F_OK));
    CALL(renameat(3, "file", AT_FDCWD, "file"));
    CALL(renameat(99, "file", AT_FDCWD, "x"));
    CALL(renameat(AT_FDCWD, "file", 99, "x"));
    CALL(open("file", O_RDONLY));
    CALL(renameat(4, "file", AT_FDCWD, "x"));
    CALL(renameat2(AT_FDCWD, "file", AT_FDCWD, "other", RENAME_NOREPLACE));
    CALL(renameat2(AT_FDCWD, "file", AT_FDCWD, "new", RENAME_NOREPLACE));
    CALL(renameat2(AT_FDCWD, "new", AT_FDCWD, "other", RENAME_EXCHANGE));
    TEXT(file_text("new"));
    TEXT(file_text("other"));
    CALL(renameat2(AT_FDCWD, "new", AT_FDCWD, "dir", RENAME_EXCHANGE));
    TEXT(file_text("dir"));
    CALL(access("new/inner", F_OK));
    CALL(renameat2(AT_FDCWD, "other", AT_FDCWD, "missing", RENAME_EXCHANGE));
    CALL(renameat2(AT_FDCWD, "new", AT_FDCWD, "new/inner", RENAME_EXCHANGE));
    CALL(renameat2(AT_FDCWD, "other", AT_FDCWD, "x", RENAME_EXCHANGE | RENAME_NOREPLACE));
    CALL(renameat2(AT_FDCWD, "other", AT_FDCWD, "x", 0x40));
}

static void working_directory(void) {
    char path[PATH_MAX], *allocated;
    struct stat st = {0};
    files_of_all_kinds();
    POINTER(getcwd(path, sizeof path));
    TEXT(path);
    CALL(chdir("dir"));
    POINTER(getcwd(path, sizeof path));
    TEXT(path);
    CALL(chdir(".."));
    CALL(chdir("to_dir"));
    POINTER(getcwd(path, sizeof path));
    TEXT(path);
    CALL(chdir("inner/../.."));
    POINTER(getcwd(path, sizeof path));
    TEXT(path);
    allocated = getcwd(NULL, 0);
    TEXT(allocated);
    free(allocated);
    POINTER(getcwd(path, 2));
    POINTER(getcwd(path, 0));
    POINTER(getcwd(path, strlen(check_root)));
    CALL(chdir("missing"));
    CALL(chdir("file"));
    CALL(chdir("file/x"));
    CALL(chdir(""));
    CALL(chdir("loop"));
    CALL(chdir(bad));
    CALL(chdir(long_name(256)));
    CALL(open("dir", O_RDONLY));
    CALL(fchdir(3));
    CALL(access("inner", F_OK));
    CALL(open("../file", O_RDONLY));
    CALL(fchdir(4));
    CALL(fchdir(99));
    CALL(chdir("inner"));
    CALL(rmdir("../inner"));
    CALL(stat(".", &st));
    VALUE(st.st_nlink);
    CALL(open("x", O_RDWR | O_CREAT, 0644));
    CALL(access("..", F_OK));
    POINTER(getcwd(path, sizeof path));
    CALL(chdir(".."));
    POINTER(getcwd(path, sizeof path));
    TEXT(path);
    POINTER(realpath("../to_dir/../file", path));
    TEXT(path);
    POINTER(realpath("../missing", path));
    POINTER(realpath("../file/x", path));
    POINTER(realpath("../file/.", path));
    POINTER(realpath("../file/..", path));
    POINTER(realpath("../file/", path));
    POINTER(realpath("./.././inner/.", path));
    POINTER(realpath("../loop", path));
    POINTER(realpath("", path));
    allocated = realpath(".", NULL);
    TEXT(allocated);
    free(allocated);
}

static void mask(void) {
    VALUE(umask(027));
    VALUE(umask(07777));
    VALUE(umask(0));
    VALUE(umask(022));
}

static void special_files(void) {
    struct stat st = {0};
    files_of_all_kinds();
    CALL(mkfifo("fifo", 0666));
    CALL(stat("fifo", &st));
    VALUE(st.st_mode);
    CALL(mkfifo("fifo", 0666));
    CALL(mkfifo("missing/x", 0666));
    CALL(mkfifo("file/x", 0666));
    CALL(mkfifo("loop/x", 0666));
    CALL(mkfifo("to_nothing", 0666));
    CALL(mkfifo("", 0666));
    CALL(mkfifo(bad, 0666));
    CALL(mkfifo(long_name(256), 0666));
    CALL(mkfifo("slash/", 0666));
    CALL(mkfifoat(AT_FDCWD, "at", 0600));
    CALL(mkfifoat(99, "at", 0600));
    CALL(mknod("regular", S_IFREG | 0644, 0));
    CALL(stat("regular", &st));
    VALUE(st.st_mode);
    CALL(mknod("plain", 0644, 0));
    CALL(stat("plain", &st));
    VALUE(st.st_mode);
    CALL(mknod("nodefifo", S_IFIFO | 0600, 0));
    CALL(mknod("nodesocket", S_IFSOCK | 0600, 0));
    CALL(stat("nodesocket", &st));
    VALUE(st.st_mode);
    CALL(mknod("nodedir", S_IFDIR | 0700, 0));
    CALL(mknod("wrong", 0150000 | 0600, 0));
    CALL(mknod("file", S_IFREG | 0644, 0));
    CALL(mknodat(99, "x", S_IFREG | 0644, 0));
    CALL(open("nodesocket", O_RDONLY));
    CALL(unlink("fifo"));
}

static void file_systems(void) {
    struct statfs fs;
    struct statvfs vfs;
    files_of_all_kinds();
    CALL(statfs("file", &fs));
    VALUE(fs.f_bsize > 0);
    VALUE(fs.f_namelen);
    CALL(statfs("missing", &fs));
    CALL(statfs("file/x", &fs));
    CALL(statfs("loop", &fs));
    CALL(statfs("file", bad));
    CALL(statfs(bad, &fs));
    CALL(statvfs("file", &vfs));
    VALUE(vfs.f_namemax);
    CALL(statvfs("missing", &vfs));
    CALL(open("file", O_RDONLY));
    CALL(fstatfs(3, &fs));
    CALL(fstatfs(99, &fs));
    CALL(fstatvfs(3, &vfs));
    CALL(fstatvfs(99, &vfs));
    CALL(pathconf("file", _PC_NAME_MAX));
    CALL(pathconf("file", _PC_PATH_MAX));
    CALL(pathconf("file", _PC_PIPE_BUF));
    CALL(fpathconf(3, _PC_NAME_MAX));
    CALL(fpathconf(99, _PC_NAME_MAX));
    CALL(pathconf("file", 999));
    CALL(pathconf("missing", _PC_PATH_MAX));
}

static const struct section sections[] = {
    {"status", status},
    {"status_of_descriptors", status_of_descriptors},
    {"extended_status", extended_status},
    {"times", times},
    {"setting_times", setting_times},
    {"modes", modes},
    {"modes_with_flags", modes_with_flags},
    {"owners", owners},
    {"accessible", accessible},
    {"making_directories", making_directories},
    {"removing_directories", removing_directories},
    {"unlinking", unlinking},
    {"renaming", renaming},
    {"renaming_at", renaming_at},
    {"working_directory", working_directory},
    {"mask", mask},
    {"special_files", special_files},
    {"file_systems", file_systems},
    {NULL, NULL},
};
const struct theme paths = {"paths", sections};
