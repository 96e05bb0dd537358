/* A client of the simulated runtime of CUDA 13 and of cuBLAS: one check, named by the argument. Ends with
 * 1 at the first fault. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The functions, declared here so that no CUDA toolkit is needed. */
typedef struct { unsigned x, y, z; } dim3;
typedef struct { size_t width, height, depth; } extent;
typedef struct { void *ptr; size_t pitch, xsize, ysize; } pitched;
typedef struct { size_t x, y, z; } position;
typedef struct { int x, y, z, w, kind; } channels;
typedef struct { int type, device; void *device_pointer, *host_pointer; long reserved[8]; } attributes;
typedef struct { char bytes[64]; } ipc_handle;
typedef struct {
    void *from_array; position from_position; pitched from;
    void *to_array; position to_position; pitched to;
    extent extent; int kind;
} copy_3d;
typedef struct {
    size_t shared, constant, local;
    int threads, registers, rest[27];
} function_attributes;

extern int cudaDriverGetVersion(int *), cudaRuntimeGetVersion(int *), cudaGetDeviceCount(int *);
extern int cudaSetDevice(int), cudaGetDevice(int *), cudaDeviceReset(void), cudaDeviceSynchronize(void);
extern int cudaGetLastError(void), cudaPeekAtLastError(void);
extern const char *cudaGetErrorName(int), *cudaGetErrorString(int);
extern int cudaMalloc(void **, size_t), cudaFree(void *), cudaMemGetInfo(size_t *, size_t *);
extern int cudaMallocManaged(void **, size_t, unsigned), cudaMallocHost(void **, size_t);
extern int cudaHostAlloc(void **, size_t, unsigned), cudaFreeHost(void *);
extern int cudaHostRegister(void *, size_t, unsigned), cudaHostUnregister(void *);
extern int cudaHostGetDevicePointer(void **, void *, unsigned);
extern int cudaMallocPitch(void **, size_t *, size_t, size_t), cudaMalloc3D(pitched *, extent);
extern int cudaMemcpy(void *, const void *, size_t, int);
extern int cudaMemcpyAsync(void *, const void *, size_t, int, void *);
extern int cudaMemcpyPeer(void *, int, const void *, int, size_t);
extern int cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
extern int cudaMemcpy3D(const copy_3d *);
extern int cudaMemset(void *, int, size_t), cudaMemset2D(void *, size_t, int, size_t, size_t);
extern int cudaMemset3D(pitched, int, extent);
extern channels cudaCreateChannelDesc(int, int, int, int, int);
extern int cudaMallocArray(void **, const channels *, size_t, size_t, unsigned), cudaFreeArray(void *);
extern int cudaMalloc3DArray(void **, const channels *, extent, unsigned);
extern int cudaArrayGetInfo(channels *, extent *, unsigned *, void *);
extern int cudaMemcpy2DToArray(void *, size_t, size_t, const void *, size_t, size_t, size_t, int);
extern int cudaMemcpy2DFromArray(void *, size_t, void *, size_t, size_t, size_t, size_t, int);
extern int cudaPointerGetAttributes(attributes *, const void *);
extern int cudaMallocAsync(void **, size_t, void *), cudaFreeAsync(void *, void *);
extern int cudaMallocAsync_ptsz(void **, size_t, void *);
extern int cudaDeviceGetDefaultMemPool(void **, int), cudaMemPoolGetAttribute(void *, int, void *);
extern int cudaMemPoolSetAttribute(void *, int, void *), cudaMemPoolTrimTo(void *, size_t);
extern int cudaMemPoolCreate(void **, const void *), cudaMemPoolDestroy(void *);
extern int cudaMallocFromPoolAsync(void **, size_t, void *, void *);
extern int cudaStreamCreate(void **), cudaStreamDestroy(void *), cudaStreamSynchronize(void *);
extern int cudaStreamQuery(void *), cudaStreamQuery_ptsz(void *), cudaStreamIsCapturing(void *, int *);
extern int cudaStreamGetCaptureInfo(void *, int *, unsigned long long *, void **, void **, void **, size_t *);
extern int cudaThreadExchangeStreamCaptureMode(int *), cudaStreamWaitEvent(void *, void *, unsigned);
extern int cudaStreamAddCallback(void *, void (*)(void *, int, void *), void *, unsigned);
extern int cudaLaunchHostFunc(void *, void (*)(void *), void *);
typedef struct { const void *function; dim3 grid, block; unsigned shared; void *arguments, *extra; } kernel_node;
typedef struct { void *to; size_t pitch; unsigned value, element; size_t width, height; } fill_node;
typedef struct { void (*function)(void *); void *data; } host_node;
typedef struct {
    int kind, types, location_kind, location;
    char rest[72];
    void *access;
    size_t accesses, bytes;
    void *pointer;
} alloc_node;
typedef struct {
    int kind, zero[3];
    union { kernel_node kernel; struct { long flags; void *context; copy_3d copy; } copy; char all[232]; };
    long end;
} any_node;
extern int cudaStreamBeginCapture(void *, int), cudaStreamEndCapture(void *, void **);
extern int cudaGraphCreate(void **, unsigned), cudaGraphDestroy(void *), cudaGraphInstantiate(void **, void *, unsigned long long);
extern int cudaGraphLaunch(void *, void *), cudaGraphLaunch_ptsz(void *, void *), cudaGraphExecDestroy(void *);
extern int cudaGraphAddKernelNode(void **, void *, void **, size_t, const kernel_node *);
extern int cudaGraphKernelNodeGetParams(void *, kernel_node *), cudaGraphGetNodes(void *, void **, size_t *);
extern int cudaGraphAddMemcpyNode(void **, void *, void **, size_t, const copy_3d *);
extern int cudaGraphAddMemcpyNode1D(void **, void *, void **, size_t, void *, const void *, size_t, int);
extern int cudaGraphExecMemcpyNodeSetParams1D(void *, void *, void *, const void *, size_t, int);
extern int cudaGraphMemcpyNodeGetParams(void *, copy_3d *);
extern int cudaGraphAddMemsetNode(void **, void *, void **, size_t, const fill_node *);
extern int cudaGraphAddHostNode(void **, void *, void **, size_t, const host_node *);
extern int cudaGraphAddMemAllocNode(void **, void *, void **, size_t, alloc_node *);
extern int cudaGraphAddMemFreeNode(void **, void *, void **, size_t, void *);
extern int cudaGraphAddNode(void **, void *, void **, void *, size_t, any_node *), cudaGraphNodeGetParams(void *, any_node *);
extern int cudaDeviceGetGraphMemAttribute(int, int, uint64_t *), cudaDeviceGraphMemTrim(int);
extern int cudaEventCreate(void **), cudaEventDestroy(void *), cudaEventRecord(void *, void *);
extern int cudaEventQuery(void *), cudaEventElapsedTime(float *, void *, void *);
extern int cudaGetDriverEntryPoint(const char *, void **, unsigned long long, int *);
extern int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, unsigned long long, int *);
extern int cudaIpcGetMemHandle(ipc_handle *, void *), cudaIpcOpenMemHandle(void **, ipc_handle, unsigned);
extern int cudaIpcGetEventHandle(ipc_handle *, void *), cudaIpcOpenEventHandle(void **, ipc_handle);
extern int cudaEventCreateWithFlags(void **, unsigned), cudaEventSynchronize(void *);
extern int cudaIpcCloseMemHandle(void *), cudaDeviceCanAccessPeer(int *, int, int);
extern int cudaDeviceEnablePeerAccess(int, unsigned), cudaDeviceDisablePeerAccess(int);
extern int cudaGetDeviceProperties(void *, int), cudaDeviceGetAttribute(int *, int, int);
extern int cudaDeviceGetPCIBusId(char *, int, int), cudaDeviceGetByPCIBusId(int *, const char *);
extern int cudaProfilerStart(void), cudaProfilerStop(void), cudaCreateTextureObject(void *, void *, void *, void *);
extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFatBinaryEnd(void **), __cudaUnregisterFatBinary(void **);
extern void __cudaRegisterFunction(void **, const void *, char *, const char *, int, void *, void *, void *, void *, int *);
extern void __cudaRegisterVar(void **, void *, char *, const char *, int, size_t, int, int);
extern void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int);
extern char __cudaInitModule(void **);
extern unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void *);
extern int __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
extern int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
extern int __cudaGetKernel(void **, const void *), cudaFuncGetAttributes(function_attributes *, const void *);
extern int __cudaLaunchKernel(void *, dim3, dim3, void **, size_t, void *);
extern int cudaFuncSetAttribute(const void *, int, int);
extern int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);
extern int cudaGetSymbolAddress(void **, const void *), cudaGetSymbolSize(size_t *, const void *);
extern int cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
extern int cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
extern int cublasCreate_v2(void **), cublasDestroy_v2(void *), cublasSetStream_v2(void *, void *);
extern int cublasGetStream_v2(void *, void **), cublasSetMathMode(void *, int), cublasGetMathMode(void *, int *);
extern int cublasSetPointerMode_v2(void *, int), cublasGetPointerMode_v2(void *, int *);
extern int cublasSgemm_v2(void *, ...), cublasSdot_v2(void *, int, const float *, int, const float *, int, float *);
extern int cublasSetMatrix(int, int, int, const void *, int, void *, int);
extern int cublasGetMatrix(int, int, int, const void *, int, void *, int);
extern int cublasGetVersion_v2(void *, int *);
extern const char *cublasGetStatusName(int);

