/* Four allocations fail. With slow_nvml.c, each report can be completed only after its call has returned. */
#include "../hook_client.h"
#include <semaphore.h>

int main(void) {
    sem_t *waits = dlsym(RTLD_DEFAULT, "slow_nvml_waits"), *goes = dlsym(RTLD_DEFAULT, "slow_nvml_goes");
    pointer_t pointer;
    start();
    alloc_t alloc = (alloc_t)need(driver(), "cuMemAlloc_v2");
    CHECK(alloc(&pointer, 1 << 20));
    for (int i = 0; i < 4; i++) {
        if (alloc(&pointer, (size_t)1 << 50) != 2)
            DIE("no failure");
        printf("failed %d\n", i);
        if (waits == NULL || i == 3)
            continue;
        while (sem_wait(waits) != 0) {}
        sem_post(goes);
    }
    tell_books("end");
    return 21;
}
