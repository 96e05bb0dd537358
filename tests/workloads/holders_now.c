/* Calls gpumem_holders: as a program without Python, and, as a library, on a thread that Python does not know. */
#include "hook_client.h"

#include <pthread.h>
#include <stddef.h>

typedef ptrdiff_t (*holders_t)(int, char *, size_t);

static void *ask(void *answer)
{
    *(ptrdiff_t *)answer = ((holders_t)need(RTLD_DEFAULT, "gpumem_holders"))(0, NULL, 0);
    return NULL;
}

ptrdiff_t on_a_thread(void)
{
    pthread_t thread;
    ptrdiff_t answer = 0;
    CHECK(pthread_create(&thread, NULL, ask, &answer));
    CHECK(pthread_join(thread, NULL));
    return answer;
}

int main(void)
{
    holders_t holders = need(RTLD_DEFAULT, "gpumem_holders");
    printf("%td %td %td\n", holders(0, NULL, 0), holders(-1, NULL, 0), holders(256, NULL, 0));
    pointer_t block;
    start();
    CHECK(((alloc_t)need(driver(), "cuMemAlloc_v2"))(&block, 4096));
    printf("%td %td\n", holders(0, NULL, 0), holders(-1, NULL, 0));
    return 0;
}
