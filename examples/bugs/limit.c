/* A leak until no descriptor is left. */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

static int forget(void)
{
    return open("/dev/null", O_RDONLY);
}

int main(void)
{
    struct rlimit limit = {64, 64};
    setrlimit(RLIMIT_NOFILE, &limit);
    while (forget() >= 0)
        ;
    return 0;
}
