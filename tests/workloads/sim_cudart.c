/* A client of NVIDIA's own runtime of CUDA 10.2 on the simulated driver. Prints one line per
 * check that passes, and ends with 1 at the first that fails. The books are read through the C
 * function of the simulated driver. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The runtime's functions, declared here so that no CUDA toolkit is needed. */
extern int cudaDriverGetVersion(int *);
extern int cudaRuntimeGetVersion(int *);
extern int cudaGetDeviceCount(int *);
extern int cudaSetDevice(int);
extern int cudaGetDevice(int *);
extern int cudaMalloc(void **, size_t);
extern int cudaMallocPitch(void **, size_t *, size_t, size_t);
extern int cudaMallocManaged(void **, size_t, unsigned);
extern int cudaHostAlloc(void **, size_t, unsigned);
extern int cudaMallocHost(void **, size_t);
extern int cudaHostRegister(void *, size_t, unsigned);
extern int cudaHostUnregister(void *);
extern int cudaFree(void *);
extern int cudaFreeHost(void *);
extern int cudaMemcpy(void *, const void *, size_t, int);
extern int cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
extern int cudaMemcpyAsync(void *, const void *, size_t, int, void *);
extern int cudaMemset(void *, int, size_t);
extern int cudaMemset2D(void *, size_t, int, size_t, size_t);
extern int cudaMemGetInfo(size_t *, size_t *);
extern int cudaGetLastError(void);
extern int cudaStreamCreate(void **);
extern int cudaStreamSynchronize(void *);
extern int cudaStreamDestroy(void *);
extern int cudaEventCreate(void **);
extern int cudaEventRecord(void *, void *);
extern int cudaEventSynchronize(void *);
extern int cudaEventElapsedTime(float *, void *, void *);
extern int cudaEventDestroy(void *);
extern int cudaDeviceSynchronize(void);
extern int cudaDeviceReset(void);
extern int cudaMallocArray(void **, const void *, size_t, size_t, unsigned);
extern int cudaMemcpy2DToArray(void *, size_t, size_t, const void *, size_t, size_t, size_t, int);
extern int cudaMemcpy2DFromArray(void *, size_t, const void *, size_t, size_t, size_t, size_t, int);
extern int cudaFreeArray(void *);

enum { TO_DEVICE = 1, TO_HOST = 2, DEVICE_TO_DEVICE = 3 };
enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2 };

static int (*books)(int, const char *, uint64_t *, uint64_t *);

static void hold(int condition, const char *what, int line) {
    if (!condition) {
        printf("line %d: FAILED: %s\n", line, what);
        exit(1);
    }
    printf("holds: %s\n", what);
}
#define HOLD(condition) hold((condition), #condition, __LINE__)

static uint64_t now(int device, const char *kind) {
    uint64_t current = UINT64_MAX, peak;
    if (books(device, kind, &current, &peak) != 0) {
        printf("no books of %s on device %d\n", kind, device);
        exit(1);
    }
    return current;
}

static uint64_t peak(int device, const char *kind) {
    uint64_t current, most = UINT64_MAX;
    books(device, kind, &current, &most);
    return most;
}

