/* Shared by the hook_*.c clients: the driver's types, declared by hand so that no CUDA headers
 * are needed, and comparisons of the recorder's counters with the simulator's books. */
#ifndef HOOK_CLIENT_H
#define HOOK_CLIENT_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t pointer_t; /* CUdeviceptr, CUmemGenericAllocationHandle */
typedef int (*alloc_t)(pointer_t *, size_t);
typedef int (*free_t)(pointer_t);
typedef int (*proc1_t)(const char *, void **, int, uint64_t);
typedef int (*proc2_t)(const char *, void **, int, uint64_t, int *);

struct location { uint32_t type; int id; };
struct properties { /* CUmemAllocationProp */
    uint32_t type, handle_types;
    struct location location;
    void *win32;
    unsigned char flags[8];
};

struct counters { uint64_t live, peak, allocations, frees; };

#define DIE(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(2))
#define CHECK(call)                                                                                \
    do {                                                                                           \
        int error_ = (call);                                                                       \
        if (error_ != 0)                                                                           \
            DIE("line %d: %s gave %d", __LINE__, #call, error_);                                   \
    } while (0)

static inline void *need(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (symbol == NULL)
        DIE("no %s: %s", name, dlerror());
    return symbol;
}

/* The simulated driver, loaded so that no other library sees it. */
static inline void *driver(void) {
    static void *library;
    if (library == NULL && (library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) == NULL)
        DIE("%s", dlerror());
    return library;
}

/* Context of device 0, current on this thread. */
static inline void *start(void) {
    void *context;
    CHECK(((int (*)(unsigned))need(driver(), "cuInit"))(0));
    CHECK(((int (*)(void **, int))need(driver(), "cuDevicePrimaryCtxRetain"))(&context, 0));
    CHECK(((int (*)(void *))need(driver(), "cuCtxSetCurrent"))(context));
    return context;
}

static inline void books(int device, const char *kind, uint64_t *current, uint64_t *peak) {
    static int (*ask)(int, const char *, uint64_t *, uint64_t *);
    if (ask == NULL)
        *(void **)&ask = need(driver(), "gpumem_sim_books");
    CHECK(ask(device, kind, current, peak));
}

/* Ends the program if the recorder, where there is one, counts otherwise than the simulator's books.
 * Levels: 1 driver, 2 host. */
static inline void agree_on(int device, int level, const char *kind, const char *after, int line) {
    static int (*ask)(int, int, struct counters *);
    static int looked;
    if (!looked) {
        *(void **)&ask = dlsym(RTLD_DEFAULT, "gpumem_counters");
        looked = 1;
    }
    if (ask == NULL)
        return;
    struct counters ours = {0, 0, 0, 0};
    uint64_t current, peak;
    if (ask(device, level, &ours) != 0)
        return; /* nothing is recorded here */
    books(device, kind, &current, &peak);
    if (ours.live != current || ours.peak != peak)
        DIE("line %d, after %s: %s of device %d: recorder %llu, peak %llu; books %llu, peak %llu", line,
            after, kind, device, (unsigned long long)ours.live, (unsigned long long)ours.peak,
            (unsigned long long)current, (unsigned long long)peak);
}
#define AGREE(after)                                                                               \
    do {                                                                                           \
        agree_on(0, 1, "driver", after, __LINE__);                                                 \
        agree_on(0, 2, "host", after, __LINE__);                                                   \
    } while (0)

static inline void tell_books(const char *what) {
    uint64_t current, peak;
    books(0, "driver", &current, &peak);
    printf("%s: %llu live, %llu peak\n", what, (unsigned long long)current, (unsigned long long)peak);
    fflush(stdout);
}
#endif