enum { TO_DEVICE = 1, TO_HOST = 2, BETWEEN = 3, ANY = 4 };
enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_SYMBOL = 13, INSUFFICIENT_DRIVER = 35,
       MISSING_CONFIGURATION = 52, INVALID_FUNCTION = 98, NO_DEVICE = 100, INVALID_DEVICE = 101,
       SYMBOL_NOT_FOUND = 500, NOT_SUPPORTED = 801 };

#define HOLD(condition) \
    ((condition) ? (void)0 : (printf("line %d: not so: %s\n", __LINE__, #condition), exit(1)))

static uint64_t live(int device, const char *kind) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*books)(int, const char *, uint64_t *, uint64_t *) =
        (int (*)(int, const char *, uint64_t *, uint64_t *))dlsym(driver, "gpumem_sim_books");
    uint64_t current, peak;
    HOLD(books && books(device, kind, &current, &peak) == 0);
    return current;
}

static void errors(void) {
    void *p = &p;
    HOLD(cudaGetLastError() == 0);
    HOLD(cudaMalloc(&p, (size_t)1 << 40) == OUT_OF_MEMORY);
    HOLD(cudaMalloc(NULL, 10) == INVALID_VALUE);
    HOLD(cudaPeekAtLastError() == INVALID_VALUE && cudaFree(NULL) == 0);
    HOLD(cudaGetLastError() == INVALID_VALUE && cudaGetLastError() == 0);
    HOLD(cudaFree((void *)64) == INVALID_VALUE && cudaGetLastError() == INVALID_VALUE);
    HOLD(cudaSetDevice(2) == INVALID_DEVICE && cudaSetDevice(-1) == INVALID_DEVICE);
    HOLD(cudaCreateTextureObject(0, 0, 0, 0) == NOT_SUPPORTED);
    HOLD(!strcmp(cudaGetErrorString(2), "out of memory"));
    HOLD(!strcmp(cudaGetErrorName(2), "cudaErrorMemoryAllocation"));
    HOLD(!strcmp(cudaGetErrorString(123456), "unrecognized error code"));
    HOLD(cudaMalloc(&p, 10) == 0 && cudaFree(p) == 0);
}

static void memory(void) {
    void *p = &p, *q, *managed, *host;
    HOLD(cudaMalloc(&p, 0) == 0 && p == NULL && cudaFree(p) == 0);
    HOLD(cudaMalloc(&p, 1000000) == 0 && cudaMalloc(&q, 77) == 0 && p != q);
    HOLD(live(0, "driver") == 1000077 && live(1, "driver") == 0);
    size_t before, free_bytes, total;
    HOLD(cudaMemGetInfo(&before, &total) == 0 && total == (size_t)4 << 30);
    HOLD(total - before == live(0, "physical"));
    HOLD(cudaFree(p) == 0 && cudaFree(q) == 0);
    HOLD(cudaMemGetInfo(&free_bytes, &total) == 0 && free_bytes > before);
    HOLD(cudaMallocHost(&host, 0) == 0 && host == NULL && cudaFreeHost(NULL) == 0);
    HOLD(cudaHostAlloc(&host, 12345, 2) == 0 && live(0, "host") == 12345);
    HOLD(cudaHostGetDevicePointer(&p, host, 0) == 0 && p == host);
    HOLD(cudaFreeHost(host) == 0 && live(0, "host") == 0);
    void *own = aligned_alloc(4096, 8192);
    HOLD(cudaHostRegister(own, 8192, 0) == 0 && live(0, "registered") == 8192);
    HOLD(cudaHostRegister(own, 8192, 0) == 712 && cudaHostUnregister(own) == 0);
    HOLD(cudaHostUnregister(own) == 713);
    free(own);
    HOLD(cudaMallocManaged(&managed, 1 << 16, 1) == 0);
    memset(managed, 1, 1 << 16);
    HOLD(live(0, "managed") == 1 << 16 && cudaFree(managed) == 0);
    HOLD(cudaMallocManaged(&managed, 0, 1) == INVALID_VALUE);
}

static void pitched_memory(void) {
    void *p;
    size_t pitch;
    HOLD(cudaMallocPitch(&p, &pitch, 1000, 50) == 0 && pitch >= 1000 && pitch % 32 == 0);
    HOLD(live(0, "driver") == pitch * 50);
    char rows[50][1000], back[50][1000];
    memset(rows, 3, sizeof rows);
    rows[49][999] = 4;
    HOLD(cudaMemset2D(p, pitch, 9, 1000, 50) == 0);
    HOLD(cudaMemcpy2D(p, pitch, rows, 1000, 1000, 50, TO_DEVICE) == 0);
    HOLD(cudaMemcpy2D(back, 1000, p, pitch, 1000, 50, ANY) == 0 && !memcmp(rows, back, sizeof rows));
    HOLD(cudaFree(p) == 0);
    HOLD(cudaMallocPitch(&p, &pitch, 0, 50) == 0 && p == NULL);
    pitched box;
    extent size = {100, 7, 5};
    HOLD(cudaMalloc3D(&box, size) == 0 && box.xsize == 100 && box.ysize == 7);
    HOLD(live(0, "driver") == box.pitch * 35);
    HOLD(cudaMemset3D(box, 5, size) == 0);
    char cube[5][7][100], again[5][7][100];
    for (int i = 0; i < 3500; i++) ((char *)cube)[i] = (char)(i * 7);
    copy_3d copy = {.from = {cube, 100, 100, 7}, .to = box, .extent = size, .kind = TO_DEVICE};
    HOLD(cudaMemcpy3D(&copy) == 0);
    copy_3d reverse = {.from = box, .to = {again, 100, 100, 7}, .extent = size, .kind = TO_HOST};
    HOLD(cudaMemcpy3D(&reverse) == 0 && !memcmp(cube, again, sizeof cube));
    HOLD(cudaFree(box.ptr) == 0);
}

static void arrays(void) {
    channels one = cudaCreateChannelDesc(32, 0, 0, 0, 2), four = cudaCreateChannelDesc(8, 8, 8, 8, 1), got;
    channels bad = cudaCreateChannelDesc(7, 0, 0, 0, 1);
    void *array;
    extent size;
    unsigned flags;
    HOLD(cudaMallocArray(&array, &bad, 4, 4, 0) == 20);
    HOLD(cudaMallocArray(&array, &one, 64, 32, 0) == 0);
    HOLD(cudaArrayGetInfo(&got, &size, &flags, array) == 0 && !memcmp(&one, &got, sizeof got));
    HOLD(size.width == 64 && size.height == 32 && flags == 0);
    float plane[32][64], back[32][64];
    for (int i = 0; i < 2048; i++) ((float *)plane)[i] = (float)i;
    HOLD(cudaMemcpy2DToArray(array, 0, 0, plane, 256, 256, 32, TO_DEVICE) == 0);
    HOLD(cudaMemcpy2DFromArray(back, 256, array, 0, 0, 256, 32, TO_HOST) == 0);
    HOLD(!memcmp(plane, back, sizeof plane) && cudaFreeArray(array) == 0);
    extent cube = {8, 4, 3};
    HOLD(cudaMalloc3DArray(&array, &four, cube, 0) == 0);
    unsigned in[96], out[96];
    for (int i = 0; i < 96; i++) in[i] = (unsigned)i * 77777;
    copy_3d copy = {.from = {in, 32, 8, 4}, .to_array = array, .extent = cube, .kind = TO_DEVICE};
    HOLD(cudaMemcpy3D(&copy) == 0);
    copy_3d reverse = {.from_array = array, .to = {out, 32, 8, 4}, .extent = cube, .kind = TO_HOST};
    HOLD(cudaMemcpy3D(&reverse) == 0 && !memcmp(in, out, sizeof in));
    HOLD(cudaFreeArray(array) == 0 && cudaFreeArray(NULL) == 0);
    HOLD(live(0, "driver") == 0);
}

static void copies(void) {
    char in[1000], out[1000];
    for (int i = 0; i < 1000; i++) in[i] = (char)(i * 13);
    void *p, *q, *other;
    HOLD(cudaMalloc(&p, 1000) == 0 && cudaMalloc(&q, 1000) == 0);
    HOLD(cudaMemcpy(p, in, 1000, TO_DEVICE) == 0 && cudaMemcpy(q, p, 1000, BETWEEN) == 0);
    HOLD(cudaMemcpyAsync(out, q, 1000, TO_HOST, NULL) == 0 && cudaDeviceSynchronize() == 0);
    HOLD(!memcmp(in, out, 1000) && cudaMemset(q, 8, 500) == 0);
    HOLD(cudaMemcpy(out, q, 1000, ANY) == 0 && out[499] == 8 && out[500] == in[500]);
    HOLD(cudaMemcpy(p, in, 1000, 9) == 21 && cudaMemcpy(p, in, 1001, TO_DEVICE) == INVALID_VALUE);
    int can;
    HOLD(cudaDeviceCanAccessPeer(&can, 0, 1) == 0 && can == 1);
    HOLD(cudaDeviceCanAccessPeer(&can, 0, 0) == 0 && can == 0);
    HOLD(cudaDeviceEnablePeerAccess(1, 0) == 0 && cudaDeviceEnablePeerAccess(1, 0) == 704);
    HOLD(cudaDeviceDisablePeerAccess(1) == 0 && cudaDeviceDisablePeerAccess(1) == 705);
    HOLD(cudaSetDevice(1) == 0 && cudaMalloc(&other, 1000) == 0);
    HOLD(cudaMemcpyPeer(other, 1, p, 0, 1000) == 0 && cudaMemcpyPeer(other, 2, p, 0, 1) == INVALID_DEVICE);
    memset(out, 0, 1000);
    HOLD(cudaMemcpy(out, other, 1000, TO_HOST) == 0 && !memcmp(in, out, 1000));
    HOLD(cudaFree(p) == 0 && cudaFree(q) == 0 && cudaFree(other) == 0);
    HOLD(live(0, "driver") == 0 && live(1, "driver") == 0);
}

static char kernel_stub, other_stub;
static int variable, *managed;

static void kernels(void) {
    static const struct { unsigned magic, version; const void *data; void *more; } wrapper = {0x466243b1, 1, "", 0};
    void **image = __cudaRegisterFatBinary((void *)&wrapper);
    __cudaRegisterFunction(image, &kernel_stub, &kernel_stub, "kernel", -1, 0, 0, 0, 0, 0);
    __cudaRegisterVar(image, &variable, (char *)&variable, "variable", 0, sizeof variable, 0, 0);
    __cudaRegisterManagedVar(image, (void **)&managed, (char *)&managed, "managed", 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(image);
    dim3 grid = {2, 3, 4}, block = {32, 1, 1}, g, b;
    size_t shared;
    void *stream;
    HOLD(__cudaPushCallConfiguration(grid, block, 5, NULL) == 0);
    HOLD(__cudaPopCallConfiguration(&g, &b, &shared, &stream) == 0 && g.z == 4 && b.x == 32 && shared == 5);
    HOLD(__cudaPopCallConfiguration(&g, &b, &shared, &stream) == MISSING_CONFIGURATION);
    HOLD(cudaLaunchKernel(&kernel_stub, grid, block, NULL, 0, NULL) == 0);
    HOLD(cudaLaunchKernel(&other_stub, grid, block, NULL, 0, NULL) == INVALID_FUNCTION);
    void *kernel;
    HOLD(__cudaGetKernel(&kernel, &kernel_stub) == 0 && kernel);
    HOLD(__cudaLaunchKernel(kernel, grid, block, NULL, 0, NULL) == 0);
    HOLD(cudaLaunchKernel(kernel, grid, block, NULL, 0, NULL) == 0);
    HOLD(cudaSetDevice(1) == 0 && cudaLaunchKernel(&kernel_stub, grid, block, NULL, 0, NULL) == 0);
    HOLD(cudaSetDevice(0) == 0);
    function_attributes about;
    HOLD(cudaFuncGetAttributes(&about, &kernel_stub) == 0 && about.threads == 1024 && about.registers > 0);
    HOLD(cudaFuncSetAttribute(&kernel_stub, 8, 65536) == 0);
    int blocks = 0;
    HOLD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &kernel_stub, 128, 0) == 0 && blocks > 0);
    void *address;
    size_t bytes;
    int value = 42, back = 0;
    HOLD(cudaGetSymbolAddress(&address, &variable) == 0 && address);
    HOLD(cudaGetSymbolSize(&bytes, &variable) == 0 && bytes == sizeof variable);
    HOLD(cudaGetSymbolAddress(&address, &value) == INVALID_SYMBOL);
    HOLD(cudaMemcpyToSymbol(&variable, &value, 4, 0, TO_DEVICE) == 0);
    HOLD(cudaMemcpyFromSymbol(&back, &variable, 4, 0, TO_HOST) == 0 && back == 42);
    HOLD(cudaMemcpyToSymbol(&variable, &value, 4, 1, TO_DEVICE) == INVALID_VALUE);
    HOLD(__cudaInitModule(image) == 1 && managed);
    *managed = 7;
    HOLD(cudaMemcpyFromSymbol(&back, &managed, 4, 0, ANY) == 0 && back == 7);
    __cudaUnregisterFatBinary(image);
    HOLD(cudaLaunchKernel(&kernel_stub, grid, block, NULL, 0, NULL) == INVALID_FUNCTION);
}

