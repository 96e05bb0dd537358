/* hook_loader LIBRARY WAY [before]: loads a library with RTLD_LOCAL and calls its `use`. Prints whether
 * the program itself can see the driver, before and after. */
#include "hook_client.h"

static void tell_visible(const char *when) {
    printf("%s: default %s, next %s\n", when,
           dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL ? "found" : "none",
           dlsym(RTLD_NEXT, "cuMemAlloc_v2") != NULL ? "found" : "none");
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    tell_visible("before");
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        DIE("%s", dlerror());
    ((void (*)(const char *))need(library, "use"))(argv[2]);
    tell_visible("after");
    return 0;
}
