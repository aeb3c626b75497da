/* A handler of a signal closes a descriptor that the program has closed. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static int fd;

static void on_alarm(int signal)
{
    close(fd);
    (void)signal;
}

static void wait_for_alarm(void)
{
    alarm(1);
    pause();
}

int main(void)
{
    signal(SIGALRM, on_alarm);
    fd = open("/dev/null", O_RDONLY);
    close(fd);
    wait_for_alarm();
    return 0;
}