static void entry_points(void) {
    int version, status = -1;
    void *found = NULL, *other = NULL;
    HOLD(cudaDriverGetVersion(&version) == 0 && version == 13020);
    HOLD(cudaRuntimeGetVersion(&version) == 0 && version == 13020);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    HOLD(cudaGetDriverEntryPoint("cuMemAlloc", &found, 0, &status) == 0 && status == 0);
    HOLD(found == dlsym(driver, "cuMemAlloc_v2"));
    HOLD(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &found, 13000, 0, NULL) == 0);
    HOLD(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &other, 13000, 2, NULL) == 0 && found != other);
    HOLD(cudaGetDriverEntryPointByVersion("cuCtxSynchronize", &found, 12000, 0, &status) == 0);
    HOLD(cudaGetDriverEntryPointByVersion("cuCtxSynchronize", &other, 13000, 0, &status) == 0 && found != other);
    HOLD(cudaGetDriverEntryPointByVersion("cuNothing", &found, 13000, 0, &status) == 0);
    HOLD(found == NULL && status == 1);
    HOLD(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &found, 10000, 0, &status) == 0);
    HOLD(found == NULL && status == 2);
    HOLD(cudaGetDriverEntryPoint("cuNothing", &found, 0, NULL) == SYMBOL_NOT_FOUND);
}

