/* exits HOW: a client of the driver that ends in one of the ways that a process can end, while its
 * allocations are live. Its last output is the simulator's own figure of live bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int (*cuInit)(unsigned);
static int (*cuDevicePrimaryCtxRetain)(void **, int);
static int (*cuCtxSetCurrent)(void *);
static int (*cuMemAlloc_v2)(uint64_t *, size_t);
static int (*cuMemFree_v2)(uint64_t);
static int (*gpumem_sim_books)(int, const char *, uint64_t *, uint64_t *);
static void *context;

static void *need(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        fprintf(stderr, "exits: no %s\n", name);
        exit(2);
    }
    return symbol;
}

static uint64_t allocate(size_t bytes) {
    uint64_t pointer = 0;
    if (cuCtxSetCurrent(context) != 0 || cuMemAlloc_v2(&pointer, bytes) != 0) {
        fprintf(stderr, "exits: cannot allocate\n");
        _exit(2);
    }
    return pointer;
}

static void tell(void) {
    uint64_t current = 0, peak = 0;
    char line[64];
    gpumem_sim_books(0, "driver", &current, &peak);
    int length = snprintf(line, sizeof line, "%llu %llu\n", (unsigned long long)current,
                          (unsigned long long)peak);
    if (write(1, line, (size_t)length) != length)
        _exit(2);
}

static void at_exit_allocates(void) {
    allocate(7000);
    cuMemFree_v2(allocate(9000));
    tell();
}

static void *thread_that_exits(void *unused) {
    (void)unused;
    allocate(3000);
    tell();
    exit(4);
}

static void *thread_that_ends(void *unused) {
    allocate(2000);
    return unused;
}

static void *thread_that_stays(void *unused) {
    (void)unused;
    allocate(1500);
    tell();
    _exit(6);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "return";
    pthread_t thread;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL) {
        fprintf(stderr, "exits: %s\n", dlerror());
        return 2;
    }
    cuInit = need(driver, "cuInit");
    cuDevicePrimaryCtxRetain = need(driver, "cuDevicePrimaryCtxRetain");
    cuCtxSetCurrent = need(driver, "cuCtxSetCurrent");
    cuMemAlloc_v2 = need(driver, "cuMemAlloc_v2");
    cuMemFree_v2 = need(driver, "cuMemFree_v2");
    gpumem_sim_books = need(driver, "gpumem_sim_books");
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0)
        return 2;

    uint64_t first = allocate(1000000);
    allocate(500000);
    cuMemFree_v2(first);

    if (strcmp(how, "return") == 0) {
        tell();
        return 3;
    } else if (strcmp(how, "_exit") == 0) {
        tell();
        _exit(5);
    } else if (strcmp(how, "quick_exit") == 0) {
        tell();
        quick_exit(8);
    } else if (strcmp(how, "atexit") == 0) {
        atexit(at_exit_allocates);
        return 9;
    } else if (strcmp(how, "thread exits") == 0) {
        pthread_create(&thread, NULL, thread_that_exits, NULL);
        pthread_join(thread, NULL);
    } else if (strcmp(how, "main ends first") == 0) {
        pthread_create(&thread, NULL, thread_that_stays, NULL);
        pthread_exit(NULL);
    } else if (strcmp(how, "threads die") == 0) {
        for (int i = 0; i < 50; i++) {
            pthread_create(&thread, NULL, thread_that_ends, NULL);
            pthread_join(thread, NULL);
        }
        tell();
        return 10;
    } else if (strcmp(how, "abort") == 0) {
        tell();
        abort();
    } else if (strcmp(how, "SIGTERM") == 0) {
        tell();
        raise(SIGTERM);
    } else if (strcmp(how, "dlclose") == 0) {
        tell();
        dlclose(driver);
        driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        cuInit = need(driver, "cuInit");
        return cuInit(0) == 0 ? 11 : 2;
    } else if (strcmp(how, "exec") == 0) {
        tell();
        execlp("sh", "sh", "-c", "exit 12", NULL);
    }
    return 2;
}
