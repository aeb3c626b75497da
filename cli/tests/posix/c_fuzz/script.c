/* Parses and runs scripts. It makes no call itself that fdtable has. */
#include "fuzz.h"

#include <ctype.h>
#include <stdarg.h>

struct shared *shared;
_Thread_local char room[ROOM];
_Thread_local int script_thread;

/* Other threads of the same script use the slots too. */
static _Atomic int slots[SLOTS];

static _Thread_local char shown[1 << 16];
static _Thread_local size_t shown_length;
static _Thread_local int call_number;
static bool is_quiet; /* several threads: the lines would not be comparable */

#define C(name) {#name, name}
static const struct {
    const char *name;
    long value;
} constants[] = {
    C(O_RDONLY), C(O_WRONLY), C(O_RDWR), C(O_ACCMODE), C(O_CREAT), C(O_EXCL), C(O_TRUNC),
    C(O_APPEND), C(O_NONBLOCK), C(O_CLOEXEC), C(O_DIRECTORY), C(O_NOFOLLOW), C(O_PATH),
    C(O_TMPFILE), C(O_SYNC), C(O_DSYNC), C(O_DIRECT), C(O_NOATIME), C(O_NOCTTY), C(O_ASYNC),
    C(O_LARGEFILE), C(SEEK_SET), C(SEEK_CUR), C(SEEK_END), C(SEEK_DATA), C(SEEK_HOLE), C(F_DUPFD),
    C(F_DUPFD_CLOEXEC), C(F_GETFD), C(F_SETFD), C(F_GETFL), C(F_SETFL), C(F_GETLK), C(F_SETLK),
    C(F_OFD_GETLK), C(F_OFD_SETLK), C(F_GETPIPE_SZ), C(F_SETPIPE_SZ), C(F_GETOWN), C(F_SETOWN),
    C(F_GETSIG), C(F_SETSIG), C(F_GETLEASE), C(F_SETLEASE), C(F_ADD_SEALS), C(F_GET_SEALS),
    C(F_RDLCK), C(F_WRLCK), C(F_UNLCK), C(F_SEAL_WRITE), C(F_SEAL_GROW), C(F_SEAL_SHRINK),
    C(F_SEAL_SEAL), C(FD_CLOEXEC), C(F_OK), C(R_OK), C(W_OK), C(X_OK), C(AT_FDCWD),
    C(AT_EMPTY_PATH), C(AT_SYMLINK_NOFOLLOW), C(AT_SYMLINK_FOLLOW), C(AT_REMOVEDIR),
    C(AT_EACCESS), C(AT_NO_AUTOMOUNT), C(S_IFREG), C(S_IFIFO), C(S_IFDIR), C(S_IFSOCK),
    C(S_IFLNK), C(S_IFCHR), C(RENAME_NOREPLACE), C(RENAME_EXCHANGE), C(RENAME_WHITEOUT),
    C(UTIME_NOW), C(UTIME_OMIT), C(FALLOC_FL_KEEP_SIZE), C(FALLOC_FL_PUNCH_HOLE),
    C(FALLOC_FL_ZERO_RANGE), C(FALLOC_FL_COLLAPSE_RANGE), C(FALLOC_FL_INSERT_RANGE), C(LOCK_SH),
    C(LOCK_EX), C(LOCK_UN), C(LOCK_NB), C(CLOSE_RANGE_CLOEXEC), C(CLOSE_RANGE_UNSHARE),
    C(STATX_BASIC_STATS), C(STATX_MODE), C(STATX_SIZE), C(STATX_TYPE), C(STATX__RESERVED),
    C(MFD_CLOEXEC), C(MFD_ALLOW_SEALING), C(MFD_HUGETLB), C(SPLICE_F_NONBLOCK), C(SPLICE_F_MOVE),
    C(PROT_NONE), C(PROT_READ), C(PROT_WRITE), C(PROT_EXEC), C(MAP_PRIVATE), C(MAP_SHARED),
    C(MAP_SHARED_VALIDATE), C(MAP_ANONYMOUS), C(FIONREAD), C(FIONBIO), C(FIOCLEX), C(FIONCLEX),
    C(TIOCOUTQ), C(TCGETS), C(AF_UNIX), C(AF_UNSPEC), C(SOCK_STREAM), C(SOCK_DGRAM),
    C(SOCK_SEQPACKET), C(SOCK_RAW), C(SOCK_NONBLOCK), C(SOCK_CLOEXEC), C(SHUT_RD), C(SHUT_WR),
    C(SHUT_RDWR), C(MSG_DONTWAIT), C(MSG_PEEK), C(MSG_TRUNC), C(MSG_WAITALL), C(MSG_NOSIGNAL),
    C(MSG_CMSG_CLOEXEC), C(MSG_EOR), C(MSG_OOB), C(MSG_MORE), C(MSG_ERRQUEUE), C(MSG_DONTROUTE),
    C(SOL_SOCKET), C(SO_TYPE), C(SO_ERROR), C(SO_ACCEPTCONN), C(SO_DOMAIN), C(SO_PROTOCOL),
    C(SO_SNDBUF), C(SO_RCVBUF), C(SO_PASSCRED), C(SO_PEERCRED), C(SO_REUSEADDR), C(SO_KEEPALIVE),
    C(SO_BROADCAST), C(SO_LINGER), C(SO_RCVLOWAT), C(SO_SNDLOWAT), C(SO_RCVTIMEO), C(SO_SNDTIMEO),
    C(SO_PRIORITY), C(SO_OOBINLINE), C(SO_TIMESTAMP), C(SO_REUSEPORT), C(SO_DONTROUTE),
    C(SO_PEEK_OFF), C(SO_PASSSEC), C(POLLIN), C(POLLOUT), C(POLLPRI), C(POLLRDHUP), C(POLLHUP),
    C(POLLERR), C(POLLNVAL), C(POLLRDNORM), C(POLLWRNORM), C(EPOLL_CTL_ADD), C(EPOLL_CTL_MOD),
    C(EPOLL_CTL_DEL), C(EPOLLIN), C(EPOLLOUT), C(EPOLLPRI), C(EPOLLRDHUP), C(EPOLLHUP),
    C(EPOLLERR), C(EPOLLET), C(EPOLLONESHOT), C(EPOLLEXCLUSIVE), C(EPOLLWAKEUP), C(EPOLL_CLOEXEC),
    C(EFD_CLOEXEC), C(EFD_NONBLOCK), C(EFD_SEMAPHORE), C(CLOCK_MONOTONIC), C(CLOCK_REALTIME),
    C(CLOCK_BOOTTIME), C(CLOCK_PROCESS_CPUTIME_ID), C(TFD_NONBLOCK), C(TFD_CLOEXEC),
    C(TFD_TIMER_ABSTIME), C(TFD_TIMER_CANCEL_ON_SET), C(LONG_MAX), C(LONG_MIN), C(INT_MAX),
    C(INT_MIN), C(UINT_MAX),
    /* Arguments that the program chooses. */
    {"data", 0}, {"buf", 0}, {"NULL", 0}, {"none", INT_MIN},
    /* Pointers: in the first page, and above the addresses of a process. */
    {"bad", 8}, {"high", (long)0xffff800000000000},
};

