/* The program: `checks DIRECTORY THEME`, or `checks --list`. */
#include "check.h"

extern const struct theme descriptors, files, offsets, mappings, paths, links, directories, pipes,
    sockets, messages, readiness, epolls, host_epolls, events, locks, arguments, forks, devices,
    rights, signals, interrupts, faults, stdio;

static const struct theme *const themes[] = {
    &descriptors, &files,     &offsets, &mappings,    &paths,  &links, &directories, &pipes,
    &sockets,     &messages,  &readiness, &epolls,    &host_epolls, &events, &locks, &arguments,
    &forks,       &devices,   &rights,  &signals, &interrupts,  &faults, &stdio,
};

const char *check_root;
void *volatile null = NULL;
void *volatile bad = (void *)8;
void *volatile high = (void *)0xffff800000000000;

static const char *section_name = "start";
static const char *volatile current = "";

/* Prints the start of the line before the call, so that the output shows a call that never
 * returns. */
void check_begin(const char *call) {
    current = call;
    printf("%s: %s -> ", section_name, call);
    fflush(stdout);
    errno = 0;
}

static void end(void) {
    putchar('\n');
    fflush(stdout);
    current = "";
}

long check_call(long result) {
    if (result == -1) {
        printf("-1 %s", errno ? strerrorname_np(errno) : "without errno");
    } else {
        printf("%ld", result);
    }
    end();
    return result;
}

long check_code(long error) {
    printf("%s", error ? strerrorname_np((int)error) : "0");
    end();
    return error;
}

long check_value(long value) {
    printf("%ld", value);
    end();
    return value;
}

const char *check_text(const char *text) {
    size_t root = strlen(check_root);
    bool below = text && strncmp(text, check_root, root) == 0;
    printf("\"%s%s\"", below ? "$ROOT" : "", text ? text + (below ? root : 0) : "(null)");
    end();
    return text;
}

void *check_pointer(const void *pointer) {
    printf("%s", pointer ? "a pointer" : "NULL ");
    if (!pointer) {
        printf("%s", errno ? strerrorname_np(errno) : "without errno");
    }
    end();
    return (void *)pointer;
}

void make_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    size_t length = strlen(text);
    if (fd < 0 || write(fd, text, length) != (ssize_t)length) {
        printf("(cannot make %s: %s)\n", path, strerrorname_np(errno));
    }
    close(fd);
}

const char *read_text(int fd) {
    static char text[64];
    ssize_t got = read(fd, text, sizeof text - 1);
    if (got < 0) {
        snprintf(text, sizeof text, "<%s>", strerrorname_np(errno));
    } else {
        text[got] = 0;
    }
    return text;
}

const char *file_text(const char *path) {
    int fd = open(path, O_RDONLY);
    const char *text = read_text(fd);
    close(fd);
    return text;
}

static void nothing(int signal) { (void)signal; }

int interrupt_flags;

void interrupt_begin(int milliseconds) {
    struct sigaction action = {.sa_handler = nothing, .sa_flags = interrupt_flags};
    struct timeval each = {.tv_usec = milliseconds * 1000};
    struct itimerval timer = {.it_interval = each, .it_value = each};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

void interrupt_end(void) {
    struct itimerval never = {0};
    setitimer(ITIMER_REAL, &never, NULL);
}

void pause_ms(int milliseconds) {
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* Most milliseconds that a section may take. */
#define PATIENCE 60000

/* Waits for the process of a section, as `wait_for` does. Ends it if a call never returns, and says
 * so. It is not a thread of that process: such a thread would get the signals that a section has
 * blocked, and would keep the credentials that a section gives up. */
static int watch(pid_t child) {
    int status = 0;
    long end = now_ms() + PATIENCE;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_ms() > end) {
            kill(child, SIGKILL);
            wait_for(child);
            printf("did not return\n");
            return 3;
        }
        pause_ms(1);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* Closes more descriptors than a table begins with.
 * A shell may leave high descriptors open. Linux keeps the table that they needed, and the
 * result of select for a closed descriptor depends on its size: EBADF within the table, no error
 * beyond it. So every section closes this many, and has a table that is larger. */
#define WIDE 300

static void run(const struct section *section) {
    section_name = section->name;
    for (int fd = 3; fd < WIDE; fd++) {
        close(fd);
    }
    close(dup2(0, WIDE));
    umask(022);
    if (chdir(check_root) != 0 || mkdir(section->name, 0755) != 0 || chdir(section->name) != 0) {
        printf("%s: (no directory: %s)\n", section->name, strerrorname_np(errno));
        fflush(stdout);
        _exit(4); /* do not create and remove files in an unknown directory */
    }
    section->run();
    fflush(stdout);
    _exit(0);
}

/* Runs a section in a process of its own: the next one finds nothing that it has changed. */
static void run_in_child(const struct section *section) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run(section);
    }
    int status = watch(child);
    if (status > 256) {
        const char *name = sigabbrev_np(status - 256);
        printf("(%s ended by SIG%s)\n", section->name, name ? name : "RT");
    }
}

int main(int argc, char **argv) {
    size_t count = sizeof themes / sizeof *themes;
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++) {
            puts(themes[i]->name);
        }
        return 0;
    }
    if (argc < 3) {
        fprintf(stderr, "usage: %s DIRECTORY THEME [SECTION]\n", argv[0]);
        return 2;
    }
    check_root = argv[1];
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(themes[i]->name, argv[2]) != 0) {
            continue;
        }
        for (const struct section *section = themes[i]->sections; section->name; section++) {
            if (argc < 4 || strcmp(argv[3], section->name) == 0) {
                run_in_child(section);
            }
        }
        return 0;
    }
    fprintf(stderr, "no theme %s\n", argv[2]);
    return 2;
}
