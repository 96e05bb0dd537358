// jumps exception|longjmp: repeatedly leaves calls of the driver in the way of thrower.cpp, and
// continues. Linked with both, so that the order is program, recorder, thrower, driver.
#include <csetjmp>
#include "../hook_client.h"

extern "C" {
extern int thrower_how;
extern jmp_buf thrower_back;
int cuMemAlloc_v2(pointer_t *, size_t);
int cuMemFree_v2(pointer_t);
}

static int how;
static volatile int left;

static void leaves_allocation() {
    pointer_t pointer;
    thrower_how = how;
    cuMemAlloc_v2(&pointer, 4321);
    DIE("the call returned");
}

static void leaves_release(pointer_t pointer) {
    thrower_how = how;
    cuMemFree_v2(pointer);
    DIE("the call returned");
}

template <typename Call> static void survives(Call call) {
    if (how == 2) {
        if (setjmp(thrower_back) == 0)
            call();
        left = left + 1;
        return;
    }
    try {
        call();
    } catch (int thrown) {
        left = left + (thrown == 17);
    }
}

int main(int argc, char **argv) {
    how = argc > 1 && strcmp(argv[1], "longjmp") == 0 ? 2 : 1;
    start();
    for (int round = 0; round < 100; round++) {
        static pointer_t pointer;
        CHECK(cuMemAlloc_v2(&pointer, 1000));
        survives([] { leaves_allocation(); });
        AGREE("an allocation that was left");
        survives([] { leaves_release(pointer); });
        AGREE("a release that was left");
        // The driver gives the same address again: its release must be seen as well.
        CHECK(cuMemAlloc_v2(&pointer, 2000));
        AGREE("an allocation");
        CHECK(cuMemFree_v2(pointer));
        AGREE("a release");
    }
    pointer_t kept;
    CHECK(cuMemAlloc_v2(&kept, 3000));
    AGREE("the last allocation");
    printf("left %d calls\n", left);
    tell_books(argv[1]);
    return 16;
}
