/* Wraps the simulated NVML: on the recorder's threads that explain failures, its figures come only once the program lets
 * them through. Built with the soname libnvidia-ml.so.1 and preloaded; GPUMEM_TEST_NVML is the path of the simulated one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

sem_t slow_nvml_waits, slow_nvml_goes;

__attribute__((constructor)) static void begin(void) {
    sem_init(&slow_nvml_waits, 0, 0);
    sem_init(&slow_nvml_goes, 0, 0);
}

static long forward(const char *name, long a, long b, long c, long d) {
    static void *real;
    static __thread int has_waited;
    char thread[16] = "";
    prctl(PR_GET_NAME, thread);
    if (strcmp(thread, "gpumem-oom") == 0 && !has_waited) {
        has_waited = 1;
        sem_post(&slow_nvml_waits);
        while (sem_wait(&slow_nvml_goes) != 0) {}
    }
    if (real == NULL)
        real = dlopen(getenv("GPUMEM_TEST_NVML"), RTLD_NOW | RTLD_LOCAL);
    return ((int (*)(long, long, long, long))dlsym(real, name))(a, b, c, d);
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
