/* patches early|late hooks|driver [cached]: patches the first bytes of the driver's allocation functions, as ComfyUI's
 * comfy-aimdo does, and serves large requests from virtual memory management; small ones go on to the function.
 * early: before CUDA is initialised; late: after the first allocations.
 * hooks: the functions that dlsym and cuGetProcAddress give, which are the recorder's if there is one.
 * driver: the code of the driver itself, by its symbol table.
 * cached: freed memory stays mapped, and serves the next request of its size.
 * late also undoes the patch at the end. */
#include "of_driver.h"
#include <pthread.h>
#include <sys/mman.h>

enum { MIB = 1 << 20, LARGE = 4 * MIB, FUNCTIONS = 6, ROOM = 256 };

typedef int (*alloc_async_t)(pointer_t *, size_t, void *);
typedef int (*free_async_t)(pointer_t, void *);
typedef int (*create_t)(pointer_t *, size_t, const struct properties *, uint64_t);
typedef int (*reserve_t)(pointer_t *, size_t, size_t, pointer_t, uint64_t);
typedef int (*map_t)(pointer_t, size_t, size_t, pointer_t, uint64_t);
typedef int (*access_t)(pointer_t, size_t, const void *, size_t);
typedef int (*unmap_t)(pointer_t, size_t);

static const char *const names[FUNCTIONS] = {
    "cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemAllocAsync", "cuMemFreeAsync",
};
static const char *const symbols[FUNCTIONS] = {
    "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemAllocAsync_ptsz", "cuMemFreeAsync_ptsz",
};
static void *public[FUNCTIONS];  /* what the program calls */
static void *original[FUNCTIONS]; /* the way past the patch */

static create_t create;
static free_t release;
static reserve_t reserve;
static map_t map;
static access_t set_access;
static unmap_t unmap, free_range;

