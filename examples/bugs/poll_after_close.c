/* An event loop waits for a connection that was closed. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

static int closed_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    close(fd);
    return fd;
}

static void by_poll(void)
{
    struct pollfd entry = {.fd = closed_socket(), .events = POLLIN};
    poll(&entry, 1, 0);
}

static void by_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    int fd = closed_socket();
    FD_SET(fd, &set);
    struct timeval time = {0, 0};
    select(fd + 1, &set, 0, 0, &time);
}

static void by_epoll(void)
{
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, closed_socket(), &event);
    close(epoll);
}

int main(void)
{
    by_poll();
    by_select();
    by_epoll();
    return 0;
}
