/* Another tool's injection, like a profiler's: counts nested ranges and returns the depth to the program. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

static int depth;

static int push(const char *text) {
    printf("[tool: push %s]", text);
    return depth++;
}

static int pop(void) {
    printf("[tool: pop]");
    return --depth;
}

static nvtxRangeId_t start(const char *text) {
    printf("[tool: start %s]", text);
    return 4711;
}

static void end(nvtxRangeId_t id) { printf("[tool: end %d]", (int)id); }

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table) {
    const NvtxExportTableCallbacks *callbacks = table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable functions;
    unsigned size;
    if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size))
        return 0;
    *functions[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *functions[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    *functions[NVTX_CBID_CORE_RangeStartA] = (NvtxFunctionPointer)start;
    *functions[NVTX_CBID_CORE_RangeEnd] = (NvtxFunctionPointer)end;
    return 1;
}
