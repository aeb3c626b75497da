/* Includes the header first, and calls a function of it. */
#include <fdtable.h>

void free_table(struct fdt_table *table)
{
    struct fdt_section section = fdt_read_lock();
    fdt_read_unlock(section);
    fdt_table_free(table);
}
