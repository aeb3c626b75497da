/* Two owners of one descriptor: each closes it. */
#include <fcntl.h>
#include <unistd.h>

static void end_request(int fd)
{
    close(fd);
}

static void end_connection(int fd)
{
    close(fd);
}

int main(void)
{
    int fd = open("/dev/null", O_RDONLY);
    end_request(fd);
    int other = open("/dev/zero", O_RDONLY);
    end_connection(fd);
    /* Without the check, this one is closed now. */
    close(other);
    return 0;
}
