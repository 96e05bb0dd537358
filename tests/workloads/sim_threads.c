/* Eight threads allocate, fill, read back and free on the simulated driver, each kind of memory.
 * At the end the books must be balanced, and their counts exact. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 2000 };

static int (*retain)(void **, int), (*set_current)(void *);
static int (*alloc)(uint64_t *, size_t), (*free_device)(uint64_t);
static int (*alloc_async)(uint64_t *, size_t, void *), (*free_async)(uint64_t, void *);
static int (*alloc_host)(void **, size_t, unsigned), (*free_host)(void *);
static int (*fill)(uint64_t, unsigned char, size_t), (*to_host)(void *, uint64_t, size_t);
static int (*books)(char *, size_t);

#define MUST(call) \
    do { \
        int code_ = (call); \
        if (code_ != 0) { \
            printf("line %d: %s gave %d\n", __LINE__, #call, code_); \
            exit(1); \
        } \
    } while (0)

static void *work(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    const unsigned char mark = (unsigned char)(1 + (uintptr_t)argument);
    void *context;
    MUST(retain(&context, 0));
    MUST(set_current(context));
    for (int round = 0; round < ROUNDS; round++) {
        const size_t bytes = 1 + (size_t)rand_r(&seed) % (round % 50 == 0 ? 3 << 20 : 5000);
        uint64_t a, b;
        void *host;
        unsigned char back[64];
        const size_t some = bytes < sizeof back ? bytes : sizeof back;
        MUST(alloc(&a, bytes));
        MUST(alloc_async(&b, bytes, NULL));
        MUST(alloc_host(&host, bytes, 0));
        MUST(fill(a, mark, bytes));
        MUST(fill(b, mark, bytes));
        MUST(to_host(back, a + bytes - some, some));
        for (size_t i = 0; i < some; i++) MUST(back[i] != mark);
        MUST(to_host(back, b, some));
        for (size_t i = 0; i < some; i++) MUST(back[i] != mark);
        MUST(free_host(host));
        MUST(free_async(b, NULL));
        MUST(free_device(a));
    }
    return NULL;
}

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        puts(dlerror());
        return 1;
    }
#define FIND(variable, name) *(void **)&variable = dlsym(driver, name)
    int (*init)(unsigned), (*synchronize)(void);
    FIND(init, "cuInit");
    FIND(synchronize, "cuCtxSynchronize");
    FIND(retain, "cuDevicePrimaryCtxRetain");
    FIND(set_current, "cuCtxSetCurrent");
    FIND(alloc, "cuMemAlloc_v2");
    FIND(free_device, "cuMemFree_v2");
    FIND(alloc_async, "cuMemAllocAsync");
    FIND(free_async, "cuMemFreeAsync");
    FIND(alloc_host, "cuMemHostAlloc");
    FIND(free_host, "cuMemFreeHost");
    FIND(fill, "cuMemsetD8_v2");
    FIND(to_host, "cuMemcpyDtoH_v2");
    FIND(books, "gpumem_sim_books_json");
    MUST(init(0));
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);

    void *context;
    MUST(retain(&context, 0));
    MUST(set_current(context));
    MUST(synchronize());
    char text[4096], counts[64];
    books(text, sizeof text);
    snprintf(counts, sizeof counts, "\"allocations\":%d,\"frees\":%d", THREADS * ROUNDS,
             THREADS * ROUNDS);
    int kinds = 0;
    for (const char *at = text; (at = strstr(at, counts)); at++) kinds++;
    const char *driver_row = strstr(text, "\"driver\":{\"current\":0,");
    char physical[64];
    const char *cost = strstr(text, "\"context_bytes\":");
    snprintf(physical, sizeof physical, "\"physical\":{\"current\":%llu,",
             strtoull(cost + strlen("\"context_bytes\":"), NULL, 10));
    /* device, async, host, and the last once more in pinned */
    if (kinds != 4 || !driver_row || !strstr(text, physical)) {
        printf("not even: %s\n", text);
        return 1;
    }
    puts("even");
    return 0;
}
