/* Permission checks. If the user is root, the child of each section first becomes the user
 * nobody. */
#include "check.h"

/* Drops the rights of root, and gives the section's directory to the new user. */
static void without_rights(void) {
    if (geteuid() == 0) {
        if (chown(".", 65534, 65534) != 0 || setgid(65534) != 0 || setuid(65534) != 0) {
            printf("(cannot give up rights: %s)\n", strerrorname_np(errno));
        }
    }
}

static void of_files(void) {
    without_rights();
    make_file("file", "text");
    CALL(chmod("file", 0));
    CALL(open("file", O_RDONLY));
    CALL(open("file", O_WRONLY));
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(open("file", O_PATH));
    CALL(access("file", F_OK));
    CALL(access("file", R_OK));
    CALL(access("file", W_OK));
    CALL(access("file", X_OK));
    CALL(truncate("file", 0));
    CALL(chmod("file", 0400));
    CALL(open("file", O_RDONLY));
    CALL(open("file", O_RDWR));
    CALL(open("file", O_RDONLY | O_TRUNC));
    CALL(truncate("file", 0));
    CALL(chmod("file", 0200));
    CALL(open("file", O_WRONLY));
    CALL(open("file", O_RDONLY));
    CALL(read(4, (char[1]){0}, 1));
    CALL(chmod("file", 0077));
    CALL(open("file", O_RDONLY));
    CALL(open("new", O_RDWR | O_CREAT, 0));
    CALL(write(6, "x", 1));
}

static void of_directories(void) {
    struct stat st = {0};
    without_rights();
    mkdir("dir", 0755);
    make_file("dir/file", "text");
    mkdir("dir/inner", 0755);
    CALL(chmod("dir", 0600));
    CALL(stat("dir/file", &st));
    CALL(open("dir/file", O_RDONLY));
    CALL(access("dir/file", F_OK));
    CALL(chdir("dir"));
    CALL(open("dir", O_RDONLY));
    CALL(fchdir(3));
    CALL(openat(3, "file", O_RDONLY));
    CALL(readlink("dir/file", (char[8]){0}, 8));
    CALL(chmod("dir/file", 0644));
    CALL(rename("dir/file", "file"));
    CALL(chmod("dir", 0500));
    CALL(stat("dir/file", &st));
    CALL(open("dir/new", O_RDWR | O_CREAT, 0644));
    CALL(unlink("dir/file"));
    CALL(rmdir("dir/inner"));
    CALL(mkdir("dir/new", 0755));
    CALL(mkfifo("dir/new", 0644));
    CALL(symlink("x", "dir/new"));
    CALL(link("dir/file", "dir/new"));
    CALL(link("dir/file", "linked"));
    CALL(rename("dir/file", "file"));
    CALL(rename("linked", "dir/new"));
    CALL(rename("dir/file", "dir/new"));
    CALL(chmod("dir", 0300));
    POINTER(opendir("dir"));
    CALL(open("dir/new", O_RDWR | O_CREAT, 0644));
    CALL(unlink("dir/file"));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "dir/sock"};
    CALL(chmod("dir", 0500));
    CALL(bind(5, (struct sockaddr *)&name, sizeof name));
    CALL(chmod("dir", 0700));
}

static void of_others(void) {
    if (geteuid() == 0) {
        mkdir("theirs", 01777);
        chmod("theirs", 01777);
        make_file("theirs/file", "text");
        chmod("theirs/file", 0666);
    } else {
        printf("(root alone can make files of others)\n");
    }
    without_rights();
    CALL(chmod("theirs/file", 0600));
    CALL(chown("theirs/file", geteuid(), getegid()));
    CALL(chown("theirs/file", -1, -1));
    CALL(open("theirs/file", O_RDWR));
    CALL(fchmod(3, 0600));
    CALL(fchown(3, geteuid(), -1));
    CALL(unlink("theirs/file"));
    CALL(rename("theirs/file", "theirs/other"));
    CALL(utimensat(AT_FDCWD, "theirs/file", NULL, 0));
    CALL(utimensat(AT_FDCWD, "theirs/file", (struct timespec[2]){{1, 1}, {1, 1}}, 0));
    CALL(open("theirs/file", O_RDONLY | O_NOATIME));
    CALL(fcntl(3, F_SETFL, O_NOATIME));
    make_file("mine", "");
    CALL(chown("mine", 0, -1));
    CALL(chown("mine", -1, 0));
    CALL(chown("mine", geteuid(), getegid()));
    CALL(mknod("device", S_IFCHR | 0600, 259));
}

static void of_sockets(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "sock"};
    without_rights();
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(3, (struct sockaddr *)&name, sizeof name));
    CALL(listen(3, 1));
    CALL(chmod("sock", 0444));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(connect(4, (struct sockaddr *)&name, sizeof name));
    CALL(chmod("sock", 0666));
    CALL(connect(4, (struct sockaddr *)&name, sizeof name));
}

/* The mode of an open file. */
static long mode_of(int fd) {
    struct stat st = {0};
    fstat(fd, &st);
    return st.st_mode;
}

/* The real user is root, and the effective one is not: only for root. */
static void of_two_users(void) {
    if (geteuid() != 0) {
        return;
    }
    mkdir("private", 0700);
    mkdir("dir", 0755);
    CALL(open("file", O_RDWR | O_CREAT, 0777));
    CALL(fchmod(3, 06777));
    CALL(write(3, "x", 1));
    VALUE(mode_of(3));
    CALL(fchown(3, 1, 1));
    VALUE(mode_of(3));
    CALL(fchmod(3, 06767));
    CALL(fchown(3, 2, 2));
    VALUE(mode_of(3));
    CALL(fchmod(3, 06777));
    CALL(seteuid(65534));
    CALL(access("dir", W_OK));
    CALL(access("private/x", F_OK));
    CALL(faccessat(AT_FDCWD, "dir", W_OK, AT_EACCESS));
    CALL(faccessat(AT_FDCWD, "private/x", F_OK, AT_EACCESS));
    CALL(write(3, "x", 1));
    VALUE(mode_of(3));
    CALL(seteuid(0));
    CALL(fchmod(3, 06767));
    CALL(seteuid(65534));
    CALL(pwrite(3, "x", 1, 0));
    VALUE(mode_of(3));
    CALL(seteuid(0));
    CALL(fchmod(3, 04777));
    CALL(seteuid(65534));
    CALL(ftruncate(3, 0));
    VALUE(mode_of(3));
    CALL(seteuid(0));
    CALL(fchmod(3, 06777));
    CALL(seteuid(65534));
    CALL(writev(3, (struct iovec[1]){{"x", 1}}, 1));
    VALUE(mode_of(3));
    CALL(seteuid(0));
    CALL(fchmod(3, 06777));
    CALL(seteuid(65534));
    CALL(truncate("file", 1));
    VALUE(mode_of(3));
    CALL(seteuid(0));
    CALL(fchmod(3, 06777));
    CALL(seteuid(65534));
    CALL(open("file", O_RDWR | O_TRUNC));
    VALUE(mode_of(3));
    CALL(seteuid(0));
    CALL(setreuid(65534, 0));
    CALL(access("dir", W_OK));
    CALL(access("private/x", F_OK));
}

static const struct section sections[] = {
    {"of_files", of_files},
    {"of_directories", of_directories},
    {"of_others", of_others},
    {"of_sockets", of_sockets},
    {"of_two_users", of_two_users},
    {NULL, NULL},
};
const struct theme rights = {"rights", sections};
