/* Functions of the driver that are found without the loader, and so without the recorder. */
#include "../hook_client.h"
#include <elf.h>
#include <link.h>

/* The driver's own function, by its symbol table: the loader is not queried. */
static inline void *of_driver(void *library, const char *name) {
    struct link_map *loaded = library;
    const ElfW(Sym) *all = NULL;
    const char *text = NULL;
    for (const ElfW(Dyn) *one = loaded->l_ld; one->d_tag != DT_NULL; one++) {
        if (one->d_tag == DT_SYMTAB)
            all = (const void *)one->d_un.d_ptr;
        if (one->d_tag == DT_STRTAB)
            text = (const void *)one->d_un.d_ptr;
    }
    /* The table of names follows the table of symbols. */
    for (; (const void *)all < (const void *)text; all++)
        if (all->st_value != 0 && strcmp(text + all->st_name, name) == 0)
            return (void *)(loaded->l_addr + all->st_value);
    DIE("the driver has no %s", name);
}
