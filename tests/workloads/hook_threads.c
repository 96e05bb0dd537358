/* hook_threads HOW: eight threads allocate and release, each with a different size of blocks.
 *   join  until they are done: prints the books
 *   exit  until main returns while they run
 *   _exit until main exits without any exit handler
 *   kill  until the process is killed from outside; prints a line once all run */
#include "hook_client.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 8, ROUNDS = 4000, KEPT = 10 };
static alloc_t alloc;
static free_t release;
static atomic_int under_way;
static int endless;

static void *work(void *argument) {
    size_t unit = (size_t)(uintptr_t)argument;
    pointer_t kept[KEPT] = {0};
    start();
    for (int round = 0; endless || round < ROUNDS; round++) {
        int slot = round % KEPT;
        if (kept[slot] != 0)
            CHECK(release(kept[slot]));
        CHECK(alloc(&kept[slot], unit * 512 * (size_t)(slot + 1)));
        if (round == 100)
            atomic_fetch_add(&under_way, 1);
    }
    return NULL;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "join";
    pthread_t threads[THREADS];
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    CHECK(((int (*)(unsigned))need(driver(), "cuInit"))(0));
    endless = strcmp(how, "join") != 0;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, (void *(*)(void *))work, (void *)(uintptr_t)(i + 1));
    if (!endless) {
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        AGREE("all threads");
        tell_books("joined");
        return 0;
    }
    while (atomic_load(&under_way) < THREADS)
        sched_yield();
    puts("under way");
    fflush(stdout);
    if (strcmp(how, "exit") == 0)
        return 9;
    if (strcmp(how, "_exit") == 0)
        _exit(9);
    for (;;)
        pause();
}
