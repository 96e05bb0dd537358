// The same in C++, whose names must be demangled.
#include <cstddef>
#include <cstdint>

typedef int (*allocate_t)(uint64_t *, size_t);

namespace pool {
template <typename T> struct Arena {
    static __attribute__((noinline)) int hidden(allocate_t allocate) {
        uint64_t pointer;
        return allocate(&pointer, sizeof(T) << 20) * 3; // the call in hidden
    }
    static inline __attribute__((always_inline)) int step(allocate_t allocate) {
        return hidden(allocate) * 5; // the call in step
    }
};
namespace {
__attribute__((noinline)) int inside(allocate_t allocate, int &sum) {
    return Arena<char>::step(allocate) * ++sum; // the call in inside
}
} // anonymous
} // namespace pool

extern "C" int grow(allocate_t allocate) {
    int sum = 7;
    return pool::inside(allocate, sum) * 7; // the call in grow
}
