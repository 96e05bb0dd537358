/* unloads PLUGIN…: each thread repeatedly loads one of the libraries, calls through it and unloads it,
 * while two others allocate. */
#include "../hook_client.h"
#include <pthread.h>

/* Rounds of a thread: all together find room in the ring however little the recorder's thread gets to run. */
enum { MOST = 8000 };
static alloc_t alloc;
static free_t release;
static volatile int stop;

static void *churn(void *unused) {
    start();
    for (int round = 0; !stop; round++) {
        pointer_t pointer;
        if (round >= MOST) {
            usleep(1000);
            continue;
        }
        CHECK(alloc(&pointer, 512));
        CHECK(release(pointer));
    }
    return unused;
}

static void *reload(void *path) {
    start();
    for (int i = 0; i < 60; i++) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            DIE("%s", dlerror());
        int (*use)(alloc_t, free_t) = need(library, "plugin_use");
        for (int n = 0; n < 5; n++)
            CHECK(use(alloc, release));
        dlclose(library);
        if (dlopen(path, RTLD_NOW | RTLD_NOLOAD) != NULL)
            DIE("%s is still loaded", (char *)path);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[8], others[2];
    pointer_t kept;
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    start();
    for (int i = 0; i < 2; i++)
        pthread_create(&others[i], NULL, churn, NULL);
    for (int i = 1; i < argc && i < 9; i++)
        pthread_create(&threads[i - 1], NULL, reload, argv[i]);
    for (int i = 1; i < argc && i < 9; i++)
        pthread_join(threads[i - 1], NULL);
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(others[i], NULL);
    CHECK(alloc(&kept, 8000));
    AGREE("the plugins");
    tell_books("kept");
    return 20;
}
