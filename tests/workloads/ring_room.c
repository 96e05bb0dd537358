/* ring_room FOLDER [kill]: fills the file system of FOLDER after the first calls, and makes more calls than the ring has
 * slots. Ends, or kills itself. */
#include "hook_client.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

enum { ROUNDS = 50000 };

static void fill(const char *folder) {
    static const char block[1 << 16];
    char path[4096];
    snprintf(path, sizeof path, "%s/filler", folder);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    for (size_t size = sizeof block; size != 0;)
        if (write(file, block, size) < 0) {
            if (errno != ENOSPC)
                DIE("%s: %s", path, strerror(errno));
            size /= 2;
        }
    close(file);
}

int main(int argc, char **argv) {
    pointer_t pointer;
    start();
    alloc_t alloc = (alloc_t)need(driver(), "cuMemAlloc_v2");
    free_t release = (free_t)need(driver(), "cuMemFree_v2");
    CHECK(alloc(&pointer, 1000));
    fill(argv[1]);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(alloc(&pointer, 1 + i));
        CHECK(release(pointer));
    }
    tell_books("end");
    if (argc > 2)
        kill(getpid(), SIGKILL);
    return 0;
}
