// A libc10.so that has the allocator's reporters of every PyTorch. Each counts its calls and stores
// its arguments; while `c10_throw` is set they throw.
#include <cstddef>
#include <cstdint>
#include <stdexcept>

extern "C" {
int c10_calls, c10_throw;
long long c10_arguments[5];
}

namespace c10 {
struct Device {
    int8_t type, index;
};

static void keep(long long a, long long b, long long c, long long d, Device device) {
    long long now[5] = {a, b, c, d, device.type * 1000 + device.index};
    for (int i = 0; i < 5; i++)
        c10_arguments[i] = now[i];
    c10_calls++;
    if (c10_throw)
        throw std::runtime_error("thrown by the reporter");
}

void reportMemoryUsageToProfiler(void *p, int64_t size, size_t allocated, size_t reserved, Device d) {
    keep((long long)p, size, (long long)allocated, (long long)reserved, d);
}
void reportMemoryUsageToProfiler(void *p, int64_t size, int64_t allocated, int64_t reserved, Device d) {
    keep((long long)p, size, allocated, reserved, d);
}
void reportMemoryUsageToProfiler(void *p, int64_t size, Device d) { keep((long long)p, size, 0, 0, d); }
void reportOutOfMemoryToProfiler(int64_t size, size_t allocated, size_t reserved, Device d) {
    keep(size, (long long)allocated, (long long)reserved, 0, d);
}
void reportOutOfMemoryToProfiler(int64_t size, int64_t allocated, int64_t reserved, Device d) {
    keep(size, allocated, reserved, 0, d);
}
} // namespace c10
