/* Permission checks. If the user is root, the child of each section first becomes the user
 * nobody. */
#include "check.h"

#include <sys/signalfd.h>

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

/* In libcap's header, which may be missing. */
int capset(void *header, const void *data);

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

/* Sets the effective capabilities, as far as they are permitted. */
static long have(unsigned bits) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {{0}};
    syscall(SYS_capget, &header, sets);
    sets[0].effective = bits & sets[0].permitted;
    sets[1].effective = 0;
    return syscall(SYS_capset, &header, sets);
}

#define BIT(capability) (1u << (capability))

/* User 0 gives up capabilities: only for root. */
static void of_capabilities(void) {
    struct stat st = {0};
    if (geteuid() != 0) {
        return;
    }
    make_file("theirs", "text");
    mkdir("dir", 01700);
    make_file("dir/file", "text");
    CALL(chmod("theirs", 0));
    CALL(chown("theirs", 1, 1));
    CALL(chown("dir", 1, 1));
    CALL(have(0));
    CALL(open("theirs", O_RDONLY));
    CALL(truncate("theirs", 0));
    CALL(stat("dir/file", &st));
    CALL(chdir("dir"));
    CALL(mkdir("dir/new", 0755));
    CALL(chmod("theirs", 0600));
    CALL(chown("theirs", 0, 0));
    CALL(utimes("theirs", NULL));
    CALL(mknod("device", S_IFCHR | 0600, 259));
    CALL(access("theirs", R_OK | W_OK));
    CALL(faccessat(AT_FDCWD, "theirs", R_OK, AT_EACCESS));
    CALL(setrlimit(RLIMIT_NOFILE, &(struct rlimit){100, 1 << 21}));
    CALL(have(BIT(CAP_DAC_READ_SEARCH)));
    CALL(open("theirs", O_RDONLY));
    CALL(open("theirs", O_WRONLY));
    CALL(stat("dir/file", &st));
    CALL(open("dir", O_RDONLY));
    CALL(rename("dir/file", "dir/moved"));
    CALL(truncate("theirs", 0));
    CALL(have(BIT(CAP_DAC_OVERRIDE)));
    CALL(open("theirs", O_RDWR));
    CALL(stat("dir/file", &st));
    CALL(rename("dir/file", "dir/moved"));
    CALL(chown("dir/file", 1, 1));
    CALL(rename("dir/file", "dir/moved"));
    CALL(open("theirs", O_RDONLY | O_NOATIME));
    CALL(chmod("theirs", 0600));
    CALL(have(BIT(CAP_FOWNER)));
    CALL(chmod("theirs", 06755));
    CALL(open("theirs", O_RDONLY | O_NOATIME));
    CALL(open("theirs", O_WRONLY | O_NOATIME));
    CALL(stat("theirs", &st));
    VALUE(st.st_mode);
    CALL(have(BIT(CAP_CHOWN)));
    CALL(chown("theirs", 1, 5));
    CALL(stat("theirs", &st));
    VALUE(st.st_mode);
    CALL(have(BIT(CAP_FOWNER) | BIT(CAP_FSETID)));
    CALL(chmod("theirs", 02777));
    CALL(pwrite(5, "x", 1, 0));
    VALUE(mode_of(5));
    CALL(have(0));
    CALL(pwrite(5, "x", 1, 0));
    VALUE(mode_of(5));
}

/* A change of the user changes capabilities. */
static void of_users_and_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    if (geteuid() != 0) {
        return;
    }
    make_file("theirs", "text");
    CALL(chmod("theirs", 0));
    CALL(chown("theirs", 1, 1));
    CALL(setfsuid(2));
    CALL(open("theirs", O_RDONLY));
    CALL(open("made", O_CREAT | O_RDONLY, 0644));
    CALL(chmod("theirs", 0));
    CALL(setfsuid(0));
    CALL(open("theirs", O_RDONLY));
    CALL(setfsgid(3));
    CALL(chmod(".", 0777));
    CALL(open("made", O_CREAT | O_RDONLY, 0644));
    struct stat st = {0};
    CALL(fstat(4, &st));
    VALUE(st.st_gid);
    CALL(setfsgid(0));
    CALL(seteuid(2));
    CALL(open("theirs", O_RDONLY));
    CALL(access("theirs", R_OK));
    CALL(seteuid(0));
    CALL(open("theirs", O_RDONLY));
    CALL(have(0));
    CALL(seteuid(2));
    CALL(seteuid(0));
    CALL(open("theirs", O_RDONLY));
    CALL(syscall(SYS_prctl, PR_SET_KEEPCAPS, 1));
    CALL(setresuid(2, 2, 0));
    CALL(open("theirs", O_RDONLY));
    CALL(have(BIT(CAP_DAC_OVERRIDE)));
    CALL(open("theirs", O_RDONLY));
    CALL(access("theirs", R_OK));
    CALL(setresuid(0, 0, 0));
    CALL(capset(&header, none));
    CALL(open("theirs", O_RDONLY));
    CALL(access("theirs", R_OK));
    CALL(have(BIT(CAP_DAC_OVERRIDE)));
    CALL(capset(NULL, NULL));
    CALL(syscall(SYS_capset, &header, bad));
}

