/* To look into a locked file drops the lock: its close drops all record locks of the process. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const char *path = "database";

static int open_database(void)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fcntl(fd, F_SETLK, &lock);
    return fd;
}

static void print_header(void)
{
    int fd = open(path, O_RDONLY);
    char header[16];
    read(fd, header, sizeof header);
    close(fd);
}

int main(void)
{
    int fd = open_database();
    print_header();
    /* Another process may lock the file from here on. */
    write(fd, "text", 4);
    close(fd);
    return 0;
}
