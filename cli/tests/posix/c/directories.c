/* Directory listings. The order of entries depends on the file system, so they are sorted before
 * they are printed. */
#include "check.h"

static int by_name(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }

/* Returns the remaining names of a stream, sorted, each with a letter for its type. */
static const char *rest(DIR *dir) {
    static char text[1024];
    char *names[64];
    int count = 0;
    struct dirent *entry;
    text[0] = 0;
    while (count < 64 && (entry = readdir(dir)) != NULL) {
        char kind = entry->d_type == DT_DIR   ? 'd'
                    : entry->d_type == DT_REG ? 'f'
                    : entry->d_type == DT_LNK ? 'l'
                    : entry->d_type == DT_FIFO ? 'p'
                                               : '?';
        names[count] = malloc(strlen(entry->d_name) + 3);
        sprintf(names[count++], "%s:%c", entry->d_name, kind);
    }
    qsort(names, count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) {
        strcat(strcat(text, i ? " " : ""), names[i]);
        free(names[i]);
    }
    return text;
}

static void fill(void) {
    make_file("a", "");
    make_file("b", "");
    mkdir("dir", 0755);
    symlink("a", "soft");
    mkfifo("fifo", 0644);
}

static void listing(void) {
    fill();
    DIR *dir = opendir(".");
    POINTER(dir);
    CALL(dirfd(dir));
    CALL(fcntl(dirfd(dir), F_GETFD));
    TEXT(rest(dir));
    POINTER(readdir(dir));
    VALUE(errno);
    rewinddir(dir);
    make_file("c", "");
    unlink("a");
    rewinddir(dir);
    TEXT(rest(dir));
    CALL(closedir(dir));
    CALL(fcntl(3, F_GETFD));
    POINTER(opendir("missing"));
    POINTER(opendir("b"));
    POINTER(opendir("b/x"));
    POINTER(opendir(""));
    symlink("loop", "loop");
    POINTER(opendir("loop"));
    dir = opendir("dir");
    TEXT(rest(dir));
    closedir(dir);
}

static void from_descriptors(void) {
    fill();
    CALL(open(".", O_RDONLY | O_DIRECTORY));
    DIR *dir = fdopendir(3);
    POINTER(dir);
    CALL(dirfd(dir));
    TEXT(rest(dir));
    CALL(closedir(dir));
    CALL(close(3));
    CALL(open("b", O_RDONLY));
    POINTER(fdopendir(3));
    POINTER(fdopendir(99));
    CALL(open(".", O_PATH));
    POINTER(fdopendir(4));
}

static void positions(void) {
    char third[256];
    fill();
    DIR *dir = opendir(".");
    readdir(dir);
    readdir(dir);
    long place = telldir(dir);
    strcpy(third, readdir(dir)->d_name);
    readdir(dir);
    seekdir(dir, place);
    VALUE(strcmp(third, readdir(dir)->d_name));
    rewinddir(dir);
    TEXT(rest(dir));
    closedir(dir);
}

static void removed_while_listed(void) {
    mkdir("dir", 0755);
    make_file("dir/a", "");
    DIR *dir = opendir("dir");
    CALL(unlink("dir/a"));
    CALL(rmdir("dir"));
    TEXT(rest(dir));
    CALL(closedir(dir));
}

static void removed_working_directory(void) {
    struct stat st;
    mkdir("dir", 0755);
    CALL(chdir("dir"));
    CALL(rmdir("../dir"));
    CALL(chdir("."));
    CALL(stat(".", &st));
    VALUE(st.st_nlink);
    CALL(access(".", F_OK));
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    POINTER(getcwd(NULL, 0));
    DIR *dir = POINTER(opendir("."));
    errno = 0;
    POINTER(readdir(dir));
    CALL(closedir(dir));
    CALL(chdir(".."));
    CALL(access(".", F_OK));
}

static void many(void) {
    char name[32];
    int seen = 0;
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "a-rather-long-name-%d", i);
        make_file(name, "");
    }
    DIR *dir = opendir(".");
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        seen++;
        if (entry->d_name[0] != '.') {
            unlink(entry->d_name);
        }
    }
    VALUE(seen);
    closedir(dir);
    dir = opendir(".");
    TEXT(rest(dir));
    closedir(dir);
}

static int only_files(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void scanning(void) {
    struct dirent **names = NULL;
    fill();
    CALL(scandir(".", &names, only_files, alphasort));
    TEXT(names[0]->d_name);
    TEXT(names[4]->d_name);
    CALL(scandir("missing", &names, NULL, alphasort));
    CALL(scandir("a", &names, NULL, alphasort));
}

static void raw_entries(void) {
    static char buffer[4096];
    fill();
    CALL(open(".", O_RDONLY));
    CALL(getdents64(3, buffer, sizeof buffer) > 0);
    CALL(getdents64(3, buffer, sizeof buffer));
    CALL(lseek(3, 0, SEEK_SET));
    CALL(getdents64(3, buffer, sizeof buffer) > 0);
    CALL(lseek(3, 0, SEEK_SET));
    CALL(getdents64(3, buffer, 8));
    CALL(getdents64(3, bad, sizeof buffer));
    CALL(getdents64(99, buffer, sizeof buffer));
    CALL(open("a", O_RDONLY));
    CALL(getdents64(4, buffer, sizeof buffer));
    CALL(read(3, buffer, 10));
    CALL(mkdir("gone", 0755));
    CALL(open("gone", O_RDONLY));
    CALL(rmdir("gone"));
    CALL(getdents64(5, buffer, sizeof buffer));
}

static const struct section sections[] = {
    {"listing", listing},   {"from_descriptors", from_descriptors},
    {"positions", positions}, {"removed_while_listed", removed_while_listed},
    {"removed_working_directory", removed_working_directory},
    {"many", many},         {"scanning", scanning},
    {"raw_entries", raw_entries},
    {NULL, NULL},
};
const struct theme directories = {"directories", sections};
