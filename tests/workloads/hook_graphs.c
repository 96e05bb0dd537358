/* Memory that graphs own, by their API and by captured calls, each step checked against the simulator's
 * books. Prints no addresses, so that two runs print the same. */
#include "hook_client.h"

#define F(name, ...) int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__))need(driver(), #name)
#define MIB ((size_t)1 << 20)

struct pool_properties { /* CUmemPoolProps */
    uint32_t type, handle_types;
    struct location location;
    void *win32;
    size_t largest;
    unsigned char rest[56];
};
struct alloc_params { /* CUDA_MEM_ALLOC_NODE_PARAMS */
    struct pool_properties pool;
    const void *access;
    size_t accesses, bytes;
    pointer_t address;
};
struct node_params { /* CUgraphNodeParams */
    uint32_t type;
    int zeros[3];
    union {
        long long words[29];
        struct alloc_params alloc;
        pointer_t free;
    };
    long long zero;
};

static struct alloc_params asking_for(size_t bytes) {
    struct alloc_params params;
    memset(&params, 0, sizeof params);
    params.pool.type = 1;
    params.pool.location.type = 1;
    params.bytes = bytes;
    return params;
}

int main(void) {
    void *graph, *exec, *other, *other_exec, *stream, *node, *after;
    pointer_t captured, kept;
    F(cuGraphCreate, void **, unsigned);
    F(cuGraphDestroy, void *);
    F(cuGraphAddMemAllocNode, void **, void *, const void *, size_t, struct alloc_params *);
    F(cuGraphAddMemFreeNode, void **, void *, const void *, size_t, pointer_t);
    F(cuGraphAddNode_v2, void **, void *, const void *, const void *, size_t, struct node_params *);
    F(cuGraphInstantiateWithFlags, void **, void *, uint64_t);
    F(cuGraphLaunch, void *, void *);
    F(cuGraphExecDestroy, void *);
    F(cuDeviceGraphMemTrim, int);
    F(cuStreamCreate, void **, unsigned);
    F(cuStreamBeginCapture_v2, void *, int);
    F(cuStreamEndCapture, void *, void **);
    F(cuStreamSynchronize, void *);
    F(cuMemAllocAsync, pointer_t *, size_t, void *);
    F(cuMemFreeAsync, pointer_t, void *);
    F(cuMemFree_v2, pointer_t);

    start();
    CHECK(cuStreamCreate(&stream, 1));

    /* allocated and freed within one launch */
    CHECK(cuGraphCreate(&graph, 0));
    struct alloc_params params = asking_for(5 * MIB);
    CHECK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    CHECK(cuGraphAddMemFreeNode(&after, graph, &node, 1, params.address));
    AGREE("a node's making");
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    AGREE("an instantiation");
    for (int i = 0; i < 2; i++) {
        CHECK(cuGraphLaunch(exec, stream));
        AGREE("a launch that frees");
    }
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuDeviceGraphMemTrim(0));
    AGREE("a trim");
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));

    /* allocated in one launch, freed by a call */
    CHECK(cuGraphCreate(&graph, 0));
    struct node_params general;
    memset(&general, 0, sizeof general);
    general.type = 10;
    general.alloc = asking_for(3000);
    CHECK(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &general));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    AGREE("a launch that keeps");
    printf("a second launch: %d\n", cuGraphLaunch(exec, stream) != 0);
    AGREE("a launch that failed");
    CHECK(cuMemFreeAsync(general.alloc.address, stream));
    AGREE("a call that frees");
    CHECK(cuGraphLaunch(exec, stream));
    AGREE("a launch after that");

    /* freed by the launch of another graph */
    CHECK(cuGraphCreate(&other, 0));
    memset(&params, 0, sizeof params);
    struct node_params freeing;
    memset(&freeing, 0, sizeof freeing);
    freeing.type = 11;
    freeing.free = general.alloc.address;
    CHECK(cuGraphAddNode_v2(&after, other, NULL, NULL, 0, &freeing));
    CHECK(cuGraphInstantiateWithFlags(&other_exec, other, 0));
    CHECK(cuGraphLaunch(other_exec, stream));
    AGREE("a launch that frees another's");
    CHECK(cuGraphExecDestroy(other_exec));
    CHECK(cuGraphDestroy(other));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));

    /* captured */
    CHECK(cuStreamBeginCapture_v2(stream, 2));
    CHECK(cuMemAllocAsync(&captured, 7 * MIB, stream));
    CHECK(cuMemAllocAsync(&kept, 11 * MIB, stream));
    CHECK(cuMemFreeAsync(captured, stream));
    AGREE("captured calls");
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 1)); /* frees on launch */
    for (int i = 0; i < 3; i++) {
        CHECK(cuGraphLaunch(exec, stream));
        AGREE("a launch of what was captured");
    }
    CHECK(cuMemFree_v2(kept));
    AGREE("a plain free of a graph's memory");
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuDeviceGraphMemTrim(0));
    AGREE("the end");
    tell_books("driver");
    return 0;
}
