// Maps a file below an overlay in all ways, and shows the link to this program. With another
// argument, maps the file whole, and shows the most memory that the process had.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

static void map_whole(const char *name)
{
    int fd = open(name, O_RDONLY);
    size_t size = lseek(fd, 0, SEEK_END);
    int kinds[] = {MAP_PRIVATE, MAP_SHARED};
    for (int i = 0; i < 2; i++) {
        char *bytes = mmap(0, size, PROT_READ, kinds[i], fd, 0);
        CHECK(bytes != MAP_FAILED && bytes[0] == 0 && bytes[size - 1] == 0);
    }
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            printf("%zu %s", size, line + 6);
}

int main(int count, char **words)
{
    char text[6], link[4096] = {0};
    if (count == 3) {
        map_whole(words[1]);
        return 0;
    }
    CHECK(count == 2);
    CHECK(readlink("/proc/self/exe", link, sizeof link - 1) > 0);
    puts(link);
    int program = open("/proc/self/exe", O_RDONLY), own = open(words[0], O_RDONLY);
    char ours[64], theirs[64];
    CHECK(read(program, ours, 64) == 64 && read(own, theirs, 64) == 64);
    CHECK(memcmp(ours, theirs, 64) == 0);
    CHECK(realpath("/proc/self/exe", link) == link);
    puts(link);

    size_t size = 30000;
    int reader = open(words[1], O_RDONLY), both = open(words[1], O_RDWR);
    CHECK(reader >= 0 && both >= 0);
    char *private = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, reader, 0);
    char *only = mmap(0, size, PROT_READ, MAP_SHARED, reader, 0);
    CHECK(private != MAP_FAILED && only != MAP_FAILED);
    CHECK(memcmp(private, "below below", 11) == 0 && memcmp(only, private, size) == 0);
    CHECK(mprotect(only, size, PROT_READ | PROT_WRITE) == -1);
    private[0] = 'P';
    CHECK(only[0] == 'b');
    CHECK(pread(reader, text, 5, 0) == 5 && memcmp(text, "below", 5) == 0);

    char *shared = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, both, 4096);
    CHECK(shared != MAP_FAILED);
    CHECK(memcmp(shared, private + 4096, size - 4096) == 0);
    memcpy(shared, "SHARED", 6);
    CHECK(pread(reader, text, 6, 4096) == 6 && memcmp(text, "SHARED", 6) == 0);
    CHECK(pwrite(both, "written", 7, 8192) == 7);
    CHECK(memcmp(shared + 4096, "written", 7) == 0);
    CHECK(private[4096] != 'S' && private[0] == 'P');
    puts("done");
    return 0;
}
