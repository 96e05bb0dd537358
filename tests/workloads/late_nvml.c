/* Wraps the simulated NVML and counts its calls in the destructor of a library that is unloaded after the
 * recorder's own exit handler. Built with the soname libnvidia-ml.so.1 and preloaded behind libgpumem.so;
 * GPUMEM_TEST_NVML is the path of the simulated one. The destructor makes calls after which the recorder would
 * read NVML, and prints `late calls`. With GPUMEM_TEST_HANG=<function> the first such call after main does not
 * return until the destructor releases it, which first prints `hung 1` if there was one. */
#include <pthread.h>
#include <time.h>
#include "hook_client.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ending, late, calls, hung, released, returned;

/* Run before all destructors: it is registered while main runs. */
static void main_has_returned(void) {
    pthread_mutex_lock(&lock);
    ending = 1;
    pthread_mutex_unlock(&lock);
}

static long forward(const char *name, long a, long b, long c, long d) {
    static void *real;
    const char *hangs = getenv("GPUMEM_TEST_HANG");
    pthread_mutex_lock(&lock);
    if (real == NULL) {
        real = dlopen(getenv("GPUMEM_TEST_NVML"), RTLD_NOW | RTLD_LOCAL);
        atexit(main_has_returned);
    }
    calls += late;
    int hangs_now = ending && !hung && hangs != NULL && strcmp(hangs, name) == 0;
    if (hangs_now) {
        hung = 1;
        while (!released)
            pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    long result = ((int (*)(long, long, long, long))dlsym(real, name))(a, b, c, d);
    if (hangs_now) {
        pthread_mutex_lock(&lock);
        returned = 1;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return result;
}

#define FORWARD(name)                                                                              \
    int name(long a, long b, long c, long d) { return forward(#name, a, b, c, d); }
FORWARD(nvmlInit_v2)
FORWARD(nvmlShutdown)
FORWARD(nvmlSystemGetDriverVersion)
FORWARD(nvmlDeviceGetHandleByUUID)
FORWARD(nvmlDeviceGetHandleByPciBusId_v2)
FORWARD(nvmlDeviceGetMemoryInfo)
FORWARD(nvmlDeviceGetMemoryInfo_v2)
FORWARD(nvmlDeviceGetComputeRunningProcesses_v3)
FORWARD(nvmlDeviceGetGraphicsRunningProcesses_v3)

__attribute__((destructor)) static void end(void) {
    const struct timespec moment = {.tv_nsec = 20000000};
    pointer_t block;
    void *module;
    if (!ending)
        return; /* not the program that uses NVML: a shell that starts it */
    pthread_mutex_lock(&lock);
    late = 1;
    if (getenv("GPUMEM_TEST_HANG") != NULL)
        printf("hung %d\n", hung);
    released = 1;
    pthread_cond_broadcast(&changed);
    while (hung && !returned)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    for (int reading = 0; reading < 5; reading++) {
        CHECK(((alloc_t)need(driver(), "cuMemAlloc_v2"))(&block, 64 << 20));
        CHECK(((int (*)(void **, const void *))need(driver(), "cuModuleLoadData"))(&module, "code"));
        nanosleep(&moment, NULL); /* several times what lies between two readings */
    }
    printf("late %d\n", calls);
}