static void pools(void) {
    void *p, *q, *pool, *own;
    uint64_t threshold = UINT64_MAX, used = 1, reserved = 0;
    HOLD(cudaMallocAsync(&p, 5000, NULL) == 0 && cudaMallocAsync_ptsz(&q, 6000, NULL) == 0);
    HOLD(live(0, "async") == 11000);
    HOLD(cudaDeviceGetDefaultMemPool(&pool, 0) == 0);
    HOLD(cudaMemPoolGetAttribute(pool, 7, &used) == 0 && used >= 11000);
    HOLD(cudaMemPoolSetAttribute(pool, 4, &threshold) == 0);
    HOLD(cudaFreeAsync(p, NULL) == 0 && cudaFree(q) == 0 && live(0, "async") == 0);
    HOLD(cudaDeviceSynchronize() == 0);
    HOLD(cudaMemPoolGetAttribute(pool, 5, &reserved) == 0 && reserved > 0);
    HOLD(cudaMemPoolTrimTo(pool, 0) == 0);
    HOLD(cudaMemPoolGetAttribute(pool, 5, &reserved) == 0 && reserved == 0);
    struct { int kind, handles, place, id; void *security; size_t most; unsigned short usage; char rest[54]; } properties;
    memset(&properties, 0, sizeof properties);
    properties.kind = 1, properties.place = 1;
    HOLD(cudaMemPoolCreate(&own, &properties) == 0);
    HOLD(cudaMallocFromPoolAsync(&p, 100, own, NULL) == 0 && cudaFreeAsync(p, NULL) == 0);
    HOLD(cudaMemPoolDestroy(own) == 0);
}

