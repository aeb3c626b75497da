/* A child closes both ends of a pipe, and one of them again. */
#include <sys/wait.h>
#include <unistd.h>

static void end_child(int *ends)
{
    close(ends[0]);
    close(ends[1]);
    close(ends[0]);
}

int main(void)
{
    int ends[2];
    pipe(ends);
    if (!fork()) {
        end_child(ends);
        _exit(0);
    }
    wait(0);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
