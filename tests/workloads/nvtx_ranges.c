/* Every way of NVTX to name a range, in this program's copy of NVTX. Prints NVTX's figures of nested
 * ranges, which must not change. Allocates a different size within each range. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);

static void allocate(size_t bytes) {
    unsigned long long pointer;
    if (cuMemAlloc_v2(&pointer, bytes) != 0)
        exit(3);
}

static nvtxEventAttributes_t attributes(int kind) {
    nvtxEventAttributes_t made = {0};
    made.version = NVTX_VERSION;
    made.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    made.messageType = kind;
    return made;
}

int main(void) {
    void *context;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 3;
    nvtxDomainHandle_t domain = nvtxDomainCreateA("own");
    nvtxStringHandle_t text = nvtxDomainRegisterStringA(domain, "registered");
    nvtxEventAttributes_t plain = attributes(NVTX_MESSAGE_TYPE_ASCII);
    plain.message.ascii = "attributes";
    nvtxEventAttributes_t wide = attributes(NVTX_MESSAGE_TYPE_UNICODE);
    wide.message.unicode = L"gr\u00f6\u00dfe";
    nvtxEventAttributes_t known = attributes(NVTX_MESSAGE_TYPE_REGISTERED);
    known.message.registered = text;

    allocate(1000);
    printf("%d", nvtxRangePushA("narrow"));
    printf(" %d", nvtxRangePushW(L"wide"));
    printf(" %d", nvtxRangePushEx(&plain));
    allocate(1001);
    printf(" %d", nvtxDomainRangePushEx(domain, &wide));
    printf(" %d", nvtxRangePop());
    allocate(1002);
    printf(" %d", nvtxDomainRangePushEx(domain, &known));
    printf(" %d", nvtxDomainRangePop(domain));
    printf(" %d", nvtxDomainRangePop(domain));
    printf(" %d", nvtxRangePop());
    printf(" %d\n", nvtxRangePop());
    nvtxRangeId_t first = nvtxRangeStartA("started");
    nvtxRangeId_t second = nvtxDomainRangeStartEx(domain, &known);
    nvtxRangeEnd(first);
    nvtxDomainRangeEnd(domain, second);
    printf(" %d", nvtxRangePop()); /* one too many */
    printf("\n");
    return 0;
}
