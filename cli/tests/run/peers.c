/* Sockets of AF_UNIX: credentials of processes that do not exist, and of a socket that listens; a
   path that does not exist, of a socket that is connected; a buffer that shrinks. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void show(const char *what, long result)
{
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static void claim(int fd, pid_t process)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } control = { 0 };
    struct iovec byte = { "x", 1 };
    struct msghdr message = { .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control };
    struct ucred claimed = { process, getuid(), getgid() };

    control.head = (struct cmsghdr){ CMSG_LEN(sizeof claimed), SOL_SOCKET, SCM_CREDENTIALS };
    memcpy(CMSG_DATA(&control.head), &claimed, sizeof claimed);
    show("claim", sendmsg(fd, &message, 0));
}

static void show_peer(const char *what, int fd)
{
    struct ucred peer = { -2, -2, -2 };
    socklen_t size = sizeof peer;
    int result = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    const char *process = peer.pid == getpid() ? "this process" : peer.pid ? "another" : "none";
    printf("%s: %d %s %d\n", what, result, process, (int)peer.uid);
}

static void listen_with(int kind)
{
    struct sockaddr_un name = { AF_UNIX, "listener" };
    int listener = socket(AF_UNIX, kind, 0), early = socket(AF_UNIX, kind, 0);
    int late = socket(AF_UNIX, kind, 0);

    name.sun_path[0] = 0;
    name.sun_path[1] += kind;
    show_peer("new", listener);
    bind(listener, (struct sockaddr *)&name, sizeof name);
    show_peer("bound", listener);
    show("listen", listen(listener, 5));
    show_peer("listening", listener);
    connect(early, (struct sockaddr *)&name, sizeof name);
    show_peer("connected", early);
    pid_t child = fork();
    if (!child) {
        listen(listener, 5);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    show_peer("listening for the child", listener);
    connect(late, (struct sockaddr *)&name, sizeof name);
    show_peer("connected to the child", late);
    show_peer("connected before", early);
    close(listener), close(early), close(late);
}

/* A buffer that becomes smaller than what it has. */
static void shrink(int kind)
{
    char bytes[1000];
    int pair[2], size = 2304;

    socketpair(AF_UNIX, kind, 0, pair);
    for (int index = 0; index < 20; index++)
        send(pair[0], bytes, sizeof bytes, 0);
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    struct pollfd room = { pair[0], POLLOUT };
    printf("room %d\n", poll(&room, 1, 0));
    show("send", send(pair[0], bytes, 1, MSG_DONTWAIT));
    while (recv(pair[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    printf("room %d\n", poll(&room, 1, 0));
    show("send", send(pair[0], bytes, 1, MSG_DONTWAIT));
    close(pair[0]), close(pair[1]);
}

int main(void)
{
    struct sockaddr_un missing = { AF_UNIX, "/no/such/folder/name" };
    struct sockaddr_un absent = { AF_UNIX, "/no-such-socket" };
    int pair[2];

    setbuf(stdout, NULL);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    claim(pair[0], -1);
    claim(pair[0], 0);
    claim(pair[0], 0x3fffff);
    claim(pair[0], getpid());
    shrink(SOCK_STREAM);
    shrink(SOCK_SEQPACKET);
    listen_with(SOCK_STREAM);
    listen_with(SOCK_SEQPACKET);
    show("bind", bind(pair[0], (struct sockaddr *)&missing, sizeof missing));
    show("connect", connect(pair[0], (struct sockaddr *)&missing, sizeof missing));
    show("connect", connect(pair[0], (struct sockaddr *)&absent, sizeof absent));
    return 0;
}