/* Strings that are too long for a line. */
static const char *long_text(const char *name) {
    static char name_255[256], name_256[257], path_4095[4096], path_4096[4097];
    if (!name_255[0]) {
        memset(name_256, 'n', 256);
        memset(name_255, 'n', 255);
        for (int i = 0; i < 4094; i++) {
            path_4095[i] = path_4096[i] = i % 2 ? '/' : '.';
        }
        strcpy(path_4095 + 4094, "a");
        strcpy(path_4096 + 4094, "/a");
    }
    return strcmp(name, "NAME_255") == 0    ? name_255
           : strcmp(name, "NAME_256") == 0  ? name_256
           : strcmp(name, "PATH_4095") == 0 ? path_4095
           : strcmp(name, "PATH_4096") == 0 ? path_4096
                                            : NULL;
}

static void malformed(const char *line, const char *at) {
    emit("(malformed at `%.20s`: %s)\n", at, line);
    _exit(9);
}

static const char *skip_space(const char *at) {
    while (*at == ' ') {
        at++;
    }
    return at;
}

/* Parses one word: a number, a slot, a constant. */
static const char *parse_word(const char *line, const char *at, struct value *value) {
    char word[64];
    size_t length = 0;
    while ((isalnum((unsigned char)*at) || *at == '_' || *at == '-') && length < sizeof word - 1) {
        word[length++] = *at++;
    }
    word[length] = 0;
    char *end;
    if (isdigit((unsigned char)word[0]) || word[0] == '-') {
        value->number |= strtol(word, &end, 0);
        return *end ? (malformed(line, word), at) : at;
    }
    if (word[0] == 's' && isdigit((unsigned char)word[1])) {
        value->number |= slots[strtoul(word + 1, NULL, 10) % SLOTS];
        return at;
    }
    const char *text = long_text(word);
    if (text) {
        value->text = text;
        return at;
    }
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (strcmp(constants[i].name, word) == 0) {
            value->number |= constants[i].value;
            return at;
        }
    }
    malformed(line, word);
    return at;
}

