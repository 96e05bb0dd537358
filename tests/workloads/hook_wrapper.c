/* Another interposer of cuMemAlloc, preloaded beside ours: passes each call on to the next library's,
 * and tells at the end how many came by. A call that comes back to it is an endless loop. */
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
