/* The runtime API by name, on NVIDIA's real cudart 10.2. The recorder's counters are compared with the driver's
 * books after each step. */
#include "hook_client.h"

struct extent { size_t width, height, depth; };
struct pitched { void *pointer; size_t pitch, width, height; };

extern int cudaMalloc(void **, size_t);
extern int cudaMallocPitch(void **, size_t *, size_t, size_t);
extern int cudaMalloc3D(struct pitched *, struct extent);
extern int cudaMallocManaged(void **, size_t, unsigned);
extern int cudaMallocHost(void **, size_t);
extern int cudaHostAlloc(void **, size_t, unsigned);
extern int cudaFree(void *);
extern int cudaFreeHost(void *);
extern int cudaDeviceReset(void);
extern int cudaGetLastError(void);

int main(void) {
    void *plain, *rows, *managed, *pinned, *flagged;
    size_t pitch;
    struct pitched box;
    struct extent size = {1000, 10, 5};

    CHECK(cudaFree(NULL));
    CHECK(cudaMalloc(&plain, 1111));
    AGREE("cudaMalloc");
    CHECK(cudaMallocPitch(&rows, &pitch, 1000, 10));
    AGREE("cudaMallocPitch");
    CHECK(cudaMalloc3D(&box, size));
    AGREE("cudaMalloc3D");
    CHECK(cudaMallocManaged(&managed, 4444, 1));
    AGREE("cudaMallocManaged");
    CHECK(cudaMallocHost(&pinned, 5555));
    CHECK(cudaHostAlloc(&flagged, 6666, 2));
    AGREE("pinned");
    printf("too much: %d\n", cudaMalloc(&rows, (size_t)1 << 46));
    printf("still: %d, then: %d\n", cudaGetLastError(), cudaGetLastError());
    printf("rubbish: %d\n", cudaFree((void *)(uintptr_t)0x1234));
    (void)cudaGetLastError();
    AGREE("failures");
    CHECK(cudaFree(plain));
    CHECK(cudaFree(box.pointer));
    CHECK(cudaFree(managed));
    CHECK(cudaFreeHost(pinned));
    AGREE("releases");
    CHECK(cudaDeviceReset());
    AGREE("cudaDeviceReset");
    tell_books("end");
    return 0;
}