/* Large memory. */
static struct { pointer_t at, handle; size_t bytes; int is_used; } large[64];
static int cached;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int serve(pointer_t *pointer, size_t bytes) {
    struct properties properties = {.type = 1, .location = {1, 0}};
    struct { struct location location; uint32_t flags; } access = {{1, 0}, 3};
    pointer_t handle, at;
    size_t whole = (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    pthread_mutex_lock(&lock);
    for (int place = 0; place < 64; place++)
        if (large[place].bytes == whole && !large[place].is_used) {
            large[place].is_used = 1;
            *pointer = large[place].at;
            pthread_mutex_unlock(&lock);
            return 0;
        }
    pthread_mutex_unlock(&lock);
    int error = create(&handle, whole, &properties, 0);
    if (error != 0)
        return error;
    CHECK(reserve(&at, whole, 0, 0, 0));
    CHECK(map(at, whole, 0, handle, 0));
    CHECK(set_access(at, whole, &access, 1));
    pthread_mutex_lock(&lock);
    int place = 0;
    while (large[place].bytes != 0)
        place++;
    large[place].at = at, large[place].handle = handle, large[place].bytes = whole;
    large[place].is_used = 1;
    pthread_mutex_unlock(&lock);
    *pointer = at;
    return 0;
}

/* Whether the memory was served, and is freed now. */
static int unserve(pointer_t at) {
    pointer_t handle = 0;
    size_t bytes = 0;
    pthread_mutex_lock(&lock);
    for (int place = 0; place < 64; place++)
        if (large[place].bytes != 0 && large[place].at == at) {
            handle = large[place].handle, bytes = large[place].bytes;
            large[place].is_used = 0;
            if (!cached)
                large[place].bytes = 0;
        }
    pthread_mutex_unlock(&lock);
    if (bytes == 0 || cached)
        return bytes != 0;
    CHECK(unmap(at, bytes));
    CHECK(release(handle));
    CHECK(free_range(at, bytes));
    return 1;
}

static int my_alloc(pointer_t *pointer, size_t bytes) {
    return bytes >= LARGE ? serve(pointer, bytes) : ((alloc_t)original[0])(pointer, bytes);
}
static int my_free(pointer_t pointer) {
    return unserve(pointer) ? 0 : ((free_t)original[1])(pointer);
}
/* Stream-ordered memory goes on; where there is no room, once more. */
static int my_alloc_async(pointer_t *pointer, size_t bytes, void *stream) {
    int error = ((alloc_async_t)original[2])(pointer, bytes, stream);
    return error == 0 ? 0 : ((alloc_async_t)original[2])(pointer, bytes, stream);
}
static int my_free_async(pointer_t pointer, void *stream) {
    return unserve(pointer) ? 0 : ((free_async_t)original[3])(pointer, stream);
}
static int my_alloc_async_own(pointer_t *pointer, size_t bytes, void *stream) {
    return bytes >= LARGE ? serve(pointer, bytes) : ((alloc_async_t)original[4])(pointer, bytes, stream);
}
static int my_free_async_own(pointer_t pointer, void *stream) {
    return unserve(pointer) ? 0 : ((free_async_t)original[5])(pointer, stream);
}

static unsigned char *near(void *code) {
    uintptr_t page = (uintptr_t)code & ~(uintptr_t)4095;
    for (uintptr_t away = 4096; away < (uintptr_t)1 << 30; away += 65536) {
        void *found = mmap((void *)(page - away), 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (found == (void *)(page - away))
            return found;
        if (found != MAP_FAILED)
            munmap(found, 4096);
    }
    DIE("no memory near %p", code);
}

/* Length of the instruction at `code`; `relative`: where its displacement from the next instruction is, or 0. Only what
 * functions begin with. */
static int length(const unsigned char *code, int *relative) {
    int at = 0;
    *relative = 0;
    if (memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0)
        return 4; /* endbr64 */
    while (code[at] == 0x64 || code[at] == 0x66)
        at++;
    if ((code[at] & 0xf0) == 0x40)
        at++; /* REX */
    unsigned char op = code[at++];
    if (op == 0xe9 || op == 0xe8)
        return *relative = at, at + 4;
    if (op >= 0x50 && op <= 0x5f)
        return at;
    if (op == 0x0f && code[at] == 0x1f)
        at++;
    else if (op != 0x8b && op != 0x89 && op != 0x8d && op != 0x85 && op != 0x31 && op != 0x33 && op != 0x39 &&
             op != 0x3b && op != 0x81 && op != 0x83 && op != 0xc7)
        DIE("cannot patch: instruction %02x", op);
    unsigned char modes = code[at++], mode = modes >> 6, base = modes & 7;
    if (mode != 3 && base == 4 && (code[at++] & 7) == 5 && mode == 0)
        at += 4;
    if (mode == 0 && base == 5)
        *relative = at, at += 4;
    else if (mode == 1)
        at += 1;
    else if (mode == 2)
        at += 4;
    return at + (op == 0x83 ? 1 : op == 0x81 || op == 0xc7 ? 4 : 0);
}

static unsigned char *jump_far(unsigned char *from, const void *to) {
    memcpy(from, "\xff\x25\0\0\0\0", 6);
    memcpy(from + 6, &to, 8);
    return from + 14;
}

static unsigned char saved[FUNCTIONS][5];

static void writable(unsigned char *code, int protection) {
    unsigned char *page = (unsigned char *)((uintptr_t)code & ~(uintptr_t)4095);
    CHECK(mprotect(page, 2 * 4096, protection));
}

static void patch(int which, unsigned char *code, void *replacement) {
    unsigned char *room = near(code), *to = room + 32;
    int taken = 0, relative;
    jump_far(room, replacement);
    original[which] = to;
    while (taken < 5) {
        int bytes = length(code + taken, &relative);
        if (code[taken] == 0xe9) { /* the function is a jump */
            int distance;
            memcpy(&distance, code + taken + 1, 4);
            to = jump_far(to, code + taken + 5 + distance);
            taken += 5;
            break;
        }
        memcpy(to, code + taken, bytes);
        if (relative != 0) {
            int distance;
            memcpy(&distance, code + taken + relative, 4);
            distance += (int)((code + taken) - to);
            memcpy(to + relative, &distance, 4);
        }
        to += bytes, taken += bytes;
    }
    jump_far(to, code + taken);
    memcpy(saved[which], code, 5);
    writable(code, PROT_READ | PROT_WRITE | PROT_EXEC);
    int distance = (int)(room - (code + 5));
    code[0] = 0xe9;
    memcpy(code + 1, &distance, 4);
    writable(code, PROT_READ | PROT_EXEC);
}

static void patch_all(int driver_itself) {
    static void *const replacements[FUNCTIONS] = {
        my_alloc, my_free, my_alloc_async, my_free_async, my_alloc_async_own, my_free_async_own,
    };
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL)
        DIE("the driver is not loaded");
    proc1_t get = (proc1_t)need(library, "cuGetProcAddress");
    for (int i = 0; i < FUNCTIONS; i++) {
        void *code = NULL;
        CHECK(get(names[i], &code, 12000, i >= 4 ? 2 : 0));
        if (driver_itself)
            code = of_driver(library, symbols[i]);
        patch(i, code, replacements[i]);
    }
}

static void unpatch_all(int driver_itself) {
    for (int i = 0; i < FUNCTIONS; i++) {
        unsigned char *code = driver_itself ? of_driver(driver(), symbols[i]) : public[i];
        writable(code, PROT_READ | PROT_WRITE | PROT_EXEC);
        memcpy(code, saved[i], 5);
        writable(code, PROT_READ | PROT_EXEC);
    }
}

/* Threads take turns, so that the peak does not depend on them. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *use(void *unused) {
    pointer_t some[4];
    start();
    for (int round = 0; round < 20; round++) {
        pthread_mutex_lock(&turn);
        CHECK(((alloc_t)public[0])(&some[0], 700));
        CHECK(((alloc_t)public[0])(&some[1], LARGE + 1));
        CHECK(((alloc_async_t)public[2])(&some[2], 9000, NULL));
        CHECK(((alloc_async_t)public[4])(&some[3], 9 * MIB, NULL));
        CHECK(((free_t)public[1])(some[0]));
        CHECK(((free_t)public[1])(some[1]));
        CHECK(((free_async_t)public[3])(some[2], NULL));
        CHECK(((free_async_t)public[5])(some[3], NULL));
        pthread_mutex_unlock(&turn);
    }
    return unused;
}

int main(int argc, char **argv) {
    int late = argc > 1 && strcmp(argv[1], "late") == 0, driver_itself = argc > 2 && strcmp(argv[2], "driver") == 0;
    pointer_t kept[8];
    pthread_t threads[2];
    cached = argc > 3;
    for (int i = 0; i < FUNCTIONS; i++)
        public[i] = need(driver(), symbols[i]);
    *(void **)&create = need(driver(), "cuMemCreate");
    *(void **)&release = need(driver(), "cuMemRelease");
    *(void **)&reserve = need(driver(), "cuMemAddressReserve");
    *(void **)&map = need(driver(), "cuMemMap");
    *(void **)&set_access = need(driver(), "cuMemSetAccess");
    *(void **)&unmap = need(driver(), "cuMemUnmap");
    *(void **)&free_range = need(driver(), "cuMemAddressFree");
    if (late) {
        start();
        CHECK(((alloc_t)public[0])(&kept[0], 1000));
        CHECK(((alloc_t)public[0])(&kept[1], 10 * MIB));
        CHECK(((alloc_async_t)public[2])(&kept[2], 5000, NULL));
        AGREE("what was there before");
        patch_all(driver_itself);
        CHECK(((free_t)public[1])(kept[0]));
        CHECK(((free_async_t)public[3])(kept[2], NULL));
    } else {
        patch_all(driver_itself);
        start();
        CHECK(((alloc_t)public[0])(&kept[1], 10 * MIB));
    }
    AGREE("the patch");
    CHECK(((alloc_t)public[0])(&kept[3], 2000));
    AGREE("a small one");
    CHECK(((alloc_t)public[0])(&kept[4], 6 * MIB));
    AGREE("a large one");
    CHECK(((alloc_async_t)public[2])(&kept[5], 3 * MIB, NULL));
    AGREE("a stream-ordered one");
    CHECK(((alloc_async_t)public[4])(&kept[6], 20 * MIB, NULL));
    AGREE("a large stream-ordered one");
    CHECK(((alloc_async_t)public[2])(&kept[7], (size_t)1 << 44, NULL) != 2);
    CHECK(((alloc_t)public[0])(&kept[7], (size_t)1 << 44) != 2);
    AGREE("two that do not fit");
    CHECK(((free_t)public[1])(kept[4]));
    AGREE("its end");
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, use, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK(((free_t)public[1])(kept[1]));
    CHECK(((free_async_t)public[5])(kept[6], NULL));
    AGREE("the threads");
    if (late)
        unpatch_all(driver_itself);
    CHECK(((free_t)public[1])(kept[3]));
    CHECK(((alloc_t)public[0])(&kept[3], 12345));
    AGREE("the end");
    tell_books("end");
    return 21;
}
