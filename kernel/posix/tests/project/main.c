/* Copies a file with the functions of the other sources. */
#include "copy.h"
#include <stdio.h>
#include <unistd.h>

int main(void) {
    FILE *file = fopen("/fdt/from", "w");
    if (!file || fputs("copied", file) < 0 || fclose(file) != 0) {
        return 1;
    }
    if (copy("/fdt/from", "/fdt/to") != 6) {
        return 2;
    }
    printf("%ld bytes, ours: %d\n", size_of("/fdt/to"), access("/fdt/to", F_OK) == 0);
    return 0;
}