static void pointers(void) {
    void *p, *host, *managed;
    attributes about;
    HOLD(cudaSetDevice(1) == 0 && cudaMalloc(&p, 1000) == 0);
    HOLD(cudaMallocHost(&host, 1000) == 0 && cudaMallocManaged(&managed, 1000, 1) == 0);
    HOLD(cudaSetDevice(0) == 0);
    HOLD(cudaPointerGetAttributes(&about, (char *)p + 10) == 0 && about.type == 2 && about.device == 1);
    HOLD(about.device_pointer == (char *)p + 10 && about.host_pointer == NULL);
    HOLD(cudaPointerGetAttributes(&about, host) == 0 && about.type == 1 && about.host_pointer == host);
    HOLD(cudaPointerGetAttributes(&about, managed) == 0 && about.type == 3 && about.host_pointer == managed);
    int local;
    HOLD(cudaPointerGetAttributes(&about, &local) == 0 && about.type == 0 && about.device == -1);
    HOLD(about.host_pointer == &local && about.device_pointer == NULL);
}

static void called(void *data) { ++*(int *)data; }
static void called_back(void *stream, int status, void *data) {
    HOLD(stream != NULL && status == 0);
    ++*(int *)data;
}

static void streams(void) {
    void *stream, *start, *end, *graph;
    int calls = 0, capturing = 9, mode = 2;
    unsigned long long id = 9;
    float milliseconds = -1;
    HOLD(cudaStreamCreate(&stream) == 0 && cudaEventCreate(&start) == 0 && cudaEventCreate(&end) == 0);
    HOLD(cudaEventRecord(start, stream) == 0 && cudaEventRecord(end, stream) == 0);
    HOLD(cudaStreamWaitEvent(NULL, end, 0) == 0 && cudaEventQuery(end) == 0);
    HOLD(cudaEventElapsedTime(&milliseconds, start, end) == 0 && milliseconds >= 0);
    HOLD(cudaLaunchHostFunc(stream, called, &calls) == 0);
    HOLD(cudaStreamAddCallback(stream, called_back, &calls, 0) == 0);
    HOLD(cudaStreamSynchronize(stream) == 0 && calls == 2);
    HOLD(cudaStreamQuery(stream) == 0 && cudaStreamQuery_ptsz(NULL) == 0);
    HOLD(cudaStreamIsCapturing(stream, &capturing) == 0 && capturing == 0);
    HOLD(cudaStreamGetCaptureInfo(stream, &capturing, &id, &graph, NULL, NULL, NULL) == 0 && capturing == 0);
    HOLD(cudaThreadExchangeStreamCaptureMode(&mode) == 0 && mode == 0);
    HOLD(cudaProfilerStart() == 0 && cudaProfilerStop() == 0);
    HOLD(cudaEventDestroy(start) == 0 && cudaEventDestroy(end) == 0 && cudaStreamDestroy(stream) == 0);
}

