#include "copy.h"
#include <fcntl.h>
#include <unistd.h>

long copy(const char *from, const char *to) {
    char bytes[100];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0644);
    long count = read(in, bytes, sizeof bytes);
    count = count < 0 ? count : write(out, bytes, (size_t)count);
    close(in);
    close(out);
    return count;
}
