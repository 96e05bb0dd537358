// Between the recorder and the driver; leaves the calls of cuMemAlloc and cuMemFree as the program selects:
// by a C++ exception or by longjmp. An allocation is left before the driver has made it, a release after the
// driver has freed the block, so no memory is unknown in either case.
#include <csetjmp>
#include <dlfcn.h>
#include <cstddef>
#include <cstdint>

extern "C" {
int thrower_how; // 0 not at all, 1 exception, 2 longjmp
jmp_buf thrower_back;

static void leave() {
    int how = thrower_how;
    thrower_how = 0;
    if (how == 1)
        throw 17;
    if (how == 2)
        longjmp(thrower_back, 1);
}

int cuMemAlloc_v2(std::uint64_t *pointer, std::size_t bytes) {
    using Next = int (*)(std::uint64_t *, std::size_t);
    leave();
    return reinterpret_cast<Next>(dlsym(RTLD_NEXT, "cuMemAlloc_v2"))(pointer, bytes);
}

int cuMemFree_v2(std::uint64_t pointer) {
    using Next = int (*)(std::uint64_t);
    int result = reinterpret_cast<Next>(dlsym(RTLD_NEXT, "cuMemFree_v2"))(pointer);
    leave();
    return result;
}
}
