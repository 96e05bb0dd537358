/* The simulated runtime of CUDA 13 where the same memory has a second address or owner: one check,
 * named by the argument. Ends with 1 at the first fault. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct { size_t width, height, depth; } extent;
typedef struct { int x, y, z, w, kind; } channels;
typedef struct { int kind, handles, place, id; void *security; size_t most; char rest[56]; } pool_properties;
typedef struct { char bytes[64]; } exported;
typedef struct { int type; union { int file; void *two[2]; } handle; unsigned long long bytes; unsigned flags, rest[16]; } external_handle;
typedef struct { unsigned long long offset, bytes; unsigned flags, rest[16]; } external_buffer;
typedef struct { unsigned long long offset; channels format; extent size; unsigned flags, levels, rest[16]; } external_array;
typedef struct { int type; char padding[92]; unsigned count, least, step, flags, rest[6]; void *next; } resource;

extern int cudaSetDevice(int), cudaMemcpy(void *, const void *, size_t, int), cudaFree(void *);
extern int cudaMemPoolCreate(void **, const void *), cudaMemPoolDestroy(void *);
extern int cudaMallocFromPoolAsync(void **, size_t, void *, void *), cudaFreeAsync(void *, void *);
extern int cudaMemPoolExportToShareableHandle(void *, void *, int, unsigned);
extern int cudaMemPoolImportFromShareableHandle(void **, void *, int, unsigned);
extern int cudaMemPoolExportPointer(exported *, void *), cudaMemPoolImportPointer(void **, void *, exported *);
extern int cudaMemGetDefaultMemPool(void **, const void *, int), cudaMemGetMemPool(void **, const void *, int);
extern int cudaMemSetMemPool(const void *, int, void *);
extern int cudaImportExternalMemory(void **, const external_handle *), cudaDestroyExternalMemory(void *);
extern int cudaExternalMemoryGetMappedBuffer(void **, void *, const external_buffer *);
extern int cudaExternalMemoryGetMappedMipmappedArray(void **, void *, const external_array *);
extern int cudaGetMipmappedArrayLevel(void **, void *, unsigned), cudaFreeMipmappedArray(void *);
extern int cudaArrayGetInfo(channels *, extent *, unsigned *, void *);
extern int cudaMalloc3DArray(void **, const channels *, extent, unsigned), cudaFreeArray(void *);
extern int cudaMallocMipmappedArray(void **, const channels *, extent, unsigned, unsigned);
extern int cudaDeviceGetDevResource(int, resource *, int), cudaDevResourceGenerateDesc(void **, resource *, unsigned);
extern int cudaDevSmResourceSplitByCount(resource *, unsigned *, const resource *, resource *, unsigned, unsigned);
extern int cudaGreenCtxCreate(void **, void *, int, unsigned), cudaExecutionCtxDestroy(void *);
extern int cudaExecutionCtxGetDevResource(void *, resource *, int), cudaExecutionCtxGetDevice(int *, void *);
extern int cudaExecutionCtxGetId(void *, unsigned long long *), cudaExecutionCtxSynchronize(void *);
extern int cudaExecutionCtxStreamCreate(void **, void *, unsigned, int), cudaStreamDestroy(void *);
extern int cudaExecutionCtxRecordEvent(void *, void *), cudaExecutionCtxWaitEvent(void *, void *);
extern int cudaEventCreate(void **), cudaMallocAsync(void **, size_t, void *);

enum { TO_DEVICE = 1, TO_HOST = 2 };
enum { INVALID_VALUE = 1, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };
enum { MIB = 1 << 20 };

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

static void send_with(int to, int file, const void *data, size_t bytes) {
    struct iovec text = {(void *)data, bytes};
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &file, sizeof file);
    HOLD(sendmsg(to, &message, 0) == (ssize_t)bytes);
}

static int receive_with(int from, void *data, size_t bytes) {
    struct iovec text = {data, bytes};
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control;
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    HOLD(recvmsg(from, &message, 0) == (ssize_t)bytes);
    int file;
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}

/* A pool's memory in a process that was forked before either used CUDA. */
static void pools(void) {
    int ends[2];
    HOLD(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    exported data;
    int value = 99, seen = 0, status;
    pid_t child = fork();
    if (child == 0) {
        void *pool, *theirs, *q;
        int file = receive_with(ends[1], &data, sizeof data);
        HOLD(cudaMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)file, 1, 0) == 0);
        HOLD(cudaMemPoolImportPointer(&theirs, pool, &data) == 0);
        HOLD(cudaMemcpy(&seen, theirs, 4, TO_HOST) == 0 && seen == 99);
        seen = 100;
        HOLD(cudaMemcpy(theirs, &seen, 4, TO_DEVICE) == 0);
        HOLD(cudaMallocFromPoolAsync(&q, 100, pool, NULL) == INVALID_VALUE);
        HOLD(live(0, "driver") == 0 && cudaFreeAsync(theirs, NULL) == 0 && cudaMemPoolDestroy(pool) == 0);
        exit(0);
    }
    pool_properties properties = {.kind = 1, .handles = 1, .place = 1};
    void *pool, *p, *found;
    int file = -1;
    HOLD(cudaMemPoolCreate(&pool, &properties) == 0 && cudaMallocFromPoolAsync(&p, 1000, pool, NULL) == 0);
    HOLD(cudaMemcpy(p, &value, 4, TO_DEVICE) == 0);
    HOLD(cudaMemPoolExportToShareableHandle(&file, pool, 1, 0) == 0 && file >= 0);
    HOLD(cudaMemPoolExportPointer(&data, p) == 0);
    send_with(ends[0], file, &data, sizeof data);
    close(file);
    HOLD(waitpid(child, &status, 0) == child && status == 0);
    HOLD(cudaMemcpy(&seen, p, 4, TO_HOST) == 0 && seen == 100 && live(0, "async") == 1000);
    HOLD(cudaFreeAsync(p, NULL) == 0);
    int device[2] = {1, 0}, host[2] = {2, 0};
    HOLD(cudaMemSetMemPool(device, 1, pool) == 0 && cudaMemGetMemPool(&found, device, 1) == 0 && found == pool);
    HOLD(cudaMemPoolDestroy(pool) == 0 && cudaMemGetDefaultMemPool(&found, device, 1) == 0 && found != pool);
    HOLD(cudaMemGetDefaultMemPool(&found, host, 1) == 0);
    HOLD(cudaMemPoolExportToShareableHandle(&file, found, 1, 0) == INVALID_VALUE);
}

