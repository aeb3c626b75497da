/* Calls on pipes and sockets. */
#include "fuzz.h"

#define FD(i) ((int)NUMBER(i))
#define OP(name, ...) \
    static long do_##name(struct call *call) { return name(__VA_ARGS__); }

OP(socket, FD(0), FD(1), FD(2))
OP(listen, FD(0), FD(1))
OP(shutdown, FD(0), FD(1))
OP(send, FD(0), BUFFER(1, some_data()), (size_t)NUMBER(2), FD(3))

static long keep_two(struct call *call, long result, const int *ends) {
    if (result == 0) {
        set_slot(call->into[0], ends[0]);
        set_slot(call->into[1], ends[1]);
        show(" %d %d", ends[0], ends[1]);
    }
    return result;
}

static long do_pipe2(struct call *call) {
    int ends[2] = {-1, -1};
    return keep_two(call, pipe2(ends, FD(0)), ends);
}

static long do_socketpair(struct call *call) {
    int ends[2] = {-1, -1};
    return keep_two(call, socketpair(FD(0), FD(1), FD(2), ends), ends);
}

/* Makes an address of a name: "" has none, and "@name" is one without a file. */
static socklen_t address_of(const char *name, struct sockaddr_un *address) {
    size_t length = strnlen(name, sizeof address->sun_path);
    size_t start = offsetof(struct sockaddr_un, sun_path);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, length);
    if (name[0] == '@') {
        address->sun_path[0] = 0;
        return (socklen_t)(start + length);
    }
    bool has_end = length > 0 && length < sizeof address->sun_path;
    return (socklen_t)(start + length + has_end);
}

static bool is_chosen_by_kernel(const char *path, long length) {
    return length == 6 && !path[0] && strspn(path + 1, "0123456789abcdef") >= 5;
}

static void show_address(const struct sockaddr_un *address, socklen_t length) {
    long name = (long)length - (long)offsetof(struct sockaddr_un, sun_path);
    if (name <= 0) {
        show(" length %u", length);
    } else if (is_chosen_by_kernel(address->sun_path, name)) {
        show(" a name");
    } else {
        show_bytes(address->sun_path, name < (long)sizeof address->sun_path ? name : 0);
        show(" length %ld", name);
    }
}

static long do_bind(struct call *call) {
    struct sockaddr_un address;
    socklen_t length = address_of(TEXT(1), &address);
    return bind(FD(0), (struct sockaddr *)&address, length);
}

static long do_connect(struct call *call) {
    struct sockaddr_un address;
    socklen_t length = address_of(TEXT(1), &address);
    return connect(FD(0), (struct sockaddr *)&address, length);
}

/* Connects a datagram socket to nothing. */
static long do_disconnect(struct call *call) {
    struct sockaddr address = {.sa_family = AF_UNSPEC};
    return connect(FD(0), &address, sizeof address);
}

static long do_accept4(struct call *call) {
    struct sockaddr_un address = {0};
    socklen_t length = sizeof address;
    long result = accept4(FD(0), (struct sockaddr *)&address, &length, FD(1));
    if (result >= 0) {
        show_address(&address, length);
    }
    return result;
}

static long do_getsockname(struct call *call) {
    struct sockaddr_un address = {0};
    socklen_t length = sizeof address;
    long result = getsockname(FD(0), (struct sockaddr *)&address, &length);
    if (result == 0) {
        show_address(&address, length);
    }
    return result;
}

static long do_getpeername(struct call *call) {
    struct sockaddr_un address = {0};
    socklen_t length = sizeof address;
    long result = getpeername(FD(0), (struct sockaddr *)&address, &length);
    if (result == 0) {
        show_address(&address, length);
    }
    return result;
}

static long do_recv(struct call *call) {
    long got = recv(FD(0), BUFFER(1, room), (size_t)NUMBER(2), FD(3));
    show_bytes(room, got < NUMBER(2) ? got : NUMBER(2));
    return got;
}

