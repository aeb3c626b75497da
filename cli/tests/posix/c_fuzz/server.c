/* Reads scripts from standard input, runs each one in a process of its own, and prints its lines.
 *
 * A line "." ends a script, and the lines of its calls are followed by such a line too. A line "&"
 * begins the script of another thread.
 *
 * A script removes what it finds. So all of this runs in namespaces of its own, in which everything
 * is read only, except an empty file system in memory for each script. */
#include "fuzz.h"

#include <ftw.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static bool is_host;

static bool write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    ssize_t length = (ssize_t)strlen(text);
    bool is_written = fd >= 0 && write(fd, text, (size_t)length) == length;
    close(fd);
    return is_written;
}

/* Enters namespaces in which this user is root. */
static const char *become_root(void) {
    char map[64], groups[64];
    snprintf(map, sizeof map, "0 %d 1", geteuid());
    snprintf(groups, sizeof groups, "0 %d 1", getegid());
    if (unshare(CLONE_NEWUSER) != 0) {
        return "no user namespaces";
    }
    if (!write_file("/proc/self/setgroups", "deny") || !write_file("/proc/self/uid_map", map) ||
        !write_file("/proc/self/gid_map", groups)) {
        return "no map of users";
    }
    return NULL;
}

/* Enters the namespaces. Returns what is not possible here, or NULL. */
static const char *confine(void) {
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
    const char *reason = geteuid() == 0 ? NULL : become_root();
    if (reason) {
        return reason;
    }
    if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET) != 0) {
        return "no namespaces of mounts, processes and networks";
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        return "no private mounts";
    }
    if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &read_only, sizeof read_only) != 0) {
        return "no read-only mounts";
    }
    /* Nothing in /proc/self/fd can be changed anyway, with other errors. */
    if (mount_setattr(AT_FDCWD, "/proc", 0, &writable, sizeof writable) != 0) {
        return "no writable /proc";
    }
    return NULL;
}

/* Splits at lines "&". */
static int split(char *script, char **scripts) {
    int count = 1;
    scripts[0] = script;
    while (count < THREADS && (script = strstr(script, "&\n")) != NULL) {
        *script = 0;
        scripts[count++] = script += 2;
    }
    return count;
}

static void run_in_child(char *script) {
    struct rlimit no_core = {0};
    char *scripts[THREADS];
    int count = split(script, scripts);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGPIPE, SIG_IGN);
    alarm(count > 1 ? 30 : 5);
    prepare();
    if (count > 1) {
        run_threads(scripts, count);
    } else {
        run_script(script);
    }
    _exit(0);
}

static int remove_file(const char *path, const struct stat *unused, int type, struct FTW *place) {
    return place->level == 0 ? 0 : remove(path);
}

/* Removes the file system of a script, or empties it: ours has no mounts. */
static void clear(void) {
    int result = is_host ? umount2(ROOT, MNT_DETACH) : nftw(ROOT, remove_file, 16, FTW_DEPTH | FTW_PHYS);
    if (result != 0) {
        perror(ROOT);
        exit(1);
    }
}

static void run(char *script) {
    int status = 0;
    shared->length = 0;
    shared->output[0] = 0;
    memset(shared->current, 0, sizeof shared->current);
    if (is_host && mount("none", ROOT, "tmpfs", 0, "size=16m,mode=0777") != 0) {
        perror("mount");
        exit(1);
    }
    pid_t child = fork();
    if (child == 0) {
        run_in_child(script);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    clear();
    fwrite(shared->output, 1, shared->length, stdout);
    if (WIFSIGNALED(status)) {
        printf(" (ended by SIG%s)\n", sigabbrev_np(WTERMSIG(status)));
        for (int i = 0; i < THREADS && shared->current[i][0]; i++) {
            printf("(thread %d: %s)\n", i, shared->current[i]);
        }
    } else if (status != 0) {
        printf(" (ended with %d)\n", WEXITSTATUS(status));
    }
    puts(".");
    fflush(stdout);
}

/* Serves until the end of the input. */
static void serve(void) {
    static char script[1 << 20], line[1024];
    size_t length = 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, ".\n") != 0) {
            length += (size_t)snprintf(script + length, sizeof script - length, "%s", line);
            continue;
        }
        script[length] = 0;
        run(script);
        length = 0;
    }
}

/* Runs the words, which are those of the runner and of this program, in a process of its own: the
 * first one of the namespace gets the supervisor as a child. */
static void run_runner(char **words) {
    pid_t runner = fork();
    if (runner == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(words[0], words);
        perror(words[0]);
        exit(1);
    }
    waitpid(runner, NULL, 0);
}

/* Begins with `host`, or with `ours` and the words of a command that serves under the runner. */
int main(int argc, char **argv) {
    is_host = strcmp(argv[1], "host") == 0;
    if (strcmp(argv[1], "serve") == 0) {
        serve();
        return 0;
    }
    bool is_root = geteuid() == 0;
    const char *reason = confine();
    if (reason) {
        printf("unavailable: %s: %s\n", reason, strerror(errno));
        return 0;
    }
    /* Only children are in the new namespace of processes. */
    pid_t first = fork();
    if (first == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (mount("proc", "/proc", "proc", 0, NULL) != 0) {
            printf("unavailable: no /proc of the namespace: %s\n", strerror(errno));
            exit(0);
        }
        puts(is_root ? "ready: root" : "ready: user");
        fflush(stdout);
        if (is_host) {
            serve();
        } else {
            run_runner(argv + 2);
        }
        exit(0);
    }
    waitpid(first, NULL, 0);
    return 0;
}