static void external(void) {
    int file = memfd_create("vulkan", 0), keep = dup(file);
    HOLD(file >= 0 && !ftruncate(file, 2 * MIB));
    external_handle from = {.type = 1, .handle.file = file, .bytes = 2 * MIB};
    void *memory, *p, *mipmapped, *level;
    HOLD(cudaImportExternalMemory(&memory, &from) == 0);
    external_buffer part = {.offset = 5000, .bytes = 1000};
    HOLD(cudaExternalMemoryGetMappedBuffer(&p, memory, &part) == 0);
    char back[8] = {0};
    HOLD(cudaMemcpy(p, "device", 7, TO_DEVICE) == 0 && pread(keep, back, 7, 5000) == 7 && !strcmp(back, "device"));
    external_array whole = {.offset = MIB, .format = {8, 8, 8, 8, 1}, .size = {64, 32, 0}, .levels = 2};
    HOLD(cudaExternalMemoryGetMappedMipmappedArray(&mipmapped, memory, &whole) == 0);
    extent size;
    HOLD(cudaGetMipmappedArrayLevel(&level, mipmapped, 1) == 0);
    HOLD(cudaArrayGetInfo(NULL, &size, NULL, level) == 0 && size.width == 32 && size.height == 16);
    HOLD(live(0, "driver") == 0);
    HOLD(cudaDestroyExternalMemory(memory) == 0 && cudaDestroyExternalMemory(memory) == INVALID_HANDLE);
    HOLD(cudaFree(p) == 0 && cudaFree(p) == INVALID_VALUE && cudaFreeMipmappedArray(mipmapped) == 0);
}

static void arrays(void) {
    channels one = {32, 0, 0, 0, 2};
    extent size = {256, 256, 0};
    enum { SPARSE = 0x40, DEFERRED = 0x80, NOT_SUPPORTED = 801 };
    void *plain, *levels;
    HOLD(cudaMalloc3DArray(&plain, &one, size, 0) == 0 && live(0, "array") == 256 * 256 * 4);
    HOLD(cudaMalloc3DArray(&levels, &one, size, SPARSE) == NOT_SUPPORTED);
    HOLD(cudaMallocMipmappedArray(&levels, &one, size, 9, DEFERRED) == NOT_SUPPORTED);
    HOLD(cudaMallocMipmappedArray(&levels, &one, size, 2, 0) == 0 && live(0, "array") == 256 * 256 * 9);
    HOLD(cudaFreeArray(plain) == 0 && cudaFreeMipmappedArray(levels) == 0 && live(0, "array") == 0);
}

static void green(void) {
    resource all, half[2], found;
    unsigned groups = 2;
    void *descriptor, *context, *stream, *event, *p;
    unsigned long long id;
    int device = 7;
    HOLD(cudaDeviceGetDevResource(1, &all, 1) == 0 && all.count == 132);
    HOLD(cudaDevSmResourceSplitByCount(half, &groups, &all, NULL, 0, 64) == 0 && groups == 2 && half[1].count == 64);
    HOLD(cudaDevResourceGenerateDesc(&descriptor, half, 1) == 0);
    HOLD(cudaGreenCtxCreate(&context, descriptor, 0, 0) == 915 && cudaGreenCtxCreate(&context, descriptor, 1, 1) == INVALID_VALUE);
    HOLD(cudaGreenCtxCreate(&context, descriptor, 1, 0) == 0);
    uint64_t cost = live(1, "physical");
    HOLD(cost > 0 && live(0, "physical") == 0);
    HOLD(cudaExecutionCtxGetDevice(&device, context) == 0 && device == 1);
    HOLD(cudaExecutionCtxGetDevResource(context, &found, 1) == 0 && found.count == 64);
    HOLD(cudaExecutionCtxGetId(context, &id) == 0 && cudaExecutionCtxStreamCreate(&stream, context, 1, 0) == 0);
    HOLD(cudaMallocAsync(&p, 1000, stream) == 0 && live(1, "async") == 1000);
    HOLD(cudaSetDevice(1) == 0 && live(1, "physical") == cost + 32 * MIB);
    HOLD(cudaEventCreate(&event) == 0 && cudaExecutionCtxRecordEvent(context, event) == 0);
    HOLD(cudaExecutionCtxWaitEvent(context, event) == 0 && cudaExecutionCtxSynchronize(context) == 0);
    HOLD(cudaFreeAsync(p, stream) == 0 && cudaStreamDestroy(stream) == 0);
    HOLD(cudaExecutionCtxDestroy(context) == 0 && cudaExecutionCtxDestroy(context) == INVALID_CONTEXT);
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } checks[] = {
        {"pools", pools}, {"external", external}, {"arrays", arrays}, {"green", green},
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
