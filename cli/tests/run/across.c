/* Links and renames between two file systems. The first argument is a path of the other one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRY(call)                                                                       \
    do {                                                                                \
        long result = (call);                                                           \
        printf("%s " #call ": %ld %s\n", here, result, result < 0 ? strerror(errno) : ""); \
    } while (0)

static void all(const char *here, int from, int to)
{
    close(openat(from, "file", O_CREAT | O_RDWR, 0600));
    mkdirat(from, "folder", 0700);
    int file = openat(from, "file", O_RDWR);
    TRY(linkat(from, "", to, "new", 0));
    TRY(linkat(from, "missing", to, "new", 0));
    TRY(linkat(from, "missing", to, "missing/new", 0));
    TRY(linkat(from, "file", to, "missing/new", 0));
    TRY(linkat(from, "file", to, "there/new", 0));
    TRY(linkat(from, "file", to, "there", 0));
    TRY(linkat(from, "file", to, "", 0));
    TRY(linkat(from, "file", to, "new", 0));
    TRY(linkat(from, "file/new", to, "new", 0));
    TRY(linkat(from, "folder", to, "new", 0));
    TRY(linkat(file, "file", to, "new", 0));
    TRY(linkat(-1, "file", to, "new", 0));
    TRY(linkat(file, "", to, "new", AT_EMPTY_PATH));
    TRY(linkat(-1, "", to, "new", AT_EMPTY_PATH));
    TRY(renameat(from, "", to, "new"));
    TRY(renameat(from, "missing", to, "new"));
    TRY(renameat(from, "missing/file", to, "new"));
    TRY(renameat(from, "file", to, "missing/new"));
    TRY(renameat(from, "file", to, "there/new"));
    TRY(renameat(from, "file", to, "there"));
    TRY(renameat(from, "file", to, ""));
    TRY(renameat(file, "file", to, "new"));
    TRY(renameat(from, "file", file, "new"));
    TRY(renameat(-1, "file", to, "new"));
}

int main(int count, char **words)
{
    int one = open(".", O_RDONLY), other = open(words[1], O_RDONLY);

    setbuf(stdout, NULL);
    close(openat(one, "there", O_CREAT | O_RDWR, 0600));
    close(openat(other, "there", O_CREAT | O_RDWR, 0600));
    all("from here", one, other);
    all("from there", other, one);
    return 0;
}