static void graphs(void) {
    static const struct { unsigned magic, version; const void *data; void *more; } wrapper = {0x466243b1, 1, "", 0};
    void **image = __cudaRegisterFatBinary((void *)&wrapper);
    __cudaRegisterFunction(image, &kernel_stub, &kernel_stub, "kernel", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(image);
    void *stream, *graph, *executable, *nodes[8], *data;
    char source[8] = "source", target[8] = "";
    int calls = 0, capturing = 9;
    size_t count = 8;
    HOLD(cudaMalloc(&data, 100) == 0 && cudaStreamCreate(&stream) == 0);

    /* Captured: nothing is done before the launch. The stream is a blocking one, so the null stream waits. */
    dim3 one = {1, 1, 1}, block = {32, 2, 1};
    void *memory;
    HOLD(cudaStreamBeginCapture(stream, 0) == 0 && cudaStreamIsCapturing(stream, &capturing) == 0 && capturing == 1);
    HOLD(cudaMemcpyAsync(data, source, 8, TO_DEVICE, stream) == 0);
    HOLD(cudaLaunchKernel(&kernel_stub, one, block, NULL, 16, stream) == 0);
    HOLD(cudaMallocAsync(&memory, 3 << 20, stream) == 0 && cudaFreeAsync(memory, stream) == 0);
    HOLD(cudaMemcpyAsync(target, data, 8, TO_HOST, stream) == 0);
    HOLD(cudaLaunchHostFunc(stream, called, &calls) == 0);
    HOLD(cudaStreamEndCapture(stream, &graph) == 0 && calls == 0 && target[0] == 0);
    HOLD(cudaGraphGetNodes(graph, nodes, &count) == 0 && count == 6);
    kernel_node told;
    HOLD(cudaGraphKernelNodeGetParams(nodes[1], &told) == 0);
    HOLD(told.function == &kernel_stub && told.block.y == 2 && told.shared == 16);
    copy_3d copied;
    HOLD(cudaGraphMemcpyNodeGetParams(nodes[0], &copied) == 0 && copied.kind == TO_DEVICE);
    HOLD(copied.from.ptr == source && copied.to.ptr == data && copied.extent.width == 8);
    any_node any;
    HOLD(cudaGraphNodeGetParams(nodes[0], &any) == 0 && any.kind == 1 && any.copy.copy.from.ptr == source);
    HOLD(cudaGraphInstantiate(&executable, graph, 0) == 0 && live(0, "graph") == 0);
    HOLD(cudaGraphLaunch(executable, stream) == 0 && calls == 1 && strcmp(target, "source") == 0);
    HOLD(cudaGraphLaunch_ptsz(executable, NULL) == 0 && calls == 2 && live(0, "graph") == 0);
    uint64_t reserved = 0;
    HOLD(cudaDeviceGetGraphMemAttribute(0, 2, &reserved) == 0 && reserved == 32 << 20);
    HOLD(cudaDeviceGraphMemTrim(0) == 0);
    HOLD(cudaDeviceGetGraphMemAttribute(0, 2, &reserved) == 0 && reserved == 0);
    char other[8] = "other";
    HOLD(cudaGraphExecMemcpyNodeSetParams1D(executable, nodes[0], data, other, 8, TO_DEVICE) == 0);
    HOLD(cudaGraphLaunch(executable, stream) == 0 && strcmp(target, "other") == 0);
    HOLD(cudaGraphExecDestroy(executable) == 0 && cudaGraphDestroy(graph) == 0);

    /* Made by hand. */
    alloc_node allocation = {.kind = 1, .location_kind = 1, .bytes = 1000};
    HOLD(cudaGraphCreate(&graph, 0) == 0);
    HOLD(cudaGraphAddMemAllocNode(&nodes[0], graph, NULL, 0, &allocation) == 0 && allocation.pointer);
    fill_node fill = {allocation.pointer, 0, 'x', 1, 7, 1};
    HOLD(cudaGraphAddMemsetNode(&nodes[1], graph, nodes, 1, &fill) == 0);
    kernel_node kernel = {&kernel_stub, one, block, 0, NULL, NULL};
    HOLD(cudaGraphAddKernelNode(&nodes[2], graph, nodes, 2, &kernel) == 0);
    kernel.function = &other_stub;
    HOLD(cudaGraphAddKernelNode(&nodes[3], graph, nodes, 2, &kernel) == INVALID_FUNCTION);
    HOLD(cudaGraphAddMemcpyNode1D(&nodes[3], graph, nodes, 3, target, allocation.pointer, 7, TO_HOST) == 0);
    HOLD(cudaGraphAddMemFreeNode(&nodes[4], graph, nodes, 4, allocation.pointer) == 0);
    any_node another = {.kind = 0, .kernel = {&kernel_stub, one, one, 0, NULL, NULL}};
    HOLD(cudaGraphAddNode(&nodes[5], graph, nodes, NULL, 1, &another) == 0);
    memset(&another, 0, sizeof another);
    another.kind = 1;
    another.copy.copy = copied;
    HOLD(cudaGraphAddNode(&nodes[6], graph, nodes, NULL, 1, &another) == 0);
    HOLD(cudaGraphNodeGetParams(nodes[6], &any) == 0 && any.copy.copy.to.ptr == data);
    HOLD(cudaGraphNodeGetParams(nodes[5], &any) == 0 && any.kernel.function == &kernel_stub);
    HOLD(cudaGraphInstantiate(&executable, graph, 0) == 0 && cudaGraphLaunch(executable, NULL) == 0);
    HOLD(memcmp(target, "xxxxxxx", 7) == 0 && live(0, "graph") == 0 && live(0, "driver") == 100);
    HOLD(cudaGraphExecDestroy(executable) == 0 && cudaGraphDestroy(graph) == 0 && cudaGraphDestroy(graph) == INVALID_VALUE);
    __cudaUnregisterFatBinary(image);
}

static void *uses_device(void *number) {
    int device = 9;
    void *p;
    HOLD(cudaGetDevice(&device) == 0 && device == 0);
    HOLD(cudaSetDevice((int)(intptr_t)number) == 0 && cudaMalloc(&p, 1000) == 0);
    HOLD(cudaGetDevice(&device) == 0 && device == (int)(intptr_t)number);
    HOLD(cudaMalloc(NULL, 1) == INVALID_VALUE);
    return p;
}

static void threads(void) {
    pthread_t all[8];
    HOLD(cudaSetDevice(1) == 0);
    for (intptr_t i = 0; i < 8; i++) HOLD(!pthread_create(&all[i], NULL, uses_device, (void *)(i % 2)));
    void *made[8];
    for (int i = 0; i < 8; i++) pthread_join(all[i], &made[i]);
    HOLD(cudaGetLastError() == 0);
    HOLD(live(0, "driver") == 4000 && live(1, "driver") == 4000);
    int device;
    HOLD(cudaGetDevice(&device) == 0 && device == 1);
    for (int i = 0; i < 8; i++) HOLD(cudaFree(made[i]) == 0);
}

static void reset(void) {
    void *p, *q;
    HOLD(cudaDeviceReset() == 0);
    HOLD(cudaMalloc(&p, 1000) == 0 && cudaSetDevice(1) == 0 && cudaMalloc(&q, 500) == 0);
    HOLD(cudaDeviceReset() == 0 && live(1, "driver") == 0 && live(0, "driver") == 1000);
    HOLD(cudaFree(q) == INVALID_VALUE && cudaMalloc(&q, 70) == 0 && live(1, "driver") == 70);
    HOLD(cudaSetDevice(0) == 0 && cudaFree(p) == 0);
    HOLD(cudaDeviceReset() == 0 && live(0, "physical") == 0);
    HOLD(cudaMalloc(&p, 10) == 0 && live(0, "physical") > 0);
}

static void properties(void) {
    union { char bytes[1008]; struct { char name[256], uuid[16], luid[8]; unsigned mask; size_t total; } p; } about;
    char past[16], id[32];
    memset(past, 0x5a, sizeof past);
    int value, device = -1, count;
    HOLD(cudaGetDeviceCount(&count) == 0 && count == 2);
    HOLD(cudaGetDeviceProperties(&about, 1) == 0 && about.p.total == (size_t)4 << 30 && about.p.name[0]);
    HOLD(*(int *)(about.bytes + 360) == 9 && *(int *)(about.bytes + 364) == 0);
    HOLD(cudaDeviceGetAttribute(&value, 75, 1) == 0 && value == 9);
    HOLD(cudaDeviceGetAttribute(&value, 75, 2) == INVALID_DEVICE);
    HOLD(cudaGetDeviceProperties(&about, 2) == INVALID_DEVICE);
    HOLD(cudaDeviceGetPCIBusId(id, sizeof id, 1) == 0 && cudaDeviceGetByPCIBusId(&device, id) == 0 && device == 1);
    HOLD(past[0] == 0x5a && live(0, "physical") == 0 && live(1, "physical") == 0);
}

static void shared(void) {
    int to_child[2], to_parent[2];
    HOLD(!pipe(to_child) && !pipe(to_parent));
    ipc_handle handle, event_handle;
    char done = 0;
    pid_t child = fork();
    if (child == 0) {
        void *theirs, *event;
        int seen = 0;
        HOLD(read(to_child[0], &handle, sizeof handle) == sizeof handle);
        HOLD(read(to_child[0], &event_handle, sizeof event_handle) == sizeof event_handle);
        HOLD(cudaIpcOpenEventHandle(&event, handle) == INVALID_VALUE);
        HOLD(cudaIpcOpenEventHandle(&event, event_handle) == 0 && cudaEventSynchronize(event) == 0);
        HOLD(cudaIpcOpenMemHandle(&theirs, handle, 1) == 0);
        HOLD(cudaMemcpy(&seen, theirs, 4, TO_HOST) == 0 && seen == 99);
        HOLD(live(0, "driver") == 0 && cudaIpcCloseMemHandle(theirs) == 0);
        HOLD(write(to_parent[1], "x", 1) == 1);
        _exit(0);
    }
    void *p, *event;
    int value = 99, status;
    HOLD(cudaEventCreateWithFlags(&event, 4) == INVALID_VALUE);
    HOLD(cudaEventCreateWithFlags(&event, 0) == 0 && cudaIpcGetEventHandle(&event_handle, event) == INVALID_VALUE);
    HOLD(cudaEventCreateWithFlags(&event, 6) == 0 && cudaIpcGetEventHandle(&event_handle, event) == 0);
    HOLD(cudaMalloc(&p, 1000) == 0 && cudaMemcpy(p, &value, 4, TO_DEVICE) == 0);
    HOLD(cudaIpcGetMemHandle(&handle, p) == 0);
    HOLD(write(to_child[1], &handle, sizeof handle) == sizeof handle);
    HOLD(write(to_child[1], &event_handle, sizeof event_handle) == sizeof event_handle);
    close(to_parent[1]);
    HOLD(read(to_parent[0], &done, 1) == 1 && done == 'x');
    HOLD(waitpid(child, &status, 0) == child && status == 0 && cudaFree(p) == 0);
}

static void forked(void) {
    void *p;
    HOLD(cudaMalloc(&p, 1000) == 0);
    pid_t child = fork();
    if (child == 0) {
        void *q;
        HOLD(cudaMalloc(&q, 10) == NOT_INITIALIZED && cudaFree(p) == NOT_INITIALIZED);
        HOLD(cudaGetLastError() == NOT_INITIALIZED);
        _exit(0);
    }
    int status;
    HOLD(waitpid(child, &status, 0) == child && status == 0);
    HOLD(cudaMalloc(&p, 1000) == 0 && live(0, "driver") == 2000);
}

static void blas_only(void) {
    void *handle;
    HOLD(cublasCreate_v2(&handle) == 0 && cublasDestroy_v2(handle) == 0);
}

static void blas(void) {
    void *handle, *second, *stream, *got, *p;
    int mode = -1, version;
    float result = 5, matrix[6] = {1, 2, 3, 4, 5, 6}, back[6] = {0};
    HOLD(cudaSetDevice(1) == 0 && cublasCreate_v2(&handle) == 0);
    HOLD(live(1, "driver") == 8 << 20 && live(0, "driver") == 0);
    HOLD(cublasCreate_v2(&second) == 0 && second != handle && live(1, "driver") == 16 << 20);
    HOLD(cudaStreamCreate(&stream) == 0 && cublasSetStream_v2(handle, stream) == 0);
    HOLD(cublasGetStream_v2(handle, &got) == 0 && got == stream);
    HOLD(cublasGetMathMode(handle, &mode) == 0 && mode == 0 && cublasSetMathMode(handle, 3) == 0);
    HOLD(cublasGetMathMode(handle, &mode) == 0 && mode == 3);
    HOLD(cublasGetMathMode(second, &mode) == 0 && mode == 0);
    HOLD(cublasGetPointerMode_v2(handle, &mode) == 0 && mode == 0);
    HOLD(cublasSdot_v2(handle, 3, matrix, 1, matrix, 1, &result) == 0 && result == 0);
    HOLD(cudaMalloc(&p, 64) == 0 && cublasSetMatrix(2, 3, 4, matrix, 2, p, 4) == 0);
    HOLD(cublasGetMatrix(2, 3, 4, p, 4, back, 2) == 0 && !memcmp(matrix, back, sizeof back));
    HOLD(cudaMemset(p, 255, 64) == 0 && cublasSetPointerMode_v2(handle, 1) == 0);
    HOLD(cublasSdot_v2(handle, 3, matrix, 1, matrix, 1, p) == 0);
    HOLD(cudaMemcpy(&result, p, 4, TO_HOST) == 0 && result == 0);
    HOLD(cublasSgemm_v2(handle) == 0 && cublasSgemm_v2(stream) == 1);
    HOLD(cublasGetVersion_v2(handle, &version) == 0 && version / 10000 == 13);
    HOLD(!strcmp(cublasGetStatusName(3), "CUBLAS_STATUS_ALLOC_FAILED"));
    HOLD(cudaFree(p) == 0 && cublasDestroy_v2(handle) == 0 && cublasDestroy_v2(handle) == 1);
    HOLD(cublasDestroy_v2(second) == 0 && live(1, "driver") == 0);
    void *most;
    size_t free_bytes, total;
    HOLD(cudaMemGetInfo(&free_bytes, &total) == 0 && cudaMalloc(&most, free_bytes) == 0);
    HOLD(cublasCreate_v2(&handle) == 3 && cudaFree(most) == 0);
}

static void no_device(void) {
    int count = 7;
    void *p;
    HOLD(cudaGetDeviceCount(&count) == NO_DEVICE && count == 0);
    HOLD(cudaMalloc(&p, 10) == NO_DEVICE && cudaGetLastError() == NO_DEVICE);
    HOLD(cudaSetDevice(0) == NO_DEVICE && cublasCreate_v2(&p) == 1);
}

static void no_driver(void) {
    int count = 7, version = 7;
    void *p;
    HOLD(cudaDriverGetVersion(&version) == 0 && version == 0);
    HOLD(cudaGetDeviceCount(&count) == INSUFFICIENT_DRIVER && count == 0);
    HOLD(cudaMalloc(&p, 10) == INSUFFICIENT_DRIVER && cublasCreate_v2(&p) == 1);
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } checks[] = {
        {"errors", errors}, {"memory", memory}, {"pitched", pitched_memory}, {"arrays", arrays},
        {"copies", copies}, {"kernels", kernels}, {"entry_points", entry_points}, {"pools", pools},
        {"pointers", pointers}, {"streams", streams}, {"graphs", graphs}, {"threads", threads}, {"reset", reset},
        {"properties", properties}, {"shared", shared}, {"blas", blas}, {"blas_only", blas_only},
        {"forked", forked}, {"no_device", no_device}, {"no_driver", no_driver},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (count == 2 && !strcmp(arguments[1], checks[i].name)) {
            checks[i].run();
            printf("%s holds\n", arguments[1]);
            return 0;
        }
    }
    return 2;
}
