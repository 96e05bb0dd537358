/* Preloaded beside the recorder: a disk whose owner's quota is used up. FULL selects when:
 *   at once   no space can be reserved
 *   later     the first five writes at an offset are refused, the later ones are not */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int opened, refused;

static int is(const char *when) {
    const char *value = getenv("FULL");
    return value != NULL && strcmp(value, when) == 0;
}

int posix_fallocate64(int fd, off64_t offset, off64_t length) {
    if (is("at once"))
        return EDQUOT;
    atomic_store(&opened, 1);
    return syscall(SYS_fallocate, fd, 0, offset, length) == 0 ? 0 : errno;
}

int posix_fallocate(int fd, off_t offset, off_t length) {
    return posix_fallocate64(fd, offset, length);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    /* The head, with its two copies of what never changes, lies in the first pages. */
    if (is("later") && offset >= 16384 && atomic_fetch_add(&refused, 1) < 5) {
        errno = EDQUOT;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, length, offset);
}

/* The program does not end before the recorder has met the full disk. */
__attribute__((destructor)) static void wait_for_it(void) {
    while (is("later") && atomic_load(&opened) && atomic_load(&refused) == 0)
        usleep(1000);
}
