/* Memory that no call requests, step by step as the arguments select: contexts, streams, modules, libraries, limits
 * and launches. After each step the card is read, the recorder's figure of the card's memory must equal the
 * simulator's, and a line shows the simulator's books: `step context module physical`. */
#include "hook_client.h"

#define F(name, ...) int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__))need(driver(), #name)
enum { STACK = 0, HEAP = 2, MIB = 1 << 20 };

static uint64_t book(const char *kind) {
    static int (*ask)(int, const char *, uint64_t *, uint64_t *);
    uint64_t current = 0, peak;
    if (ask == NULL)
        ask = need(driver(), "gpumem_sim_books");
    return ask(0, kind, &current, &peak) == 0 ? current : 0;
}

/* Waits for a file of another process. */
static void await_file(const char *name) {
    while (access(name, F_OK) != 0)
        usleep(1000);
}

static void make_file(const char *name) {
    FILE *file = fopen(name, "w");
    if (file == NULL || fclose(file) != 0)
        DIE("no file %s", name);
}

static void settled(const char *step) {
    int (*ask)(int, int, struct counters *) = dlsym(RTLD_DEFAULT, "gpumem_counters");
    int (*read_card)(int) = dlsym(RTLD_DEFAULT, "gpumem_read_card");
    struct counters ours = {0, 0, 0, 0};
    uint64_t physical = book("physical");
    if (getenv("NOT_READ") == NULL && read_card != NULL)
        read_card(-1);
    if (getenv("TELL_ONLY") == NULL && ask != NULL && ask(0, 3, &ours) == 0 && ours.live != physical)
        DIE("after %s: the recorder has %llu, the books %llu", step, (unsigned long long)ours.live,
            (unsigned long long)physical);
    printf("%s %llu %llu %llu\n", step, (unsigned long long)book("context"),
           (unsigned long long)book("module"), (unsigned long long)physical);
}

int main(int count, char **steps) {
    static const char image[] = "code";
    void *primary = NULL, *own = NULL, *module = NULL, *library = NULL, *kernel, *function = NULL, *got;
    void *streams[64];
    int made = 0;
    pointer_t block;

    F(cuMemAlloc_v2, pointer_t *, size_t);
    F(cuMemFree_v2, pointer_t);
    F(cuCtxCreate_v2, void **, unsigned, int);
    F(cuCtxDestroy_v2, void *);
    F(cuCtxSetCurrent, void *);
    F(cuDevicePrimaryCtxReset_v2, int);
    F(cuCtxSetLimit, int, size_t);
    F(cuStreamCreate, void **, unsigned);
    F(cuStreamCreateWithPriority, void **, unsigned, int);
    F(cuStreamDestroy_v2, void *);
    F(cuModuleLoadData, void **, const void *);
    F(cuModuleGetFunction, void **, void *, const char *);
    F(cuModuleGetGlobal_v2, pointer_t *, size_t *, void *, const char *);
    F(cuModuleUnload, void *);
    F(cuLibraryLoadData, void **, const void *, void *, void *, unsigned, void *, void *, unsigned);
    F(cuLibraryGetKernel, void **, void *, const char *);
    F(cuKernelGetFunction, void **, void *);
    F(cuLibraryUnload, void *);
    F(cuLaunchKernel, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
      void **, void **);

    for (int i = 1; i < count; i++) {
        const char *step = steps[i];
        if (strcmp(step, "context") == 0)
            primary = start();
        else if (strcmp(step, "own") == 0)
            CHECK(cuCtxCreate_v2(&own, 0, 0));
        else if (strcmp(step, "destroy") == 0) {
            CHECK(cuCtxDestroy_v2(own));
            CHECK(cuCtxSetCurrent(primary));
        } else if (strcmp(step, "reset") == 0)
            CHECK(cuDevicePrimaryCtxReset_v2(0));
        else if (strcmp(step, "streams") == 0)
            for (int end = made + 8; made < end; made++)
                CHECK(made % 2 == 0 ? cuStreamCreate(&streams[made], 0)
                                    : cuStreamCreateWithPriority(&streams[made], 1, -1));
        else if (strcmp(step, "no-stream") == 0) {
            if (cuStreamCreate(&streams[made], 99) == 0)
                DIE("a stream of no kind");
        } else if (strcmp(step, "destroy-streams") == 0)
            while (made > 0)
                CHECK(cuStreamDestroy_v2(streams[--made]));
        else if (strcmp(step, "module") == 0)
            CHECK(cuModuleLoadData(&module, image));
        else if (strcmp(step, "function") == 0)
            CHECK(cuModuleGetFunction(&function, module, "kernel"));
        else if (strcmp(step, "unload") == 0)
            CHECK(cuModuleUnload(module));
        else if (strcmp(step, "unload-again") == 0) {
            if (cuModuleUnload(module) == 0)
                DIE("unloaded twice");
        } else if (strcmp(step, "kernel-again") == 0) {
            if (cuKernelGetFunction(&got, module) == 0)
                DIE("a function of what is gone");
        }
        else if (strcmp(step, "library") == 0) {
            CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
            CHECK(cuLibraryGetKernel(&kernel, library, "kernel"));
        } else if (strcmp(step, "kernel") == 0) {
            CHECK(cuKernelGetFunction(&got, kernel));
            function = got;
        } else if (strcmp(step, "unload-library") == 0)
            CHECK(cuLibraryUnload(library));
        else if (strcmp(step, "heap") == 0)
            CHECK(cuCtxSetLimit(HEAP, 64 * MIB));
        else if (strcmp(step, "less-heap") == 0)
            CHECK(cuCtxSetLimit(HEAP, 8 * MIB));
        else if (strcmp(step, "stack") == 0)
            CHECK(cuCtxSetLimit(STACK, 4096));
        else if (strcmp(step, "less-stack") == 0)
            CHECK(cuCtxSetLimit(STACK, 1024));
        else if (strcmp(step, "variable") == 0)
            CHECK(cuModuleGetGlobal_v2(&block, NULL, module, "variable"));
        else if (strcmp(step, "launch") == 0)
            CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        else if (strcmp(step, "launch-kernel") == 0)
            CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        else if (strcmp(step, "block") == 0)
            CHECK(cuMemAlloc_v2(&block, 5 * MIB));
        else if (strcmp(step, "free") == 0)
            CHECK(cuMemFree_v2(block));
        else if (strcmp(step, "wait") == 0)
            usleep(300 * 1000);
        else if (strcmp(step, "show") == 0) {
            make_file("here");
            await_file("seen");
        } else if (strcmp(step, "meet") == 0)
            await_file("here");
        else if (strcmp(step, "part") == 0) {
            make_file("seen");
            await_file("gone");
        } else
            DIE("no step %s", step);
        settled(step);
        fflush(stdout);
    }
    return 0;
}
