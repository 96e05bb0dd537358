// A library in the role of libc10_cuda.so: calls PyTorch's reporters through the PLT, as the caching
// allocator does. `use` reports blocks in every form and checks the arguments that arrive.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace c10 {
struct Device {
    int8_t type, index;
};
void reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, Device);
void reportMemoryUsageToProfiler(void *, int64_t, int64_t, int64_t, Device);
void reportMemoryUsageToProfiler(void *, int64_t, Device);
void reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device);
void reportOutOfMemoryToProfiler(int64_t, int64_t, int64_t, Device);
} // namespace c10

extern "C" {
extern int c10_calls, c10_throw;
extern long long c10_arguments[5];
}

static void *at(uintptr_t address) { return reinterpret_cast<void *>(address); }

static void came(int calls, long long a, long long b, long long c, long long d, long long device) {
    long long wanted[5] = {a, b, c, d, device};
    if (c10_calls != calls || std::memcmp(wanted, c10_arguments, sizeof wanted) != 0) {
        std::printf("call %d came as call %d: %lld %lld %lld %lld %lld\n", calls, c10_calls, c10_arguments[0],
                    c10_arguments[1], c10_arguments[2], c10_arguments[3], c10_arguments[4]);
        std::exit(1);
    }
}

extern "C" void use(const char *) {
    const c10::Device cuda0{1, 0}, cuda1{1, 1}, cpu{0, -1}, xla{9, 0};
    size_t used = 512;
    c10::reportMemoryUsageToProfiler(at(0x1000), 512, used, size_t(1 << 21), cuda0);
    came(1, 0x1000, 512, 512, 1 << 21, 1000);
    c10::reportMemoryUsageToProfiler(at(0x2000), int64_t(1024), int64_t(1024), int64_t(1 << 22), cuda1);
    came(2, 0x2000, 1024, 1024, 1 << 22, 1001);
    c10::reportMemoryUsageToProfiler(at(0x3000), int64_t(2048), cuda1);
    came(3, 0x3000, 2048, 0, 0, 1001);
    c10::reportMemoryUsageToProfiler(at(0x4000), 4096, size_t(4096), size_t(0), cpu);
    came(4, 0x4000, 4096, 4096, 0, -1);
    c10::reportMemoryUsageToProfiler(at(0x5000), 8192, size_t(8192), size_t(0), xla);
    came(5, 0x5000, 8192, 8192, 0, 9000);
    // a total that differs from the recorder's: reported, without any other effect
    c10::reportMemoryUsageToProfiler(at(0x6000), 512, size_t(99999), size_t(1 << 21), cuda0);
    came(6, 0x6000, 512, 99999, 1 << 21, 1000);
    c10::reportOutOfMemoryToProfiler(1 << 30, size_t(1024), size_t(1 << 21), cuda0);
    came(7, 1 << 30, 1024, 1 << 21, 0, 1000);
    c10::reportOutOfMemoryToProfiler(1 << 29, int64_t(1024), int64_t(1 << 21), cpu);
    came(8, 1 << 29, 1024, 1 << 21, 0, -1);
    c10::reportMemoryUsageToProfiler(at(0x1000), -512, size_t(512), size_t(1 << 21), cuda0);
    came(9, 0x1000, -512, 512, 1 << 21, 1000);
    // an exception leaves through the hook, and the next call is recorded as before
    c10_throw = 1;
    int caught = 0;
    for (int i = 0; i < 3; i++) {
        try {
            c10::reportMemoryUsageToProfiler(at(0x7000 + i), 1536, size_t(2048), size_t(1 << 21), cuda0);
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    c10_throw = 0;
    c10::reportMemoryUsageToProfiler(at(0x8000), 512, size_t(0), size_t(1 << 21), cuda0);
    std::printf("%d calls, %d exceptions\n", c10_calls, caught);
}
