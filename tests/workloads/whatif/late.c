/* Preloaded before CUDA's runtime: streams finish with a delay. Only one query of an event in sixteen succeeds, by a
 * random number generator of the process, which GPUMEM_TEST_LATE seeds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static int coin(void) {
    static uint64_t state;
    if (!state) {
        const char *seed = getenv("GPUMEM_TEST_LATE");
        state = 88172645463325252u ^ (seed ? strtoull(seed, 0, 10) : 0);
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 32) % 16 == 0;
}

int cudaEventQuery(void *event) {
    static int (*real)(void *);
    if (!real)
        real = (int (*)(void *))dlsym(RTLD_NEXT, "cudaEventQuery");
    return coin() ? real(event) : 600; /* cudaErrorNotReady */
}
