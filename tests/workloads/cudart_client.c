/* A client of NVIDIA's runtime library, declared by hand so that no CUDA headers are needed. cudart_client [EXIT
 * CODE | abort | segv | leak]: allocates in every way that the runtime of CUDA 10.2 has, prints what it finds
 * (no addresses, so that two runs print the same), and ends in the given way. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int cudaMalloc(void **pointer, size_t bytes);
extern int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height);
extern int cudaMallocManaged(void **pointer, size_t bytes, unsigned flags);
extern int cudaMallocHost(void **pointer, size_t bytes);
extern int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags);
extern int cudaFree(void *pointer);
extern int cudaFreeHost(void *pointer);
extern int cudaMemset(void *pointer, int value, size_t bytes);
extern int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
extern int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
extern int cudaGetLastError(void);
extern const char *cudaGetErrorName(int error);

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int error_ = (call);                                                                       \
        if (error_ != 0) {                                                                         \
            printf("%s: %s\n", #call, cudaGetErrorName(error_));                                   \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv) {
    const char *ending = argc > 1 ? argv[1] : "0";
    void *device, *pitched, *managed, *pinned, *mapped;
    size_t pitch, free_before, free_after, total;
    unsigned char back[1000];

    CHECK(cudaFree(NULL));
    CHECK(cudaMemGetInfo(&free_before, &total));
    CHECK(cudaMalloc(&device, 5000000));
    CHECK(cudaMallocPitch(&pitched, &pitch, 1000, 300));
    CHECK(cudaMallocManaged(&managed, 700000, 1));
    CHECK(cudaMallocHost(&pinned, 12345));
    CHECK(cudaHostAlloc(&mapped, 54321, 2));
    CHECK(cudaMemset(device, 0x5a, 5000000));
    CHECK(cudaMemcpy(back, device, sizeof back, 2));
    printf("byte 999 is %#x, pitch %zu, total %zu\n", back[999], pitch, total);

    void *huge = NULL;
    const char *answer = cudaGetErrorName(cudaMalloc(&huge, (size_t)1 << 46));
    const char *pending = cudaGetErrorName(cudaGetLastError());
    printf("64 TiB: %s, then %s, then %s\n", answer, pending, cudaGetErrorName(cudaGetLastError()));
    printf("freeing rubbish: %s\n", cudaGetErrorName(cudaFree((void *)(uintptr_t)0x1234)));
    (void)cudaGetLastError();

    if (strcmp(ending, "leak") != 0) {
        CHECK(cudaFree(device));
        CHECK(cudaFree(pitched));
        CHECK(cudaFree(managed));
        CHECK(cudaFreeHost(pinned));
        CHECK(cudaFreeHost(mapped));
        CHECK(cudaMemGetInfo(&free_after, &total));
        printf("given back: %s\n", free_before == free_after ? "all" : "not all");
    }
    fflush(stdout);
    if (strcmp(ending, "abort") == 0)
        abort();
    if (strcmp(ending, "segv") == 0)
        *(volatile int *)8 = 1;
    return atoi(ending);
}
