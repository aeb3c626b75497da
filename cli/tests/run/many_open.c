/* Processes with all descriptors but a few are killed while they read a pipe: many_open. Each has a
 * reference to the pipe then, so a call that is not completed leaves it with a reader. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Opens files of the host until there are no more descriptors, and closes so many again. */
static void open_all_but(int few) {
    int fd, last = -1;
    while ((fd = open("/bin/sh", O_RDONLY)) >= 0)
        last = fd;
    for (int i = 0; i < few; i++)
        close(last - 40 - i);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    for (int few = 2; few <= 6; few++) {
        int ready[2], silent[2];
        pipe(ready);
        pipe(silent);
        pid_t process = fork();
        if (process == 0) {
            setpgid(0, 0);
            close(silent[1]);
            open_all_but(few);
            char byte;
            write(ready[1], "x", 1);
            read(silent[0], &byte, 1);
            _exit(1);
        }
        setpgid(process, process);
        close(silent[0]);
        char byte;
        read(ready[0], &byte, 1);
        usleep(20000);
        /* A group, which is not asked to end at the ends of calls. */
        kill(-process, SIGKILL);
        int status;
        waitpid(process, &status, 0);
        ssize_t count = write(silent[1], "x", 1);
        printf("%d: %s\n", status, count < 0 ? strerror(errno) : "a reader");
        for (int i = 0; i < 2; i++)
            close(ready[i]);
        close(silent[1]);
    }
    return 0;
}
