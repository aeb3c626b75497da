/* Hard links and symbolic links. */
#include "check.h"
#include <linux/openat2.h>

static void hard(void) {
    struct stat st = {0};
    char name[300];
    make_file("a", "text");
    mkdir("dir", 0755);
    symlink("a", "soft");
    symlink("loop", "loop");
    symlink("missing", "dangling");
    CALL(link("a", "b"));
    CALL(stat("a", &st));
    VALUE(st.st_nlink);
    CALL(link("a", "b"));
    CALL(link("a", "dir"));
    CALL(link("dir", "x"));
    CALL(link("missing", "x"));
    CALL(link("a", "missing/x"));
    CALL(link("a/x", "y"));
    CALL(link("a", "b/x"));
    CALL(link("a", "dir/c"));
    CALL(link("", "x"));
    CALL(link("a", ""));
    CALL(link(bad, "x"));
    CALL(link("a", bad));
    CALL(link("a", "x/"));
    CALL(link("loop/x", "x"));
    CALL(link("dangling", "dangling2"));
    CALL(link("a", "dangling"));
    CALL(link("soft", "soft2"));
    CALL(lstat("soft2", &st));
    VALUE(st.st_mode & S_IFMT);
    VALUE(st.st_nlink);
    memset(name, 'n', sizeof name);
    name[256] = 0;
    CALL(link("a", name));
    CALL(link(name, "x"));
    CALL(linkat(AT_FDCWD, "soft", AT_FDCWD, "followed", AT_SYMLINK_FOLLOW));
    CALL(lstat("followed", &st));
    VALUE(st.st_mode & S_IFMT);
    VALUE(st.st_nlink);
    CALL(linkat(AT_FDCWD, "a", AT_FDCWD, "x", 0x40000000));
    CALL(linkat(99, "a", AT_FDCWD, "x", 0));
    CALL(linkat(AT_FDCWD, "a", 99, "x", 0));
    CALL(open("dir", O_RDONLY));
    CALL(linkat(AT_FDCWD, "a", 3, "at", 0));
    CALL(access("dir/at", F_OK));
    CALL(open("a", O_RDONLY));
    CALL(linkat(4, "x", AT_FDCWD, "y", 0));
    CALL(linkat(AT_FDCWD, "dangling", AT_FDCWD, "x", AT_SYMLINK_FOLLOW));
    CALL(unlink("a"));
    CALL(fstat(4, &st));
    VALUE(st.st_nlink);
    TEXT(file_text("b"));
}

static void symbolic(void) {
    struct stat st = {0};
    char text[300];
    make_file("a", "text");
    mkdir("dir", 0755);
    CALL(symlink("a", "soft"));
    CALL(lstat("soft", &st));
    VALUE(st.st_mode);
    VALUE(st.st_size);
    CALL(symlink("a", "soft"));
    CALL(symlink("a", "a"));
    CALL(symlink("", "x"));
    CALL(symlink("a", ""));
    CALL(symlink("a", "missing/x"));
    CALL(symlink("a", "a/x"));
    CALL(symlink("a", "x/"));
    CALL(symlink(bad, "x"));
    CALL(symlink("a", bad));
    CALL(symlink("self", "self"));
    CALL(symlink("a", "self/x"));
    memset(text, 'n', sizeof text);
    text[256] = 0;
    CALL(symlink("a", text));
    CALL(symlink(text, "long"));
    CALL(open("long", O_RDONLY));
    CALL(open("dir", O_RDONLY));
    CALL(symlinkat("../a", 3, "up"));
    TEXT(file_text("dir/up"));
    CALL(symlinkat("a", 99, "x"));
    CALL(symlinkat("a", AT_FDCWD, "at"));
    CALL(open("a", O_RDONLY));
    CALL(symlinkat("a", 4, "x"));
    CALL(symlink(check_root, "absolute"));
    CALL(access("absolute/symbolic/a", F_OK));
}

static void reading(void) {
    char text[300] = {0};
    make_file("a", "text");
    mkdir("dir", 0755);
    CALL(symlink("target", "soft"));
    CALL(readlink("soft", text, sizeof text));
    TEXT(text);
    CALL(readlink("soft", text, 3));
    CALL(readlink("soft", text, 0));
    CALL(readlink("soft", text, -1));
    CALL(readlink("a", text, sizeof text));
    CALL(readlink("dir", text, sizeof text));
    CALL(readlink("missing", text, sizeof text));
    CALL(readlink("a/x", text, sizeof text));
    CALL(readlink("", text, sizeof text));
    CALL(readlink(bad, text, sizeof text));
    CALL(readlink("soft", bad, sizeof text));
    CALL(readlink("soft/", text, sizeof text));
    symlink("loop", "loop");
    CALL(readlink("loop", text, sizeof text));
    CALL(readlink("loop/x", text, sizeof text));
    CALL(readlinkat(AT_FDCWD, "soft", text, sizeof text));
    CALL(readlinkat(99, "soft", text, sizeof text));
    CALL(open("dir", O_RDONLY));
    CALL(symlinkat("below", 3, "in"));
    CALL(readlinkat(3, "in", text, sizeof text));
    CALL(open("soft", O_PATH | O_NOFOLLOW));
    CALL(readlinkat(4, "", text, sizeof text));
    CALL(open("a", O_RDONLY));
    CALL(readlinkat(5, "", text, sizeof text));
    CALL(readlinkat(5, "x", text, sizeof text));
}

