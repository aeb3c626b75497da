/* Sockets of the local domain: creation, addresses, connections. */
#include "check.h"
#include <net/if.h>

static char page[262144];

static struct sockaddr_un named(const char *path) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strncpy(name.sun_path, path, sizeof name.sun_path - 1);
    return name;
}

#define AT(path) ((struct sockaddr *)&(struct sockaddr_un[]){named(path)}[0])
#define FULL sizeof(struct sockaddr_un)

static void interfaces(void) {
    struct ifreq request = {.ifr_name = "lo"};
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(ioctl(3, SIOCGIFINDEX, &request));
    VALUE(request.ifr_ifindex);
    CALL(ioctl(3, SIOCGIFFLAGS, &request));
    VALUE(request.ifr_flags & IFF_LOOPBACK);
    CALL(ioctl(3, SIOCGIFNAME, bad));
    strcpy(request.ifr_name, "missing");
    CALL(ioctl(3, SIOCGIFINDEX, &request));
}

static void creating(void) {
    int ends[2] = {-7, -7}, value;
    socklen_t length = sizeof value;
    struct stat st = {0};
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    CALL(fcntl(4, F_GETFD));
    VALUE(fcntl(4, F_GETFL) & (O_NONBLOCK | O_ACCMODE));
    CALL(socket(AF_UNIX, SOCK_DGRAM, 0));
    CALL(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    CALL(socket(AF_UNIX, 77, 0));
    CALL(socket(AF_UNIX, SOCK_STREAM, 77));
    CALL(socket(AF_UNIX, SOCK_STREAM | 0x100000, 0));
    CALL(socket(999, SOCK_STREAM, 0));
    CALL(socket(-1, SOCK_STREAM, 0));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    VALUE(ends[0]);
    VALUE(ends[1]);
    CALL(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
    CALL(fcntl(10, F_GETFD));
    CALL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    CALL(socketpair(AF_UNIX, 77, 0, ends));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 77, ends));
    CALL(socketpair(AF_INET, SOCK_STREAM, 0, ends));
    CALL(socketpair(999, SOCK_STREAM, 0, ends));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, bad));
    CALL(fstat(3, &st));
    VALUE(st.st_mode);
    CALL(getsockopt(3, SOL_SOCKET, SO_TYPE, &value, &length));
    VALUE(value);
    CALL(getsockopt(5, SOL_SOCKET, SO_TYPE, &value, &length));
    VALUE(value);
    CALL(getsockopt(3, SOL_SOCKET, SO_DOMAIN, &value, &length));
    VALUE(value);
    CALL(getsockopt(3, SOL_SOCKET, SO_ACCEPTCONN, &value, &length));
    VALUE(value);
}

static void naming(void) {
    struct sockaddr_un name;
    socklen_t length;
    struct stat st = {0};
    make_file("file", "");
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    length = sizeof name;
    CALL(getsockname(3, (struct sockaddr *)&name, &length));
    VALUE(length);
    VALUE(name.sun_family);
    CALL(bind(3, AT("sock"), FULL));
    length = sizeof name;
    CALL(getsockname(3, (struct sockaddr *)&name, &length));
    VALUE(length);
    TEXT(name.sun_path);
    CALL(stat("sock", &st));
    VALUE(st.st_mode);
    CALL(bind(3, AT("again"), FULL));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(4, AT("sock"), FULL));
    CALL(bind(4, AT("file"), FULL));
    CALL(bind(4, AT("missing/x"), FULL));
    CALL(bind(4, AT("file/x"), FULL));
    symlink("loop", "loop");
    CALL(bind(4, AT("loop/x"), FULL));
    CALL(bind(4, AT("x"), 1));
    CALL(bind(4, AT("x"), 0));
    CALL(bind(4, AT("x"), 200));
    CALL(bind(4, bad, FULL));
    CALL(bind(99, AT("x"), FULL));
    CALL(open("file", O_RDONLY));
    CALL(bind(5, AT("x"), FULL));
    struct sockaddr_un other = named("x");
    other.sun_family = AF_INET;
    CALL(bind(4, (struct sockaddr *)&other, FULL));
    length = sizeof name;
    CALL(getsockname(99, (struct sockaddr *)&name, &length));
    CALL(getsockname(5, (struct sockaddr *)&name, &length));
    CALL(getsockname(3, bad, &length));
    CALL(getsockname(3, (struct sockaddr *)&name, bad));
    length = -1;
    CALL(getsockname(3, (struct sockaddr *)&name, &length));
    length = 4;
    CALL(getsockname(3, (struct sockaddr *)&name, &length));
    VALUE(length);
    length = sizeof name;
    CALL(getpeername(3, (struct sockaddr *)&name, &length));
    CALL(getpeername(99, (struct sockaddr *)&name, &length));
    CALL(getpeername(5, (struct sockaddr *)&name, &length));
    CALL(open("sock", O_RDWR));
    CALL(unlink("sock"));
    CALL(bind(4, AT("sock"), FULL));
}

