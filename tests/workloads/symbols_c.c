/* A library whose exported `grow` allocates through `step`, which is inlined into it, and
 * `hidden`, which is not exported. */
#include <stddef.h>
#include <stdint.h>

typedef int (*allocate_t)(uint64_t *, size_t);

static __attribute__((noinline)) int hidden(allocate_t allocate) {
    uint64_t pointer;
    return allocate(&pointer, 1 << 20) * 3; /* the call in hidden */
}

static inline __attribute__((always_inline)) int step(allocate_t allocate) {
    return hidden(allocate) * 5; /* the call in step */
}

int grow(allocate_t allocate) {
    return step(allocate) * 7; /* the call in grow */
}

/* Where `grow` and `hidden` lie in another build of this library. */
#ifdef OTHER
int impostor(int x) {
    return x * 11;
}
#endif