/* Linux follows at most 40 links in one path walk. */
static void chains(void) {
    char from[16], to[16];
    make_file("end", "end");
    symlink("end", "link0");
    for (int i = 1; i <= 41; i++) {
        snprintf(from, sizeof from, "link%d", i);
        snprintf(to, sizeof to, "link%d", i - 1);
        symlink(to, from);
    }
    CALL(access("link38", F_OK));
    CALL(access("link39", F_OK));
    CALL(access("link40", F_OK));
    CALL(access("link41", F_OK));
    mkdir("dir", 0755);
    symlink("dir", "one");
    symlink("one/", "two");
    CALL(mkdir("two/x", 0755));
    CALL(access("dir/x", F_OK));
    symlink("../end", "dir/up");
    TEXT(file_text("two/up"));
}

static int restricted(int directory, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve) {
    struct open_how how = {flags, mode, resolve};
    int fd = syscall(SYS_openat2, directory, path, &how, sizeof how);
    return fd < 0 ? -1 : close(fd);
}

static void restrictions(void) {
    mkdir("dir", 0755);
    mkdir("dir/below", 0755);
    make_file("file", "outside");
    make_file("dir/file", "inside");
    symlink("file", "dir/in");
    symlink("../file", "dir/out");
    symlink("/etc/passwd", "dir/host");
    symlink("/file", "dir/root");
    CALL(open("dir", O_PATH | O_DIRECTORY));
    CALL(restricted(3, "file", 0, 0, RESOLVE_BENEATH));
    CALL(restricted(3, "below/../file", 0, 0, RESOLVE_BENEATH));
    CALL(restricted(3, "below/../in", O_WRONLY | O_CREAT, 0600, RESOLVE_BENEATH));
    CALL(restricted(3, "../file", 0, 0, RESOLVE_BENEATH));
    CALL(restricted(3, "..", 0, 0, RESOLVE_BENEATH));
    CALL(restricted(3, "out", 0, 0, RESOLVE_BENEATH));
    CALL(restricted(3, "host", 0, 0, RESOLVE_BENEATH));
    CALL(restricted(3, "/etc/passwd", 0, 0, RESOLVE_BENEATH));
    CALL(restricted(3, "/proc/self/fd/3/file", 0, 0, RESOLVE_BENEATH));
    CALL(restricted(AT_FDCWD, "dir/out", 0, 0, RESOLVE_BENEATH));
    CALL(restricted(3, "/file", 0, 0, RESOLVE_IN_ROOT));
    CALL(restricted(3, "//", O_DIRECTORY, 0, RESOLVE_IN_ROOT));
    CALL(restricted(3, "root", 0, 0, RESOLVE_IN_ROOT));
    CALL(restricted(3, "../../file", 0, 0, RESOLVE_IN_ROOT));
    CALL(restricted(3, "out", 0, 0, RESOLVE_IN_ROOT));
    CALL(restricted(3, "host", 0, 0, RESOLVE_IN_ROOT));
    CALL(restricted(3, "/etc/passwd", 0, 0, RESOLVE_IN_ROOT));
    CALL(restricted(3, "in", 0, 0, RESOLVE_NO_SYMLINKS));
    CALL(restricted(3, "in", O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS));
    CALL(restricted(3, "in", 0, 0, RESOLVE_NO_MAGICLINKS));
    CALL(restricted(3, "/proc/self/fd/0", 0, 0, RESOLVE_NO_MAGICLINKS));
    CALL(restricted(3, "/proc/self/fd/3/file", 0, 0, RESOLVE_NO_MAGICLINKS));
    CALL(restricted(3, "file", 0, 0, RESOLVE_NO_XDEV));
    CALL(restricted(3, "/proc/self/comm", 0, 0, RESOLVE_NO_XDEV));
    CALL(restricted(3, "file", 0, 0, RESOLVE_BENEATH | RESOLVE_IN_ROOT));
    CALL(restricted(3, "file", 0, 0, 0x4000));
    CALL(restricted(3, "file", O_PATH | O_RDWR, 0, 0));
    CALL(restricted(99, "file", 0, 0, RESOLVE_IN_ROOT));
}

static const struct section sections[] = {
    {"hard", hard},     {"symbolic", symbolic},         {"reading", reading},
    {"chains", chains}, {"restrictions", restrictions}, {NULL, NULL},
};
const struct theme links = {"links", sections};