/* Parses a string. A slot after a path of descriptors becomes its number. */
static const char *parse_text(const char *line, const char *at, struct value *value, char **space) {
    const char *start = *space;
    while (*at && *at != '"') {
        if (*at == 's' && isdigit((unsigned char)at[1]) && memcmp(at - 3, "fd/", 3) == 0) {
            char *end;
            *space += sprintf(*space, "%d", slots[strtoul(at + 1, &end, 10) % SLOTS]);
            at = end;
            continue;
        }
        *(*space)++ = *at++;
    }
    if (*at != '"') {
        malformed(line, at);
    }
    *(*space)++ = 0;
    value->text = start;
    return at + 1;
}

/* Parses the arguments after the parenthesis. */
static void parse_arguments(const char *line, const char *at, struct call *call, char *space) {
    at = skip_space(at);
    while (*at && *at != ')') {
        if (call->count == ARGUMENTS) {
            malformed(line, at);
        }
        struct value *value = &call->arguments[call->count++];
        if (*at == '"') {
            at = parse_text(line, at + 1, value, &space);
        } else {
            at = parse_word(line, at, value);
            while (*at == '|') {
                at = parse_word(line, at + 1, value);
            }
            value->text = value->text ? value->text : (const char *)value->number;
        }
        at = skip_space(at);
        if (*at == ',') {
            at = skip_space(at + 1);
        } else if (*at != ')') {
            malformed(line, at);
        }
    }
}

static const struct operation *find(const char *name, size_t length) {
    const struct operation *tables[] = {descriptor_operations, path_operations, socket_operations};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct operation *it = tables[i]; it->name; it++) {
            if (strlen(it->name) == length && memcmp(it->name, name, length) == 0) {
                return it;
            }
        }
    }
    return NULL;
}

static const struct operation *parse(const char *line, struct call *call, char *space) {
    const char *at = line, *equals = strstr(line, " = ");
    *call = (struct call){.into = {-1, -1}};
    for (int i = 0; equals && i < 2 && at < equals; i++) {
        char *end;
        call->into[i] = (int)(strtoul(at + 1, &end, 10) % SLOTS);
        at = end + (*end == ',') + 1;
    }
    at = equals ? equals + 3 : line;
    const char *open = strchr(at, '(');
    const struct operation *operation = open ? find(at, (size_t)(open - at)) : NULL;
    if (!operation) {
        malformed(line, at);
    }
    parse_arguments(line, open + 1, call, space);
    if (call->count != operation->arguments && operation->arguments >= 0) {
        malformed(line, "number of arguments");
    }
    return operation;
}

static void run_line(const char *line) {
    struct call call;
    char space[1024];
    shown_length = 0;
    shown[0] = 0;
    snprintf(shared->current[script_thread], sizeof shared->current[0], "%s", line);
    const struct operation *operation = parse(line, &call, space);
    if (!is_quiet) {
        emit("%s", line);
    }
    errno = 0;
    long result = operation->run(&call);
    int error = errno;
    if (!is_quiet && result == -1) {
        emit(" = -1 %s%s\n", error ? strerrorname_np(error) : "without errno", shown);
    } else if (!is_quiet) {
        emit(" = %ld%s\n", result, shown);
    }
    if (call.into[0] >= 0 && call.into[1] < 0) {
        set_slot(call.into[0], (int)result);
    }
}