static long do_recvfrom(struct call *call) {
    struct sockaddr_un address = {0};
    socklen_t length = sizeof address;
    struct sockaddr *from = (struct sockaddr *)&address;
    long got = recvfrom(FD(0), room, (size_t)NUMBER(1), FD(2), from, &length);
    if (got >= 0) {
        show_bytes(room, got < NUMBER(1) ? got : NUMBER(1));
        show_address(&address, length);
    }
    return got;
}

static long do_sendto(struct call *call) {
    struct sockaddr_un address;
    socklen_t length = address_of(TEXT(3), &address);
    struct sockaddr *to = (struct sockaddr *)&address;
    return sendto(FD(0), some_data(), (size_t)NUMBER(1), FD(2), to, length);
}

/* Sends bytes and up to two descriptors: "none" is no descriptor. */
static long do_sendmsg(struct call *call) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec part = {(void *)some_data(), (size_t)NUMBER(1)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int fds[2], count = 0;
    for (int i = 3; i < 5; i++) {
        if (NUMBER(i) != INT_MIN) {
            fds[count++] = FD(i);
        }
    }
    if (count) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, (size_t)count * sizeof(int));
    }
    return sendmsg(FD(0), &message, FD(2));
}

static void take_descriptors(struct call *call, struct cmsghdr *header) {
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
        set_slot(i < 2 ? call->into[i] : -1, fd);
        show(" fd %d", fd);
    }
}

static void show_control(struct call *call, struct msghdr *message) {
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    for (; header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
            take_descriptors(call, header);
        } else if (header->cmsg_type == SCM_CREDENTIALS) {
            struct ucred from;
            memcpy(&from, CMSG_DATA(header), sizeof from);
            show(" from user %d group %d process %d", from.uid, from.gid, from.pid == getpid());
        } else {
            show(" control %d %d", header->cmsg_level, header->cmsg_type);
        }
    }
}

/* Receives bytes, and descriptors as far as they fit. */
static long do_recvmsg(struct call *call) {
    _Alignas(struct cmsghdr) char control[256] = {0};
    struct iovec part = {room, (size_t)NUMBER(1)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control};
    size_t space = (size_t)NUMBER(3);
    message.msg_controllen = space < sizeof control ? space : sizeof control;
    long got = recvmsg(FD(0), &message, FD(2));
    if (got >= 0) {
        show_bytes(room, got < NUMBER(1) ? got : NUMBER(1));
        show(" flags=%#x", message.msg_flags);
        show_control(call, &message);
    }
    return got;
}

static long do_getsockopt(struct call *call) {
    _Alignas(8) unsigned char value[64] = {0};
    socklen_t length = (socklen_t)NUMBER(3);
    length = length < sizeof value ? length : sizeof value;
    long result = getsockopt(FD(0), FD(1), FD(2), value, &length);
    if (result != 0) {
        return result;
    }
    show(" length=%u", length);
    if (FD(2) == SO_PEERCRED) {
        struct ucred from;
        memcpy(&from, value, sizeof from);
        show(" user %d group %d process %d", from.uid, from.gid, from.pid == getpid());
    } else {
        int first;
        memcpy(&first, value, sizeof first);
        show(" %d", first);
    }
    return result;
}

static long do_setsockopt(struct call *call) {
    int value[] = {FD(3), 0, 0, 0};
    return setsockopt(FD(0), FD(1), FD(2), value, (socklen_t)NUMBER(4));
}

#define TABLE(name, count) {#name, do_##name, count}

const struct operation socket_operations[] = {
    TABLE(pipe2, 1),       TABLE(socketpair, 3),  TABLE(socket, 3),     TABLE(bind, 2),
    TABLE(listen, 2),      TABLE(connect, 2),     TABLE(disconnect, 1), TABLE(accept4, 2),
    TABLE(shutdown, 2),    TABLE(send, 4),        TABLE(sendto, 4),     TABLE(recv, 4),
    TABLE(recvfrom, 3),    TABLE(sendmsg, 5),     TABLE(recvmsg, 4),    TABLE(getsockname, 1),
    TABLE(getpeername, 1), TABLE(getsockopt, 4),  TABLE(setsockopt, 5), {0},
};
