/* A client of hook_fake_driver.c: every call reaches the driver once with its own arguments, and
 * every result and output parameter is returned as the driver set it. */
#include "hook_client.h"
#include <errno.h>

static int *next_result, *calls;
static uint64_t *arguments;
static int before;

static void same(const char *what, unsigned long long got, unsigned long long wanted, int line) {
    if (got != wanted)
        DIE("line %d, %s: %llu instead of %llu", line, what, got, wanted);
}
#define SAME(what, got, wanted) \
    same(what, (unsigned long long)(got), (unsigned long long)(wanted), __LINE__)
#define ONE_CALL(call) (before = *calls, errno = 77, (call))
#define AFTER() (SAME("errno", errno, 77), SAME("calls", *calls - before, 1))

int main(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *found;
    if (library == NULL)
        DIE("%s", dlerror());
    next_result = need(library, "fake_next_result");
    calls = need(library, "fake_calls");
    arguments = need(library, "fake_arguments");
    alloc_t alloc = need(library, "cuMemAlloc_v2");
    free_t release = need(library, "cuMemFree_v2");
    int (*alloc_pitch)(pointer_t *, size_t *, size_t, size_t, unsigned) = need(library, "cuMemAllocPitch_v2");
    proc1_t first = need(library, "cuGetProcAddress");
    proc2_t second = need(library, "cuGetProcAddress_v2");

    pointer_t pointer = 5, again;
    size_t pitch = 6;
    SAME("result", ONE_CALL(alloc(&pointer, 100)), 0);
    AFTER();
    SAME("argument", arguments[0], (uintptr_t)&pointer);
    SAME("argument", arguments[1], 100);
    SAME("pointer", pointer, 0x7010000);

    static const int CODES[] = {1, 2, 3, 4, 100, 201, 700, 719, 999, 12345, -1};
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++) {
        *next_result = CODES[i];
        again = 5;
        SAME("result", ONE_CALL(alloc(&again, 200)), CODES[i]);
        AFTER();
        SAME("rubbish on failure", again, 0xdeadbeef);
        *next_result = CODES[i]; /* a release that fails: the memory is still there */
        SAME("result", ONE_CALL(release(pointer)), CODES[i]);
        AFTER();
        SAME("argument", arguments[0], pointer);
    }
    SAME("result", ONE_CALL(alloc_pitch(&again, &pitch, 10, 3, 16)), 0);
    AFTER();
    SAME("pitch", pitch, 4096);
    SAME("width", arguments[0], 10);
    SAME("height", arguments[1], 3);
    SAME("element", arguments[2], 16);
    SAME("place", arguments[3], (uintptr_t)&pitch);
    SAME("result", ONE_CALL(release(again)), 0);
    AFTER();
    SAME("result", ONE_CALL(release(pointer)), 0);
    AFTER();
    SAME("result", ONE_CALL(release(0)), 0);
    AFTER();

    /* cuGetProcAddress: failures, NULL functions with success, NULL places for the status */
    int status = 55;
    found = &status;
    SAME("unknown", ONE_CALL(first("cuNoSuchThing", &found, 12000, 0)), 0);
    AFTER();
    SAME("function", (uintptr_t)found, 0);
    SAME("unknown", ONE_CALL(second("cuNoSuchThing", &found, 12000, 0, &status)), 0);
    SAME("status", status, 1);
    SAME("unknown", ONE_CALL(second("cuNoSuchThing", &found, 12000, 0, NULL)), 0);
    *next_result = 500;
    SAME("failure", ONE_CALL(second("cuMemAlloc", &found, 12000, 0, &status)), 500);
    AFTER();
    if (found != *(void **)need(library, "fake_real_alloc"))
        DIE("what the driver left with a failure was replaced");
    SAME("old", first("cuMemAlloc", &found, 2000, 0), 0);
    SAME("function", (uintptr_t)found, 0);

    /* each default stream has a separate function */
    int (*on_stream)(pointer_t *, size_t, void *);
    for (uint64_t flags = 0; flags <= 2; flags++) {
        SAME("async", second("cuMemAllocAsync", (void **)&on_stream, 12000, flags, NULL), 0);
        SAME("result", ONE_CALL(on_stream(&again, 300 + flags, (void *)2)), 0);
        AFTER();
        SAME("bytes", arguments[0], 300 + flags);
        SAME("stream", arguments[1], 2);
        SAME("which", arguments[2], flags == 2 ? 2 : 1);
        SAME("result", release(again), 0);
    }

    /* an address that is no export: known by name and version; an export of unknown form: left alone */
    alloc_t hidden;
    SAME("hidden", second("cuMemAlloc", (void **)&hidden, 90000, 0, NULL), 0);
    SAME("result", ONE_CALL(hidden(&again, 400)), 0);
    AFTER();
    SAME("result", release(again), 0);
    int (*newer)(uint64_t, uint64_t);
    SAME("newer", second("cuMemFree", (void **)&newer, 90000, 0, NULL), 0);
    SAME("result", ONE_CALL(newer(11, 22)), 0);
    AFTER();
    SAME("first", arguments[0], 11);
    SAME("second", arguments[1], 22);
    SAME("which", arguments[2], 9);
    printf("all as the driver left it\n");
    return 0;
}
