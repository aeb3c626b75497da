/* An error path forgets to close. */
#include <fcntl.h>
#include <unistd.h>

static int check(const char *path)
{
    int fd = open(path, O_RDONLY);
    char byte;
    if (read(fd, &byte, 1) != 1)
        return -1;
    close(fd);
    return 0;
}

int main(void)
{
    for (int i = 0; i < 5; i++)
        check("/dev/null");
    check("/dev/zero");
    return 0;
}
