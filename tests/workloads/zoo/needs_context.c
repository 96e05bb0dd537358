/* A context and 1 MiB of the driver, by functions that it looks up. */
#include <dlfcn.h>
#include <stddef.h>

int main(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
  if (!driver) return 1;
  int (*initialise)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
  int (*set)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
  int (*allocate)(unsigned long long *, size_t) = (int (*)(unsigned long long *, size_t))dlsym(driver, "cuMemAlloc_v2");
  unsigned long long block = 0;
  return initialise(0) || retain(&context, 0) || set(context) || allocate(&block, 1 << 20);
}
