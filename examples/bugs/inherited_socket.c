/* A server executes a helper that gets its listening socket: while the helper runs, the port stays
   taken though the server has ended. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int serve(void)
{
    /* Without SOCK_CLOEXEC. */
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    bind(fd, (struct sockaddr *)&address, sizeof address);
    listen(fd, 1);
    return fd;
}

int main(void)
{
    int fd = serve();
    if (!fork()) {
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    wait(0);
    close(fd);
    return 0;
}
