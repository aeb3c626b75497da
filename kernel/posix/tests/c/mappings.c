/* Memory mappings of files. */
#include "check.h"

static const char *mapped(void *address) {
    if (address == MAP_FAILED) {
        return strerrorname_np(errno);
    }
    return "mapped";
}

static void private_mappings(void) {
    static char page[4096];
    memset(page, 'p', sizeof page);
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(write(3, page, 4096));
    CALL(write(3, "tail", 4));
    char *both = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, 3, 0);
    TEXT(mapped(both));
    VALUE(both[0]);
    TEXT(both + 4096);
    both[0] = 'q';
    CALL(pread(3, page, 1, 0));
    VALUE(page[0]);
    CALL(munmap(both, 8192));
    char *tail = mmap(NULL, 4, PROT_READ, MAP_PRIVATE, 3, 4096);
    TEXT(mapped(tail));
    TEXT(tail);
    CALL(close(3));
    TEXT(tail);
    CALL(munmap(tail, 4));
}

static void shared_mappings(void) {
    make_file("a", "shared");
    CALL(open("a", O_RDWR));
    char *read_only = mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3, 0);
    TEXT(mapped(read_only));
    TEXT(read_only);
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0)));
}

static void mapping_errors(void) {
    int ends[2];
    make_file("a", "text");
    CALL(open("a", O_RDONLY));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 99, 0)));
    TEXT(mapped(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, 3, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 1)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, 0, 3, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, 3, 0)));
    CALL(open("a", O_WRONLY));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 4, 0)));
    CALL(pipe(ends));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, ends[0], 0)));
    CALL(open(".", O_RDONLY));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 7, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0)));
}

static const struct section sections[] = {
    {"private_mappings", private_mappings},
    {"shared_mappings", shared_mappings},
    {"mapping_errors", mapping_errors},
    {NULL, NULL},
};
const struct theme mappings = {"mappings", sections};
