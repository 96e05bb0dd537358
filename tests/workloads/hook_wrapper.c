/* Another interposer of cuMemAlloc, preloaded beside the recorder: passes each call on to the next library,
 * and prints at the end how many it saw. A recursive call aborts, because it would be an endless loop. */
#include "hook_client.h"

static int calls, depth;

int cuMemAlloc_v2(pointer_t *pointer, size_t bytes) {
    alloc_t next = (alloc_t)need(RTLD_NEXT, "cuMemAlloc_v2");
    calls++;
    if (++depth > 1)
        abort();
    int result = next(pointer, bytes);
    depth--;
    return result;
}

__attribute__((destructor)) static void tell(void) {
    if (calls > 0)
        printf("the wrapper had %d calls\n", calls);
}