/* A process that has waited for files of both kinds changes its user and its capabilities. */
static void of_waits_and_capabilities(void) {
    int ends[2];
    sigset_t set;
    if (geteuid() != 0) {
        return;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    CALL(signalfd(-1, &set, 0));
    CALL(pipe(ends));
    struct pollfd both[] = {{3, POLLIN, 0}, {4, POLLIN, 0}};
    CALL(poll(both, 2, 10));
    CALL(have(BIT(CAP_KILL)));
    CALL(seteuid(2));
    CALL(setegid(2));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(8);
        pause_ms(30);
        _exit(kill(getppid(), SIGUSR1));
    }
    CALL(poll(both, 2, 5000));
    VALUE(both[0].revents);
    VALUE(wait_for(child));
    CALL(have(~0u));
    CALL(setresuid(2, 2, 2));
    CALL(poll(both, 2, 5000));
    CALL(setuid(0));
}

/* Sends credentials, each of which may need a capability. */
static long send_credentials(int fd, pid_t pid, uid_t uid, gid_t gid) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } ancillary = {.head = {CMSG_LEN(sizeof(struct ucred)), SOL_SOCKET, SCM_CREDENTIALS}};
    struct msghdr message = {
        .msg_iov = (struct iovec[1]){{"x", 1}},
        .msg_iovlen = 1,
        .msg_control = &ancillary,
        .msg_controllen = sizeof ancillary,
    };
    struct ucred claimed = {pid, uid, gid};
    memcpy(CMSG_DATA(&ancillary.head), &claimed, sizeof claimed);
    return sendmsg(fd, &message, MSG_DONTWAIT);
}

static void of_sockets_and_capabilities(void) {
    int fds[2];
    pid_t me = getpid();
    if (geteuid() != 0) {
        return;
    }
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
    CALL(send_credentials(3, me, -1, 0));
    CALL(send_credentials(3, 99999999, 0, -1));
    CALL(send_credentials(3, 99999999, 0, 0));
    CALL(have(0));
    CALL(send_credentials(3, me, 0, 0));
    CALL(send_credentials(3, 1, 0, 0));
    CALL(send_credentials(3, me, 1, 0));
    CALL(send_credentials(3, me, 0, 1));
    CALL(setsockopt(3, SOL_SOCKET, SO_SNDBUFFORCE, &(int){5000}, sizeof(int)));
    CALL(setsockopt(3, SOL_SOCKET, SO_PRIORITY, &(int){7}, sizeof(int)));
    CALL(setsockopt(3, SOL_SOCKET, SO_DEBUG, &(int){1}, sizeof(int)));
    CALL(have(BIT(CAP_SETUID)));
    CALL(send_credentials(3, me, 1, 0));
    CALL(send_credentials(3, me, 0, 1));
    CALL(have(BIT(CAP_SETGID)));
    CALL(send_credentials(3, me, 1, 0));
    CALL(send_credentials(3, me, 0, 1));
    CALL(have(BIT(CAP_SYS_ADMIN)));
    CALL(send_credentials(3, 1, 0, 0));
    CALL(have(BIT(CAP_NET_RAW)));
    CALL(setsockopt(3, SOL_SOCKET, SO_SNDBUFFORCE, &(int){5000}, sizeof(int)));
    CALL(setsockopt(3, SOL_SOCKET, SO_PRIORITY, &(int){7}, sizeof(int)));
    CALL(have(BIT(CAP_NET_ADMIN)));
    CALL(setsockopt(3, SOL_SOCKET, SO_SNDBUFFORCE, &(int){5000}, sizeof(int)));
    CALL(setsockopt(3, SOL_SOCKET, SO_DEBUG, &(int){1}, sizeof(int)));
}

/* Receives a byte, and returns the user and the group of its sender. */
static long sender_of(int fd) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } ancillary;
    char byte;
    struct msghdr message = {
        .msg_iov = (struct iovec[1]){{&byte, 1}},
        .msg_iovlen = 1,
        .msg_control = &ancillary,
        .msg_controllen = sizeof ancillary,
    };
    struct ucred sender = {0};
    if (recvmsg(fd, &message, 0) != 1 || message.msg_controllen == 0) {
        return -1;
    }
    memcpy(&sender, CMSG_DATA(&ancillary.head), sizeof sender);
    return (long)sender.uid * 100000 + sender.gid;
}

/* A message has the real user of its sender: only for root. */
static void of_senders(void) {
    int types[3] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}, fds[2];
    if (geteuid() != 0) {
        return;
    }
    CALL(setegid(3));
    CALL(seteuid(2));
    for (int at = 0; at < 3; at++) {
        CALL(socketpair(AF_UNIX, types[at], 0, fds));
        CALL(setsockopt(fds[1], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)));
        CALL(send(fds[0], "x", 1, 0));
        VALUE(sender_of(fds[1]));
    }
}

static const struct section sections[] = {
    {"of_files", of_files},
    {"of_directories", of_directories},
    {"of_others", of_others},
    {"of_sockets", of_sockets},
    {"of_two_users", of_two_users},
    {"of_capabilities", of_capabilities},
    {"of_users_and_capabilities", of_users_and_capabilities},
    {"of_waits_and_capabilities", of_waits_and_capabilities},
    {"of_sockets_and_capabilities", of_sockets_and_capabilities},
    {"of_senders", of_senders},
    {NULL, NULL},
};
const struct theme rights = {"rights", sections};
