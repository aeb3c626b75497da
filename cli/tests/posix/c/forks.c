/* Child processes: descriptors of their own for the same open files. */
#include "check.h"

#define IN_CHILD(...)                        \
    do {                                     \
        fflush(stdout);                      \
        pid_t child = fork();                \
        if (child == 0) {                    \
            alarm(8);                        \
            __VA_ARGS__;                     \
            fflush(stdout);                  \
            _exit(0);                        \
        }                                    \
        int status = wait_for(child);        \
        VALUE(status);                       \
    } while (0)

static void numbers(void) {
    make_file("file", "abcdef");
    CALL(open("file", O_RDWR));
    CALL(open("file", O_RDWR | O_CLOEXEC));
    IN_CHILD({
        CALL(fcntl(3, F_GETFD));
        CALL(fcntl(4, F_GETFD));
        CALL(dup(3));
        CALL(close(3));
        CALL(close(4));
        CALL(open("file", O_RDONLY));
    });
    CALL(fcntl(3, F_GETFD));
    CALL(fcntl(4, F_GETFD));
    CALL(fcntl(5, F_GETFD));
    CALL(dup(3));
}

static void child_works(void) {
    make_file("file", "abcdef");
    CALL(open("file", O_RDWR));
    CALL(lseek(3, 2, SEEK_SET));
    IN_CHILD({
        int ends[2];
        TEXT(read_text(3));
        CALL(pipe(ends));
        CALL(write(ends[1], "own", 3));
        TEXT(read_text(ends[0]));
        make_file("child", "made by it");
        TEXT(file_text("child"));
        CALL(mkdir("dir", 0755));
        CALL(chdir("dir"));
    });
    CALL(access("../child_works/file", F_OK));
}

/* Parent and child share an open file: its position, its flags, and its content. */
static void shared(void) {
    make_file("file", "abcdef");
    CALL(open("file", O_RDWR));
    IN_CHILD({
        CALL(lseek(3, 4, SEEK_SET));
        CALL(fcntl(3, F_SETFL, O_APPEND));
    });
    CALL(lseek(3, 0, SEEK_CUR));
    VALUE(fcntl(3, F_GETFL) & O_APPEND);
    IN_CHILD({ CALL(write(3, "gh", 2)); });
    TEXT(file_text("file"));
}

static void through_pipes(void) {
    int ends[2];
    struct pollfd one;
    CALL(pipe(ends));
    IN_CHILD({ CALL(write(ends[1], "from the child", 14)); });
    CALL(fcntl(ends[0], F_SETFL, O_NONBLOCK));
    TEXT(read_text(ends[0]));
    one = (struct pollfd){ends[0], POLLIN, 0};
    CALL(close(ends[1]));
    CALL(poll(&one, 1, 0));
    VALUE(one.revents);
}

/* The child has no other threads, and needs none of them. */
static void *make_calls(void *stop) {
    while (!*(volatile bool *)stop) {
        int ends[2];
        if (pipe(ends) == 0) {
            write(ends[1], "x", 1);
            close(ends[0]);
            close(ends[1]);
        }
        int fd = open("busy", O_RDWR | O_CREAT, 0644);
        close(fd);
    }
    return NULL;
}

static void while_others_call(void) {
    static bool stop;
    pthread_t threads[2];
    int failures = 0;
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, make_calls, &stop);
    }
    for (int i = 0; i < 20; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int ends[2];
            bool good = pipe(ends) == 0 && write(ends[1], "x", 1) == 1 &&
                        strcmp(read_text(ends[0]), "x") == 0 && mkdir("mine", 0755) == 0 &&
                        rmdir("mine") == 0;
            _exit(!good);
        }
        failures += wait_for(child) != 0;
    }
    stop = true;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    VALUE(failures);
}

static void grandchildren(void) {
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    IN_CHILD({
        CALL(write(3, "child", 5));
        IN_CHILD({
            CALL(dup(3));
            CALL(lseek(4, 0, SEEK_CUR));
        });
        CALL(dup(3));
    });
    CALL(dup(3));
}

static const struct section sections[] = {
    {"numbers", numbers},
    {"child_works", child_works},
    {"shared", shared},
    {"through_pipes", through_pipes},
    {"while_others_call", while_others_call},
    {"grandchildren", grandchildren},
    {NULL, NULL},
};
const struct theme forks = {"forks", sections};
