/* sendmsg and recvmsg, and the descriptors that they pass. */
#include "check.h"

static char first[8], second[64];

static struct msghdr message(struct iovec *parts, size_t count) {
    return (struct msghdr){.msg_iov = parts, .msg_iovlen = count};
}

static void scattered(void) {
    int ends[2];
    struct iovec out[2] = {{"abc", 3}, {"defghijkl", 9}};
    struct iovec in[2] = {{first, 8}, {second, 64}};
    struct msghdr send = message(out, 2), receive = message(in, 2);
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(sendmsg(3, &send, 0));
    CALL(recvmsg(4, &receive, MSG_PEEK));
    CALL(recvmsg(4, &receive, 0));
    VALUE(memcmp(first, "abcdefgh", 8));
    VALUE(memcmp(second, "ijkl", 4));
    VALUE(receive.msg_flags);
    VALUE(receive.msg_controllen);
    CALL(recvmsg(4, &receive, MSG_DONTWAIT));
    CALL(sendmsg(99, &send, 0));
    CALL(recvmsg(99, &receive, 0));
    CALL(sendmsg(3, bad, 0));
    CALL(recvmsg(4, bad, 0));
    send.msg_iov = bad;
    CALL(sendmsg(3, &send, 0));
    send.msg_iov = out;
    send.msg_iovlen = 1025;
    CALL(sendmsg(3, &send, 0));
    send.msg_iovlen = 0;
    CALL(sendmsg(3, &send, 0));
    receive.msg_iovlen = 1025;
    CALL(recvmsg(4, &receive, MSG_DONTWAIT));
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    send.msg_iovlen = 2;
    CALL(sendmsg(5, &send, 0));
    CALL(recvmsg(5, &receive, 0));
    CALL(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    CALL(sendmsg(6, &send, 0));
    receive.msg_iovlen = 1;
    CALL(recvmsg(7, &receive, 0));
    VALUE(receive.msg_flags == MSG_TRUNC);
    CALL(close(3));
    CALL(sendmsg(4, &send, MSG_NOSIGNAL));
}

static int send_descriptors(int socket, const int *fds, int count) {
    union {
        char bytes[CMSG_SPACE(300 * sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec part = {"x", 1};
    struct msghdr send = message(&part, 1);
    memset(&control, 0, sizeof control);
    send.msg_control = &control;
    send.msg_controllen = CMSG_SPACE(count * sizeof(int));
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
    return sendmsg(socket, &send, 0);
}

static int received_flags;

/* Receives one byte and the descriptors sent with it. Returns their count. */
static int receive_descriptors(int socket, int *fds, int room, int flags) {
    union {
        char bytes[CMSG_SPACE(300 * sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec part = {first, 1};
    struct msghdr receive = message(&part, 1);
    receive.msg_control = room ? &control : NULL;
    receive.msg_controllen = room ? CMSG_LEN(room * sizeof(int)) : 0;
    if (recvmsg(socket, &receive, flags) < 0) {
        return -1;
    }
    received_flags = receive.msg_flags;
    struct cmsghdr *header = CMSG_FIRSTHDR(&receive);
    if (!header || header->cmsg_type != SCM_RIGHTS) {
        return 0;
    }
    int count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    return count;
}

static void descriptors_travel(void) {
    int ends[2], got[8] = {0};
    make_file("file", "the text");
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(open("file", O_RDONLY));
    CALL(lseek(5, 4, SEEK_SET));
    CALL(send_descriptors(3, (int[]){5}, 1));
    CALL(close(5));
    CALL(receive_descriptors(4, got, 1, 0));
    VALUE(got[0]);
    CALL(fcntl(got[0], F_GETFD));
    TEXT(read_text(got[0]));
    CALL(send_descriptors(3, (int[]){5, 3, 5}, 3));
    CALL(receive_descriptors(4, got, 3, MSG_CMSG_CLOEXEC));
    VALUE(got[0]);
    VALUE(got[2]);
    CALL(fcntl(got[2], F_GETFD));
    VALUE(received_flags & (MSG_CTRUNC | MSG_CMSG_CLOEXEC));
    CALL(lseek(5, 0, SEEK_SET));
    CALL(lseek(got[0], 0, SEEK_CUR));
    CALL(close_range(5, ~0U, 0));
    CALL(send_descriptors(3, (int[]){99}, 1));
    CALL(send_descriptors(3, (int[]){-1}, 1));
    CALL(send_descriptors(3, (int[]){3, 99}, 2));
    CALL(send_descriptors(3, (int[]){3, 4, 3}, 3));
    CALL(receive_descriptors(4, got, 1, 0));
    VALUE(received_flags & MSG_CTRUNC);
    CALL(fcntl(6, F_GETFD));
    CALL(send_descriptors(3, (int[]){3}, 1));
    CALL(receive_descriptors(4, got, 0, 0));
    VALUE(received_flags & MSG_CTRUNC);
    CALL(fcntl(6, F_GETFD));
}

static void boundaries(void) {
    int ends[2], got[8];
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(send_descriptors(3, (int[]){3}, 1));
    CALL(send_descriptors(3, (int[]){4}, 1));
    CALL(write(3, "plain", 5));
    /* A read ends at bytes with descriptors, and drops the descriptors of bytes that it takes. */
    CALL(read(4, second, 10));
    CALL(fcntl(5, F_GETFD));
    CALL(receive_descriptors(4, got, 1, 0));
    VALUE(got[0]);
    CALL(read(4, second, 10));
    CALL(send_descriptors(3, (int[]){3}, 1));
    CALL(receive_descriptors(4, got, 1, MSG_PEEK));
    CALL(receive_descriptors(4, got, 1, 0));
    int many[254];
    for (int i = 0; i < 254; i++) {
        many[i] = 3;
    }
    CALL(send_descriptors(3, many, 253));
    CALL(send_descriptors(3, many, 254));
    int all[300];
    CALL(receive_descriptors(4, all, 253, 0));
    CALL(close_range(5, ~0U, 0));
    /* A socket whose last reference is in its own queue. */
    CALL(send_descriptors(3, (int[]){3, 4}, 2));
    CALL(close(3));
    CALL(close(4));
}

static void controls(void) {
    int ends[2];
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec part = {"x", 1};
    struct msghdr send = message(&part, 1);
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    memset(&control, 0, sizeof control);
    send.msg_control = &control;
    send.msg_controllen = sizeof control;
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = 1;
    CALL(sendmsg(3, &send, 0));
    control.header.cmsg_len = 1000;
    CALL(sendmsg(3, &send, 0));
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    control.header.cmsg_type = 77;
    CALL(sendmsg(3, &send, 0));
    control.header.cmsg_level = 77;
    CALL(sendmsg(3, &send, 0));
    send.msg_control = bad;
    CALL(sendmsg(3, &send, 0));
}

static void many_messages(void) {
    int ends[2];
    struct iovec out[2] = {{"one", 3}, {"three", 5}};
    struct iovec in[2] = {{first, 8}, {second, 64}};
    struct mmsghdr send[2] = {{.msg_hdr = message(&out[0], 1)}, {.msg_hdr = message(&out[1], 1)}};
    struct mmsghdr receive[2] = {{.msg_hdr = message(&in[0], 1)}, {.msg_hdr = message(&in[1], 1)}};
    struct timespec wrong = {0, -1}, soon = {0, 20000000};
    CALL(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    CALL(sendmmsg(3, send, 2, 0));
    VALUE(send[1].msg_len);
    CALL(recvmmsg(4, receive, 2, 0, NULL));
    VALUE(receive[0].msg_len);
    VALUE(receive[1].msg_len);
    CALL(sendmmsg(3, send, 1, 0));
    CALL(recvmmsg(4, receive, 2, MSG_WAITFORONE, NULL));
    CALL(recvmmsg(4, receive, 2, MSG_DONTWAIT, NULL));
    CALL(sendmmsg(3, send, 0, 0));
    CALL(recvmmsg(4, receive, 0, 0, NULL));
    CALL(sendmmsg(99, send, 2, 0));
    CALL(recvmmsg(99, receive, 2, 0, NULL));
    CALL(recvmmsg(4, receive, 2, 0, &wrong));
    CALL(sendmmsg(3, bad, 2, 0));
    CALL(recvmmsg(4, bad, 2, MSG_DONTWAIT, NULL));
    CALL(sendmmsg(3, send, 2, 0));
    CALL(recvmmsg(4, receive, 2, 0, &soon));
}

static void credentials(void) {
    int ends[2], on = 1;
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr header;
    } control;
    struct iovec part = {first, 1};
    struct msghdr receive = message(&part, 1);
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(setsockopt(4, SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    CALL(write(3, "x", 1));
    receive.msg_control = &control;
    receive.msg_controllen = sizeof control;
    CALL(recvmsg(4, &receive, 0));
    struct cmsghdr *header = CMSG_FIRSTHDR(&receive);
    VALUE(header != NULL);
    if (header) {
        VALUE(header->cmsg_type == SCM_CREDENTIALS);
        struct ucred *sender = (struct ucred *)CMSG_DATA(header);
        VALUE(sender->pid == getpid() && sender->uid == geteuid());
    }
}

/* Receives up to `count` bytes, and shows what came with them. */
static void receive_all(int socket, size_t count) {
    char control[256], bytes[64];
    struct iovec part = {bytes, count};
    struct msghdr receive = message(&part, 1);
    receive.msg_control = control;
    receive.msg_controllen = sizeof control;
    if (CALL(recvmsg(socket, &receive, MSG_DONTWAIT)) < 0) {
        return;
    }
    for (struct cmsghdr *each = CMSG_FIRSTHDR(&receive); each; each = CMSG_NXTHDR(&receive, each)) {
        VALUE(each->cmsg_type);
        if (each->cmsg_type == SCM_CREDENTIALS) {
            struct ucred sender;
            memcpy(&sender, CMSG_DATA(each), sizeof sender);
            VALUE(sender.pid == getpid());
            VALUE(sender.uid == geteuid());
        }
    }
}

static void pass_credentials(int socket, int on) {
    CALL(setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
}

/* What was sent before the option was set is not read together with what was sent after it. */
static void senders(void) {
    const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    for (int i = 0; i < 3; i++) {
        int pair[2], file = 1;
        socketpair(AF_UNIX, kinds[i] | SOCK_NONBLOCK, 0, pair);
        write(pair[0], "before", 6);
        pass_credentials(pair[1], 1);
        receive_all(pair[1], 64);
        write(pair[0], "ab", 2);
        write(pair[0], "cd", 2);
        receive_all(pair[1], 64);
        receive_all(pair[1], 64);
        write(pair[0], "on", 2);
        pass_credentials(pair[1], 0);
        write(pair[0], "off", 3);
        pass_credentials(pair[1], 1);
        CALL(read(pair[1], second, sizeof second));
        receive_all(pair[1], 64);
        pass_credentials(pair[1], 0);
        pass_credentials(pair[0], 1);
        write(pair[0], "sender", 6);
        pass_credentials(pair[0], 0);
        pass_credentials(pair[1], 1);
        receive_all(pair[1], 64);
        pass_credentials(pair[1], 0);
        send_descriptors(pair[0], &file, 1);
        receive_all(pair[1], 0);
        receive_all(pair[1], 64);
    }
}

/* An accepted socket inherits the option, and a sender that sets it gets a name. */
static void heirs(void) {
    struct sockaddr_un name = {AF_UNIX}, own;
    /* No other run of this check on the host has the name. */
    int name_length = snprintf(name.sun_path + 1, 30, "heirs-%d", getpid());
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + name_length;
    int on = 0;
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(bind(3, (struct sockaddr *)&name, length));
    CALL(listen(3, 1));
    pass_credentials(3, 1);
    CALL(socket(AF_UNIX, SOCK_STREAM, 0));
    CALL(connect(4, (struct sockaddr *)&name, length));
    CALL(accept(3, NULL, NULL));
    length = sizeof on;
    CALL(getsockopt(5, SOL_SOCKET, SO_PASSCRED, &on, &length));
    VALUE(on);
    CALL(write(4, "x", 1));
    receive_all(5, 64);
    CALL(socketpair(AF_UNIX, SOCK_DGRAM, 0, (int[2]){0}));
    pass_credentials(6, 1);
    CALL(write(6, "x", 1));
    length = sizeof own;
    CALL(getsockname(6, (struct sockaddr *)&own, &length));
    VALUE(length);
}

/* The time of a message. A stream has none. */
static void times(void) {
    const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    for (int i = 0; i < 3; i++) {
        int pair[2], on = 1;
        socketpair(AF_UNIX, kinds[i] | SOCK_NONBLOCK, 0, pair);
        CALL(setsockopt(pair[1], SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on));
        write(pair[0], "x", 1);
        receive_all(pair[1], 64);
        CALL(setsockopt(pair[1], SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on));
        write(pair[0], "x", 1);
        receive_all(pair[1], 64);
    }
}

/* Urgent data: the errors that come before that of the data itself. */
static void urgent(void) {
    CALL(send(socket(AF_UNIX, SOCK_STREAM, 0), "x", 1, MSG_OOB));
    CALL(recv(3, first, 1, MSG_OOB));
    CALL(send(socket(AF_UNIX, SOCK_DGRAM, 0), "x", 1, MSG_OOB));
    CALL(recv(4, first, 1, MSG_OOB));
    CALL(send(socket(AF_UNIX, SOCK_SEQPACKET, 0), "x", 1, MSG_OOB));
    CALL(recv(5, first, 1, MSG_OOB));
}

static const struct section sections[] = {
    {"senders", senders},             {"heirs", heirs},
    {"times", times},                 {"urgent", urgent},
    {"scattered", scattered},         {"descriptors_travel", descriptors_travel},
    {"boundaries", boundaries},       {"controls", controls},
    {"many_messages", many_messages}, {"credentials", credentials},
    {NULL, NULL},
};
const struct theme messages = {"messages", sections};
