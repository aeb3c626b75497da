/* A log goes on after its file was closed. */
#include <fcntl.h>
#include <unistd.h>

static int log_fd;

static void write_log(const char *text)
{
    write(log_fd, text, 1);
}

static void end_log(void)
{
    close(log_fd);
}

int main(void)
{
    log_fd = open("/dev/null", O_WRONLY);
    write_log("a");
    end_log();
    write_log("b");
    return 0;
}
