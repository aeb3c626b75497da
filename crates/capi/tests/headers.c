/* Includes the headers first, and uses each. */
#include <fdtable/table.h>
#include <fdtable/platform.h>

int free_table(struct fdt_table *table)
{
    struct fdt_section section = fdt_read_lock();
    fdt_read_unlock(section);
    fdt_table_free(table);
    return fdt_platform.want_tick ? fdt_tick() : 0;
}
