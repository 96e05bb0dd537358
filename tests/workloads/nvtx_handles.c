/* nvtx_handles: whether a tool answers NVTX: without one, domains and strings have no handles. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

int main(void) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("a domain");
    nvtxStringHandle_t text = nvtxDomainRegisterStringA(domain, "a text");
    printf("%s %s\n", domain ? "a handle" : "none", text ? "a handle" : "none");
    return 0;
}