void run_script(const char *script) {
    static _Thread_local char line[512];
    for (int i = 0; i < SLOTS && !is_quiet; i++) {
        slots[i] = -1;
    }
    while (*script) {
        size_t length = strcspn(script, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, script);
        call_number++;
        if (length) {
            run_line(line);
        }
        script += length + (script[length] == '\n');
    }
    snprintf(shared->current[script_thread], sizeof shared->current[0], "(ended)");
}

static char **thread_scripts;
static pthread_barrier_t start;

static void *run_thread(void *number) {
    script_thread = (int)(long)number;
    pthread_barrier_wait(&start);
    run_script(thread_scripts[script_thread]);
    return NULL;
}

/* Runs each script in a thread of its own, all on one table. */
void run_threads(char **scripts, int count) {
    pthread_t threads[THREADS];
    is_quiet = true;
    thread_scripts = scripts;
    for (int i = 0; i < SLOTS; i++) {
        slots[i] = -1;
    }
    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (long i = 0; i < count; i++) {
        pthread_create(&threads[i], NULL, run_thread, (void *)i);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    bool is_empty = close_all();
    emit("%s%s\n", is_empty ? "consistent" : "inconsistent", shown);
}

void emit(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t left = sizeof shared->output - shared->length;
    int length = vsnprintf(shared->output + shared->length, left, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)length < left) {
        shared->length += (size_t)length;
    }
}

void show(const char *format, ...) {
    va_list arguments;
    int error = errno;
    va_start(arguments, format);
    size_t left = sizeof shown - shown_length;
    int length = vsnprintf(shown + shown_length, left, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)length < left) {
        shown_length += (size_t)length;
    }
    errno = error;
}

void next_line(void) { show("\n+"); }

void show_bytes(const void *bytes, long length) {
    const unsigned char *at = bytes;
    uint32_t hash = 2166136261;
    if (length < 0) {
        return;
    }
    for (long i = 0; i < length; i++) {
        hash = (hash ^ at[i]) * 16777619;
    }
    show(" \"");
    for (long i = 0; i < length && i < 12; i++) {
        show(isprint(at[i]) ? "%c" : "\\%o", at[i]);
    }
    show(length > 12 ? "...\" #%08x" : "\"", hash);
}

void show_path(const char *path, long length) {
    if (length < 0) {
        return;
    }
    show(" \"");
    for (long i = 0; i < length; i++) {
        show("%c", path[i]);
        /* The name of an unnamed file has the number of its inode. */
        bool is_number = path[i] == '#';
        while (is_number && i + 1 < length && isdigit((unsigned char)path[i + 1])) {
            i++;
        }
        if (path[i] == '[' && (i + 1 == length || isdigit((unsigned char)path[i + 1]))) {
            break;
        }
    }
    show("\"");
}

/* Times that a script sets are small. All others are the current one. */
static void show_time(const char *name, const struct timespec *time) {
    if (time->tv_sec != 0 && time->tv_sec < 1000000) {
        show(" %s=%ld.%ld", name, (long)time->tv_sec, time->tv_nsec);
    }
}

void show_stat(const struct stat *st) {
    show(" mode=%o nlink=%ld", st->st_mode, (long)st->st_nlink);
    show(" uid=%d gid=%d", st->st_uid, st->st_gid);
    if (S_ISREG(st->st_mode) || S_ISLNK(st->st_mode)) {
        show(" size=%ld", (long)st->st_size);
    }
    /* Linux does not initialize the times of a socket. */
    if (!S_ISSOCK(st->st_mode)) {
        show_time("atime", &st->st_atim);
        show_time("mtime", &st->st_mtim);
    }
}

void set_slot(int slot, int fd) {
    if (slot >= 0) {
        slots[slot] = fd;
    }
}

const char *some_data(void) {
    static char pattern[ROOM + 1024];
    if (!pattern[0]) {
        for (size_t i = 0; i < sizeof pattern; i++) {
            pattern[i] = (char)('a' + (i + i / 26 * 3) % 26);
        }
    }
    return pattern + call_number * 7 % 1000;
}
