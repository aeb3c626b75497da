/* A descriptor is sent after it was closed. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void send_descriptor(int socket, int fd)
{
    char byte = 0;
    struct iovec data = {&byte, 1};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control = {0};
    struct msghdr message = {
        .msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    sendmsg(socket, &message, 0);
}

int main(void)
{
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    int fd = open("/dev/null", O_RDONLY);
    close(fd);
    send_descriptor(pair[0], fd);
    close(pair[0]);
    close(pair[1]);
    return 0;
}
