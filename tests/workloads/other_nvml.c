/* Wraps the simulated NVML, as in some containers: GPUMEM_TEST_LIST selects a change to the list of
 * processes. Built with the soname libnvidia-ml.so.1 and preloaded; GPUMEM_TEST_NVML is the path of
 * the simulated one.
 *
 * empty: no process is listed. number: this process has another number. taken: the same, and its own
 * number belongs to another process. figure: it is listed, but without its bytes. two: it has another
 * number, and another process appears together with it. broken: NVML does not start. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process {
    unsigned pid;
    uint64_t used;
    unsigned gpu_instance, compute_instance;
};

static long forward(const char *name, long a, long b, long c, long d) {
    static void *real;
    if (real == NULL)
        real = dlopen(getenv("GPUMEM_TEST_NVML"), RTLD_NOW | RTLD_LOCAL);
    return ((int (*)(long, long, long, long))dlsym(real, name))(a, b, c, d);
}

#define FORWARD(name)                                                                              \
    int name(long a, long b, long c, long d) { return forward(#name, a, b, c, d); }
FORWARD(nvmlShutdown)
FORWARD(nvmlSystemGetDriverVersion)
FORWARD(nvmlDeviceGetHandleByUUID)
FORWARD(nvmlDeviceGetHandleByPciBusId_v2)
FORWARD(nvmlDeviceGetMemoryInfo)
FORWARD(nvmlDeviceGetMemoryInfo_v2)
FORWARD(nvmlDeviceGetGraphicsRunningProcesses_v3)

static int is(const char *what) { return strcmp(getenv("GPUMEM_TEST_LIST"), what) == 0; }

int nvmlInit_v2(void) { return is("broken") ? 9 : forward("nvmlInit_v2", 0, 0, 0, 0); }

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *list) {
    struct process all[64];
    unsigned listed = 60, ours = 0;
    int result = forward("nvmlDeviceGetComputeRunningProcesses_v3", (long)device, (long)&listed,
                         (long)all, 0);
    if (result != 0)
        return result;
    for (unsigned i = 0; i < listed; i++) {
        if (all[i].pid != (unsigned)getpid())
            continue;
        ours = 1;
        if (is("figure"))
            all[i].used = UINT64_MAX;
        else if (!is("empty"))
            all[i].pid += 4000000;
    }
    if (is("taken"))
        all[listed++] = (struct process){(unsigned)getpid(), 7 << 20, ~0u, ~0u};
    if (is("two") && ours)
        all[listed++] = (struct process){4000001, 9 << 20, ~0u, ~0u};
    if (is("empty"))
        listed = 0;
    if (*count < listed) {
        *count = listed;
        return 7;
    }
    *count = listed;
    memcpy(list, all, listed * sizeof *list);
    return 0;
}
