/* reach_loader LIBRARY WAY [deep] [local|global] [lazy] [namespace|past]: loads a library with
 * these flags and calls its `use(WAY)`. Without LIBRARY ("-") calls the `use` of a preloaded
 * library. With "namespace" or "past" the library is loaded by dlmopen or by the C library's own
 * dlopen, and this process also uses CUDA in the ordinary way: 4096 bytes. */
#include "hook_client.h"

int main(int argc, char **argv) {
    int flags = RTLD_NOW, apart = 0, past = 0;
    if (argc < 3)
        return 2;
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "deep") == 0)
            flags |= RTLD_DEEPBIND;
        else if (strcmp(argv[i], "global") == 0)
            flags |= RTLD_GLOBAL;
        else if (strcmp(argv[i], "lazy") == 0)
            flags = (flags & ~RTLD_NOW) | RTLD_LAZY;
        else if (strcmp(argv[i], "namespace") == 0)
            apart = 1;
        else if (strcmp(argv[i], "past") == 0)
            past = 1;
        else if (strcmp(argv[i], "local") != 0)
            DIE("no such flag: %s", argv[i]);
    }
    void (*use)(const char *);
    if (strcmp(argv[1], "-") == 0) {
        use = (void (*)(const char *))need(RTLD_DEFAULT, "use");
    } else {
        void *(*load)(const char *, int) = dlopen;
        if (past)
            load = (void *(*)(const char *, int))need(dlopen("libc.so.6", RTLD_NOW), "dlopen");
        void *library = apart ? dlmopen(LM_ID_NEWLM, argv[1], flags) : load(argv[1], flags);
        if (library == NULL)
            DIE("%s", dlerror());
        use = (void (*)(const char *))need(library, "use");
    }
    if (apart || past) {
        start();
        pointer_t pointer;
        CHECK(((alloc_t)need(driver(), "cuMemAlloc_v2"))(&pointer, 4096));
    }
    use(argv[2]);
    return 0;
}
