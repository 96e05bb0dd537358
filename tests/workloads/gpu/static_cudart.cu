// A C++ program as nvcc makes it by default, with the runtime linked in statically: cudaMalloc, pitched,
// managed, pinned and stream-ordered memory, a kernel. Built and run by gpu-check where there is nvcc;
// memory that is live at the end is printed, and is not freed.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));                   \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

__global__ void fill(float *values, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] = 2.0f * i;
}

int main() {
    const int count = 1 << 22;
    float *plain, *managed, *ordered, *pitched;
    void *pinned;
    size_t pitch;
    CHECK(cudaMalloc(&plain, count * sizeof(float)));
    fill<<<count / 256, 256>>>(plain, count);
    CHECK(cudaGetLastError());
    CHECK(cudaMallocPitch(&pitched, &pitch, 1000, 500));
    CHECK(cudaMallocManaged(&managed, 1 << 20));
    CHECK(cudaHostAlloc(&pinned, 1 << 20, cudaHostAllocDefault));
    CHECK(cudaMallocAsync(&ordered, 1 << 20, 0));
    CHECK(cudaFreeAsync(ordered, 0));
    CHECK(cudaMallocAsync(&ordered, 3 << 20, 0));
    CHECK(cudaFree(managed));
    CHECK(cudaDeviceSynchronize());
    size_t free_bytes, total;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    std::printf("FIGURES {\"nvml\": null, \"torch\": null, \"counters\": null, \"cuMemGetInfo\": %zu, "
                "\"driver_live\": %zu}\n",
                total - free_bytes, count * sizeof(float) + pitch * 500 + (3 << 20));
    std::fflush(stdout);
    return 0;
}