int main(void) {
    int version, count, device;
    size_t free_bytes, total, pitch;
    void *a, *b, *c, *pinned, *stream, *start, *end;

    HOLD(cudaDriverGetVersion(&version) == 0);
    HOLD(cudaRuntimeGetVersion(&version) == 0 && version == 10020);
    HOLD(cudaGetDeviceCount(&count) == 0 && count == 2);
    HOLD(cudaFree(0) == 0);
    books = dlsym(dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY), "gpumem_sim_books");
    HOLD(books != NULL);
    HOLD(cudaMemGetInfo(&free_bytes, &total) == 0);
    HOLD(total == now(0, "total") && free_bytes == total - now(0, "physical"));
    const uint64_t context = now(0, "physical");
    HOLD(context > 0);
    HOLD(now(1, "physical") == 0);

    /* Requested bytes are exact, physical ones whole pages. */
    HOLD(cudaMalloc(&a, 1000) == 0 && now(0, "device") == 1000);
    HOLD(now(0, "physical") == context + (2 << 20));
    HOLD(cudaMalloc(&b, (3 << 20) + 1) == 0 && now(0, "device") == 1000 + (3 << 20) + 1);
    HOLD(now(0, "physical") == context + (6 << 20));
    HOLD(cudaMallocPitch(&c, &pitch, 100, 7) == 0 && pitch == 512);
    HOLD(now(0, "driver") == 1000 + (3 << 20) + 1 + 512 * 7);
    HOLD(now(0, "physical") == context + (6 << 20));

    /* Data survives the round trip. */
    char text[1000], back[1000];
    for (int i = 0; i < 1000; i++) text[i] = (char)(i * 7);
    HOLD(cudaMemcpy(a, text, 1000, TO_DEVICE) == 0);
    HOLD(cudaMemcpy(b, a, 1000, DEVICE_TO_DEVICE) == 0);
    HOLD(cudaMemset((char *)b + 10, 0x5a, 20) == 0);
    HOLD(cudaMemcpy(back, b, 1000, TO_HOST) == 0);
    HOLD(memcmp(back, text, 10) == 0 && back[10] == 0x5a && back[29] == 0x5a);
    HOLD(memcmp(back + 30, text + 30, 970) == 0);
    HOLD(cudaMemset2D(c, pitch, 3, 100, 7) == 0);
    HOLD(cudaMemcpy2D(c, pitch, text, 10, 10, 6, TO_DEVICE) == 0);
    memset(back, 0, sizeof back);
    HOLD(cudaMemcpy2D(back, 100, c, pitch, 100, 7, TO_HOST) == 0);
    HOLD(memcmp(back + 500, text + 50, 10) == 0 && back[510] == 3 && back[600] == 3);

    /* Arrays: bytes from the descriptor. */
    struct { int x, y, z, w, kind; } channel = {32, 0, 0, 0, 2};
    void *array;
    HOLD(cudaMallocArray(&array, &channel, 16, 8, 0) == 0 && now(0, "array") == 16 * 8 * 4);
    HOLD(cudaMemcpy2DToArray(array, 0, 0, text, 64, 64, 8, TO_DEVICE) == 0);
    memset(back, 0, sizeof back);
    HOLD(cudaMemcpy2DFromArray(back, 64, array, 0, 0, 64, 8, TO_HOST) == 0);
    HOLD(memcmp(back, text, 512) == 0);
    HOLD(cudaFreeArray(array) == 0 && now(0, "array") == 0);

    /* Pinned and managed memory. */
    HOLD(cudaMallocHost(&pinned, 12345) == 0 && now(0, "host") == 12345);
    memset(pinned, 9, 12345);
    HOLD(cudaFreeHost(pinned) == 0 && now(0, "host") == 0);
    HOLD(cudaHostAlloc(&pinned, 4096, 1) == 0 && now(0, "host") == 4096);
    HOLD(cudaHostRegister(text, sizeof text, 0) == 0 && now(0, "registered") == sizeof text);
    HOLD(cudaHostUnregister(text) == 0 && now(0, "registered") == 0);
    uint64_t driver = now(0, "driver");
    HOLD(cudaMallocManaged(&pinned, 5 << 20, 1) == 0 && now(0, "managed") == 5 << 20);
    memset(pinned, 1, 5 << 20);
    HOLD(now(0, "driver") == driver + (5 << 20));
    HOLD(cudaFree(pinned) == 0 && now(0, "managed") == 0);

    /* Streams and events. */
    float ms;
    HOLD(cudaStreamCreate(&stream) == 0 && cudaEventCreate(&start) == 0 && cudaEventCreate(&end) == 0);
    HOLD(cudaEventRecord(start, stream) == 0);
    HOLD(cudaMemcpyAsync(a, text, 1000, TO_DEVICE, stream) == 0);
    HOLD(cudaEventRecord(end, stream) == 0 && cudaEventSynchronize(end) == 0);
    HOLD(cudaEventElapsedTime(&ms, start, end) == 0 && ms >= 0 && ms < 1000);
    HOLD(cudaStreamSynchronize(stream) == 0 && cudaStreamDestroy(stream) == 0);
    HOLD(cudaEventDestroy(start) == 0 && cudaEventDestroy(end) == 0);

    /* Errors are the driver's, and change nothing. */
    driver = now(0, "driver");
    const uint64_t physical = now(0, "physical"), most = peak(0, "driver");
    HOLD(cudaMalloc(&pinned, total) == OUT_OF_MEMORY && cudaGetLastError() == OUT_OF_MEMORY);
    HOLD(cudaGetLastError() == 0);
    HOLD(cudaMalloc(&pinned, (size_t)-1) == OUT_OF_MEMORY && cudaGetLastError() == OUT_OF_MEMORY);
    HOLD(cudaFree((char *)b + 512) == INVALID_VALUE && cudaGetLastError() == INVALID_VALUE);
    HOLD(now(0, "driver") == driver && now(0, "physical") == physical);
    HOLD(peak(0, "driver") == most);

    /* All free memory is available, to the last page; then requests fail. */
    HOLD(cudaMemGetInfo(&free_bytes, &total) == 0);
    HOLD(cudaMalloc(&pinned, free_bytes) == 0);
    HOLD(cudaMemGetInfo(&free_bytes, &total) == 0 && free_bytes == 0);
    void *none;
    HOLD(cudaMalloc(&none, 2 << 20) == OUT_OF_MEMORY);
    HOLD(cudaFree(pinned) == 0);
    HOLD(cudaMemGetInfo(&free_bytes, &total) == 0 && free_bytes == total - physical);

    /* The second device has its own books. */
    HOLD(cudaSetDevice(1) == 0 && cudaMalloc(&pinned, 77) == 0);
    HOLD(now(1, "driver") == 77 && now(0, "driver") == driver);
    HOLD(cudaGetDevice(&device) == 0 && device == 1);
    HOLD(cudaFree(pinned) == 0 && now(1, "driver") == 0);
    HOLD(cudaSetDevice(0) == 0);

    HOLD(cudaFree(b) == 0 && now(0, "driver") == 1000 + 512 * 7);
    HOLD(cudaDeviceSynchronize() == 0);
    /* Reset destroys what is left, and the device can be used again. */
    HOLD(cudaDeviceReset() == 0);
    HOLD(now(0, "driver") == 0 && now(0, "host") == 0 && now(0, "physical") == 0);
    HOLD(cudaMalloc(&a, 4000) == 0 && now(0, "driver") == 4000);
    HOLD(now(0, "physical") == context + (2 << 20));
    puts("all holds");
    return 0;
}