static void abstract(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t length = sizeof name;
    snprintf(name.sun_path, sizeof name.sun_path, "%cchecks-%d", 0, getpid());
    socklen_t full = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name.sun_path + 1);
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(3, (struct sockaddr *)&name, full));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(4, (struct sockaddr *)&name, full));
    CALL(connect(4, (struct sockaddr *)&name, full));
    CALL(listen(3, 5));
    CALL(connect(4, (struct sockaddr *)&name, full));
    CALL(accept(3, NULL, NULL));
    CALL(write(4, "hi", 2));
    TEXT(read_text(5));
    CALL(getpeername(4, (struct sockaddr *)&name, &length));
    VALUE(length == full);
    CALL(close(3));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(3, (struct sockaddr *)&name, full) );
    CALL(close(3));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(3, AT("x"), sizeof(sa_family_t)));
    length = sizeof name;
    CALL(getsockname(3, (struct sockaddr *)&name, &length));
    VALUE(length);
}

static void connecting(void) {
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    make_file("file", "");
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(listen(3, 5));
    CALL(bind(3, AT("sock"), FULL));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(connect(4, AT("sock"), FULL));
    CALL(accept(3, NULL, NULL));
    CALL(listen(3, 1));
    CALL(listen(3, 1));
    CALL(connect(4, AT("sock"), FULL));
    CALL(connect(4, AT("sock"), FULL));
    CALL(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    CALL(connect(5, AT("missing"), FULL));
    CALL(connect(5, AT("file"), FULL));
    CALL(connect(5, AT("file/x"), FULL));
    CALL(connect(5, AT("sock"), 1));
    CALL(connect(5, bad, FULL));
    CALL(connect(99, AT("sock"), FULL));
    struct sockaddr_un other = named("sock");
    other.sun_family = AF_INET;
    CALL(connect(5, (struct sockaddr *)&other, FULL));
    CALL(connect(5, AT("sock"), FULL));
    CALL(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    CALL(connect(6, AT("sock"), FULL));
    CALL(accept4(3, (struct sockaddr *)&name, &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    VALUE(length);
    CALL(fcntl(7, F_GETFD));
    VALUE(fcntl(7, F_GETFL) & O_NONBLOCK);
    CALL(accept(3, NULL, NULL));
    VALUE(fcntl(8, F_GETFL) & O_NONBLOCK);
    CALL(fcntl(3, F_SETFL, O_NONBLOCK));
    CALL(accept(3, NULL, NULL));
    CALL(accept4(3, NULL, NULL, 0x100000));
    CALL(accept(99, NULL, NULL));
    CALL(accept(4, NULL, NULL));
    CALL(open("file", O_RDONLY));
    CALL(accept(9, NULL, NULL));
    CALL(listen(9, 1));
    CALL(listen(99, 1));
    CALL(listen(4, 1));
    CALL(connect(9, AT("sock"), FULL));
    CALL(connect(3, AT("sock"), FULL));
    CALL(socket(AF_UNIX, SOCK_DGRAM, 0));
    CALL(listen(10, 1));
    CALL(accept(10, NULL, NULL));
    CALL(connect(10, AT("sock"), FULL));
    length = sizeof name;
    CALL(getpeername(4, (struct sockaddr *)&name, &length));
    VALUE(length);
    TEXT(name.sun_path);
    length = sizeof name;
    CALL(getpeername(7, (struct sockaddr *)&name, &length));
    VALUE(length);
    CALL(write(4, "hello", 5));
    TEXT(read_text(7));
    CALL(close(3));
    CALL(write(4, "more", 4));
    TEXT(read_text(7));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(connect(3, AT("sock"), FULL));
}

static void *connect_slowly(void *argument) {
    pause_ms(30);
    struct sockaddr_un name = named(argument);
    long fd = socket(AF_UNIX, SOCK_STREAM, 0);
    connect(fd, (struct sockaddr *)&name, sizeof name);
    return NULL;
}

static void accepting(void) {
    pthread_t thread;
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(3, AT("sock"), FULL));
    CALL(listen(3, 1));
    pthread_create(&thread, NULL, connect_slowly, "sock");
    CALL(accept(3, NULL, NULL) > 3);
    pthread_join(thread, NULL);
    struct timeval soon = {0, 20000};
    CALL(setsockopt(3, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
    CALL(accept(3, NULL, NULL));
    CALL(shutdown(3, SHUT_RD));
    CALL(accept(3, NULL, NULL));
}

/* Both ends of a pair, with all operations of a stream. */
static void streams(void) {
    int ends[2], waiting;
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(write(3, "one", 3));
    CALL(write(3, "two", 3));
    CALL(ioctl(4, FIONREAD, &waiting));
    VALUE(waiting);
    CALL(recv(4, page, 4, MSG_PEEK));
    CALL(recv(4, page, 4, 0));
    CALL(recv(4, page, 4, MSG_DONTWAIT));
    CALL(recv(4, page, 4, MSG_DONTWAIT));
    CALL(send(3, page, 0, 0));
    CALL(recv(4, page, 4, MSG_DONTWAIT));
    CALL(recv(4, page, 0, MSG_DONTWAIT));
    CALL(read(4, page, 0));
    CALL(send(3, bad, 4, 0));
    CALL(send(3, "abc", 3, 0));
    CALL(recv(4, bad, 4, 0));
    CALL(send(99, "abc", 3, 0));
    CALL(recv(99, page, 3, 0));
    CALL(send(3, "abc", 3, MSG_OOB));
    CALL(recv(4, page, 3, MSG_OOB));
    CALL(pwrite(3, "x", 1, 0));
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(send(5, "x", 1, 0));
    CALL(recv(5, page, 1, 0));
    while (recv(4, page, sizeof page, MSG_DONTWAIT) > 0) {
    }
    struct sockaddr_un name = {0};
    socklen_t length = sizeof name;
    CALL(send(3, "from", 4, 0));
    CALL(recvfrom(4, page, 10, 0, (struct sockaddr *)&name, &length));
    VALUE(length);
    CALL(sendto(3, "x", 1, 0, AT("sock"), FULL));
    CALL(close(3));
    CALL(recv(4, page, 10, 0));
    CALL(send(4, "x", 1, MSG_NOSIGNAL));
    CALL(write(4, "x", 1));
}

static void unread(void) {
    int ends[2];
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(write(3, "unread", 6));
    CALL(close(4));
    CALL(read(3, page, 10));
    CALL(read(3, page, 10));
    CALL(write(3, "x", 1));
}

static void shutting(void) {
    int ends[2];
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(write(3, "before", 6));
    CALL(shutdown(3, SHUT_WR));
    CALL(write(3, "x", 1));
    TEXT(read_text(4));
    CALL(read(4, page, 1));
    CALL(write(4, "back", 4));
    TEXT(read_text(3));
    CALL(shutdown(3, SHUT_RD));
    CALL(read(3, page, 1));
    CALL(write(4, "x", 1));
    CALL(shutdown(3, SHUT_RDWR));
    CALL(shutdown(3, 77));
    CALL(shutdown(3, -1));
    CALL(shutdown(99, SHUT_RD));
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(shutdown(5, SHUT_RD));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(shutdown(6, SHUT_RD));
    CALL(read(6, page, 1));
    CALL(write(6, page, 1));
    CALL(recv(6, page, 1, 0));
}

static void unconnected(void) {
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(read(3, page, 1));
    CALL(write(3, page, 1));
    CALL(send(3, page, 1, MSG_NOSIGNAL));
    CALL(recv(3, page, 1, 0));
    CALL(sendto(3, page, 1, 0, AT("x"), FULL));
    CALL(socket(AF_UNIX, SOCK_DGRAM, 0));
    CALL(write(4, page, 1));
    CALL(recv(4, page, 1, MSG_DONTWAIT));
    CALL(sendto(4, page, 1, 0, AT("missing"), FULL));
    CALL(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    CALL(write(5, page, 1));
    CALL(read(5, page, 1));
}

static void filling(void) {
    int ends[2];
    long sent = 0, done;
    CALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends));
    CALL(recv(4, page, 1, 0));
    while ((done = send(3, page, 4096, 0)) > 0) {
        sent += done;
    }
    VALUE(done);
    VALUE(errno == EAGAIN);
    VALUE(sent >= 65536);
    long received = 0;
    while ((done = recv(4, page, sizeof page, 0)) > 0) {
        received += done;
    }
    VALUE(sent == received);
    CALL(send(3, page, 100, 0));
    struct timeval soon = {0, 20000};
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(setsockopt(5, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
    CALL(recv(5, page, 1, 0));
    CALL(setsockopt(5, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon));
    while (send(5, page, 65536, 0) > 0) {
    }
    CALL(send(5, page, 65536, 0));
}

static void *send_twice(void *argument) {
    int fd = *(int *)argument;
    pause_ms(20);
    send(fd, "first", 5, 0);
    pause_ms(20);
    send(fd, "second", 6, 0);
    return NULL;
}

static void waiting_for_all(void) {
    int ends[2];
    pthread_t thread;
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pthread_create(&thread, NULL, send_twice, &ends[0]);
    CALL(recv(4, page, 11, MSG_WAITALL));
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, send_twice, &ends[0]);
    CALL(recv(4, page, 11, 0));
    pthread_join(thread, NULL);
}

static void *drain_slowly(void *argument) {
    static char drained[65536];
    pause_ms(30);
    for (size_t left = sizeof page; left > 0;) {
        ssize_t got = read(*(int *)argument, drained, sizeof drained);
        if (got <= 0) {
            break;
        }
        left -= (size_t)got;
    }
    return NULL;
}

/* More bytes than fit: the call blocks until all are sent. */
static void large(void) {
    int ends[2];
    pthread_t thread;
    struct iovec halves[2] = {{page, sizeof page / 2}, {page, sizeof page / 2}};
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pthread_create(&thread, NULL, drain_slowly, &ends[1]);
    long done = CALL(send(ends[0], page, sizeof page, 0));
    send(ends[0], page, sizeof page - done, 0);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, drain_slowly, &ends[1]);
    done = CALL(write(ends[0], page, sizeof page));
    send(ends[0], page, sizeof page - done, 0);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, drain_slowly, &ends[1]);
    done = CALL(writev(ends[0], halves, 2));
    send(ends[0], page, sizeof page - done, 0);
    pthread_join(thread, NULL);
    CALL(pipe(ends));
    pthread_create(&thread, NULL, drain_slowly, &ends[0]);
    done = CALL(writev(ends[1], halves, 2));
    while (done < (long)sizeof page) {
        done += write(ends[1], page, sizeof page - done);
    }
    pthread_join(thread, NULL);
}

static void datagrams(void) {
    struct sockaddr_un name = {0};
    socklen_t length = sizeof name;
    int ends[2], waiting;
    CALL(socket(AF_UNIX, SOCK_DGRAM, 0));
    CALL(bind(3, AT("receiver"), FULL));
    CALL(socket(AF_UNIX, SOCK_DGRAM, 0));
    CALL(bind(4, AT("sender"), FULL));
    CALL(sendto(4, "first", 5, 0, AT("receiver"), FULL));
    CALL(sendto(4, "second", 6, 0, AT("receiver"), FULL));
    CALL(ioctl(3, FIONREAD, &waiting));
    VALUE(waiting);
    CALL(recvfrom(3, page, 3, 0, (struct sockaddr *)&name, &length));
    VALUE(length);
    TEXT(name.sun_path);
    CALL(recv(3, page, 3, MSG_TRUNC));
    CALL(recv(3, page, 3, MSG_DONTWAIT));
    CALL(connect(4, AT("receiver"), FULL));
    CALL(write(4, "", 0));
    CALL(read(3, page, 10));
    CALL(write(4, "connected", 9));
    CALL(recv(3, page, 100, MSG_PEEK));
    CALL(recv(3, page, 100, 0));
    CALL(socket(AF_UNIX, SOCK_DGRAM, 0));
    CALL(connect(5, AT("sender"), FULL));
    CALL(write(5, "refused", 7));
    CALL(sendto(5, "x", 1, 0, AT("missing"), FULL));
    CALL(close(3));
    CALL(write(4, "gone", 4));
    CALL(connect(4, AT("receiver"), FULL));
    CALL(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends));
    CALL(send(3, page, sizeof page, 0));
    CALL(send(3, "x", 1, 0));
    CALL(recv(6, page, 10, 0));
    CALL(recv(6, page, 10, 0));
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    CALL(connect(5, &none, sizeof none));
    CALL(write(5, "x", 1));
}

static void sequenced(void) {
    int ends[2];
    CALL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    CALL(send(3, "first", 5, 0));
    CALL(send(3, "second", 6, 0));
    CALL(recv(4, page, 2, 0));
    CALL(recv(4, page, 100, 0));
    CALL(send(3, "", 0, 0));
    CALL(recv(4, page, 100, 0));
    CALL(close(3));
    CALL(recv(4, page, 100, 0));
    CALL(send(4, "x", 1, MSG_NOSIGNAL));
}

static void options(void) {
    int value = 0, on = 1;
    socklen_t length = sizeof value;
    struct ucred peer;
    int ends[2];
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(getsockopt(3, SOL_SOCKET, SO_ERROR, &value, &length));
    VALUE(value);
    CALL(setsockopt(3, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    CALL(getsockopt(3, SOL_SOCKET, SO_REUSEADDR, &value, &length));
    VALUE(value);
    CALL(setsockopt(3, SOL_SOCKET, SO_SNDBUF, &on, sizeof on));
    CALL(getsockopt(3, SOL_SOCKET, SO_SNDBUF, &value, &length));
    VALUE(value > 0);
    CALL(setsockopt(3, SOL_SOCKET, SO_RCVBUF, &on, sizeof on));
    CALL(setsockopt(3, SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    CALL(getsockopt(3, SOL_SOCKET, SO_PASSCRED, &value, &length));
    VALUE(value);
    length = sizeof peer;
    CALL(getsockopt(3, SOL_SOCKET, SO_PEERCRED, &peer, &length));
    VALUE(peer.pid == getpid() && peer.uid == geteuid() && peer.gid == getegid());
    struct timeval time = {1, 500000};
    CALL(setsockopt(3, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    time.tv_sec = 0;
    length = sizeof time;
    CALL(getsockopt(3, SOL_SOCKET, SO_RCVTIMEO, &time, &length));
    VALUE(time.tv_sec);
    CALL(setsockopt(3, SOL_SOCKET, SO_RCVTIMEO, &on, sizeof on));
    time.tv_usec = 1000000;
    CALL(setsockopt(3, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    CALL(setsockopt(3, SOL_SOCKET, SO_REUSEADDR, &on, 1));
    CALL(setsockopt(3, SOL_SOCKET, SO_REUSEADDR, bad, sizeof on));
    CALL(setsockopt(3, SOL_SOCKET, 9999, &on, sizeof on));
    CALL(setsockopt(3, 9999, SO_REUSEADDR, &on, sizeof on));
    CALL(setsockopt(99, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    length = sizeof value;
    CALL(getsockopt(3, SOL_SOCKET, 9999, &value, &length));
    CALL(getsockopt(3, 9999, SO_REUSEADDR, &value, &length));
    CALL(getsockopt(99, SOL_SOCKET, SO_REUSEADDR, &value, &length));
    CALL(getsockopt(3, SOL_SOCKET, SO_REUSEADDR, bad, &length));
    CALL(getsockopt(3, SOL_SOCKET, SO_REUSEADDR, &value, bad));
    length = -1;
    CALL(getsockopt(3, SOL_SOCKET, SO_REUSEADDR, &value, &length));
    length = 1;
    CALL(getsockopt(3, SOL_SOCKET, SO_REUSEADDR, &value, &length));
    VALUE(length);
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(setsockopt(5, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    length = sizeof value;
    CALL(getsockopt(5, SOL_SOCKET, SO_REUSEADDR, &value, &length));
    CALL(setsockopt(3, SOL_SOCKET, SO_TYPE, &on, sizeof on));
}

/* Options that are kept, and what values they take. */
static void kept(void) {
    const int names[] = {
        SO_DEBUG,      SO_REUSEPORT, SO_DONTROUTE, SO_BROADCAST, SO_KEEPALIVE, SO_OOBINLINE,
        SO_NO_CHECK,   SO_PRIORITY,  SO_RCVLOWAT,  SO_SNDLOWAT,  SO_TIMESTAMP, SO_TIMESTAMPNS,
        SO_PASSSEC,    SO_MARK,      SO_RXQ_OVFL,  SO_PEEK_OFF,  SO_NOFCS,     SO_SELECT_ERR_QUEUE,
        SO_BUSY_POLL,  SO_INCOMING_CPU, SO_PEERCRED, SO_PEERGROUPS, SO_COOKIE, SO_LINGER,
        SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_SNDBUF, SO_RCVBUF,
    };
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        const int values[] = {1, 7, 0, 100000, 300000};
        int name = names[i], value[2] = {0};
        socklen_t length = sizeof value;
        CALL(getsockopt(s, SOL_SOCKET, name, value, &length));
        VALUE(length);
        if (name != SO_COOKIE) {
            VALUE(value[0]);
        }
        CALL(setsockopt(s, SOL_SOCKET, name, value, 3));
        CALL(setsockopt(s, SOL_SOCKET, name, bad, 4));
        for (unsigned k = 0; k < 5; k++) {
            int new[2] = {values[k], values[k]};
            CALL(setsockopt(s, SOL_SOCKET, name, new, name == SO_LINGER ? 8 : 4));
            length = sizeof value;
            getsockopt(s, SOL_SOCKET, name, value, &length);
            if (name != SO_COOKIE) {
                VALUE(value[0]);
            }
        }
    }
}

/* The credentials of a pair, and where a peek begins. */
static void peers(void) {
    const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    for (int i = 0; i < 3; i++) {
        int pair[2], groups[64], zero = 0;
        struct ucred peer = {0};
        socklen_t length = sizeof peer;
        socketpair(AF_UNIX, kinds[i] | SOCK_NONBLOCK, 0, pair);
        CALL(getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &length));
        VALUE(peer.pid == getpid() && peer.uid == geteuid() && peer.gid == getegid());
        length = sizeof groups;
        CALL(getsockopt(pair[0], SOL_SOCKET, SO_PEERGROUPS, groups, &length));
        socklen_t own = getgroups(0, NULL) * sizeof *groups;
        VALUE(length == own);
        CALL(setsockopt(pair[1], SOL_SOCKET, SO_PEEK_OFF, &zero, sizeof zero));
        CALL(write(pair[0], "abcdef", 6));
        CALL(write(pair[0], "ghi", 3));
        CALL(recv(pair[1], page, 2, MSG_PEEK));
        CALL(recv(pair[1], page, 3, MSG_PEEK));
        CALL(recv(pair[1], page, 9, MSG_PEEK));
        CALL(recv(pair[1], page, 9, MSG_PEEK));
        CALL(recv(pair[1], page, 2, 0));
        length = sizeof zero;
        CALL(getsockopt(pair[1], SOL_SOCKET, SO_PEEK_OFF, &zero, &length));
        VALUE(zero);
        CALL(recv(pair[1], page, 9, MSG_PEEK));
        CALL(recv(pair[1], page, 9, 0));
        CALL(send(pair[0], "x", 1, MSG_DONTWAIT));
    }
}

/* A path that fills the address, without a zero byte; and a second bind. */
static void full_names(void) {
    struct sockaddr_un name = {AF_UNIX, ""}, own;
    char directory[61] = {0};
    struct stat st = {0};
    memset(name.sun_path, 'n', sizeof name.sun_path);
    memset(directory, 'n', 60);
    name.sun_path[60] = '/';
    CALL(mkdir(directory, 0755));
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(3, (struct sockaddr *)&name, sizeof name));
    socklen_t length = sizeof own;
    CALL(getsockname(3, (struct sockaddr *)&own, &length));
    VALUE(length);
    CALL(bind(3, (struct sockaddr *)&name, sizeof name));
    strcpy(name.sun_path, "other");
    CALL(bind(3, (struct sockaddr *)&name, sizeof name));
    CALL(stat("other", &st));
    strcpy(name.sun_path, "missing/other");
    CALL(bind(3, (struct sockaddr *)&name, sizeof name));
}

/* The inode of a socket. */
static void inodes(void) {
    struct stat st = {0};
    struct statfs fs;
    char path[32];
    if (geteuid() == 0 && setgid(1234) != 0) {
        printf("(cannot change the group)\n");
    }
    socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0});
    fstat(3, &st);
    VALUE(st.st_uid == geteuid() && st.st_gid == getegid());
    CALL(fchmod(3, 0640));
    fstat(3, &st);
    VALUE(st.st_mode);
    fstat(4, &st);
    VALUE(st.st_mode);
    CALL(fchown(3, geteuid(), getegid()));
    CALL(fstatfs(3, &fs));
    VALUE(fs.f_type);
    CALL(fchdir(3));
    CALL(openat(3, "name", O_RDONLY));
    snprintf(path, sizeof path, "/proc/self/fd/%d", 4);
    CALL(open(path, O_RDWR));
    CALL(open(path, O_PATH));
    CALL(close(4));
    signal(SIGPIPE, SIG_IGN);
    CALL(write(3, "x", 1));
}

static int signals;
static void count_signal(int signal) {
    signals += signal == SIGPIPE;
}

/* Which kinds raise SIGPIPE. */
static void broken(void) {
    const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    signal(SIGPIPE, count_signal);
    for (int i = 0; i < 3; i++) {
        int pair[2];
        socketpair(AF_UNIX, kinds[i], 0, pair);
        shutdown(pair[0], SHUT_WR);
        signals = 0;
        CALL(write(pair[0], "x", 1));
        VALUE(signals);
        CALL(send(pair[0], "x", 1, 0));
        VALUE(signals);
        CALL(send(pair[0], "x", 1, MSG_NOSIGNAL));
        VALUE(signals);
        CALL(writev(pair[0], &(struct iovec){"x", 1}, 1));
        VALUE(signals);
        CALL(writev(pair[0], &(struct iovec){"x", 0}, 1));
        VALUE(signals);
    }
}

/* Which calls send a message of no bytes. */
static void empty(void) {
    const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    struct iovec none = {page, 0};
    make_file("file", "");
    int file = open("file", O_RDONLY);
    for (int i = 0; i < 3; i++) {
        int pair[2];
        socketpair(AF_UNIX, kinds[i] | SOCK_NONBLOCK, 0, pair);
        CALL(writev(pair[0], &none, 0));
        CALL(writev(pair[0], &none, 1));
        CALL(sendfile(pair[0], file, NULL, 10));
        CALL(read(pair[1], page, 1));
        CALL(write(pair[0], page, 0));
        CALL(read(pair[1], page, 1));
        CALL(send(pair[0], page, 0, 0));
        CALL(read(pair[1], page, 1));
        CALL(sendmsg(pair[0], &(struct msghdr){0}, 0));
        CALL(read(pair[1], page, 1));
        CALL(read(pair[1], page, 1));
        CALL(sendfile(pair[0], file, NULL, -1));
    }
    CALL(writev(socket(AF_UNIX, SOCK_STREAM, 0), &none, 0));
}

static const struct section sections[] = {
    {"creating", creating},
    {"full_names", full_names},
    {"inodes", inodes},
    {"broken", broken},
    {"empty", empty},
    {"naming", naming},
    {"abstract", abstract},
    {"connecting", connecting},
    {"accepting", accepting},
    {"streams", streams},
    {"unread", unread},
    {"shutting", shutting},
    {"unconnected", unconnected},
    {"filling", filling},
    {"waiting_for_all", waiting_for_all},
    {"large", large},
    {"datagrams", datagrams},
    {"sequenced", sequenced},
    {"options", options},
    {"kept", kept},
    {"peers", peers},
    {"interfaces", interfaces},
    {NULL, NULL},
};
const struct theme sockets = {"sockets", sections};
