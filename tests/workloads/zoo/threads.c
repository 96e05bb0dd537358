/* threads: 200 threads that live at the same time, each with separate blocks, and exit together. */
#include "../hook_client.h"
#include <pthread.h>

enum { THREADS = 200, BLOCKS = 20 };
static alloc_t alloc;
static free_t release;
static pthread_barrier_t together;

static void *work(void *argument) {
    size_t unit = (size_t)(uintptr_t)argument;
    pointer_t blocks[BLOCKS];
    start();
    pthread_barrier_wait(&together);
    for (int i = 0; i < BLOCKS; i++)
        CHECK(alloc(&blocks[i], 1024 * unit));
    pthread_barrier_wait(&together);
    for (int i = 0; i < BLOCKS; i += 2)
        CHECK(release(blocks[i]));
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    start();
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)) != 0)
            DIE("only %d threads", i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    AGREE("all threads");
    tell_books("200 threads");
    return 15;
}
