/* What scripts/lib/bench/start.py measures. start_cost: a context and two blocks. start_cost rest: the same; once nothing
 * happens any more, it prints its resident and its virtual memory in KiB. start_cost threads N: N threads allocate a few
 * blocks from stacks of different depths, and wait; it prints the resident memory before and with them. */
#include "hook_client.h"
#include <pthread.h>
#include <time.h>

static alloc_t alloc;
static free_t release;
static pthread_barrier_t together;

static void print_memory(void) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "VmRSS:", 6) == 0 || strncmp(line, "VmSize:", 7) == 0)
            fputs(line, stdout);
    fclose(status);
    fflush(stdout);
}

static int use(void) {
    pointer_t pointer;
    for (int i = 0; i < 3; i++) {
        CHECK(alloc(&pointer, 512));
        CHECK(release(pointer));
    }
    return alloc(&pointer, 512);
}

static int deeper(int depth) {
    volatile char frame[64] = {0};
    return (depth ? deeper(depth - 1) : use()) + frame[0];
}

static void *thread(void *number) {
    CHECK(((int (*)(void *))need(driver(), "cuCtxSetCurrent"))(((void **)number)[1]));
    CHECK(deeper(20 + *(int *)number % 20));
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    return NULL;
}

int main(int argc, char **argv) {
    pointer_t blocks[2];
    void *context = start();
    *(void **)&alloc = need(driver(), "cuMemAlloc_v2");
    *(void **)&release = need(driver(), "cuMemFree_v2");
    CHECK(alloc(&blocks[0], 1 << 20));
    CHECK(alloc(&blocks[1], 2 << 20));
    CHECK(release(blocks[0]));
    if (argc > 1 && strcmp(argv[1], "rest") == 0) {
        struct timespec time = {0, 300000000};
        nanosleep(&time, NULL);
        print_memory();
    } else if (argc > 2) {
        int count = atoi(argv[2]);
        struct { long number; void *context; } *each = calloc(count, sizeof *each);
        pthread_t *threads = calloc(count, sizeof *threads);
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 256 << 10);
        pthread_barrier_init(&together, NULL, count + 1);
        print_memory();
        for (int i = 0; i < count; i++) {
            each[i].number = i, each[i].context = context;
            CHECK(pthread_create(&threads[i], &small, thread, &each[i]));
        }
        pthread_barrier_wait(&together);
        print_memory();
        pthread_barrier_wait(&together);
        for (int i = 0; i < count; i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}
