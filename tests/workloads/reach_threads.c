/* reach_threads: sixteen threads look the driver's functions up at the same moment, each in a
 * different way, and call them once. */
#include "hook_client.h"
#include <pthread.h>

enum { THREADS = 16 };
static pthread_barrier_t together;

static void *one(void *argument) {
    long number = (long)argument;
    alloc_t allocate = NULL;
    free_t release = NULL;
    pointer_t pointer = 0;
    pthread_barrier_wait(&together);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | (number & 1 ? RTLD_DEEPBIND : 0));
    if (library == NULL)
        DIE("%s", dlerror());
    if (number % 4 < 2) {
        allocate = (alloc_t)need(library, "cuMemAlloc_v2");
        release = (free_t)need(library, "cuMemFree_v2");
    } else if (number % 4 == 2) {
        allocate = (alloc_t)dlvsym(library, "cuMemAlloc_v2", "libcuda.so.1");
        release = (free_t)dlvsym(library, "cuMemFree_v2", "libcuda.so.1");
    } else {
        proc2_t ask = (proc2_t)need(library, "cuGetProcAddress_v2");
        CHECK(ask("cuMemAlloc", (void **)&allocate, 12000, 0, NULL));
        CHECK(ask("cuMemFree", (void **)&release, 12000, 0, NULL));
    }
    void *context;
    CHECK(((int (*)(unsigned))need(library, "cuInit"))(0));
    CHECK(((int (*)(void **, int))need(library, "cuDevicePrimaryCtxRetain"))(&context, 0));
    CHECK(((int (*)(void *))need(library, "cuCtxSetCurrent"))(context));
    CHECK(allocate(&pointer, (size_t)(number + 1) << 20));
    pthread_barrier_wait(&together);
    CHECK(release(pointer));
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, one, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    AGREE("all threads");
    tell_books("all");
    return 0;
}
