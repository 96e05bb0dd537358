/* Functions of CUDA 12's runtime that CUDA 13's lacks, implemented with common ones; see tests/lib/other_torch.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

extern int cudaDeviceGetAttribute(int *value, int attribute, int device);
extern int cudaStreamGetCaptureInfo(
    void *stream, int *status, uint64_t *id, void **graph, const void **after, const void **edges, size_t *count);

/* cudaDeviceProp of CUDA 12 (1032 bytes, driver_types.h): where its integers are, and the attribute of each. */
static const struct {
    uint16_t offset;
    uint16_t attribute;
} INTEGERS[] = {
    {304, 12}, {308, 10}, {320, 1},  {324, 2},  {328, 3},  {332, 4},  {336, 5},  {340, 6},  {344, 7},
    {348, 13}, {360, 75}, {364, 76}, {388, 16}, {396, 18}, {576, 31}, {584, 33}, {588, 34}, {592, 50},
    {604, 41}, {608, 36}, {612, 37}, {616, 38}, {624, 39}, {648, 82}, {652, 83}, {688, 95},
};
/* Its sizes. */
static const struct {
    uint16_t offset;
    uint16_t attribute;
} SIZES[] = {{296, 8}, {312, 11}, {352, 9}, {368, 14}, {640, 81}, {696, 97}};

int cudaGetDeviceProperties_v2(void *properties, int device)
{
    char *bytes = properties;
    size_t total = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    int (*name)(char *, int, int) = (int (*)(char *, int, int))dlsym(driver, "cuDeviceGetName");
    int (*memory)(size_t *, int) = (int (*)(size_t *, int))dlsym(driver, "cuDeviceTotalMem_v2");

    memset(bytes, 0, 1032);
    for (size_t at = 0; at < sizeof INTEGERS / sizeof *INTEGERS; at++) {
        int32_t value = 0;
        int error = cudaDeviceGetAttribute(&value, INTEGERS[at].attribute, device);
        if (error)
            return error;
        memcpy(bytes + INTEGERS[at].offset, &value, sizeof value);
    }
    for (size_t at = 0; at < sizeof SIZES / sizeof *SIZES; at++) {
        int value = 0;
        cudaDeviceGetAttribute(&value, SIZES[at].attribute, device);
        uint64_t size = (uint64_t)value;
        memcpy(bytes + SIZES[at].offset, &size, sizeof size);
    }
    name(bytes, 256, device);
    memory(&total, device);
    memcpy(bytes + 288, &total, sizeof total);
    return 0;
}

int cudaStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph, const void **after, size_t *count)
{
    return cudaStreamGetCaptureInfo(stream, status, id, graph, after, NULL, count);
}
